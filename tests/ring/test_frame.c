// Heads of frames: what they say, and that no other bytes are taken for one.
#include "mesh/frame.h"
#include "tests/cases.h"
#include <string.h>

static const struct tern_ring_limits limits = {.block = 1000, .model = 5000};

static enum tern_result read_one(enum tern_ring_frame_type type, uint32_t len)
{
    uint8_t bytes[TERN_RING_HEAD_SIZE];
    struct tern_ring_head head;
    const char *why = NULL;
    tern_ring_head_write(&(struct tern_ring_head){type, 7, len}, bytes);
    const enum tern_result result = tern_ring_head_read(bytes, &limits, &head, &why);
    if (result == TERN_OK) {
        assert_int_equal(head.type, type);
        assert_int_equal(head.epoch, 7);
        assert_int_equal(head.len, len);
    } else {
        assert_non_null(why);
    }
    return result;
}

CASE(heads_are_as_documented)
{
    static const uint8_t expected[] = {'T', 'R', 1, 3, 0x04, 0x03, 0x02, 0x01, 0xe8, 0x03, 0, 0};
    uint8_t bytes[TERN_RING_HEAD_SIZE];
    tern_ring_head_write(&(struct tern_ring_head){TERN_RING_BLOCK, 0x01020304, 1000}, bytes);
    assert_memory_equal(bytes, expected, sizeof expected);
}

CASE(lengths_are_bounded)
{
    static const struct {
        enum tern_ring_frame_type type;
        uint32_t least;
        uint32_t most;
    } rows[] = {{TERN_RING_HELLO, 68, 68},     {TERN_RING_VIEW, 8, 8},  {TERN_RING_BLOCK, 4, 1000},
                {TERN_RING_MODEL, 5000, 5000}, {TERN_RING_PULSE, 0, 0}, {TERN_RING_TERMS, 1, 8192}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(read_one(rows[i].type, rows[i].least), TERN_OK);
        assert_int_equal(read_one(rows[i].type, rows[i].most), TERN_OK);
        assert_int_equal(read_one(rows[i].type, rows[i].most + 1), TERN_ERR_TOO_LARGE);
        assert_int_equal(read_one(rows[i].type, UINT32_MAX), TERN_ERR_TOO_LARGE);
        if (rows[i].least > 0) {
            assert_int_equal(read_one(rows[i].type, rows[i].least - 1), TERN_ERR_CORRUPT);
        }
    }
}

// Each byte of a head changed to each other value: only epoch, length and type may be other ones.
CASE(other_bytes_are_no_heads)
{
    uint8_t good[TERN_RING_HEAD_SIZE];
    struct tern_ring_head head;
    const char *why = NULL;
    tern_ring_head_write(&(struct tern_ring_head){TERN_RING_BLOCK, 1, 100}, good);
    for (unsigned at = 0; at < TERN_RING_HEAD_SIZE; at++) {
        for (unsigned value = 0; value < 256; value++) {
            uint8_t bytes[TERN_RING_HEAD_SIZE];
            memcpy(bytes, good, sizeof bytes);
            bytes[at] = (uint8_t)value;
            const enum tern_result result = tern_ring_head_read(bytes, &limits, &head, &why);
            if (value == good[at]) {
                assert_int_equal(result, TERN_OK);
            } else if (at < 2) {
                assert_int_equal(result, TERN_ERR_CORRUPT);
            } else if (at == 2) {
                assert_int_equal(result, TERN_ERR_UNKNOWN);
            } else if (at == 3) {
                // Among the other types, only TERMS allows a length of 100.
                assert_int_equal(result == TERN_OK, value == TERN_RING_TERMS);
            } else if (result == TERN_OK) {
                assert_in_range(head.len, TERN_RING_BLOCK_HEAD_SIZE, limits.block);
            }
        }
    }
}

CASE(hellos_are_as_documented)
{
    struct tern_ring_hello hello = {.version = 0x01020304};
    struct tern_ring_hello back;
    uint8_t bytes[TERN_RING_HELLO_SIZE];
    memset(hello.agreement, 0xaa, sizeof hello.agreement);
    memset(hello.model, 0xbb, sizeof hello.model);
    tern_ring_hello_write(&hello, bytes);
    for (unsigned i = 0; i < TERN_RING_HELLO_SIZE; i++) {
        const uint8_t expected = i < 32 ? 0xaa : i < 36 ? (uint8_t)(36 - i) : 0xbb;
        assert_int_equal(bytes[i], expected);
    }
    tern_ring_hello_read(bytes, &back);
    assert_memory_equal(&back, &hello, sizeof hello);
}
