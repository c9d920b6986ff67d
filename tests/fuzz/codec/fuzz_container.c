// Any bytes as a container of a model with two large segments and a fused one: the three readers
// agree, and change nothing on error.
#include "codec/container.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tern_model model;
    if (model.count == 0) {
        REQUIRE(tern_model_from_spec(&model, "mlp:40-30-20-5") == TERN_OK);
    }
    size_t bytes = model.count * sizeof(float);
    float *before = malloc(bytes);
    float *decoded = malloc(bytes);
    float *acc = malloc(bytes);
    for (uint32_t i = 0; i < model.count; i++) {
        before[i] = decoded[i] = acc[i] = (float)i;
    }
    struct tern_codec_info info;
    enum tern_result result = tern_container_decode(&model, data, size, decoded);
    REQUIRE(tern_container_accumulate(&model, data, size, 1, acc) == result);
    REQUIRE(tern_container_inspect(&model, data, size, &info) == result);
    if (result != TERN_OK) {
        REQUIRE(memcmp(decoded, before, bytes) == 0 && memcmp(acc, before, bytes) == 0);
    }
    size_t nonzero = 0;
    for (uint32_t i = 0; i < model.count && result == TERN_OK; i++) {
        nonzero += decoded[i] != 0;
    }
    REQUIRE(result != TERN_OK || info.nonzero == nonzero);
    free(acc);
    free(decoded);
    free(before);
    return 0;
}
