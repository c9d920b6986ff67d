package io.tern;

/** Receives the client's events, in the thread that called enroll() or runRound(). */
public interface Listener {
    /**
     * Called for each event. An exception ends the call in progress, which throws it after the client has saved its state.
     */
    void onEvent(Event event);
}
