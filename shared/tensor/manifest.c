#include "tensor/manifest.h"

#include "util/bytes.h"
#include "util/text.h"
#include <string.h>

static const uint8_t magic[4] = {'T', 'M', 'F', '1'};

// --- Writing

size_t tern_manifest_encode(const struct tern_model *model, uint8_t dst[TERN_MANIFEST_MAX])
{
    uint8_t *at = dst;
    memcpy(at, magic, sizeof magic);
    at += sizeof magic;
    at += tern_put_varint(at, model->tensor_count);
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        const struct tern_tensor *tensor = &model->tensors[i];
        const size_t len = strlen(tensor->name);
        *at++ = (uint8_t)tensor->rule;
        at += tern_put_varint(at, len);
        memcpy(at, tensor->name, len);
        at += len;
        *at++ = (uint8_t)tensor->dim_count;
        for (uint32_t k = 0; k < tensor->dim_count; k++) {
            at += tern_put_varint(at, tensor->dims[k]);
        }
    }
    return (size_t)(at - dst);
}

// --- Reading

struct reader {
    const uint8_t *at;
    size_t left;
};

// Returns the next `len` bytes and advances behind them; NULL: fewer are left.
static const uint8_t *take(struct reader *reader, size_t len)
{
    const uint8_t *bytes = reader->at;
    if (len > reader->left) {
        return NULL;
    }
    reader->at += len;
    reader->left -= len;
    return bytes;
}

static enum tern_result take_number(struct reader *reader, uint64_t most, uint32_t *number)
{
    uint64_t value = 0;
    const size_t len = tern_get_varint(reader->at, reader->left, &value);
    if (len == 0) {
        return TERN_ERR_CORRUPT;
    }
    (void)take(reader, len);
    if (value > most) {
        return TERN_ERR_TOO_LARGE;
    }
    *number = (uint32_t)value;
    return TERN_OK;
}

static enum tern_result take_byte(struct reader *reader, uint32_t below, uint32_t *value)
{
    const uint8_t *byte = take(reader, 1);
    if (byte == NULL || *byte >= below) {
        return TERN_ERR_CORRUPT;
    }
    *value = *byte;
    return TERN_OK;
}

static enum tern_result take_name(struct reader *reader, char name[TERN_TENSOR_NAME_MAX])
{
    uint32_t len = 0;
    TERN_TRY(take_number(reader, TERN_TENSOR_NAME_MAX - 1, &len));
    const uint8_t *bytes = take(reader, len);
    if (bytes == NULL) {
        return TERN_ERR_CORRUPT;
    }
    memcpy(name, bytes, len);
    name[len] = '\0';
    return tern_utf8_is_text(name, len) ? TERN_OK : TERN_ERR_CORRUPT;
}

static enum tern_result take_tensor(struct reader *reader, struct tern_model *model)
{
    char name[TERN_TENSOR_NAME_MAX];
    uint32_t dims[TERN_TENSOR_MAX_DIMS];
    uint32_t rule = 0;
    uint32_t dim_count = 0;
    TERN_TRY(take_byte(reader, TERN_RULE_COUNT, &rule));
    TERN_TRY(take_name(reader, name));
    TERN_TRY(take_byte(reader, TERN_TENSOR_MAX_DIMS + 1, &dim_count));
    for (uint32_t i = 0; i < dim_count; i++) {
        TERN_TRY(take_number(reader, TERN_MODEL_MAX_VALUES, &dims[i]));
    }
    return tern_model_add_by_rule(model, name, dims, dim_count, (enum tern_rule)rule);
}

enum tern_result tern_model_from_manifest(struct tern_model *model, const uint8_t *src, size_t len)
{
    struct reader reader = {src, len};
    uint32_t count = 0;
    tern_model_clear(model);
    const uint8_t *start = take(&reader, sizeof magic);
    if (start == NULL || memcmp(start, magic, sizeof magic) != 0) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(take_number(&reader, TERN_MODEL_MAX_TENSORS, &count));
    for (uint32_t i = 0; i < count; i++) {
        TERN_TRY(take_tensor(&reader, model));
    }
    if (reader.left != 0) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(tern_model_layout(model));
    model->from_manifest = true;
    tern_sha256(src, len, model->hash);
    return TERN_OK;
}

enum tern_result tern_model_build(struct tern_model *model, const char *spec,
                                  const uint8_t *manifest, size_t manifest_len,
                                  const uint8_t hash[TERN_SHA256_SIZE])
{
    enum tern_result result = TERN_ERR_MODEL_MISMATCH;
    if (manifest_len == 0) {
        result = tern_model_from_spec(model, spec);
    } else if (TERN_MANIFESTS) {
        result = tern_model_from_manifest(model, manifest, manifest_len);
        model->loss = tern_model_spec_loss(spec);
    }
    return result == TERN_OK && memcmp(model->hash, hash, TERN_SHA256_SIZE) == 0
               ? TERN_OK
               : TERN_ERR_MODEL_MISMATCH;
}
