// swift-tools-version:5.7
// Tern for Swift. Not built here: Debian 12 has no Swift. libtern-client and libcurl are built for the system first. On macOS and
// Linux pkg-config names their folders. For iOS put a CTernClient.xcframework with both beside this file, and use
// .binaryTarget(name: "CTernClient", path: "CTernClient.xcframework") in place of the systemLibrary.
import PackageDescription

let package = Package(
    name: "Tern",
    platforms: [.iOS(.v15), .macOS(.v12)],
    products: [.library(name: "Tern", targets: ["Tern"])],
    targets: [
        .systemLibrary(name: "CTernClient", pkgConfig: "tern-client"),
        .target(name: "CTern", dependencies: ["CTernClient"], linkerSettings: [.linkedLibrary("tern-client"), .linkedLibrary("tern"),
                                                 .linkedLibrary("mbedcrypto"), .linkedLibrary("curl")]),
        .target(name: "Tern", dependencies: ["CTern"]),
    ]
)
