// Any bytes as a container of a model with two large segments and a fused one: the three readers
// agree, and change nothing on error.
#include "codec/container.h"
#include "payload.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tern_model model;

static float *filled(void)
{
    float *values = malloc(model.count * sizeof *values);
    for (uint32_t i = 0; i < model.count; i++) {
        values[i] = 1 + (float)i;
    }
    return values;
}

static void check_values(const float *decoded, const float *acc, const struct tern_codec_info *info)
{
    size_t nonzero = 0;
    for (uint32_t i = 0; i < model.count; i++) {
        REQUIRE(acc[i] == 1 + (float)i + decoded[i]);
        nonzero += decoded[i] != 0;
    }
    REQUIRE(info->nonzero == nonzero);
}

static void check_readers(const uint8_t *data, size_t size)
{
    size_t bytes = model.count * sizeof(float);
    float *before = filled();
    float *decoded = filled();
    float *acc = filled();
    struct tern_codec_info info;
    enum tern_result result = tern_container_decode(&model, data, size, decoded);
    REQUIRE(tern_container_accumulate(&model, data, size, 1, acc) == result);
    REQUIRE(tern_container_inspect(&model, data, size, &info) == result);
    float *added = filled();
    REQUIRE(tern_container_add(&model, data, size, 1, added) == result);
    if (result == TERN_OK) {
        check_values(decoded, acc, &info);
        REQUIRE(memcmp(added, acc, bytes) == 0);
    } else {
        REQUIRE(memcmp(decoded, before, bytes) == 0 && memcmp(acc, before, bytes) == 0);
    }
    free(added);
    free(acc);
    free(decoded);
    free(before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (model.count == 0) {
        REQUIRE(tern_model_from_spec(&model, "mlp:40-30-20-5") == TERN_OK);
    }
    check_readers(data, size);
    return 0;
}
