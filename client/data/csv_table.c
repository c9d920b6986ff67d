// Reads tables: "csv:FILE,label=NAME,group=NAME,test=0.2,seed=1,scale=standard".
#include "data/csv_table.h"
#include "data/readers.h"
#include "data/rows.h"
#include "hosted/csv_judge.h"
#include "hosted/csv_text.h"
#include "hosted/data_spec.h"
#include "wire/wire.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Reading a table

#define FIRST_ROWS 256  // rows of the first allocation
#define NAMED 5         // a note names at most so many columns
#define NAMED_BYTES 240 // bytes of their names in the note

struct reading {
    struct tern_csv csv;
    const struct tern_data_limits *limits;
    struct tern_table *table;
    const struct tern_csv_choice *choice;
    struct tern_csv_profile profile;
    const struct tern_csv_columns *columns; // the profile's
    enum tern_result problem; // the first problem that the judging found; TERN_OK: none
    uint32_t labelled;        // rows with a label or target
    uint32_t room;            // number of rows for which the table's arrays have memory
    bool closed;              // choice->classes is set: other labels are refused
    bool numbers;             // the table has targets, not labels
};

void tern_table_free(struct tern_table *table)
{
    tern_rows_free(&table->rows);
    tern_name_set_free(&table->classes);
    free(table->names);
    free(table->labelled);
    free(table->target);
    free(table->notes);
    memset(table, 0, sizeof *table);
}

static void add_name(struct tern_table *table, const char *name)
{
    memcpy(table->names + table->names_len, name, strlen(name) + 1);
    table->names_len += strlen(name) + 1;
}

static enum tern_result keep_names(struct reading *reading)
{
    struct tern_table *table = reading->table;
    const struct tern_csv_profile *profile = &reading->profile;
    table->names = malloc(profile->first_len);
    if (table->names == NULL) {
        return tern_input_refuse(reading->csv.input, TERN_ERR_NO_MEMORY,
                                 "no memory for the names of the columns");
    }
    for (uint32_t c = 0; c < reading->columns->count; c++) {
        if (profile->column[c].feature && reading->columns->place == NULL) {
            add_name(table, profile->column[c].name);
        }
    }
    for (uint32_t f = 0; reading->columns->place != NULL && f < reading->columns->features; f++) {
        add_name(table, reading->choice->trained->features.names[f]);
    }
    if (reading->numbers && reading->columns->label != TERN_CSV_NO_COLUMN) {
        table->target = strdup(profile->column[reading->columns->label].name);
        return table->target != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
    }
    return TERN_OK;
}

// Adds a sentence to the notes. If there is no memory for it, the note is left out, and reading goes on.
static void add_note(struct tern_table *table, const char *sentence)
{
    const size_t used = table->notes != NULL ? strlen(table->notes) : 0;
    char *notes = realloc(table->notes, used + strlen(sentence) + 2);
    if (notes != NULL) {
        sprintf(notes + used, "%s\n", sentence);
        table->notes = notes;
    }
}

// Adds a note that lists the columns of new data that the model was not trained on.
static void note_extra_columns(struct reading *reading)
{
    const struct tern_csv_columns *columns = reading->columns;
    const struct tern_csv_choice *choice = reading->choice;
    char names[NAMED_BYTES] = "";
    char sentence[NAMED_BYTES + 120];
    uint32_t extra = 0;
    size_t used = 0;
    for (uint32_t c = 0; columns->place != NULL && c < columns->count; c++) {
        const char *name = reading->profile.column[c].name;
        if (columns->place[c] != TERN_CSV_NO_COLUMN || c == columns->label ||
            (choice->group != NULL && strcmp(choice->group, name) == 0) ||
            (choice->drop != NULL && tern_csv_list_has(choice->drop, name))) {
            continue;
        }
        if (extra++ < NAMED && used < sizeof names) {
            used += (size_t)snprintf(names + used, sizeof names - used, "%s'%.40s'",
                                     extra > 1 ? ", " : "", name);
        }
    }
    if (extra > 0) {
        snprintf(sentence, sizeof sentence,
                 "%u column%s not among those that the model learns from: %s%s %s left out", extra,
                 extra == 1 ? " is" : "s are", names, extra > NAMED ? ", ..." : "",
                 extra == 1 ? "is" : "are");
        add_note(reading->table, sentence);
    }
}

// The callback of tern_csv_judge(): the first problem becomes the reading's error, and every warning a note.
static void record_problem(void *ctx, enum tern_csv_level level, enum tern_result result,
                           const char *area, const char *sentence)
{
    struct reading *reading = ctx;
    struct tern_table *table = reading->table;
    (void)area;
    if (level == TERN_CSV_PROBLEM) {
        if (reading->problem == TERN_OK) {
            reading->problem = tern_input_refuse(reading->csv.input, result, "%s", sentence);
        }
        return;
    }
    add_note(table, sentence);
}

static enum tern_result profile_table(struct reading *reading, struct tern_input *input)
{
    TERN_TRY(tern_csv_profile_read(input, reading->choice, &reading->profile));
    const struct tern_csv_judging judging = {.profile = &reading->profile,
                                             .choice = reading->choice,
                                             .fixed = true,
                                             .report = record_problem,
                                             .ctx = reading};
    tern_csv_judge(&judging);
    TERN_TRY(reading->problem);
    note_extra_columns(reading);
    return tern_input_rewind(input);
}

// Sets up the table for the columns that the profile has selected.
static enum tern_result take_columns(struct reading *reading)
{
    const struct tern_csv_columns *columns = reading->columns;
    reading->table->rows.features = columns->features;
    reading->table->unlabelled = columns->label == TERN_CSV_NO_COLUMN;
    if (columns->features > reading->limits->max_features) {
        return tern_input_refuse(reading->csv.input, TERN_ERR_TOO_LARGE,
                                 "has %u features, over the limit of %u", columns->features,
                                 reading->limits->max_features);
    }
    return columns->header ? keep_names(reading) : TERN_OK;
}

static enum tern_result list_classes(struct reading *reading, const char *classes)
{
    char name[TERN_CSV_NAME_MAX];
    uint32_t number;
    reading->closed = classes != NULL;
    while (tern_csv_list_next(&classes, name)) {
        const uint32_t listed = reading->table->classes.count;
        if (tern_name_set_find(&reading->table->classes, name, true, &number) != TERN_OK) {
            return tern_input_refuse(reading->csv.input, TERN_ERR_TOO_LARGE,
                                     "classes lists more than the limit of %u",
                                     reading->limits->max_classes);
        }
        if (reading->table->classes.count == listed) {
            return tern_input_refuse(reading->csv.input, TERN_ERR_CONFIG,
                                     "classes lists '%.40s' twice", name);
        }
    }
    reading->table->rows.classes = reading->table->classes.count;
    return TERN_OK;
}

// Resizes a malloc'ed array. Without memory the array stays as it is, and *enough becomes false.
static void *resize(void *array, size_t size, bool *enough)
{
    void *larger = realloc(array, size);
    *enough = *enough && larger != NULL;
    return larger != NULL ? larger : array;
}

// Resizes the arrays of the table to `count` rows. Returns false without memory.
static bool resize_table(struct reading *reading, size_t count)
{
    struct tern_table *table = reading->table;
    struct tern_rows *rows = &table->rows;
    bool enough = true;
    rows->values = resize(rows->values, count * rows->features * sizeof *rows->values, &enough);
    rows->labels = resize(rows->labels, count * sizeof *rows->labels, &enough);
    if (reading->numbers) {
        rows->targets = resize(rows->targets, count * sizeof *rows->targets, &enough);
    }
    if (reading->columns->group != TERN_CSV_NO_COLUMN) {
        rows->groups = resize(rows->groups, count * sizeof *rows->groups, &enough);
    }
    if (reading->choice->features_only) {
        table->labelled = resize(table->labelled, count, &enough);
    }
    return enough;
}

// Makes sure that the table has memory for another row.
static enum tern_result grow(struct reading *reading)
{
    struct tern_rows *rows = &reading->table->rows;
    if (rows->count < reading->room) {
        return TERN_OK;
    }
    const struct tern_data_limits *limits = reading->limits;
    const bool groups = reading->columns->group != TERN_CSV_NO_COLUMN;
    const uint64_t row = rows->features * sizeof(float) + sizeof(uint16_t) +
                         (reading->numbers ? sizeof(float) : 0) + (groups ? sizeof(uint32_t) : 0);
    uint64_t room = reading->room == 0 ? FIRST_ROWS : (uint64_t)reading->room * 2;
    room = room < limits->max_examples ? room : limits->max_examples;
    room = room < limits->max_bytes / row ? room : limits->max_bytes / row;
    if (room <= rows->count) {
        return tern_input_refuse(reading->csv.input, TERN_ERR_TOO_LARGE,
                                 "has more rows than the limits allow (%u)", rows->count);
    }
    if (!resize_table(reading, (size_t)room)) {
        return tern_input_refuse(reading->csv.input, TERN_ERR_NO_MEMORY,
                                 "needs memory for %llu rows", (unsigned long long)room);
    }
    reading->room = (uint32_t)room;
    return TERN_OK;
}

// Sets *class to the last class, and returns whether that is the class of all labels that choice->classes does not list.
static bool get_class_of_others(const struct reading *reading, uint32_t *class)
{
    *class = reading->table->classes.count - 1;
    return tern_csv_list_has_others(reading->choice->classes);
}

// Reads the label: a class number in the file, or a text whose index in choice->classes is the class. Texts are not numbered by
// their first occurrence, because clients with different files would number them differently.
static enum tern_result read_label(struct reading *reading, uint16_t *label)
{
    struct tern_csv *csv = &reading->csv;
    struct tern_rows *rows = &reading->table->rows;
    uint32_t class = 0;
    if (reading->table->unlabelled) {
        *label = 0;
        return TERN_OK;
    }
    const char *text = tern_csv_field(csv, reading->columns->label);
    if (!reading->closed && !tern_name_is_class(text, reading->limits->max_classes, &class)) {
        return tern_input_refuse(csv->input, TERN_ERR_CONFIG,
                                 "line %llu: the label '%.40s' is no class number from 0 to %u; "
                                 "add classes=A|B|C with every label, the same on every client",
                                 (unsigned long long)csv->line, text,
                                 reading->limits->max_classes - 1);
    }
    if (reading->closed &&
        tern_name_set_find(&reading->table->classes, text, false, &class) != TERN_OK &&
        !get_class_of_others(reading, &class)) {
        return tern_input_refuse(csv->input, TERN_ERR_NOT_FOUND,
                                 "line %llu: the label '%.40s' is not in the list of classes",
                                 (unsigned long long)csv->line, text);
    }
    *label = (uint16_t) class;
    rows->classes = class >= rows->classes ? class + 1 : rows->classes;
    return TERN_OK;
}

static enum tern_result read_group(struct reading *reading, const struct tern_table_config *config,
                                   uint32_t *group)
{
    struct tern_csv *csv = &reading->csv;
    const char *text = tern_csv_field(csv, reading->columns->group);
    const enum tern_result result = tern_name_set_find(config->groups, text, true, group);
    return result == TERN_OK
               ? TERN_OK
               : tern_input_refuse(csv->input, result,
                                   "line %llu: group '%.40s' exceeds the limit of groups",
                                   (unsigned long long)csv->line, text);
}

// Reads a target in its original units.
static void read_target(struct reading *reading, float *target)
{
    *target = 0;
    if (!reading->table->unlabelled) {
        // A target that is missing in new data stays 0.
        (void)tern_csv_number(tern_csv_field(&reading->csv, reading->columns->label), target);
    }
}

// Reads the features of a row; a missing value becomes NAN. The profile has already refused texts that are no numbers.
static void read_values(struct reading *reading, float *values)
{
    uint32_t feature = 0;
    for (uint32_t c = 0; c < reading->columns->count; c++) {
        if (reading->columns->skipped[c]) {
            continue;
        }
        const uint32_t at = reading->columns->place != NULL ? reading->columns->place[c] : feature;
        if (!tern_csv_read_value(&reading->profile.column[c], tern_csv_field(&reading->csv, c),
                                 &values[at])) {
            values[at] = NAN;
            reading->table->missing++;
        }
        feature++;
    }
}

static bool lacks_label(const struct reading *reading)
{
    const uint32_t label = reading->columns->label;
    return label != TERN_CSV_NO_COLUMN &&
           tern_csv_lacks_label(reading->choice, tern_csv_field(&reading->csv, label));
}

// Returns whether the row lacks a feature, or its label or target unless the data are new ones, which may lack these.
static bool is_incomplete(const struct reading *reading)
{
    bool lacks = !reading->choice->features_only && lacks_label(reading);
    for (uint32_t c = 0; !lacks && c < reading->columns->count; c++) {
        float value;
        lacks = !reading->columns->skipped[c] &&
                !tern_csv_read_value(&reading->profile.column[c], tern_csv_field(&reading->csv, c),
                                     &value);
    }
    return lacks;
}

static enum tern_result read_row(struct reading *reading, const struct tern_table_config *config)
{
    struct tern_rows *rows = &reading->table->rows;
    const bool labelled = !lacks_label(reading);
    TERN_TRY(grow(reading));
    if (reading->table->labelled != NULL) {
        reading->table->labelled[rows->count] = labelled;
    }
    read_values(reading, rows->values + (size_t)rows->count * rows->features);
    rows->labels[rows->count] = 0;
    if (reading->numbers) {
        read_target(reading, &rows->targets[rows->count]);
    } else if (labelled) {
        TERN_TRY(read_label(reading, &rows->labels[rows->count]));
    }
    if (reading->columns->group != TERN_CSV_NO_COLUMN) {
        TERN_TRY(read_group(reading, config, &rows->groups[rows->count]));
    }
    reading->labelled += labelled;
    rows->count++;
    return TERN_OK;
}

static bool is_skipped(const struct reading *reading)
{
    return (reading->choice->missing == TERN_CSV_MISSING_SKIP && is_incomplete(reading)) ||
           (reading->choice->missing == TERN_CSV_MISSING_SKIP_UNLABELLED &&
            !reading->choice->features_only && lacks_label(reading));
}

// Reads a record of the file as a row, unless the record is no row or `missing` skips it.
static enum tern_result read_record(struct reading *reading, const struct tern_table_config *config)
{
    if (tern_csv_profile_line(&reading->profile, &reading->csv) != TERN_CSV_ROW) {
        return TERN_OK;
    }
    if (reading->csv.field_count != reading->columns->count) {
        return tern_input_refuse(reading->csv.input, TERN_ERR_IO,
                                 "line %llu: the file was changed while it was read",
                                 (unsigned long long)reading->csv.line);
    }
    return is_skipped(reading) ? TERN_OK : read_row(reading, config);
}

static enum tern_result read_all(struct reading *reading, const struct tern_table_config *config)
{
    struct tern_csv *csv = &reading->csv;
    bool more;
    TERN_TRY(take_columns(reading));
    TERN_TRY(list_classes(reading, config->choice.classes));
    TERN_TRY(tern_csv_next(csv, &more));
    while (more) {
        TERN_TRY(read_record(reading, config));
        TERN_TRY(tern_csv_next(csv, &more));
    }
    struct tern_rows *rows = &reading->table->rows;
    if (reading->numbers || config->choice.unlabelled || rows->classes == 0) {
        rows->classes = 1;
    }
    if (rows->count == 0) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT, "has no rows of data");
    }
    reading->table->unlabelled = reading->table->unlabelled || reading->labelled == 0;
    return TERN_OK;
}

enum tern_result tern_csv_table_read(struct tern_input *input,
                                     const struct tern_table_config *config,
                                     const struct tern_data_limits *limits,
                                     struct tern_table *table)
{
    memset(table, 0, sizeof *table);
    struct reading *reading = calloc(1, sizeof *reading);
    if (reading == NULL) {
        return tern_input_refuse(input, TERN_ERR_NO_MEMORY, "no memory to read the table");
    }
    reading->limits = limits;
    reading->table = table;
    reading->choice = &config->choice;
    reading->numbers = config->choice.numeric;
    reading->columns = &reading->profile.columns;
    // Besides features a line has the label, and up to 63 dropped columns.
    tern_csv_begin(&reading->csv, input, limits->max_features + 64);
    tern_name_set_init(&reading->table->classes, limits->max_classes);
    enum tern_result result = profile_table(reading, input);
    result = result == TERN_OK ? read_all(reading, config) : result;
    if (result != TERN_OK) {
        tern_table_free(table);
    }
    tern_csv_end(&reading->csv);
    tern_csv_profile_free(&reading->profile);
    free(reading);
    return result;
}

// --- The reader

struct csv_options {
    struct tern_table_config table;
    struct tern_split_options split;
    const char *test_file;
};

// The training and test tables of a spec. Without the option test_file the test table is empty.
struct tables {
    struct tern_table train;
    struct tern_table test;
    struct tern_name_set *groups;
};

static enum tern_result read_options(struct tern_data_spec *spec, struct csv_options *options)
{
    TERN_TRY(tern_csv_choose(spec, &options->table.choice));
    options->table.choice.features_only = spec->part->new_rows;
    if (spec->part->new_rows && options->table.choice.missing == TERN_CSV_MISSING_SKIP) {
        options->table.choice.missing =
            TERN_CSV_MISSING_MEAN; // every row of new data gets a prediction
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

// Refuses a test file whose columns differ from the training file's or are in another order: the model would take the values of
// one column for those of another.
static enum tern_result compare_columns(const struct tern_data_spec *spec, const char *test_file,
                                        const struct tern_table *train,
                                        const struct tern_table *test)
{
    if (train->rows.features != test->rows.features) {
        return tern_spec_refuse(spec, TERN_ERR_CORRUPT,
                                "test_file %.80s has %u features, the training file %u", test_file,
                                test->rows.features, train->rows.features);
    }
    const char *train_name = train->names;
    const char *test_name = test->names;
    for (uint32_t i = 0; train_name != NULL && test_name != NULL && i < train->rows.features; i++) {
        if (strcmp(train_name, test_name) != 0) {
            return tern_spec_refuse(spec, TERN_ERR_CORRUPT,
                                    "feature %u of test_file %.60s is '%.30s', that of the "
                                    "training file '%.30s'",
                                    i + 1, test_file, test_name, train_name);
        }
        train_name += strlen(train_name) + 1;
        test_name += strlen(test_name) + 1;
    }
    return TERN_OK;
}

static enum tern_result read_test(const struct tern_data_spec *spec,
                                  const struct tern_data_limits *limits,
                                  const struct csv_options *options, struct tables *tables)
{
    // A client that does not evaluate needs no test file.
    if (options->test_file == NULL || !spec->part->test || spec->part->new_rows) {
        return TERN_OK;
    }
    TERN_TRY(read_table(spec, options->test_file, &options->table, limits, &tables->test));
    return compare_columns(spec, options->test_file, &tables->train, &tables->test);
}

static enum tern_result select_group(const struct tern_data_spec *spec,
                                     const struct csv_options *options, struct tables *tables)
{
    uint32_t group;
    if (options->split.only == NULL || spec->part->new_rows) {
        return TERN_OK;
    }
    if (tern_name_set_find(tables->groups, options->split.only, false, &group) != TERN_OK) {
        return tern_spec_refuse(spec, TERN_ERR_NOT_FOUND, "no row has '%.40s' in column '%.40s'",
                                options->split.only, options->table.choice.group);
    }
    tern_rows_keep_group(&tables->train.rows, group);
    return TERN_OK;
}

// Replaces missing values by the training rows' means, which are 0 for scaled values.
static enum tern_result impute_missing(const struct tern_data_spec *spec,
                                       const struct tern_split_options *split,
                                       struct tables *tables)
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
        result = tern_rows_impute(train, means);
        result = result == TERN_OK ? tern_rows_impute(&tables->test.rows, means) : result;
    }
    free(means);
    return result == TERN_OK
               ? TERN_OK
               : tern_spec_refuse(spec, result, "no memory to impute the missing values");
}

static enum tern_result read_train_and_test(const struct tern_data_spec *spec,
                                            const struct tern_data_limits *limits,
                                            const struct csv_options *options,
                                            struct tables *tables, struct tern_data *data)
{
    TERN_TRY(read_table(spec, spec->path, &options->table, limits, &tables->train));
    // The group is selected before the test file is read, which may add groups that no training row has.
    TERN_TRY(select_group(spec, options, tables));
    TERN_TRY(read_test(spec, limits, options, tables));
    TERN_TRY(tern_split_rows(spec, &options->split, &tables->train.rows, &tables->test.rows));
    if (options->split.scaling != NULL) {
        TERN_TRY(tern_scaling_file_apply(spec, options->split.scaling, tables->train.names,
                                         options->table.choice.numeric ? options->table.choice.label
                                                                       : NULL,
                                         &tables->train.rows, &tables->test.rows));
    }
    TERN_TRY(impute_missing(spec, &options->split, tables));
    data->unlabelled = tables->train.unlabelled;
    data->labelled = tables->train.labelled;
    tables->train.labelled = NULL;
    data->notes = tables->train.notes;
    tables->train.notes = NULL;
    data->scaled = tern_split_scales(&options->split);
    data->column_names = tern_column_names_tag(tables->train.names, tables->train.names_len);
    const uint32_t features = tables->train.rows.features;
    tern_rows_move_to_dataset(&tables->train.rows, 1, features, 1, &data->train);
    tern_rows_move_to_dataset(&tables->test.rows, 1, features, 1, &data->test);
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
    const enum tern_result result = read_train_and_test(spec, limits, &options, &tables, data);
    tern_table_free(&tables.train);
    tern_table_free(&tables.test);
    return result;
}
