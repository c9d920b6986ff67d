// What fuzz targets that encode read from their input. For fuzz targets, single-threaded.
#ifndef TERN_FUZZ_INPUT_H
#define TERN_FUZZ_INPUT_H

#include "codec/codec.h"

struct input {
    const uint8_t *at;
    const uint8_t *end;
};

// Below `bound`, which is at least 1; 0 at the end of the input.
uint32_t input_below(struct input *input, uint32_t bound);

// Any codec with any parameters.
struct tern_codec read_codec(struct input *input);

// Makes the rest of the input values, which the caller frees; returns how many. They are the bits
// of float32, or, so that a few bytes make many values, each byte is a small number or a stretch of
// zeros.
size_t read_values(struct input *input, float **values);

#endif
