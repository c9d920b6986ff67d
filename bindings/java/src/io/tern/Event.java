package io.tern;

/** One event of the client. Fields that the kind does not set are zero or null. */
public final class Event {
    /** The kinds, in the order of the C library. */
    public enum Kind {
        ENROLLED, STARTED_OVER, TASK, DOWNLOADED, TRAINED, ENCODED, STATISTICS, SCALED, OTHER_COLUMNS, TICKET, SETTLED,
        UPLOADED, EVALUATED, WAITING, PAUSED, RESUMED, FAILURE, BUDGET, FINISHED, PROGRESS;

        /** Returns the name in Tern's logs, for example "other-columns". */
        public String logName() {
            return name().toLowerCase(java.util.Locale.ROOT).replace('_', '-');
        }
    }

    public final Kind kind;
    /** Result of a failure, or the aggregator's answer to an update: "ok", "late", "network" and so on. */
    public final String result;
    public final int round;
    public final int version;
    public final int sequence;
    public final int localSteps;
    public final int numExamples;
    /** Bytes of the download or of the update; PROGRESS: bytes of a body that have moved. */
    public final long bytes;
    /** PROGRESS: bytes of the whole body; 0: unknown. */
    public final long bytesTotal;
    /** PROGRESS: the body goes to the aggregator. */
    public final boolean up;
    /** UPLOADED: bytes on the wire of the round, in both directions. */
    public final long roundBytes;
    /** BUDGET: bytes that the budget has left. */
    public final long budgetLeft;
    public final float loss;
    public final float accuracy;
    /** HTTP status of a failed request; 0: no answer arrived. */
    public final int status;
    /** Milliseconds until the client continues. */
    public final long waitMs;
    /** UPLOADED: the aggregator had already accepted this update. */
    public final boolean duplicate;
    /** Reason, a clause in English. */
    public final @Nullable String why;

    Event(int kind, String result, int[] numbers, long[] sizes, float loss, float accuracy, boolean duplicate,
            @Nullable String why) {
        this.kind = Kind.values()[kind];
        this.result = result;
        round = numbers[0];
        version = numbers[1];
        sequence = numbers[2];
        localSteps = numbers[3];
        numExamples = numbers[4];
        status = numbers[5];
        bytes = sizes[0];
        roundBytes = sizes[1];
        budgetLeft = sizes[2];
        waitMs = sizes[3];
        bytesTotal = sizes[4];
        up = kind == Kind.PROGRESS.ordinal() && numbers[6] == 0;
        this.loss = loss;
        this.accuracy = accuracy;
        this.duplicate = duplicate;
        this.why = why;
    }

    @Override
    public String toString() {
        return kind.logName() + " round=" + round + " bytes=" + bytes + (why != null ? " why=" + why : "");
    }
}
