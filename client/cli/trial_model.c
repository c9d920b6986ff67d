#include "cli/trial_model.h"

#include "hosted/files.h"
#include "hosted/safetensors.h"
#include "util/prefix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((size_t)1 << 30)

static enum tern_result fail(char *why, enum tern_result result, const char *what,
                             const char *detail)
{
    snprintf(why, EXTERNAL_WHY_MAX, "%.100s %.300s", what, detail);
    return result;
}

static enum tern_result take_weights(struct tern_model *model, float **weights, char *why)
{
    *weights = malloc(sizeof(float) * (size_t)model->count);
    return *weights != NULL ? TERN_OK
                            : fail(why, TERN_ERR_NO_MEMORY, "the model", "needs more memory");
}

// --- A file

// Tensors of whole numbers are no part of a model: they cannot be averaged.
static enum tern_result add_tensors(const struct tern_safetensors *file, struct tern_model *model,
                                    char *why)
{
    tern_model_clear(model);
    for (size_t i = 0; i < file->count; i++) {
        const struct tern_safetensors_entry *entry = &file->entries[i];
        uint32_t dims[TERN_TENSOR_MAX_DIMS];
        uint32_t dim_count = 0;
        const enum tern_rule rule =
            entry->count < TERN_FUSE_BELOW ? TERN_RULE_FUSE : TERN_RULE_COMPRESS;
        if (entry->kind == TERN_SAFETENSORS_OTHER) {
            continue;
        }
        if (!tern_safetensors_dims(entry, dims, TERN_TENSOR_MAX_DIMS, &dim_count) ||
            tern_model_add_by_rule(model, entry->name, dims, dim_count, rule) != TERN_OK) {
            return fail(why, TERN_ERR_CONFIG, entry->name,
                        "cannot be a tensor of a model: its name is too long, it is empty, or "
                        "there are too many");
        }
    }
    return tern_model_layout(model) == TERN_OK
               ? TERN_OK
               : fail(why, TERN_ERR_CONFIG, "the file", "holds no tensor that can be averaged");
}

static void take_values(const struct tern_safetensors *file, const struct tern_model *model,
                        float *weights)
{
    uint32_t next = 0; // the tensors were added in the file's order
    for (size_t i = 0; i < file->count; i++) {
        if (file->entries[i].kind != TERN_SAFETENSORS_OTHER) {
            tern_safetensors_floats(&file->entries[i], weights + model->tensors[next++].offset);
        }
    }
}

static enum tern_result build(const struct tern_safetensors *file, struct tern_model *model,
                              float **weights, char *why)
{
    TERN_TRY(add_tensors(file, model, why));
    TERN_TRY(take_weights(model, weights, why));
    take_values(file, model, *weights);
    return TERN_OK;
}

static enum tern_result read_model(const char *path, struct tern_model *model, float **weights,
                                   char *why)
{
    char reason[TERN_SAFETENSORS_WHY_MAX] = "";
    struct tern_safetensors file;
    uint8_t *bytes = NULL;
    size_t len = 0;
    enum tern_result result = tern_file_read_regular(path, FILE_MAX, &bytes, &len);
    if (result != TERN_OK) {
        return fail(why, TERN_ERR_CONFIG, path,
                    "cannot be read, is no regular file, or is too large for a trial");
    }
    result = tern_safetensors_parse(bytes, len, &file, reason);
    if (result == TERN_OK) {
        result = build(&file, model, weights, why);
        tern_safetensors_free(&file);
    } else {
        (void)fail(why, result, path, reason);
    }
    free(bytes);
    return result;
}

// --- Either

enum tern_result tern_trial_model_make(const char *name, uint64_t seed, struct tern_model *model,
                                       float **weights, char why[EXTERNAL_WHY_MAX])
{
    if (tern_ends_with(name, ".safetensors")) {
        return read_model(name, model, weights, why);
    }
    if (tern_model_from_spec(model, name) != TERN_OK) {
        return fail(why, TERN_ERR_CONFIG, name,
                    "is no model: write softmax:64-6, mlp:784-64-10, cnn:28x28x1-8-16-10, "
                    "mlp:24-32-1,loss=mse, mlp:24-8-24,loss=reconstruction, or the name of a "
                    ".safetensors file");
    }
    TERN_TRY(take_weights(model, weights, why));
    tern_model_init_weights(model, seed, *weights);
    return TERN_OK;
}
