// NumPy arrays as kinds of data: "npz:FILE,x=NAME,y=NAME,group=NAME" and "npy:FOLDER,...", whose
// files are called as the members of the archive. NAME_train and NAME_test are the parts; where
// there is only NAME, a share of it becomes the test part.
#include "data/npy.h"
#include "data/split.h"
#include "data/zip.h"
#include "hosted/name_set.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_SIZE (TERN_DATA_SPEC_MAX + 128)
#define LARGEST_GROUP 9007199254740992.0 // 2^53: whole numbers above it are not told apart

struct options {
    const char *x;
    const char *y; // of labels, or of targets
    bool targets;
    const char *group;
    bool needs_group;
    struct tern_split_options split;
};

// What all arrays of a data set are read with.
struct arrays {
    const struct tern_data_spec *spec;
    const struct tern_data_limits *limits;
    FILE *archive; // NULL: a folder
    struct options options;
    struct tern_name_set *groups;
    struct tern_scaling scaling;
    bool unlabelled; // labels are missing
};

// An array that is open.
struct array {
    char path[PATH_SIZE];
    struct tern_input input;
    struct tern_zip_member *member; // of an archive
    struct tern_npy npy;
};

static void close_array(struct array *array)
{
    if (array->member != NULL) {
        tern_zip_close(array->member);
        free(array->member);
        array->member = NULL;
    }
    tern_input_close(&array->input);
}

static enum tern_result open_member(const struct arrays *arrays, const char *file,
                                    struct array *array)
{
    array->member = malloc(sizeof *array->member);
    if (array->member == NULL) {
        return tern_spec_refuse(arrays->spec, TERN_ERR_NO_MEMORY, "no memory to read it");
    }
    const enum tern_result result =
        tern_zip_open(array->member, arrays->archive, file, &array->input, array->path, UINT64_MAX,
                      arrays->spec->why);
    if (result != TERN_OK) {
        free(array->member);
        array->member = NULL;
    }
    return result;
}

// Opens NAME + suffix and reads its header. TERN_ERR_NOT_FOUND: there is none; why is not to be
// relied on.
static enum tern_result open_array(const struct arrays *arrays, const char *name,
                                   const char *suffix, struct array *array)
{
    char file[PATH_SIZE];
    memset(array, 0, sizeof *array);
    snprintf(file, sizeof file, "%s%s.npy", name, suffix);
    snprintf(array->path, sizeof array->path, "%.900s/%.200s", arrays->spec->path, file);
    TERN_TRY(arrays->archive != NULL
                 ? open_member(arrays, file, array)
                 : tern_input_open(&array->input, array->path, UINT64_MAX, arrays->spec->why));
    const enum tern_result result =
        tern_npy_read_header(&array->input, arrays->limits, &array->npy);
    if (result != TERN_OK) {
        close_array(array);
    }
    return result;
}

// As open_array(), but that there is none is an error that is told.
static enum tern_result open_needed(const struct arrays *arrays, const char *name,
                                    const char *suffix, struct array *array)
{
    const enum tern_result result = open_array(arrays, name, suffix, array);
    return result == TERN_ERR_NOT_FOUND
               ? tern_spec_refuse(arrays->spec, result, "holds no array '%.60s%s'", name, suffix)
               : result;
}

// --- Features

static enum tern_result check_features(const struct arrays *arrays, const struct array *array,
                                       struct tern_dataset *shape)
{
    const struct tern_npy *npy = &array->npy;
    if (npy->dim_count < 2) {
        return tern_input_refuse(&array->input, TERN_ERR_CORRUPT,
                                 "has 1 dimension; features have 2 (examples, features), 3 or 4 "
                                 "(examples, height, width, channels)");
    }
    const uint64_t features = npy->count / npy->dims[0];
    if (npy->dims[0] > arrays->limits->max_examples || features > arrays->limits->max_features) {
        return tern_input_refuse(&array->input, TERN_ERR_TOO_LARGE,
                                 "has %u examples of %llu features; the limits are %u and %u",
                                 npy->dims[0], (unsigned long long)features,
                                 arrays->limits->max_examples, arrays->limits->max_features);
    }
    shape->count = npy->dims[0];
    shape->height = npy->dim_count > 2 ? npy->dims[1] : 1;
    shape->width = npy->dim_count > 2 ? npy->dims[2] : npy->dims[1];
    shape->channels = npy->dim_count > 3 ? npy->dims[3] : 1;
    shape->feature_count = (uint32_t)features;
    return TERN_OK;
}

static enum tern_result read_values(const struct arrays *arrays, struct array *array,
                                    struct tern_rows *rows)
{
    const size_t count = (size_t)array->npy.count;
    if (tern_elements_are_bytes(&array->npy.type)) {
        rows->bytes = malloc(count);
    } else {
        rows->values = malloc(count * sizeof *rows->values);
    }
    if (rows->bytes == NULL && rows->values == NULL) {
        return tern_input_refuse(&array->input, TERN_ERR_NO_MEMORY, "needs memory for %zu numbers",
                                 count);
    }
    if (rows->bytes != NULL) {
        return tern_npy_read_bytes(&array->input, &array->npy, rows->bytes);
    }
    TERN_TRY(tern_npy_read_floats(&array->input, &array->npy, rows->values));
    tern_scale_numbers(&arrays->scaling, rows->values, count);
    return TERN_OK;
}

static enum tern_result read_features(const struct arrays *arrays, struct array *array,
                                      struct tern_dataset *shape, struct tern_rows *rows)
{
    TERN_TRY(check_features(arrays, array, shape));
    rows->features = shape->feature_count;
    return read_values(arrays, array, rows);
}

// --- Labels and groups

// Reads one number for each of `count` examples into malloc'ed *numbers.
static enum tern_result read_numbers(struct array *array, uint32_t count, double **numbers)
{
    const struct tern_npy *npy = &array->npy;
    if (npy->count != npy->dims[0] || npy->dims[0] != count) {
        return tern_input_refuse(&array->input, TERN_ERR_CORRUPT,
                                 "holds %llu numbers in %u rows for %u examples; it needs one for "
                                 "each",
                                 (unsigned long long)npy->count, npy->dims[0], count);
    }
    *numbers = malloc(count * sizeof **numbers);
    if (*numbers == NULL) {
        return tern_input_refuse(&array->input, TERN_ERR_NO_MEMORY, "needs memory for %u numbers",
                                 count);
    }
    return tern_npy_read_doubles(&array->input, npy, *numbers);
}

static bool is_whole(double x)
{
    return x >= -LARGEST_GROUP && x <= LARGEST_GROUP && (double)(int64_t)x == x;
}

static enum tern_result take_labels(const struct arrays *arrays, const struct array *array,
                                    const double *numbers, uint32_t count, struct tern_rows *rows)
{
    const uint32_t most = arrays->limits->max_classes;
    rows->labels = malloc(count * sizeof *rows->labels);
    if (rows->labels == NULL) {
        return tern_input_refuse(&array->input, TERN_ERR_NO_MEMORY, "needs memory for %u labels",
                                 count);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!is_whole(numbers[i]) || numbers[i] < 0.0 || numbers[i] >= (double)most) {
            return tern_input_refuse(&array->input, TERN_ERR_CORRUPT,
                                     "row %u (from 0): the label %g is no class number from 0 to "
                                     "%u",
                                     i, numbers[i], most - 1);
        }
        rows->labels[i] = (uint16_t)numbers[i];
        rows->classes = rows->labels[i] >= rows->classes ? rows->labels[i] + 1u : rows->classes;
    }
    return TERN_OK;
}

static enum tern_result take_groups(struct arrays *arrays, const struct array *array,
                                    const double *numbers, uint32_t count, struct tern_rows *rows)
{
    rows->groups = malloc(count * sizeof *rows->groups);
    if (rows->groups == NULL) {
        return tern_input_refuse(&array->input, TERN_ERR_NO_MEMORY, "needs memory for %u groups",
                                 count);
    }
    for (uint32_t i = 0; i < count; i++) {
        char name[32];
        if (!is_whole(numbers[i])) {
            return tern_input_refuse(&array->input, TERN_ERR_CORRUPT,
                                     "row %u (from 0): the group %g is no whole number", i,
                                     numbers[i]);
        }
        snprintf(name, sizeof name, "%lld", (long long)numbers[i]);
        const enum tern_result result =
            tern_name_set_find(arrays->groups, name, true, &rows->groups[i]);
        if (result != TERN_OK) {
            return tern_input_refuse(&array->input, result, "row %u: group %s is one too many", i,
                                     name);
        }
    }
    return TERN_OK;
}

static enum tern_result take_targets(const struct array *array, const double *numbers,
                                     uint32_t count, struct tern_rows *rows)
{
    rows->labels = calloc(count, sizeof *rows->labels);
    rows->targets = malloc(count * sizeof *rows->targets);
    if (rows->labels == NULL || rows->targets == NULL) {
        return tern_input_refuse(&array->input, TERN_ERR_NO_MEMORY, "needs memory for %u targets",
                                 count);
    }
    rows->classes = 1;
    for (uint32_t i = 0; i < count; i++) {
        rows->targets[i] = (float)numbers[i];
        if (!isfinite(rows->targets[i])) {
            return tern_input_refuse(&array->input, TERN_ERR_CORRUPT,
                                     "row %u (from 0): the target %g is not a finite number in "
                                     "float32",
                                     i, numbers[i]);
        }
    }
    return TERN_OK;
}

static enum tern_result read_labels(const struct arrays *arrays, struct array *array,
                                    uint32_t count, struct tern_rows *rows)
{
    double *numbers = NULL;
    enum tern_result result = read_numbers(array, count, &numbers);
    if (result == TERN_OK) {
        result = arrays->options.targets ? take_targets(array, numbers, count, rows)
                                         : take_labels(arrays, array, numbers, count, rows);
    }
    free(numbers);
    return result;
}

static enum tern_result read_groups(struct arrays *arrays, struct array *array, uint32_t count,
                                    struct tern_rows *rows)
{
    double *numbers = NULL;
    enum tern_result result = read_numbers(array, count, &numbers);
    if (result == TERN_OK) {
        result = take_groups(arrays, array, numbers, count, rows);
    }
    free(numbers);
    return result;
}

// --- Parts

// Of new data they may be missing.
static enum tern_result read_or_make_labels(struct arrays *arrays, const char *suffix,
                                            uint32_t count, struct tern_rows *rows)
{
    struct array array;
    enum tern_result result = open_needed(arrays, arrays->options.y, suffix, &array);
    if (result == TERN_ERR_NOT_FOUND && arrays->spec->part->whole) {
        arrays->unlabelled = true;
        rows->labels = calloc(count, sizeof *rows->labels);
        rows->targets = arrays->options.targets ? calloc(count, sizeof *rows->targets) : NULL;
        return rows->labels != NULL && (rows->targets != NULL) == arrays->options.targets
                   ? TERN_OK
                   : tern_spec_refuse(arrays->spec, TERN_ERR_NO_MEMORY, "no memory for its labels");
    }
    TERN_TRY(result);
    result = read_labels(arrays, &array, count, rows);
    close_array(&array);
    return result;
}

static enum tern_result read_labels_and_groups(struct arrays *arrays, const char *suffix,
                                               uint32_t count, struct tern_rows *rows)
{
    struct array array;
    TERN_TRY(read_or_make_labels(arrays, suffix, count, rows));
    enum tern_result result = open_array(arrays, arrays->options.group, suffix, &array);
    if (result == TERN_ERR_NOT_FOUND && !arrays->options.needs_group) {
        return TERN_OK;
    }
    if (result == TERN_ERR_NOT_FOUND) {
        return tern_spec_refuse(arrays->spec, result, "holds no array '%.60s%s'",
                                arrays->options.group, suffix);
    }
    TERN_TRY(result);
    result = read_groups(arrays, &array, count, rows);
    close_array(&array);
    return result;
}

// x is open and closed here.
static enum tern_result read_part(struct arrays *arrays, struct array *x, const char *suffix,
                                  struct tern_dataset *shape, struct tern_rows *rows)
{
    const enum tern_result result = read_features(arrays, x, shape, rows);
    close_array(x);
    TERN_TRY(result);
    TERN_TRY(read_labels_and_groups(arrays, suffix, shape->count, rows));
    rows->count = shape->count;
    return TERN_OK;
}

static enum tern_result read_test(struct arrays *arrays, const struct tern_dataset *train_shape,
                                  const struct tern_rows *train, struct tern_rows *test)
{
    struct array x;
    struct tern_dataset shape = {0};
    const enum tern_result result = open_array(arrays, arrays->options.x, "_test", &x);
    if (result == TERN_ERR_NOT_FOUND) {
        return TERN_OK; // a share of the training part becomes it
    }
    TERN_TRY(result);
    TERN_TRY(read_part(arrays, &x, "_test", &shape, test));
    if (shape.height != train_shape->height || shape.width != train_shape->width ||
        shape.channels != train_shape->channels ||
        (train->bytes == NULL) != (test->bytes == NULL) ||
        (train->groups == NULL) != (test->groups == NULL)) {
        return tern_spec_refuse(arrays->spec, TERN_ERR_CORRUPT,
                                "training and test arrays differ in shape, in type, or in having "
                                "groups");
    }
    return TERN_OK;
}

static enum tern_result keep_only(struct arrays *arrays, struct tern_rows *train)
{
    const char *only = arrays->options.split.only;
    uint32_t group;
    if (only == NULL) {
        return TERN_OK;
    }
    if (train->groups == NULL ||
        tern_name_set_find(arrays->groups, only, false, &group) != TERN_OK) {
        return tern_spec_refuse(arrays->spec, TERN_ERR_NOT_FOUND,
                                "no example is of group '%.40s' in array '%.40s'", only,
                                arrays->options.group);
    }
    tern_rows_keep_group(train, group);
    return train->count > 0 ? TERN_OK
                            : tern_spec_refuse(arrays->spec, TERN_ERR_NOT_FOUND,
                                               "no training example is of group '%.40s'", only);
}

static enum tern_result read_parts(struct arrays *arrays, struct tern_dataset *shape,
                                   struct tern_rows *train, struct tern_rows *test)
{
    struct array x;
    const char *suffix = "_train";
    enum tern_result result = open_array(arrays, arrays->options.x, suffix, &x);
    if (result == TERN_ERR_NOT_FOUND) {
        suffix = "";
        result = open_array(arrays, arrays->options.x, suffix, &x);
    }
    if (result == TERN_ERR_NOT_FOUND) {
        return tern_spec_refuse(arrays->spec, result,
                                "holds neither an array '%.40s_train' nor '%.40s'; name it with "
                                "x=NAME",
                                arrays->options.x, arrays->options.x);
    }
    TERN_TRY(result);
    TERN_TRY(read_part(arrays, &x, suffix, shape, train));
    TERN_TRY(read_test(arrays, shape, train, test));
    TERN_TRY(keep_only(arrays, train));
    return tern_split_rows(arrays->spec, &arrays->options.split, train, test);
}

static enum tern_result make_data(struct arrays *arrays, struct tern_data *data)
{
    struct tern_dataset shape = {0};
    struct tern_rows train = {0};
    struct tern_rows test = {0};
    const enum tern_result result = read_parts(arrays, &shape, &train, &test);
    if (result == TERN_OK) {
        tern_rows_give(&train, shape.height, shape.width, shape.channels, &data->train);
        tern_rows_give(&test, shape.height, shape.width, shape.channels, &data->test);
        data->unlabelled = arrays->unlabelled;
        data->scaled = tern_split_scales(&arrays->options.split);
        data->train.group_count = arrays->groups->count;
        data->test.group_count = arrays->groups->count;
    }
    tern_rows_free(&train);
    tern_rows_free(&test);
    return result;
}

static enum tern_result read_options(struct tern_data_spec *spec, struct arrays *arrays,
                                     struct tern_data *data)
{
    struct options *options = &arrays->options;
    const char *x = tern_spec_option(spec, "x");
    const char *y = tern_spec_option(spec, "y");
    const char *target = tern_spec_option(spec, "target");
    const char *group = tern_spec_option(spec, "group");
    options->x = x != NULL ? x : "x";
    options->targets = target != NULL;
    if (options->targets && y != NULL) {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG,
                                "target names an array of numbers to be told, y one of classes: it "
                                "takes one of them");
    }
    options->y = options->targets ? target : y != NULL ? y : "y";
    options->group = group != NULL ? group : "group";
    options->needs_group = group != NULL;
    TERN_TRY(tern_split_read(spec, NULL, &options->split));
    if (options->split.scaling != NULL) {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG,
                                "scale is none or standard for arrays, not '%.40s'",
                                options->split.scaling);
    }
    TERN_TRY(tern_spec_scaling_of_numbers(spec, data, &arrays->scaling));
    return tern_spec_done(spec, "x, y, target, group, only, test, seed, scale, mean, std");
}

enum tern_result tern_read_npy(struct tern_data_spec *spec, const struct tern_data_limits *limits,
                               struct tern_data *data)
{
    struct arrays arrays = {.spec = spec, .limits = limits, .groups = &data->groups};
    TERN_TRY(read_options(spec, &arrays, data));
    tern_name_set_init(&data->groups, limits->max_examples);
    return make_data(&arrays, data);
}

enum tern_result tern_read_npz(struct tern_data_spec *spec, const struct tern_data_limits *limits,
                               struct tern_data *data)
{
    struct arrays arrays = {.spec = spec, .limits = limits, .groups = &data->groups};
    TERN_TRY(read_options(spec, &arrays, data));
    tern_name_set_init(&data->groups, limits->max_examples);
    arrays.archive = fopen(spec->path, "rb");
    if (arrays.archive == NULL) {
        const enum tern_result result = errno == ENOENT ? TERN_ERR_NOT_FOUND : TERN_ERR_IO;
        return tern_spec_refuse(spec, result, "cannot be opened: %s", strerror(errno));
    }
    const enum tern_result result = make_data(&arrays, data);
    fclose(arrays.archive);
    return result;
}
