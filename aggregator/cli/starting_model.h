// Makes the model that a new federation starts from, and the rules by which its tensors are sent. The model is a
// built-in one that a spec string names, or the tensors of a safetensors file. Called by `init`, from the main thread.
#ifndef TERN_STARTING_MODEL_H
#define TERN_STARTING_MODEL_H

#include "hosted/cli.h"
#include "result.h"
#include "store/store.h"
#include "tensor/manifest.h"
#include "tensor/model.h"

// Returns "compress", "fuse", "dense", "skip" or "local".
const char *tern_tensor_rule_name(enum tern_rule rule);

struct tern_starting_model {
    struct tern_model model;
    float *weights;    // in layout order; NULL: the seed makes them
    uint8_t *manifest; // NULL: the spec alone gives the model
    size_t manifest_len;
    char *metadata; // JSON object of the file's metadata, or NULL
    // The file's tensors that are not trained, as a safetensors file; NULL: none.
    uint8_t *kept;
    char *kept_names; // "NAME (DTYPE), NAME (DTYPE)", or NULL
};

// Fills *start, which owns its memory, and the spec, manifest, hash, metadata and kept tensors of *federation, which
// borrow from *start. model: a spec, or a file name that ends in .safetensors; rules: as tensors.rules. Returns an
// exit code, after printing the reason of a failure.
int tern_starting_model_make(const struct tern_cli *cli, const char *model, const char *rules,
                             struct tern_starting_model *start,
                             struct tern_db_federation *federation);

void tern_starting_model_free(struct tern_starting_model *start);

#endif
