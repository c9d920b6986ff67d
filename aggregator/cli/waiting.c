#include "cli/waiting.h"

#include "admin/above.h"
#include "cli/gateway.h"
#include "cli/readiness.h"
#include "cli/spending.h"
#include "cli/standby.h"
#include "hosted/files.h"
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 5 // members, on a terminal

static uint32_t shown_of(const struct tern_waiting *waiting)
{
    return waiting->shown < SHOWN ? waiting->shown : SHOWN;
}

// --- The service

static void take_text(const cJSON *json, const char *name, char *text, size_t size)
{
    const char *said = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, name));
    if (said != NULL) {
        snprintf(text, size, "%s", said);
    }
}

// It may go by other settings than this command, which were given to `serve` alone. False: it says nothing.
static bool take_its_word(const struct tern_cli *cli, struct tern_waiting *waiting)
{
    char path[PATH_MAX];
    char token[TERN_TEXT] = "";
    uint8_t *data = NULL;
    size_t len = 0;
    tern_state_path(cli, TERN_STATE_ADMIN_TOKEN, path);
    if (tern_file_read_regular(path, sizeof token - 1, &data, &len) != TERN_OK) {
        return false;
    }
    memcpy(token, data, len);
    free(data);
    token[strcspn(token, " \r\n")] = '\0';
    cJSON *said = tern_readiness_waiting(tern_state_settings(cli), token);
    const bool has_said = said != NULL;
    if (has_said) {
        take_text(said, "now", waiting->sentence, sizeof waiting->sentence);
        take_text(said, "advice", waiting->advice, sizeof waiting->advice);
        waiting->needs_help = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(said, "needs_help"));
        cJSON_Delete(said);
    }
    return has_said;
}

// Of a database that several may serve: whether this or another machine's aggregator leads.
static bool is_led(struct tern_db *db)
{
    struct tern_db_node node;
    size_t count = 0;
    return tern_db_nodes(db, &node, 1, &count) == TERN_OK && count == 1 && node.leads;
}

static void say_not_running(const struct tern_cli *cli, struct tern_waiting *waiting)
{
    if (tern_gateway_is_one(cli)) {
        tern_waiting_put_before(waiting, "the gateway is not running (`tern-aggregator relay`)");
        if (!waiting->needs_help) {
            tern_waiting_advise(waiting, "tern-aggregator relay; why it ended is in its log");
        }
        return;
    }
    if (waiting->wait == TERN_WAIT_FINISHED || waiting->wait == TERN_WAIT_ENDED) {
        return; // the federation needs no service
    }
    tern_waiting_put_before(waiting, "the service is not running (`tern-aggregator serve`)");
    if (!waiting->needs_help) {
        tern_waiting_advise(waiting, "systemctl start tern-aggregator; why it ended is in its log: "
                                     "journalctl -u tern-aggregator");
    }
}

static void look_at_service(const struct tern_cli *cli, struct tern_db *db,
                            struct tern_waiting *waiting)
{
    char why[256];
    struct tern_service_above above;
    if (!tern_state_is_served(cli)) {
        if (!is_led(db)) { // by another machine's, which is said elsewhere
            say_not_running(cli, waiting);
        }
        return;
    }
    switch (tern_readiness_ask(tern_state_settings(cli), why)) {
    case TERN_READINESS_BAD:
        tern_waiting_put_before(waiting, why);
        tern_waiting_advise(waiting, "%s", tern_readiness_advice(why));
        waiting->needs_help = true;
        break;
    case TERN_READINESS_SILENT:
        tern_waiting_put_before(waiting, "the service runs, but does not answer at admin.address");
        tern_waiting_advise(waiting, "look again; if it stays so, read its log, then restart it");
        waiting->needs_help = true;
        break;
    case TERN_READINESS_GOOD:
    case TERN_READINESS_UNKNOWN:
        if (!take_its_word(cli, waiting)) {
            tern_gateway_above(cli, &above);
            tern_above_put_before(&above, tern_now_ms(), waiting);
        }
        break;
    }
}

// --- Public

static struct tern_wait_rules rules_of(const struct tern_aggregator_settings *s)
{
    struct tern_wait_rules rules = {
        .rounds = s->round_rounds,
        .min_clients = s->round_min_clients,
        .cohort = s->round_cohort,
        .quorum = s->round_quorum,
        .eligible_within_ms = s->round_eligible_within,
        .come_back_min_ms = s->round_come_back_min,
        .interval_ms = tern_spending_interval_ms(s),
        .interval_is_auto = s->round_min_interval == TERN_AUTO_MS,
        .fits_budgets = strstr(s->schedule_policy, "budget") != NULL ||
                        strcmp(s->round_selection, "budget-aware") == 0,
        .ending = {s->round_divergence_rounds, s->round_patience},
        .statistics_are_wanted = strcmp(s->statistics_columns, "clients") == 0,
        .statistics_min_clients = s->statistics_min_clients,
        .statistics_wait_ms = s->statistics_wait,
    };
    char why[TERN_TAG_WHY_MAX];
    (void)!tern_tags_wanted_parse(s->round_selection, &rules.tags, why);
    return rules;
}

enum tern_result tern_cli_waiting_load(const struct tern_cli *cli, struct tern_db *db,
                                       const struct tern_status *status, uint64_t now_ms,
                                       struct tern_waiting *waiting)
{
    struct tern_wait_rules rules = rules_of(tern_state_settings(cli));
    rules.follower = tern_gateway_is_one(cli) ? TERN_RELAY_FOLLOWER : 0;
    TERN_TRY(tern_waiting_load(db, &rules, status, now_ms, waiting));
    look_at_service(cli, db, waiting);
    return TERN_OK;
}

void tern_cli_waiting_print(const struct tern_waiting *waiting, uint64_t now_ms)
{
    printf("Now         %s\n", waiting->sentence);
    if (waiting->advice[0] != '\0') {
        printf("            %s\n", waiting->advice);
    }
    for (uint32_t i = 0; i < shown_of(waiting); i++) {
        const struct tern_db_client *client = &waiting->members[i].client;
        char name[TERN_TEXT];
        char seen[TERN_TEXT];
        const bool spent = client->budgeted && client->budget_left <= client->budget_spent;
        printf("            client %" PRIu64 " (%s), last seen %s%s", client->id,
               tern_text_name(client->name, name),
               tern_text_ago(client->last_seen_ms, now_ms, seen),
               spent ? ", its byte budget is spent" : "");
        if (waiting->members[i].tries > 1) {
            printf(", came for its task %" PRIu32 " times or more", waiting->members[i].tries);
        }
        putchar('\n');
    }
    if (waiting->missing > shown_of(waiting)) {
        printf("            and %" PRIu32 " more\n", waiting->missing - shown_of(waiting));
    }
}

void tern_cli_waiting_json(cJSON *object, const struct tern_waiting *waiting)
{
    cJSON_AddStringToObject(object, "now", waiting->sentence);
    cJSON_AddStringToObject(object, "advice", waiting->advice);
    tern_json_u64(object, "waits_for", waiting->missing);
    cJSON *ids = cJSON_AddArrayToObject(object, "silent_longest");
    for (uint32_t i = 0; i < shown_of(waiting); i++) {
        cJSON_AddItemToArray(ids, cJSON_CreateNumber((double)waiting->members[i].client.id));
    }
}
