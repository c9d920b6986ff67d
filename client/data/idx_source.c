// The four IDX files of a folder as a data set: PREFIX-images-idx3-ubyte and PREFIX-labels-idx1-ubyte
// of the prefixes train and t10k, or named after another type.
#include "data/idx.h"
#include "data/readers.h"
#include "data/shard.h"
#include <stdio.h>

#define PATH_SIZE (TERN_DATA_SPEC_MAX + 64)

struct source {
    const struct tern_data_spec *spec;
    const struct tern_data_limits *limits;
    struct tern_scaling scaling;
};

// What a file's name says of its dimensions and type. Its header decides.
static const char *const image_names[] = {"idx3", "idx4", "idx2", NULL};
static const char *const label_names[] = {"idx1", NULL};
static const char *const type_names[] = {"ubyte", "float", "double", "byte", "short", "int", NULL};

// FOLDER/NAME or, when there is no such file, FOLDER/NAME.gz.
static enum tern_result open_named(struct tern_input *input, const char *folder, const char *name,
                                   char path[PATH_SIZE], char *why)
{
    snprintf(path, PATH_SIZE, "%s/%s", folder, name);
    enum tern_result result = tern_input_open(input, path, UINT64_MAX, why);
    if (result == TERN_ERR_NOT_FOUND) {
        snprintf(path, PATH_SIZE, "%s/%s.gz", folder, name);
        result = tern_input_open(input, path, UINT64_MAX, why);
    }
    return result;
}

// what: "train-images"; dims: its names.
static enum tern_result open_part(struct tern_input *input, const struct tern_data_spec *spec,
                                  const char *what, const char *const *dims, char path[PATH_SIZE])
{
    for (const char *const *dim = dims; *dim != NULL; dim++) {
        for (const char *const *type = type_names; *type != NULL; type++) {
            char name[64];
            snprintf(name, sizeof name, "%s-%s-%s", what, *dim, *type);
            enum tern_result result = open_named(input, spec->path, name, path, spec->why);
            if (result != TERN_ERR_NOT_FOUND) {
                return result;
            }
        }
    }
    input->name = spec->path;
    input->why = spec->why;
    return tern_input_refuse(input, TERN_ERR_NOT_FOUND,
                             "holds neither %s-%s-ubyte nor %s-%s-ubyte.gz, and none that ends in "
                             "float, double, byte, short or int",
                             what, dims[0], what, dims[0]);
}

static enum tern_result read_labels(const struct source *source, const char *prefix,
                                    struct tern_dataset *data)
{
    char path[PATH_SIZE];
    char what[32];
    struct tern_input input;
    snprintf(what, sizeof what, "%s-labels", prefix);
    TERN_TRY(open_part(&input, source->spec, what, label_names, path));
    enum tern_result result = tern_idx_read_labels(&input, source->limits, data);
    tern_input_close(&input);
    return result;
}

static enum tern_result open_images(struct tern_input *images, const struct tern_data_spec *spec,
                                    const char *prefix, char path[PATH_SIZE])
{
    char what[32];
    snprintf(what, sizeof what, "%s-images", prefix);
    return open_part(images, spec, what, image_names, path);
}

static enum tern_result read_images(const struct source *source, const char *prefix,
                                    struct tern_dataset *data)
{
    char path[PATH_SIZE];
    struct tern_input images;
    struct tern_elements type;
    TERN_TRY(open_images(&images, source->spec, prefix, path));
    enum tern_result result = tern_idx_read_shape(&images, source->limits, &type, data);
    if (result == TERN_OK) {
        result = tern_idx_read_images(&images, &type, &source->scaling, data->count, NULL, data);
    }
    tern_input_close(&images);
    return result;
}

static enum tern_result read_all(const struct source *source, const char *prefix,
                                 struct tern_dataset *data)
{
    TERN_TRY(read_images(source, prefix, data));
    return read_labels(source, prefix, data);
}

// The labels alone tell which images the shard has, so they are read between the images' header and
// the images.
static enum tern_result read_chosen(const struct source *source, struct tern_input *images,
                                    struct tern_partition *partition, struct tern_dataset *data)
{
    struct tern_view kept;
    struct tern_elements type;
    TERN_TRY(tern_idx_read_shape(images, source->limits, &type, data));
    TERN_TRY(read_labels(source, "train", data));
    const uint32_t total = data->count;
    TERN_TRY(tern_shard_choose(source->spec, data, partition, &kept));
    TERN_TRY(tern_shard_keep(source->spec, &kept, data));
    return tern_idx_read_images(images, &type, &source->scaling, total, kept.indices, data);
}

static enum tern_result read_shard(const struct source *source, struct tern_dataset *data)
{
    char path[PATH_SIZE];
    struct tern_input images;
    struct tern_partition partition = {0};
    TERN_TRY(open_images(&images, source->spec, "train", path));
    enum tern_result result = read_chosen(source, &images, &partition, data);
    tern_partition_free(&partition);
    tern_input_close(&images);
    return result;
}

static enum tern_result read_test(const struct source *source, struct tern_data *data)
{
    const struct tern_dataset *train = &data->train;
    const struct tern_dataset *test = &data->test;
    data->test.class_count = train->class_count;
    TERN_TRY(read_all(source, "t10k", &data->test));
    data->train.class_count = test->class_count;
    if (train->height != test->height || train->width != test->width ||
        train->channels != test->channels) {
        return tern_spec_refuse(source->spec, TERN_ERR_CORRUPT,
                                "training images are %u x %u x %u, test images %u x %u x %u",
                                train->height, train->width, train->channels, test->height,
                                test->width, test->channels);
    }
    if ((train->bytes == NULL) != (test->bytes == NULL)) {
        return tern_spec_refuse(
            source->spec, TERN_ERR_CORRUPT,
            "training images are %s, test images %s: both are needed as one kind",
            train->bytes != NULL ? "unsigned bytes" : "numbers",
            test->bytes != NULL ? "unsigned bytes" : "numbers");
    }
    return TERN_OK;
}

enum tern_result tern_read_idx(struct tern_data_spec *spec, const struct tern_data_limits *limits,
                               struct tern_data *data)
{
    struct source source = {.spec = spec, .limits = limits};
    TERN_TRY(tern_spec_scaling_of_numbers(spec, data, &source.scaling));
    TERN_TRY(tern_spec_done(spec, "mean, std"));
    TERN_TRY(spec->part->partition != NULL ? read_shard(&source, &data->train)
                                           : read_all(&source, "train", &data->train));
    return spec->part->test ? read_test(&source, data) : TERN_OK;
}
