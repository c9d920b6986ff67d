// The blocks of firmware_port/rtl, simulated, against libtern and the vectors, bit for bit; and
// behind the offload table of codec/kernels/offload.h, as a board would have them. Values in the long
// run: TERN_RTL_VALUES, or ten million with TERN_LONG_TESTS, else 200,000.
#include "../shared/check.h"
#include "../shared/vectors.h"
#include "blocks.h"
#include "codec/codec.h"
#include "codec/container.h"
#include "codec/kernels/kernels.h"
#include "codec/kernels/offload.h"
#include "tensor/model.h"
#include "tests/cases.h"
#include "util/bytes.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEGMENT_MOST = 60000, PAYLOAD_MOST = 5 * SEGMENT_MOST };

// --- The driver of a board: the blocks behind the offload table

static bool offloads; // else the loops in C run
static unsigned encoded, decoded;

static bool is_ternary(enum tern_mode_byte mode)
{
    return mode == TERN_MODE_TERNARY_ZERO_RUN || mode == TERN_MODE_TERNARY_PACKED;
}

static bool is_inceptionn(enum tern_mode_byte mode)
{
    return mode == TERN_MODE_INCEPTIONN_BOUNDED || mode == TERN_MODE_INCEPTIONN_LITERAL;
}

static size_t offload_encode(const struct tern_offload_job *job)
{
    if (!offloads) {
        return 0;
    }
    if (is_ternary(job->mode)) {
        encoded++;
        return block_ternary_encode(job->mode == TERN_MODE_TERNARY_PACKED, job->scale,
                                    job->threshold, job->values, job->count, job->dst, NULL);
    }
    if (!is_inceptionn(job->mode)) {
        return 0;
    }
    struct block_facts facts;
    size_t len = block_inceptionn_encode(job->mode == TERN_MODE_INCEPTIONN_LITERAL, job->bound,
                                         job->values, job->count, job->dst, &facts);
    encoded++;
    if (!facts.bit[0]) {
        job->dst[0] = TERN_MODE_ZERO;
        return 1;
    }
    return len;
}

// Payloads begin with the mode, which the block reads, too.
static uint8_t with_mode[PAYLOAD_MOST];

static bool offload_decode(enum tern_mode_byte mode, const uint8_t *body, size_t len, float *dst,
                           size_t count)
{
    if (!offloads || !(is_ternary(mode) || is_inceptionn(mode))) {
        return false;
    }
    struct block_facts facts;
    with_mode[0] = (uint8_t)mode;
    memcpy(with_mode + 1, body, len);
    size_t came = is_ternary(mode)
                      ? block_ternary_decode(with_mode, len + 1, dst, count, &facts)
                      : block_inceptionn_decode(with_mode, len + 1, dst, count, &facts);
    assert_int_equal(came, count);
    assert_false(facts.bit[0] || facts.bit[1]); // the payload was checked
    decoded++;
    return true;
}

const struct tern_offload tern_offload = {.encode = offload_encode, .decode = offload_decode};

// --- One segment by both

static float values[SEGMENT_MOST], by_loops[SEGMENT_MOST], by_block[SEGMENT_MOST];
static uint8_t payload[PAYLOAD_MOST], other[PAYLOAD_MOST];

static enum tern_result encode(bool by_blocks, const struct tern_codec *codec, float *at,
                               size_t count, uint8_t *dst, size_t *len)
{
    offloads = by_blocks;
    enum tern_result result = tern_codec_encode(codec, NULL, at, count, dst, PAYLOAD_MOST, len);
    offloads = false;
    return result;
}

static enum tern_result decode(bool by_blocks, const uint8_t *src, size_t len, float *at,
                               size_t count)
{
    offloads = by_blocks;
    enum tern_result result = tern_codec_decode(src, len, at, count);
    offloads = false;
    return result;
}

// What libtern says of a payload that a decoder looked at, by its facts.
static enum tern_result verdict(const uint8_t *src, const struct block_facts *facts)
{
    if (is_ternary((enum tern_mode_byte)src[0]) && facts->bit[1]) {
        return TERN_ERR_NON_FINITE; // of the scale, which is checked first
    }
    return facts->bit[0] ? TERN_ERR_CORRUPT : facts->bit[1] ? TERN_ERR_NON_FINITE : TERN_OK;
}

// The decoder itself, of a payload that nobody checked.
static void check_decoder(const uint8_t *src, size_t len, size_t count)
{
    struct block_facts facts;
    enum tern_result expected = decode(false, src, len, by_loops, count);
    size_t came = is_ternary((enum tern_mode_byte)src[0])
                      ? block_ternary_decode(src, len, by_block, count, &facts)
                      : block_inceptionn_decode(src, len, by_block, count, &facts);
    if (verdict(src, &facts) != expected) {
        fail_msg("a payload of %zu bytes for %zu values: %s, not %s", len, count,
                 tern_result_name(verdict(src, &facts)), tern_result_name(expected));
    }
    if (expected == TERN_OK) {
        assert_int_equal(came, count);
        assert_same_floats(by_block, by_loops, count);
    }
}

// There and back; what is left of the values, too.
static size_t check_segment(const char *spec, size_t count)
{
    struct tern_codec codec;
    size_t len = 0;
    size_t other_len = 0;
    assert_int_equal(tern_codec_parse(spec, &codec, NULL), TERN_OK);
    memcpy(by_loops, values, count * sizeof(float));
    memcpy(by_block, values, count * sizeof(float));
    enum tern_result result = encode(false, &codec, by_loops, count, payload, &len);
    assert_int_equal(encode(true, &codec, by_block, count, other, &other_len), result);
    if (result != TERN_OK) {
        return 0;
    }
    if (len != other_len || memcmp(payload, other, len) != 0) {
        size_t at = 0;
        while (at < len && at < other_len && payload[at] == other[at]) {
            at++;
        }
        fail_msg("%s of %zu values: %zu bytes, not %zu; byte %zu differs", spec, count, other_len,
                 len, at);
    }
    assert_same_floats(by_block, by_loops, count);
    assert_int_equal(decode(false, payload, len, by_loops, count), TERN_OK);
    assert_int_equal(decode(true, payload, len, by_block, count), TERN_OK);
    assert_same_floats(by_block, by_loops, count);
    return len;
}

// --- Vectors

static bool has_block(const struct tern_codec *codec)
{
    return codec->id == TERN_CODEC_INCEPTIONN ||
           (codec->id == TERN_CODEC_3LC &&
            (codec->coder == TERN_CODER_ZERO_RUN || codec->coder == TERN_CODER_PACKED));
}

static struct vectors v;
static float expected[VECTOR_VALUES_MAX], input[VECTOR_VALUES_MAX];
static uint8_t bytes[VECTOR_LINE_MAX / 2];

CASE(test_codec_vectors)
{
    unsigned cases = 0;
    size_t count = 0;
    struct tern_codec codec = {.id = TERN_CODEC_FLOAT32};
    size_t len = 0;
    blocks_pause(64, 64, 1);
    encoded = decoded = 0;
    vectors_open(&v, "codecs.txt");
    while (vectors_next(&v)) {
        if (strcmp(v.key, "input") == 0) {
            vectors_word(&v);
            count = vectors_floats(&v, input);
        } else if (strcmp(v.key, "case") == 0) {
            assert_int_equal(tern_codec_parse(vectors_word(&v), &codec, NULL), TERN_OK);
        } else if (has_block(&codec) && strcmp(v.key, "refused") == 0) {
            memcpy(values, input, count * sizeof(float));
            assert_string_equal(
                tern_result_name(encode(true, &codec, values, count, payload, &len)), v.rest);
        } else if (has_block(&codec) && strcmp(v.key, "payload") == 0) {
            memcpy(values, input, count * sizeof(float));
            assert_int_equal(encode(true, &codec, values, count, payload, &len), TERN_OK);
            assert_int_equal(vectors_bytes(&v, bytes), len);
            assert_memory_equal(payload, bytes, len);
            assert_int_equal(decode(true, payload, len, by_block, count), TERN_OK);
            assert_int_equal(decode(false, payload, len, by_loops, count), TERN_OK);
            assert_same_floats(by_block, by_loops, count);
            cases++;
        } else if (has_block(&codec) && strcmp(v.key, "fed-back") == 0) {
            assert_int_equal(vectors_floats(&v, expected), count);
            assert_same_floats(values, expected, count);
        }
    }
    printf("%u vectors of codecs; %u segments encoded by blocks, %u decoded\n", cases, encoded,
           decoded);
    assert_true(cases > 50 && encoded > 30 && decoded > 30);
}

// Payloads by hand, valid and not.
CASE(test_payload_vectors)
{
    unsigned cases = 0;
    blocks_pause(64, 64, 2);
    vectors_open(&v, "payloads.txt");
    while (vectors_next(&v)) {
        if (strcmp(v.key, "payload") != 0) {
            continue;
        }
        vectors_word(&v);
        size_t count = vectors_number(&v);
        size_t len = vectors_bytes(&v, bytes);
        if (len == 0 || count == 0 || !(is_ternary(bytes[0]) || is_inceptionn(bytes[0]))) {
            continue;
        }
        check_decoder(bytes, len, count);
        cases++;
        assert_true(vectors_next(&v));
        struct block_facts facts;
        size_t came = is_ternary(bytes[0])
                          ? block_ternary_decode(bytes, len, by_block, count, &facts)
                          : block_inceptionn_decode(bytes, len, by_block, count, &facts);
        if (strcmp(v.key, "refused") == 0) {
            assert_string_equal(tern_result_name(verdict(bytes, &facts)), v.rest);
        } else {
            assert_string_equal(v.key, "values");
            assert_int_equal(vectors_floats(&v, expected), count);
            assert_int_equal(came, count);
            assert_same_floats(by_block, expected, count);
        }
    }
    printf("%u payloads\n", cases);
    assert_true(cases > 30);
}

// Symbols under the two coders that have a block.
CASE(test_coder_vectors)
{
    unsigned cases = 0;
    size_t count = 0;
    blocks_pause(64, 64, 3);
    vectors_open(&v, "coders.txt");
    while (vectors_next(&v)) {
        bool packed = strcmp(v.key, "packed") == 0;
        if (strcmp(v.key, "symbols") == 0) {
            count = vectors_symbols(&v, input);
        } else if (packed || strcmp(v.key, "zero-run") == 0) {
            struct block_facts facts;
            size_t len = vectors_bytes(&v, bytes);
            assert_int_equal(
                block_ternary_encode(packed, 1, 0x3f000000, input, count, payload, NULL), len + 5);
            assert_memory_equal(payload + 5, bytes, len);
            assert_int_equal(block_ternary_decode(payload, len + 5, by_block, count, &facts),
                             count);
            assert_same_floats(by_block, input, count);
            cases++;
        }
    }
    printf("%u sequences of symbols\n", cases);
    assert_true(cases > 20);
}

// --- Random values

enum { KINDS = 10 };

static float near_bits(struct tern_prng *rng, uint32_t bits)
{
    uint32_t sign = tern_prng_u32(rng) & TERN_SIGN_BIT;
    return float_of_bits((bits + tern_prng_u32(rng) % 5 - 2) | sign);
}

// One value of a kind. unit: what the kind measures by.
static float value_of(struct tern_prng *rng, unsigned kind, float unit)
{
    uint32_t draw = tern_prng_u32(rng);
    switch (kind) {
    case 0: // every exponent
        return any_float(rng);
    case 1:
        return unit * normal_float(rng);
    case 2: // mostly zeros of both signs
        return draw % 16 == 0 ? unit * normal_float(rng) : float_of_bits(draw & TERN_SIGN_BIT);
    case 3: // subnormal
        return float_of_bits(draw & (TERN_SIGN_BIT | 0x7fffff));
    case 4: // no fewer bytes than there were
        return (draw & 1 ? -1.0f : 1.0f) * (40000.0f + (float)(draw >> 8));
    case 5: // ties and their neighbours, of multiples of the unit
        return near_bits(rng, bits_of(unit * ((float)(draw % 300) + 0.5f)));
    case 6: // around the largest k
        return near_bits(rng, bits_of(unit * (32766.5f + (float)(draw % 3) * 0.5f)));
    case 7: // around the places where literal tags change
        return near_bits(rng, (127 - draw % 24) << 23);
    case 8: // long runs
        return draw % 500 == 0 ? unit * (float)(draw >> 20) : 0;
    default:
        return draw % 7 < 3 ? unit : draw % 7 == 3 ? -unit : unit / 4;
    }
}

static void draw_values(struct tern_prng *rng, size_t count)
{
    unsigned kind = tern_prng_u32(rng) % (KINDS + 1);
    float unit = float_of_bits((107 + tern_prng_u32(rng) % 24) << 23);
    for (size_t i = 0; i < count; i++) {
        // The last kind is all of them at once.
        values[i] = value_of(rng, kind < KINDS ? kind : tern_prng_u32(rng) % KINDS, unit);
    }
}

static size_t draw_count(struct tern_prng *rng)
{
    uint32_t draw = tern_prng_u32(rng);
    return draw % 4 == 0    ? 1 + tern_prng_u32(rng) % 40
           : draw % 64 != 1 ? 1 + tern_prng_u32(rng) % 2000
                            : 1 + tern_prng_u32(rng) % SEGMENT_MOST;
}

static void draw_spec(struct tern_prng *rng, char spec[TERN_CODEC_SPEC_MAX])
{
    uint32_t draw = tern_prng_u32(rng);
    if (draw % 2 == 0) {
        snprintf(spec, TERN_CODEC_SPEC_MAX, "inceptionn:bound=%u,variant=%s", 4 + draw / 8 % 17,
                 draw / 2 % 3 == 0 ? "literal" : "bounded");
    } else {
        snprintf(spec, TERN_CODEC_SPEC_MAX, "3lc:s=1.%u,coder=%s%s", draw / 16 % 10,
                 draw / 2 % 4 == 0 ? "packed" : "zero-run", draw / 8 % 2 == 0 ? ",clip=2" : "");
    }
}

static void draw_pauses(struct tern_prng *rng)
{
    static const unsigned often[] = {0, 0, 20, 128, 230};
    uint32_t draw = tern_prng_u32(rng);
    blocks_pause(often[draw % 5], often[draw / 5 % 5], draw);
}

static size_t values_to_try(void)
{
    const char *wanted = getenv("TERN_RTL_VALUES");
    if (wanted != NULL) {
        return strtoul(wanted, NULL, 10);
    }
    return getenv("TERN_LONG_TESTS") != NULL ? 10000000 : 200000;
}

CASE(test_random_values)
{
    const size_t enough = values_to_try();
    struct tern_prng rng;
    tern_prng_init(&rng, 1, TERN_PRNG_TEST, 0, 0);
    unsigned segments = 0;
    size_t tried = 0;
    encoded = decoded = 0;
    while (tried < enough) {
        char spec[TERN_CODEC_SPEC_MAX];
        size_t count = draw_count(&rng);
        draw_spec(&rng, spec);
        draw_values(&rng, count);
        draw_pauses(&rng);
        check_segment(spec, count);
        tried += count;
        segments++;
    }
    printf("%zu values in %u segments: %u encoded by blocks, %u decoded\n", tried, segments,
           encoded, decoded);
    assert_true(encoded > segments / 2 && decoded > segments / 2);
}

// --- Damaged payloads

static void damage(struct tern_prng *rng, size_t *len)
{
    uint32_t draw = tern_prng_u32(rng);
    switch (draw % 4) {
    case 0:
        *len = 1 + draw / 4 % *len;
        break;
    case 1:
        for (unsigned i = 1 + draw / 4 % 40; i > 0; i--) {
            payload[(*len)++] = (uint8_t)tern_prng_u32(rng);
        }
        break;
    case 2: // near the front, where the parameters are; but another mode is another decoder
        payload[*len > 1 ? 1 + draw / 4 % (*len < 8 ? *len - 1 : 7) : 0] ^= (uint8_t)(draw >> 24);
        break;
    default:
        payload[*len > 1 ? 1 + draw / 4 % (*len - 1) : 0] ^= (uint8_t)(draw >> 24);
        break;
    }
}

CASE(test_damaged_payloads)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 2, TERN_PRNG_TEST, 0, 0);
    unsigned tried = 0;
    unsigned refused = 0;
    const unsigned times = values_to_try() > 1000000 ? 20000 : 2000;
    for (unsigned i = 0; i < times; i++) {
        char spec[TERN_CODEC_SPEC_MAX];
        size_t count = 1 + tern_prng_u32(&rng) % (i % 2 ? 20 : 300);
        draw_spec(&rng, spec);
        draw_values(&rng, count);
        draw_pauses(&rng);
        size_t len = check_segment(spec, count);
        if (len < 2) {
            continue;
        }
        uint8_t mode = payload[0];
        damage(&rng, &len);
        if (payload[0] != mode) {
            continue;
        }
        check_decoder(payload, len, count);
        refused += decode(false, payload, len, by_loops, count) != TERN_OK;
        tried++;
    }
    printf("%u damaged payloads, of which %u were refused\n", tried, refused);
    assert_true(tried > times / 2 && refused > tried / 4 && refused < tried);
}

// Groups that are missing behind the last byte of a beat, where nothing else is wrong.
CASE(test_missing_groups)
{
    blocks_pause(0, 0, 7);
    for (size_t beats = 1; beats < 4; beats++) {
        const size_t len = 32 * beats;
        memset(payload, 0, len);
        payload[0] = TERN_MODE_INCEPTIONN_BOUNDED;
        payload[1] = 10;
        const size_t groups = (len - 2) / 2; // of no fields
        check_decoder(payload, len, 8 * groups);
        for (size_t missing = 1; missing < 70; missing++) {
            check_decoder(payload, len, 8 * (groups + missing));
        }
    }
}

// --- What only the block itself shows

CASE(test_non_finite_values)
{
    const uint32_t wrong[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffffffff};
    blocks_pause(20, 20, 4);
    for (size_t place = 0; place < 20; place++) {
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            struct block_facts facts;
            for (size_t k = 0; k < 20; k++) {
                values[k] = k == 3 ? FLT_MAX : 0;
            }
            block_inceptionn_encode(place % 2, 10, values, 20, payload, &facts);
            assert_true(facts.bit[0] && !facts.bit[1]);
            values[place] = float_of_bits(wrong[i]);
            block_inceptionn_encode(place % 2, 10, values, 20, payload, &facts);
            assert_true(facts.bit[1]);
        }
    }
    struct block_facts facts;
    memset(values, 0, 20 * sizeof(float));
    block_inceptionn_encode(false, 10, values, 20, payload, &facts);
    assert_false(facts.bit[0] || facts.bit[1]);
}

// The next segment follows without a break.
CASE(test_segments_without_a_break)
{
    enum { TIMES = 5 };
    struct tern_prng rng;
    tern_prng_init(&rng, 3, TERN_PRNG_TEST, 0, 0);
    for (unsigned i = 0; i < 400; i++) {
        size_t count = 1 + tern_prng_u32(&rng) % (i < 300 ? 40 : 500);
        draw_values(&rng, count);
        draw_pauses(&rng);
        size_t len = block_inceptionn_encode(i % 2, 10, values, count, payload, NULL);
        assert_int_equal(block_inceptionn_encode_again(i % 2, 10, values, count, TIMES, other),
                         TIMES * len);
        for (size_t k = 0; k < TIMES; k++) {
            assert_memory_equal(other + k * len, payload, len);
        }
        len = block_ternary_encode(i % 2, 1, 0x3e000000, values, count, payload, NULL);
        assert_int_equal(
            block_ternary_encode_again(i % 2, 1, 0x3e000000, values, count, TIMES, other),
            TIMES * len);
        for (size_t k = 0; k < TIMES; k++) {
            assert_memory_equal(other + k * len, payload, len);
        }
    }
}

// --- A whole model

CASE(test_container)
{
    static struct tern_model model;
    static float deltas[2][SEGMENT_MOST];
    static uint8_t containers[2][PAYLOAD_MOST];
    const char *const specs[] = {"3lc:s=1.5", "3lc:s=1,coder=packed", "inceptionn:bound=10",
                                 "inceptionn:bound=12,variant=literal"};
    assert_int_equal(tern_model_from_spec(&model, "mlp:100-70-10"), TERN_OK);
    struct tern_prng rng;
    tern_prng_init(&rng, 4, TERN_PRNG_TEST, 0, 0);
    blocks_pause(10, 10, 5);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct tern_codec codec;
        size_t len[2];
        assert_int_equal(tern_codec_parse(specs[i], &codec, NULL), TERN_OK);
        for (size_t k = 0; k < model.count; k++) {
            deltas[0][k] = deltas[1][k] = 0.01f * normal_float(&rng);
        }
        encoded = decoded = 0;
        for (int by_blocks = 0; by_blocks < 2; by_blocks++) {
            offloads = by_blocks;
            assert_int_equal(tern_container_encode(&codec, NULL, &model, deltas[by_blocks],
                                                   containers[by_blocks], PAYLOAD_MOST,
                                                   &len[by_blocks]),
                             TERN_OK);
        }
        assert_int_equal(len[0], len[1]);
        assert_memory_equal(containers[0], containers[1], len[0]);
        assert_same_floats(deltas[0], deltas[1], model.count);
        for (int by_blocks = 0; by_blocks < 2; by_blocks++) {
            offloads = by_blocks;
            assert_int_equal(
                tern_container_decode(&model, containers[0], len[0], deltas[by_blocks]), TERN_OK);
        }
        offloads = false;
        assert_same_floats(deltas[0], deltas[1], model.count);
        assert_int_equal(encoded, model.segment_count);
        assert_int_equal(decoded, model.segment_count);
    }
}

// --- Values a cycle

CASE(test_values_per_cycle)
{
    enum { COUNT = 50000, AROUND = 40 };
    struct tern_prng rng;
    tern_prng_init(&rng, 5, TERN_PRNG_TEST, 0, 0);
    struct block_facts facts;
    blocks_pause(0, 0, 6);
    for (int kept = 0; kept < 2; kept++) {
        for (size_t i = 0; i < COUNT; i++) {
            values[i] = kept ? 1e6f : 0.01f * normal_float(&rng);
        }
        size_t len = block_inceptionn_encode(false, 10, values, COUNT, payload, &facts);
        printf("inceptionn %s: %.2f bits a value; encoder %.3f values a cycle, ",
               kept ? "at its worst" : "of an update", 8.0 * (double)len / COUNT,
               COUNT / (double)facts.cycles);
        assert_true(facts.cycles <= COUNT / 8 + (kept ? COUNT / 128 : 0) + AROUND);
        block_inceptionn_decode(payload, len, by_block, COUNT, &facts);
        printf("decoder %.3f\n", COUNT / (double)facts.cycles);
        assert_true(facts.cycles <= COUNT / 8 + (kept ? COUNT / 64 : 0) + AROUND);
    }
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = normal_float(&rng);
    }
    size_t len = block_ternary_encode(false, 4, 0x40000000, values, COUNT, payload, &facts);
    printf("3lc of an update: %.2f bits a value; encoder %.3f values a cycle, ",
           8.0 * (double)len / COUNT, COUNT / (double)facts.cycles);
    assert_true(facts.cycles <= COUNT / 5 + AROUND);
    block_ternary_decode(payload, len, by_block, COUNT, &facts);
    printf("decoder %.3f\n", COUNT / (double)facts.cycles);
    assert_true(facts.cycles <= COUNT / 5 + AROUND);
}
