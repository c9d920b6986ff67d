// Where ternary quantizers and coders meet.
#include "codec/coders/ternary.h"

#include "util/bytes.h"

// By enum tern_coder; TERN_CODER_AUTO tries them all.
static const struct tern_ternary_coder *const coders[] = {
    [TERN_CODER_ZERO_RUN] = &tern_zero_run_coder,
    [TERN_CODER_PACKED] = &tern_packed_coder,
    [TERN_CODER_GAPS] = &tern_gaps_coder,
};

static const struct tern_ternary_coder *coder_of(const struct tern_codec *codec)
{
    return coders[codec->coder];
}

// Bytes at the end of dst that planes take, with room to align them.
static size_t planes_room(size_t count)
{
    return 2 * sizeof(uint64_t) * tern_plane_words(count) + sizeof(uint64_t);
}

size_t tern_ternary_bound_planes(const struct tern_codec *codec, size_t count)
{
    return TERN_TERNARY_HEAD + coder_of(codec)->bound(count) + planes_room(count);
}

size_t tern_ternary_bound(const struct tern_codec *codec, size_t count)
{
    const struct tern_ternary_coder *coder = coder_of(codec);
    return coder->encode_planar != NULL ? TERN_TERNARY_HEAD + coder->bound(count)
                                        : tern_ternary_bound_planes(codec, count);
}

struct tern_planes tern_ternary_planes(const struct tern_encode_job *job)
{
    size_t words = tern_plane_words(job->count);
    uint8_t *end = job->dst + tern_ternary_bound_planes(job->codec, job->count);
    uintptr_t misaligned = (uintptr_t)end % sizeof(uint64_t);
    uint64_t *aligned = (uint64_t *)(void *)(end - misaligned);
    return (struct tern_planes){
        .nonzero = aligned - 2 * words, .negative = aligned - words, .count = job->count};
}

static size_t write_head(const struct tern_encode_job *job, enum tern_mode_byte mode, float scale)
{
    job->dst[0] = (uint8_t)mode;
    tern_put_f32(job->dst + 1, scale);
    return TERN_TERNARY_HEAD;
}

size_t tern_ternary_encode_planes(const struct tern_encode_job *job, float scale,
                                  const struct tern_planes *planes)
{
    const struct tern_ternary_coder *coder = coder_of(job->codec);
    size_t head = write_head(job, coder->mode, scale);
    return head + coder->encode(planes, job->dst + head);
}

size_t tern_ternary_encode(const struct tern_encode_job *job, struct tern_threshold threshold)
{
    const struct tern_ternary_coder *coder = coder_of(job->codec);
    if (coder->encode_planar == NULL) {
        struct tern_planes planes = tern_ternary_planes(job);
        tern_kernel_planes_split(job->values, threshold.scale, threshold.bits, planes);
        return tern_ternary_encode_planes(job, threshold.scale, &planes);
    }
    size_t head = write_head(job, coder->mode, threshold.scale);
    uint8_t *packed = job->dst + head;
    tern_kernel_ternary_pack(job->values, job->count, threshold.scale, threshold.bits, packed);
    return head + coder->encode_planar(packed, tern_ternary_stride(job->count));
}

enum tern_result tern_ternary_check_scale(const uint8_t *body, size_t len)
{
    if (len < TERN_TERNARY_SCALE_BYTES) {
        return TERN_ERR_CORRUPT;
    }
    uint32_t bits = tern_get_le32(body);
    // Unsigned, a sign bit is above infinity.
    if (bits >= TERN_INFINITY_BITS) {
        return TERN_ERR_NON_FINITE;
    }
    return bits > 0 ? TERN_OK : TERN_ERR_CORRUPT; // all zero is mode zero
}

void tern_ternary_describe(const uint8_t *body, size_t nonzero, size_t runs,
                           struct tern_codec_info *info)
{
    double scale = (double)tern_get_f32(body);
    info->scale = tern_get_f32(body);
    info->nonzero = nonzero;
    info->runs = runs;
    info->sum_square = (double)nonzero * (scale * scale);
    info->maximum = nonzero > 0 ? info->scale : 0;
}
