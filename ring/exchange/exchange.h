// One member's part in a ring exchange: reduce-scatter and all-gather of compressed values in 2(N-1) steps (Li et al.: A
// Network-Centric Hardware/Algorithm Co-Design to Accelerate Distributed Training of Deep Neural Networks, MICRO 2018, section
// IV and algorithm 1). Afterwards all members have the same bits of the sum. Pure: the caller transports the bytes and owns
// all memory. Reentrant; one thread at a time uses an exchange.
//
// Members 0..N-1 form a circle, and the model is cut into N blocks; each member sends one block to the next member in each
// step. All indices are modulo N. In step s of the reduce leg (the first N-1 steps) member i sends block i - s, and adds its
// own values to the block that it receives. Then member i has the complete sum of block i + 1: it owns this block. In the
// gather leg (the other N-1 steps) the members pass the sums on.
//
// In every step the caller calls tern_ring_exchange_encode(), sends its bytes to the next member, receives the previous
// member's bytes, and calls tern_ring_exchange_decode().
//
// A block is encoded N times: by each member except the last when it sends its partial sum, and once by its owner when the
// sum is complete. The gather leg forwards the owner's bytes unchanged. The owner decodes its own bytes, too, so that all
// members have the same sum. With error feedback each encoding leaves its error in `values`, and the member adds this error
// to its next values. (The paper's codec has no error feedback.) Block b is added up in the order of members b, b + 1, ...
// b - 1.
#ifndef TERN_RING_EXCHANGE_H
#define TERN_RING_EXCHANGE_H

#include "codec/codec.h"
#include "result.h"
#include "tensor/model.h"
#include <stdbool.h>
#include <stdint.h>

// --- The schedule of blocks

#define TERN_RING_MEMBERS_MAX 64u // sets of members are 64 bits

// Returns how many values the ring exchanges: the flat vector up to the first segment that is never sent.
uint32_t tern_ring_exchanged_count(const struct tern_model *model);

// Returns the index of a block's first value; `count` for block = members. The sizes of blocks differ by at most one value;
// some blocks are empty if there are fewer values than members.
uint32_t tern_ring_block_start(uint32_t count, uint32_t members, uint32_t block);

// Returns 2(N-1).
uint32_t tern_ring_step_count(uint32_t members);

// Whether `step` belongs to the gather leg.
bool tern_ring_is_gather_step(uint32_t members, uint32_t step);

// Return the block that `member` sends in `step`, and the block that it receives.
uint32_t tern_ring_block_sent(uint32_t members, uint32_t member, uint32_t step);
uint32_t tern_ring_block_received(uint32_t members, uint32_t member, uint32_t step);

// Returns the block whose sum `member` completes.
uint32_t tern_ring_block_owned(uint32_t members, uint32_t member);

// --- The exchange

struct tern_ring_part {
    const struct tern_model *model; // model and codec are borrowed during the exchange
    const struct tern_codec *codec;
    uint32_t members; // >= 2
    uint32_t member;  // this member's index
    uint64_t seed;    // with round and peer, seeds the random numbers of stochastic codecs
    uint32_t round;
    uint32_t peer; // this member's permanent number; the index changes when others leave
};

// Callers use only out, out_len, in and in_size.
struct tern_ring_exchange {
    struct tern_ring_part part;
    // [exchanged] at the start: this member's values; at the end: the errors of its encodings
    float *values;
    float *sum;   // [exchanged] at the end: the sum
    uint8_t *out; // bytes to send, set by tern_ring_exchange_encode()
    size_t out_len;
    uint8_t *in; // buffer for the received bytes
    size_t in_size;
    uint32_t step;
};

// Whether a ring can use the codec. Its encoder must not need a momentum buffer or another client's indices.
bool tern_ring_codec_is_usable(const struct tern_codec *codec);

// Returns the size limit of an encoded block, in bytes.
size_t tern_ring_block_bound(const struct tern_codec *codec, const struct tern_model *model,
                             uint32_t members);

// Starts an exchange. values and sum: [tern_ring_exchanged_count()]; buffers: two of tern_ring_block_bound() bytes. All are
// borrowed until the end of the exchange.
// TERN_ERR_ARGUMENT  fewer than 2 or more than TERN_RING_MEMBERS_MAX members, no such member, or an unusable codec
TERN_MUST_USE enum tern_result tern_ring_exchange_begin(struct tern_ring_exchange *exchange,
                                                        const struct tern_ring_part *part,
                                                        float *values, float *sum,
                                                        uint8_t *const buffers[2]);

// Encodes out[0..out_len) for this step. After an error here or in tern_ring_exchange_decode(), abandon the exchange and its
// values. Errors of tern_codec_encode()
TERN_MUST_USE enum tern_result tern_ring_exchange_encode(struct tern_ring_exchange *exchange);

// Decodes one untrusted block of a sum into the flat vector `sum`, for a peer that did not take part in the exchange. Reads
// only model and members of `part`. Errors of tern_ring_exchange_decode()
TERN_MUST_USE enum tern_result tern_ring_block_decode(const struct tern_ring_part *part,
                                                      uint32_t block, const uint8_t *src,
                                                      size_t len, float *sum);

// Decodes the untrusted bytes in[0..len) and advances to the next step. Call it after `out` was sent. Returns TERN_AGAIN
// while steps are left, TERN_OK when sum and values are complete.
// Errors of tern_codec_decode(), and TERN_ERR_CORRUPT if lengths do not fit or bytes are left over.
TERN_MUST_USE enum tern_result tern_ring_exchange_decode(struct tern_ring_exchange *exchange,
                                                         size_t len);

#endif
