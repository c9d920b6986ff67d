#include "codec/coders/sparse.h"

#include "codec/coders/bits.h"
#include "codec/coders/index_sets.h"
#include "codec/kernels/kernels.h"
#include "util/bytes.h"
#include <string.h>

enum { WORD_BITS = 64, WORD_BYTES = 8, VALUE_BYTES = 4 };

const char *const tern_index_coder_names[] = {"auto", "bitmap", "gaps", NULL};

// Clears the lowest bit of a word and returns its index.
static inline unsigned take_lowest(uint64_t *word)
{
    unsigned index = (unsigned)__builtin_ctzll(*word);
    *word &= *word - 1;
    return index;
}

// --- Encoding

size_t tern_sparse_bound(size_t k, size_t count)
{
    // The bound of an index set exceeds that of a bitmap. One more word is for alignment.
    return 1 + tern_index_set_bound(count) + VALUE_BYTES * k +
           WORD_BYTES * (tern_plane_words(count) + 1);
}

uint64_t *tern_sparse_words(const struct tern_encode_job *job, size_t bound)
{
    uint8_t *end = job->dst + bound;
    uintptr_t misaligned = (uintptr_t)end % WORD_BYTES;
    return (uint64_t *)(void *)(end - misaligned) - tern_plane_words(job->count);
}

struct tern_sparse_list tern_sparse_largest(const struct tern_encode_job *job, size_t k,
                                            size_t bound)
{
    struct tern_selection selection =
        tern_kernel_select_in(job->values, job->count, k, job->dst, bound);
    struct tern_sparse_list list = {.words = tern_sparse_words(job, bound),
                                    .listed = selection.selected};
    tern_kernel_select_mark(job->values, job->count, selection, list.words);
    return list;
}

static uint8_t *put_gaps(const struct tern_encode_job *job, const struct tern_sparse_list *list,
                         uint8_t *dst)
{
    struct tern_index_writer writer = tern_index_set_begin(dst, job->count, list->listed);
    for (size_t i = 0; i < tern_plane_words(job->count); i++) {
        for (uint64_t word = list->words[i]; word != 0;) {
            tern_index_set_add(&writer, i * WORD_BITS + take_lowest(&word));
        }
    }
    return tern_index_set_end(&writer);
}

static uint8_t *put_bitmap(const struct tern_encode_job *job, const struct tern_sparse_list *list,
                           uint8_t *dst)
{
    size_t bytes = tern_bitmap_bytes(job->count);
    for (size_t i = 0; i < bytes; i++) {
        dst[i] = (uint8_t)(list->words[i / WORD_BYTES] >> i % WORD_BYTES * 8);
    }
    return dst + bytes;
}

// Writes mode byte and indices in the shorter form that the coder allows; a bitmap if both are equal.
static uint8_t *put_indices(const struct tern_encode_job *job, const struct tern_sparse_list *list)
{
    uint8_t *body = job->dst + 1;
    uint32_t coder = job->codec->coder;
    if (coder != TERN_INDEX_BITMAP) {
        uint8_t *end = put_gaps(job, list, body);
        if (coder == TERN_INDEX_GAPS || (size_t)(end - body) < tern_bitmap_bytes(job->count)) {
            job->dst[0] = TERN_MODE_SPARSE_GAPS;
            return end;
        }
    }
    job->dst[0] = TERN_MODE_SPARSE_BITMAP;
    return put_bitmap(job, list, body);
}

size_t tern_sparse_encode(const struct tern_encode_job *job, const struct tern_sparse_list *list)
{
    uint8_t *at = put_indices(job, list);
    for (size_t i = 0; i < tern_plane_words(job->count); i++) {
        for (uint64_t word = list->words[i]; word != 0; at += VALUE_BYTES) {
            float *value = job->values + i * WORD_BITS + take_lowest(&word);
            tern_put_f32(at, *value);
            *value = 0;
        }
    }
    return (size_t)(at - job->dst);
}

// --- Decoding

// The destination of the listed values, which are set, or added with a weight.
struct target {
    float *values;
    float weight;
    bool adds;
};

static inline void put_value(struct target target, size_t index, const uint8_t *src)
{
    float value = tern_bits_float(tern_load_le32(src));
    if (target.adds) {
        target.values[index] += target.weight * value;
    } else {
        target.values[index] = value;
    }
}

// The values must be finite, and not all zero: that would be mode zero.
static enum tern_result check_values(const uint8_t *values, size_t listed)
{
    uint32_t peak = tern_kernel_peak_bytes(values, listed);
    if (peak >= TERN_INFINITY_BITS) {
        return TERN_ERR_NON_FINITE;
    }
    return peak > 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

static void describe_values(const uint8_t *values, size_t listed, struct tern_codec_info *info)
{
    for (size_t i = 0; i < listed; i++) {
        tern_describe_value(info, tern_get_f32(values + VALUE_BYTES * i));
    }
}

// --- Mode sparse-bitmap

// Returns eight bytes of a bitmap from byte `at` on; bytes past the end are 0.
static inline uint64_t bitmap_word(const uint8_t *bitmap, size_t bytes, size_t at)
{
    if (bytes - at >= WORD_BYTES) {
        return tern_load_le64(bitmap + at);
    }
    uint64_t word = 0;
    for (size_t i = 0; at + i < bytes; i++) {
        word |= (uint64_t)bitmap[at + i] << 8 * i;
    }
    return word;
}

static enum tern_result bitmap_check(const uint8_t *body, size_t len, size_t count)
{
    size_t bytes = tern_bitmap_bytes(count);
    if (len < bytes || (count % 8 != 0 && body[bytes - 1] >> count % 8 != 0)) {
        return TERN_ERR_CORRUPT;
    }
    size_t listed = 0;
    for (size_t at = 0; at < bytes; at += WORD_BYTES) {
        listed += tern_bits_count(bitmap_word(body, bytes, at));
    }
    if ((len - bytes) % VALUE_BYTES != 0 || (len - bytes) / VALUE_BYTES != listed) {
        return TERN_ERR_CORRUPT;
    }
    return check_values(body + bytes, listed);
}

static inline void bitmap_apply(const uint8_t *body, size_t count, struct target target)
{
    size_t bytes = tern_bitmap_bytes(count);
    const uint8_t *src = body + bytes;
    for (size_t at = 0; at < bytes; at += WORD_BYTES) {
        for (uint64_t word = bitmap_word(body, bytes, at); word != 0; src += VALUE_BYTES) {
            put_value(target, at * 8 + take_lowest(&word), src);
        }
    }
}

static void bitmap_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    (void)len;
    memset(dst, 0, count * sizeof *dst);
    bitmap_apply(body, count, (struct target){.values = dst});
}

static void bitmap_accumulate(const uint8_t *body, size_t len, float weight, float *acc,
                              size_t count)
{
    (void)len;
    bitmap_apply(body, count, (struct target){.values = acc, .weight = weight, .adds = true});
}

static void bitmap_describe(const uint8_t *body, size_t len, size_t count,
                            struct tern_codec_info *info)
{
    size_t bytes = tern_bitmap_bytes(count);
    describe_values(body + bytes, (len - bytes) / VALUE_BYTES, info);
}

const struct tern_mode tern_sparse_bitmap_mode = {
    .byte = TERN_MODE_SPARSE_BITMAP,
    .name = "sparse-bitmap",
    .check = bitmap_check,
    .decode = bitmap_decode,
    .accumulate = bitmap_accumulate,
    .describe = bitmap_describe,
};

// --- Mode sparse-gaps

static enum tern_result gaps_check(const uint8_t *body, size_t len, size_t count)
{
    struct tern_index_set set;
    if (!tern_index_set_open(body, len, VALUE_BYTES, count, &set)) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(tern_index_set_check(&set));
    return check_values(set.values, set.members);
}

static inline void gaps_apply(const uint8_t *body, size_t len, size_t count, struct target target)
{
    struct tern_index_set set;
    if (!tern_index_set_open(body, len, VALUE_BYTES, count, &set)) {
        return;
    }
    struct tern_index_reader reader = {.set = &set};
    for (size_t i = 0; i < set.members; i++) {
        put_value(target, tern_index_next(&reader), set.values + VALUE_BYTES * i);
    }
}

static void gaps_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    memset(dst, 0, count * sizeof *dst);
    gaps_apply(body, len, count, (struct target){.values = dst});
}

static void gaps_accumulate(const uint8_t *body, size_t len, float weight, float *acc, size_t count)
{
    gaps_apply(body, len, count, (struct target){.values = acc, .weight = weight, .adds = true});
}

static void gaps_describe(const uint8_t *body, size_t len, size_t count,
                          struct tern_codec_info *info)
{
    struct tern_index_set set;
    if (tern_index_set_open(body, len, VALUE_BYTES, count, &set)) {
        describe_values(set.values, set.members, info);
    }
}

const struct tern_mode tern_sparse_gaps_mode = {
    .byte = TERN_MODE_SPARSE_GAPS,
    .name = "sparse-gaps",
    .check = gaps_check,
    .decode = gaps_decode,
    .accumulate = gaps_accumulate,
    .describe = gaps_describe,
};
