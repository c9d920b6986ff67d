// Masked updates: a client's change, quantised by public scales and packed in b bits a value, plus a keystream modulo 2^b. The sum
// of masked updates minus the sum of the same keystreams is the exact sum of the quantised values. Used by clients, which encode and
// mask; by the aggregator, which adds and decodes sums; and by the helper, which adds keystreams. docs/FORMAT.md specifies every
// bit and rounding. Pure; the caller owns all memory.
//
// A packed vector has 32-bit little-endian words: counters (examples, loss, and for each tensor the values that are not zero; in a
// round with noise 0, 0, and for each tensor a bounded measure of its density), then the values, b bits each from the lowest bit up. Unused bits of the last word are 0. Counters are added modulo 2^32.
#ifndef TERN_SECURE_MASKED_H
#define TERN_SECURE_MASKED_H

#include "error_feedback/error_buffer.h"
#include "secure/gaussian.h"
#include "secure/round.h"
#include "tensor/model.h"

#ifdef __cplusplus
extern "C" {
#endif

// Tensors that are sent; SecureRound.scales has a scale for each. cmake/TernWire.cmake has the limit of small builds, too.
#if TERN_SMALL && !TERN_MANIFESTS
#define TERN_MASKED_TENSORS_MAX TERN_MODEL_MAX_TENSORS
#else
#define TERN_MASKED_TENSORS_MAX 192
#endif

// A packed vector's layout.
struct tern_masked_shape {
    uint32_t tensors; // tensors that are sent, each with one scale and one counter
    uint32_t values;  // values in the vector
    uint32_t bits;    // of each value, 2 to TERN_SECURE_BITS_MAX
};

// Returns the number of tensors that are sent: compressed and fused ones. They come first in the flat vector, and scales are in
// their order there.
uint32_t tern_masked_tensors(const struct tern_model *model);

// Returns true if secure rounds can train the model: it has no dense tensor, because such a tensor has no error buffer for what
// quantising leaves, no local tensor, because clients have different values of it, and 1 to TERN_MASKED_TENSORS_MAX tensors that
// are sent.
bool tern_masked_supports(const struct tern_model *model);

// Returns the most values of one tensor that a packed vector of a round with this share has, and so the largest counter of a round
// without noise. The counters of all clients must add up to less than 2^32.
uint32_t tern_masked_counter_most(const struct tern_model *model, uint32_t share);

// Returns the largest cohort of such rounds. model: one that tern_masked_supports().
uint32_t tern_masked_largest_cohort(const struct tern_model *model, uint32_t share);

// Writes the SHA-256 of weights[0..model->count) as little-endian float32, the round's `replica`.
void tern_masked_weights_hash(const struct tern_model *model, const float *weights,
                              uint8_t hash[TERN_SHA256_SIZE]);

// Returns the layout of a round's packed vectors. model: the round's; round: share and bits are used.
struct tern_masked_shape tern_masked_shape_of(const struct tern_model *model,
                                              const struct tern_secure_round *round);

// Returns the bytes of a packed vector, a multiple of 4.
size_t tern_masked_size(const struct tern_masked_shape *shape);

// Returns TERN_OK if the bytes can be a packed vector of this layout.
// TERN_ERR_CORRUPT  the size differs, or an unused bit is set
TERN_MUST_USE enum tern_result tern_masked_check(const struct tern_masked_shape *shape,
                                                 const uint8_t *packed, size_t size);

// --- Clients

// A client's training result, for the counters.
struct tern_masked_training {
    uint32_t examples; // training examples of the client
    float loss;        // mean training loss
};

// Weighs change[0..model->coded), a client's change: by min(examples, N_max) / N_max, or 1 if the round has no N_max. Values that the
// round does not send become 0: the next round starts without them, so its training makes them again, and their sum over the
// rounds until they are sent would be too far.
void tern_masked_weigh(const struct tern_model *model, const struct tern_secure_round *round,
                       uint32_t examples, float *change);

// Quantises the values that the round sends, and packs them with the counters. work[0..model->count): the error buffer plus the
// weighed change; gets the residual error. packed: tern_masked_size() bytes. round: tern_secure_round_check() accepts it, and it has
// tern_masked_tensors() scales.
// TERN_ERR_NON_FINITE  a value of work is not finite; work is unchanged, packed unspecified
TERN_MUST_USE enum tern_result tern_masked_quantise(const struct tern_model *model,
                                                    const struct tern_secure_round *round,
                                                    const struct tern_masked_training *training,
                                                    float *work, uint8_t *packed);

// Adds the quantised values of an unmasked packed vector to the error buffer again: e[i] + scale * q, limited to the largest
// float32 and rounded to the storage. Blocks of the storage without such a value keep their bytes. buffer->count: model->coded.
void tern_masked_give_back(const struct tern_model *model, const struct tern_secure_round *round,
                           const uint8_t *packed, struct tern_error_buffer *buffer);

// --- Masks

// Adds the keystream of a key to a packed vector, or subtracts it, modulo 2^b.
TERN_MUST_USE enum tern_result tern_masked_add_mask(const struct tern_masked_shape *shape,
                                                    const uint8_t key[TERN_SECRET_SIZE],
                                                    uint8_t *packed);
TERN_MUST_USE enum tern_result tern_masked_remove_mask(const struct tern_masked_shape *shape,
                                                       const uint8_t key[TERN_SECRET_SIZE],
                                                       uint8_t *packed);

// Writes a packed vector of noise: a sample for each tensor's counter and each value, and 0 for examples and loss. shape: bits as of
// tern_secure_bits(). Errors: those of the sampler's source.
TERN_MUST_USE enum tern_result tern_masked_draw_noise(const struct tern_masked_shape *shape,
                                                      struct tern_gaussian *gaussian,
                                                      uint8_t *packed);

// Adds a packed vector to a sum of packed vectors, or subtracts it, modulo 2^b. A sum starts with zeros.
void tern_masked_add(const struct tern_masked_shape *shape, uint8_t *sum, const uint8_t *packed);
void tern_masked_subtract(const struct tern_masked_shape *shape, uint8_t *sum,
                          const uint8_t *packed);

// --- Sums without masks

// Counters of a sum.
struct tern_masked_totals {
    uint64_t examples; // of all clients, each limited to N_max if the round has one
    double weight;     // sum of the clients' weights
    double loss;       // weighted mean training loss; 0 without weight
};

// Reads the counters of a sum of `members` updates.
struct tern_masked_totals tern_masked_totals_of(const struct tern_secure_round *round,
                                                const uint8_t *sum, uint32_t members);

// Returns false if no `members` updates can have this sum: a value is beyond members * L, a tensor's values need more values that are
// not zero than its counter has, or that counter or the number of examples is too large. A mask that differs from its client's leaves
// such a sum, and a client that lies about its counters moves the next scales. In a round with noise: a value is beyond members * L
// plus the bound of the noise, or the counter of examples or loss is not 0.
bool tern_masked_sum_is_possible(const struct tern_model *model,
                                 const struct tern_secure_round *round, const uint8_t *sum,
                                 uint32_t members);

// The sum of one group's updates, or of all.
struct tern_masked_part {
    const uint8_t *sum; // without masks
    uint32_t members;
    double weight; // of tern_masked_totals_of(), above 0
};

// Returns value `index` of a packed vector, from -2^(b-1) to 2^(b-1) - 1.
int32_t tern_masked_value(const struct tern_masked_shape *shape, const uint8_t *packed,
                          uint32_t index);

// Writes the median over the parts of scale * value / weight, for every value of their sums; 0 for values that were not sent. One
// part gives the mean change of its clients; in a round with noise a smaller change. Of an even number of parts the mean of the
// middle two is the median. parts: 1 to TERN_SECURE_GROUPS_MAX. change: [model->count].
void tern_masked_decode(const struct tern_model *model, const struct tern_secure_round *round,
                        const struct tern_masked_part *parts, uint32_t count, float *change);

// Returns the median of values[0..count), which it sorts. count: 1 or more. Of an even number the mean of the middle two.
double tern_masked_median(double *values, uint32_t count);

// --- Public scales. Exact in IEEE arithmetic, so that every program computes the same bits.

// Writes the scales of the first round. weights[0..model->count): those of version 0. round: its learning rate and local steps are
// used. scales: [tern_masked_tensors()].
void tern_masked_first_scales(const struct tern_model *model, const struct tern_secure_round *round,
                              const float *weights, float *scales);

// Writes the scales of the next round, from the sums that this one released: by the median over the parts of the
// factors that a tensor's density gives. parts as in tern_masked_decode(). next: [tern_masked_tensors()].
void tern_masked_next_scales(const struct tern_model *model, const struct tern_secure_round *round,
                             const struct tern_masked_part *parts, uint32_t count, float *next);

// Returns true if a client may accept the round's scales: each is finite, above 0, and within a factor of 4 of `before`. A
// client that missed one round accepts a factor of 8, and 16 if it missed more. before: the scales of round `before_round`, the
// client's last masked one; before_round 0: tern_masked_first_scales(), of which the scales after round 1 may differ by 1,024.
bool tern_masked_scales_are_near(const struct tern_secure_round *round, const float *before,
                                 uint32_t before_round);

#ifdef __cplusplus
}
#endif

#endif
