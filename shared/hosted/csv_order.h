// How the numbers of a table's column follow each other, and whether they number or time the rows
// instead of measuring something: a Unix time, a date, a row's number, an id. Such a column tells
// nothing of new rows. Hosted; reentrant.
#ifndef TERN_CSV_ORDER_H
#define TERN_CSV_ORDER_H

#include <stdbool.h>
#include <stdint.h>

// Steps in one direction.
struct tern_csv_steps {
    uint64_t count;
    uint64_t repeats; // those as large as the one before in this direction
    double last;
    double mean;
    double square; // sum of squared deviations from the mean
};

struct tern_csv_order {
    uint64_t count;  // numbers
    uint64_t equals; // steps of 0
    double first;
    double last;
    bool whole;     // no number has a fraction
    uint64_t times; // numbers that are a Unix time in s, ms, us or ns
    uint64_t dates; // numbers that are a day, as 20240131
    struct tern_csv_steps up;
    struct tern_csv_steps down;
};

// What is known of all numbers of the column.
struct tern_csv_spread {
    uint64_t numbers;
    double low;
    double high;
    double mean;
    double deviation;
    uint64_t distinct; // 0: not known
};

enum tern_csv_suspect {
    TERN_CSV_MEASURES,
    // Left out of a proposal:
    TERN_CSV_TIME,       // Unix times or dates
    TERN_CSV_ROW_NUMBER, // each number from 0 or 1 to the last once, in any order
    TERN_CSV_COUNTS,     // rises or falls by even steps, or has the name of a time and does so
    TERN_CSV_ID,         // named as an id, or without a name, and whole numbers
    // Kept, and named:
    TERN_CSV_SORTED, // rises or falls by uneven steps
    TERN_CSV_UNIQUE, // whole numbers, each once
};

void tern_csv_order_add(struct tern_csv_order *order, double value);

// Puts a number before all others.
void tern_csv_order_begin_with(struct tern_csv_order *order, double value);

// name: of the column; NULL where the table has no header line.
enum tern_csv_suspect tern_csv_order_judge(const struct tern_csv_order *order,
                                           const struct tern_csv_spread *spread, const char *name);

static inline bool tern_csv_is_left_out(enum tern_csv_suspect suspect)
{
    return suspect >= TERN_CSV_TIME && suspect <= TERN_CSV_ID;
}

// "its values are Unix times or dates": why a column tells nothing of new rows.
const char *tern_csv_suspect_text(enum tern_csv_suspect suspect);

#endif
