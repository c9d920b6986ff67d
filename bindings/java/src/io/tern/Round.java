package io.tern;

/** How runRound() ended. */
public final class Round {
    public enum Outcome {
        /** The aggregator has accepted the update. */
        ACCEPTED,
        /** The update came after the round's end; the client keeps its values for the next one. */
        LATE,
        /** The aggregator has refused the update; why has the reason. */
        REFUSED,
        /** This evaluator's figures have reached the aggregator. */
        EVALUATED,
        /** The aggregator has no task now; waitMs is its advice. */
        WAITING,
        /** The conditions do not allow work. */
        PAUSED,
        /** A byte budget is spent. */
        BUDGET,
        /**
         * cancel() was called, or the thread was interrupted, whose flag then stays set: clear it by Thread.interrupted().
         * The next call continues the round.
         */
        CANCELLED,
        /** The federation has completed its rounds. */
        FINISHED
    }

    public final Outcome outcome;
    /** Number of the round; 0: no update was sent. */
    public final int round;
    /** Mean training loss of the round; NaN: this call has not trained. */
    public final float loss;
    /** Bytes of the update. */
    public final long updateBytes;
    /** Bytes on the wire of the round, both directions, headers included. */
    public final long wireBytes;
    public final long waitMs;
    public final @Nullable String why;

    Round(Outcome outcome, int round, float loss, long updateBytes, long wireBytes, long waitMs, @Nullable String why) {
        this.outcome = outcome;
        this.round = round;
        this.loss = loss;
        this.updateBytes = updateBytes;
        this.wireBytes = wireBytes;
        this.waitMs = waitMs;
        this.why = why;
    }

    @Override
    public String toString() {
        return outcome + " round=" + round + " loss=" + loss + " wire_bytes=" + wireBytes
                + (why != null ? " why=" + why : "");
    }
}
