#include "payload.h"

#include "shared/slow_ternary.h"
#include <math.h>
#include <string.h>

enum { HEAD = 3, COUNT_MASK = 0x1fff };

// Values that differ from each other and from zero.
static float *filled(size_t count)
{
    float *values = malloc(count * sizeof *values + 1);
    for (size_t i = 0; i < count; i++) {
        values[i] = 1 + (float)i;
    }
    return values;
}

static void check_refused(const float *decoded, const float *acc, size_t count)
{
    float *before = filled(count);
    REQUIRE(memcmp(decoded, before, count * sizeof *before) == 0);
    REQUIRE(memcmp(acc, before, count * sizeof *before) == 0);
    free(before);
}

static void check_accepted(const float *decoded, const float *acc, size_t count,
                           const struct tern_codec_info *info)
{
    size_t nonzero = 0;
    double sum_square = 0;
    float maximum = 0;
    for (size_t i = 0; i < count; i++) {
        REQUIRE(isfinite(decoded[i]));
        float product = -0.5f * decoded[i];
        REQUIRE(acc[i] == 1 + (float)i + product);
        nonzero += decoded[i] != 0;
        sum_square += (double)decoded[i] * (double)decoded[i];
        maximum = fmaxf(maximum, fabsf(decoded[i]));
    }
    REQUIRE(info->nonzero == nonzero && info->maximum == maximum);
    REQUIRE(fabs(info->sum_square - sum_square) <= 1e-9 * sum_square);
}

static void compare_with_slow(const uint8_t *src, size_t len, const float *decoded, size_t count,
                              bool accepted)
{
    float *slow = filled(count);
    REQUIRE(slow_decode(src, len, slow, count) == accepted);
    REQUIRE(!accepted || memcmp(slow, decoded, count * sizeof *slow) == 0);
    free(slow);
}

void check_payload(const uint8_t *modes, size_t mode_count, const uint8_t *data, size_t size)
{
    if (size < HEAD) {
        return;
    }
    size_t count = (data[1] | (size_t)data[2] << 8) & COUNT_MASK;
    size_t len = size - HEAD + 1;
    uint8_t *src = malloc(len);
    src[0] = modes[data[0] % mode_count];
    memcpy(src + 1, data + HEAD, len - 1);
    float *decoded = filled(count);
    float *acc = filled(count);
    struct tern_codec_info info;
    enum tern_result result = tern_codec_decode(src, len, decoded, count);
    REQUIRE(tern_codec_accumulate(src, len, -0.5f, acc, count) == result);
    REQUIRE(tern_codec_inspect(src, len, count, &info) == result);
    if (result == TERN_OK) {
        check_accepted(decoded, acc, count, &info);
    } else {
        check_refused(decoded, acc, count);
    }
    if (slow_reads(src[0])) {
        compare_with_slow(src, len, decoded, count, result == TERN_OK);
    }
    free(acc);
    free(decoded);
    free(src);
}
