// The codec inceptionn: INCEPTIONN's lossy floats (Li, Park, Alian, Yuan, Qu, Pan, Wang, Schwing, Esmaeilzadeh, Kim, MICRO 2018,
// section V). A two-bit tag gives each value 0, 8, 16 or 32 bits; there is no error feedback. Eight tags come first, because the
// paper's hardware handles eight values at a time.
//
// `literal` is the paper's algorithm. It keeps magnitudes from 1 and drops those below the bound. Between these it shifts the
// significand by the exponent to a fixed point and cuts it to 15 bits in the upper half of the exponents, to 7 in the lower half.
// With 7 bits the error can be almost 2^-7, whatever the bound. Where the paper is not clear, this implementation decides: the
// integer bit of the fixed point, always 0, is not written; of an odd number of exponents the lower half has one more; and a
// value whose bits are all cut keeps its 8 bits.
//
// `bounded` has the same tags and sizes but chooses the tags so that the error is never above the bound: it rounds values to
// multiples of twice the bound.
#include "codec/kernels/kernels.h"
#include "codec/kernels/offload.h"
#include "codec/quantizers/row.h"
#include "util/bytes.h"

enum { GROUP = 8, TAG_BYTES = 2, ROOM = 4 };
enum tag { TAG_NONE, TAG_8, TAG_16, TAG_32 };

static const uint8_t tag_sizes[] = {[TAG_NONE] = 0, [TAG_8] = 1, [TAG_16] = 2, [TAG_32] = 4};

enum { EXPONENT_OF_ONE = 127, FRACTION_BITS = 23 };

// Returns 2^exponent, a normal float32.
static inline float power_of_two(int exponent)
{
    return tern_bits_float((uint32_t)(EXPONENT_OF_ONE + exponent) << FRACTION_BITS);
}

// --- Encoding

struct code {
    enum tag tag;
    uint32_t magnitude; // the field k of tags 8 and 16
};

// The tag is the number of limits that the exponent reaches. Counting them avoids unpredictable branches.
static inline struct code literal_code(uint32_t bits, uint32_t bound)
{
    uint32_t exponent = bits >> FRACTION_BITS & 0xff;
    int tag = (exponent >= EXPONENT_OF_ONE - bound) + (exponent >= EXPONENT_OF_ONE - bound / 2) +
              (exponent >= EXPONENT_OF_ONE);
    uint32_t significand = (bits & ((1u << FRACTION_BITS) - 1)) | 1u << FRACTION_BITS;
    // Below 2^23 for tags 8 and 16; unused for other tags.
    uint32_t shifted = significand >> ((EXPONENT_OF_ONE - exponent) & 31);
    return (struct code){(enum tag)tag, shifted >> (tag == TAG_8 ? 16 : 8)};
}

// Adding this rounds to a whole number, ties to even, which is in the low bits of the sum.
#define NO_FRACTION 0x1p23f
#define KEPT_FROM 32767.5f // so many multiples round to 32768, which 16 bits cannot hold

static inline struct code bounded_code(uint32_t bits, uint32_t bound)
{
    // Exact unless it overflows; then the value is kept as float32.
    float place = tern_bits_float(bits & ~TERN_SIGN_BIT) * power_of_two((int)bound - 1);
    float rounded = (place < KEPT_FROM ? place : KEPT_FROM) + NO_FRACTION;
    uint32_t multiple = tern_float_bits(rounded) - tern_float_bits(NO_FRACTION);
    int tag = (multiple > 0) + (multiple > 127) + (multiple > 32767);
    return (struct code){(enum tag)tag, multiple};
}

static const uint32_t sign_places[] = {[TAG_NONE] = 0, [TAG_8] = 7, [TAG_16] = 15, [TAG_32] = 0};

// Writes up to eight values and returns the end. Sets *any if one of them decodes to a value other than 0.
static inline uint8_t *put_group(const float *values, size_t count, uint32_t bound,
                                 struct code (*code_of)(uint32_t bits, uint32_t bound),
                                 uint8_t *dst, bool *any)
{
    uint32_t tags = 0;
    uint8_t *at = dst + TAG_BYTES;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = tern_float_bits(values[i]);
        struct code code = code_of(bits, bound);
        uint32_t field = code.magnitude | bits >> 31 << sign_places[code.tag];
        // Always stores four bytes; the next value overwrites the excess, and dst has room after the last one.
        tern_store_le32(at, code.tag == TAG_32 ? bits : field);
        tags |= (uint32_t)code.tag << 2 * i;
        at += tag_sizes[code.tag];
        *any |= code.tag != TAG_NONE && (code.magnitude != 0 || code.tag == TAG_32);
    }
    tern_put_le16(dst, (uint16_t)tags);
    return at;
}

// Writes the mode byte, and the bound if the decoder needs it.
static uint8_t *put_head(const struct tern_codec *codec, uint8_t *dst)
{
    if (codec->variant == TERN_INCEPTIONN_LITERAL) {
        *dst++ = TERN_MODE_INCEPTIONN_LITERAL;
        return dst;
    }
    *dst++ = TERN_MODE_INCEPTIONN_BOUNDED;
    *dst++ = (uint8_t)codec->exponent;
    return dst;
}

static size_t inceptionn_bound(const struct tern_codec *codec, size_t count)
{
    (void)codec;
    return 2 + TAG_BYTES * (count / GROUP + (count % GROUP != 0)) + 4 * count + ROOM;
}

static size_t inceptionn_encode(const struct tern_encode_job *job)
{
    const struct tern_codec *codec = job->codec;
    bool literal = codec->variant == TERN_INCEPTIONN_LITERAL;
    size_t offloaded = tern_offload_encode(&(struct tern_offload_job){
        .mode = literal ? TERN_MODE_INCEPTIONN_LITERAL : TERN_MODE_INCEPTIONN_BOUNDED,
        .values = job->values,
        .count = job->count,
        .dst = job->dst,
        .bound = codec->exponent,
    });
    if (offloaded > 0) {
        return offloaded;
    }
    uint8_t *at = put_head(codec, job->dst);
    bool any = false;
    for (size_t start = 0; start < job->count; start += GROUP) {
        size_t here = job->count - start < GROUP ? job->count - start : GROUP;
        at = put_group(job->values + start, here, codec->exponent,
                       literal ? literal_code : bounded_code, at, &any);
    }
    return any ? (size_t)(at - job->dst) : 0;
}

// --- Decoding

// The value of the lowest bit of a field.
struct steps {
    float of_8;
    float of_16;
};

static const struct steps literal_steps = {.of_8 = 0x1p-7f, .of_16 = 0x1p-15f};

enum { BOUND_BYTES = 1, BOUND_LEAST = 4, BOUND_MOST = 20 };

static struct steps bounded_steps(const uint8_t *body)
{
    float step = power_of_two(1 - (int)body[0]);
    return (struct steps){.of_8 = step, .of_16 = step};
}

// Reads values in order.
struct walk {
    const uint8_t *at;
    const uint8_t *end;
    unsigned tags;  // of the remaining values of the group
    float steps[4]; // [tag] value of the lowest bit
};

static struct walk walk_of(const uint8_t *at, const uint8_t *end, struct steps steps)
{
    return (struct walk){
        .at = at, .end = end, .steps = {[TAG_8] = steps.of_8, [TAG_16] = steps.of_16}};
}

// Masks for the parts of a field, by tag: magnitude and sign of tags 8 and 16, the whole float32 of tag 32.
static const uint32_t magnitudes[] = {[TAG_8] = 0x7f, [TAG_16] = 0x7fff, [TAG_32] = 0};
static const uint32_t signs[] = {[TAG_8] = 0x80, [TAG_16] = 0x8000, [TAG_32] = 0};
static const uint32_t wholes[] = {[TAG_8] = 0, [TAG_16] = 0, [TAG_32] = 0xffffffff};

// Returns the next four bytes; bytes past the end are 0.
static inline uint32_t peek(const struct walk *walk)
{
    if (walk->end - walk->at >= 4) {
        return tern_load_le32(walk->at);
    }
    uint32_t word = 0;
    for (unsigned i = 0; walk->at + i < walk->end; i++) {
        word |= (uint32_t)walk->at[i] << 8 * i;
    }
    return word;
}

// Reads the next value, whose index is `index`. Returns whether it has a field; without one *value is 0. Has no branch on tags,
// which would be unpredictable.
static inline bool next_value(struct walk *walk, size_t index, float *value)
{
    if (index % GROUP == 0) {
        walk->tags = tern_get_le16(walk->at);
        walk->at += TAG_BYTES;
    }
    unsigned tag = walk->tags & 3;
    walk->tags >>= 2;
    uint32_t field = peek(walk);
    float magnitude = (float)(int32_t)(field & magnitudes[tag]) * walk->steps[tag];
    uint32_t sign = (field & signs[tag]) << ((31 - sign_places[tag]) & 31);
    *value = tern_bits_float(tern_float_bits(magnitude) | sign | (field & wholes[tag]));
    walk->at += tag_sizes[tag];
    return tag != TAG_NONE;
}

static enum tern_result check_groups(const uint8_t *src, size_t len, size_t count)
{
    bool finite = true;
    for (size_t start = 0; start < count; start += GROUP) {
        size_t here = count - start < GROUP ? count - start : GROUP;
        if (len < TAG_BYTES) {
            return TERN_ERR_CORRUPT;
        }
        unsigned tags = tern_get_le16(src);
        if (tags >> 2 * here != 0) {
            return TERN_ERR_CORRUPT;
        }
        src += TAG_BYTES;
        len -= TAG_BYTES;
        for (; tags != 0; tags >>= 2) {
            size_t size = tag_sizes[tags & 3];
            if (size > len) {
                return TERN_ERR_CORRUPT;
            }
            if ((tags & 3) == TAG_32) {
                finite &= (tern_get_le32(src) & ~TERN_SIGN_BIT) < TERN_INFINITY_BITS;
            }
            src += size;
            len -= size;
        }
    }
    if (len != 0) {
        return TERN_ERR_CORRUPT;
    }
    return finite ? TERN_OK : TERN_ERR_NON_FINITE;
}

static void decode_groups(struct walk walk, float *dst, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        next_value(&walk, i, &dst[i]);
    }
}

static void accumulate_groups(struct walk walk, float weight, float *acc, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value = 0;
        if (next_value(&walk, i, &value)) {
            acc[i] += weight * value;
        }
    }
}

static void describe_groups(struct walk walk, size_t count, struct tern_codec_info *info)
{
    for (size_t i = 0; i < count; i++) {
        float value = 0;
        next_value(&walk, i, &value);
        tern_describe_value(info, value);
    }
}

// --- The mode of `literal`

static struct walk literal_walk(const uint8_t *body, size_t len)
{
    return walk_of(body, body + len, literal_steps);
}

static void literal_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    if (!tern_offload_decode(TERN_MODE_INCEPTIONN_LITERAL, body, len, dst, count)) {
        decode_groups(literal_walk(body, len), dst, count);
    }
}

static void literal_accumulate(const uint8_t *body, size_t len, float weight, float *acc,
                               size_t count)
{
    accumulate_groups(literal_walk(body, len), weight, acc, count);
}

static void literal_describe(const uint8_t *body, size_t len, size_t count,
                             struct tern_codec_info *info)
{
    describe_groups(literal_walk(body, len), count, info);
}

static const struct tern_mode literal_mode = {
    .byte = TERN_MODE_INCEPTIONN_LITERAL,
    .name = "inceptionn-literal",
    .check = check_groups,
    .decode = literal_decode,
    .accumulate = literal_accumulate,
    .describe = literal_describe,
};

// --- The mode of `bounded`

static enum tern_result bounded_check(const uint8_t *body, size_t len, size_t count)
{
    bool valid = len >= BOUND_BYTES && body[0] >= BOUND_LEAST && body[0] <= BOUND_MOST;
    return valid ? check_groups(body + BOUND_BYTES, len - BOUND_BYTES, count) : TERN_ERR_CORRUPT;
}

static struct walk bounded_walk(const uint8_t *body, size_t len)
{
    return walk_of(body + BOUND_BYTES, body + len, bounded_steps(body));
}

static void bounded_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    if (!tern_offload_decode(TERN_MODE_INCEPTIONN_BOUNDED, body, len, dst, count)) {
        decode_groups(bounded_walk(body, len), dst, count);
    }
}

static void bounded_accumulate(const uint8_t *body, size_t len, float weight, float *acc,
                               size_t count)
{
    accumulate_groups(bounded_walk(body, len), weight, acc, count);
}

static void bounded_describe(const uint8_t *body, size_t len, size_t count,
                             struct tern_codec_info *info)
{
    describe_groups(bounded_walk(body, len), count, info);
}

static const struct tern_mode bounded_mode = {
    .byte = TERN_MODE_INCEPTIONN_BOUNDED,
    .name = "inceptionn-bounded",
    .check = bounded_check,
    .decode = bounded_decode,
    .accumulate = bounded_accumulate,
    .describe = bounded_describe,
};

// --- The codec

static const char *const variant_names[] = {"bounded", "literal", NULL};
static const struct tern_spec_parameter parameters[] = {
    {.key = "bound",
     .meaning = TERN_HELP("the error of each value is at most 2^-bound"),
     .range = TERN_HELP("4 to 20"),
     .kind = TERN_SPEC_WHOLE,
     .offset = TERN_FIELD(exponent),
     .least = 4,
     .most = 20,
     .preset = 10},
    {.key = "variant",
     .meaning = TERN_HELP("bounded: the bound always holds; literal: the paper's algorithm"),
     .range = TERN_HELP("bounded or literal"),
     .kind = TERN_SPEC_CHOICE,
     .offset = TERN_FIELD(variant),
     .most = TERN_INCEPTIONN_LITERAL,
     .preset = TERN_INCEPTIONN_BOUNDED,
     .choices = variant_names},
    TERN_LAST_PARAMETER,
};

const struct tern_codec_row tern_inceptionn_codec = {
    .entry =
        {.id = TERN_CODEC_INCEPTIONN,
         .name = "inceptionn",
         .summary = TERN_HELP("0, 8, 16 or 32 bits per value, by an error bound"),
         .source = TERN_HELP(
             "Li et al.: A Network-Centric Hardware/Algorithm Co-Design, MICRO 2018, section V"),
         .good_for = TERN_HELP("compression in hardware, an error bound for each value, rings"),
         .not_for = TERN_HELP("values far below the bound, which become 0 and are lost, because "
                              "there is no error buffer"),
         .feedback = TERN_FEEDBACK_NONE,
         .parameters = parameters},
    .bound = inceptionn_bound,
    .encode = inceptionn_encode,
    .modes = {&bounded_mode, &literal_mode},
};

static bool downloads(const struct tern_codec *codec)
{
    return codec->variant == TERN_INCEPTIONN_BOUNDED;
}

const struct tern_codec_plan tern_inceptionn_plan = {
    .fixed_bits = 4.0,
    .thin = tern_plan_no_density,
    .downloads = downloads,
};
