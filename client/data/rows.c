#include "data/rows.h"
#include "data/random.h"
#include "hosted/csv.h"
#include "hosted/csv_text.h"
#include "util/math.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// --- The test rows

#define TEST_SHARE 0.2f

enum tern_result tern_split_read(struct tern_data_spec *spec, const char *test_file,
                                 struct tern_split_options *options)
{
    *options = (struct tern_split_options){.test = TEST_SHARE, .seed = 1};
    options->only = tern_spec_option(spec, "only");
    if (test_file != NULL && tern_spec_option(spec, "test") != NULL) {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG,
                                "takes test (a fraction of the rows) or a test file, not both");
    }
    TERN_TRY(tern_spec_fraction(spec, "test", 0.0f, 0.9f, &options->test));
    TERN_TRY(tern_spec_number(spec, "seed", 0, UINT64_MAX, &options->seed));
    options->test = test_file != NULL ? 0.0f : options->test;
    const char *scale = tern_spec_option(spec, "scale");
    options->standard = scale != NULL && strcmp(scale, "standard") == 0;
    if (options->standard && spec->part->new_rows) {
        return tern_spec_refuse(
            spec, TERN_ERR_CONFIG,
            "scale=standard uses the statistics of this file's rows, but new data "
            "needs those of the training data: scale=FILE");
    }
    options->scaling =
        scale != NULL && !options->standard && strcmp(scale, "none") != 0 ? scale : NULL;
    return TERN_OK;
}

enum tern_result tern_split_rows(const struct tern_data_spec *spec,
                                 const struct tern_split_options *options, struct tern_rows *train,
                                 struct tern_rows *test)
{
    if (!spec->part->new_rows) {
        tern_rows_shuffle(train, options->seed);
    }
    if (test->count == 0 && !spec->part->new_rows) {
        uint32_t test_count = (uint32_t)((double)train->count * (double)options->test + 0.5);
        test_count = test_count < train->count ? test_count : train->count - 1;
        if (tern_rows_split(train, test_count, test) != TERN_OK) {
            return tern_spec_refuse(spec, TERN_ERR_NO_MEMORY, "no memory for the test rows");
        }
    }
    const uint32_t classes = train->classes > test->classes ? train->classes : test->classes;
    train->classes = classes;
    test->classes = classes;
    if (options->standard) {
        tern_rows_standardise(train, test);
    }
    return TERN_OK;
}

// --- The scaling file

#define FIELDS 3
#define FILE_MAX (1ull << 28)
#define LEAVE_OUT                                                                                  \
    " (to drop a column, run `tern-aggregator init --data` with --drop again, since the model "    \
    "has "                                                                                         \
    "it, too)"

struct scaling {
    struct tern_csv csv;
    const char *name; // name of the feature whose line is read next; NULL: features have no names
    struct tern_rows *train;
    struct tern_rows *test;
    uint32_t feature; // index of the feature whose line is read next
    // name of the target's column, until its line has been read; NULL: no such line is expected
    const char *target;
};

static bool read_number(const struct tern_csv *csv, uint32_t field, double *value)
{
    return tern_csv_double(tern_csv_field(csv, field), value);
}

// Applies the last line, which is the target's. For a target that the spec names by its index, the line may have any name.
static enum tern_result take_target(struct scaling *scaling, double mean, double deviation)
{
    const struct tern_csv *csv = &scaling->csv;
    const char *name = tern_csv_field(csv, 0);
    const char *name_of_target = scaling->target;
    if (name_of_target[strspn(name_of_target, "-0123456789")] != '\0' &&
        strcmp(name_of_target, name) != 0) {
        return tern_input_refuse(
            csv->input, TERN_ERR_CORRUPT,
            "line %llu: column '%.40s', but the target '%.40s' must be in this line",
            (unsigned long long)csv->line, name, name_of_target);
    }
    scaling->target = NULL;
    tern_rows_scale_targets(scaling->train, mean, deviation);
    tern_rows_scale_targets(scaling->test, mean, deviation);
    return TERN_OK;
}

static enum tern_result read_row(struct scaling *scaling)
{
    const struct tern_csv *csv = &scaling->csv;
    double mean;
    double deviation;
    if (csv->field_count != FIELDS || !read_number(csv, 1, &mean) ||
        !read_number(csv, 2, &deviation) || !(deviation > 0)) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                 "line %llu is not a column's name, a mean and a deviation above 0",
                                 (unsigned long long)csv->line);
    }
    if (scaling->feature == scaling->train->features && scaling->target != NULL) {
        return take_target(scaling, mean, deviation);
    }
    if (scaling->feature == scaling->train->features) {
        return tern_input_refuse(
            csv->input, TERN_ERR_CORRUPT,
            "line %llu: column '%.40s' is one more than the %u of the table" LEAVE_OUT,
            (unsigned long long)csv->line, tern_csv_field(csv, 0), scaling->train->features);
    }
    if (scaling->name != NULL && strcmp(scaling->name, tern_csv_field(csv, 0)) != 0) {
        return tern_input_refuse(
            csv->input, TERN_ERR_CORRUPT,
            "line %llu: column '%.40s', where this client's data has '%.40s': every "
            "client needs the same columns in the same order" LEAVE_OUT,
            (unsigned long long)csv->line, tern_csv_field(csv, 0), scaling->name);
    }
    tern_rows_scale(scaling->train, scaling->feature, mean, deviation);
    tern_rows_scale(scaling->test, scaling->feature, mean, deviation);
    scaling->name = scaling->name != NULL ? scaling->name + strlen(scaling->name) + 1 : NULL;
    scaling->feature++;
    return TERN_OK;
}

static enum tern_result read_all(struct scaling *scaling)
{
    struct tern_csv *csv = &scaling->csv;
    bool more;
    TERN_TRY(tern_csv_next(csv, &more));
    if (!more || csv->field_count != FIELDS || strcmp(tern_csv_field(csv, 0), "column") != 0 ||
        strcmp(tern_csv_field(csv, 1), "mean") != 0 ||
        strcmp(tern_csv_field(csv, 2), "deviation") != 0) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                 "does not begin with the line column,mean,deviation");
    }
    TERN_TRY(tern_csv_next(csv, &more));
    while (more) {
        TERN_TRY(read_row(scaling));
        TERN_TRY(tern_csv_next(csv, &more));
    }
    if (scaling->feature == scaling->train->features && scaling->target != NULL) {
        return tern_input_refuse(
            csv->input, TERN_ERR_CORRUPT,
            "has no line for the target '%.40s' after the lines of the columns", scaling->target);
    }
    return scaling->feature == scaling->train->features
               ? TERN_OK
               : tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                   "has %u columns, and the table %u: '%.40s' is missing",
                                   scaling->feature, scaling->train->features,
                                   scaling->name != NULL ? scaling->name : "the last");
}

enum tern_result tern_scaling_file_apply(const struct tern_data_spec *spec, const char *path,
                                         const char *names, const char *target,
                                         struct tern_rows *train, struct tern_rows *test)
{
    struct tern_input input;
    if (tern_input_open(&input, path, FILE_MAX, spec->why) != TERN_OK) {
        return tern_spec_refuse(
            spec, TERN_ERR_CONFIG,
            "scale is none, standard, or the file of the columns' statistics "
            "(tern-aggregator init --data writes one); '%.60s' cannot be opened",
            path);
    }
    struct scaling *scaling = calloc(1, sizeof *scaling);
    enum tern_result result = TERN_ERR_NO_MEMORY;
    if (scaling != NULL) {
        scaling->name = names;
        scaling->target = target;
        scaling->train = train;
        scaling->test = test;
        tern_csv_begin(&scaling->csv, &input, FIELDS + 1);
        result = read_all(scaling);
        tern_csv_end(&scaling->csv);
        free(scaling);
    }
    tern_input_close(&input);
    return result;
}

// --- Rows in memory

void tern_rows_free(struct tern_rows *rows)
{
    free(rows->bytes);
    free(rows->values);
    free(rows->labels);
    free(rows->targets);
    free(rows->groups);
    free(rows->imputed);
    memset(rows, 0, sizeof *rows);
}

// One array of the rows.
struct row_array {
    uint8_t *first; // NULL: the rows have no such array
    size_t size;    // bytes of a row
};

#define ROW_ARRAYS 5

static void list_arrays(const struct tern_rows *rows, struct row_array arrays[ROW_ARRAYS])
{
    arrays[0] = (struct row_array){rows->bytes, rows->features};
    arrays[1] = (struct row_array){(uint8_t *)rows->values, rows->features * sizeof *rows->values};
    arrays[2] = (struct row_array){(uint8_t *)rows->labels, sizeof *rows->labels};
    arrays[3] = (struct row_array){(uint8_t *)rows->targets, sizeof *rows->targets};
    arrays[4] = (struct row_array){(uint8_t *)rows->groups, sizeof *rows->groups};
}

static void swap_bytes(uint8_t *x, uint8_t *y, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const uint8_t byte = x[i];
        x[i] = y[i];
        y[i] = byte;
    }
}

void tern_rows_shuffle(struct tern_rows *rows, uint64_t seed)
{
    struct tern_prng rng;
    struct row_array arrays[ROW_ARRAYS];
    list_arrays(rows, arrays);
    tern_prng_init(&rng, seed, TERN_PRNG_DATA, TERN_DATA_SPLIT, 0);
    for (uint32_t i = rows->count; i > 1; i--) {
        const size_t j = tern_prng_below(&rng, i);
        for (const struct row_array *a = arrays; a < arrays + ROW_ARRAYS; a++) {
            if (a->first != NULL) {
                swap_bytes(a->first + a->size * (i - 1), a->first + a->size * j, a->size);
            }
        }
    }
}

void tern_rows_keep_group(struct tern_rows *rows, uint32_t group)
{
    struct row_array arrays[ROW_ARRAYS];
    size_t kept = 0;
    list_arrays(rows, arrays);
    for (size_t i = 0; i < rows->count; i++) {
        if (rows->groups[i] != group) {
            continue;
        }
        for (const struct row_array *a = arrays; a < arrays + ROW_ARRAYS; a++) {
            if (a->first != NULL) {
                memmove(a->first + a->size * kept, a->first + a->size * i, a->size);
            }
        }
        kept++;
    }
    rows->count = (uint32_t)kept;
}

enum tern_result tern_rows_split(struct tern_rows *rows, uint32_t count, struct tern_rows *last)
{
    *last = (struct tern_rows){.features = rows->features, .classes = rows->classes};
    if (count == 0) {
        return TERN_OK;
    }
    const size_t first = rows->count - count;
    struct row_array arrays[ROW_ARRAYS];
    void *copies[ROW_ARRAYS];
    bool enough = true;
    list_arrays(rows, arrays);
    for (unsigned i = 0; i < ROW_ARRAYS; i++) {
        const struct row_array *array = &arrays[i];
        copies[i] = array->first != NULL ? malloc(array->size * count) : NULL;
        if (copies[i] != NULL) {
            memcpy(copies[i], array->first + array->size * first, array->size * count);
        }
        enough = enough && (copies[i] != NULL || array->first == NULL);
    }
    last->bytes = copies[0];
    last->values = copies[1];
    last->labels = copies[2];
    last->targets = copies[3];
    last->groups = copies[4];
    if (!enough) {
        tern_rows_free(last);
        return TERN_ERR_NO_MEMORY;
    }
    last->count = count;
    rows->count = (uint32_t)first;
    return TERN_OK;
}

void tern_rows_scale(struct tern_rows *rows, uint32_t column, double mean, double deviation)
{
    float *values = rows->values + column;
    for (uint32_t i = 0; i < rows->count; i++, values += rows->features) {
        *values = (float)(((double)*values - mean) / deviation);
    }
}

void tern_rows_scale_targets(struct tern_rows *rows, double mean, double deviation)
{
    for (uint32_t i = 0; i < rows->count; i++) {
        rows->targets[i] = (float)(((double)rows->targets[i] - mean) / deviation);
    }
    rows->target_mean = mean;
    rows->target_deviation = deviation;
}

struct statistics {
    double mean;
    double deviation; // 1 for a constant
};

// Returns the statistics of the values values[0], values[step], ..., `count` in number, except for missing ones.
static struct statistics measure(const float *values, size_t step, uint32_t count)
{
    double mean = 0.0;
    double variance = 0.0;
    uint32_t present = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!isnan(values[i * step])) {
            mean += (double)values[i * step];
            present++;
        }
    }
    mean = present > 0 ? mean / (double)present : 0.0;
    for (uint32_t i = 0; i < count; i++) {
        if (!isnan(values[i * step])) {
            const double difference = (double)values[i * step] - mean;
            variance += difference * difference;
        }
    }
    const double deviation = present > 0 ? tern_sqrt(variance / (double)present) : 0.0;
    return (struct statistics){mean, deviation > 0.0 ? deviation : 1.0};
}

void tern_rows_means(const struct tern_rows *rows, double *means)
{
    for (uint32_t c = 0; c < rows->features; c++) {
        means[c] = measure(rows->values + c, rows->features, rows->count).mean;
    }
}

enum tern_result tern_rows_impute(struct tern_rows *rows, const double *values)
{
    const size_t width = ((size_t)rows->features + 7) / 8;
    if (rows->count == 0) {
        return TERN_OK;
    }
    uint8_t *imputed = calloc(rows->count, width);
    if (imputed == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < rows->count; i++) {
        float *row = rows->values + (size_t)i * rows->features;
        for (uint32_t c = 0; c < rows->features; c++) {
            if (isnan(row[c])) {
                row[c] = (float)values[c];
                imputed[i * width + c / 8] |= (uint8_t)(1u << c % 8);
            }
        }
    }
    rows->imputed = imputed;
    return TERN_OK;
}

void tern_rows_standardise(struct tern_rows *train, struct tern_rows *test)
{
    for (uint32_t c = 0; train->values != NULL && c < train->features; c++) {
        const struct statistics found = measure(train->values + c, train->features, train->count);
        tern_rows_scale(train, c, found.mean, found.deviation);
        tern_rows_scale(test, c, found.mean, found.deviation);
    }
    if (train->targets != NULL) {
        const struct statistics found = measure(train->targets, 1, train->count);
        tern_rows_scale_targets(train, found.mean, found.deviation);
        tern_rows_scale_targets(test, found.mean, found.deviation);
    }
}

void tern_rows_move_to_dataset(struct tern_rows *rows, uint32_t height, uint32_t width,
                               uint32_t channels, struct tern_dataset *data)
{
    data->count = rows->count;
    data->feature_count = rows->features;
    data->class_count = rows->classes;
    data->height = height;
    data->width = width;
    data->channels = channels;
    data->bytes = rows->bytes;
    data->values = rows->values;
    data->labels = rows->labels;
    data->groups = rows->groups;
    data->imputed = rows->imputed;
    data->targets = rows->targets;
    data->target_mean = (float)rows->target_mean;
    data->target_deviation = rows->target_deviation > 0 ? (float)rows->target_deviation : 1.0f;
    memset(rows, 0, sizeof *rows);
}
