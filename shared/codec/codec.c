#include "codec/codec.h"

#include "codec/coders/indices.h"
#include "codec/coders/parallel.h"
#include "codec/coders/ternary.h"
#include "codec/kernels/kernels.h"
#include "codec/modes.h"
#include <string.h>

// --- Encoding

size_t tern_codec_bound(const struct tern_codec *codec, size_t count)
{
    const struct tern_codec_row *row = tern_codec_row(codec->id);
    return row != NULL ? row->bound(codec, count) : 0;
}

// tests/shared/test_codec.c compares this with the bounds of all codecs.
size_t tern_codec_bound_any(size_t count)
{
    return 4 * count + count / 4 + 64;
}

enum tern_result tern_codec_check(const struct tern_encode_job *job, float *peak)
{
    const struct tern_codec_row *row = tern_codec_row(job->codec->id);
    uint32_t bits = tern_parallel_peak(tern_parallel_of(job), job->values, job->count);
    if (bits >= TERN_INFINITY_BITS) {
        return TERN_ERR_NON_FINITE;
    }
    *peak = tern_bits_float(bits);
    if (row->check_context != NULL) {
        TERN_TRY(row->check_context(job));
    }
    return row->check != NULL ? row->check(job->codec, *peak) : TERN_OK;
}

// Adds the decoded values of the payload at job->dst to the context's replica, unless encode() has added them.
static void add_to_replica(const struct tern_encode_job *job, size_t len)
{
#if !TERN_SMALL
    const struct tern_codec_row *row = tern_codec_row(job->codec->id);
    if (job->context->replica != NULL && !row->adds) {
        // The payload was just encoded, so it is valid.
        const enum tern_result result =
            tern_payload_add(job->dst, len, 1.0F, job->context->replica, job->count);
        (void)result;
    }
#else
    (void)job;
    (void)len;
#endif
}

size_t tern_codec_emit(const struct tern_encode_job *job)
{
    const struct tern_codec_row *row = tern_codec_row(job->codec->id);
    size_t written = job->peak > 0 ? row->encode(job) : 0;
    if (row->entry.feedback == TERN_FEEDBACK_NONE && job->count > 0) {
        memset(job->values, 0, job->count * sizeof *job->values);
    }
    if (written == 0) {
        job->dst[0] = TERN_MODE_ZERO;
        written = 1;
    }
    add_to_replica(job, written);
    return written;
}

enum tern_result tern_codec_needs(const struct tern_codec *codec,
                                  const struct tern_encode_context *context)
{
    const struct tern_codec_entry *entry = tern_codec_entry(codec->id);
    if (entry == NULL) {
        return TERN_ERR_UNKNOWN;
    }
    bool missing = entry->feedback == TERN_FEEDBACK_MOMENTUM && context->velocity == NULL;
    return missing ? TERN_ERR_ARGUMENT : TERN_OK;
}

const struct tern_encode_context tern_no_context = {.seed = 0};

enum tern_result tern_codec_encode(const struct tern_codec *codec,
                                   const struct tern_encode_context *context, float *values,
                                   size_t count, uint8_t *dst, size_t dst_size, size_t *written)
{
    struct tern_encode_job job = {
        .codec = codec,
        .context = context != NULL ? context : &tern_no_context,
        .values = values,
        .count = count,
        .dst = dst,
    };
    TERN_TRY(tern_codec_needs(codec, job.context));
    if (dst_size < tern_codec_bound(codec, count)) {
        return TERN_ERR_NO_SPACE;
    }
    TERN_TRY(tern_codec_check(&job, &job.peak));
    *written = tern_codec_emit(&job);
    return TERN_OK;
}

// --- Decoding

static enum tern_result find_mode(const uint8_t *src, size_t src_len, const struct tern_mode **mode)
{
    if (src_len == 0) {
        return TERN_ERR_CORRUPT;
    }
    *mode = tern_mode_of(src[0]);
    return *mode != NULL ? TERN_OK : TERN_ERR_UNKNOWN;
}

enum tern_result tern_payload_check(const uint8_t *src, size_t src_len, size_t count,
                                    const struct tern_mode **mode)
{
    TERN_TRY(find_mode(src, src_len, mode));
    return (*mode)->check(src + 1, src_len - 1, count);
}

enum tern_result tern_codec_decode(const uint8_t *src, size_t src_len, float *dst, size_t count)
{
    const struct tern_mode *mode = NULL;
    TERN_TRY(tern_payload_check(src, src_len, count, &mode));
    mode->decode(src + 1, src_len - 1, dst, count);
    return TERN_OK;
}

enum tern_result tern_codec_accumulate(const uint8_t *src, size_t src_len, float weight, float *acc,
                                       size_t count)
{
    const struct tern_mode *mode = NULL;
    TERN_TRY(tern_payload_check(src, src_len, count, &mode));
    mode->accumulate(src + 1, src_len - 1, weight, acc, count);
    return TERN_OK;
}

struct signs_read {
    const struct tern_payload_reader *reader;
    size_t nonzero;
};

static void count_signs(void *ctx, float scale, const struct tern_indices *indices)
{
    struct signs_read *read = ctx;
    read->nonzero += indices->count;
    if (read->reader->signs != NULL) {
        read->reader->signs(read->reader->ctx, scale, indices);
    }
}

#if !TERN_SMALL
// If less than one value in so many is not 0, reading by indices is faster than decoding all values.
#define SPARSE_SHARE 4

static bool reads_by_indices(const struct tern_mode *mode, const uint8_t *body, size_t len,
                             size_t count, const struct tern_payload_reader *reader)
{
    struct tern_codec_info found = {.ternary = true};
    if (mode->signs == NULL || reader->signs == NULL) {
        return false;
    }
    mode->describe(body, len, count, &found);
    return found.nonzero < count / SPARSE_SHARE;
}
#endif

// Passes a checked payload to the reader.
static enum tern_result pass_checked(const struct tern_mode *mode, const uint8_t *body, size_t len,
                                     size_t count, const struct tern_payload_reader *reader)
{
#if !TERN_SMALL
    if (reads_by_indices(mode, body, len, count, reader)) {
        mode->signs(body, len, count, reader->signs, reader->ctx);
        return TERN_OK;
    }
#endif
    return reader->whole != NULL ? reader->whole(reader->ctx, mode, body, len, count, NULL)
                                 : TERN_OK;
}

bool tern_mode_reads_once(const struct tern_mode *mode)
{
#if !TERN_SMALL
    return mode->add != NULL;
#else
    (void)mode;
    return false;
#endif
}

enum tern_result tern_mode_accumulate(const struct tern_mode *mode, const uint8_t *body, size_t len,
                                      float weight, float *acc, size_t count,
                                      struct tern_codec_info *info)
{
#if !TERN_SMALL
    if (mode->add != NULL) {
        return mode->add(body, len, count, weight, acc, info);
    }
#endif
    (void)info;
    mode->accumulate(body, len, weight, acc, count);
    return TERN_OK;
}

enum tern_result tern_mode_decode(const struct tern_mode *mode, const uint8_t *body, size_t len,
                                  float *dst, size_t count, struct tern_codec_info *info)
{
    if (tern_mode_reads_once(mode)) { // +0 + x is x
        memset(dst, 0, count * sizeof *dst);
        return tern_mode_accumulate(mode, body, len, 1, dst, count, info);
    }
    mode->decode(body, len, dst, count);
    return TERN_OK;
}

enum tern_result tern_payload_read(const uint8_t *src, size_t src_len, size_t count,
                                   const struct tern_payload_reader *reader,
                                   struct tern_codec_info *info)
{
    const struct tern_mode *mode = NULL;
    struct signs_read read = {.reader = reader};
    TERN_TRY(find_mode(src, src_len, &mode));
    const uint8_t *body = src + 1;
    const size_t len = src_len - 1;
    struct tern_codec_info found = {.mode = mode->name, .ternary = mode->ternary};
    if (!TERN_SMALL && mode->each != NULL) {
        TERN_TRY(mode->each(body, len, count, count_signs, &read));
        tern_ternary_describe(body, read.nonzero, 0, &found);
    } else if (tern_mode_reads_once(mode)) {
        struct tern_codec_info *described = info != NULL ? &found : NULL;
        TERN_TRY(reader->whole != NULL
                     ? reader->whole(reader->ctx, mode, body, len, count, described)
                     : tern_mode_accumulate(mode, body, len, 0, NULL, count, described));
    } else {
        TERN_TRY(mode->check(body, len, count));
        if (info != NULL) {
            mode->describe(body, len, count, &found);
        }
        TERN_TRY(pass_checked(mode, body, len, count, reader));
    }
    if (info != NULL) {
        *info = found;
    }
    return TERN_OK;
}

enum tern_result tern_codec_inspect(const uint8_t *src, size_t src_len, size_t count,
                                    struct tern_codec_info *info)
{
    static const struct tern_payload_reader nobody = {.ctx = NULL};
    return tern_payload_read(src, src_len, count, &nobody, info);
}

struct addition {
    float weight;
    float *acc;
};

// weight * (scale * q) has the same bits as (weight * scale) * q, because q = -1 or 1 only changes the sign.
static void add_signs(void *ctx, float scale, const struct tern_indices *indices)
{
    const struct addition *addition = ctx;
    tern_indices_add(indices, tern_float_bits(addition->weight * scale), addition->acc);
}

static enum tern_result add_whole(void *ctx, const struct tern_mode *mode, const uint8_t *body,
                                  size_t len, size_t count, struct tern_codec_info *info)
{
    const struct addition *addition = ctx;
    return tern_mode_accumulate(mode, body, len, addition->weight, addition->acc, count, info);
}

enum tern_result tern_payload_add(const uint8_t *src, size_t src_len, float weight, float *acc,
                                  size_t count)
{
    struct addition addition = {weight, acc};
    const struct tern_payload_reader reader = {&addition, add_signs, add_whole};
    return tern_payload_read(src, src_len, count, &reader, NULL);
}
