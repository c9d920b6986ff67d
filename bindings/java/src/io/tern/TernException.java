package io.tern;

import java.nio.charset.StandardCharsets;

/** A failure with Tern's sentence: what happened, what it means and what to do. */
public final class TernException extends Exception {
    private static final long serialVersionUID = 1L;

    private final String result;

    TernException(String result, String sentence, @Nullable Throwable cause) {
        super(sentence, cause);
        this.result = result;
    }

    // For libternjni, whose texts are UTF-8.
    private TernException(byte[] result, byte[] sentence) {
        this(new String(result, StandardCharsets.UTF_8), new String(sentence, StandardCharsets.UTF_8), null);
    }

    /** Returns the name of the result in Tern's logs and on the wire, for example "unauthorized" or "tls". */
    public String result() {
        return result;
    }
}
