// One member's part in an exchange around a ring: reduce-scatter and all-gather of compressed values in
// 2(N-1) steps (exchange/blocks.h). Behind it all members hold the same bits of the sum. Pure: who calls
// carries the bytes; the caller owns all memory; reentrant, one exchange is used by one thread at a time.
//
// Every step is: tern_ring_exchange_make(), send what it made to the next member while that of the member
// before arrives, tern_ring_exchange_take().
//
// A block is encoded N times on its way: by each member but the last when it passes its partial sum on, and
// once by its owner when the sum is whole. From there on its bytes go round as they are, and the owner
// takes what they decode to, as everybody does. Codecs that feed errors back leave in `values`, at each
// member, what its own encodings left out, which the member adds to its next values: what all members put
// in is then what came out plus what they hold (the paper, whose codec feeds nothing back, has no such
// thing). Values are added in the order of members: of block b (((b) + b+1) + b+2) ... + b-1.
#ifndef TERN_RING_EXCHANGE_H
#define TERN_RING_EXCHANGE_H

#include "codec/codec.h"
#include "exchange/blocks.h"
#include "result.h"
#include "tensor/model.h"

struct tern_ring_part {
    const struct tern_model *model; // borrowed during the exchange, as is the codec
    const struct tern_codec *codec;
    uint32_t members; // >= 2
    uint32_t member;  // whose part this is
    uint64_t seed;    // of stochastic codecs' draws, with round and peer
    uint32_t round;
    uint32_t peer; // a number of this member's own that stays when others leave
};

// Fields are private but for the four that follow the memory.
struct tern_ring_exchange {
    struct tern_ring_part part;
    float *values; // [exchanged] in: this member's; out: what its encodings left out
    float *sum;    // [exchanged] out: the sum, of all members the same bits
    uint8_t *out;  // what this step sends: out_len bytes, behind tern_ring_exchange_make()
    size_t out_len;
    uint8_t *in; // where what this step takes belongs: in_size bytes
    size_t in_size;
    uint32_t step;
};

// Whether a codec can go round: not those that need a velocity or a leader's indices.
bool tern_ring_codec_fits(const struct tern_codec *codec);

// The most bytes that a block takes under `codec`.
size_t tern_ring_block_bound(const struct tern_codec *codec, const struct tern_model *model,
                             uint32_t members);

// values and sum: [tern_ring_exchanged()], buffers: two of tern_ring_block_bound() bytes each; all are the
// caller's and borrowed until the exchange is over.
// TERN_ERR_ARGUMENT  fewer than 2 or more than TERN_RING_MEMBERS_MAX members, no such member, or a codec
//                    that does not fit
TERN_MUST_USE enum tern_result tern_ring_exchange_begin(struct tern_ring_exchange *exchange,
                                                        const struct tern_ring_part *part,
                                                        float *values, float *sum,
                                                        uint8_t *const buffers[2]);

// Makes out[0..out_len) of this step. Errors of tern_codec_encode(), after which the exchange is over and
// its values are of no use, as in the next.
TERN_MUST_USE enum tern_result tern_ring_exchange_make(struct tern_ring_exchange *exchange);

// Writes what block `block` of the sum decodes to, untrusted, into sum[tern_ring_exchanged()]: for who gets the sum
// of others. Of `part`, model and members count. Errors of the next.
TERN_MUST_USE enum tern_result tern_ring_block_decode(const struct tern_ring_part *part,
                                                      uint32_t block, const uint8_t *src,
                                                      size_t len, float *sum);

// Takes in[0..len), untrusted, and goes to the next step. TERN_AGAIN while there is one, TERN_OK when sum
// and values are done. `out` is then of no use: it must have been sent.
// Errors of tern_codec_decode(), and TERN_ERR_CORRUPT when lengths do not fit or bytes are left over.
TERN_MUST_USE enum tern_result tern_ring_exchange_take(struct tern_ring_exchange *exchange,
                                                       size_t len);

#endif
