// The messages of LGC: a sequence of pieces, each with its kind (a byte), its length (varint) and its body. A body is
// a payload of docs/FORMAT.md, section 3; of an innovation, and of a code in a ring, with its scale (float32) before
// it. Indices are one index set, with its length before it, per picked tensor. Received data is checked: a piece of
// another kind or length, a number that is not finite or an index out of range is refused. Pure; the caller owns all
// memory.
#ifndef TERN_LAB_LGC_MESSAGE_H
#define TERN_LAB_LGC_MESSAGE_H

#include "codec/codec.h"
#include "lgc/plan.h"

enum tern_lgc_kind {
    TERN_LGC_PIECE_EXACT,      // exact values
    TERN_LGC_PIECE_INDICES,    // the leader's indices
    TERN_LGC_PIECE_VALUES,     // picked values as float32
    TERN_LGC_PIECE_CODE,       // the leader's learned values, encoded
    TERN_LGC_PIECE_INNOVATION, // the largest of a client's own learned values
    TERN_LGC_PIECE_WEIGHTS,    // weights of encoder or decoder
    TERN_LGC_PIECE_KINDS
};

// Returns "exact", "indices", "values", "code", "innovation" or "weights".
const char *tern_lgc_kind_name(enum tern_lgc_kind kind);

struct tern_lgc_message {
    uint8_t *bytes;
    size_t size;                          // room
    size_t len;                           // bytes written
    size_t of_kind[TERN_LGC_PIECE_KINDS]; // bytes of each kind, including kind and length
};

// Returns the largest size of a message with all kinds of pieces of a plan.
size_t tern_lgc_message_bound(const struct tern_lgc_plan *plan, size_t weights);

void tern_lgc_message_clear(struct tern_lgc_message *message);

// Appends values under a codec without an error buffer. Overwrites values[count].
// TERN_ERR_NON_FINITE, TERN_ERR_NO_SPACE: nothing was appended
TERN_MUST_USE enum tern_result tern_lgc_put_values(struct tern_lgc_message *message,
                                                   enum tern_lgc_kind kind,
                                                   const struct tern_codec *codec, float *values,
                                                   size_t count);

// Appends a scale and values.
TERN_MUST_USE enum tern_result tern_lgc_put_scaled(struct tern_lgc_message *message,
                                                   enum tern_lgc_kind kind, float scale,
                                                   const struct tern_codec *codec, float *values,
                                                   size_t count);

// Appends at[picks] of tern_lgc_pick().
TERN_MUST_USE enum tern_result tern_lgc_put_indices(struct tern_lgc_message *message,
                                                    const struct tern_lgc_plan *plan,
                                                    const uint32_t *at);

// Reads a received message piece by piece.
struct tern_lgc_reader {
    const uint8_t *bytes;
    size_t len;
    size_t read;
    enum tern_lgc_kind asked; // kind of the last requested piece, for error messages
};

// Reads the next piece, which must be of that kind. On an error values are unchanged, at[] is unspecified.
// TERN_ERR_NOT_FOUND   it is of another kind, or there is none
// TERN_ERR_CORRUPT     its length does not fit, or its bytes are no payload of `count` values
// TERN_ERR_NON_FINITE  a number, or the scale, is not finite
// TERN_ERR_UNKNOWN     its mode byte
TERN_MUST_USE enum tern_result tern_lgc_take_values(struct tern_lgc_reader *reader,
                                                    enum tern_lgc_kind kind, float *values,
                                                    size_t count);
TERN_MUST_USE enum tern_result tern_lgc_take_scaled(struct tern_lgc_reader *reader,
                                                    enum tern_lgc_kind kind, float *scale,
                                                    float *values, size_t count);
TERN_MUST_USE enum tern_result tern_lgc_take_indices(struct tern_lgc_reader *reader,
                                                     const struct tern_lgc_plan *plan,
                                                     uint32_t *at);

// TERN_ERR_CORRUPT  bytes are left over
TERN_MUST_USE enum tern_result tern_lgc_take_end(const struct tern_lgc_reader *reader);

#endif
