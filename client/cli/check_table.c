// The table of `tern-client check --data`: what a CSV file holds, column by column.
#include "cli/check.h"
#include "hosted/csv_header.h"
#include "hosted/csv_judge.h"
#include "hosted/csv_text.h"
#include "hosted/text_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct row {
    const char *kind;
    char becomes[160];
    uint64_t missing;
    bool looked_at; // there are statistics
};

static const char *kind_of(const struct tern_csv_profile *profile,
                           const struct tern_csv_column *column)
{
    if (column->suspect == TERN_CSV_TIME) {
        return "time";
    }
    if (column->missing.count == profile->rows) {
        return "empty";
    }
    return tern_csv_is_numeric(column) ? "number" : "text";
}

static void describe_feature(const struct tern_csv_profile *profile,
                             const struct tern_csv_choice *choice,
                             const struct tern_csv_column *column, struct row *row)
{
    const char *why = tern_csv_why_useless(profile, column);
    const char *suspect = tern_csv_suspect_text(column->suspect);
    const bool filled = choice->missing == TERN_CSV_MISSING_MEAN && column->missing.count > 0;
    if (why != NULL) {
        snprintf(row->becomes, sizeof row->becomes, "a feature of no use: %s", why);
    } else if (column->bad.count > 0) {
        snprintf(row->becomes, sizeof row->becomes, "refused: '%s' in line %" PRIu64,
                 column->bad.text, column->bad.line);
    } else if (filled) {
        snprintf(row->becomes, sizeof row->becomes, "a feature, %" PRIu64 " filled with the mean",
                 column->missing.count);
    } else {
        snprintf(row->becomes, sizeof row->becomes, "a feature%s%s", suspect[0] != '\0' ? "; " : "",
                 suspect);
    }
}

static struct row describe(const struct tern_csv_profile *profile,
                           const struct tern_csv_choice *choice, uint32_t c)
{
    const struct tern_csv_column *column = &profile->column[c];
    const bool label = c == profile->columns.label;
    struct row row = {.kind = kind_of(profile, column),
                      .missing = column->missing.count,
                      .looked_at = label || column->feature};
    if (column->feature) {
        describe_feature(profile, choice, column, &row);
    } else {
        snprintf(row.becomes, sizeof row.becomes, "%s",
                 label                         ? choice->numeric ? "the target" : "the label"
                 : c == profile->columns.group ? "the group"
                                               : "left out (drop)");
    }
    return row;
}

static uint64_t distinct_of(const struct tern_csv_profile *profile, uint32_t c)
{
    const bool labels = c == profile->columns.label && profile->labels.count > 0;
    return labels ? profile->labels.count : profile->column[c].distinct;
}

static void print(const struct tern_csv_profile *profile, const struct tern_csv_choice *choice)
{
    static const struct tern_text_column columns[] = {
        {"COLUMN", TERN_TEXT_LONG},     {"KIND", TERN_TEXT_WORD},   {"MISSING", TERN_TEXT_NUMBER},
        {"MIN", TERN_TEXT_NUMBER},      {"MEAN", TERN_TEXT_NUMBER}, {"MAX", TERN_TEXT_NUMBER},
        {"DISTINCT", TERN_TEXT_NUMBER}, {"BECOMES", TERN_TEXT_LONG}};
    struct tern_text_table table = TERN_TEXT_TABLE(columns);
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        const struct row row = describe(profile, choice, c);
        const double values[] = {column->low, column->mean, column->high};
        tern_text_cell(&table, "%s", column->name);
        tern_text_cell(&table, "%s", row.looked_at ? row.kind : "-");
        tern_text_cell(&table, "%" PRIu64, row.missing);
        for (size_t i = 0; i < 3; i++) {
            tern_text_cell(&table, column->numbers > 0 ? "%.10g" : "-", values[i]);
        }
        const uint64_t distinct = distinct_of(profile, c);
        tern_text_cell(&table, row.looked_at && distinct > 0 ? "%" PRIu64 : "-", distinct);
        tern_text_cell(&table, "%s", row.becomes);
    }
    if (tern_text_table_print(&table, stdout) != TERN_OK) {
        printf("no memory for the columns\n");
    }
    printf("\n%" PRIu64 " row%s; %s\n\n", profile->rows, tern_plural(profile->rows),
           profile->columns.header ? "the first line names the columns"
                                   : "no line names the columns, which go by number from 0");
}

static void add(const struct tern_csv_profile *profile, const struct tern_csv_choice *choice,
                cJSON *list)
{
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        const struct row row = describe(profile, choice, c);
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "column", column->name);
        cJSON_AddStringToObject(object, "kind", row.looked_at ? row.kind : "");
        cJSON_AddNumberToObject(object, "missing", (double)row.missing);
        if (column->numbers > 0) {
            cJSON_AddNumberToObject(object, "min", column->low);
            cJSON_AddNumberToObject(object, "mean", column->mean);
            cJSON_AddNumberToObject(object, "max", column->high);
        }
        cJSON_AddNumberToObject(object, "distinct", (double)distinct_of(profile, c));
        cJSON_AddStringToObject(object, "becomes", row.becomes);
        cJSON_AddItemToArray(list, object);
    }
}

void tern_check_table_show(const struct tern_csv_profile *profile,
                           const struct tern_csv_choice *choice, struct check_table *table)
{
    if (table->columns != NULL) {
        add(profile, choice, table->columns);
    } else {
        print(profile, choice);
    }
}
