// Shared by the readers of generated data (audio, digits, sensors): the options train, test and seed, memory, and the group
// of each example. Hosted; reentrant.
#ifndef TERN_GENERATED_H
#define TERN_GENERATED_H

#include "data/random.h"
#include "data/readers.h"

// The size of a generated data set. tern_generated_options() sets it.
struct tern_generated {
    uint32_t train; // examples
    uint32_t test;
    uint32_t groups; // 0: none
    uint64_t seed;
    bool targets; // the examples have targets, not labels
};

// The arrays of one part while it is drawn. The data set owns them.
struct tern_generated_part {
    uint32_t count;
    uint8_t *bytes; // [count][features], or NULL when the examples are values
    float *values;
    uint16_t *labels;
    float *targets;   // NULL: none
    uint32_t *groups; // NULL: none
};

// Reads the options train, test and seed, and the number of groups, 1 to train. groups: the name of that option; NULL: none.
// *set holds the defaults. Errors of tern_spec_number()
TERN_MUST_USE enum tern_result tern_generated_options(struct tern_data_spec *spec,
                                                      const struct tern_data_limits *limits,
                                                      const char *groups,
                                                      struct tern_generated *set);

// Allocates both parts (parts[0] train, parts[1] test) of examples with the height, width, channels and class_count of
// `shape`. float_values: as float32, otherwise as bytes.
// TERN_ERR_TOO_LARGE, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result
tern_generated_take(const struct tern_data_spec *spec, const struct tern_data_limits *limits,
                    const struct tern_generated *set, const struct tern_dataset *shape,
                    bool float_values, struct tern_data *data, struct tern_generated_part parts[2]);

// Returns the group of example `index`. Example g belongs to group g, so that no group is empty. The others are drawn, with
// a weight of 1/4 to 1 for each group. rng: the example's stream. stream: names, with a group's number, the group's stream,
// whose first draw is the weight.
uint32_t tern_generated_group(struct tern_prng *rng, uint64_t seed, enum tern_data_stream stream,
                              uint32_t groups, uint32_t index);

// Begins a group's stream behind the draw of its weight.
void tern_generated_group_begin(struct tern_prng *rng, uint64_t seed, enum tern_data_stream stream,
                                uint32_t group);

#endif
