// Any bytes as what travels in a round of scalecom: the indices of a leader, the update of another
// client without its indices, and a leader's own update. The first two bytes say how long the first
// of two containers is.
#include "codec/container.h"
#include "codec/sparse_share.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static struct tern_model model;
static struct tern_codec codec;

struct bytes {
    uint8_t *data;
    size_t len;
};

static struct bytes room(size_t size)
{
    struct bytes bytes = {malloc(size + 1), size};
    REQUIRE(bytes.data != NULL);
    return bytes;
}

// Joined is what is stripped again, where all payloads came without indices.
static void check_join(const uint8_t *indices, size_t indices_len, const uint8_t *src, size_t len)
{
    struct bytes joined = room(tern_sparse_join_bound(&model, indices_len, len));
    size_t written = 0;
    struct tern_codec_info info;
    if (tern_sparse_join(&model, indices, indices_len, src, len, joined.data, joined.len,
                         &written) == TERN_OK) {
        REQUIRE(written <= joined.len);
        bool valid = tern_container_inspect(&model, joined.data, written, &info) == TERN_OK;
        struct bytes stripped = room(written);
        size_t stripped_len = 0;
        enum tern_result result = tern_sparse_strip(&model, joined.data, written, stripped.data,
                                                    stripped.len, &stripped_len);
        REQUIRE((result == TERN_OK) == valid && stripped_len <= written);
        free(stripped.data);
    }
    free(joined.data);
}

static float *some_values(void)
{
    float *values = malloc(model.count * sizeof *values);
    REQUIRE(values != NULL);
    for (uint32_t i = 0; i < model.count; i++) {
        values[i] = (float)(i % 7) - 3;
    }
    return values;
}

// Encodes at these indices. Accepted ones survive the way to the aggregator.
static void check_encode(const uint8_t *indices, size_t len, bool made)
{
    struct tern_encode_context context = {.indices = indices, .indices_len = len};
    struct bytes container = room(tern_container_bound(&codec, &model));
    float *before = some_values();
    float *after = some_values();
    float *sent = some_values();
    size_t written = 0;
    size_t stripped = 0;
    enum tern_result result = tern_container_encode(&codec, &context, &model, after, container.data,
                                                    container.len, &written);
    REQUIRE(result == TERN_OK || !made);
    if (result != TERN_OK) {
        REQUIRE(memcmp(before, after, model.count * sizeof *after) == 0);
    } else {
        REQUIRE(tern_container_decode(&model, container.data, written, sent) == TERN_OK);
        for (uint32_t i = 0; i < model.count; i++) {
            REQUIRE(before[i] == sent[i] + after[i]);
        }
        REQUIRE(tern_sparse_strip(&model, container.data, written, container.data, written,
                                  &stripped) == TERN_OK);
        struct bytes joined = room(tern_sparse_join_bound(&model, len, stripped));
        REQUIRE(tern_sparse_join(&model, indices, len, container.data, stripped, joined.data,
                                 joined.len, &written) == TERN_OK);
        REQUIRE(tern_container_decode(&model, joined.data, written, after) == TERN_OK);
        REQUIRE(memcmp(sent, after, model.count * sizeof *after) == 0);
        free(joined.data);
    }
    free(sent);
    free(after);
    free(before);
    free(container.data);
}

static void check_leader(const uint8_t *src, size_t len)
{
    struct bytes indices = room(tern_container_bound_any(&model));
    size_t written = 0;
    enum tern_result result =
        tern_sparse_indices(&model, &codec, src, len, indices.data, indices.len, &written);
    REQUIRE(result != TERN_ERR_NO_SPACE);
    if (result == TERN_OK) {
        struct bytes exact = room(written);
        memcpy(exact.data, indices.data, written);
        check_encode(exact.data, written, true);
        free(exact.data);
    }
    free(indices.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (model.count == 0) {
        REQUIRE(tern_model_from_spec(&model, "mlp:26-20-5") == TERN_OK);
        REQUIRE(tern_codec_parse("scalecom:p=0.2", &codec, NULL) == TERN_OK);
    }
    if (size < 2) {
        return 0;
    }
    size_t left = size - 2;
    size_t first = (size_t)(data[0] | data[1] << 8);
    first = first < left ? first : left;
    // Allocations of their own, so that reading past either is seen.
    struct bytes one = room(first);
    struct bytes two = room(left - first);
    memcpy(one.data, data + 2, one.len);
    memcpy(two.data, data + 2 + first, two.len);
    check_join(one.data, one.len, two.data, two.len);
    check_encode(one.data, one.len, false);
    check_leader(one.data, one.len);
    free(two.data);
    free(one.data);
    return 0;
}
