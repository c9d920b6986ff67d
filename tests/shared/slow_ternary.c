#include "slow_ternary.h"

#include "util/bytes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int powers[5] = {81, 27, 9, 3, 1};

static size_t run_code(const uint8_t *packed, size_t len, uint8_t *dst)
{
    size_t out = 0;
    for (size_t i = 0; i < len;) {
        size_t run = 0;
        while (run < 14 && i + run < len && packed[i + run] == 121) {
            run++;
        }
        dst[out++] = run > 1 ? (uint8_t)(241 + run) : packed[i];
        i += run > 1 ? run : 1;
    }
    return out;
}

// The mean magnitude of what is not 0, each cut to 31 bits below the peak's power of two.
static float mean_magnitude(const float *values, size_t count, float peak)
{
    int exponent = ilogbf(peak);
    uint64_t sum = 0;
    uint64_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (uint64_t)ldexp(fabs((double)values[i]), 30 - exponent);
        taken += values[i] != 0;
    }
    uint64_t mean = sum / (taken > 0 ? taken : 1);
    return (float)ldexp((double)(mean > 0 ? mean : 1), exponent - 30);
}

size_t slow_encode(float *values, size_t count, const struct tern_codec *codec, uint8_t *dst)
{
    float peak = 0;
    for (size_t i = 0; i < count; i++) {
        peak = fmaxf(peak, fabsf(values[i]));
    }
    float clipped = peak;
    if (codec->clip > 0 && peak > 0) {
        clipped = fminf(peak, codec->clip * mean_magnitude(values, count, peak));
    }
    float scale = clipped * codec->sparsity;
    size_t stride = (count + 4) / 5;
    uint8_t *packed = calloc(stride + 1, 1);
    bool any = false;
    for (size_t p = 0; p < 5 * stride; p++) {
        int q = 0;
        if (p < count) {
            q = ((double)values[p] > (double)scale / 2) - ((double)values[p] < -(double)scale / 2);
            values[p] = values[p] - scale * (float)q;
        }
        any = any || (q != 0 && scale > 0);
        packed[p % stride] = (uint8_t)(packed[p % stride] + (q + 1) * powers[p / stride]);
    }
    size_t len = 0;
    if (any) {
        len = run_code(packed, stride, dst + 5);
        dst[0] = 0x10;
        tern_put_f32(dst + 1, scale);
        len += 5;
    } else {
        dst[len++] = 0x00;
    }
    free(packed);
    return len;
}

// Expands the digits' bytes; false unless they are exactly `stride`.
static bool expand(uint8_t mode, const uint8_t *src, size_t len, uint8_t *packed, size_t stride)
{
    size_t out = 0;
    for (size_t i = 0; i < len; i++) {
        uint8_t byte = src[i];
        size_t times = byte < 243 ? 1 : (size_t)byte - 241;
        if ((byte > 242 && mode == 0x11) || times > stride - out) {
            return false;
        }
        memset(packed + out, byte < 243 ? byte : 121, times);
        out += times;
    }
    return out == stride;
}

static bool unpack(const uint8_t *packed, size_t stride, float scale, float *values, size_t count)
{
    for (size_t p = 0; p < 5 * stride; p++) {
        int q = packed[p % stride] / powers[p / stride] % 3 - 1;
        if (p >= count && q != 0) {
            return false;
        }
        if (p < count) {
            values[p] = scale * (float)q;
        }
    }
    return true;
}

bool slow_reads(uint8_t mode)
{
    return mode == 0x00 || (mode >= 0x10 && mode <= 0x11);
}

bool slow_decode(const uint8_t *src, size_t len, float *values, size_t count)
{
    if (len == 1 && src[0] == 0x00) {
        memset(values, 0, count * sizeof *values);
        return true;
    }
    if (len < 5 || src[0] == 0x00 || !slow_reads(src[0])) {
        return false;
    }
    float scale = tern_get_f32(src + 1);
    size_t stride = (count + 4) / 5;
    uint8_t *packed = malloc(stride + 1);
    bool valid = isfinite(scale) && scale > 0 && expand(src[0], src + 5, len - 5, packed, stride) &&
                 unpack(packed, stride, scale, values, count);
    free(packed);
    return valid;
}
