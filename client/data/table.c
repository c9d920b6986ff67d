#include "data/table.h"
#include "data/csv.h"
#include "data/readers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 256
#define NAME_MAX_LEN 256
#define NO_COLUMN UINT32_MAX

struct reading {
    struct tern_csv csv;
    struct tern_name_set labels;
    const struct tern_data_limits *limits;
    struct tern_table *table;
    bool *skipped;    // [columns], not a feature
    uint32_t columns; // of every line
    uint32_t label;   // column
    uint32_t group;   // column; NO_COLUMN: none
    uint32_t room;    // rows that the table's memory holds
    bool header;
    bool closed; // only the labels of config->classes may occur
};

void tern_table_free(struct tern_table *table)
{
    tern_rows_free(&table->rows);
    free(table->names);
    memset(table, 0, sizeof *table);
}

// Reads a column number from 0, or from -1 backwards.
static bool read_index(const char *text, uint32_t columns, uint32_t *column)
{
    char *end = NULL;
    long number = strtol(text, &end, 10);
    const char *digits = text + (text[0] == '-');
    if (strlen(digits) > 8 || digits[0] < '0' || digits[0] > '9' || *end != '\0') {
        return false;
    }
    number = text[0] == '-' ? (long)columns + number : number;
    *column = number < 0 || number >= (long)columns ? columns : (uint32_t)number;
    return true;
}

// Finds a column by number, or by its name in the header line.
static enum tern_result find_column(struct reading *reading, const char *text, uint32_t *column)
{
    struct tern_csv *csv = &reading->csv;
    if (!read_index(text, reading->columns, column)) {
        reading->header = true;
        for (*column = 0; *column < reading->columns; (*column)++) {
            if (strcmp(tern_csv_field(csv, *column), text) == 0) {
                break;
            }
        }
    }
    if (*column < reading->columns) {
        return TERN_OK;
    }
    return tern_input_refuse(csv->input, TERN_ERR_NOT_FOUND,
                             "has no column '%.40s' among the %u of its first line ('%.30s', ...)",
                             text, reading->columns, tern_csv_field(csv, 0));
}

// Takes the text up to the next '|'; false at the end.
static bool next_name(const char **rest, char name[NAME_MAX_LEN])
{
    if (*rest == NULL) {
        return false;
    }
    size_t len = strcspn(*rest, "|");
    size_t kept = len < NAME_MAX_LEN - 1 ? len : NAME_MAX_LEN - 1;
    memcpy(name, *rest, kept);
    name[kept] = '\0';
    *rest = (*rest)[len] == '|' ? *rest + len + 1 : NULL;
    return true;
}

static enum tern_result skip_columns(struct reading *reading,
                                     const struct tern_table_config *config)
{
    char name[NAME_MAX_LEN];
    const char *rest = config->drop;
    while (next_name(&rest, name)) {
        uint32_t column;
        TERN_TRY(find_column(reading, name, &column));
        reading->skipped[column] = true;
    }
    if (reading->skipped[reading->label]) {
        return tern_input_refuse(reading->csv.input, TERN_ERR_CONFIG,
                                 "drop names the label's column");
    }
    reading->skipped[reading->label] = true;
    if (reading->group == reading->label) {
        return tern_input_refuse(reading->csv.input, TERN_ERR_CONFIG,
                                 "group names the label's column");
    }
    if (reading->group != NO_COLUMN) {
        reading->skipped[reading->group] = true;
    }
    uint32_t features = 0;
    for (uint32_t c = 0; c < reading->columns; c++) {
        features += !reading->skipped[c];
    }
    reading->table->rows.features = features;
    if (features > reading->limits->max_features) {
        return tern_input_refuse(reading->csv.input, TERN_ERR_TOO_LARGE,
                                 "has %u features, over the limit of %u", features,
                                 reading->limits->max_features);
    }
    if (features == 0) {
        return tern_input_refuse(
            reading->csv.input, TERN_ERR_CORRUPT,
            "has no column beside the label's; fields are separated by commas");
    }
    return TERN_OK;
}

// Keeps the names of the features from the header line, which is the csv's current record.
static enum tern_result keep_names(struct reading *reading)
{
    struct tern_table *table = reading->table;
    table->names = malloc(reading->csv.text_len + 1);
    if (table->names == NULL) {
        return tern_input_refuse(reading->csv.input, TERN_ERR_NO_MEMORY,
                                 "no memory for its columns' names");
    }
    for (uint32_t c = 0; c < reading->columns; c++) {
        const char *name = tern_csv_field(&reading->csv, c);
        if (!reading->skipped[c]) {
            memcpy(table->names + table->names_len, name, strlen(name) + 1);
            table->names_len += strlen(name) + 1;
        }
    }
    return TERN_OK;
}

// Learns the columns from the first line.
static enum tern_result read_columns(struct reading *reading,
                                     const struct tern_table_config *config)
{
    struct tern_csv *csv = &reading->csv;
    reading->columns = csv->field_count;
    reading->label = reading->columns - 1;
    reading->skipped = calloc(reading->columns, sizeof *reading->skipped);
    if (reading->skipped == NULL) {
        return tern_input_refuse(csv->input, TERN_ERR_NO_MEMORY, "no memory for its columns");
    }
    if (config->label != NULL) {
        TERN_TRY(find_column(reading, config->label, &reading->label));
    }
    reading->group = NO_COLUMN;
    if (config->group != NULL) {
        TERN_TRY(find_column(reading, config->group, &reading->group));
    }
    TERN_TRY(skip_columns(reading, config));
    bool any_number = false;
    for (uint32_t c = 0; c < reading->columns; c++) {
        float value;
        any_number =
            any_number || (!reading->skipped[c] && tern_read_float(tern_csv_field(csv, c), &value));
    }
    // With a single number among them it is a row, so that one damaged field is not overlooked.
    reading->header = reading->header || !any_number;
    return reading->header ? keep_names(reading) : TERN_OK;
}

static enum tern_result list_classes(struct reading *reading, const char *classes)
{
    char name[NAME_MAX_LEN];
    uint32_t number;
    reading->closed = classes != NULL;
    while (next_name(&classes, name)) {
        const uint32_t listed = reading->labels.count;
        if (tern_name_set_find(&reading->labels, name, true, &number) != TERN_OK) {
            return tern_input_refuse(reading->csv.input, TERN_ERR_TOO_LARGE,
                                     "classes lists more than the limit of %u",
                                     reading->limits->max_classes);
        }
        if (reading->labels.count == listed) {
            return tern_input_refuse(reading->csv.input, TERN_ERR_CONFIG,
                                     "classes lists '%.40s' twice", name);
        }
    }
    reading->table->rows.classes = reading->labels.count;
    return TERN_OK;
}

static bool resize(struct tern_rows *rows, size_t room, bool groups)
{
    float *values = realloc(rows->values, room * rows->features * sizeof *values);
    if (values == NULL) {
        return false;
    }
    rows->values = values;
    uint16_t *labels = realloc(rows->labels, room * sizeof *labels);
    if (labels == NULL) {
        return false;
    }
    rows->labels = labels;
    if (!groups) {
        return true;
    }
    uint32_t *numbers = realloc(rows->groups, room * sizeof *numbers);
    if (numbers == NULL) {
        return false;
    }
    rows->groups = numbers;
    return true;
}

// Makes room for one more row.
static enum tern_result grow(struct reading *reading)
{
    struct tern_rows *rows = &reading->table->rows;
    if (rows->count < reading->room) {
        return TERN_OK;
    }
    const struct tern_data_limits *limits = reading->limits;
    const bool groups = reading->group != NO_COLUMN;
    const uint64_t row =
        rows->features * sizeof(float) + sizeof(uint16_t) + (groups ? sizeof(uint32_t) : 0);
    uint64_t room = reading->room == 0 ? FIRST_ROOM : (uint64_t)reading->room * 2;
    room = room < limits->max_examples ? room : limits->max_examples;
    room = room < limits->max_bytes / row ? room : limits->max_bytes / row;
    if (room <= rows->count) {
        return tern_input_refuse(reading->csv.input, TERN_ERR_TOO_LARGE,
                                 "has more rows than the limits allow (%u)", rows->count);
    }
    if (!resize(rows, (size_t)room, groups)) {
        return tern_input_refuse(reading->csv.input, TERN_ERR_NO_MEMORY,
                                 "needs memory for %llu rows", (unsigned long long)room);
    }
    reading->room = (uint32_t)room;
    return TERN_OK;
}

// Numbering texts as they occur would differ between clients whose files hold different ones, so a
// class is a number in the file or a place in config->classes.
static enum tern_result read_label(struct reading *reading, uint16_t *label)
{
    struct tern_csv *csv = &reading->csv;
    struct tern_rows *rows = &reading->table->rows;
    const char *text = tern_csv_field(csv, reading->label);
    uint32_t class = 0;
    if (!reading->closed && !tern_name_is_class(text, reading->limits->max_classes, &class)) {
        return tern_input_refuse(csv->input, TERN_ERR_CONFIG,
                                 "line %llu: the label '%.40s' is no class number from 0 to %u; "
                                 "add classes=A|B|C with every label, the same on every client",
                                 (unsigned long long)csv->line, text,
                                 reading->limits->max_classes - 1);
    }
    if (reading->closed && tern_name_set_find(&reading->labels, text, false, &class) != TERN_OK) {
        return tern_input_refuse(csv->input, TERN_ERR_NOT_FOUND,
                                 "line %llu: the label '%.40s' is not one of those in classes",
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
    const char *text = tern_csv_field(csv, reading->group);
    if (text[0] == '\0') {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                 "line %llu, field %u: the group is missing (group=%.40s)",
                                 (unsigned long long)csv->line, reading->group + 1, config->group);
    }
    const enum tern_result result = tern_name_set_find(config->groups, text, true, group);
    return result == TERN_OK
               ? TERN_OK
               : tern_input_refuse(csv->input, result, "line %llu: group '%.40s' is one too many",
                                   (unsigned long long)csv->line, text);
}

// feature: which of them column c is.
static enum tern_result refuse_value(const struct reading *reading, uint32_t column,
                                     uint32_t feature)
{
    const struct tern_csv *csv = &reading->csv;
    const char *text = tern_csv_field(csv, column);
    const char *name = reading->table->names;
    for (uint32_t i = 0; name != NULL && i < feature; i++) {
        name += strlen(name) + 1;
    }
    char place[80];
    if (name != NULL) {
        snprintf(place, sizeof place, "field %u, column '%.40s'", column + 1, name);
    } else {
        snprintf(place, sizeof place, "field %u", column + 1);
    }
    return text[0] == '\0'
               ? tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                   "line %llu, %s: the value is missing; fill it in, leave the "
                                   "line out, or drop the column (drop=%s)",
                                   (unsigned long long)csv->line, place,
                                   name != NULL ? name : "NUMBER")
               : tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                   "line %llu, %s: '%.40s' is not a finite number",
                                   (unsigned long long)csv->line, place, text);
}

static enum tern_result read_values(struct reading *reading, float *values)
{
    uint32_t feature = 0;
    for (uint32_t c = 0; c < reading->columns; c++) {
        if (reading->skipped[c]) {
            continue;
        }
        if (!tern_read_float(tern_csv_field(&reading->csv, c), &values[feature])) {
            return refuse_value(reading, c, feature);
        }
        feature++;
    }
    return TERN_OK;
}

static enum tern_result read_row(struct reading *reading, const struct tern_table_config *config)
{
    struct tern_csv *csv = &reading->csv;
    struct tern_rows *rows = &reading->table->rows;
    if (csv->field_count != reading->columns) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                 "line %llu has %u fields, the first line %u",
                                 (unsigned long long)csv->line, csv->field_count, reading->columns);
    }
    TERN_TRY(grow(reading));
    TERN_TRY(read_values(reading, rows->values + (size_t)rows->count * rows->features));
    TERN_TRY(read_label(reading, &rows->labels[rows->count]));
    if (reading->group != NO_COLUMN) {
        TERN_TRY(read_group(reading, config, &rows->groups[rows->count]));
    }
    rows->count++;
    return TERN_OK;
}

static enum tern_result read_all(struct reading *reading, const struct tern_table_config *config)
{
    struct tern_csv *csv = &reading->csv;
    bool more;
    TERN_TRY(tern_csv_next(csv, &more));
    if (more) {
        TERN_TRY(read_columns(reading, config));
    }
    TERN_TRY(list_classes(reading, config->classes));
    if (more && reading->header) {
        TERN_TRY(tern_csv_next(csv, &more));
    }
    while (more) {
        TERN_TRY(read_row(reading, config));
        TERN_TRY(tern_csv_next(csv, &more));
    }
    if (reading->table->rows.count == 0) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT, "has no rows of data");
    }
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
        return tern_input_refuse(input, TERN_ERR_NO_MEMORY, "no memory to read it");
    }
    reading->limits = limits;
    reading->table = table;
    // Beside the features a line holds the label and, within reason, columns that are dropped.
    tern_csv_begin(&reading->csv, input, limits->max_features + 64);
    tern_name_set_init(&reading->labels, limits->max_classes);
    const enum tern_result result = read_all(reading, config);
    if (result != TERN_OK) {
        tern_table_free(table);
    }
    tern_name_set_free(&reading->labels);
    tern_csv_end(&reading->csv);
    free(reading->skipped);
    free(reading);
    return result;
}
