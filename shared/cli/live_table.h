// Tables of measurements, printed row by row as text, or collected as JSON. A row is a JSON object;
// the columns select the fields to print, and their format.
#ifndef TERN_CLI_TABLE_H
#define TERN_CLI_TABLE_H

#include <cjson/cJSON.h>
#include <stdbool.h>

struct column {
    const char *key;   // name of the field; NULL ends a list of columns
    const char *title; // no wider than `width`
    int width;
    int decimals; // TABLE_TEXT: text, left-aligned
};

enum { TABLE_TEXT = -1 };

// All tables of one verb.
struct report {
    cJSON *json; // an object: the rows of each table by its key
    bool text;   // print each row at once
};

// Prints the heading of a table whose rows are collected under `key`.
void tern_report_table(struct report *report, const char *key, const char *heading,
                       const struct column *columns);

// Adds a row to the report and takes ownership of it.
void tern_report_row(struct report *report, const char *key, const struct column *columns,
                     cJSON *row);

// Prints JSON and a newline to stdout.
void tern_print_json(const cJSON *json);

#endif
