// Which clients take tasks and do not report them, for `status`: how many rounds do not count on, what
// round.over_selection makes up for the tasks that the others do not report, and whose training fails.
#ifndef TERN_CLI_UNREPORTED_H
#define TERN_CLI_UNREPORTED_H

#include "admin/rows.h"
#include "cli/state.h"

#define TERN_FAILING_NAMED 5

// A client whose last training failed.
struct tern_failing {
    uint64_t id;
    char name[TERN_DB_NAME_MAX];
    uint32_t round;
    uint32_t failure; // tern_TrainingFailure
};

struct tern_unreported {
    uint64_t unreliable;   // clients that rounds do not count on (rounds/reliability.h)
    double share;          // of the tasks of the others, about: not reported
    double over_selection; // that would make up for it; 0 = what is set does
    uint64_t failing;      // clients whose last training failed; the newest of them by name
    struct tern_failing named[TERN_FAILING_NAMED];
};

// TERN_ERR_IO and the like: tern_db_error() says it
TERN_MUST_USE enum tern_result tern_unreported_load(const struct tern_cli *cli, struct tern_db *db,
                                                    const struct tern_db_counts *counts,
                                                    struct tern_unreported *unreported);

void tern_unreported_print(const struct tern_unreported *unreported);
void tern_unreported_json(cJSON *object, const struct tern_unreported *unreported);

#endif
