// What an encoder keeps from call to call, a value for each of the input's: the file of
// --error-buffer holds the error buffer and, of codecs with momentum, the velocity behind it.
#ifndef TERN_STATE_FILE_H
#define TERN_STATE_FILE_H

#include "codec/codec.h"
#include "error_feedback/error_buffer.h"
#include "float_file.h"
#include "tensor_set.h"

struct state {
    struct float_file file;
    struct tern_error_buffer buffer;
    float *velocity; // or NULL
};

// Reads the file of --error-buffer for `count` values, or makes a state of zeros: the first call
// has no file yet. file.values is the caller's to free. On error says why on stderr.
// TERN_ERR_NON_FINITE  the file holds NaN or an infinity
TERN_MUST_USE enum tern_result tern_state_read(const struct tern_cli *cli,
                                               const struct tern_codec *codec, size_t count,
                                               struct state *state);

// The values become the sum t of all that is to be sent. On error says on stderr which value is at
// fault, in which file. TERN_ERR_NON_FINITE
TERN_MUST_USE enum tern_result tern_state_add(const struct tern_cli *cli,
                                              const struct tern_codec *codec, struct state *state,
                                              struct tensor_set *set);

// The buffer becomes what the encoder left in the values.
void tern_state_keep_rest(const struct tern_codec *codec, struct state *state,
                          const struct tensor_set *set);

#endif
