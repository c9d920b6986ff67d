#include "data/idx.h"
#include <stdbool.h>
#include <stdlib.h>

#define MAX_DIMS 4
#define UNSIGNED_BYTES 0x08

// Reads the header: two zero bytes, the type, the number of dimensions, the dimensions.
static enum tern_result read_header(struct tern_input *input, uint32_t dims[MAX_DIMS],
                                    uint32_t *dim_count)
{
    uint8_t magic[4];
    TERN_TRY(tern_input_read_exact(input, magic, sizeof magic, "the IDX header"));
    if (magic[0] != 0 || magic[1] != 0) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                 "is no IDX file: it begins with %02x %02x, not with 00 00",
                                 magic[0], magic[1]);
    }
    if (magic[2] != UNSIGNED_BYTES) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                 "holds IDX values of type 0x%02x; only unsigned bytes (0x08) are "
                                 "read",
                                 magic[2]);
    }
    if (magic[3] < 1 || magic[3] > MAX_DIMS) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                 "has %u IDX dimensions; images have 3 or 4, labels 1", magic[3]);
    }
    *dim_count = magic[3];
    for (uint32_t i = 0; i < *dim_count; i++) {
        uint8_t b[4];
        TERN_TRY(tern_input_read_exact(input, b, sizeof b, "the IDX header"));
        dims[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    return TERN_OK;
}

// Checks that `count` examples of `features` values are within the limits and can be in the file.
static enum tern_result check_size(const struct tern_input *input,
                                   const struct tern_data_limits *limits, uint32_t count,
                                   uint64_t features)
{
    if (count > limits->max_examples) {
        return tern_input_refuse(input, TERN_ERR_TOO_LARGE, "has %u examples, over the limit of %u",
                                 count, limits->max_examples);
    }
    unsigned long long bytes = count * features;
    if (bytes > limits->max_bytes) {
        return tern_input_refuse(input, TERN_ERR_TOO_LARGE,
                                 "unpacks to %llu bytes, over the limit of %llu", bytes,
                                 (unsigned long long)limits->max_bytes);
    }
    if (bytes > input->most) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                 "is too short for the %u examples that its header names", count);
    }
    return TERN_OK;
}

enum tern_result tern_idx_read_shape(struct tern_input *input,
                                     const struct tern_data_limits *limits,
                                     struct tern_dataset *data)
{
    uint32_t dims[MAX_DIMS] = {0, 0, 0, 1};
    uint32_t dim_count = 0;
    TERN_TRY(read_header(input, dims, &dim_count));
    if (dim_count < 3 || dims[0] == 0 || dims[1] == 0 || dims[2] == 0 || dims[3] == 0) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                 "holds no images: its header says %u dimensions, %u x %u x %u",
                                 dim_count, dims[0], dims[1], dims[2]);
    }
    // A side is checked before it is multiplied, so that the product cannot overflow.
    uint64_t most = limits->max_features;
    if (dims[1] > most || dims[2] > most / dims[1] || dims[3] > most / dims[1] / dims[2]) {
        return tern_input_refuse(input, TERN_ERR_TOO_LARGE,
                                 "has images of %u x %u x %u, over the limit of %u values", dims[1],
                                 dims[2], dims[3], limits->max_features);
    }
    uint64_t features = (uint64_t)dims[1] * dims[2] * dims[3];
    TERN_TRY(check_size(input, limits, dims[0], features));
    data->count = dims[0];
    data->height = dims[1];
    data->width = dims[2];
    data->channels = dims[3];
    data->feature_count = (uint32_t)features;
    return TERN_OK;
}

// Reads `count` label bytes in blocks.
static enum tern_result fill_labels(struct tern_input *input, uint16_t *labels, uint32_t count,
                                    uint32_t *class_count)
{
    uint8_t block[4096];
    for (uint32_t done = 0; done < count;) {
        uint32_t part = count - done < sizeof block ? count - done : (uint32_t)sizeof block;
        TERN_TRY(tern_input_read_exact(input, block, part, "the labels"));
        for (uint32_t i = 0; i < part; i++) {
            labels[done + i] = block[i];
            *class_count = block[i] >= *class_count ? block[i] + 1u : *class_count;
        }
        done += part;
    }
    return tern_input_expect_end(input);
}

enum tern_result tern_idx_read_labels(struct tern_input *input,
                                      const struct tern_data_limits *limits,
                                      struct tern_dataset *data)
{
    uint32_t dims[MAX_DIMS] = {0};
    uint32_t dim_count = 0;
    TERN_TRY(read_header(input, dims, &dim_count));
    if (dim_count != 1) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                 "holds no labels: its header says %u dimensions, not 1",
                                 dim_count);
    }
    if (dims[0] != data->count) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT, "holds %u labels for %u images", dims[0],
                                 data->count);
    }
    TERN_TRY(check_size(input, limits, dims[0], 1));
    uint16_t *labels = malloc(dims[0] * sizeof *labels);
    if (labels == NULL) {
        return tern_input_refuse(input, TERN_ERR_NO_MEMORY, "needs memory for %u labels", dims[0]);
    }
    uint32_t class_count = data->class_count;
    enum tern_result result = fill_labels(input, labels, dims[0], &class_count);
    if (result == TERN_OK && class_count > limits->max_classes) {
        result = tern_input_refuse(input, TERN_ERR_TOO_LARGE,
                                   "has labels up to %u; the limit is %u classes", class_count - 1,
                                   limits->max_classes);
    }
    if (result != TERN_OK) {
        free(labels);
        return result;
    }
    data->labels = labels;
    data->class_count = class_count;
    return TERN_OK;
}

static enum tern_result skip(struct tern_input *input, size_t size)
{
    uint8_t block[4096];
    while (size > 0) {
        size_t part = size < sizeof block ? size : sizeof block;
        TERN_TRY(tern_input_read_exact(input, block, part, "the images"));
        size -= part;
    }
    return TERN_OK;
}

#define NOT_KEPT UINT32_MAX

// places[i]: where image i of the file goes, or NOT_KEPT.
static enum tern_result read_places(struct tern_input *input, uint32_t total,
                                    const uint32_t *places, size_t size, uint8_t *bytes)
{
    for (uint32_t i = 0; i < total; i++) {
        if (places[i] == NOT_KEPT) {
            TERN_TRY(skip(input, size));
        } else {
            TERN_TRY(tern_input_read_exact(input, bytes + places[i] * size, size, "the images"));
        }
    }
    return TERN_OK;
}

static enum tern_result read_kept(struct tern_input *input, uint32_t total, const uint32_t *kept,
                                  const struct tern_dataset *data, uint8_t *bytes)
{
    uint32_t *places = malloc(total * sizeof *places);
    if (places == NULL) {
        return tern_input_refuse(input, TERN_ERR_NO_MEMORY, "needs memory for %u numbers", total);
    }
    for (uint32_t i = 0; i < total; i++) {
        places[i] = NOT_KEPT;
    }
    for (uint32_t i = 0; i < data->count; i++) {
        places[kept[i]] = i;
    }
    enum tern_result result = read_places(input, total, places, data->feature_count, bytes);
    free(places);
    return result;
}

enum tern_result tern_idx_read_images(struct tern_input *input, uint32_t total,
                                      const uint32_t *kept, struct tern_dataset *data)
{
    size_t size = 0;
    bool over = __builtin_mul_overflow((size_t)data->count, (size_t)data->feature_count, &size);
    uint8_t *bytes = over ? NULL : malloc(size);
    if (bytes == NULL) {
        return tern_input_refuse(input, TERN_ERR_NO_MEMORY, "needs memory for %u images",
                                 data->count);
    }
    enum tern_result result = kept != NULL
                                  ? read_kept(input, total, kept, data, bytes)
                                  : tern_input_read_exact(input, bytes, size, "the images");
    if (result == TERN_OK) {
        result = tern_input_expect_end(input);
    }
    if (result != TERN_OK) {
        free(bytes);
        return result;
    }
    data->bytes = bytes;
    return TERN_OK;
}
