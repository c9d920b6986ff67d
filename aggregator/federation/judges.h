// Which versions have a figure: those that at least half of their evaluators reported. Read from the store once per
// command or answer: one query for the evaluators, one that counts reports. Reentrant.
#ifndef TERN_FEDERATION_JUDGES_H
#define TERN_FEDERATION_JUDGES_H

#include "store/store.h"

// A version's replica or global model that at least one evaluator reported. Reports and evaluators of revoked clients count
// nowhere. `expected` counts the evaluators that had enrolled before the version was made and were seen within the week
// before, or since. Where there is none, as for version 0 of most federations, all evaluators are expected, and late
// reports count.
struct tern_judged {
    uint32_t version;
    enum tern_db_evaluated model;
    uint32_t reports; // 0: nothing was reported
    uint32_t expected;
    bool counts; // the version has a figure
};

struct tern_judges {
    struct tern_judged *list; // by version and model
    size_t count;
    size_t next; // of tern_judges_next()
};

// Loads the reports on versions first to last. Free them by tern_judges_free(), after an error too.
// TERN_ERR_NO_MEMORY; errors of the store
TERN_MUST_USE enum tern_result tern_judges_load(struct tern_db *db, uint32_t first, uint32_t last,
                                                struct tern_judges *judges);
void tern_judges_free(struct tern_judges *judges);

// Reads the next report that belongs to a figure: tern_db_next() without the versions that do not count.
bool tern_judges_next(struct tern_judges *judges, struct tern_db_rows *rows,
                      struct tern_db_evaluation *row);

// Finds the newest version that has a figure, its global model before its replica; and the newest that was reported
// and has none, if that is later. reports of each is 0: none.
// TERN_ERR_NO_MEMORY; errors of the store
TERN_MUST_USE enum tern_result tern_judges_newest(struct tern_db *db, struct tern_judged *newest,
                                                  struct tern_judged *pending);

#endif
