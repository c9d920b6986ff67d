// Which clients take tasks and do not report them, for `status`: how many rounds do not count on, and what
// round.over_selection makes up for the tasks that the others do not report.
#ifndef TERN_CLI_UNREPORTED_H
#define TERN_CLI_UNREPORTED_H

#include "admin/rows.h"
#include "cli/state.h"

struct tern_unreported {
    uint64_t unreliable;   // clients that rounds do not count on (rounds/reliability.h)
    double share;          // of the tasks of the others, about: not reported
    double over_selection; // that would make up for it; 0 = what is set does
};

// TERN_ERR_IO and the like: tern_db_error() says it
TERN_MUST_USE enum tern_result tern_unreported_load(const struct tern_cli *cli, struct tern_db *db,
                                                    const struct tern_db_counts *counts,
                                                    struct tern_unreported *unreported);

void tern_unreported_print(const struct tern_unreported *unreported);
void tern_unreported_json(cJSON *object, const struct tern_unreported *unreported);

#endif
