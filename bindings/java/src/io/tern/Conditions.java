package io.tern;

/** Reports the state of the device. The app supplies it, because operating systems disclose it to apps only. */
public interface Conditions {
    /**
     * Returns the state now. Called when runRound() begins, then before requests and local steps at most once a
     * second, and after every 16 KB of a transfer, so it must be fast.
     */
    State read();

    /** The state of the device. Unknown numbers are -1. */
    final class State {
        public final boolean charging;
        public final boolean unmetered;
        public final boolean idle;
        /** Charge of the battery in percent. */
        public final int battery;
        /** Android's thermal status: 0 none, 1 light, 2 moderate, 3 severe and so on. */
        public final int heat;

        public State(boolean charging, boolean unmetered, boolean idle, int battery, int heat) {
            this.charging = charging;
            this.unmetered = unmetered;
            this.idle = idle;
            this.battery = battery;
            this.heat = heat;
        }
    }
}
