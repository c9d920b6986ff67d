// The four IDX files of a folder as a data set.
#include "data/idx.h"
#include "data/readers.h"
#include "data/shard.h"
#include <stdio.h>

#define PATH_SIZE (TERN_DATA_SPEC_MAX + 64)

// FOLDER/NAME or, when there is no such file, FOLDER/NAME.gz.
static enum tern_result open_part(struct tern_input *input, const char *folder, const char *name,
                                  char path[PATH_SIZE], char *why)
{
    snprintf(path, PATH_SIZE, "%s/%s", folder, name);
    enum tern_result result = tern_input_open(input, path, UINT64_MAX, why);
    if (result == TERN_ERR_NOT_FOUND) {
        snprintf(path, PATH_SIZE, "%s/%s.gz", folder, name);
        result = tern_input_open(input, path, UINT64_MAX, why);
    }
    if (result == TERN_ERR_NOT_FOUND) {
        input->name = folder;
        return tern_input_refuse(input, result, "holds neither %s nor %s.gz", name, name);
    }
    return result;
}

static enum tern_result read_labels(const struct tern_data_spec *spec, const char *prefix,
                                    const struct tern_data_limits *limits,
                                    struct tern_dataset *data)
{
    char path[PATH_SIZE];
    char name[64];
    struct tern_input input;
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", prefix);
    TERN_TRY(open_part(&input, spec->path, name, path, spec->why));
    enum tern_result result = tern_idx_read_labels(&input, limits, data);
    tern_input_close(&input);
    return result;
}

static enum tern_result open_images(struct tern_input *images, const struct tern_data_spec *spec,
                                    const char *prefix, char path[PATH_SIZE])
{
    char name[64];
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", prefix);
    return open_part(images, spec->path, name, path, spec->why);
}

static enum tern_result read_images(const struct tern_data_spec *spec, const char *prefix,
                                    const struct tern_data_limits *limits,
                                    struct tern_dataset *data)
{
    char path[PATH_SIZE];
    struct tern_input images;
    TERN_TRY(open_images(&images, spec, prefix, path));
    enum tern_result result = tern_idx_read_shape(&images, limits, data);
    if (result == TERN_OK) {
        result = tern_idx_read_images(&images, data->count, NULL, data);
    }
    tern_input_close(&images);
    return result;
}

static enum tern_result read_all(const struct tern_data_spec *spec, const char *prefix,
                                 const struct tern_data_limits *limits, struct tern_dataset *data)
{
    TERN_TRY(read_images(spec, prefix, limits, data));
    return read_labels(spec, prefix, limits, data);
}

// The labels alone tell which images the shard has, so they are read between the images' header and
// the images.
static enum tern_result read_chosen(const struct tern_data_spec *spec,
                                    const struct tern_data_limits *limits,
                                    struct tern_input *images, struct tern_partition *partition,
                                    struct tern_dataset *data)
{
    struct tern_view kept;
    TERN_TRY(tern_idx_read_shape(images, limits, data));
    TERN_TRY(read_labels(spec, "train", limits, data));
    const uint32_t total = data->count;
    TERN_TRY(tern_shard_choose(spec, data, partition, &kept));
    TERN_TRY(tern_shard_keep(spec, &kept, data));
    return tern_idx_read_images(images, total, kept.indices, data);
}

static enum tern_result read_shard(const struct tern_data_spec *spec,
                                   const struct tern_data_limits *limits, struct tern_dataset *data)
{
    char path[PATH_SIZE];
    struct tern_input images;
    struct tern_partition partition = {0};
    TERN_TRY(open_images(&images, spec, "train", path));
    enum tern_result result = read_chosen(spec, limits, &images, &partition, data);
    tern_partition_free(&partition);
    tern_input_close(&images);
    return result;
}

static enum tern_result read_test(const struct tern_data_spec *spec,
                                  const struct tern_data_limits *limits, struct tern_data *data)
{
    const struct tern_dataset *train = &data->train;
    const struct tern_dataset *test = &data->test;
    data->test.class_count = train->class_count;
    TERN_TRY(read_all(spec, "t10k", limits, &data->test));
    data->train.class_count = test->class_count;
    if (train->height != test->height || train->width != test->width ||
        train->channels != test->channels) {
        return tern_spec_refuse(spec, TERN_ERR_CORRUPT,
                                "training images are %u x %u x %u, test images %u x %u x %u",
                                train->height, train->width, train->channels, test->height,
                                test->width, test->channels);
    }
    return TERN_OK;
}

enum tern_result tern_read_idx(struct tern_data_spec *spec, const struct tern_data_limits *limits,
                               struct tern_data *data)
{
    TERN_TRY(tern_spec_scaling(spec, data));
    TERN_TRY(tern_spec_done(spec, "mean, std"));
    TERN_TRY(spec->part->partition != NULL ? read_shard(spec, limits, &data->train)
                                           : read_all(spec, "train", limits, &data->train));
    return spec->part->test ? read_test(spec, limits, data) : TERN_OK;
}
