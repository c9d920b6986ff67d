#include "hosted/safetensors.h"

#include "codec/codec.h"
#include "util/bytes.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ALIGNMENT = 8 };

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

// --- Places

// What is to be written, and where each tensor lies in the data.
struct plan {
    const struct tern_safetensors_tensor *tensors;
    size_t count;
    const struct kind *kind; // of those that are not as_read
    size_t *offsets;
    size_t data_len;
};

static size_t width_of(const struct plan *plan, const struct tern_safetensors_tensor *tensor)
{
    return tensor->as_read != NULL ? tensor->as_read->width : plan->kind->bytes;
}

static size_t bytes_of(const struct plan *plan, const struct tern_safetensors_tensor *tensor)
{
    return tensor->as_read != NULL ? (size_t)tensor->as_read->data_len
                                   : plan->kind->bytes * tensor->count;
}

// All widths are powers of two, so that what follows a wider one is aligned. Unknown ones come
// last, where they disturb nobody.
static void place(struct plan *plan)
{
    static const size_t widths[] = {8, 4, 2, 1, 0};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        for (size_t i = 0; i < plan->count; i++) {
            if (width_of(plan, &plan->tensors[i]) == widths[w]) {
                plan->offsets[i] = plan->data_len;
                plan->data_len += bytes_of(plan, &plan->tensors[i]);
            }
        }
    }
}

// --- The header

// Offsets are below 2^53, so a double holds them.
static void add_tensor(cJSON *header, const struct plan *plan, size_t i)
{
    const struct tern_safetensors_tensor *tensor = &plan->tensors[i];
    const size_t end = plan->offsets[i] + bytes_of(plan, tensor);
    cJSON *json = cJSON_AddObjectToObject(header, tensor->name);
    cJSON_AddStringToObject(json, "dtype",
                            tensor->as_read != NULL ? tensor->as_read->dtype : plan->kind->name);
    cJSON_AddRawToObject(json, "shape", tensor->shape);
    cJSON *offsets = cJSON_AddArrayToObject(json, "data_offsets");
    cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)plan->offsets[i]));
    cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)end));
}

// cJSON's to free; NULL without memory.
static char *header_text(const struct plan *plan, const cJSON *metadata)
{
    cJSON *header = cJSON_CreateObject();
    if (metadata != NULL) {
        cJSON_AddItemToObject(header, "__metadata__", cJSON_Duplicate(metadata, 1));
    }
    for (size_t i = 0; i < plan->count; i++) {
        add_tensor(header, plan, i);
    }
    char *text = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    return text;
}

// --- The data

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

static enum tern_result put(const struct plan *plan, const struct tern_safetensors_tensor *tensor,
                            uint8_t *dst)
{
    if (bytes_of(plan, tensor) == 0) {
        return TERN_OK;
    }
    if (tensor->as_read != NULL) {
        memcpy(dst, tensor->as_read->data, bytes_of(plan, tensor));
        return TERN_OK;
    }
    if (plan->kind->codec == TERN_CODEC_FLOAT32) {
        put_floats(tensor, dst);
        return TERN_OK;
    }
    return put_rounded(tensor, plan->kind, dst);
}

static enum tern_result put_all(const struct plan *plan, uint8_t *data,
                                char why[TERN_SAFETENSORS_WHY_MAX])
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct tern_safetensors_tensor *tensor = &plan->tensors[i];
        const enum tern_result result = put(plan, tensor, data + plan->offsets[i]);
        if (result != TERN_OK) {
            snprintf(why, TERN_SAFETENSORS_WHY_MAX, "tensor '%s' cannot be %s: %s", tensor->name,
                     plan->kind->name,
                     result == TERN_ERR_NON_FINITE ? "a value is too large, or none at all"
                                                   : tern_result_sentence(result));
            return result;
        }
    }
    return TERN_OK;
}

// --- The file

// Its bytes up to the data, in memory for `room` bytes more. NULL without memory.
static uint8_t *make_head(const struct plan *plan, const cJSON *metadata, size_t room, size_t *len)
{
    char *text = header_text(plan, metadata);
    const size_t used = text != NULL ? strlen(text) : 0;
    const size_t header = (used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint8_t *out = text != NULL ? malloc(TERN_SAFETENSORS_LENGTH_BYTES + header + room + 1) : NULL;
    if (out != NULL) {
        tern_put_le64(out, header);
        memset(out + TERN_SAFETENSORS_LENGTH_BYTES, ' ', header);
        // NOLINTNEXTLINE(bugprone-not-null-terminated-result): the format has a length instead
        memcpy(out + TERN_SAFETENSORS_LENGTH_BYTES, text, used);
    }
    cJSON_free(text);
    *len = TERN_SAFETENSORS_LENGTH_BYTES + header;
    return out;
}

static enum tern_result make(const struct plan *plan, const cJSON *metadata, uint8_t **bytes,
                             size_t *len, char why[TERN_SAFETENSORS_WHY_MAX])
{
    size_t head = 0;
    uint8_t *out = make_head(plan, metadata, plan->data_len, &head);
    const enum tern_result result =
        out != NULL ? put_all(plan, out + head, why) : TERN_ERR_NO_MEMORY;
    if (result != TERN_OK) {
        free(out);
        return result;
    }
    *bytes = out;
    *len = head + plan->data_len;
    return TERN_OK;
}

// Sets places. False: no memory, and `why` says so.
static bool open_plan(struct plan *plan, const struct tern_safetensors_tensor *tensors,
                      size_t count, enum tern_safetensors_kind kind,
                      char why[TERN_SAFETENSORS_WHY_MAX])
{
    *plan = (struct plan){tensors, count, &kinds[kind], calloc(count + 1, sizeof(size_t)), 0};
    if (plan->offsets == NULL) {
        snprintf(why, TERN_SAFETENSORS_WHY_MAX, "no memory for the places of %zu tensors", count);
        return false;
    }
    place(plan);
    snprintf(why, TERN_SAFETENSORS_WHY_MAX, "no memory for %zu bytes", plan->data_len);
    return true;
}

enum tern_result tern_safetensors_make(const struct tern_safetensors_tensor *tensors, size_t count,
                                       const cJSON *metadata, enum tern_safetensors_kind kind,
                                       uint8_t **bytes, size_t *len,
                                       char why[TERN_SAFETENSORS_WHY_MAX])
{
    struct plan plan;
    if (!open_plan(&plan, tensors, count, kind, why)) {
        return TERN_ERR_NO_MEMORY;
    }
    const enum tern_result result = make(&plan, metadata, bytes, len, why);
    free(plan.offsets);
    return result;
}

struct tern_safetensors_tensor tern_safetensors_as_read(const struct tern_safetensors_entry *entry)
{
    return (struct tern_safetensors_tensor){
        .name = entry->name, .shape = entry->shape, .as_read = entry};
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

// A model's tensors in manifest order, with room for others behind them.
struct model_tensors {
    struct tern_safetensors_tensor *of;
    char (*shapes)[TERN_SAFETENSORS_SHAPE_MAX];
};

static void free_tensors(struct model_tensors *tensors)
{
    free(tensors->of);
    free(tensors->shapes);
}

// False: no memory, and `why` says so.
static bool list_tensors(struct model_tensors *tensors, const struct tern_model *model,
                         const float *weights, size_t more, char why[TERN_SAFETENSORS_WHY_MAX])
{
    const uint32_t count = model->tensor_count;
    tensors->of = calloc(count + more, sizeof *tensors->of);
    tensors->shapes = calloc(count, sizeof *tensors->shapes);
    if (tensors->of == NULL || tensors->shapes == NULL) {
        free_tensors(tensors);
        snprintf(why, TERN_SAFETENSORS_WHY_MAX, "no memory for the names of tensors");
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct tern_tensor *tensor = &model->tensors[i];
        tensors->of[i] = (struct tern_safetensors_tensor){
            .name = tensor->name,
            .shape = tern_safetensors_shape(tensor, tensors->shapes[i]),
            .values = weights != NULL ? weights + tensor->offset : NULL,
            .count = tensor->count,
        };
    }
    return true;
}

enum tern_result tern_safetensors_make_model(const struct tern_model *model, const float *weights,
                                             const struct tern_safetensors *kept,
                                             const cJSON *metadata, enum tern_safetensors_kind kind,
                                             uint8_t **bytes, size_t *len,
                                             char why[TERN_SAFETENSORS_WHY_MAX])
{
    const size_t more = kept != NULL ? kept->count : 0;
    struct model_tensors tensors;
    if (!list_tensors(&tensors, model, weights, more, why)) {
        return TERN_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < more; i++) {
        tensors.of[model->tensor_count + i] = tern_safetensors_as_read(&kept->entries[i]);
    }
    const enum tern_result result = tern_safetensors_make(tensors.of, model->tensor_count + more,
                                                          metadata, kind, bytes, len, why);
    free_tensors(&tensors);
    return result;
}

enum tern_result tern_safetensors_make_model_head(const struct tern_model *model, uint8_t **bytes,
                                                  size_t *len, char why[TERN_SAFETENSORS_WHY_MAX])
{
    struct model_tensors tensors;
    struct plan plan;
    if (!list_tensors(&tensors, model, NULL, 0, why)) {
        return TERN_ERR_NO_MEMORY;
    }
    *bytes = NULL;
    if (open_plan(&plan, tensors.of, model->tensor_count, TERN_SAFETENSORS_F32, why)) {
        *bytes = make_head(&plan, NULL, 0, len);
        free(plan.offsets);
    }
    free_tensors(&tensors);
    return *bytes != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}
