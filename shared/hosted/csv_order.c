#include "hosted/csv_order.h"
#include "util/math.h"
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define LEAST 8u     // a column with fewer numbers is not suspected
#define MANY 20u     // a column with so many numbers may have a few steps in the other direction
#define CALENDAR 31u // most different values of hours, days and months, which repeat in any table
#define EVEN                                                                                       \
    0.75 // largest deviation of even steps, relative to their mean; 1 for sorted random numbers
#define SAME_STEP 0.6 // smallest share of steps like the step before, where a column counts

// --- Gathering

static bool is_between(double value, double low, double high)
{
    return value >= low && value < high;
}

// Accepts the years 2001 to 2039.
static bool is_unix_time(double value)
{
    const double low = 1e9;
    const double high = 2.2e9;
    return is_between(value, low, high) || is_between(value, low * 1e3, high * 1e3) ||
           is_between(value, low * 1e6, high * 1e6) || is_between(value, low * 1e9, high * 1e9);
}

static bool is_date(double value)
{
    if (!is_between(value, 19000101, 21000000) || value != floor(value)) {
        return false;
    }
    const uint32_t month = (uint32_t)value / 100 % 100;
    const uint32_t day = (uint32_t)value % 100;
    return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

static void add_step(struct tern_csv_steps *steps, double size)
{
    const double off = size - steps->mean;
    steps->repeats += steps->count > 0 && fabs(size - steps->last) <= 1e-6 * size;
    steps->count++;
    steps->mean += off / (double)steps->count;
    steps->square += off * (size - steps->mean);
    steps->last = size;
}

static void step(struct tern_csv_order *order, double from, double to)
{
    if (to > from) {
        add_step(&order->up, to - from);
    } else if (to < from) {
        add_step(&order->down, from - to);
    } else {
        order->equals++;
    }
}

static void note_kind(struct tern_csv_order *order, double value)
{
    order->whole = (order->whole || order->count == 0) && value == floor(value);
    order->times += is_unix_time(value);
    order->dates += is_date(value);
    order->count++;
}

void tern_csv_order_add(struct tern_csv_order *order, double value)
{
    if (order->count == 0) {
        order->first = value;
    } else {
        step(order, order->last, value);
    }
    note_kind(order, value);
    order->last = value;
}

void tern_csv_order_prepend(struct tern_csv_order *order, double value)
{
    if (order->count == 0) {
        tern_csv_order_add(order, value);
        return;
    }
    step(order, value, order->first);
    note_kind(order, value);
    order->first = value;
}

// --- Names

static bool is_one_of(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(name, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool names_a_time(const char *name)
{
    static const char *const names[] = {"time",   "timestamp", "date",    "datetime", "ts",
                                        "epoch",  "seconds",   "elapsed", "unixtime", "sample",
                                        "record", "cycle",     "sec",     "secs",     "uptime",
                                        "frame",  "tick"};
    return is_one_of(name, names, sizeof names / sizeof names[0]);
}

static bool names_an_id(const char *name)
{
    static const char *const names[] = {"id",     "index", "idx",   "uid",       "uuid", "guid",
                                        "serial", "row",   "rowid", "rownumber", "nr",   "no",
                                        "nr.",    "no.",   "#",     "key"};
    const size_t len = strlen(name);
    if (is_one_of(name, names, sizeof names / sizeof names[0]) ||
        strncasecmp(name, "Unnamed:", 8) == 0) {
        return true;
    }
    // Accepts patient_id, sample-ID, "machine id" and patientId, rejects "humid".
    return len > 2 && strcasecmp(name + len - 2, "id") == 0 &&
           (strchr("_- .", name[len - 3]) != NULL || name[len - 2] == 'I');
}

// --- Judging

static bool is_mostly(uint64_t part, uint64_t whole)
{
    return whole > 0 && (double)part >= 0.9 * (double)whole;
}

// Whether the numbers are 0..n-1 or 1..n. Other n whole numbers of that range hardly ever have the same mean and deviation.
static bool is_numbering(const struct tern_csv_order *order, const struct tern_csv_spread *spread)
{
    const double n = (double)spread->numbers;
    const double variance = (n * n - 1) / 12;
    return order->whole && spread->high - spread->low == n - 1 &&
           (spread->low == 0 || spread->low == 1) &&
           fabs(spread->mean - (spread->low + spread->high) / 2) <= 1e-7 * n &&
           fabs(spread->deviation * spread->deviation - variance) <= 1e-7 * variance &&
           (spread->distinct == 0 || spread->distinct == spread->numbers);
}

// Returns the direction of nearly all steps; NULL: there is none. *back: steps in the other direction, such as those
// between the rows of two sites, or of a line that was written late.
static const struct tern_csv_steps *direction_of(const struct tern_csv_order *order, uint64_t *back)
{
    const struct tern_csv_steps *most =
        order->up.count >= order->down.count ? &order->up : &order->down;
    const uint64_t allowed = order->count >= MANY ? 1 + order->count / 20 : 0;
    *back = order->up.count + order->down.count - most->count;
    return most->count > 1 && *back <= allowed ? most : NULL;
}

static bool is_even(const struct tern_csv_order *order, const struct tern_csv_steps *steps)
{
    const double deviation = tern_sqrt(steps->square / (double)steps->count);
    const bool same = (double)steps->repeats >= SAME_STEP * (double)(steps->count - 1);
    return same || (order->equals == 0 && deviation < EVEN * steps->mean);
}

static enum tern_csv_suspect judge_order(const struct tern_csv_order *order,
                                         const struct tern_csv_spread *spread, const char *name)
{
    uint64_t back;
    const struct tern_csv_steps *steps = direction_of(order, &back);
    if (steps == NULL) {
        return TERN_CSV_MEASURES;
    }
    const bool named = name != NULL && (names_a_time(name) || names_an_id(name) || name[0] == '\0');
    if (named) {
        return TERN_CSV_COUNTS;
    }
    // Few different values, even if each site starts over, are hours, months or counts.
    const uint64_t each = spread->distinct * (back + 1);
    const bool few = spread->distinct > 0 && 10 * each < 3 * spread->numbers;
    const bool calendar = order->whole && spread->distinct > 0 && spread->distinct <= CALENDAR;
    if ((few && !order->whole) || ((few || back > 0) && calendar)) {
        return TERN_CSV_MEASURES;
    }
    return !few && is_even(order, steps) ? TERN_CSV_COUNTS : TERN_CSV_SORTED;
}

// Whether different whole numbers are hardly measurements: random numbers of their range would repeat, or the range is
// too large for the number of rows.
static bool is_sparse(const struct tern_csv_spread *spread)
{
    const double n = (double)spread->numbers;
    const double range = spread->high - spread->low;
    return n * n / 2 >= 5 * range || range >= 1000 * n;
}

static enum tern_csv_suspect judge_id(const struct tern_csv_order *order,
                                      const struct tern_csv_spread *spread, const char *name)
{
    const bool unique = spread->distinct == spread->numbers;
    if (!order->whole || spread->numbers < MANY || spread->distinct == 0) {
        return TERN_CSV_MEASURES;
    }
    if (name != NULL &&
        (names_an_id(name) ? unique || spread->distinct > CALENDAR : name[0] == '\0' && unique)) {
        return TERN_CSV_ID;
    }
    return unique && is_sparse(spread) ? TERN_CSV_UNIQUE : TERN_CSV_MEASURES;
}

enum tern_csv_suspect tern_csv_order_judge(const struct tern_csv_order *order,
                                           const struct tern_csv_spread *spread, const char *name)
{
    if (order->count < LEAST || order->up.count + order->down.count == 0) {
        return TERN_CSV_MEASURES;
    }
    if (is_mostly(order->times, order->count) || is_mostly(order->dates, order->count)) {
        return TERN_CSV_TIME;
    }
    if (is_numbering(order, spread)) {
        return TERN_CSV_ROW_NUMBER;
    }
    const enum tern_csv_suspect by_order = judge_order(order, spread, name);
    return by_order == TERN_CSV_MEASURES ? judge_id(order, spread, name) : by_order;
}

const char *tern_csv_suspect_text(enum tern_csv_suspect suspect)
{
    switch (suspect) {
    case TERN_CSV_TIME:
        return "its values are times or dates";
    case TERN_CSV_ROW_NUMBER:
        return "it numbers the rows";
    case TERN_CSV_COUNTS:
        return "it counts from row to row, as a row's number or a time does";
    case TERN_CSV_ID:
        return "its name and whole numbers are those of an id";
    case TERN_CSV_SORTED:
        return "it rises or falls from row to row, as a time, a meter or a sorted table does";
    case TERN_CSV_UNIQUE:
        return "its values are whole numbers, each there once, as an id's";
    case TERN_CSV_MEASURES:
        break;
    }
    return "";
}
