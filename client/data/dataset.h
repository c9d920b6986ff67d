// Labelled examples in memory, and selections of them. Images are stored as bytes, a quarter of their size as float32, until a
// batch is gathered. Uses neither malloc nor files: a microcontroller's program fills struct tern_dataset itself, and
// data/source.h reads files into it. Pure; reentrant. A filled data set does not change, so threads may share it.
#ifndef TERN_DATASET_H
#define TERN_DATASET_H

#include "build.h"
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tern_dataset {
    uint32_t count;         // examples
    uint32_t feature_count; // values per example: height * width * channels
    uint32_t class_count;   // labels are 0..class_count-1
    // shape of an example, [height][width][channels]; for tables height is 1, width is feature_count and channels is 1
    uint32_t height;
    uint32_t width;
    uint32_t channels;
    const uint8_t *bytes;   // [count][feature_count], or NULL when values are given
    const float *values;    // [count][feature_count], or NULL when bytes are given
    const uint16_t *labels; // [count]; all 0 in a data set with targets
    const uint32_t *groups; // [count] the example's device, speaker or site; NULL: unknown
    uint32_t group_count;   // groups are 0..group_count-1
    // [count][(feature_count + 7) / 8] bits: 1 for a value that was missing and is replaced by its column's mean; NULL: none
    // was
    const uint8_t *imputed;
    float scale; // the feature of a byte is byte * scale + offset
    float offset;
    const float *targets; // [count] numbers to predict; NULL: the data set has labels
    float target_mean;    // a target in original units is target * target_deviation + target_mean
    float target_deviation;
};

// Returns the targets; NULL in builds whose models have no targets.
static inline const float *tern_dataset_targets(const struct tern_dataset *data)
{
    return TERN_LOSSES ? data->targets : NULL;
}

// A selection of a data set's examples, e.g. one client's shard.
struct tern_view {
    const struct tern_dataset *dataset; // NULL: an empty view
    const uint32_t *indices;            // [count] positions in the data set; NULL: 0 to count - 1
    uint32_t count;
};

// Returns a view of all examples.
struct tern_view tern_view_all(const struct tern_dataset *dataset);

// Writes `count` examples as float32 rows to features[count][feature_count], and their labels. positions: indices into the
// view; NULL: the examples from `first` on.
void tern_view_gather(const struct tern_view *view, const uint32_t *positions, uint32_t first,
                      uint32_t count, float *features, uint16_t *labels);

// Writes the targets of the examples that tern_view_gather() selects to targets[count]; the data set must have targets.
void tern_view_gather_targets(const struct tern_view *view, const uint32_t *positions,
                              uint32_t first, uint32_t count, float *targets);

#ifdef __cplusplus
}
#endif

#endif
