// One member's part in a ring exchange: reduce-scatter and all-gather of compressed values in 2(N-1) steps
// (exchange/blocks.h). Afterwards all members have the same bits of the sum. Pure: the caller transports the bytes and owns
// all memory. Reentrant; one thread at a time uses an exchange.
//
// Every step: call tern_ring_exchange_make(), send its bytes to the next member while the previous member's arrive, then
// call tern_ring_exchange_take().
//
// A block is encoded N times: by each member except the last when it passes its partial sum on, and once by its owner when
// the sum is complete. Then its bytes go round unchanged, and the owner decodes them, too, so that all have the same sum.
// With error feedback each member's encodings leave their error in `values`, and the member adds it to its next values: the
// members' values equal the sum plus these errors. (The paper's codec has no error feedback.) Block b is added up in the
// order of members: (((b) + b+1) + b+2) ... + b-1.
#ifndef TERN_RING_EXCHANGE_H
#define TERN_RING_EXCHANGE_H

#include "codec/codec.h"
#include "exchange/blocks.h"
#include "result.h"
#include "tensor/model.h"

struct tern_ring_part {
    const struct tern_model *model; // model and codec are borrowed during the exchange
    const struct tern_codec *codec;
    uint32_t members; // >= 2
    uint32_t member;  // this member's index
    uint64_t seed;    // of stochastic codecs' draws, with round and peer
    uint32_t round;
    uint32_t peer; // this member's permanent number; the index changes when others leave
};

// Fields are private except out, out_len, in and in_size.
struct tern_ring_exchange {
    struct tern_ring_part part;
    float *values; // [exchanged] in: this member's; out: the errors of its encodings
    float *sum;    // [exchanged] out: the sum, the same bits at all members
    uint8_t *out;  // bytes to send, set by tern_ring_exchange_make()
    size_t out_len;
    uint8_t *in; // buffer for the received bytes
    size_t in_size;
    uint32_t step;
};

// Whether a ring can use the codec: not if it needs a velocity or a leader's indices.
bool tern_ring_codec_fits(const struct tern_codec *codec);

// Returns the most bytes of an encoded block.
size_t tern_ring_block_bound(const struct tern_codec *codec, const struct tern_model *model,
                             uint32_t members);

// Begins an exchange. values and sum: [tern_ring_exchanged()]; buffers: two of tern_ring_block_bound() bytes; all are
// borrowed until the end of the exchange.
// TERN_ERR_ARGUMENT  fewer than 2 or more than TERN_RING_MEMBERS_MAX members, no such member, or an unusable codec
TERN_MUST_USE enum tern_result tern_ring_exchange_begin(struct tern_ring_exchange *exchange,
                                                        const struct tern_ring_part *part,
                                                        float *values, float *sum,
                                                        uint8_t *const buffers[2]);

// Encodes out[0..out_len) for this step. After an error, also of the functions below, the exchange is over and its values
// are useless. Errors of tern_codec_encode()
TERN_MUST_USE enum tern_result tern_ring_exchange_make(struct tern_ring_exchange *exchange);

// Decodes block `block` of a sum, untrusted, into sum[tern_ring_exchanged()], for a peer that receives other members' sum.
// Reads only model and members of `part`. Errors of tern_ring_exchange_take()
TERN_MUST_USE enum tern_result tern_ring_block_decode(const struct tern_ring_part *part,
                                                      uint32_t block, const uint8_t *src,
                                                      size_t len, float *sum);

// Decodes in[0..len), untrusted, and proceeds to the next step; `out` must have been sent. TERN_AGAIN while steps are left,
// TERN_OK when sum and values are complete.
// Errors of tern_codec_decode(), and TERN_ERR_CORRUPT if lengths do not fit or bytes are left over.
TERN_MUST_USE enum tern_result tern_ring_exchange_take(struct tern_ring_exchange *exchange,
                                                       size_t len);

#endif
