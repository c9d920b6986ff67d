#include "cli/unreported.h"

#include "rounds/reliability.h"
#include "wire/wire.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define WORTH_TELLING 0.02 // of all tasks
#define STEP 0.05          // of the settings that are advised

// Of every 1 + s that are asked, (1 + s) * (1 - share) report.
static double made_up_by(double share)
{
    return ceil(share / (1.0 - share) / STEP) * STEP;
}

static enum tern_result load_failing(struct tern_db *db, struct tern_unreported *unreported)
{
    struct tern_db_client client;
    uint32_t named = 0;
    TERN_TRY(tern_db_count_failing(db, &unreported->failing));
    struct tern_db_rows *rows = tern_db_failing(db, TERN_FAILING_NAMED);
    while (tern_db_next(rows, &client)) {
        struct tern_failing *failing = &unreported->named[named++];
        *failing = (struct tern_failing){
            .id = client.id, .round = client.failed_round, .failure = client.failure};
        memcpy(failing->name, client.name, sizeof failing->name);
    }
    return tern_db_end(rows);
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
    return load_failing(db, unreported);
}

static const char *reason_of(uint32_t failure)
{
    switch (failure) {
    case tern_TrainingFailure_FAILURE_NOT_FINITE:
        return "its loss or a value was not finite, or its update over limits.norm: its columns "
               "are not scaled (tern-client check), or "
               "train.learning_rate is too high for its rows";
    case tern_TrainingFailure_FAILURE_NO_DATA:
        return "it has no row to train on (tern-client check counts them)";
    default:
        return "its trainer failed: `tern-client status` on the device shows why";
    }
}

static void print_failing(const struct tern_unreported *unreported)
{
    char name[TERN_TEXT];
    uint32_t named = 0;
    while (named < TERN_FAILING_NAMED && unreported->named[named].id != 0) {
        const struct tern_failing *failing = &unreported->named[named++];
        printf("            training failed at client %" PRIu64 " (%s) in round %" PRIu32 ", %s\n",
               failing->id, tern_text_name(failing->name, name), failing->round,
               reason_of(failing->failure));
    }
    if (unreported->failing > named) {
        printf("            and at %" PRIu64
               " more (`tern-aggregator clients --json`: failed_round)\n",
               unreported->failing - named);
    }
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
    print_failing(unreported);
}

void tern_unreported_json(cJSON *object, const struct tern_unreported *unreported)
{
    tern_json_u64(object, "clients_unreliable", unreported->unreliable);
    cJSON_AddNumberToObject(object, "tasks_unreported", unreported->share);
    cJSON_AddNumberToObject(object, "advised_over_selection", unreported->over_selection);
    tern_json_u64(object, "clients_failing", unreported->failing);
    cJSON *list = cJSON_AddArrayToObject(object, "training_failed");
    for (uint32_t i = 0; i < TERN_FAILING_NAMED && unreported->named[i].id != 0; i++) {
        cJSON *failing = cJSON_CreateObject();
        tern_json_u64(failing, "client", unreported->named[i].id);
        tern_json_u64(failing, "round", unreported->named[i].round);
        cJSON_AddStringToObject(failing, "why", reason_of(unreported->named[i].failure));
        cJSON_AddItemToArray(list, failing);
    }
}
