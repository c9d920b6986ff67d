// Hostile manifests: one that is accepted is the only form of its model, whose segments fill it and
// whose tensors lie in those of their rules.
#include "tensor/manifest.h"
#include "util/text.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static struct tern_model model;
static uint8_t again[TERN_MANIFEST_MAX];

// Segments stand in this order: coded ones, dense, local and frozen ones.
static int place_of(enum tern_rule rule)
{
    static const int places[TERN_RULE_COUNT] = {
        [TERN_RULE_COMPRESS] = 0, [TERN_RULE_FUSE] = 1, [TERN_RULE_DENSE] = 2,
        [TERN_RULE_LOCAL] = 3,    [TERN_RULE_SKIP] = 4,
    };
    return places[rule];
}

static void check_segments(void)
{
    uint32_t end = 0;
    uint32_t coded = 0;
    for (uint32_t i = 0; i < model.segment_count; i++) {
        const struct tern_segment *segment = &model.segments[i];
        REQUIRE(segment->offset == end && segment->count > 0);
        REQUIRE(i == 0 || place_of(segment->rule) >= place_of(model.segments[i - 1].rule));
        end += segment->count;
        coded += tern_segment_is_coded(segment) ? segment->count : 0;
    }
    REQUIRE(end == model.count && end <= TERN_MODEL_MAX_VALUES && coded == model.coded);
}

static void check_tensor(const struct tern_tensor *tensor)
{
    uint64_t count = 1;
    const size_t len = strlen(tensor->name);
    REQUIRE(len > 0 && len < TERN_TENSOR_NAME_MAX && tern_utf8_is_text(tensor->name, len));
    for (uint32_t i = 0; i < tensor->dim_count; i++) {
        count *= tensor->dims[i];
    }
    REQUIRE(count == tensor->count && tensor->offset + tensor->count <= model.count);
    REQUIRE((tensor->offset < model.coded) == (tensor->rule < TERN_RULE_DENSE));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (tern_model_from_manifest(&model, data, size) != TERN_OK) {
        return 0;
    }
    REQUIRE(size <= TERN_MANIFEST_MAX && tern_manifest_encode(&model, again) == size);
    REQUIRE(memcmp(again, data, size) == 0);
    check_segments();
    for (uint32_t i = 0; i < model.tensor_count; i++) {
        check_tensor(&model.tensors[i]);
    }
    return 0;
}
