#include "data/table.h"
#include "data/csv.h"
#include "data/label_set.h"
#include "data/readers.h"
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 256
#define NAME_MAX_LEN 256

struct reading {
    struct tern_csv csv;
    struct tern_label_set labels;
    const struct tern_data_limits *limits;
    struct tern_table *table;
    bool *skipped;    // [columns], not a feature
    uint32_t columns; // of every line
    uint32_t label;   // column
    uint32_t room;    // rows that the table's memory holds
    bool header;
    bool closed; // only the labels of config->classes may occur
};

void tern_table_free(struct tern_table *table)
{
    free(table->values);
    free(table->labels);
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
    for (uint32_t c = 0; c < reading->columns; c++) {
        reading->table->features += !reading->skipped[c];
    }
    if (reading->table->features > reading->limits->max_features) {
        return tern_input_refuse(reading->csv.input, TERN_ERR_TOO_LARGE,
                                 "has %u features, over the limit of %u", reading->table->features,
                                 reading->limits->max_features);
    }
    if (reading->table->features == 0) {
        return tern_input_refuse(
            reading->csv.input, TERN_ERR_CORRUPT,
            "has no column beside the label's; fields are separated by commas");
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
    TERN_TRY(skip_columns(reading, config));
    bool any_number = false;
    for (uint32_t c = 0; c < reading->columns; c++) {
        float value;
        any_number =
            any_number || (!reading->skipped[c] && tern_read_float(tern_csv_field(csv, c), &value));
    }
    // With a single number among them it is a row, so that one damaged field is not overlooked.
    reading->header = reading->header || !any_number;
    return TERN_OK;
}

static enum tern_result list_classes(struct reading *reading, const char *classes)
{
    char name[NAME_MAX_LEN];
    uint32_t number;
    reading->closed = classes != NULL;
    while (next_name(&classes, name)) {
        if (tern_label_set_find(&reading->labels, name, true, &number) != TERN_OK) {
            return tern_input_refuse(reading->csv.input, TERN_ERR_TOO_LARGE,
                                     "classes lists more than the limit of %u",
                                     reading->limits->max_classes);
        }
    }
    reading->table->classes = reading->labels.count;
    return TERN_OK;
}

// Makes room for one more row.
static enum tern_result grow(struct reading *reading)
{
    struct tern_table *table = reading->table;
    if (table->rows < reading->room) {
        return TERN_OK;
    }
    const struct tern_data_limits *limits = reading->limits;
    uint64_t row = table->features * sizeof(float) + sizeof(uint16_t);
    uint64_t room = reading->room == 0 ? FIRST_ROOM : (uint64_t)reading->room * 2;
    room = room < limits->max_examples ? room : limits->max_examples;
    room = room < limits->max_bytes / row ? room : limits->max_bytes / row;
    if (room <= table->rows) {
        return tern_input_refuse(reading->csv.input, TERN_ERR_TOO_LARGE,
                                 "has more rows than the limits allow (%u)", table->rows);
    }
    float *values = realloc(table->values, (size_t)room * table->features * sizeof *values);
    if (values != NULL) {
        table->values = values;
        uint16_t *labels = realloc(table->labels, (size_t)room * sizeof *labels);
        if (labels != NULL) {
            table->labels = labels;
            reading->room = (uint32_t)room;
            return TERN_OK;
        }
    }
    return tern_input_refuse(reading->csv.input, TERN_ERR_NO_MEMORY, "needs memory for %llu rows",
                             (unsigned long long)room);
}

// Numbering texts as they occur would differ between clients whose files hold different ones, so a
// class is a number in the file or a place in config->classes.
static enum tern_result read_label(struct reading *reading, uint16_t *label)
{
    struct tern_csv *csv = &reading->csv;
    struct tern_table *table = reading->table;
    const char *text = tern_csv_field(csv, reading->label);
    uint32_t class = 0;
    if (!reading->closed && !tern_label_is_class(text, reading->limits->max_classes, &class)) {
        return tern_input_refuse(csv->input, TERN_ERR_CONFIG,
                                 "line %llu: the label '%.40s' is no class number from 0 to %u; "
                                 "add classes=A|B|C with every label, the same on every client",
                                 (unsigned long long)csv->line, text,
                                 reading->limits->max_classes - 1);
    }
    if (reading->closed && tern_label_set_find(&reading->labels, text, false, &class) != TERN_OK) {
        return tern_input_refuse(csv->input, TERN_ERR_NOT_FOUND,
                                 "line %llu: the label '%.40s' is not one of those in classes",
                                 (unsigned long long)csv->line, text);
    }
    *label = (uint16_t) class;
    table->classes = class >= table->classes ? class + 1 : table->classes;
    return TERN_OK;
}

static enum tern_result read_row(struct reading *reading)
{
    struct tern_csv *csv = &reading->csv;
    struct tern_table *table = reading->table;
    if (csv->field_count != reading->columns) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                 "line %llu has %u fields, the first line %u",
                                 (unsigned long long)csv->line, csv->field_count, reading->columns);
    }
    TERN_TRY(grow(reading));
    float *value = table->values + (size_t)table->rows * table->features;
    for (uint32_t c = 0; c < reading->columns; c++) {
        if (!reading->skipped[c] && !tern_read_float(tern_csv_field(csv, c), value++)) {
            return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                     "line %llu, field %u: '%.40s' is not a finite number",
                                     (unsigned long long)csv->line, c + 1, tern_csv_field(csv, c));
        }
    }
    TERN_TRY(read_label(reading, &table->labels[table->rows]));
    table->rows++;
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
        TERN_TRY(read_row(reading));
        TERN_TRY(tern_csv_next(csv, &more));
    }
    if (reading->table->rows == 0) {
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
    enum tern_result result = tern_label_set_init(&reading->labels, limits->max_classes);
    if (result == TERN_OK) {
        result = read_all(reading, config);
    }
    if (result != TERN_OK) {
        tern_table_free(table);
    }
    tern_label_set_free(&reading->labels);
    tern_csv_end(&reading->csv);
    free(reading->skipped);
    free(reading);
    return result;
}
