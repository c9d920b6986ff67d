// A model's weights as a safetensors file, for trainers that are programs of their own. What a
// trainer wrote is checked as what it is, somebody else's bytes. Hosted; reentrant.
#ifndef TERN_MODEL_FILE_H
#define TERN_MODEL_FILE_H

#include "result.h"
#include "tensor/model.h"

#define TERN_EXTERNAL_WHY_MAX 384 // bytes of a sentence with the terminating NUL

// Reads a regular file of at most `most` bytes; nothing else is opened for long. *data: malloc'ed,
// with a NUL behind it. `why`: a sentence that names the file by its last part.
// TERN_ERR_NOT_FOUND, TERN_ERR_TOO_LARGE, TERN_ERR_CORRUPT (not a regular file), TERN_ERR_IO,
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_regular_file_read(const char *path, size_t most, uint8_t **data,
                                                      size_t *len, char why[TERN_EXTERNAL_WHY_MAX]);

// Makes a file that is not there, with mode 0600. TERN_ERR_IO, TERN_ERR_NO_SPACE
TERN_MUST_USE enum tern_result tern_new_file_write(const char *path, const void *bytes, size_t len,
                                                   char why[TERN_EXTERNAL_WHY_MAX]);

// Makes the file, likewise, piece by piece: the values under the model's names and shapes, F32.
// trained: those that training moves, [tern_model_trained()]. others: [model->count], of which those
// of frozen tensors are taken.
// TERN_ERR_IO, TERN_ERR_NO_SPACE, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_model_file_write(const char *path,
                                                     const struct tern_model *model,
                                                     const float *trained, const float *others,
                                                     char why[TERN_EXTERNAL_WHY_MAX]);

// Reads all of the model's tensors and no other, in any order, F32, F16 or BF16, piece by piece.
// trained: [tern_model_trained()], which hold anything after an error; frozen tensors are checked
// and not kept.
// TERN_ERR_CORRUPT         not safetensors
// TERN_ERR_MODEL_MISMATCH  a tensor is missing, is not the model's, or has another shape or type
// TERN_ERR_NON_FINITE      a value is NaN or infinite
// and those of tern_regular_file_read()
TERN_MUST_USE enum tern_result tern_model_file_read(const char *path,
                                                    const struct tern_model *model, float *trained,
                                                    char why[TERN_EXTERNAL_WHY_MAX]);

// Writes the sentence to `why` and returns `result`.
enum tern_result tern_external_fail(char why[TERN_EXTERNAL_WHY_MAX], enum tern_result result,
                                    const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
