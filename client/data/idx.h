// Reads the IDX format of MNIST (LeCun, Cortes and Burges): a big-endian header with a type and sizes, then the values,
// big-endian. Images have three or four dimensions [n][height][width]([channels]), tables two, of any of the format's types.
// Labels have one dimension of whole numbers. Hosted; reentrant.
#ifndef TERN_IDX_H
#define TERN_IDX_H

#include "data/elements.h"
#include "data/readers.h"

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

#endif
