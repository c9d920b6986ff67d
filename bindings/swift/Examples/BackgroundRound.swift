// Enrols once, and then does one round in each BGProcessingTask. Not compiled here. Info.plist:
// BGTaskSchedulerPermittedIdentifiers has "com.example.app.tern", and UIBackgroundModes has "processing".
import BackgroundTasks
import Tern

enum BackgroundRound {
    static let identifier = "com.example.app.tern"
    static let night: TimeInterval = 20 * 3600

    // Call it before the app has finished launching. code: a join code of tern-aggregator enroll-code.
    static func register(code: String, makeClient: @escaping @Sendable () throws -> TernClient) {
        BGTaskScheduler.shared.register(forTaskWithIdentifier: identifier, using: nil) { task in
            schedule(after: night) // the next one
            guard let client = try? makeClient() else {
                task.setTaskCompleted(success: false)
                return
            }
            task.expirationHandler = { client.cancel() }
            Task.detached {
                do {
                    if await !client.isEnrolled {
                        try await client.enroll(code: code)
                    }
                    let outcome = try await client.runRound()
                    task.setTaskCompleted(success: outcome != .cancelled)
                } catch {
                    // A failure that passes comes sooner than the next night, and takes its place.
                    if let failure = error as? TernError, let seconds = failure.retryAfter {
                        schedule(after: seconds)
                    }
                    task.setTaskCompleted(success: false)
                }
            }
        }
    }

    static func schedule(after seconds: TimeInterval) {
        let request = BGProcessingTaskRequest(identifier: identifier)
        request.requiresNetworkConnectivity = true
        request.requiresExternalPower = true
        request.earliestBeginDate = Date(timeIntervalSinceNow: seconds)
        try? BGTaskScheduler.shared.submit(request)
    }
}
