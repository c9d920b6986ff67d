// The IDX format of MNIST (LeCun, Cortes and Burges) and its kin: a big-endian header of a type and
// sizes, then the values, big-endian. Images are three or four dimensions [n][height][width]([channels])
// of any of the format's types, tables two, labels one of whole numbers. Hosted; reentrant.
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

// Reads data->count labels into malloc'ed data->labels and raises data->class_count to the largest
// label + 1. Errors as above and TERN_ERR_NO_MEMORY, with nothing kept; another count than that of
// the images is TERN_ERR_CORRUPT.
TERN_MUST_USE enum tern_result tern_idx_read_labels(struct tern_input *input,
                                                    const struct tern_data_limits *limits,
                                                    struct tern_dataset *data);

// Reads what follows the header of images: `total` of data->feature_count values. Keeps data->count
// of them, those of the numbers kept[0..data->count), all different and below total, in that order,
// in malloc'ed data->bytes, or, scaled, in data->values where they are no unsigned bytes; kept NULL: all of them,
// data->count being total. Whatever is not kept is read, too, so that a damaged file is noticed.
// Errors as above, and TERN_ERR_CORRUPT for a number that is not finite as float32.
TERN_MUST_USE enum tern_result tern_idx_read_images(struct tern_input *input,
                                                    const struct tern_elements *type,
                                                    const struct tern_scaling *scaling,
                                                    uint32_t total, const uint32_t *kept,
                                                    struct tern_dataset *data);

#endif
