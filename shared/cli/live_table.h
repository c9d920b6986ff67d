// Tables that are printed row by row while they are measured, and kept for JSON. A row is a JSON object; the columns
// select the fields to print, and their format.
#ifndef TERN_CLI_TABLE_H
#define TERN_CLI_TABLE_H

#include <cjson/cJSON.h>
#include <stdbool.h>

struct column {
    const char *key;   // of the field; NULL ends a list of columns
    const char *title; // no wider than `width`
    int width;
    int decimals; // TABLE_TEXT: text, left-aligned
};

enum { TABLE_TEXT = -1 };

// All tables of one verb.
struct report {
    cJSON *json; // an object: the rows of each table by its key
    bool text;   // print rows as they come
};

// Prints the heading of a table; rows are kept under `key`.
void tern_report_table(struct report *report, const char *key, const char *heading,
                       const struct column *columns);

// Takes a row into the report. A field that is absent is printed as "-".
void tern_report_row(struct report *report, const char *key, const struct column *columns,
                     cJSON *row);

// Prints JSON and a newline to stdout.
void tern_print_json(const cJSON *json);

#endif
