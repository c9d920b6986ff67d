// Any bytes as a payload: decode, accumulate and inspect agree, change nothing on error, stay
// inside what they were given, and take exactly what the slow decoder takes.
#include "codec/codec.h"
#include "shared/slow_ternary.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static bool all_are(const float *values, size_t count, uint8_t byte)
{
    const uint8_t *bytes = (const uint8_t *)values;
    for (size_t i = 0; i < count * sizeof *values; i++) {
        if (bytes[i] != byte) {
            return false;
        }
    }
    return true;
}

static float *filled(size_t count)
{
    float *values = malloc(count * sizeof *values + 1);
    memset(values, 0x5a, count * sizeof *values);
    return values;
}

static void compare_with_slow(const uint8_t *src, size_t len, const float *decoded, size_t count,
                              bool accepted)
{
    float *slow = filled(count);
    REQUIRE(slow_decode(src, len, slow, count) == accepted);
    REQUIRE(!accepted || memcmp(slow, decoded, count * sizeof *slow) == 0);
    free(slow);
}

// The first two bytes are the number of values.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    size_t count = data[0] | (size_t)data[1] << 8;
    size_t len = size - 2;
    const uint8_t *src = data + 2;
    float *decoded = filled(count);
    float *acc = filled(count);
    struct tern_codec_info info;
    enum tern_result result = tern_codec_decode(src, len, decoded, count);
    REQUIRE(tern_codec_accumulate(src, len, -0.5f, acc, count) == result);
    REQUIRE(tern_codec_inspect(src, len, count, &info) == result);
    if (result != TERN_OK) {
        REQUIRE(all_are(decoded, count, 0x5a) && all_are(acc, count, 0x5a));
    }
    if (len > 0 && (src[0] == 0x00 || src[0] == 0x10 || src[0] == 0x11)) {
        compare_with_slow(src, len, decoded, count, result == TERN_OK);
    }
    free(acc);
    free(decoded);
    return 0;
}
