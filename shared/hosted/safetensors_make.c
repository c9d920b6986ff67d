#include "hosted/safetensors.h"

#include "codec/codec.h"
#include "util/bytes.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LENGTH_BYTES = 8, ALIGNMENT = 8 };

static const struct kind {
    const char *name;
    size_t bytes;             // of a value
    enum tern_codec_id codec; // whose payload has the values behind its mode
} kinds[] = {
    [TERN_SAFETENSORS_F32] = {"F32", 4, TERN_CODEC_FLOAT32},
    [TERN_SAFETENSORS_F16] = {"F16", 2, TERN_CODEC_FLOAT16},
    [TERN_SAFETENSORS_BF16] = {"BF16", 2, TERN_CODEC_BFLOAT16},
};

bool tern_safetensors_kind_from_name(const char *name, enum tern_safetensors_kind *kind)
{
    for (size_t i = TERN_SAFETENSORS_F32; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcasecmp(kinds[i].name, name) == 0) {
            *kind = (enum tern_safetensors_kind)i;
            return true;
        }
    }
    return false;
}

// Offsets are below 2^53, so a double holds them.
static void add_tensor(cJSON *header, const struct tern_safetensors_tensor *tensor,
                       const struct kind *kind, size_t offset)
{
    cJSON *json = cJSON_AddObjectToObject(header, tensor->name);
    cJSON_AddStringToObject(json, "dtype", kind->name);
    cJSON_AddRawToObject(json, "shape", tensor->shape);
    cJSON *place = cJSON_AddArrayToObject(json, "data_offsets");
    cJSON_AddItemToArray(place, cJSON_CreateNumber((double)offset));
    cJSON_AddItemToArray(place, cJSON_CreateNumber((double)(offset + kind->bytes * tensor->count)));
}

// cJSON's to free; NULL without memory. *data_len: bytes of all tensors.
static char *header_text(const struct tern_safetensors_tensor *tensors, size_t count,
                         const cJSON *metadata, const struct kind *kind, size_t *data_len)
{
    cJSON *header = cJSON_CreateObject();
    if (metadata != NULL) {
        cJSON_AddItemToObject(header, "__metadata__", cJSON_Duplicate(metadata, 1));
    }
    *data_len = 0;
    for (size_t i = 0; i < count; i++) {
        add_tensor(header, &tensors[i], kind, *data_len);
        *data_len += kind->bytes * tensors[i].count;
    }
    char *text = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    return text;
}

static void put_floats(const struct tern_safetensors_tensor *tensor, uint8_t *dst)
{
    for (size_t i = 0; i < tensor->count; i++) {
        tern_put_f32(dst + 4 * i, tensor->values[i]);
    }
}

// A payload of the codec is its mode, then the values as the file has them; or the mode alone when
// they all round to zero.
static enum tern_result put_rounded(const struct tern_safetensors_tensor *tensor,
                                    const struct kind *kind, uint8_t *dst)
{
    const struct tern_codec codec = {.id = kind->codec, .sparsity = 1.0F};
    const size_t bound = tern_codec_bound(&codec, tensor->count);
    float *values = malloc(tensor->count * sizeof *values + 1);
    uint8_t *payload = malloc(bound);
    size_t len = 0;
    enum tern_result result = TERN_ERR_NO_MEMORY;
    if (values != NULL && payload != NULL) {
        memcpy(values, tensor->values, tensor->count * sizeof *values);
        result = tern_codec_encode(&codec, NULL, values, tensor->count, payload, bound, &len);
    }
    if (result == TERN_OK && len == 1) {
        memset(dst, 0, kind->bytes * tensor->count);
    } else if (result == TERN_OK) {
        memcpy(dst, payload + 1, len - 1);
    }
    free(values);
    free(payload);
    return result;
}

static enum tern_result put_all(const struct tern_safetensors_tensor *tensors, size_t count,
                                const struct kind *kind, uint8_t *dst,
                                char why[TERN_SAFETENSORS_WHY_MAX])
{
    for (size_t i = 0; i < count; i++) {
        const struct tern_safetensors_tensor *tensor = &tensors[i];
        enum tern_result result = TERN_OK;
        if (kind->codec == TERN_CODEC_FLOAT32) {
            put_floats(tensor, dst);
        } else if (tensor->count > 0) {
            result = put_rounded(tensor, kind, dst);
        }
        if (result != TERN_OK) {
            snprintf(why, TERN_SAFETENSORS_WHY_MAX, "tensor '%s' cannot be %s: %s", tensor->name,
                     kind->name,
                     result == TERN_ERR_NON_FINITE ? "a value is too large, or none at all"
                                                   : tern_result_sentence(result));
            return result;
        }
        dst += kind->bytes * tensor->count;
    }
    return TERN_OK;
}

enum tern_result tern_safetensors_make(const struct tern_safetensors_tensor *tensors, size_t count,
                                       const cJSON *metadata, enum tern_safetensors_kind kind,
                                       uint8_t **bytes, size_t *len,
                                       char why[TERN_SAFETENSORS_WHY_MAX])
{
    size_t data_len = 0;
    char *text = header_text(tensors, count, metadata, &kinds[kind], &data_len);
    const size_t used = text != NULL ? strlen(text) : 0;
    const size_t header = (used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint8_t *out = text != NULL ? malloc(LENGTH_BYTES + header + data_len + 1) : NULL;
    snprintf(why, TERN_SAFETENSORS_WHY_MAX, "no memory for %zu bytes", data_len);
    enum tern_result result = TERN_ERR_NO_MEMORY;
    if (out != NULL) {
        tern_put_le64(out, header);
        memset(out + LENGTH_BYTES, ' ', header);
        // NOLINTNEXTLINE(bugprone-not-null-terminated-result): the format has a length instead
        memcpy(out + LENGTH_BYTES, text, used);
        result = put_all(tensors, count, &kinds[kind], out + LENGTH_BYTES + header, why);
    }
    cJSON_free(text);
    if (result != TERN_OK) {
        free(out);
        return result;
    }
    *bytes = out;
    *len = LENGTH_BYTES + header + data_len;
    return TERN_OK;
}

// --- Models

const char *tern_safetensors_shape(const struct tern_tensor *tensor,
                                   char text[TERN_SAFETENSORS_SHAPE_MAX])
{
    size_t used = (size_t)snprintf(text, TERN_SAFETENSORS_SHAPE_MAX, "[");
    for (uint32_t i = 0; i < tensor->dim_count; i++) {
        used += (size_t)snprintf(text + used, TERN_SAFETENSORS_SHAPE_MAX - used, "%s%" PRIu32,
                                 i > 0 ? "," : "", tensor->dims[i]);
    }
    snprintf(text + used, TERN_SAFETENSORS_SHAPE_MAX - used, "]");
    return text;
}

enum tern_result tern_safetensors_make_model(const struct tern_model *model, const float *weights,
                                             const cJSON *metadata, enum tern_safetensors_kind kind,
                                             uint8_t **bytes, size_t *len,
                                             char why[TERN_SAFETENSORS_WHY_MAX])
{
    const uint32_t count = model->tensor_count;
    struct tern_safetensors_tensor *tensors = calloc(count, sizeof *tensors);
    char(*shapes)[TERN_SAFETENSORS_SHAPE_MAX] = calloc(count, sizeof *shapes);
    enum tern_result result = TERN_ERR_NO_MEMORY;
    snprintf(why, TERN_SAFETENSORS_WHY_MAX, "no memory for the names of tensors");
    if (tensors != NULL && shapes != NULL) {
        for (uint32_t i = 0; i < count; i++) {
            const struct tern_tensor *tensor = &model->tensors[i];
            tensors[i] = (struct tern_safetensors_tensor){tensor->name,
                                                          tern_safetensors_shape(tensor, shapes[i]),
                                                          weights + tensor->offset, tensor->count};
        }
        result = tern_safetensors_make(tensors, count, metadata, kind, bytes, len, why);
    }
    free(tensors);
    free(shapes);
    return result;
}
