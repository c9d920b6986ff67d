// 3LC (Lim, Andersen, Kaminsky, MLSys 2019), section 3: the quantizer, and the choice of coder.
#include "codec/kernels/kernels.h"
#include "codec/modes.h"
#include "codec/ternary.h"
#include "util/bytes.h"

static size_t bound_3lc(size_t count)
{
    return 1 + TERN_TERNARY_SCALE_BYTES + tern_ternary_stride(count);
}

// m = M * s
static float scale_of(const struct tern_codec *codec, float peak)
{
    return peak * codec->sparsity;
}

static enum tern_result check_3lc(const struct tern_codec *codec, float peak)
{
    uint32_t bits = tern_float_bits(scale_of(codec, peak));
    return bits < TERN_INFINITY_BITS ? TERN_OK : TERN_ERR_NON_FINITE;
}

// The largest float32 that is not above scale / 2, so that "magnitude > scale / 2" is exact where
// half of an odd subnormal scale is not a float32.
static float threshold_of(float scale)
{
    float half = scale * 0.5f;
    return half + half > scale ? tern_bits_float(tern_float_bits(half) - 1) : half;
}

static size_t encode_3lc(const struct tern_codec *codec, float peak, float *values, size_t count,
                         uint8_t *dst)
{
    float scale = scale_of(codec, peak);
    float threshold = threshold_of(scale);
    // Only where M is so small that M * s rounds up to 2 * M.
    if (peak <= threshold) {
        return 0;
    }
    uint8_t *packed = dst + 1 + TERN_TERNARY_SCALE_BYTES;
    size_t stride = tern_ternary_stride(count);
    tern_put_f32(dst + 1, scale);
    tern_kernel_ternary_pack(values, count, scale, tern_float_bits(threshold), packed);
    size_t coded = tern_kernel_run_encode(packed, stride);
    // Run coding changes nothing exactly when it saves nothing.
    dst[0] = coded < stride ? TERN_MODE_3LC_PLANAR_RUNS : TERN_MODE_3LC_PLANAR_PACKED;
    return 1 + TERN_TERNARY_SCALE_BYTES + coded;
}

const struct tern_encoder tern_3lc_encoder = {
    .bound = bound_3lc,
    .check = check_3lc,
    .encode = encode_3lc,
};
