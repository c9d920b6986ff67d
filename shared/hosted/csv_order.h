// Detects columns that number or time the rows instead of measuring something: Unix times, dates, row numbers, ids. Such
// columns predict nothing about new rows. Gathers how the numbers of a column follow each other. Reentrant.
#ifndef TERN_CSV_ORDER_H
#define TERN_CSV_ORDER_H

#include <stdbool.h>
#include <stdint.h>

// Differences between consecutive numbers, in one direction.
struct tern_csv_steps {
    uint64_t count;
    uint64_t repeats; // steps as large as the step before
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
    uint64_t times; // numbers that can be Unix times in s, ms, us or ns
    uint64_t dates; // numbers that can be dates, such as 20240131
    struct tern_csv_steps up;
    struct tern_csv_steps down;
};

// Statistics of all numbers of the column.
struct tern_csv_spread {
    uint64_t numbers;
    double low;
    double high;
    double mean;
    double deviation;
    uint64_t distinct; // different numbers; 0: too many to count
};

enum tern_csv_suspect {
    TERN_CSV_MEASURES, // not suspect
    // `init --data` leaves these columns out:
    TERN_CSV_TIME,       // Unix times or dates
    TERN_CSV_ROW_NUMBER, // 0 to n - 1 or 1 to n, each once, in any order
    TERN_CSV_COUNTS, // rises or falls by even steps, or by any steps and is named like a time or id
    TERN_CSV_ID,     // whole numbers of a column that is named like an id or has an empty name
    // It keeps these and warns:
    TERN_CSV_SORTED, // rises or falls by uneven steps
    TERN_CSV_UNIQUE, // whole numbers, each once
};

void tern_csv_order_add(struct tern_csv_order *order, double value);

// Adds a number in front of all others.
void tern_csv_order_prepend(struct tern_csv_order *order, double value);

// name: the column's; NULL: the table has no header line.
enum tern_csv_suspect tern_csv_order_judge(const struct tern_csv_order *order,
                                           const struct tern_csv_spread *spread, const char *name);

static inline bool tern_csv_is_left_out(enum tern_csv_suspect suspect)
{
    return suspect >= TERN_CSV_TIME && suspect <= TERN_CSV_ID;
}

// Returns why such a column predicts nothing: "its values are times or dates".
const char *tern_csv_suspect_text(enum tern_csv_suspect suspect);

#endif
