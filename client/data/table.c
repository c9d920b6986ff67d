#include "data/table.h"
#include "data/readers.h"
#include "hosted/csv_columns.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 256

struct reading {
    struct tern_csv csv;
    const struct tern_data_limits *limits;
    struct tern_table *table;
    struct tern_csv_columns columns;
    uint32_t room; // rows that the table's memory holds
    bool closed;   // only the labels of config->classes may occur
    bool numbers;  // in place of labels there are targets
};

void tern_table_free(struct tern_table *table)
{
    tern_rows_free(&table->rows);
    tern_name_set_free(&table->classes);
    free(table->names);
    free(table->target);
    memset(table, 0, sizeof *table);
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
    for (uint32_t c = 0; c < reading->columns.count; c++) {
        const char *name = tern_csv_field(&reading->csv, c);
        if (!reading->columns.skipped[c]) {
            memcpy(table->names + table->names_len, name, strlen(name) + 1);
            table->names_len += strlen(name) + 1;
        }
    }
    if (reading->numbers && reading->columns.label != TERN_CSV_NO_COLUMN) {
        table->target = strdup(tern_csv_field(&reading->csv, reading->columns.label));
        return table->target != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
    }
    return TERN_OK;
}

// Learns the columns from the first line.
static enum tern_result read_columns(struct reading *reading,
                                     const struct tern_table_config *config)
{
    const struct tern_csv_choice choice = {.label = config->target != NULL ? config->target
                                                                           : config->label,
                                           .unlabelled = config->unlabelled,
                                           .drop = config->drop,
                                           .group = config->group,
                                           .features_only = config->features_only};
    struct tern_csv_columns *columns = &reading->columns;
    TERN_TRY(tern_csv_columns_learn(&reading->csv, &choice, columns));
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
    while (tern_csv_next_name(&classes, name)) {
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

static bool resize_targets(struct tern_rows *rows, size_t room)
{
    float *targets = realloc(rows->targets, room * sizeof *targets);
    rows->targets = targets != NULL ? targets : rows->targets;
    return targets != NULL;
}

static bool resize(struct tern_rows *rows, size_t room, bool groups, bool targets)
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
    if (targets && !resize_targets(rows, room)) {
        return false;
    }
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
    const bool groups = reading->columns.group != TERN_CSV_NO_COLUMN;
    const uint64_t row = rows->features * sizeof(float) + sizeof(uint16_t) +
                         (reading->numbers ? sizeof(float) : 0) + (groups ? sizeof(uint32_t) : 0);
    uint64_t room = reading->room == 0 ? FIRST_ROOM : (uint64_t)reading->room * 2;
    room = room < limits->max_examples ? room : limits->max_examples;
    room = room < limits->max_bytes / row ? room : limits->max_bytes / row;
    if (room <= rows->count) {
        return tern_input_refuse(reading->csv.input, TERN_ERR_TOO_LARGE,
                                 "has more rows than the limits allow (%u)", rows->count);
    }
    if (!resize(rows, (size_t)room, groups, reading->numbers)) {
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
    uint32_t class = 0;
    if (reading->table->unlabelled) {
        *label = 0;
        return TERN_OK;
    }
    const char *text = tern_csv_field(csv, reading->columns.label);
    if (!reading->closed && !tern_name_is_class(text, reading->limits->max_classes, &class)) {
        return tern_input_refuse(csv->input, TERN_ERR_CONFIG,
                                 "line %llu: the label '%.40s' is no class number from 0 to %u; "
                                 "add classes=A|B|C with every label, the same on every client",
                                 (unsigned long long)csv->line, text,
                                 reading->limits->max_classes - 1);
    }
    if (reading->closed &&
        tern_name_set_find(&reading->table->classes, text, false, &class) != TERN_OK) {
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
    const char *text = tern_csv_field(csv, reading->columns.group);
    if (text[0] == '\0') {
        return tern_input_refuse(
            csv->input, TERN_ERR_CORRUPT, "line %llu, field %u: the group is missing (group=%.40s)",
            (unsigned long long)csv->line, reading->columns.group + 1, config->group);
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
                                   "line %llu, %s: '%.40s' is not a finite number in float32; "
                                   "mend it, or drop the column (drop=%s)",
                                   (unsigned long long)csv->line, place, text,
                                   name != NULL ? name : "NUMBER");
}

// Of a target: what is told of it is in its units.
static enum tern_result read_target(const struct reading *reading, float *target)
{
    const struct tern_csv *csv = &reading->csv;
    *target = 0;
    if (reading->table->unlabelled ||
        tern_csv_number(tern_csv_field(csv, reading->columns.label), target)) {
        return TERN_OK;
    }
    const char *text = tern_csv_field(csv, reading->columns.label);
    const char *name = reading->table->target;
    return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                             "line %llu, field %u%s%.40s%s: the target %s%.40s%s; mend the line or "
                             "leave it out",
                             (unsigned long long)csv->line, reading->columns.label + 1,
                             name != NULL ? ", column '" : "", name != NULL ? name : "",
                             name != NULL ? "'" : "", text[0] == '\0' ? "is missing" : "'", text,
                             text[0] == '\0' ? "" : "' is not a finite number in float32");
}

static enum tern_result read_values(struct reading *reading, float *values)
{
    uint32_t feature = 0;
    for (uint32_t c = 0; c < reading->columns.count; c++) {
        if (reading->columns.skipped[c]) {
            continue;
        }
        if (!tern_csv_number(tern_csv_field(&reading->csv, c), &values[feature])) {
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
    if (csv->field_count != reading->columns.count) {
        return tern_input_refuse(
            csv->input, TERN_ERR_CORRUPT, "line %llu has %u fields, the first line %u",
            (unsigned long long)csv->line, csv->field_count, reading->columns.count);
    }
    TERN_TRY(grow(reading));
    TERN_TRY(read_values(reading, rows->values + (size_t)rows->count * rows->features));
    if (reading->numbers) {
        rows->labels[rows->count] = 0;
        TERN_TRY(read_target(reading, &rows->targets[rows->count]));
    } else {
        TERN_TRY(read_label(reading, &rows->labels[rows->count]));
    }
    if (reading->columns.group != TERN_CSV_NO_COLUMN) {
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
    if (more && reading->columns.header) {
        TERN_TRY(tern_csv_next(csv, &more));
    }
    while (more) {
        TERN_TRY(read_row(reading, config));
        TERN_TRY(tern_csv_next(csv, &more));
    }
    if (reading->numbers || config->unlabelled) {
        reading->table->rows.classes = 1;
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
    reading->numbers = config->target != NULL;
    // Beside the features a line holds the label and, within reason, columns that are dropped.
    tern_csv_begin(&reading->csv, input, limits->max_features + 64);
    tern_name_set_init(&reading->table->classes, limits->max_classes);
    const enum tern_result result = read_all(reading, config);
    if (result != TERN_OK) {
        tern_table_free(table);
    }
    tern_csv_end(&reading->csv);
    tern_csv_columns_free(&reading->columns);
    free(reading);
    return result;
}
