// Reads and writes manifests: the names, sizes and rules of a model's tensors as bytes
// (docs/FORMAT.md, section 6.4). An imported model has one, and so has a built-in model whose
// tensors have rules other than the default. Client and aggregator build the same model from a
// manifest; its SHA-256 is the model's hash. A small build does not support manifests (build.h).
// Pure; the caller owns all memory.
#ifndef TERN_MANIFEST_H
#define TERN_MANIFEST_H

#include "tensor/model.h"

#ifdef __cplusplus
extern "C" {
#endif

// Size limit of a manifest, in bytes.
#define TERN_MANIFEST_MAX                                                                          \
    (16 + TERN_MODEL_MAX_TENSORS * (1 + 2 + TERN_TENSOR_NAME_MAX + 1 + 5 * TERN_TENSOR_MAX_DIMS))

// Writes the manifest of a model's tensors, with their rules; returns its length.
size_t tern_manifest_encode(const struct tern_model *model, uint8_t dst[TERN_MANIFEST_MAX]);

// Builds a model, layout and hash included, from untrusted bytes.
// TERN_ERR_CORRUPT    not a manifest, not in canonical form, or followed by other bytes
// TERN_ERR_ARGUMENT   no tensor, or one that tern_model_add_by_rule() refuses
// TERN_ERR_TOO_LARGE  more tensors or values than a model may have
// On error the model is unspecified.
TERN_MUST_USE enum tern_result tern_model_from_manifest(struct tern_model *model,
                                                        const uint8_t *src, size_t len);

// Builds a model from its spec string, or from its manifest if manifest_len > 0, and checks its
// hash. On error the model is unspecified.
// TERN_ERR_MODEL_MISMATCH  no model results, or its hash differs
TERN_MUST_USE enum tern_result tern_model_build(struct tern_model *model, const char *spec,
                                                const uint8_t *manifest, size_t manifest_len,
                                                const uint8_t hash[TERN_SHA256_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
