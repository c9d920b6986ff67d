package io.tern;

import java.nio.charset.StandardCharsets;

/** A failure with Tern's sentence: what happened, what it means and what to do. */
public final class TernException extends Exception {
    private static final long serialVersionUID = 1L;

    static final long NEVER = -1;

    private final String result;
    private final long waitMs;

    TernException(String result, String sentence, @Nullable Throwable cause, long waitMs) {
        super(sentence, cause);
        this.result = result;
        this.waitMs = waitMs;
    }

    TernException(String result, String sentence, @Nullable Throwable cause) {
        this(result, sentence, cause, NEVER);
    }

    // For libternjni, whose texts are UTF-8.
    private TernException(byte[] result, byte[] sentence) {
        this(new String(result, StandardCharsets.UTF_8), new String(sentence, StandardCharsets.UTF_8), null);
    }

    /** Returns the name of the result in Tern's logs and on the wire, for example "unauthorized" or "tls". */
    public String result() {
        return result;
    }

    /**
     * Returns whether the same call may succeed later: the network was down, the aggregator busy, one training failed. Others,
     * such as a server that TLS refuses, need a change of the app or by the operator.
     */
    public boolean isRetryable() {
        return waitMs != NEVER;
    }

    /** Returns the milliseconds after which to call again, if isRetryable(): longer after each failure in a row, and at least what the aggregator has asked for. */
    public long waitMs() {
        return Math.max(0, waitMs);
    }
}
