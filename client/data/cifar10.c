// Reads the binary version of CIFAR-10 (Krizhevsky 2009): records of one label byte and three planes of 32 x 32 bytes, red,
// green, blue, in data_batch_1.bin to data_batch_5.bin and test_batch.bin.
#include "data/readers.h"
#include "hosted/input.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIDE 32u
#define PLANE ((size_t)SIDE * SIDE)
#define PIXELS (3 * PLANE)
#define RECORD (1 + PIXELS)
#define CLASSES 10
#define BATCHES 5

// The training or test images while their files are read.
struct images {
    uint8_t *bytes;
    uint16_t *labels;
    uint32_t count;
    uint32_t room; // number of images for which the arrays have memory
};

static enum tern_result grow(const struct tern_input *input, const struct tern_data_limits *limits,
                             struct images *images)
{
    if (images->labels != NULL && images->count < images->room) {
        return TERN_OK;
    }
    uint64_t room = images->room == 0 ? 2048 : (uint64_t)images->room * 2;
    room = room < limits->max_examples ? room : limits->max_examples;
    uint64_t most = limits->max_bytes / RECORD;
    room = room < most ? room : most;
    if (room <= images->count || PIXELS > limits->max_features) {
        return tern_input_refuse(input, TERN_ERR_TOO_LARGE,
                                 "contains more images than the limits allow (%u)", images->count);
    }
    uint8_t *bytes = realloc(images->bytes, (size_t)room * PIXELS);
    if (bytes != NULL) {
        images->bytes = bytes;
        uint16_t *labels = realloc(images->labels, (size_t)room * sizeof *labels);
        if (labels != NULL) {
            images->labels = labels;
            images->room = (uint32_t)room;
            return TERN_OK;
        }
    }
    return tern_input_refuse(input, TERN_ERR_NO_MEMORY, "needs memory for %llu images",
                             (unsigned long long)room);
}

// Converts planes to [height][width][channels].
static void interleave(const uint8_t *planes, uint8_t *image)
{
    for (size_t i = 0; i < PLANE; i++) {
        for (size_t c = 0; c < 3; c++) {
            image[3 * i + c] = planes[c * PLANE + i];
        }
    }
}

static enum tern_result read_records(struct tern_input *input,
                                     const struct tern_data_limits *limits, struct images *images)
{
    uint8_t record[RECORD];
    for (uint32_t number = 0;; number++) {
        size_t got;
        TERN_TRY(tern_input_read(input, record, sizeof record, &got));
        if (got == 0 && number > 0) {
            return TERN_OK;
        }
        if (got < sizeof record) {
            return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                     "ends within image %u; each takes %zu bytes", number, RECORD);
        }
        if (record[0] >= CLASSES) {
            return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                     "image %u has the label %u; labels are 0 to %d", number,
                                     record[0], CLASSES - 1);
        }
        TERN_TRY(grow(input, limits, images));
        // NOLINTNEXTLINE(*-core.NullDereference): grow() allocated the array
        images->labels[images->count] = record[0];
        interleave(record + 1, images->bytes + (size_t)images->count * PIXELS);
        images->count++;
    }
}

static enum tern_result read_file(const char *path, const struct tern_data_limits *limits,
                                  struct images *images, char *why)
{
    struct tern_input input;
    TERN_TRY(tern_input_open(&input, path, limits->max_bytes, why));
    enum tern_result result = read_records(&input, limits, images);
    tern_input_close(&input);
    return result;
}

static void fill(struct tern_dataset *data, const struct images *images)
{
    data->bytes = images->bytes;
    data->labels = images->labels;
    data->count = images->count;
    data->height = SIDE;
    data->width = SIDE;
    data->channels = 3;
    data->feature_count = (uint32_t)PIXELS;
    data->class_count = CLASSES;
}

static enum tern_result read_train(const struct tern_data_spec *spec,
                                   const struct tern_data_limits *limits, struct images *images)
{
    char path[TERN_DATA_SPEC_MAX + 32];
    for (int batch = 1; batch <= BATCHES; batch++) {
        snprintf(path, sizeof path, "%s/data_batch_%d.bin", spec->path, batch);
        if (batch > 1 && access(path, F_OK) != 0) {
            break; // the later batches may be missing
        }
        TERN_TRY(read_file(path, limits, images, spec->why));
    }
    return TERN_OK;
}

enum tern_result tern_read_cifar10(struct tern_data_spec *spec,
                                   const struct tern_data_limits *limits, struct tern_data *data)
{
    char path[TERN_DATA_SPEC_MAX + 32];
    struct images train = {0};
    struct images test = {0};
    TERN_TRY(tern_spec_scaling(spec, data));
    TERN_TRY(tern_spec_done(spec, "mean, std"));
    enum tern_result result = read_train(spec, limits, &train);
    if (result == TERN_OK) {
        snprintf(path, sizeof path, "%s/test_batch.bin", spec->path);
        result = read_file(path, limits, &test, spec->why);
    }
    fill(&data->train, &train);
    fill(&data->test, &test);
    return result;
}
