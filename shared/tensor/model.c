#include "tensor/model.h"

#include "util/bytes.h"
#include "util/prng.h"
#include <stdbool.h>
#include <string.h>

// Returns the length of a name; TERN_TENSOR_NAME_MAX if it has no NUL within that.
static size_t name_length(const char *name)
{
    size_t len = 0;
    while (len < TERN_TENSOR_NAME_MAX && name[len] != '\0') {
        len++;
    }
    return len;
}

static bool name_taken(const struct tern_model *model, const char *name, size_t len)
{
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        if (memcmp(model->tensors[i].name, name, len + 1) == 0) {
            return true;
        }
    }
    return false;
}

// Returns true if the bound is finite and not negative. Compares bits, which refuses -0 too, so
// that equal models have equal hashes.
static bool good_bound(float bound)
{
    uint8_t bytes[4];
    tern_put_f32(bytes, bound);
    return tern_get_le32(bytes) < 0x7f800000u;
}

static enum tern_result product_of(const uint32_t *dims, uint32_t dim_count, uint32_t *count)
{
    uint64_t product = 1;
    for (uint32_t i = 0; i < dim_count; i++) {
        if (dims[i] == 0) {
            return TERN_ERR_ARGUMENT;
        }
        // Both factors are below 2^32, so the product does not overflow.
        product *= dims[i];
        if (product > TERN_MODEL_MAX_VALUES) {
            return TERN_ERR_TOO_LARGE;
        }
    }
    *count = (uint32_t)product;
    return TERN_OK;
}

void tern_model_clear(struct tern_model *model)
{
    model->tensor_count = 0;
    model->segment_count = 0;
    model->count = 0;
    model->coded = 0;
    memset(model->hash, 0, sizeof model->hash);
    model->from_manifest = false;
    model->loss = TERN_LOSS_CROSS_ENTROPY;
}

// Appends a tensor and sets *added to it.
static enum tern_result add(struct tern_model *model, const char *name, const uint32_t *dims,
                            uint32_t dim_count, struct tern_tensor **added)
{
    size_t len = name_length(name);
    if (len == 0 || len == TERN_TENSOR_NAME_MAX || dim_count > TERN_TENSOR_MAX_DIMS) {
        return TERN_ERR_ARGUMENT;
    }
    uint32_t count = 0;
    TERN_TRY(product_of(dims, dim_count, &count));
    if (name_taken(model, name, len)) {
        return TERN_ERR_ARGUMENT;
    }
    if (model->tensor_count == TERN_MODEL_MAX_TENSORS ||
        count > TERN_MODEL_MAX_VALUES - model->count) {
        return TERN_ERR_TOO_LARGE;
    }
    struct tern_tensor *tensor = &model->tensors[model->tensor_count++];
    memset(tensor, 0, sizeof *tensor);
    tensor->dim_count = dim_count;
    tensor->count = count;
    memcpy(tensor->name, name, len);
    for (uint32_t i = 0; i < dim_count; i++) {
        tensor->dims[i] = dims[i];
    }
    model->count += count;
    *added = tensor;
    return TERN_OK;
}

enum tern_result tern_model_add(struct tern_model *model, const char *name, const uint32_t *dims,
                                uint32_t dim_count, float init_bound)
{
    struct tern_tensor *tensor = NULL;
    if (dim_count == 0 || !good_bound(init_bound)) {
        return TERN_ERR_ARGUMENT;
    }
    TERN_TRY(add(model, name, dims, dim_count, &tensor));
    tensor->init_bound = init_bound;
    tensor->rule = tensor->count < TERN_FUSE_BELOW ? TERN_RULE_FUSE : TERN_RULE_COMPRESS;
    return TERN_OK;
}

enum tern_result tern_model_add_by_rule(struct tern_model *model, const char *name,
                                        const uint32_t *dims, uint32_t dim_count,
                                        enum tern_rule rule)
{
    struct tern_tensor *tensor = NULL;
    if ((unsigned)rule >= TERN_RULE_COUNT) {
        return TERN_ERR_ARGUMENT;
    }
    TERN_TRY(add(model, name, dims, dim_count, &tensor));
    tensor->rule = rule;
    return TERN_OK;
}

static void hash_le32(struct tern_sha256 *sha, uint32_t value)
{
    uint8_t bytes[4];
    tern_put_le32(bytes, value);
    tern_sha256_update(sha, bytes, sizeof bytes);
}

static void hash_tensor(struct tern_sha256 *sha, const struct tern_tensor *tensor)
{
    size_t len = name_length(tensor->name);
    hash_le32(sha, (uint32_t)len);
    tern_sha256_update(sha, tensor->name, len);
    hash_le32(sha, tensor->dim_count);
    for (uint32_t i = 0; i < tensor->dim_count; i++) {
        hash_le32(sha, tensor->dims[i]);
    }
    uint8_t bound[4];
    tern_put_f32(bound, tensor->init_bound);
    tern_sha256_update(sha, bound, sizeof bound);
}

// Hashes a tensor as docs/FORMAT.md, section 6.2, specifies.
static void hash_model(struct tern_model *model)
{
    static const char label[] = "tern model";
    struct tern_sha256 sha;
    tern_sha256_init(&sha);
    tern_sha256_update(&sha, label, sizeof label - 1);
    hash_le32(&sha, model->tensor_count);
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        hash_tensor(&sha, &model->tensors[i]);
    }
    tern_sha256_final(&sha, model->hash);
}

static void add_segment(struct tern_model *model, enum tern_rule rule, uint32_t offset,
                        uint32_t count)
{
    struct tern_segment *segment = &model->segments[model->segment_count++];
    segment->offset = offset;
    segment->count = count;
    segment->rule = rule;
}

// Assigns offsets from `offset` on to the tensors with that rule, in manifest order, and adds their
// segments. Returns the end. There are at most as many segments as tensors.
static uint32_t place(struct tern_model *model, enum tern_rule rule, uint32_t offset)
{
    const uint32_t start = offset;
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        struct tern_tensor *tensor = &model->tensors[i];
        if (tensor->rule != rule) {
            continue;
        }
        tensor->offset = offset;
        offset += tensor->count;
        if (rule == TERN_RULE_COMPRESS) {
            add_segment(model, rule, tensor->offset, tensor->count);
        }
    }
    if (rule != TERN_RULE_COMPRESS && offset > start) {
        add_segment(model, rule, start, offset - start);
    }
    return offset;
}

enum tern_result tern_model_layout(struct tern_model *model)
{
    if (model->tensor_count == 0) {
        return TERN_ERR_ARGUMENT;
    }
    model->segment_count = 0;
    model->coded = place(model, TERN_RULE_FUSE, place(model, TERN_RULE_COMPRESS, 0));
    model->count = model->coded;
    model->count = place(model, TERN_RULE_DENSE, model->coded);
    model->count = place(model, TERN_RULE_LOCAL, model->count);
    model->count = place(model, TERN_RULE_SKIP, model->count);
    hash_model(model);
    return TERN_OK;
}

void tern_model_init_weights(const struct tern_model *model, uint64_t seed, float *weights)
{
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        const struct tern_tensor *tensor = &model->tensors[i];
        float *values = weights + tensor->offset;
        struct tern_prng rng;
        tern_prng_init(&rng, seed, TERN_PRNG_INIT_WEIGHTS, i, 0);
        for (uint32_t k = 0; k < tensor->count; k++) {
            // A bound of 0 must give +0; multiplying 0 by a negative draw would give -0.
            values[k] = tensor->init_bound > 0
                            ? tensor->init_bound * (2 * tern_prng_float(&rng) - 1)
                            : 0.0f;
        }
    }
}

void tern_model_freeze(const struct tern_model *model, float *change)
{
    uint32_t local = 0;
    const uint32_t kept = tern_model_local(model, &local) > 0 ? local : tern_model_trained(model);
    for (uint32_t i = kept; i < model->count; i++) {
        if (change[i] != 0) {
            change[i] = 0;
        }
    }
}
