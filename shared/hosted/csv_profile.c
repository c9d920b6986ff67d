#include "hosted/csv_profile.h"
#include "util/sqrt.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 11 // bytes of a column's number, with the NUL

void tern_csv_profile_free(struct tern_csv_profile *profile)
{
    tern_csv_columns_free(&profile->columns);
    tern_name_set_free(&profile->labels);
    free(profile->column);
    free(profile->label);
    free(profile->names);
    profile->names = NULL;
    profile->column = NULL;
    profile->label = NULL;
}

static void note(struct tern_csv_found *found, uint64_t line, const char *text)
{
    if (found->count++ == 0) {
        found->line = line;
        snprintf(found->text, sizeof found->text, "%s", text);
    }
}

static enum tern_result begin(const struct tern_csv *csv, const struct tern_csv_choice *choice,
                              struct tern_csv_profile *profile)
{
    struct tern_csv_columns *columns = &profile->columns;
    TERN_TRY(tern_csv_columns_learn(csv, choice, columns));
    profile->column = calloc(columns->count, sizeof *profile->column);
    profile->names = malloc(columns->header ? csv->text_len : (size_t)columns->count * NUMBER_MAX);
    if (profile->column == NULL || profile->names == NULL) {
        return tern_input_refuse(csv->input, TERN_ERR_NO_MEMORY, "no memory for its columns");
    }
    char *next = profile->names;
    for (uint32_t c = 0; c < columns->count; c++) {
        struct tern_csv_column *column = &profile->column[c];
        column->feature = !columns->skipped[c];
        column->rises = true;
        column->name = next;
        next += columns->header ? sprintf(next, "%s", tern_csv_field(csv, c))
                                : sprintf(next, "%" PRIu32, c);
        next++;
    }
    return TERN_OK;
}

// Welford's update: mean and sum of squares in one pass, without cancellation. Until the end,
// `deviation` holds the sum.
static void add_number(struct tern_csv_column *column, double value)
{
    column->rises = column->rises && (column->numbers == 0 || value > column->high);
    column->low = column->numbers == 0 || value < column->low ? value : column->low;
    column->high = column->numbers == 0 || value > column->high ? value : column->high;
    column->numbers++;
    const double off = value - column->mean;
    column->mean += off / (double)column->numbers;
    column->deviation += off * (value - column->mean);
}

static void add_field(struct tern_csv_column *column, uint64_t line, const char *text)
{
    float value;
    if (text[0] == '\0') {
        note(&column->missing, line, text);
    } else if (!tern_csv_number(text, &value)) {
        note(&column->bad, line, text);
    } else if ((double)value >= TERN_CSV_HUGE || (double)value <= -TERN_CSV_HUGE) {
        note(&column->huge, line, text);
    } else {
        add_number(column, strtod(text, NULL)); // finer than float32, of a time say
    }
}

static enum tern_result add_label(const struct tern_csv *csv, const char *text,
                                  struct tern_csv_profile *profile)
{
    uint32_t number;
    const uint32_t known = profile->labels.count;
    const enum tern_result result = tern_name_set_find(&profile->labels, text, true, &number);
    if (result == TERN_ERR_TOO_LARGE) {
        profile->many_labels = true;
        return TERN_OK;
    }
    if (result != TERN_OK) {
        return tern_input_refuse(csv->input, result, "no memory for its labels");
    }
    if (number == known) {
        profile->label[number].line = csv->line;
    }
    profile->label[number].count++;
    return TERN_OK;
}

static enum tern_result add_row(const struct tern_csv *csv, const struct tern_csv_choice *choice,
                                struct tern_csv_profile *profile)
{
    const struct tern_csv_columns *columns = &profile->columns;
    if (csv->field_count != columns->count) {
        note(&profile->ragged, csv->line, tern_csv_field(csv, 0));
        return TERN_OK;
    }
    for (uint32_t c = 0; c < columns->count; c++) {
        if (profile->column[c].feature || c == columns->label) {
            add_field(&profile->column[c], csv->line, tern_csv_field(csv, c));
        }
    }
    profile->rows++;
    return columns->label == TERN_CSV_NO_COLUMN || choice->numeric
               ? TERN_OK
               : add_label(csv, tern_csv_field(csv, columns->label), profile);
}

static void finish(struct tern_csv_profile *profile)
{
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        struct tern_csv_column *column = &profile->column[c];
        column->rises = column->rises && column->numbers > 2;
        column->deviation =
            column->numbers > 0 ? tern_sqrt(column->deviation / (double)column->numbers) : 0;
    }
}

static enum tern_result read_all(struct tern_csv *csv, const struct tern_csv_choice *choice,
                                 struct tern_csv_profile *profile)
{
    bool more;
    TERN_TRY(tern_csv_next(csv, &more));
    if (more) {
        TERN_TRY(begin(csv, choice, profile));
    }
    if (more && profile->columns.header) {
        TERN_TRY(tern_csv_next(csv, &more));
    }
    while (more) {
        TERN_TRY(add_row(csv, choice, profile));
        TERN_TRY(tern_csv_next(csv, &more));
    }
    if (profile->rows == 0) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT, "has no rows of data");
    }
    finish(profile);
    return TERN_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool tern_csv_profile_classes(const struct tern_csv_profile *profile, char *text, size_t size)
{
    const uint32_t count = profile->labels.count;
    text[0] = '\0';
    if (count == 0) { // of numbers, or without labels
        return true;
    }
    char **names = malloc(count * sizeof *names);
    size_t used = 0;
    if (names == NULL) {
        return false;
    }
    memcpy(names, profile->labels.names, count * sizeof *names);
    qsort(names, count, sizeof *names, compare_names);
    bool fits = true;
    for (uint32_t i = 0; fits && i < count; i++) {
        fits = strpbrk(names[i], "|\"\r\n") == NULL && used + strlen(names[i]) + 2 <= size;
        used += fits
                    ? (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? "|" : "", names[i])
                    : 0;
    }
    free(names);
    return fits;
}

enum tern_result tern_csv_profile_read(struct tern_input *input,
                                       const struct tern_csv_choice *choice,
                                       struct tern_csv_profile *profile)
{
    memset(profile, 0, sizeof *profile);
    tern_name_set_init(&profile->labels, TERN_CSV_LABELS_MAX);
    struct tern_csv *csv = malloc(sizeof *csv);
    profile->label = calloc(TERN_CSV_LABELS_MAX, sizeof *profile->label);
    if (csv == NULL || profile->label == NULL) {
        free(csv);
        return tern_input_refuse(input, TERN_ERR_NO_MEMORY, "no memory to read it");
    }
    tern_csv_begin(csv, input, TERN_CSV_FEATURES_MAX + 64);
    const enum tern_result result = read_all(csv, choice, profile);
    tern_csv_end(csv);
    free(csv);
    return result;
}
