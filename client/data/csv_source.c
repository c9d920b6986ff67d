// A table as a kind of data: "csv:FILE,label=NAME,test=0.2,seed=1,scale=standard".
#include "data/random.h"
#include "data/readers.h"
#include "data/table.h"
#include "util/sqrt.h"
#include <stdlib.h>
#include <string.h>

struct csv_options {
    struct tern_table_config table;
    float test;
    uint64_t seed;
    bool standard;
};

static enum tern_result read_options(struct tern_data_spec *spec, struct csv_options *options)
{
    options->table.label = tern_spec_option(spec, "label");
    options->table.drop = tern_spec_option(spec, "drop");
    options->table.classes = tern_spec_option(spec, "classes");
    TERN_TRY(tern_spec_fraction(spec, "test", 0.0f, 0.9f, &options->test));
    TERN_TRY(tern_spec_number(spec, "seed", 0, UINT64_MAX, &options->seed));
    const char *scale = tern_spec_option(spec, "scale");
    options->standard = scale != NULL && strcmp(scale, "standard") == 0;
    if (scale != NULL && !options->standard && strcmp(scale, "none") != 0) {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG, "scale is none or standard, not '%.40s'",
                                scale);
    }
    return tern_spec_done(spec, "label, drop, classes, test, seed, scale");
}

static void swap_rows(struct tern_table *table, uint32_t a, uint32_t b)
{
    float *x = table->values + (size_t)a * table->features;
    float *y = table->values + (size_t)b * table->features;
    for (uint32_t i = 0; i < table->features; i++) {
        float kept = x[i];
        x[i] = y[i];
        y[i] = kept;
    }
    uint16_t label = table->labels[a];
    table->labels[a] = table->labels[b];
    table->labels[b] = label;
}

static void shuffle(struct tern_table *table, uint64_t seed)
{
    struct tern_prng rng;
    tern_prng_init(&rng, seed, TERN_PRNG_DATA, TERN_DATA_SPLIT, 0);
    for (uint32_t i = table->rows; i > 1; i--) {
        swap_rows(table, i - 1, tern_prng_below(&rng, i));
    }
}

// Brings one column to mean 0 and variance 1 over the first `train` rows; a constant one to 0.
static void standardise(struct tern_table *table, uint32_t column, uint32_t train)
{
    size_t step = table->features;
    float *values = table->values + column;
    double mean = 0.0;
    double variance = 0.0;
    for (uint32_t i = 0; i < train; i++) {
        mean += (double)values[i * step];
    }
    mean /= (double)train;
    for (uint32_t i = 0; i < train; i++) {
        double off = (double)values[i * step] - mean;
        variance += off * off;
    }
    double deviation = tern_sqrt(variance / (double)train);
    deviation = deviation > 0.0 ? deviation : 1.0;
    for (uint32_t i = 0; i < table->rows; i++) {
        values[i * step] = (float)(((double)values[i * step] - mean) / deviation);
    }
}

static void fill(const struct tern_table *table, struct tern_dataset *data, uint32_t count)
{
    data->count = count;
    data->feature_count = table->features;
    data->class_count = table->classes;
    data->height = 1;
    data->width = table->features;
    data->channels = 1;
}

// The last rows become the test part, in memory of their own; train takes over the table's.
static enum tern_result split(const struct tern_data_spec *spec, struct tern_table *table,
                              uint32_t test, struct tern_data *data)
{
    uint32_t train = table->rows - test;
    size_t row = table->features;
    data->train.values = table->values;
    data->train.labels = table->labels;
    fill(table, &data->train, train);
    fill(table, &data->test, test);
    if (test == 0 || row == 0) {
        return TERN_OK;
    }
    float *values = malloc(test * row * sizeof *values);
    uint16_t *labels = malloc(test * sizeof *labels);
    data->test.values = values;
    data->test.labels = labels;
    if (values == NULL || labels == NULL) {
        return tern_spec_refuse(spec, TERN_ERR_NO_MEMORY, "no memory for its test rows");
    }
    memcpy(values, table->values + train * row, test * row * sizeof *values);
    memcpy(labels, table->labels + train, test * sizeof *labels);
    return TERN_OK;
}

enum tern_result tern_read_csv(struct tern_data_spec *spec, const struct tern_data_limits *limits,
                               struct tern_data *data)
{
    struct csv_options options = {.test = 0.2f, .seed = 1};
    struct tern_table table;
    struct tern_input input;
    TERN_TRY(read_options(spec, &options));
    TERN_TRY(tern_input_open(&input, spec->path, limits->max_bytes, spec->why));
    enum tern_result result = tern_csv_table_read(&input, &options.table, limits, &table);
    tern_input_close(&input);
    TERN_TRY(result);
    uint32_t test = (uint32_t)((double)table.rows * (double)options.test + 0.5);
    test = test < table.rows ? test : table.rows - 1;
    shuffle(&table, options.seed);
    for (uint32_t c = 0; options.standard && c < table.features; c++) {
        standardise(&table, c, table.rows - test);
    }
    return split(spec, &table, test, data);
}
