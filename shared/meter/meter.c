#include "meter/meter.h"

const char *tern_purpose_name(enum tern_purpose purpose)
{
    static const char *const names[] = {
#define TERN_PURPOSE_NAME(symbol, name) [symbol] = name,
        TERN_PURPOSE_LIST(TERN_PURPOSE_NAME)
#undef TERN_PURPOSE_NAME
    };
    return (unsigned)purpose < TERN_PURPOSE_COUNT ? names[purpose] : "unknown";
}

void tern_bytes_add(struct tern_bytes *into, const struct tern_bytes *other)
{
    into->payload += other->payload;
    into->http += other->http;
    into->tls += other->tls;
    into->wire += other->wire;
}

void tern_meter_add(struct tern_meter *into, const struct tern_meter *other)
{
    for (unsigned purpose = 0; purpose < TERN_PURPOSE_COUNT; purpose++) {
        for (unsigned direction = 0; direction < TERN_DIRECTION_COUNT; direction++) {
            tern_bytes_add(&into->bytes[purpose][direction], &other->bytes[purpose][direction]);
        }
    }
}

struct tern_bytes tern_meter_total(const struct tern_meter *meter, enum tern_direction direction)
{
    struct tern_bytes total = {0};
    for (unsigned purpose = 0; purpose < TERN_PURPOSE_COUNT; purpose++) {
        tern_bytes_add(&total, &meter->bytes[purpose][direction]);
    }
    return total;
}

void tern_socket_delta(const struct tern_socket_counters *before,
                       const struct tern_socket_counters *after, struct tern_bytes *sent,
                       struct tern_bytes *received)
{
    // The kernel's segment counters have 32 bits and wrap; the unsigned difference does not mind.
    uint32_t segments_sent = after->segments_sent - before->segments_sent;
    uint32_t segments_received = after->segments_received - before->segments_received;
    uint64_t bytes_sent = after->bytes_sent - before->bytes_sent;
    uint64_t repeated = after->bytes_retransmitted - before->bytes_retransmitted;

    // The stream that TLS wrote passes once; what was sent again only the wire saw. Bytes that the
    // peer repeated and this end already had are not among its received bytes, but their segments'
    // headers are counted.
    *sent = (struct tern_bytes){
        .tls = bytes_sent - repeated,
        .wire = bytes_sent + (uint64_t)segments_sent * after->header_bytes,
    };
    uint64_t bytes_received = after->bytes_received - before->bytes_received;
    *received = (struct tern_bytes){
        .tls = bytes_received,
        .wire = bytes_received + (uint64_t)segments_received * after->header_bytes,
    };
}
