// Manifests: the tensors of a model as bytes (docs/FORMAT.md, section 6.4), for models that no spec
// string names, and for built-in ones whose tensors have rules of their own. Both ends of a
// federation build the same model from the same manifest; its SHA-256 is the model's hash. A small
// build has none (build.h). Pure; the caller owns all memory.
#ifndef TERN_MANIFEST_H
#define TERN_MANIFEST_H

#include "tensor/model.h"

#ifdef __cplusplus
extern "C" {
#endif

// The most bytes of a manifest.
#define TERN_MANIFEST_MAX                                                                          \
    (16 + TERN_MODEL_MAX_TENSORS * (1 + 2 + TERN_TENSOR_NAME_MAX + 1 + 5 * TERN_TENSOR_MAX_DIMS))

// Writes the manifest of a model's tensors, with their rules; returns its length.
size_t tern_manifest_encode(const struct tern_model *model, uint8_t dst[TERN_MANIFEST_MAX]);

// Builds a model, layout and hash included, from untrusted bytes.
// TERN_ERR_CORRUPT    not a manifest, not its canonical form, or bytes left over
// TERN_ERR_ARGUMENT   a tensor that tern_model_add_by_rule() refuses, or none
// TERN_ERR_TOO_LARGE  more tensors or values than a model may have
// On error the model is unspecified.
TERN_MUST_USE enum tern_result tern_model_from_manifest(struct tern_model *model,
                                                        const uint8_t *src, size_t len);

// Builds the model that a spec string, or when manifest_len > 0 a manifest, gives, if it has this
// hash.
// TERN_ERR_MODEL_MISMATCH  it gives none, or another; the model is then unspecified
TERN_MUST_USE enum tern_result tern_model_build(struct tern_model *model, const char *spec,
                                                const uint8_t *manifest, size_t manifest_len,
                                                const uint8_t hash[TERN_SHA256_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
