package io.tern;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/**
 * Carries the client's requests by the app's HTTP stack, for example Cronet or OkHttp. TLS and its trust are the stack's. The
 * stack must neither follow redirects, nor compress, nor repeat requests.
 */
public interface Transport {
    /**
     * Sends a request and returns its response with any status. An IOException means that no whole response arrived: the
     * client tries again later. Called in a thread of Tern, and so are reads of the response's body. The transport sends the
     * request's body as it reads it, block by block: an IOException of a read ends the exchange and must end its connection.
     */
    Response exchange(Request request) throws IOException;

    /** Closes the idle connection, if the stack can. */
    default void close() {
    }

    /**
     * Ends the exchange in progress with an IOException. Called by cancel() from any thread. The client waits 0.3 s for
     * the end, and then works on without it; what the exchange returns later is closed.
     */
    default void cancel() {
    }

    /** One request. */
    final class Request {
        public final String method;
        public final String url;
        /** Names and values of all headers that the request must have. */
        public final Map<String, String> headers;
        /** Body to send; empty for GET. A read may wait while the app's conditions are read. Any one thread may read it. */
        public final InputStream body;
        /** Bytes of the body. */
        public final int bodyLength;
        /** The exchange fails after this time without any byte in either direction. */
        public final int timeoutMs;

        Request(String method, String url, @Nullable String token, InputStream body, int bodyLength, long rangeFrom,
                int timeoutMs) {
            Map<String, String> all = new LinkedHashMap<>();
            if (token != null) {
                all.put("Authorization", "Bearer " + token);
            }
            if (rangeFrom > 0 && bodyLength == 0) {
                all.put("Range", "bytes=" + rangeFrom + "-");
            } else if (rangeFrom > 0) {
                long end = rangeFrom + bodyLength;
                all.put("Content-Range", "bytes " + rangeFrom + "-" + (end - 1) + "/" + end);
            }
            this.method = method;
            this.url = url;
            headers = Collections.unmodifiableMap(all);
            this.body = body;
            this.bodyLength = bodyLength;
            this.timeoutMs = timeoutMs;
        }
    }

    /** One response. The client reads the body to its end and closes it. */
    final class Response implements Closeable {
        public final int status;
        /** Value of the header Retry-After; null: the response has none. */
        public final @Nullable String retryAfter;
        public final InputStream body;

        public Response(int status, @Nullable String retryAfter, InputStream body) {
            this.status = status;
            this.retryAfter = retryAfter;
            this.body = Objects.requireNonNull(body, "body is null");
        }

        @Override
        public void close() throws IOException {
            body.close();
        }
    }
}
