// Carries Tern's requests by HttpsURLConnection, which the JDK and Android have. docs/MOBILE.md.
package com.example.app; // your app's

import io.tern.Transport;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URL;
import java.util.Map;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLSocketFactory;

public final class HttpsTransport implements Transport {
    private final SSLSocketFactory trust;
    private volatile HttpsURLConnection current;

    /** trust: of a federation with a CA of its own; null: the system's. */
    public HttpsTransport(SSLSocketFactory trust) {
        this.trust = trust;
    }

    @Override
    public Response exchange(Request request) throws IOException {
        HttpsURLConnection link = (HttpsURLConnection) new URL(request.url).openConnection();
        current = link;
        if (trust != null) {
            link.setSSLSocketFactory(trust);
        }
        link.setInstanceFollowRedirects(false);
        link.setConnectTimeout(20000);
        link.setReadTimeout(request.timeoutMs);
        link.setRequestMethod(request.method);
        link.setRequestProperty("Accept-Encoding", "identity");
        for (Map.Entry<String, String> header : request.headers.entrySet()) {
            link.setRequestProperty(header.getKey(), header.getValue());
        }
        if (request.bodyLength > 0) {
            link.setDoOutput(true);
            link.setFixedLengthStreamingMode(request.bodyLength); // so that it is never sent twice
            send(request.body, link);
        }
        int status = link.getResponseCode();
        InputStream body = status < 400 ? link.getInputStream() : link.getErrorStream();
        return new Response(status, link.getHeaderField("Retry-After"),
                body != null ? body : new ByteArrayInputStream(new byte[0]));
    }

    private static void send(InputStream body, HttpsURLConnection link) throws IOException {
        byte[] block = new byte[16384];
        OutputStream out = link.getOutputStream();
        try {
            for (int got = body.read(block); got >= 0; got = body.read(block)) {
                out.write(block, 0, got);
            }
        } catch (IOException ended) { // by the client or the network
            link.disconnect();
            throw ended;
        }
    }

    @Override
    public void cancel() {
        HttpsURLConnection link = current;
        if (link != null) {
            link.disconnect();
        }
    }
}
