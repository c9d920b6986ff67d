// The meter's arithmetic, against TCP exchanges counted by hand.
#include "meter/meter.h"
#include "tests/cases.h"
#include <string.h>

static void assert_bytes(struct tern_bytes got, uint64_t payload, uint64_t http, uint64_t tls,
                         uint64_t wire)
{
    assert_int_equal(got.payload, payload);
    assert_int_equal(got.http, http);
    assert_int_equal(got.tls, tls);
    assert_int_equal(got.wire, wire);
}

CASE(a_quiet_link_costs_headers_only)
{
    // 3000 bytes out in three segments, 500 bytes in in one; one pure acknowledgement each way.
    struct tern_socket_counters before = {1000, 2000, 0, 10, 20, 52};
    struct tern_socket_counters after = {4000, 2500, 0, 14, 22, 52};
    struct tern_bytes sent;
    struct tern_bytes received;
    tern_socket_delta(&before, &after, &sent, &received);
    assert_bytes(sent, 0, 0, 3000, 3000 + 4 * 52);
    assert_bytes(received, 0, 0, 500, 500 + 2 * 52);
}

CASE(retransmissions_are_wire_but_not_tls)
{
    // 3000 bytes of stream; one segment of 1448 was lost and sent again.
    struct tern_socket_counters before = {1000, 0, 100, 10, 20, 52};
    struct tern_socket_counters after = {1000 + 3000 + 1448, 0, 100 + 1448, 14, 23, 52};
    struct tern_bytes sent;
    struct tern_bytes received;
    tern_socket_delta(&before, &after, &sent, &received);
    assert_bytes(sent, 0, 0, 3000, 4448 + 4 * 52);
    assert_bytes(received, 0, 0, 0, 3 * 52);
}

CASE(segment_counters_may_wrap)
{
    struct tern_socket_counters before = {0, 0, 0, UINT32_MAX - 1, UINT32_MAX, 40};
    struct tern_socket_counters after = {10, 20, 0, 1, 0, 40};
    struct tern_bytes sent;
    struct tern_bytes received;
    tern_socket_delta(&before, &after, &sent, &received);
    assert_bytes(sent, 0, 0, 10, 10 + 3 * 40);
    assert_bytes(received, 0, 0, 20, 20 + 40);
}

CASE(many_segments_do_not_overflow)
{
    struct tern_socket_counters before = {0};
    struct tern_socket_counters after = {1, 1, 0, UINT32_MAX, UINT32_MAX, 72};
    struct tern_bytes sent;
    struct tern_bytes received;
    tern_socket_delta(&before, &after, &sent, &received);
    assert_int_equal(sent.wire, 1 + 72ull * UINT32_MAX);
    assert_int_equal(received.wire, 1 + 72ull * UINT32_MAX);
}

CASE(totals_are_sums_over_purposes)
{
    struct tern_meter meter;
    struct tern_meter sum = {0};
    uint8_t value = 0;
    memset(&meter, 0, sizeof(meter));
    for (unsigned p = 0; p < TERN_PURPOSE_COUNT; p++) {
        for (unsigned d = 0; d < TERN_DIRECTION_COUNT; d++) {
            value++;
            meter.bytes[p][d] =
                (struct tern_bytes){value, value * 10u, value * 100u, value * 1000u};
        }
    }
    tern_meter_add(&sum, &meter);
    tern_meter_add(&sum, &meter);
    // Purposes count 1 3 5 7 9 up and 2 4 6 8 10 down.
    assert_bytes(tern_meter_total(&sum, TERN_UP), 50, 500, 5000, 50000);
    assert_bytes(tern_meter_total(&sum, TERN_DOWN), 60, 600, 6000, 60000);
}

CASE(purposes_have_names)
{
    assert_string_equal(tern_purpose_name(TERN_PURPOSE_HANDSHAKE), "handshake");
    assert_string_equal(tern_purpose_name(TERN_PURPOSE_UPLOAD), "upload");
    assert_string_equal(tern_purpose_name(TERN_PURPOSE_COUNT), "unknown");
}
