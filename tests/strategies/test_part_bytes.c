// The bytes of a part: every damaged one is found, and hostile ones whose hash is right are named.
#include "strategies/part_round.h"

#include "hosted/log.h"
#include "merge/part.h"
#include "util/bytes.h"
#include "util/prng.h"
#define TERN_CASES_OWN_MAIN
#include "tests/cases.h"

#include <string.h>

struct bytes {
    uint8_t data[65536];
    size_t len;
    size_t at;
    size_t piece; // bytes that a reader is given at once
};

static enum tern_result keep_bytes(void *ctx, const uint8_t *data, size_t len)
{
    struct bytes *bytes = ctx;
    assert_true(bytes->len + len <= sizeof bytes->data);
    memcpy(bytes->data + bytes->len, data, len);
    bytes->len += len;
    return TERN_OK;
}

static enum tern_result give_bytes(void *ctx, const uint8_t **data, size_t *len)
{
    struct bytes *bytes = ctx;
    *data = bytes->data + bytes->at;
    *len = bytes->len - bytes->at < bytes->piece ? bytes->len - bytes->at : bytes->piece;
    bytes->at += *len;
    return TERN_OK;
}

static enum tern_part_fault read_bytes(struct fixture *fixture, struct bytes *bytes,
                                       uint64_t memory)
{
    struct tern_part part = {.count = 0};
    struct tern_part_round round;
    enum tern_part_fault fault = TERN_PART_NONE;
    const struct tern_part_source source = {bytes, give_bytes};
    bytes->at = 0;
    assert_ok(fixture, tern_part_round_of(fixture->db, &round_row, &round));
    assert_int_equal(tern_part_read(&part, &model, &round, memory, HALF, &source, &fault), TERN_OK);
    assert_int_equal(part.count, fault == TERN_PART_NONE ? HALF : 0);
    assert_int_equal(part.mean.used > 0, fault == TERN_PART_NONE);
    tern_part_clear(&part);
    return fault;
}

static void write_half(struct fixture *fixture, struct bytes *bytes)
{
    struct tern_part part;
    make_half(fixture, &part);
    *bytes = (struct bytes){.piece = 1000};
    assert_int_equal(tern_part_write(&part, keep_bytes, bytes), TERN_OK);
    tern_part_clear(&part);
}

// The hash of what precedes it, as somebody hostile would set it.
static void sign(struct bytes *bytes)
{
    tern_sha256(bytes->data, bytes->len - TERN_SHA256_SIZE,
                bytes->data + bytes->len - TERN_SHA256_SIZE);
}

CASE_WITH(test_every_damaged_byte_is_found, part_round_setup, fixture_teardown)
{
    static struct bytes whole;
    static struct bytes bytes;
    struct tern_prng rng;
    write_half(*state, &whole);
    for (whole.piece = 1; whole.piece < whole.len; whole.piece = whole.piece * 5 + 3) {
        assert_int_equal(read_bytes(*state, &whole, UINT64_MAX), TERN_PART_NONE);
    }
    tern_prng_init(&rng, 11, TERN_PRNG_TEST, 0, 0);
    for (size_t at = 0; at < whole.len; at += at < 2000 ? 1 : 37) {
        bytes = whole;
        bytes.data[at] ^= (uint8_t)(1 + tern_prng_below(&rng, 255));
        assert_int_not_equal(read_bytes(*state, &bytes, UINT64_MAX), TERN_PART_NONE);
    }
    for (size_t len = 0; len < whole.len; len += len < 500 ? 1 : 101) {
        bytes = whole;
        bytes.len = len;
        assert_int_equal(read_bytes(*state, &bytes, UINT64_MAX), TERN_PART_CUT);
    }
    bytes = whole;
    bytes.len++;
    assert_int_equal(read_bytes(*state, &bytes, UINT64_MAX), TERN_PART_LONG);
    bytes = whole;
    bytes.data[bytes.len - 1] ^= 1;
    assert_int_equal(read_bytes(*state, &bytes, UINT64_MAX), TERN_PART_HASH);
    assert_int_equal(read_bytes(*state, &whole, 8 * model.count - 1), TERN_PART_MEMORY);
}

// Bytes whose hash is right, changed at `at`.
static enum tern_part_fault read_changed(struct fixture *fixture, const struct bytes *whole,
                                         size_t at, uint64_t value, size_t len)
{
    static struct bytes bytes;
    uint8_t le[8];
    bytes = *whole;
    tern_put_le64(le, value);
    memcpy(bytes.data + at, le, len);
    sign(&bytes);
    return read_bytes(fixture, &bytes, UINT64_MAX);
}

CASE_WITH(test_hostile_parts_are_named, part_round_setup, fixture_teardown)
{
    static struct bytes whole;
    write_half(*state, &whole);
    const size_t head = 8 + 12 + 64 + 24 + 12 + 4 * TERN_STRATEGY_PARAMETERS + 8;
    const size_t groups = head + (size_t)HALF * 56;
    const size_t cells =
        groups + 4 * 8; // of four numbers of steps; fedavg has one group, see below
    (void)cells;
    assert_int_equal(read_changed(*state, &whole, 0, 'x', 1), TERN_PART_FORM);
    assert_int_equal(read_changed(*state, &whole, 8, 2, 4), TERN_PART_FORM);
    assert_int_equal(read_changed(*state, &whole, 12, ROUND + 1, 4), TERN_PART_ROUND);
    assert_int_equal(read_changed(*state, &whole, 16, 1, 4), TERN_PART_BASE);
    assert_int_equal(read_changed(*state, &whole, 20, 0, 8), TERN_PART_MODEL);
    assert_int_equal(read_changed(*state, &whole, 52, 0, 8), TERN_PART_BASE);
    assert_int_equal(read_changed(*state, &whole, 84, 'x', 1), TERN_PART_STRATEGY);
    // More updates than the round has, or none; none of its groups; more groups than updates.
    assert_int_equal(read_changed(*state, &whole, head - 8, UINT32_MAX, 4), TERN_PART_UPDATES);
    assert_int_equal(read_changed(*state, &whole, head - 8, 0, 4), TERN_PART_UPDATES);
    assert_int_equal(read_changed(*state, &whole, head - 4, 0, 4), TERN_PART_GROUPS);
    assert_int_equal(read_changed(*state, &whole, head - 4, UINT32_MAX, 4), TERN_PART_GROUPS);
    // A client twice; no examples, no steps; a norm that is none, or beyond all that is accepted.
    assert_int_equal(read_changed(*state, &whole, head + 56, updates[0].arrival.client, 8),
                     TERN_PART_UPDATES);
    assert_int_equal(read_changed(*state, &whole, head + 8, 0, 4), TERN_PART_UPDATES);
    assert_int_equal(read_changed(*state, &whole, head + 12, 0, 4), TERN_PART_UPDATES);
    assert_int_equal(read_changed(*state, &whole, head + 16, UINT64_C(0x7ff8) << 48, 8),
                     TERN_PART_UPDATES);
    assert_int_equal(read_changed(*state, &whole, head + 16, UINT64_C(0x7fe0) << 48, 8),
                     TERN_PART_UPDATES);
    assert_int_equal(read_changed(*state, &whole, head + 16, UINT64_C(0xbff0) << 48, 8),
                     TERN_PART_UPDATES);
    // Steps that no update of it did; a bin that there is not.
    assert_int_equal(read_changed(*state, &whole, groups, 77, 4), TERN_PART_GROUPS);
    assert_int_equal(read_changed(*state, &whole, groups + 4, 1 << 16, 4), TERN_PART_GROUPS);
    // Wider cells than there are.
    assert_int_equal(read_changed(*state, &whole, cells, 9, 1), TERN_PART_FORM);
    // Its updates are not so large.
    for (uint32_t u = 0; u < HALF; u++) {
        const size_t norm = head + 56 * u + 16;
        tern_put_le64(whole.data + norm, tern_double_bits(0x1p-60));
    }
    assert_int_equal(read_changed(*state, &whole, 0, 't', 1), TERN_PART_SUMS);
}

int main(void)
{
    tern_log_set_level(TERN_LOG_ERROR);
    return test_cases_run(&cases_of_this_file, __FILE__);
}
