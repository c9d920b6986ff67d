// Any bytes as a container of a model with two large segments and a fused one: the three readers
// agree, and change nothing on error. Also as what the clients of a ScaleCom round share: places
// that are taken off a container and put back leave its values as they are.
#include "codec/container.h"
#include "codec/sparse_share.h"
#include "payload.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tern_model model;

// --- Readers
// --------------------------------------------------------------------------------------------

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

static enum tern_result check_readers(const uint8_t *data, size_t size)
{
    size_t bytes = model.count * sizeof(float);
    float *before = filled();
    float *decoded = filled();
    float *acc = filled();
    struct tern_codec_info info;
    enum tern_result result = tern_container_decode(&model, data, size, decoded);
    REQUIRE(tern_container_accumulate(&model, data, size, 1, acc) == result);
    REQUIRE(tern_container_inspect(&model, data, size, &info) == result);
    if (result == TERN_OK) {
        check_values(decoded, acc, &info);
    } else {
        REQUIRE(memcmp(decoded, before, bytes) == 0 && memcmp(acc, before, bytes) == 0);
    }
    free(acc);
    free(decoded);
    free(before);
    return result;
}

// --- Sharing places
// -------------------------------------------------------------------------------------

// Output of one step; data has exactly the room that the step asks for.
struct shared {
    uint8_t *data;
    size_t size;
    size_t len;
    enum tern_result result;
};

static struct shared indices_of(const uint8_t *data, size_t size)
{
    static const struct tern_codec all = {
        .id = TERN_CODEC_SCALECOM, .density = 1, .filter = 1, .coder = TERN_INDEX_AUTO};
    struct shared out = {.size = tern_sparse_indices_bound(&model, size)};
    out.data = malloc(out.size + 1);
    out.result = tern_sparse_indices(&model, &all, data, size, out.data, out.size, &out.len);
    return out;
}

static struct shared strip(const uint8_t *data, size_t size)
{
    struct shared out = {.data = malloc(size + 1), .size = size};
    out.result = tern_sparse_strip(&model, data, size, out.data, out.size, &out.len);
    return out;
}

static struct shared join(const struct shared *indices, const uint8_t *data, size_t size)
{
    struct shared out = {.size = tern_sparse_join_bound(&model, indices->len, size)};
    out.data = malloc(out.size + 1);
    out.result = tern_sparse_join(&model, indices->data, indices->len, data, size, out.data,
                                  out.size, &out.len);
    REQUIRE(out.result != TERN_ERR_NO_SPACE);
    return out;
}

static void check_same_values(const uint8_t *data, size_t size, const struct shared *joined)
{
    float *a = filled();
    float *b = filled();
    REQUIRE(tern_container_decode(&model, data, size, a) == TERN_OK);
    REQUIRE(tern_container_decode(&model, joined->data, joined->len, b) == TERN_OK);
    REQUIRE(memcmp(a, b, model.count * sizeof *a) == 0);
    free(b);
    free(a);
}

static void check_sharing(const uint8_t *data, size_t size, bool valid)
{
    struct shared indices = indices_of(data, size);
    struct shared stripped = strip(data, size);
    REQUIRE(indices.result != TERN_ERR_NO_SPACE && stripped.result != TERN_ERR_NO_SPACE);
    REQUIRE((stripped.result == TERN_OK) == valid && (valid || indices.result != TERN_OK));
    if (indices.result == TERN_OK) {
        struct shared joined = join(&indices, stripped.data, stripped.len);
        REQUIRE(joined.result == TERN_OK);
        check_same_values(data, size, &joined);
        free(joined.data);
    }
    free(stripped.data);
    free(indices.data);
}

// Bytes as the places and the values of one round: whatever they are, joining stays in its room.
static void check_joining(const uint8_t *data, size_t size)
{
    size_t places = size > 0 ? data[0] % size : 0;
    struct shared indices = {.len = places, .data = malloc(places + 1)};
    memcpy(indices.data, data, places);
    struct shared joined = join(&indices, data + places, size - places);
    free(joined.data);
    free(indices.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (model.count == 0) {
        REQUIRE(tern_model_from_spec(&model, "mlp:40-30-20-5") == TERN_OK);
    }
    bool valid = check_readers(data, size) == TERN_OK;
    check_sharing(data, size, valid);
    check_joining(data, size);
    return 0;
}
