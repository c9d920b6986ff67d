#include "federation/judges.h"

#include <stdlib.h>
#include <string.h>

// Versions that are looked through first for the newest that counts, then twice as many each time.
#define WINDOW 32u

// An evaluator that was seen in the week before a version was made, or later, is expected to report the version.
#define SEEN_WITHIN_MS (7 * 24 * 3600 * 1000ull)

struct times {
    uint64_t *list; // ascending, once they are loaded
    uint32_t count;
    uint32_t room;
};

// When each evaluator enrolled, and when it was last seen. Both lists are sorted by time.
struct evaluators {
    struct times created_ms;
    struct times last_seen_ms;
};

static void free_evaluators(struct evaluators *evaluators)
{
    free(evaluators->created_ms.list);
    free(evaluators->last_seen_ms.list);
}

static enum tern_result add_time(struct times *times, uint64_t ms)
{
    if (times->count == times->room) {
        const uint32_t room = 2 * times->room + 16;
        uint64_t *list = realloc(times->list, room * sizeof list[0]);
        if (list == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        times->list = list;
        times->room = room;
    }
    times->list[times->count++] = ms;
    return TERN_OK;
}

static enum tern_result add_evaluator(struct evaluators *evaluators,
                                      const struct tern_db_evaluator *row)
{
    TERN_TRY(add_time(&evaluators->created_ms, row->created_ms));
    return add_time(&evaluators->last_seen_ms, row->last_seen_ms);
}

static int in_order(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one;
    const uint64_t b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static void sort(struct times *times)
{
    if (times->count > 0) {
        qsort(times->list, times->count, sizeof times->list[0], in_order);
    }
}

static enum tern_result load_evaluators(struct tern_db *db, struct evaluators *evaluators)
{
    struct tern_db_evaluator row;
    struct tern_db_rows *rows = tern_db_evaluators(db);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, add_evaluator(evaluators, &row));
    }
    TERN_TRY(tern_db_end(rows));
    sort(&evaluators->created_ms);
    sort(&evaluators->last_seen_ms);
    return TERN_OK;
}

// How many of the sorted times are below `end`.
static uint32_t count_before(const struct times *times, uint64_t end)
{
    uint32_t low = 0;
    uint32_t high = times->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (times->list[middle] < end) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// An evaluator that was last seen long before the version was made had enrolled before that, too.
static struct tern_judged judge(const struct evaluators *evaluators,
                                const struct tern_db_reports *row)
{
    const uint64_t week_ms = SEEN_WITHIN_MS;
    const uint64_t since_ms = row->created_ms > week_ms ? row->created_ms - week_ms : 0;
    const uint32_t gone = count_before(&evaluators->last_seen_ms, since_ms);
    const uint32_t by_then = count_before(&evaluators->created_ms, row->created_ms + 1);
    const bool late = by_then <= gone;
    struct tern_judged judged = {.version = row->version,
                                 .model = row->model,
                                 .reports = late ? row->reports : row->in_time,
                                 .expected =
                                     late ? evaluators->created_ms.count - gone : by_then - gone};
    judged.counts = judged.reports > 0 && 2 * (uint64_t)judged.reports >= judged.expected;
    // A report of an evaluator that was not expected, since it was away, is no reason for "3 of 2".
    judged.expected = judged.expected > judged.reports ? judged.expected : judged.reports;
    return judged;
}

static enum tern_result add_judged(struct tern_judges *judges, const struct tern_judged *judged)
{
    const size_t count = judges->count;
    if ((count & (count - 1)) == 0) {
        struct tern_judged *list =
            realloc(judges->list, (count == 0 ? 1 : 2 * count) * sizeof list[0]);
        if (list == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        judges->list = list;
    }
    judges->list[judges->count++] = *judged;
    return TERN_OK;
}

static enum tern_result load_reports(struct tern_db *db, const struct evaluators *evaluators,
                                     uint32_t first, uint32_t last, struct tern_judges *judges)
{
    struct tern_db_reports row;
    struct tern_db_rows *rows = tern_db_reports(db, first, last);
    while (tern_db_next(rows, &row)) {
        const struct tern_judged judged = judge(evaluators, &row);
        tern_db_check_row(rows, add_judged(judges, &judged));
    }
    return tern_db_end(rows);
}

enum tern_result tern_judges_load(struct tern_db *db, uint32_t first, uint32_t last,
                                  struct tern_judges *judges)
{
    struct evaluators evaluators = {.created_ms = {.count = 0}};
    *judges = (struct tern_judges){.count = 0};
    enum tern_result result = load_evaluators(db, &evaluators);
    if (result == TERN_OK) {
        result = load_reports(db, &evaluators, first, last, judges);
    }
    free_evaluators(&evaluators);
    return result;
}

void tern_judges_free(struct tern_judges *judges)
{
    free(judges->list);
    memset(judges, 0, sizeof *judges);
}

static bool is_before(const struct tern_judged *judged, const struct tern_db_evaluation *row)
{
    return judged->version < row->version ||
           (judged->version == row->version && judged->model < row->model);
}

// A version that came since the judges were loaded has no figure yet.
bool tern_judges_next(struct tern_judges *judges, struct tern_db_rows *rows,
                      struct tern_db_evaluation *row)
{
    while (tern_db_next(rows, row)) {
        while (judges->next < judges->count && is_before(&judges->list[judges->next], row)) {
            judges->next++;
        }
        const struct tern_judged *at =
            judges->next < judges->count ? &judges->list[judges->next] : NULL;
        if (at != NULL && at->counts && at->version == row->version && at->model == row->model) {
            return true;
        }
    }
    return false;
}

// Looks through the judged versions from the last on. Returns whether one counts.
static bool find_newest(const struct tern_judges *judges, struct tern_judged *newest,
                        struct tern_judged *pending)
{
    for (size_t i = judges->count; i > 0; i--) {
        const struct tern_judged *at = &judges->list[i - 1];
        if (at->counts) {
            *newest = *at;
            return true;
        }
        if (pending->reports == 0) {
            *pending = *at;
        }
    }
    return false;
}

static enum tern_result search(struct tern_db *db, const struct evaluators *evaluators,
                               uint32_t last, struct tern_judged *newest,
                               struct tern_judged *pending)
{
    uint32_t window = WINDOW;
    bool more = true;
    while (more) {
        const uint32_t first = last >= window ? last - window + 1 : 0;
        struct tern_judges judges = {.count = 0};
        const enum tern_result result = load_reports(db, evaluators, first, last, &judges);
        more = result == TERN_OK && !find_newest(&judges, newest, pending) && first > 0;
        tern_judges_free(&judges);
        TERN_TRY(result);
        last = more ? first - 1 : 0;
        window *= 2;
    }
    return TERN_OK;
}

enum tern_result tern_judges_newest(struct tern_db *db, struct tern_judged *newest,
                                    struct tern_judged *pending)
{
    uint32_t last = 0;
    struct evaluators evaluators = {.created_ms = {.count = 0}};
    *newest = (struct tern_judged){.reports = 0};
    *pending = (struct tern_judged){.reports = 0};
    const enum tern_result found = tern_db_evaluated_last(db, &last);
    if (found != TERN_OK) {
        return tern_db_may_miss(found);
    }
    enum tern_result result = load_evaluators(db, &evaluators);
    if (result == TERN_OK) {
        result = search(db, &evaluators, last, newest, pending);
    }
    free_evaluators(&evaluators);
    return result;
}
