// The interface between source.c and the readers: a function for each kind of data, scaling by a spec's options, elements of
// arrays, IDX files, and the selection of one client's shard. Called inside client/data, and by fuzzers. Hosted; reentrant.
#ifndef TERN_READERS_H
#define TERN_READERS_H

#include "data/partition.h"
#include "data/source.h"
#include "hosted/data_spec.h"
#include "hosted/input.h"
#include <stdbool.h>

// Sets scale and offset of the training and test data from the options mean (default 0) and std (default 1).
TERN_MUST_USE enum tern_result tern_spec_scaling(struct tern_data_spec *spec,
                                                 struct tern_data *data);

// The options mean and std.
struct tern_scaling {
    float mean;      // 0 if not given
    float deviation; // 1 if not given
    bool is_set;     // mean, std or both are given
};

// Like tern_spec_scaling(), for kinds of data whose numbers may be other than bytes. Such numbers are not divided by 255, so
// mean and std may be of any size; *scaling is for tern_scale_numbers().
TERN_MUST_USE enum tern_result tern_spec_scaling_of_numbers(struct tern_data_spec *spec,
                                                            struct tern_data *data,
                                                            struct tern_scaling *scaling);

// Replaces each value by (value - mean) / std.
void tern_scale_numbers(const struct tern_scaling *scaling, float *values, size_t count);

// Frees the data set's arrays; *data is then empty.
void tern_dataset_release(struct tern_dataset *data);

// Each function reads one kind of data into *data; after an error source.c frees *data. tern_read_idx() reads only the examples
// that spec->part selects; the results of the others are reduced by source.c.
typedef enum tern_result tern_reader_fn(struct tern_data_spec *spec,
                                        const struct tern_data_limits *limits,
                                        struct tern_data *data);
tern_reader_fn tern_read_digits;
tern_reader_fn tern_read_sensors;
tern_reader_fn tern_read_audio;
tern_reader_fn tern_read_idx;
tern_reader_fn tern_read_cifar10;
tern_reader_fn tern_read_csv;
tern_reader_fn tern_read_npy;
tern_reader_fn tern_read_npz;

// --- Elements of arrays

// Reads numbers of the types and byte orders of NPY and IDX files.

struct tern_elements {
    char kind;       // 'b' (bool), 'i', 'u' or 'f'
    uint32_t width;  // bytes of an element: 1, 2, 4 or 8; 'f': 4 or 8
    bool big_endian; // false: little-endian
};

// Returns whether the elements are unsigned bytes, which a data set stores unconverted.
static inline bool tern_elements_are_bytes(const struct tern_elements *type)
{
    return type->kind == 'u' && type->width == 1;
}

// Consecutive elements of an array.
struct tern_elements_range {
    const char *what; // the array's name in messages, e.g. "the array"
    uint64_t first;   // index in the array of the first element, for messages
    uint64_t count;   // elements
    uint64_t row;     // elements per row of the array, for messages
};

// Reads the range into values[range->count]. tern_elements_read_floats() with values NULL only checks the numbers.
// TERN_ERR_CORRUPT  a number is not finite or exceeds float32, or the input is too short
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_elements_read_floats(struct tern_input *input,
                                                         const struct tern_elements *type,
                                                         const struct tern_elements_range *range,
                                                         float *values);
TERN_MUST_USE enum tern_result tern_elements_read_doubles(struct tern_input *input,
                                                          const struct tern_elements *type,
                                                          const struct tern_elements_range *range,
                                                          double *values);

// --- IDX files

// Reads the IDX format of MNIST (LeCun, Cortes and Burges): a big-endian header with a type and sizes, then the values,
// big-endian. Images have three or four dimensions [n][height][width]([channels]), tables have two; both may be of any type of
// the format. Labels have one dimension, and are integers.

// Reads the header of images. Sets data's count, height, width, channels and feature_count, and *type.
// TERN_ERR_CORRUPT, TERN_ERR_TOO_LARGE, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_idx_read_shape(struct tern_input *input,
                                                   const struct tern_data_limits *limits,
                                                   struct tern_elements *type,
                                                   struct tern_dataset *data);

// Reads data->count labels into malloc'ed data->labels, and raises data->class_count to the largest label + 1. On error nothing
// is allocated. Errors as of tern_idx_read_shape(); TERN_ERR_NO_MEMORY; TERN_ERR_CORRUPT for a count that differs from
// data->count.
TERN_MUST_USE enum tern_result tern_idx_read_labels(struct tern_input *input,
                                                    const struct tern_data_limits *limits,
                                                    struct tern_dataset *data);

// Reads the `total` images that follow the header, and stores data->count of them: those with the indices
// selected[0..data->count), which must be different, in that order. selected NULL: stores all; data->count is total. Unsigned
// bytes are stored in malloc'ed data->bytes; other numbers are scaled and stored in malloc'ed data->values. The other images
// are read, too, to detect a damaged file. Errors as of tern_idx_read_labels(), and TERN_ERR_CORRUPT for a number that is not
// finite as float32.
TERN_MUST_USE enum tern_result tern_idx_read_images(struct tern_input *input,
                                                    const struct tern_elements *type,
                                                    const struct tern_scaling *scaling,
                                                    uint32_t total, const uint32_t *selected,
                                                    struct tern_dataset *data);

// --- One client's shard

// Reduces a data set to one shard of a partition of its training examples, for one client of an experiment. Called by idx.c
// and source.c.

// Partitions data by its count and labels as spec->part specifies. The caller frees the partition. *shard: a view of the
// shard's examples in the partition's order.
// TERN_ERR_ARGUMENT  the examples cannot be partitioned as spec->part specifies
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_shard_choose(const struct tern_data_spec *spec,
                                                 const struct tern_dataset *data,
                                                 struct tern_partition *partition,
                                                 struct tern_view *shard);

// Reduces data to the examples of `shard`, a view of data. TERN_ERR_NO_MEMORY: data is incomplete, and the caller must release
// it.
TERN_MUST_USE enum tern_result tern_shard_keep(const struct tern_data_spec *spec,
                                               const struct tern_view *shard,
                                               struct tern_dataset *data);

#endif
