// A client's error buffer (3LC, section 3.1): the residual error of its encodings, which it adds to its next update. The caller
// lends a float32 work vector: it gets the sum of buffer and local change, tern_container_encode() encodes it and leaves the
// residual error, and only then the buffer is stored. A failure before that leaves the buffer unchanged. docs/FORMAT.md, section
// 10, specifies every rounding.
//
// Conservation: the sum of all inputs equals the sum of all decoded payloads plus the buffer, apart from the rounding of float32
// additions and of the storage. Pure; the caller owns all memory; reentrant.
#ifndef TERN_ERROR_BUFFER_H
#define TERN_ERROR_BUFFER_H

#include "codec/container.h"
#include "error_feedback/error_storage.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tern_error_buffer {
    enum tern_error_storage storage;
    void *bytes;    // tern_error_storage_bytes(), borrowed; aligned as float in TERN_ERROR_FLOAT32
    uint32_t count; // values
};

// The error ledger's facts about a buffer.
struct tern_error_facts {
    float norm;    // Euclidean norm, added up in float64 in index order; at most FLT_MAX
    float maximum; // largest magnitude
};

// --- Before encoding

// Applies dgc's momentum correction (Lin et al., ICLR 2018, section 3.2): velocity = mu * velocity + change, then change =
// velocity. velocity and change: [count].
// TERN_ERR_NON_FINITE  a sum is not finite; both are then unchanged
TERN_MUST_USE enum tern_result tern_error_momentum(float *velocity, float mu, float *change,
                                                   uint32_t count);

// Returns the decay that reduces the buffer's norm to at most `limit` times that of the change; 1 if it is smaller already. The
// buffer of a rarely selected client was computed for an old model, and would outweigh the new change. change: [buffer->count].
// limit: finite, >= 0.
float tern_error_buffer_limit(const struct tern_error_buffer *buffer, float limit,
                              const float *change);

// Adds decay * e[i] to each work[i], which has the change before and the sum to encode after. decay: 0 to 1; 1 is plain error
// feedback.
// TERN_ERR_NON_FINITE  a sum is not finite; work is then unspecified
// TERN_ERR_ARGUMENT    decay is not 0 to 1; work is then unchanged
TERN_MUST_USE enum tern_result tern_error_buffer_add_to(const struct tern_error_buffer *buffer,
                                                        float decay, float *work);

// Copies the buffer to work.
void tern_error_buffer_load(const struct tern_error_buffer *buffer, float *work);

// --- After encoding

// The next buffer, before it is rounded to the storage: (1 - filter) * (decay * e[i]) + filter * work[i]. Only scalecom
// (TERN_FEEDBACK_FILTERED) has a filter below 1 (Chen et al., NeurIPS 2020, equation 5).
struct tern_error_next {
    const float *work; // the residual error of the encoding
    float filter;      // beta; 1 takes exactly the bits of work
    float decay;       // the decay passed to tern_error_buffer_add_to()
};

void tern_error_buffer_store(struct tern_error_buffer *buffer, const struct tern_error_next *next);

// Returns the facts of the buffer that tern_error_buffer_store() would store.
struct tern_error_facts tern_error_buffer_preview(const struct tern_error_buffer *buffer,
                                                  const struct tern_error_next *next);

// --- At any time

// Returns the number of values in `work` that tern_error_buffer_give_back() needs: 0, or the size of the largest segment.
uint32_t tern_error_give_back_work(enum tern_error_storage storage, const struct tern_model *model);

// Adds an update that was not applied to the buffer again: e[i] + decoded[i], limited to the largest float32 and rounded to the
// storage. Dense segments have no buffer, so their change is lost. model->count equals buffer->count. On error the buffer is
// unchanged. Errors of tern_container_inspect().
TERN_MUST_USE enum tern_result tern_error_buffer_give_back(struct tern_error_buffer *buffer,
                                                           const struct tern_model *model,
                                                           const uint8_t *container, size_t len,
                                                           float *work);

// Sets all values to +0.
void tern_error_buffer_reset(struct tern_error_buffer *buffer);

struct tern_error_facts tern_error_buffer_facts(const struct tern_error_buffer *buffer);

#ifdef __cplusplus
}
#endif

#endif
