// Damaged and hostile bytes get a named error; what is taken is within every limit, which is shown
// by encoding it again: the encoder checks all ranges.
#include "tests/cases.h"
#include "util/prng.h"
#include "wire/examples.h"
#include <stdlib.h>
#include <string.h>

#define MUTATIONS_PER_MESSAGE 25000

static bool is_named_error(enum tern_result result)
{
    return result == TERN_ERR_CORRUPT || result == TERN_ERR_ARGUMENT ||
           result == TERN_ERR_NON_FINITE || result == TERN_ERR_TOO_LARGE;
}

// Decodes an exact copy on the heap, so that a sanitizer sees a read behind its end.
static enum tern_result decode_copy(const struct example *example, const uint8_t *src, size_t len)
{
    static uint8_t again[4 * EXAMPLE_BYTES_MAX];
    union example_message message;
    struct tern_span container = {NULL, 0};
    size_t again_len;
    uint8_t *copy = malloc(len + (len == 0));
    assert_non_null(copy);
    memcpy(copy, src, len);
    enum tern_result result = example->decode(copy, len, &message, &container);
    if (result == TERN_OK) {
        assert_int_equal(
            example->encode_again(&message, container, again, sizeof(again), &again_len), TERN_OK);
    } else {
        assert_true(is_named_error(result));
    }
    free(copy);
    return result;
}

CASE(a_message_cut_anywhere_does_no_harm)
{
    uint8_t bytes[EXAMPLE_BYTES_MAX];
    size_t len;
    for (size_t i = 0; i < example_count; i++) {
        assert_int_equal(examples[i].encode(bytes, sizeof(bytes), &len), TERN_OK);
        for (size_t cut = 0; cut < len; cut++) {
            (void)decode_copy(&examples[i], bytes, cut);
        }
        assert_int_equal(decode_copy(&examples[i], bytes, len), TERN_OK);
    }
}

static size_t mutate(struct tern_prng *rng, uint8_t *bytes, size_t len, size_t size)
{
    unsigned changes = 1 + tern_prng_below(rng, 4);
    for (unsigned i = 0; i < changes && len > 1; i++) {
        size_t at = tern_prng_below(rng, (uint32_t)len);
        size_t count = 1 + tern_prng_below(rng, (uint32_t)(len - at));
        switch (tern_prng_below(rng, 5)) {
        case 0:
            bytes[at] ^= (uint8_t)(1u << tern_prng_below(rng, 8));
            break;
        case 1:
            bytes[at] = (uint8_t)tern_prng_u32(rng);
            break;
        case 2: // remove a piece
            memmove(bytes + at, bytes + at + count, len - at - count);
            len -= count;
            break;
        case 3: // repeat a piece
            count = len + count > size ? 0 : count;
            memmove(bytes + at + count, bytes + at, len - at);
            len += count;
            break;
        default: // cut
            len = at;
            break;
        }
    }
    return len;
}

CASE(damaged_messages_get_a_named_error)
{
    struct tern_prng rng;
    size_t taken = 0;
    size_t refused = 0;
    tern_prng_init(&rng, 2, TERN_PRNG_TEST, 0, 0);
    for (size_t i = 0; i < example_count; i++) {
        for (unsigned n = 0; n < MUTATIONS_PER_MESSAGE; n++) {
            uint8_t bytes[EXAMPLE_BYTES_MAX];
            size_t len;
            assert_int_equal(examples[i].encode(bytes, sizeof(bytes), &len), TERN_OK);
            len = mutate(&rng, bytes, len, sizeof(bytes));
            if (decode_copy(&examples[i], bytes, len) == TERN_OK) {
                taken++;
            } else {
                refused++;
            }
        }
    }
    assert_int_equal(taken + refused, example_count * MUTATIONS_PER_MESSAGE);
    assert_true(refused > taken);
    assert_true(taken > 1000);
}

CASE(noise_gets_a_named_error)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 3, TERN_PRNG_TEST, 0, 0);
    for (unsigned n = 0; n < 20000; n++) {
        uint8_t bytes[64] = {0};
        size_t len = tern_prng_below(&rng, sizeof(bytes) + 1);
        for (size_t i = 0; i < len; i++) {
            bytes[i] = (uint8_t)tern_prng_u32(&rng);
        }
        (void)decode_copy(&examples[n % example_count], bytes, len);
    }
}

// --- What nanopb alone would let pass

static enum tern_result decode_error(const char *src, size_t len)
{
    tern_Error message;
    return tern_wire_decode_error((const uint8_t *)src, len, &message);
}

#define DECODE_ERROR(literal) decode_error(literal, sizeof(literal) - 1)

CASE(tricks_with_fields_are_refused)
{
    assert_int_equal(DECODE_ERROR("\x0a\x04late"), TERN_OK);
    assert_int_equal(DECODE_ERROR("\x0a\x04la\0e"), TERN_ERR_CORRUPT);
    assert_int_equal(DECODE_ERROR("\x0a\x05late\0"), TERN_ERR_CORRUPT);
    assert_int_equal(DECODE_ERROR("\x0a\x04late\x0a\x02ok"), TERN_ERR_CORRUPT);
    assert_int_equal(DECODE_ERROR("\x0a\x04late\x0a\x04late"), TERN_ERR_CORRUPT);
    assert_int_equal(DECODE_ERROR("\x08\x01"), TERN_ERR_CORRUPT);             // wrong wire type
    assert_int_equal(DECODE_ERROR("\x0a\x04late\x0b\x0c"), TERN_ERR_CORRUPT); // group
    assert_int_equal(DECODE_ERROR("\x0a\x04late\x00"), TERN_ERR_CORRUPT);     // tag 0
    assert_int_equal(DECODE_ERROR("\x0a\x05late"), TERN_ERR_CORRUPT);
    assert_int_equal(DECODE_ERROR("\x0a\xff\xff\xff\xff\x0flate"), TERN_ERR_CORRUPT);
    assert_int_equal(DECODE_ERROR("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01late"),
                     TERN_ERR_CORRUPT);
    assert_int_equal(DECODE_ERROR(""), TERN_ERR_CORRUPT); // the name is required
}

CASE(unknown_fields_are_skipped)
{
    assert_int_equal(DECODE_ERROR("\x0a\x04late\x98\x06\x01"), TERN_OK);             // 99: varint
    assert_int_equal(DECODE_ERROR("\x9a\x06\x03\xff\x00\xff\x0a\x04late"), TERN_OK); // 99: bytes
    assert_int_equal(DECODE_ERROR("\x9d\x06\x01\x02\x03\x04\x0a\x04late"), TERN_OK); // 99: fixed32
    assert_int_equal(DECODE_ERROR("\x0a\x04late\x9a\x06\x03\xff\x00"), TERN_ERR_CORRUPT);
}

CASE(text_over_its_limit_is_refused)
{
    char bytes[64] = "\x0a\x1f"; // 31 bytes fit a name, 32 do not
    memset(bytes + 2, 'n', 40);
    assert_int_equal(decode_error(bytes, 33), TERN_OK);
    bytes[1] = 32;
    assert_int_equal(decode_error(bytes, 34), TERN_ERR_CORRUPT);
}

CASE(a_second_container_is_refused)
{
    uint8_t bytes[EXAMPLE_BYTES_MAX];
    size_t len;
    tern_Update message;
    struct tern_span container;
    example_update(&message);
    assert_int_equal(
        tern_wire_encode_update(&message, example_container, bytes, sizeof(bytes), &len), TERN_OK);
    memcpy(bytes + len, bytes + len - example_container.len - 2, example_container.len + 2);
    assert_int_equal(tern_wire_decode_update(bytes, len, &message, &container), TERN_OK);
    len += example_container.len + 2;
    assert_int_equal(tern_wire_decode_update(bytes, len, &message, &container), TERN_ERR_CORRUPT);
}

CASE(too_many_downloads_are_refused)
{
    uint8_t task[TERN_WIRE_MESSAGE_MAX];
    uint8_t bytes[TERN_WIRE_MESSAGE_MAX];
    tern_CheckinReply message;
    size_t len = 0;
    for (unsigned i = 0; i < TERN_WIRE_DOWNLOADS_MAX + 1; i++) {
        static const uint8_t head[] = {0x2a, 0x24, 0x0a, 0x20};
        memcpy(task + len, head, sizeof(head));
        example_hash((uint8_t)i, task + len + 4);
        task[len + 36] = 0x10;
        task[len + 37] = 1;
        len += 38;
    }
    bytes[0] = 0x0a;
    bytes[1] = (uint8_t)(0x80 | (len & 0x7f));
    bytes[2] = (uint8_t)(len >> 7);
    memcpy(bytes + 3, task, len);
    struct tern_span none;
    assert_int_equal(tern_wire_decode_checkin_reply(bytes, len + 3, &message, &none),
                     TERN_ERR_CORRUPT);
}

CASE(messages_over_the_limit_are_refused_unread)
{
    static uint8_t bytes[TERN_WIRE_MESSAGE_MAX + 1];
    tern_CheckinRequest message;
    assert_int_equal(tern_wire_decode_checkin_request(bytes, sizeof(bytes), &message),
                     TERN_ERR_TOO_LARGE);
}

CASE(an_empty_checkin_is_a_checkin)
{
    tern_CheckinRequest message;
    assert_int_equal(tern_wire_decode_checkin_request(NULL, 0, &message), TERN_OK);
    assert_int_equal(message.replica.size, 0);
}
