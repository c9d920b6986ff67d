// Shared by source.c and the readers: one function per kind of data, scaling by a spec's options, elements of arrays, IDX
// files, and the choice of one client's shard. Called inside client/data, and by fuzzers. Hosted; reentrant.
#ifndef TERN_READERS_H
#define TERN_READERS_H

#include "data/partition.h"
#include "data/source.h"
#include "hosted/data_spec.h"
#include "hosted/input.h"
#include <stdbool.h>

// Sets scale and offset of both parts from the options mean and std (0 and 1 when not given).
TERN_MUST_USE enum tern_result tern_spec_scaling(struct tern_data_spec *spec,
                                                 struct tern_data *data);

// The options mean and std; 0 and 1 when not given.
struct tern_scaling {
    float mean;
    float deviation;
    bool given; // either
};

// Does the same for kinds of data whose numbers may be no bytes. Those are not divided by 255, so mean and std may be of any
// size.
TERN_MUST_USE enum tern_result tern_spec_scaling_of_numbers(struct tern_data_spec *spec,
                                                            struct tern_data *data,
                                                            struct tern_scaling *scaling);

// Replaces each value by (value - mean) / std.
void tern_scale_numbers(const struct tern_scaling *scaling, float *values, size_t count);

// Frees the data set's arrays; *data is then empty.
void tern_dataset_release(struct tern_dataset *data);

// Each function reads one kind of data into *data; on error source.c frees it. tern_read_idx() reads only spec->part; from
// the other results source.c keeps that part.
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

// Reads numbers of several types and byte orders from a file, as NPY and IDX arrays have them.

struct tern_elements {
    char kind;       // 'b' (bool), 'i', 'u' or 'f'
    uint32_t width;  // bytes of an element: 1, 2, 4 or 8; 'f': 4 or 8
    bool big_endian; // false: little-endian
};

// Whether the elements are unsigned bytes, which a data set does not convert.
static inline bool tern_elements_are_bytes(const struct tern_elements *type)
{
    return type->kind == 'u' && type->width == 1;
}

// A part of an array, for reading and for messages.
struct tern_elements_range {
    const char *what; // "the array"
    uint64_t first;   // index of the part's first element in the array
    uint64_t count;   // elements of the part
    uint64_t row;     // elements per row
};

// Reads the range into values[range->count].
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
// big-endian. Images have three or four dimensions [n][height][width]([channels]), tables two, of any of the format's types.
// Labels have one dimension of whole numbers.

// Reads the header of images and sets count, height, width, channels and feature_count, and *type.
// TERN_ERR_CORRUPT, TERN_ERR_TOO_LARGE, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_idx_read_shape(struct tern_input *input,
                                                   const struct tern_data_limits *limits,
                                                   struct tern_elements *type,
                                                   struct tern_dataset *data);

// Reads data->count labels into malloc'ed data->labels, and raises data->class_count to the largest label + 1. On error
// nothing is allocated. Errors as above, TERN_ERR_NO_MEMORY, and TERN_ERR_CORRUPT for a count that differs from the images'.
TERN_MUST_USE enum tern_result tern_idx_read_labels(struct tern_input *input,
                                                    const struct tern_data_limits *limits,
                                                    struct tern_dataset *data);

// Reads the `total` images that follow the header, and keeps data->count of them, in the order of their indices
// kept[0..data->count), all different. kept NULL: keeps all; data->count is total. Unsigned bytes go to malloc'ed
// data->bytes, other numbers, scaled, to malloc'ed data->values. Images that are not kept are read, too, to detect a damaged
// file. Errors as above, and TERN_ERR_CORRUPT for a number that is not finite as float32.
TERN_MUST_USE enum tern_result tern_idx_read_images(struct tern_input *input,
                                                    const struct tern_elements *type,
                                                    const struct tern_scaling *scaling,
                                                    uint32_t total, const uint32_t *kept,
                                                    struct tern_dataset *data);

// --- One client's shard

// Reduces a data set to one shard of a partition of its training examples, for one client of an experiment. Called by idx.c
// and source.c.

// Partitions data by its count and labels as spec->part specifies. The caller frees the partition. *kept: the shard's
// examples in their order.
// TERN_ERR_ARGUMENT  the examples cannot be partitioned so
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_shard_choose(const struct tern_data_spec *spec,
                                                 const struct tern_dataset *data,
                                                 struct tern_partition *partition,
                                                 struct tern_view *kept);

// Reduces data to the examples of kept, a view of it: labels, and bytes or values if present. TERN_ERR_NO_MEMORY: data can
// then only be released.
TERN_MUST_USE enum tern_result tern_shard_keep(const struct tern_data_spec *spec,
                                               const struct tern_view *kept,
                                               struct tern_dataset *data);

#endif
