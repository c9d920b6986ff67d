// rollback makes an earlier version's weights the next version; reject makes the weights that follow without what one client
// sent. Both show the change, store the weights and an order, and the service executes the order (federation/closing.c).
#include "cli/state.h"
#include "cli/verbs.h"
#include "cli/versions.h"
#include "federation/accuracy.h"
#include "merge/delta.h"
#include "merge/replay.h"
#include "rounds/ending.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- What both verbs do

struct undo {
    struct tern_cli *cli;
    struct tern_db *db;
    struct tern_merge *merge;
    const char *verb; // "rollback" or "reject", stored as the round's strategy
    const char *why;  // NULL: not given
    bool dry_run;
    bool abandons; // --abandon-round
    struct tern_db_version newest;
    struct tern_status status;
    float *before;    // global model of the newest version; malloc'ed
    double norm;      // norm of `before`
    double distance;  // between `before` and the weights to restore
    uint64_t buffers; // clients that reported an error buffer, which they reset
    uint64_t ended;   // clients of a finished federation, which do not check in again by themselves
};

// Longest --why: the reason of an abandoned round has the verb before it.
#define WHY_MAX 120

static int read_options(struct undo *undo)
{
    struct tern_cli *cli = undo->cli;
    undo->why = tern_cli_option(cli, "why", NULL);
    undo->dry_run = tern_cli_flag(cli, "dry-run");
    undo->abandons = tern_cli_flag(cli, "abandon-round");
    if (!undo->dry_run && (undo->why == NULL || undo->why[0] == '\0')) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "--why is missing: give the reason, which the round's row keeps; or "
                             "--dry-run, to see what would change");
    }
    if (undo->why != NULL && strlen(undo->why) > WHY_MAX) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "--why has %zu characters; at most %d fit",
                             strlen(undo->why), WHY_MAX);
    }
    if (tern_state_is_gateway(cli)) {
        return tern_cli_fail(cli, TERN_ERR_STATE,
                             "a gateway's model comes from upstream: run %s at the upstream "
                             "aggregator",
                             undo->verb);
    }
    return TERN_EXIT_OK;
}

static bool is_restoring(const struct undo *undo)
{
    return tern_status_is_open(&undo->status) && undo->status.round.mode == TERN_ROUND_RESTORED;
}

// Refuses while another order waits or a round is open, unless the round may be given up.
static int check_state(const struct undo *undo)
{
    const struct tern_db_round *round = &undo->status.round;
    struct tern_db_order order = {.ready = false};
    const enum tern_result found = tern_db_may_miss(tern_db_order_get(undo->db, &order));
    TERN_CLI_TRY(
        tern_cli_check(undo->cli, found, "cannot read the orders: %s", tern_db_error(undo->db)));
    if (order.ready || is_restoring(undo)) {
        return tern_cli_fail(undo->cli, TERN_ERR_STATE,
                             "a %s was ordered already; the running service, or the next one that "
                             "starts (tern-aggregator serve), makes its version first. --cancel "
                             "drops an order that waits",
                             order.ready ? order.strategy : round->strategy);
    }
    if (!tern_status_is_open(&undo->status) || undo->abandons || undo->dry_run) {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(undo->cli, TERN_ERR_STATE,
                         "round %" PRIu32 " is open, with %" PRIu32
                         " updates. End it by `tern-aggregator close-round`, or give it up with "
                         "--abandon-round",
                         round->round, undo->status.reported);
}

static enum tern_result count_buffers(struct tern_db *db, uint64_t *buffers)
{
    struct tern_db_ledger ledger;
    struct tern_db_rows *rows = tern_db_ledgers_after(db, 0);
    while (tern_db_next(rows, &ledger)) {
        *buffers += ledger.norm != 0.0F;
    }
    return tern_db_end(rows);
}

// --- Clients of a finished federation, which do not fetch the restored version by themselves

// When the federation finished; 0: it has not.
struct end {
    uint64_t by_rounds_ms;
    uint64_t by_losses_ms; // a restored round lifts this end (federation/closing.c)
    uint32_t committed;
    struct tern_losses losses;
};

static void add_round(struct end *end, const struct tern_aggregator_settings *settings,
                      const struct tern_db_round *round)
{
    const struct tern_ending_policy policy = {settings->round_divergence_rounds,
                                              settings->round_patience};
    end->committed++;
    if (end->committed == settings->round_rounds) {
        end->by_rounds_ms = round->closed_ms;
    }
    if (round->mode == TERN_ROUND_RESTORED) {
        end->losses = (struct tern_losses){.rounds = 0};
        end->by_losses_ms = 0;
    } else if (round->noise == 0) {
        tern_losses_add(&end->losses, &policy, round->base_version, tern_db_round_loss(round));
    }
    if (end->losses.ending != TERN_ENDING_NONE && end->by_losses_ms == 0) {
        end->by_losses_ms = round->closed_ms;
    }
}

static enum tern_result find_end(struct tern_db *db,
                                 const struct tern_aggregator_settings *settings, struct end *end)
{
    struct tern_db_round round;
    struct tern_db_rows *rows = tern_db_rounds(db);
    while (tern_db_next(rows, &round)) {
        if (round.state == TERN_ROUND_COMMITTED) {
            add_round(end, settings, &round);
        }
    }
    return tern_db_end(rows);
}

// Sets *clients to the number of clients, without revoked ones, that have checked in since the federation finished: 0 if it
// has not finished. A running service writes check-ins with a delay of some seconds.
static enum tern_result
count_ended(struct tern_db *db, const struct tern_aggregator_settings *settings, uint64_t *clients)
{
    struct end end = {.committed = 0};
    struct tern_db_client client;
    *clients = 0;
    TERN_TRY(find_end(db, settings, &end));
    const uint64_t ended_ms = end.by_rounds_ms != 0 ? end.by_rounds_ms : end.by_losses_ms;
    if (ended_ms == 0) {
        return TERN_OK;
    }
    struct tern_db_rows *rows = tern_db_clients(db);
    while (tern_db_next(rows, &client)) {
        *clients += !client.revoked && client.last_seen_ms >= ended_ms;
    }
    return tern_db_end(rows);
}

// --- The change

// Loads the newest version, from which the distance is measured.
static int load_before(struct undo *undo)
{
    const size_t size = (size_t)undo->merge->model.count * sizeof(float);
    TERN_CLI_TRY(tern_version_newest(undo->cli, undo->db, &undo->newest));
    enum tern_result result = tern_status_load(undo->db, tern_now_ms(), &undo->status);
    if (result == TERN_OK) {
        result = count_buffers(undo->db, &undo->buffers);
    }
    if (result == TERN_OK) {
        result = count_ended(undo->db, tern_state_settings(undo->cli), &undo->ended);
    }
    TERN_CLI_TRY(
        tern_cli_check(undo->cli, result, "cannot read the state: %s", tern_db_error(undo->db)));
    TERN_CLI_TRY(check_state(undo));
    TERN_CLI_TRY(tern_version_load_newest(undo->cli, undo->db, undo->merge));
    undo->before = malloc(size);
    if (undo->before == NULL) {
        return tern_cli_fail(undo->cli, TERN_ERR_NO_MEMORY, "%s",
                             tern_result_sentence(TERN_ERR_NO_MEMORY));
    }
    memcpy(undo->before, undo->merge->global, size);
    undo->norm = undo->merge->norm;
    return TERN_EXIT_OK;
}

static void measure(struct undo *undo)
{
    undo->distance = tern_distance(undo->before, undo->merge->global, undo->merge->model.count);
}

static double relative(const struct undo *undo)
{
    return undo->norm > 0 ? undo->distance / undo->norm : 0;
}

// Adds to the audit log that the order was given. The service adds whether it executed the order (federation/closing.c).
static enum tern_result audit_order(const struct undo *undo, const struct tern_db_order *order)
{
    char before[32];
    char after[TERN_ORDER_TEXT];
    snprintf(before, sizeof before, "version %" PRIu32, order->base_version);
    return tern_db_audit(undo->db, order->ordered_ms, undo->verb, before,
                         tern_order_text(order, after), "model, why: %s", order->reason);
}

// Stores the order without executing it, so that the weights stay while they are stored in parts.
static enum tern_result put_order(const struct undo *undo, struct tern_db_order *order, bool ready)
{
    struct tern_db_order stored = {.ready = false};
    struct tern_status status;
    TERN_TRY(tern_db_may_miss(tern_db_order_get(undo->db, &stored)));
    TERN_TRY(tern_status_load(undo->db, tern_now_ms(), &status));
    const bool is_other =
        ready && (stored.ordered_ms != order->ordered_ms || stored.restored != order->restored ||
                  strcmp(stored.strategy, order->strategy) != 0);
    if (stored.ready || is_other || (tern_status_is_open(&status) && !undo->abandons)) {
        return TERN_ERR_CONFLICT;
    }
    order->ready = ready;
    TERN_TRY(tern_db_order_put(undo->db, order));
    return ready ? audit_order(undo, order) : TERN_OK;
}

static int store_order(const struct undo *undo, struct tern_db_order *order, bool ready)
{
    enum tern_result result = tern_db_begin(undo->db);
    if (result == TERN_OK) {
        result = tern_db_conclude(undo->db, put_order(undo, order, ready));
    }
    if (result == TERN_ERR_CONFLICT) {
        return tern_cli_fail(undo->cli, TERN_ERR_STATE,
                             "a round opened, or another order was given, meanwhile; nothing "
                             "changed. Try again, or add --abandon-round");
    }
    return tern_cli_check(undo->cli, result, "cannot store the order: %s", tern_db_error(undo->db));
}

// Stores the weights in undo->merge and the order for them. restored, parameters: see TERN_ROUND_RESTORED
static int give_order(const struct undo *undo, uint32_t restored, const char *parameters)
{
    struct tern_db_order order = {
        .restored = restored, .base_version = undo->newest.version, .ordered_ms = tern_now_ms()};
    snprintf(order.strategy, sizeof order.strategy, "%s", undo->verb);
    snprintf(order.strategy_parameters, sizeof order.strategy_parameters, "%s", parameters);
    snprintf(order.reason, sizeof order.reason, "%s", undo->why);
    TERN_CLI_TRY(tern_version_unpin(undo->cli, undo->db)); // parts of an earlier, interrupted order
    TERN_CLI_TRY(store_order(undo, &order, false));
    TERN_CLI_TRY(tern_version_pin(undo->cli, undo->db, parameters, restored, undo->merge));
    return store_order(undo, &order, true);
}

// Prints which clients do not get the version, because a finished federation has dismissed them.
static void print_ended(const struct undo *undo)
{
    const char *final_model = tern_state_settings(undo->cli)->downloads_final_model;
    if (undo->ended == 0) {
        return;
    }
    printf("The federation has finished: %" PRIu64
           " client%s ended with a model of an undone version, and do%s not check in again.\n",
           undo->ended, undo->ended == 1 ? "" : "s", undo->ended == 1 ? "es" : "");
    printf(
        strcmp(final_model, "none") == 0
            ? "Export the new version and deploy the file: downloads.final_model = none sends it "
              "to no client.\n"
            : "Start them again, and each downloads the new version; or export the version and "
              "deploy the file.\n");
}

// Prints what is common: the change, error buffers, the open round, and when it happens.
static void print_change(const struct undo *undo)
{
    const struct tern_db_round *round = &undo->status.round;
    printf("The model moves by %.4g, %.2f %% of its norm.\n", undo->distance, 100 * relative(undo));
    printf("%" PRIu64 " client%s reset error buffers with the next task: they hold changes of the "
           "undone versions.\n",
           undo->buffers, undo->buffers == 1 ? "" : "s");
    print_ended(undo);
    if (tern_status_is_open(&undo->status) && undo->abandons) {
        printf("Round %" PRIu32 " is given up, with %" PRIu32 " update%s.\n", round->round,
               undo->status.reported, undo->status.reported == 1 ? "" : "s");
    }
}

// Whether the order is refused now, although the dry run shows its change.
static bool is_in_the_way(const struct undo *undo)
{
    return tern_status_is_open(&undo->status) && !undo->abandons;
}

static void print_end(const struct undo *undo)
{
    if (undo->dry_run && is_in_the_way(undo)) {
        printf("Dry run: nothing changed. The order is refused while round %" PRIu32
               " is open, with %" PRIu32
               " updates: add --abandon-round, or run close-round before it.\n",
               undo->status.round.round, undo->status.reported);
    } else if (undo->dry_run) {
        printf("Dry run: nothing changed.\n");
    } else if (tern_state_is_served(undo->cli)) {
        printf("The service makes the version now.\n");
    } else {
        printf("The running service makes the version, here or on another machine, or the next one "
               "that starts (`tern-aggregator serve`).\n");
    }
}

static void add_change(const struct undo *undo, cJSON *object)
{
    tern_json_u64(object, "version", undo->newest.version);
    cJSON_AddNumberToObject(object, "distance", undo->distance);
    cJSON_AddNumberToObject(object, "relative_distance", relative(undo));
    tern_json_u64(object, "resets", undo->buffers);
    tern_json_u64(object, "ended_clients", undo->ended);
    tern_json_bool(object, "abandons_round", tern_status_is_open(&undo->status) && undo->abandons);
    tern_json_bool(object, "refused_while_round_is_open", is_in_the_way(undo));
    tern_json_bool(object, "dry_run", undo->dry_run);
    tern_json_bool(object, "served", tern_state_is_served(undo->cli));
}

// --- Cancelling an order that waits

// Drops the order unless the service has begun to execute it, and adds that to the audit log. *order: the order
static enum tern_result drop_order(struct tern_db *db, struct tern_db_order *order)
{
    char action[TERN_DB_STRATEGY_MAX + sizeof " --cancel"];
    char before[TERN_ORDER_TEXT];
    TERN_TRY(tern_db_order_get(db, order));
    TERN_TRY(tern_db_order_drop(db));
    snprintf(action, sizeof action, "%s --cancel", order->strategy);
    return tern_db_audit(db, tern_now_ms(), action, tern_order_text(order, before), "",
                         "model, why: %s", order->reason);
}

static int print_cancelled(struct tern_cli *cli, const struct tern_db_order *order, bool dry_run)
{
    char text[TERN_ORDER_TEXT];
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        tern_json_order(object, order);
        tern_json_bool(object, "dry_run", dry_run);
        return tern_json_print(cli, object);
    }
    printf("%s: %s (why: %s).%s\n", dry_run ? "This order waits" : "Cancelled",
           tern_order_text(order, text), order->reason,
           dry_run ? " Dry run: nothing changed." : "");
    return TERN_EXIT_OK;
}

static int cancel_order(struct tern_cli *cli, struct tern_db *db, bool dry_run)
{
    struct tern_db_order order;
    enum tern_result result = dry_run ? tern_db_order_get(db, &order) : tern_db_begin(db);
    if (result == TERN_OK && !dry_run) {
        result = tern_db_conclude(db, drop_order(db, &order));
    }
    if (result == TERN_ERR_NOT_FOUND) {
        tern_cli_fail(cli, result,
                      "no rollback or reject waits, or the service has begun it: `tern-aggregator "
                      "status` shows the version, and another rollback undoes it");
        return TERN_EXIT_NOTHING;
    }
    TERN_CLI_TRY(tern_cli_check(cli, result, "cannot cancel the order: %s", tern_db_error(db)));
    TERN_CLI_TRY(dry_run ? TERN_EXIT_OK : tern_version_unpin(cli, db));
    return print_cancelled(cli, &order, dry_run);
}

// others: the verb's other options, up to NULL
static int cancel(struct tern_cli *cli, const char *const *others)
{
    struct tern_db *db;
    for (; *others != NULL; others++) {
        if (tern_cli_flag(cli, *others)) {
            return tern_cli_fail(cli, TERN_ERR_CONFIG,
                                 "--cancel drops the order that waits, and takes no --%s", *others);
        }
    }
    TERN_CLI_TRY(tern_state_open(cli, &db));
    const int code = cancel_order(cli, db, tern_cli_flag(cli, "dry-run"));
    tern_db_close(db);
    return code;
}

// --- Both verbs

static int run(struct tern_cli *cli, const char *verb, const char *const *options,
               int (*steps)(struct undo *undo))
{
    static struct tern_merge merge;
    struct undo undo = {.cli = cli, .merge = &merge, .verb = verb};
    if (tern_cli_flag(cli, "cancel")) {
        return cancel(cli, options);
    }
    TERN_CLI_TRY(read_options(&undo));
    TERN_CLI_TRY(tern_state_open(cli, &undo.db));
    int code = tern_version_begin(cli, undo.db, &merge);
    if (code == TERN_EXIT_OK) {
        code = steps(&undo);
        tern_merge_free(&merge);
    }
    free(undo.before);
    tern_db_close(undo.db);
    return code;
}

// --- rollback

static int print_rollback(const struct undo *undo, uint32_t version)
{
    const uint32_t newest = undo->newest.version;
    if (undo->cli->json) {
        cJSON *object = cJSON_CreateObject();
        tern_json_u64(object, "restored", version);
        add_change(undo, object);
        return tern_json_print(undo->cli, object);
    }
    printf("The weights of version %" PRIu32 " %s the next version, after version %" PRIu32
           ": %" PRIu32 " version%s undone.\n",
           version, undo->dry_run ? "would become" : "become", newest, newest - version,
           newest - version == 1 ? " is" : "s are");
    print_change(undo);
    print_end(undo);
    return TERN_EXIT_OK;
}

// Refuses to restore the newest version, or the version that made the newest one by a rollback.
static int check_changes(const struct undo *undo, uint32_t version)
{
    struct tern_db_round round = {.round = 0};
    TERN_CLI_TRY(tern_cli_check(
        undo->cli, tern_db_may_miss(tern_db_round_get(undo->db, undo->newest.round, &round)),
        "cannot read the rounds: %s", tern_db_error(undo->db)));
    const bool is_restored = round.mode == TERN_ROUND_RESTORED && round.restored == version &&
                             round.strategy_parameters[0] == '\0';
    if (version == undo->newest.version) {
        tern_cli_fail(undo->cli, TERN_ERR_STATE,
                      "version %" PRIu32 " is the newest: there is nothing to undo", version);
        return TERN_EXIT_NOTHING;
    }
    if (is_restored) {
        tern_cli_fail(undo->cli, TERN_ERR_STATE,
                      "version %" PRIu32 ", the newest, is version %" PRIu32
                      " restored, and no update came since: nothing changes",
                      undo->newest.version, version);
        return TERN_EXIT_NOTHING;
    }
    return TERN_EXIT_OK;
}

static int roll_back(struct undo *undo)
{
    struct tern_cli *cli = undo->cli;
    uint32_t version = UINT32_MAX;
    TERN_CLI_TRY(tern_version_option(cli, undo->db, "version", &version));
    if (version == UINT32_MAX) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "--version is missing: give the version, or its label, whose weights "
                             "become the next version");
    }
    TERN_CLI_TRY(load_before(undo));
    TERN_CLI_TRY(check_changes(undo, version));
    TERN_CLI_TRY(tern_version_load_any(cli, undo->db, undo->merge, version));
    measure(undo);
    TERN_CLI_TRY(undo->dry_run ? TERN_EXIT_OK : give_order(undo, version, ""));
    return print_rollback(undo, version);
}

int tern_cli_rollback(struct tern_cli *cli)
{
    static const char *const options[] = {"version", "why", "abandon-round", NULL};
    return run(cli, "rollback", options, roll_back);
}

// --- reject

struct rejection {
    struct undo *undo;
    struct tern_db_rejection of;
    uint32_t updates; // hidden updates that count
    uint32_t empty;   // rounds that have no other update
};

static bool parse_rounds(const char *text, uint32_t *first, uint32_t *last)
{
    unsigned long long from = 0;
    unsigned long long to = 0;
    int end = 0;
    if (sscanf(text, "%llu..%llu%n", &from, &to, &end) != 2 || text[end] != '\0') {
        end = 0;
        if (sscanf(text, "%llu%n", &from, &end) != 1 || text[end] != '\0') {
            return false;
        }
        to = from;
    }
    *first = (uint32_t)from;
    *last = (uint32_t)to;
    return text[0] != '-' && from > 0 && from <= to && to < UINT32_MAX;
}

static int read_rejection(struct tern_cli *cli, struct rejection *rejection)
{
    const char *rounds = tern_cli_option(cli, "rounds", "");
    if (tern_cli_number(cli, "client", 0, 1, INT64_MAX, &rejection->of.client) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    if (rejection->of.client == 0) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "--client is missing: give the id of the client whose updates to "
                             "leave out (`tern-aggregator clients`)");
    }
    if (!parse_rounds(rounds, &rejection->of.first, &rejection->of.last)) {
        char text[TERN_TEXT];
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "--rounds '%s' is no range of rounds; give for example --rounds 3..9",
                             tern_text_name(rounds, text));
    }
    return TERN_EXIT_OK;
}

// Refuses a secure round, whose updates no replay can leave out.
static int check_secure(const struct rejection *rejection, const struct tern_db_round *round)
{
    if (round->mode != TERN_ROUND_SECURE || round->state != TERN_ROUND_COMMITTED) {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(rejection->undo->cli, TERN_ERR_STATE,
                         "round %" PRIu32
                         " is secure: only the sum of its masked updates is stored, and no "
                         "client's update can be left out. Use rollback",
                         round->round);
}

static int check_rounds(const struct rejection *rejection)
{
    struct tern_db_round round;
    struct tern_db *db = rejection->undo->db;
    struct tern_db_rows *rows = tern_db_rounds_after(db, rejection->of.first - 1, UINT32_MAX);
    int code = TERN_EXIT_OK;
    while (code == TERN_EXIT_OK && tern_db_next(rows, &round)) {
        code = check_secure(rejection, &round);
    }
    const enum tern_result result = tern_db_end(rows);
    TERN_CLI_TRY(code);
    return tern_cli_check(rejection->undo->cli, result, "cannot read the rounds: %s",
                          tern_db_error(db));
}

// Counts the updates to leave out that count in some version.
static int count_updates(struct rejection *rejection)
{
    struct undo *undo = rejection->undo;
    enum tern_result found = TERN_OK;
    for (uint32_t round = rejection->of.first;
         round <= rejection->of.last && round <= undo->status.round.round && found == TERN_OK;
         round++) {
        struct tern_db_update update;
        struct tern_db_round row;
        found = tern_db_update_find(undo->db, round, rejection->of.client, &update);
        if (found == TERN_OK) {
            found = tern_db_round_get(undo->db, update.merged > 0 ? update.merged : round, &row);
            rejection->updates += found == TERN_OK && row.state == TERN_ROUND_COMMITTED;
        }
        found = tern_db_may_miss(found);
    }
    TERN_CLI_TRY(
        tern_cli_check(undo->cli, found, "cannot read the updates: %s", tern_db_error(undo->db)));
    if (rejection->updates == 0) {
        tern_cli_fail(undo->cli, TERN_ERR_NOT_FOUND,
                      "no version has an update of client %" PRIu64 " for the rounds %" PRIu32
                      " to %" PRIu32,
                      rejection->of.client, rejection->of.first, rejection->of.last);
        return TERN_EXIT_NOTHING;
    }
    return TERN_EXIT_OK;
}

static int replay_without(struct rejection *rejection)
{
    struct undo *undo = rejection->undo;
    uint32_t failed = 0;
    const enum tern_result result = tern_replay_without(undo->db, undo->merge, &rejection->of,
                                                        UINT32_MAX, &rejection->empty, &failed);
    if (result == TERN_ERR_NOT_FOUND) {
        return tern_cli_fail(undo->cli, result,
                             "round %" PRIu32 " cannot be replayed: its updates were pruned "
                             "(limits.history_bytes, prune). Use rollback to an earlier version",
                             failed);
    }
    return tern_cli_check(undo->cli, result, "round %" PRIu32 " cannot be replayed: %s", failed,
                          result == TERN_ERR_IO ? tern_db_error(undo->db)
                                                : tern_result_sentence(result));
}

// Prints the accuracy of the newest version, to which that of the next one can be compared.
static int print_accuracy(const struct undo *undo)
{
    struct tern_accuracy newest;
    struct tern_reported_version pending;
    TERN_CLI_TRY(tern_cli_check(undo->cli, tern_accuracy_newest(undo->db, &newest, &pending),
                                "cannot read the evaluations: %s", tern_db_error(undo->db)));
    if (newest.num_examples > 0 && !newest.no_accuracy) {
        printf("Version %" PRIu32 " has the accuracy %.4f; evaluators measure the next one.\n",
               newest.version, newest.accuracy);
    }
    return TERN_EXIT_OK;
}

static int print_rejection(const struct rejection *rejection)
{
    const struct undo *undo = rejection->undo;
    if (undo->cli->json) {
        cJSON *object = cJSON_CreateObject();
        tern_json_u64(object, "client", rejection->of.client);
        tern_json_u64(object, "updates", rejection->updates);
        tern_json_u64(object, "empty_rounds", rejection->empty);
        add_change(undo, object);
        return tern_json_print(undo->cli, object);
    }
    printf("Without %" PRIu32 " update%s of client %" PRIu64 ", the other stored updates %s the "
           "version after %" PRIu32 ".\n",
           rejection->updates, rejection->updates == 1 ? "" : "s", rejection->of.client,
           undo->dry_run ? "would make" : "make", undo->newest.version);
    if (rejection->empty > 0) {
        printf("%" PRIu32 " round%s no other update and change%s nothing.\n", rejection->empty,
               rejection->empty == 1 ? " has" : "s have", rejection->empty == 1 ? "s" : "");
    }
    print_change(undo);
    TERN_CLI_TRY(print_accuracy(undo));
    printf("Other clients trained from models that had these updates; that stays. To keep the "
           "client out: tern-aggregator revoke %" PRIu64 "\n",
           rejection->of.client);
    print_end(undo);
    return TERN_EXIT_OK;
}

// Measures the change, and refuses to change nothing, as where a rollback undid the updates.
static int measure_rejection(struct undo *undo)
{
    const size_t size = (size_t)undo->merge->model.count * sizeof(float);
    measure(undo);
    if (memcmp(undo->before, undo->merge->global, size) != 0) {
        return TERN_EXIT_OK;
    }
    tern_cli_fail(undo->cli, TERN_ERR_STATE,
                  "version %" PRIu32 ", the newest, has none of these updates: nothing changes",
                  undo->newest.version);
    return TERN_EXIT_NOTHING;
}

static int reject(struct undo *undo)
{
    struct rejection rejection = {.undo = undo};
    char parameters[TERN_DB_PARAMETERS_MAX];
    TERN_CLI_TRY(read_rejection(undo->cli, &rejection));
    TERN_CLI_TRY(load_before(undo));
    TERN_CLI_TRY(count_updates(&rejection));
    TERN_CLI_TRY(check_rounds(&rejection));
    TERN_CLI_TRY(replay_without(&rejection));
    TERN_CLI_TRY(measure_rejection(undo));
    tern_rejection_format(&rejection.of, parameters);
    TERN_CLI_TRY(undo->dry_run ? TERN_EXIT_OK : give_order(undo, undo->newest.version, parameters));
    return print_rejection(&rejection);
}

int tern_cli_reject(struct tern_cli *cli)
{
    static const char *const options[] = {"client", "rounds", "why", "abandon-round", NULL};
    return run(cli, "reject", options, reject);
}
