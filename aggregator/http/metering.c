#include "http/metering.h"
#include <string.h>

static bool is_empty(const struct tern_bytes *bytes)
{
    return bytes->payload == 0 && bytes->http == 0 && bytes->tls == 0 && bytes->wire == 0;
}

static void report(struct tern_connection_meter *metering, const struct tern_http_tag *tag,
                   const struct tern_bytes *up, const struct tern_bytes *down)
{
    const struct tern_http_handler *handler = metering->handler;
    if (handler->on_metered != NULL && !(is_empty(up) && is_empty(down))) {
        handler->on_metered(handler->ctx, tag, up, down);
    }
}

// The bytes from the last reading to `now`, with the HTTP bytes of the same time.
static void take(struct tern_connection_meter *metering, const struct tern_socket_counters *reading,
                 struct tern_bytes *up, struct tern_bytes *down)
{
    struct tern_socket_counters now = *reading;
    // How many segments the unread bytes came in is an estimate, which may fall behind the last
    // one.
    if (now.segments_received < metering->last.segments_received) {
        now.segments_received = metering->last.segments_received;
    }
    tern_socket_delta(&metering->last, &now, down, up);
    metering->last = now;
    up->http = metering->http_up;
    down->http = metering->http_down;
    metering->http_up = 0;
    metering->http_down = 0;
}

void tern_connection_meter_handshake(struct tern_connection_meter *metering,
                                     const struct tern_stream *stream)
{
    struct tern_socket_counters now;
    tern_stream_counters(stream, &now);
    const bool first = metering->last.segments_sent == 0 && now.header_bytes > 0;
    take(metering, &now, &metering->handshake_up, &metering->handshake_down);
    if (first) {
        metering->handshake_up.wire += TERN_METER_SYN_BYTES;
        metering->handshake_down.wire += TERN_METER_SYN_BYTES;
    }
}

static void report_handshake(struct tern_connection_meter *metering,
                             const struct tern_http_tag *whose)
{
    struct tern_http_tag tag = {.client = whose->client,
                                .round = whose->round,
                                .purpose = TERN_PURPOSE_HANDSHAKE,
                                .of_cache = whose->of_cache};
    report(metering, &tag, &metering->handshake_up, &metering->handshake_down);
    memset(&metering->handshake_up, 0, sizeof metering->handshake_up);
    memset(&metering->handshake_down, 0, sizeof metering->handshake_down);
}

static void report_tagged(struct tern_connection_meter *metering, const struct tern_http_tag *tag,
                          const struct tern_socket_counters *now)
{
    struct tern_bytes up;
    struct tern_bytes down;
    take(metering, now, &up, &down);
    up.payload = tag->payload_up;
    down.payload = tag->payload_down;
    report(metering, tag, &up, &down);
}

void tern_connection_meter_exchange(struct tern_connection_meter *metering,
                                    const struct tern_stream *stream,
                                    const struct tern_http_tag *tag)
{
    struct tern_socket_counters now;
    tern_stream_counters(stream, &now);
    if (tag->client != 0) {
        report_handshake(metering, tag);
    }
    report_tagged(metering, tag, &now);
    metering->tag = *tag;
    metering->tag.payload_up = 0;
    metering->tag.payload_down = 0;
    tern_http_tag_clear_cache(&metering->tag);
}

void tern_connection_meter_close(struct tern_connection_meter *metering,
                                 const struct tern_stream *stream)
{
    struct tern_socket_counters now;
    tern_stream_final_counters(stream, &now);
    report_handshake(metering, &metering->tag);
    report_tagged(metering, &metering->tag, &now);
}
