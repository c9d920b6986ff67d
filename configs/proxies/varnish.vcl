# Varnish with tern-aggregator's downloads: /etc/varnish/default.vcl, between the two halves of haproxy-varnish.cfg,
# which ends TLS before it and speaks TLS with the aggregator behind it. For each download Varnish asks the aggregator
# whether the client may have it (GET /v1/authorize/..., docs/PROTOCOL.md), and starts the request anew if so.
vcl 4.1;

backend aggregator {
    .host = "127.0.0.1";
    .port = "8081";
}

sub vcl_recv {
    if (req.restarts > 0) {
        # Only vcl_deliver restarts, once the client may have the download.
        set req.url = "/v1/downloads/" + req.http.X-Tern-Name;
        return (hash);
    }
    unset req.http.X-Tern-Name;
    if (req.method != "GET") {
        return (synth(405));
    }
    if (req.url !~ "\A/v1/downloads/[A-Za-z0-9_-]{43}(\?[^#]*)?\z" || req.http.Content-Length ||
        req.http.Transfer-Encoding) {
        return (synth(404));
    }
    set req.http.X-Tern-Name = regsub(req.url, "\A/v1/downloads/([A-Za-z0-9_-]{43}).*\z", "\1");
    # Of several ranges, which may overlap, and of other forms than Tern's, the whole is sent.
    if (req.http.Range !~ "\Abytes=[0-9]+-\z") {
        unset req.http.Range;
    }
    unset req.http.If-None-Match;
    unset req.http.If-Modified-Since;
    unset req.http.If-Range;
    unset req.http.Cookie;
    set req.url = "/v1/authorize/" + req.http.X-Tern-Name;
    return (pass);
}

# The name says what the bytes are: nothing else of a request leads to them.
sub vcl_hash {
    hash_data(req.url);
    return (lookup);
}

sub vcl_backend_fetch {
    unset bereq.http.X-Tern-Name;
    unset bereq.http.X-Forwarded-For;
    unset bereq.http.X-Varnish;
    unset bereq.http.Via;
}

sub vcl_backend_response {
    # One client's own is for each who may have it to fetch; a refusal is kept for nobody.
    if (beresp.status == 200 && beresp.http.Cache-Control ~ "\Aprivate\b") {
        set beresp.uncacheable = true;
        set beresp.ttl = 1h;
    } elseif (beresp.status != 200 || beresp.http.Cache-Control !~ "\Apublic\b") {
        set beresp.uncacheable = true;
        set beresp.ttl = 0s;
    }
    set beresp.grace = 0s;
    return (deliver);
}

sub vcl_deliver {
    if (req.restarts == 0 && resp.status == 204) {
        return (restart);
    }
    # server.cache_from of the aggregator does not name HAProxy's address.
    if (req.restarts == 0 && resp.status == 403) {
        return (synth(503));
    }
    unset resp.http.Via;
    unset resp.http.X-Varnish;
    unset resp.http.Age;
    return (deliver);
}

# A failed fetch, too: the client comes again. 404 is an Error message (docs/PROTOCOL.md): field 1, 9 bytes.
sub vcl_synth {
    if (resp.status == 404) {
        synthetic({"
	not-found"});
    } else {
        synthetic("busy");
    }
    return (deliver);
}

sub vcl_backend_error {
    set beresp.status = 503;
    set beresp.ttl = 0s;
    set beresp.uncacheable = true;
    synthetic("busy");
    return (deliver);
}
