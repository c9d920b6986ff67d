// swift-tools-version:5.7
// Tern for Swift. Not built here: Debian 12 has no Swift. libtern-client and libcurl are built for the system first.
import PackageDescription

let package = Package(
    name: "Tern",
    platforms: [.iOS(.v15), .macOS(.v12)],
    products: [.library(name: "Tern", targets: ["Tern"])],
    targets: [
        .target(name: "CTern", linkerSettings: [.linkedLibrary("tern-client"), .linkedLibrary("curl")]),
        .target(name: "Tern", dependencies: ["CTern"]),
    ]
)
