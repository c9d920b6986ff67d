// The error buffer of 3LC (section 3.1): what compression has not yet sent. A client has one for
// its uploads. The sum t of buffer and local change is built in a float32 work vector that the
// caller lends, encoded there (tern_container_encode() leaves what is fed back), and only then
// stored, so that a failure on the way leaves the buffer as it was. docs/FORMAT.md, section 10, has
// every rounding.
//
// Conservation: sum of inputs = sum of decoded payloads + buffer, within the rounding of the
// additions (float32) and of the storage. Pure; the caller owns all memory; reentrant.
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

// What the error ledger records of a buffer.
struct tern_error_facts {
    float norm;    // Euclidean, accumulated in float64 in index order; at most FLT_MAX
    float maximum; // largest magnitude
};

// --- Before encoding

// dgc's momentum correction (Lin et al., ICLR 2018, section 3.2): velocity = mu * velocity +
// change, and change = velocity, which then goes into the buffer. velocity and change: count
// values.
// TERN_ERR_NON_FINITE  a sum is not finite; both are then unchanged
TERN_MUST_USE enum tern_result tern_error_momentum(float *velocity, float mu, float *change,
                                                   uint32_t count);

// The decay that leaves the buffer a norm of at most `limit` times that of the change: 1 where it has
// no more. What a client that is seldom asked still keeps was computed for a model that has moved
// on, and as the learning rate falls it would outweigh, and cost more bytes than, what is new.
// change: a value for each of the buffer's. limit: 0 or more, finite.
float tern_error_buffer_limit(const struct tern_error_buffer *buffer, float limit,
                              const float *change);

// work[i] = decay * e[i] + work[i]: the sum t, of what is to be encoded. work holds the change, a
// value for each of the buffer's. decay 1 is plain error feedback, 0 leaves the buffer out.
// TERN_ERR_NON_FINITE  a sum is not finite; work is then unspecified
// TERN_ERR_ARGUMENT    decay is not 0 to 1; work is then unchanged
TERN_MUST_USE enum tern_result tern_error_buffer_add_to(const struct tern_error_buffer *buffer,
                                                        float decay, float *work);

// work[i] = e[i].
void tern_error_buffer_load(const struct tern_error_buffer *buffer, float *work);

// --- After encoding

// What a buffer e becomes: work[i] rounded to the storage, or under TERN_FEEDBACK_FILTERED
// (ScaleCom, Chen et al., NeurIPS 2020, equation 5, with m for the buffer)
//   (1 - filter) * (decay * e[i]) + filter * work[i].
struct tern_error_next {
    const float *work; // what the encoder left
    float filter;      // beta; 1 is work alone, bit for bit
    float decay;       // that tern_error_buffer_add_to() was given
};

void tern_error_buffer_store(struct tern_error_buffer *buffer, const struct tern_error_next *next);

// The facts of the buffer as tern_error_buffer_store() would leave it.
struct tern_error_facts tern_error_buffer_preview(const struct tern_error_buffer *buffer,
                                                  const struct tern_error_next *next);

// --- At any time

// Values of work that tern_error_buffer_give_back() needs: 0, or those of the largest segment.
uint32_t tern_error_give_back_work(enum tern_error_storage storage, const struct tern_model *model);

// Gives an update that was not applied back: e[i] = e[i] + decoded[i], limited to the largest
// float32 and rounded to the storage; not in dense segments, whose change is lost then.
// model->count is the buffer's. On error the buffer is unchanged. Errors of
// tern_container_inspect().
TERN_MUST_USE enum tern_result tern_error_buffer_give_back(struct tern_error_buffer *buffer,
                                                           const struct tern_model *model,
                                                           const uint8_t *container, size_t len,
                                                           float *work);

// Every value is +0.
void tern_error_buffer_reset(struct tern_error_buffer *buffer);

struct tern_error_facts tern_error_buffer_facts(const struct tern_error_buffer *buffer);

#ifdef __cplusplus
}
#endif

#endif
