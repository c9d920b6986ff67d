#include "hosted/csv_columns.h"
#include <stdlib.h>
#include <string.h>

void tern_csv_columns_free(struct tern_csv_columns *columns)
{
    free(columns->skipped);
    columns->skipped = NULL;
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

// Finds a column by number, or by its name in the header line; TERN_CSV_NO_COLUMN for one that may be
// missing, and is.
static enum tern_result find_column(const struct tern_csv *csv,
                                    const struct tern_csv_choice *choice,
                                    struct tern_csv_columns *columns, const char *text,
                                    uint32_t *column)
{
    bool named = false;
    if (!read_index(text, columns->count, column)) {
        columns->header = true;
        named = true;
        for (*column = 0; *column < columns->count; (*column)++) {
            if (strcmp(tern_csv_field(csv, *column), text) == 0) {
                break;
            }
        }
    }
    if (*column < columns->count) {
        return TERN_OK;
    }
    if (named && choice->features_only) {
        *column = TERN_CSV_NO_COLUMN;
        return TERN_OK;
    }
    return tern_input_refuse(csv->input, TERN_ERR_NOT_FOUND,
                             "has no column '%.40s' among the %u of its first line ('%.30s', ...)",
                             text, columns->count, tern_csv_field(csv, 0));
}

bool tern_csv_next_name(const char **rest, char name[TERN_CSV_NAME_MAX])
{
    if (*rest == NULL) {
        return false;
    }
    size_t len = strcspn(*rest, "|");
    size_t kept = len < TERN_CSV_NAME_MAX - 1 ? len : TERN_CSV_NAME_MAX - 1;
    memcpy(name, *rest, kept);
    name[kept] = '\0';
    *rest = (*rest)[len] == '|' ? *rest + len + 1 : NULL;
    return true;
}

static void skip(struct tern_csv_columns *columns, uint32_t column)
{
    if (column != TERN_CSV_NO_COLUMN) {
        columns->skipped[column] = true;
    }
}

static enum tern_result skip_columns(const struct tern_csv *csv, struct tern_csv_columns *columns,
                                     const struct tern_csv_choice *choice)
{
    char name[TERN_CSV_NAME_MAX];
    const char *rest = choice->drop;
    while (tern_csv_next_name(&rest, name)) {
        uint32_t column;
        TERN_TRY(find_column(csv, choice, columns, name, &column));
        skip(columns, column);
    }
    if (columns->label != TERN_CSV_NO_COLUMN && columns->skipped[columns->label]) {
        return tern_input_refuse(csv->input, TERN_ERR_CONFIG, "drop names the label's column");
    }
    skip(columns, columns->label);
    if (columns->group == columns->label && columns->group != TERN_CSV_NO_COLUMN) {
        return tern_input_refuse(csv->input, TERN_ERR_CONFIG, "group names the label's column");
    }
    skip(columns, columns->group);
    for (uint32_t c = 0; c < columns->count; c++) {
        columns->features += !columns->skipped[c];
    }
    if (columns->features == 0) {
        return tern_input_refuse(
            csv->input, TERN_ERR_CORRUPT,
            "has no column beside the label's; fields are separated by commas");
    }
    return TERN_OK;
}

// A first line that is one field, but would be several with the separator of other programs.
static enum tern_result check_separator(const struct tern_csv *csv)
{
    const char *line = tern_csv_field(csv, 0);
    if (csv->field_count > 1 || strpbrk(line, ";\t") == NULL) {
        return TERN_OK;
    }
    return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                             "the first line has %s and no comma ('%.30s'): fields are separated "
                             "by commas, and decimals have points",
                             strchr(line, ';') != NULL ? "semicolons" : "tabs", line);
}

enum tern_result tern_csv_columns_learn(const struct tern_csv *csv,
                                        const struct tern_csv_choice *choice,
                                        struct tern_csv_columns *columns)
{
    memset(columns, 0, sizeof *columns);
    TERN_TRY(check_separator(csv));
    columns->count = csv->field_count;
    columns->label = choice->unlabelled ? TERN_CSV_NO_COLUMN : columns->count - 1;
    columns->group = TERN_CSV_NO_COLUMN;
    columns->skipped = calloc(columns->count, sizeof *columns->skipped);
    if (columns->skipped == NULL) {
        return tern_input_refuse(csv->input, TERN_ERR_NO_MEMORY, "no memory for its columns");
    }
    if (choice->label != NULL) {
        TERN_TRY(find_column(csv, choice, columns, choice->label, &columns->label));
    }
    if (choice->group != NULL) {
        TERN_TRY(find_column(csv, choice, columns, choice->group, &columns->group));
    }
    TERN_TRY(skip_columns(csv, columns, choice));
    bool any_number = false;
    for (uint32_t c = 0; c < columns->count; c++) {
        float value;
        any_number =
            any_number || (!columns->skipped[c] && tern_csv_number(tern_csv_field(csv, c), &value));
    }
    if (choice->features_only && choice->label != NULL && columns->label == TERN_CSV_NO_COLUMN &&
        any_number) {
        return tern_input_refuse(csv->input, TERN_ERR_CONFIG,
                                 "its first line has numbers: to be given by name, as label=%.40s, "
                                 "columns need a line with their names",
                                 choice->label);
    }
    // With a single number among them it is a row, so that one damaged field is not overlooked.
    columns->header = columns->header || !any_number;
    return TERN_OK;
}
