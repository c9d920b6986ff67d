// The model that a new federation starts from: built in, named by a spec string, with rules for
// its tensors or without; or the tensors of a safetensors file. Who calls: init. Main thread.
#ifndef TERN_STARTING_MODEL_H
#define TERN_STARTING_MODEL_H

#include "hosted/cli.h"
#include "store/store.h"
#include "tensor/manifest.h"

struct tern_starting_model {
    struct tern_model model;
    float *weights;    // in layout order; NULL: the seed makes them
    uint8_t *manifest; // NULL: the spec alone gives the model
    size_t manifest_len;
    char *metadata; // JSON object of the file's metadata, or NULL
    uint8_t
        *kept; // the file's tensors that are not F32, F16 or BF16, as a safetensors file, or NULL
    char *kept_names; // "NAME (DTYPE), NAME (DTYPE)", or NULL
};

// Fills *start, whose pointers borrow from nobody, and the spec, manifest, hash, metadata and kept
// tensors of *federation, which borrows them. model: a spec, or the name of a file
// that ends in .safetensors; rules: as tensors.rules. On error says why and returns the exit code.
int tern_starting_model_make(const struct tern_cli *cli, const char *model, const char *rules,
                             struct tern_starting_model *start,
                             struct tern_db_federation *federation);

void tern_starting_model_free(struct tern_starting_model *start);

#endif
