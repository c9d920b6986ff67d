#include "cli/safetensors.h"

#include "util/bytes.h"
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_tensor(cJSON *header, const struct tern_tensor *tensor)
{
    cJSON *entry = cJSON_AddObjectToObject(header, tensor->name);
    cJSON_AddStringToObject(entry, "dtype", "F32");
    cJSON *shape = cJSON_AddArrayToObject(entry, "shape");
    for (uint32_t i = 0; i < tensor->dim_count; i++) {
        cJSON_AddItemToArray(shape, cJSON_CreateNumber(tensor->dims[i]));
    }
    // Offsets are below 2^31, so a double holds them.
    cJSON *place = cJSON_AddArrayToObject(entry, "data_offsets");
    cJSON_AddItemToArray(place, cJSON_CreateNumber(4.0 * tensor->offset));
    cJSON_AddItemToArray(place, cJSON_CreateNumber(4.0 * (tensor->offset + tensor->count)));
}

// NULL without memory.
static char *header_text(const struct tern_model *model, const struct tern_safetensors_note *notes)
{
    cJSON *header = cJSON_CreateObject();
    cJSON *metadata = cJSON_AddObjectToObject(header, "__metadata__");
    for (; notes->key != NULL; notes++) {
        cJSON_AddStringToObject(metadata, notes->key, notes->value);
    }
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        add_tensor(header, &model->tensors[i]);
    }
    char *text = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    return text;
}

enum tern_result tern_safetensors_encode(const struct tern_model *model, const float *weights,
                                         const struct tern_safetensors_note *notes, uint8_t **data,
                                         size_t *len)
{
    char *text = header_text(model, notes);
    if (text == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    size_t used = strlen(text);
    size_t header = (used + 7) / 8 * 8; // the data begins aligned; the padding is spaces
    size_t total = 8 + header + (size_t)model->count * 4;
    uint8_t *out = malloc(total);
    if (out != NULL) {
        tern_put_le64(out, header);
        memset(out + 8, ' ', header);
        // NOLINTNEXTLINE(bugprone-not-null-terminated-result): the format has a length instead
        memcpy(out + 8, text, used);
        for (uint32_t i = 0; i < model->count; i++) {
            tern_put_f32(out + 8 + header + (size_t)i * 4, weights[i]);
        }
        *data = out;
        *len = total;
    }
    free(text);
    return out == NULL ? TERN_ERR_NO_MEMORY : TERN_OK;
}
