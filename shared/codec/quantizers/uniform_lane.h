// The lanes of a payload of the codec uniform: blocks of whole numbers of steps, in an adaptive binary range coder
// (docs/FORMAT.md, section 3.8). uniform_planes.c is fast; uniform_values.c is short, for small devices. Both write the same bytes
// and read the same values. For uniform.c. Pure; reentrant.
#ifndef TERN_UNIFORM_LANE_H
#define TERN_UNIFORM_LANE_H

#include "codec/codec.h"
#include "codec/coders/range_bits.h"
#include "codec/quantizers/uniform_step.h"

// --- The model: contexts of the decisions

enum {
    TERN_UNIFORM_LANES = 2,  // most lanes of a payload
    TERN_UNIFORM_BLOCK = 60, // values that are coded plane by plane
    TERN_UNIFORM_PAST = 4,   // values before a block that its contexts use
    TERN_UNIFORM_LEVELS =
        5,                 // number of planes of magnitudes: values with at least 1, 2, ... 5 steps
    TERN_UNIFORM_RATE = 5, // a decision moves its probability by 1 / 2^RATE towards 0 or 1
    TERN_UNIFORM_TOGETHER = 4, // decisions between two renormalisations of the range coder
    TERN_UNIFORM_CLASSES = 8,  // classes of values with LEVELS or more steps
};

// Probability of 0, in 1 / TERN_RANGE_ONE.
typedef uint16_t tern_uniform_chance;

struct tern_uniform_contexts {
    // Index: which of the last values are not 0, the last value in the highest bit.
    tern_uniform_chance nonzero[1 << TERN_UNIFORM_PAST];
    tern_uniform_chance more[TERN_UNIFORM_LEVELS - 1][8];
    tern_uniform_chance sign[5];
    tern_uniform_chance class[TERN_UNIFORM_CLASSES]; // nodes of a tree, from 1 on
};

void tern_uniform_open_contexts(struct tern_uniform_contexts *contexts);

// Adapts a probability to a decision. ones: all bits set for a 1, none for a 0.
static inline void tern_uniform_learn(tern_uniform_chance *chance, uint64_t ones)
{
    const uint32_t least = TERN_RANGE_LEAST >> TERN_UNIFORM_RATE;
    const uint32_t swing = (TERN_RANGE_ONE - 2 * TERN_RANGE_LEAST) >> TERN_UNIFORM_RATE;
    const uint32_t zero = *chance;
    *chance = (tern_uniform_chance)(zero - (zero >> TERN_UNIFORM_RATE) + least +
                                    (swing & ~(uint32_t)ones));
}

// --- Writing

// Encode the values of a lane and replace them by their residual errors. Return the end of the lane's bytes.
// replica: one float for each value, to which the decoded values are added, or NULL.
uint8_t *tern_uniform_write_planes(float *values, float *replica, size_t count,
                                   const struct tern_uniform_step *step, uint8_t *dst);
uint8_t *tern_uniform_write_values(float *values, size_t count,
                                   const struct tern_uniform_step *step, uint8_t *dst);

// --- Reading

struct tern_uniform_lane {
    const uint8_t *src; // untrusted
    size_t len;
    size_t at; // index of the lane's first value in the payload
    size_t count;
};

struct tern_uniform_sink {
    float scale;
    float weight;
    float *acc;                   // [count] of the payload; NULL: adds nothing
    struct tern_codec_info *info; // NULL: describes nothing
};

// Adds and describes `count` decoded values from index `at` on.
void tern_uniform_give(const struct tern_uniform_sink *sink, const int16_t *steps, size_t at,
                       size_t count);

// Decode the lanes of a payload, 1 or TERN_UNIFORM_LANES. Return whether each is whole: its values end where its bytes end. The time
// is proportional to the bytes.
bool tern_uniform_read_planes(const struct tern_uniform_lane *lanes, unsigned count,
                              const struct tern_uniform_sink *sink);
bool tern_uniform_read_values(const struct tern_uniform_lane *lanes, unsigned count,
                              const struct tern_uniform_sink *sink);

#endif
