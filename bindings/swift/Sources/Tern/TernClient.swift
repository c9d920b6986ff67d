// One client of a federation. Not compiled here.
import CTern
import Foundation

public struct TernError: Error {
    public let sentence: String
    // The result's name in Tern's logs, for example "network"; "config": the arguments of init.
    public let result: String
    // After this time the same call may succeed; nil: only after a change, such as another join code.
    public let retryAfter: TimeInterval?
}

// One event of a client: its name in logs, such as "trained", "uploaded" or "progress", whose bytes have moved.
public struct TernEvent: Sendable {
    public let name: String
    public let round: UInt32
    public let bytes: UInt64
}

// The state of the device, which the app knows. Called by the thread that works, often: it must be fast.
public protocol TernConditions: Sendable {
    var allowWork: Bool { get }
}

public actor TernClient {
    public enum Outcome: Sendable {
        case accepted, late, refused, waiting, cancelled, finished
    }

    private final class Callbacks {
        let events: AsyncStream<TernEvent>.Continuation
        let conditions: (any TernConditions)?

        init(events: AsyncStream<TernEvent>.Continuation, conditions: (any TernConditions)?) {
            self.events = events
            self.conditions = conditions
        }
    }

    // Outlives the actor's calls, so that cancel() needs no turn of the actor.
    private final class Handle: @unchecked Sendable {
        let app: OpaquePointer
        private let rows: UnsafeMutablePointer<Float>
        private let labels: UnsafeMutablePointer<UInt16>
        private let callbacks: Callbacks // outlives `app`, which has its address

        init(server: String, caFile: String?, folder: String, rows: [Float], labels: [UInt16], columns: Int,
             classes: Int, callbacks: Callbacks) throws {
            precondition(rows.count == labels.count * columns, "one label a row")
            self.callbacks = callbacks
            let context = Unmanaged.passUnretained(callbacks).toOpaque()
            self.rows = .allocate(capacity: rows.count)
            self.rows.initialize(from: rows, count: rows.count)
            self.labels = .allocate(capacity: labels.count)
            self.labels.initialize(from: labels, count: labels.count)
            var why = [CChar](repeating: 0, count: 512)
            guard let made = tern_app_open(server, caFile, folder, self.rows, self.labels, UInt32(labels.count),
                                           UInt32(columns), UInt32(classes), { context, name, round, bytes in
                let callbacks = Unmanaged<Callbacks>.fromOpaque(context!).takeUnretainedValue()
                callbacks.events.yield(TernEvent(name: String(cString: name), round: round, bytes: bytes))
            }, context, &why, 512) else {
                self.rows.deallocate()
                self.labels.deallocate()
                throw TernError(sentence: String(cString: why), result: "config", retryAfter: nil)
            }
            app = made
            if callbacks.conditions != nil {
                tern_app_set_conditions(app, { context in
                    Unmanaged<Callbacks>.fromOpaque(context!).takeUnretainedValue().conditions!.allowWork
                }, context)
            }
        }

        deinit {
            tern_app_close(app)
            callbacks.events.finish()
            rows.deallocate()
            labels.deallocate()
        }
    }

    private nonisolated let handle: Handle

    // The events of all calls, of which the newest 64 are kept until they are read.
    public nonisolated let events: AsyncStream<TernEvent>

    // conditions: while they do not allow work, rounds end as .waiting; nil: always.
    public init(server: String, caFile: String?, folder: URL, rows: [Float], labels: [UInt16], columns: Int,
                classes: Int, conditions: (any TernConditions)? = nil) throws {
        var made: AsyncStream<TernEvent>.Continuation!
        events = AsyncStream(bufferingPolicy: .bufferingNewest(64)) { made = $0 }
        handle = try Handle(server: server, caFile: caFile, folder: folder.path, rows: rows, labels: labels,
                            columns: columns, classes: classes,
                            callbacks: Callbacks(events: made, conditions: conditions))
    }

    public var isEnrolled: Bool { tern_app_is_enrolled(handle.app) }

    public var wireBytes: UInt64 { tern_app_wire_bytes(handle.app) }

    // Throws CancellationError after cancel().
    public func enroll(code: String) throws {
        if try outcome(of: tern_app_enroll(handle.app, code)) == .cancelled {
            throw CancellationError()
        }
    }

    // Blocks a thread for the time of a round.
    public func runRound() throws -> Outcome {
        try outcome(of: tern_app_run_round(handle.app))
    }

    public nonisolated func cancel() {
        tern_app_cancel(handle.app)
    }

    private func outcome(of ended: tern_app_outcome) throws -> Outcome {
        switch ended {
        case TERN_APP_DONE: return .accepted
        case TERN_APP_LATE: return .late
        case TERN_APP_REFUSED: return .refused
        case TERN_APP_WAITING: return .waiting
        case TERN_APP_CANCELLED: return .cancelled
        case TERN_APP_FINISHED: return .finished
        default:
            let wait = tern_app_wait_ms(handle.app)
            throw TernError(sentence: String(cString: tern_app_why(handle.app)),
                            result: String(cString: tern_app_result(handle.app)),
                            retryAfter: wait == UInt32.max ? nil : TimeInterval(wait) / 1000)
        }
    }
}
