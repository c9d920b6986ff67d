// A table as a kind of data: "csv:FILE,label=NAME,group=NAME,test=0.2,seed=1,scale=standard".
#include "data/scaling_file.h"
#include "data/split.h"
#include "data/table.h"
#include "hosted/csv_choice.h"
#include "wire/wire.h"
#include <stdlib.h>
#include <string.h>

struct csv_options {
    struct tern_table_config table;
    struct tern_split_options split;
    const char *test_file;
};

// The tables as they are read. The test table has no rows where there is no test file.
struct tables {
    struct tern_table train;
    struct tern_table test;
    struct tern_name_set *groups;
};

static enum tern_result read_options(struct tern_data_spec *spec, struct csv_options *options)
{
    TERN_TRY(tern_csv_choose(spec, &options->table.choice));
    options->table.choice.features_only = spec->part->whole;
    if (spec->part->whole && options->table.choice.missing == TERN_CSV_MISSING_SKIP) {
        options->table.choice.missing = TERN_CSV_MISSING_MEAN; // new data keeps all its rows
    }
    options->table.choice.trained = spec->part->trained;
    options->test_file = tern_spec_option(spec, "test_file");
    TERN_TRY(tern_split_read(spec, options->test_file, &options->split));
    if (options->split.only != NULL && options->table.choice.group == NULL) {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG,
                                "only=%.40s picks a value of the group's column: add group=COLUMN",
                                options->split.only);
    }
    return TERN_OK; // tern_csv_choose() refuses unknown options
}

static enum tern_result read_table(const struct tern_data_spec *spec, const char *path,
                                   const struct tern_table_config *config,
                                   const struct tern_data_limits *limits, struct tern_table *table)
{
    struct tern_input input;
    TERN_TRY(tern_input_open(&input, path, limits->max_bytes, spec->why));
    const enum tern_result result = tern_csv_table_read(&input, config, limits, table);
    tern_input_close(&input);
    return result;
}

// Columns in another order would be learnt from one and asked of another.
static enum tern_result compare_columns(const struct tern_data_spec *spec, const char *test_file,
                                        const struct tern_table *train,
                                        const struct tern_table *test)
{
    if (train->rows.features != test->rows.features) {
        return tern_spec_refuse(spec, TERN_ERR_CORRUPT,
                                "test_file %.80s has %u features, the training file %u", test_file,
                                test->rows.features, train->rows.features);
    }
    const char *ours = train->names;
    const char *theirs = test->names;
    for (uint32_t i = 0; ours != NULL && theirs != NULL && i < train->rows.features; i++) {
        if (strcmp(ours, theirs) != 0) {
            return tern_spec_refuse(spec, TERN_ERR_CORRUPT,
                                    "feature %u of test_file %.60s is '%.30s', that of the "
                                    "training file '%.30s'",
                                    i + 1, test_file, theirs, ours);
        }
        ours += strlen(ours) + 1;
        theirs += strlen(theirs) + 1;
    }
    return TERN_OK;
}

static enum tern_result read_test(const struct tern_data_spec *spec,
                                  const struct tern_data_limits *limits,
                                  const struct csv_options *options, struct tables *tables)
{
    // Who does not evaluate need not have the file.
    if (options->test_file == NULL || !spec->part->test || spec->part->whole) {
        return TERN_OK;
    }
    TERN_TRY(read_table(spec, options->test_file, &options->table, limits, &tables->test));
    return compare_columns(spec, options->test_file, &tables->train, &tables->test);
}

static enum tern_result keep_only(const struct tern_data_spec *spec,
                                  const struct csv_options *options, struct tables *tables)
{
    uint32_t group;
    if (options->split.only == NULL || spec->part->whole) {
        return TERN_OK;
    }
    if (tern_name_set_find(tables->groups, options->split.only, false, &group) != TERN_OK) {
        return tern_spec_refuse(spec, TERN_ERR_NOT_FOUND, "no row has '%.40s' in column '%.40s'",
                                options->split.only, options->table.choice.group);
    }
    tern_rows_keep_group(&tables->train.rows, group);
    return TERN_OK;
}

// Fills what is missing by the training rows' means, which are 0 of values that are scaled.
static enum tern_result fill_missing(const struct tern_data_spec *spec,
                                     const struct tern_split_options *split, struct tables *tables)
{
    if (tables->train.missing + tables->test.missing == 0) {
        return TERN_OK;
    }
    struct tern_rows *train = &tables->train.rows;
    double *means = calloc(train->features, sizeof *means);
    enum tern_result result = TERN_ERR_NO_MEMORY;
    if (means != NULL) {
        if (!tern_split_scales(split)) {
            tern_rows_means(train, means);
        }
        result = tern_rows_fill(train, means);
        result = result == TERN_OK ? tern_rows_fill(&tables->test.rows, means) : result;
    }
    free(means);
    return result == TERN_OK
               ? TERN_OK
               : tern_spec_refuse(spec, result, "no memory to fill its missing values");
}

static enum tern_result make_parts(const struct tern_data_spec *spec,
                                   const struct tern_data_limits *limits,
                                   const struct csv_options *options, struct tables *tables,
                                   struct tern_data *data)
{
    TERN_TRY(read_table(spec, spec->path, &options->table, limits, &tables->train));
    // Before test_file brings in groups of its own.
    TERN_TRY(keep_only(spec, options, tables));
    TERN_TRY(read_test(spec, limits, options, tables));
    TERN_TRY(tern_split_rows(spec, &options->split, &tables->train.rows, &tables->test.rows));
    if (options->split.scaling != NULL) {
        TERN_TRY(tern_scaling_file_apply(spec, options->split.scaling, tables->train.names,
                                         options->table.choice.numeric ? options->table.choice.label
                                                                       : NULL,
                                         &tables->train.rows, &tables->test.rows));
    }
    TERN_TRY(fill_missing(spec, &options->split, tables));
    data->unlabelled = tables->train.unlabelled;
    data->labelled = tables->train.labelled;
    tables->train.labelled = NULL;
    data->notes = tables->train.notes;
    tables->train.notes = NULL;
    data->scaled = tern_split_scales(&options->split);
    data->column_names = tern_column_names_tag(tables->train.names, tables->train.names_len);
    const uint32_t features = tables->train.rows.features;
    tern_rows_give(&tables->train.rows, 1, features, 1, &data->train);
    tern_rows_give(&tables->test.rows, 1, features, 1, &data->test);
    data->classes = tables->train.classes;
    tables->train.classes = (struct tern_name_set){0};
    data->train.group_count = tables->groups->count;
    data->test.group_count = tables->groups->count;
    return TERN_OK;
}

enum tern_result tern_read_csv(struct tern_data_spec *spec, const struct tern_data_limits *limits,
                               struct tern_data *data)
{
    struct csv_options options = {0};
    struct tables tables = {.groups = &data->groups};
    TERN_TRY(read_options(spec, &options));
    tern_name_set_init(&data->groups, limits->max_examples);
    options.table.groups = &data->groups;
    const enum tern_result result = make_parts(spec, limits, &options, &tables, data);
    tern_table_free(&tables.train);
    tern_table_free(&tables.test);
    return result;
}
