#include "cli/unreported.h"

#include "rounds/reliability.h"
#include <inttypes.h>
#include <math.h>

#define WORTH_TELLING 0.02 // of all tasks
#define STEP 0.05          // of the settings that are advised

// Of every 1 + s that are asked, (1 + s) * (1 - share) report.
static double made_up_by(double share)
{
    return ceil(share / (1.0 - share) / STEP) * STEP;
}

enum tern_result tern_unreported_load(const struct tern_cli *cli, struct tern_db *db,
                                      const struct tern_db_counts *counts,
                                      struct tern_unreported *unreported)
{
    const double set = tern_state_settings(cli)->round_over_selection;
    const double bound = (double)TERN_UNRELIABLE;
    struct tern_db_unreported reliable;
    struct tern_db_unreported unreliable;
    TERN_TRY(tern_db_unreported(db, 0.0, bound, &reliable));
    TERN_TRY(tern_db_unreported(db, bound, 2.0, &unreliable));
    const uint64_t others = counts->clients_revoked + counts->evaluators + unreliable.clients;
    const uint64_t trainers = counts->clients > others ? counts->clients - others : 0;
    *unreported = (struct tern_unreported){.unreliable = unreliable.clients};
    if (trainers > 0) {
        unreported->share = reliable.sum / (double)trainers;
    }
    if (unreported->share >= WORTH_TELLING && set < unreported->share / (1.0 - unreported->share)) {
        unreported->over_selection = made_up_by(unreported->share);
    }
    return TERN_OK;
}

void tern_unreported_print(const struct tern_unreported *unreported)
{
    if (unreported->unreliable > 0) {
        printf("            %" PRIu64 " take%s tasks and do%s not report: rounds do not count on "
               "them until they do (`tern-aggregator clients` lists them as unreliable)\n",
               unreported->unreliable, unreported->unreliable == 1 ? "s" : "",
               unreported->unreliable == 1 ? "es" : "");
    }
    if (unreported->over_selection > 0.0) {
        printf("            of the others' tasks %.0f %% are not reported: with "
               "round.over_selection = %.2g rounds need not wait for those\n",
               100.0 * unreported->share, unreported->over_selection);
    }
}

void tern_unreported_json(cJSON *object, const struct tern_unreported *unreported)
{
    tern_json_u64(object, "clients_unreliable", unreported->unreliable);
    cJSON_AddNumberToObject(object, "tasks_unreported", unreported->share);
    cJSON_AddNumberToObject(object, "advised_over_selection", unreported->over_selection);
}
