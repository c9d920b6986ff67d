// One round in a BGProcessingTask. Not compiled here. Info.plist: BGTaskSchedulerPermittedIdentifiers has "com.example.app.tern",
// and UIBackgroundModes has "processing".
import BackgroundTasks
import Tern

enum BackgroundRound {
    static let identifier = "com.example.app.tern"

    // Call it before the app has finished launching.
    static func register(makeClient: @escaping @Sendable () throws -> TernClient) {
        BGTaskScheduler.shared.register(forTaskWithIdentifier: identifier, using: nil) { task in
            schedule() // the next one
            guard let client = try? makeClient() else {
                task.setTaskCompleted(success: false)
                return
            }
            task.expirationHandler = { client.cancel() }
            Task.detached {
                let outcome = try? await client.runRound()
                task.setTaskCompleted(success: outcome != nil && outcome != .cancelled)
            }
        }
    }

    static func schedule() {
        let request = BGProcessingTaskRequest(identifier: identifier)
        request.requiresNetworkConnectivity = true
        request.requiresExternalPower = true
        request.earliestBeginDate = Date(timeIntervalSinceNow: 20 * 3600)
        try? BGTaskScheduler.shared.submit(request)
    }
}
