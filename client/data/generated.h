// What the kinds of data that are drawn, not read, share: the options train, test and seed, memory,
// and who an example is from. Hosted; reentrant.
#ifndef TERN_GENERATED_H
#define TERN_GENERATED_H

#include "data/random.h"
#include "data/readers.h"

// A generated set; count and groups of its parts are filled in by tern_generated_options().
struct tern_generated {
    uint32_t train; // examples
    uint32_t test;
    uint32_t groups; // 0: none
    uint64_t seed;
    bool targets; // the examples have targets
};

// The arrays of one part while it is drawn, which the data set owns from the start.
struct tern_generated_part {
    uint32_t count;
    uint8_t *bytes; // [count][features], or NULL where the examples are values
    float *values;
    uint16_t *labels;
    float *targets;   // NULL: the set has none
    uint32_t *groups; // NULL: the set has none
};

// Reads the options train, test and seed, and the one that `groups` names (NULL: none) as the
// number of groups, 1 to train; the defaults are those that *set holds. Errors of
// tern_spec_number()
TERN_MUST_USE enum tern_result tern_generated_options(struct tern_data_spec *spec,
                                                      const struct tern_data_limits *limits,
                                                      const char *groups,
                                                      struct tern_generated *set);

// Takes memory for both parts of examples of the shape of `shape`, of which height, width, channels
// and class_count are read; of float32 values, or of bytes. parts: train and test.
// TERN_ERR_TOO_LARGE, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result
tern_generated_take(const struct tern_data_spec *spec, const struct tern_data_limits *limits,
                    const struct tern_generated *set, const struct tern_dataset *shape,
                    bool float_values, struct tern_data *data, struct tern_generated_part parts[2]);

// The group of example `index`: each has the first example of its number, so none is empty, and
// draws between a quarter and the whole of the largest one's share of the rest. rng: the example's;
// `stream` with a group's number names the group's stream, whose first draw is its size.
uint32_t tern_generated_group(struct tern_prng *rng, uint64_t seed, enum tern_data_stream stream,
                              uint32_t groups, uint32_t index);

// Begins a group's stream behind its size.
void tern_generated_group_begin(struct tern_prng *rng, uint64_t seed, enum tern_data_stream stream,
                                uint32_t group);

#endif
