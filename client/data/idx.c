// Reads the four IDX files of a folder as a data set: PREFIX-images-idx3-ubyte and PREFIX-labels-idx1-ubyte with the
// prefixes train and t10k, or with other types in their names.
#include "data/readers.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Headers

#define MAX_DIMS 4
#define TYPES_READ                                                                                 \
    "unsigned byte (0x08), byte (0x09), short (0x0b), int (0x0c), float (0x0d), double (0x0e)"

struct header {
    struct tern_elements type;
    uint8_t type_number;
    uint32_t dims[MAX_DIMS];
    uint32_t dim_count;
};

static enum tern_result read_type(struct tern_input *input, uint8_t number,
                                  struct tern_elements *type)
{
    static const struct {
        uint8_t number;
        char kind;
        uint32_t width;
    } types[] = {{0x08, 'u', 1}, {0x09, 'i', 1}, {0x0B, 'i', 2},
                 {0x0C, 'i', 4}, {0x0D, 'f', 4}, {0x0E, 'f', 8}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].number == number) {
            *type = (struct tern_elements){
                .kind = types[i].kind, .width = types[i].width, .big_endian = true};
            return TERN_OK;
        }
    }
    return tern_input_refuse(input, TERN_ERR_CORRUPT,
                             "contains IDX values of type 0x%02x; supported are " TYPES_READ,
                             number);
}

// Reads the header: two zero bytes, the type, the number of dimensions, the dimensions.
static enum tern_result read_header(struct tern_input *input, struct header *header)
{
    uint8_t magic[4];
    memset(header, 0, sizeof *header);
    TERN_TRY(tern_input_read_exact(input, magic, sizeof magic, "the IDX header"));
    if (magic[0] != 0 || magic[1] != 0) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                 "is no IDX file: it begins with %02x %02x, not with 00 00",
                                 magic[0], magic[1]);
    }
    header->type_number = magic[2];
    TERN_TRY(read_type(input, magic[2], &header->type));
    if (magic[3] < 1 || magic[3] > MAX_DIMS) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                 "has %u IDX dimensions; images have 3 or 4, tables 2, labels 1",
                                 magic[3]);
    }
    header->dim_count = magic[3];
    for (uint32_t i = 0; i < header->dim_count; i++) {
        uint8_t b[4];
        TERN_TRY(tern_input_read_exact(input, b, sizeof b, "the IDX header"));
        header->dims[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    return TERN_OK;
}

// Checks that the header's examples of `features` values, each of `value_size` bytes in memory, are within the limits, and that
// the file is long enough for them.
static enum tern_result check_size(const struct tern_input *input,
                                   const struct tern_data_limits *limits,
                                   const struct header *header, uint64_t features,
                                   uint64_t value_size)
{
    const uint32_t count = header->dims[0];
    if (count > limits->max_examples) {
        return tern_input_refuse(input, TERN_ERR_TOO_LARGE, "has %u examples, over the limit of %u",
                                 count, limits->max_examples);
    }
    const unsigned long long bytes = count * features * value_size;
    if (bytes > limits->max_bytes) {
        return tern_input_refuse(input, TERN_ERR_TOO_LARGE,
                                 "unpacks to %llu bytes, over the limit of %llu", bytes,
                                 (unsigned long long)limits->max_bytes);
    }
    if (count * features * header->type.width > input->most) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                 "is too short for the %u examples in the header", count);
    }
    return TERN_OK;
}

// Sets the shape; a row of a table becomes an image of height 1.
static void set_shape(const struct header *header, struct tern_dataset *data)
{
    const uint32_t *dims = header->dims;
    data->count = dims[0];
    data->height = header->dim_count > 2 ? dims[1] : 1;
    data->width = header->dim_count > 2 ? dims[2] : dims[1];
    data->channels = header->dim_count > 3 ? dims[3] : 1;
}

enum tern_result tern_idx_read_shape(struct tern_input *input,
                                     const struct tern_data_limits *limits,
                                     struct tern_elements *type, struct tern_dataset *data)
{
    struct header header;
    TERN_TRY(read_header(input, &header));
    set_shape(&header, data);
    const uint32_t height = data->height;
    const uint32_t width = data->width;
    const uint32_t channels = data->channels;
    if (header.dim_count < 2 || data->count == 0 || height == 0 || width == 0 || channels == 0) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                 "contains no images: the header has %u dimensions, %u x %u x %u",
                                 header.dim_count, header.dims[0], header.dims[1], header.dims[2]);
    }
    // Each factor is checked before the multiplication, so that the product cannot overflow.
    const uint64_t most = limits->max_features;
    if (height > most || width > most / height || channels > most / height / width) {
        return tern_input_refuse(input, TERN_ERR_TOO_LARGE,
                                 "has images of %u x %u x %u, over the limit of %u values", height,
                                 width, channels, limits->max_features);
    }
    data->feature_count = height * width * channels;
    *type = header.type;
    return check_size(input, limits, &header, data->feature_count,
                      tern_elements_are_bytes(type) ? 1 : sizeof(float));
}

// --- Labels

static enum tern_result convert_label(const struct tern_input *input, uint32_t number, double label,
                                      uint16_t *class)
{
    if (label < 0 || label > UINT16_MAX) {
        return tern_input_refuse(
            input, TERN_ERR_CORRUPT,
            "example %u (from 0): the label %g is no class number from 0 to %u", number, label,
            UINT16_MAX);
    }
    *class = (uint16_t)label;
    return TERN_OK;
}

// Reads `count` labels in blocks.
static enum tern_result fill_labels(struct tern_input *input, const struct tern_elements *type,
                                    uint16_t *labels, uint32_t count, uint32_t *class_count)
{
    double block[512];
    const uint32_t most = sizeof block / sizeof block[0];
    for (uint32_t done = 0; done < count;) {
        const uint32_t part = count - done < most ? count - done : most;
        const struct tern_elements_range range = {"the labels", done, part, 1};
        TERN_TRY(tern_elements_read_doubles(input, type, &range, block));
        for (uint32_t i = 0; i < part; i++) {
            uint16_t *label = &labels[done + i];
            TERN_TRY(convert_label(input, done + i, block[i], label));
            *class_count = *label >= *class_count ? *label + 1u : *class_count;
        }
        done += part;
    }
    return tern_input_expect_end(input);
}

static enum tern_result check_labels(const struct tern_input *input,
                                     const struct tern_data_limits *limits,
                                     const struct header *header, uint32_t images)
{
    if (header->dim_count != 1) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                 "contains no labels: the header has %u dimensions, not 1",
                                 header->dim_count);
    }
    if (header->type.kind == 'f') {
        return tern_input_refuse(
            input, TERN_ERR_CORRUPT,
            "contains labels of type 0x%02x; labels are whole numbers: unsigned "
            "byte (0x08), byte (0x09), short (0x0b) or int (0x0c)",
            header->type_number);
    }
    if (header->dims[0] != images) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT, "contains %u labels for %u images",
                                 header->dims[0], images);
    }
    return check_size(input, limits, header, 1, 1);
}

enum tern_result tern_idx_read_labels(struct tern_input *input,
                                      const struct tern_data_limits *limits,
                                      struct tern_dataset *data)
{
    struct header header;
    TERN_TRY(read_header(input, &header));
    TERN_TRY(check_labels(input, limits, &header, data->count));
    uint16_t *labels = malloc(data->count * sizeof *labels);
    if (labels == NULL) {
        return tern_input_refuse(input, TERN_ERR_NO_MEMORY, "needs memory for %u labels",
                                 data->count);
    }
    uint32_t class_count = data->class_count;
    enum tern_result result = fill_labels(input, &header.type, labels, data->count, &class_count);
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

// --- Images

// The destination of images: either bytes or values is set.
struct images {
    const struct tern_elements *type;
    uint32_t features; // values of an image
    uint8_t *bytes;
    float *values;
};

// Reads the images first..first+count of the file, which come next in input, into the destination from index `place` on.
static enum tern_result read_run(struct tern_input *input, const struct images *images,
                                 uint32_t first, uint32_t count, uint32_t place)
{
    const size_t features = images->features;
    if (images->bytes != NULL) {
        return tern_input_read_exact(input, images->bytes + place * features, count * features,
                                     "the images");
    }
    const struct tern_elements_range range = {
        .what = "the images",
        .first = (uint64_t)first * features,
        .count = (uint64_t)count * features,
        .row = features,
    };
    return tern_elements_read_floats(input, images->type, &range,
                                     images->values + place * features);
}

#define NOT_SELECTED UINT32_MAX // the place of an image that is not stored

// Reads all `total` images of the file. places[i] is the destination index of image i; an image with NOT_SELECTED is only
// checked.
static enum tern_result read_places(struct tern_input *input, uint32_t total,
                                    const uint32_t *places, const struct images *images)
{
    const uint64_t features = images->features;
    for (uint32_t i = 0; i < total; i++) {
        const struct tern_elements_range image = {"the images", i * features, features, features};
        TERN_TRY(places[i] == NOT_SELECTED
                     ? tern_elements_read_floats(input, images->type, &image, NULL)
                     : read_run(input, images, i, 1, places[i]));
    }
    return TERN_OK;
}

static enum tern_result read_selected(struct tern_input *input, uint32_t total,
                                      const uint32_t *selected, uint32_t count,
                                      const struct images *images)
{
    uint32_t *places = malloc(total * sizeof *places);
    if (places == NULL) {
        return tern_input_refuse(input, TERN_ERR_NO_MEMORY, "needs memory for %u numbers", total);
    }
    memset(places, 0xff, total * sizeof *places); // NOT_SELECTED
    for (uint32_t i = 0; i < count; i++) {
        places[selected[i]] = i;
    }
    enum tern_result result = read_places(input, total, places, images);
    free(places);
    return result;
}

enum tern_result tern_idx_read_images(struct tern_input *input, const struct tern_elements *type,
                                      const struct tern_scaling *scaling, uint32_t total,
                                      const uint32_t *selected, struct tern_dataset *data)
{
    const bool bytes = tern_elements_are_bytes(type);
    size_t size = bytes ? 1 : sizeof(float);
    const bool over = __builtin_mul_overflow(size, (size_t)data->count, &size) ||
                      __builtin_mul_overflow(size, (size_t)data->feature_count, &size);
    void *memory = over ? NULL : malloc(size);
    if (memory == NULL) {
        return tern_input_refuse(input, TERN_ERR_NO_MEMORY, "needs memory for %u images",
                                 data->count);
    }
    const struct images images = {.type = type,
                                  .features = data->feature_count,
                                  .bytes = bytes ? memory : NULL,
                                  .values = bytes ? NULL : memory};
    enum tern_result result = selected != NULL
                                  ? read_selected(input, total, selected, data->count, &images)
                                  : read_run(input, &images, 0, total, 0);
    if (result == TERN_OK) {
        result = tern_input_expect_end(input);
    }
    if (result != TERN_OK) {
        free(memory);
        return result;
    }
    if (images.values != NULL) {
        tern_scale_numbers(scaling, images.values, size / sizeof(float));
    }
    data->bytes = images.bytes;
    data->values = images.values;
    return TERN_OK;
}

// --- The reader

#define PATH_SIZE (TERN_DATA_SPEC_MAX + 64)

struct source {
    const struct tern_data_spec *spec;
    const struct tern_data_limits *limits;
    struct tern_scaling scaling;
};

// Words in the names of accepted files. The dimensions and the type are those of the file's header, whatever its name says.
static const char *const image_names[] = {"idx3", "idx4", "idx2", NULL};
static const char *const label_names[] = {"idx1", NULL};
static const char *const type_names[] = {"ubyte", "float", "double", "byte", "short", "int", NULL};

// Opens FOLDER/NAME or, if it does not exist, FOLDER/NAME.gz.
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

// Opens the first file that exists of those named WHAT-DIMS-TYPE, with one of dims and one of type_names. what: e.g.
// "train-images".
static enum tern_result open_kind(struct tern_input *input, const struct tern_data_spec *spec,
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
    return tern_input_refuse(
        input, TERN_ERR_NOT_FOUND,
        "contains neither %s-%s-ubyte nor %s-%s-ubyte.gz, and none that ends in "
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
    TERN_TRY(open_kind(&input, source->spec, what, label_names, path));
    enum tern_result result = tern_idx_read_labels(&input, source->limits, data);
    tern_input_close(&input);
    return result;
}

static enum tern_result open_images(struct tern_input *images, const struct tern_data_spec *spec,
                                    const char *prefix, char path[PATH_SIZE])
{
    char what[32];
    snprintf(what, sizeof what, "%s-images", prefix);
    return open_kind(images, spec, what, image_names, path);
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

// Reads the shard's images. Which images these are depends on the labels, so the labels are read between the header and the
// values of the images' file.
static enum tern_result read_shard_images(const struct source *source, struct tern_input *images,
                                          struct tern_partition *partition,
                                          struct tern_dataset *data)
{
    struct tern_view shard;
    struct tern_elements type;
    TERN_TRY(tern_idx_read_shape(images, source->limits, &type, data));
    TERN_TRY(read_labels(source, "train", data));
    const uint32_t total = data->count;
    TERN_TRY(tern_shard_choose(source->spec, data, partition, &shard));
    TERN_TRY(tern_shard_keep(source->spec, &shard, data));
    return tern_idx_read_images(images, &type, &source->scaling, total, shard.indices, data);
}

static enum tern_result read_shard(const struct source *source, struct tern_dataset *data)
{
    char path[PATH_SIZE];
    struct tern_input images;
    struct tern_partition partition = {0};
    TERN_TRY(open_images(&images, source->spec, "train", path));
    enum tern_result result = read_shard_images(source, &images, &partition, data);
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
        return tern_spec_refuse(source->spec, TERN_ERR_CORRUPT,
                                "training images are %s, test images %s: both must be of one kind",
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
