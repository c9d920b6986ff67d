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

size_t slow_encode(float *values, size_t count, float sparsity, uint8_t *dst)
{
    float peak = 0;
    for (size_t i = 0; i < count; i++) {
        peak = fmaxf(peak, fabsf(values[i]));
    }
    float scale = peak * sparsity;
    size_t stride = (count + 4) / 5;
    uint8_t *packed = calloc(stride + 1, 1);
    bool any = false;
    for (size_t p = 0; p < 5 * stride; p++) {
        int q = 0;
        if (p < count) {
            q = ((double)values[p] > (double)scale / 2) - ((double)values[p] < -(double)scale / 2);
            values[p] = values[p] - scale * (float)q;
        }
        any = any || q != 0;
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
static bool expand(const uint8_t *src, size_t len, bool runs, uint8_t *packed, size_t stride)
{
    size_t out = 0;
    for (size_t i = 0; i < len; i++) {
        size_t run = src[i] < 243 ? 1 : (size_t)src[i] - 241;
        if (run > stride - out || (run > 1 && !runs)) {
            return false;
        }
        memset(packed + out, run > 1 ? 121 : src[i], run);
        out += run;
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
    return mode == 0x00 || mode == 0x10 || mode == 0x11;
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
    bool valid = isfinite(scale) && scale > 0 &&
                 expand(src + 5, len - 5, src[0] == 0x10, packed, stride) &&
                 unpack(packed, stride, scale, values, count);
    free(packed);
    return valid;
}
