#include "live_table.h"

#include <stdio.h>

static void print_titles(const struct column *columns)
{
    for (const struct column *column = columns; column->key != NULL; column++) {
        int width = column->decimals == TABLE_TEXT ? -column->width : column->width;
        printf("%s%*s", column == columns ? "" : " ", width, column->title);
    }
    putchar('\n');
    (void)fflush(stdout);
}

static void print_field(const struct column *column, const cJSON *field)
{
    bool is_text = column->decimals == TABLE_TEXT;
    if (cJSON_IsString(field)) {
        printf("%*s", is_text ? -column->width : column->width, field->valuestring);
    } else if (cJSON_IsNumber(field)) {
        printf("%*.*f", column->width, is_text ? 0 : column->decimals, field->valuedouble);
    } else {
        printf("%*s", is_text ? -column->width : column->width, "-");
    }
}

static void print_row(const struct column *columns, const cJSON *row)
{
    for (const struct column *column = columns; column->key != NULL; column++) {
        fputs(column == columns ? "" : " ", stdout);
        print_field(column, cJSON_GetObjectItemCaseSensitive(row, column->key));
    }
    putchar('\n');
    (void)fflush(stdout);
}

void tern_report_table(struct report *report, const char *key, const char *heading,
                       const struct column *columns)
{
    cJSON_AddArrayToObject(report->json, key);
    if (report->text) {
        printf("\n%s\n", heading);
        print_titles(columns);
    }
}

void tern_report_row(struct report *report, const char *key, const struct column *columns,
                     cJSON *row)
{
    cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(report->json, key), row);
    if (report->text) {
        print_row(columns, row);
    }
}

void tern_print_json(const cJSON *json)
{
    char *text = cJSON_PrintUnformatted(json);
    puts(text != NULL ? text : "null");
    cJSON_free(text);
}
