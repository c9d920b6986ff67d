#include "cli/waiting.h"

#include "cli/readiness.h"
#include "cli/spending.h"

#include "rounds/ending.h"
#include "rounds/selection.h"
#include "rounds/tags.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void say(struct tern_waiting *waiting,
                                                      const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(waiting->sentence, sizeof waiting->sentence, format, arguments);
    va_end(arguments);
}

__attribute__((format(printf, 2, 3))) static void advise(struct tern_waiting *waiting,
                                                         const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(waiting->advice, sizeof waiting->advice, format, arguments);
    va_end(arguments);
}

// --- The open round's members

// Keeps the few that were seen longest ago, the longest first.
static void keep(struct tern_waiting *waiting, const struct tern_db_client *client)
{
    uint32_t at = waiting->shown;
    while (at > 0 && waiting->members[at - 1].last_seen_ms > client->last_seen_ms) {
        at--;
    }
    if (at == TERN_WAITING_SHOWN) {
        return;
    }
    waiting->shown += waiting->shown < TERN_WAITING_SHOWN;
    memmove(&waiting->members[at + 1], &waiting->members[at],
            (waiting->shown - at - 1) * sizeof waiting->members[0]);
    waiting->members[at] = *client;
}

static enum tern_result load_members(struct tern_db *db, uint32_t round,
                                     struct tern_waiting *waiting)
{
    struct tern_db_assignment assignment;
    struct tern_db_client client;
    struct tern_db_rows *rows = tern_db_assignments(db, round);
    while (tern_db_next(rows, &assignment)) {
        if (assignment.state != TERN_ASSIGNMENT_INVITED &&
            assignment.state != TERN_ASSIGNMENT_TASKED) {
            continue;
        }
        const enum tern_result found = tern_db_client_get(db, assignment.client, &client);
        if (found == TERN_OK && !client.revoked) {
            waiting->missing++;
            keep(waiting, &client);
        }
        tern_db_check_row(rows, found);
    }
    return tern_db_end(rows);
}

static void say_open(const struct tern_status *status, uint64_t now_ms,
                     struct tern_waiting *waiting)
{
    const struct tern_db_round *round = &status->round;
    char left[TERN_TEXT];
    if (waiting->missing == 0) {
        say(waiting,
            "round %" PRIu32
            " has the updates of all its members, and ends at its deadline or when others come",
            round->round);
    } else {
        say(waiting, "round %" PRIu32 " waits for %" PRIu32 " of its members", round->round,
            waiting->missing);
    }
    if (round->deadline_ms > now_ms) {
        advise(waiting,
               "its deadline is in %s, and round.quorum = %" PRIu32
               " updates are enough by then; `tern-aggregator close-round` ends it now",
               tern_text_duration(round->deadline_ms - now_ms, left), round->quorum);
    } else {
        advise(waiting,
               "its deadline is over: with fewer updates than round.quorum = %" PRIu32
               " others are invited, as they come; `tern-aggregator close-round` ends it now",
               round->quorum);
    }
}

// --- Between rounds

struct trainers {
    uint32_t enrolled;   // and came, or have just enrolled
    uint32_t never_came; // but have enrolled
    uint32_t recent;     // seen within round.eligible_within
    uint32_t spent;      // of these, without the bytes for another round
    uint32_t other_tags; // than round.selection wants; not among the above
};

struct between {
    const struct tern_aggregator_settings *settings;
    const struct tern_status *status;
    uint64_t now_ms;
    struct trainers trainers;
    struct tern_losses losses;
    struct tern_tags_wanted tags;
};

// Whether a client's byte budget has less than its next round takes at the least, as far as that is known.
static enum tern_result is_spent(struct tern_db *db, const struct tern_db_client *client,
                                 bool *spent)
{
    struct tern_db_schedule schedule = {.least_bytes = 0};
    const enum tern_result found = tern_db_schedule_get(db, client->id, &schedule);
    const uint64_t left =
        client->budget_left > client->budget_spent ? client->budget_left - client->budget_spent : 0;
    *spent = client->budgeted && (left == 0 || left < schedule.least_bytes);
    return found == TERN_ERR_NOT_FOUND ? TERN_OK : found;
}

static enum tern_result count_trainer(struct tern_db *db, const struct tern_db_client *client,
                                      struct between *between)
{
    const uint64_t within_ms = between->settings->round_eligible_within;
    struct trainers *trainers = &between->trainers;
    bool spent = false;
    if (client->evaluator || client->revoked) {
        return TERN_OK;
    }
    if (!tern_tags_fit(client->tags, &between->tags)) {
        trainers->other_tags++;
        return TERN_OK;
    }
    if (!tern_selection_came(client->created_ms, client->last_seen_ms,
                             between->settings->round_come_back_min, between->now_ms)) {
        trainers->never_came++;
        return TERN_OK;
    }
    trainers->enrolled++;
    if (within_ms != 0 && client->last_seen_ms + within_ms < between->now_ms) {
        return TERN_OK;
    }
    TERN_TRY(is_spent(db, client, &spent));
    trainers->recent++;
    trainers->spent += spent;
    return TERN_OK;
}

static enum tern_result count_trainers(struct tern_db *db, struct between *between)
{
    struct tern_db_client client;
    struct tern_db_rows *rows = tern_db_clients(db);
    while (tern_db_next(rows, &client)) {
        tern_db_check_row(rows, count_trainer(db, &client, between));
    }
    return tern_db_end(rows);
}

static enum tern_result add_losses(struct tern_db *db, struct between *between)
{
    const struct tern_ending_policy policy = {between->settings->round_divergence_rounds,
                                              between->settings->round_patience};
    struct tern_db_round round;
    struct tern_db_rows *rows = tern_db_rounds(db);
    while (tern_db_next(rows, &round)) {
        if (round.state == TERN_ROUND_COMMITTED) {
            tern_losses_add(&between->losses, &policy, round.base_version,
                            tern_db_round_loss(&round));
        }
    }
    return tern_db_end(rows);
}

// Each of these says why no round opens, if it is the reason.

static bool is_over(const struct between *between, struct tern_waiting *waiting)
{
    const struct tern_losses *losses = &between->losses;
    const uint32_t rounds = between->settings->round_rounds;
    if (losses->ending != TERN_ENDING_NONE) {
        say(waiting,
            "ended, since it has %s: the loss of the last round was %.4g, of the first %.4g, the "
            "lowest %.4g, of version %" PRIu32,
            tern_ending_name(losses->ending), (double)tern_db_round_loss(&between->status->round),
            (double)losses->first, (double)losses->lowest, losses->lowest_version);
        advise(waiting, "%s", tern_ending_advice(losses->ending));
        waiting->needs_help = true;
        return true;
    }
    if (rounds != 0 && between->status->counts.rounds_committed >= rounds) {
        say(waiting, "finished: round.rounds = %" PRIu32 " are done", rounds);
        advise(waiting,
               "`tern-aggregator export` writes the model; with a higher round.rounds it goes "
               "on once the service gets SIGHUP");
        return true;
    }
    return false;
}

static bool lacks_clients(const struct between *between, struct tern_waiting *waiting)
{
    const struct trainers *trainers = &between->trainers;
    const uint32_t wanted = between->settings->round_min_clients;
    const uint64_t uses = between->status->counts.code_uses_left;
    if (trainers->enrolled >= wanted) {
        return false;
    }
    const uint32_t more = wanted - trainers->enrolled;
    say(waiting, "waiting for %" PRIu32 " more client%s that train%s: round.min_clients = %" PRIu32,
        more, more == 1 ? "" : "s", more == 1 ? "s" : "", wanted);
    waiting->needs_help = true;
    if (trainers->other_tags > 0) {
        advise(waiting,
               "%" PRIu32 " client%s not the tags of round.selection = %s: `tern-aggregator tag` "
               "sets them, `clients` lists them",
               trainers->other_tags, trainers->other_tags == 1 ? " has" : "s have",
               between->settings->round_selection);
    } else if (trainers->never_came > 0) {
        advise(waiting,
               "%" PRIu32 " enrolled and never came: start `tern-client run` on them "
               "(`tern-aggregator clients` lists them), or lower round.min_clients",
               trainers->never_came);
    } else if (uses == 0) {
        advise(waiting,
               "`tern-aggregator enroll-code --uses %" PRIu32
               "` makes a join code; on each device: `tern-client enroll CODE`, then "
               "`tern-client run`",
               more);
    } else {
        advise(waiting,
               "join codes are good for %" PRIu64
               " more: `tern-client enroll CODE` on a device, then `tern-client run`; or lower "
               "round.min_clients",
               uses);
    }
    return true;
}

static bool sees_nobody(const struct between *between, struct tern_waiting *waiting)
{
    char text[TERN_TEXT];
    if (between->trainers.recent > 0) {
        return false;
    }
    say(waiting, "waiting for a client: none was seen within round.eligible_within = %s",
        tern_text_duration(between->settings->round_eligible_within, text));
    advise(waiting, "`tern-aggregator clients` tells when each was seen: does it run, may it work "
                    "(`tern-client status`, `conditions`), does it reach this machine "
                    "(`tern-client check`)?");
    waiting->needs_help = true;
    return true;
}

// Where rounds are fitted to budgets, none opens for fewer clients than the quorum (federation/choose.c).
static bool lacks_bytes(const struct between *between, struct tern_waiting *waiting)
{
    const struct tern_aggregator_settings *s = between->settings;
    const struct trainers *trainers = &between->trainers;
    const uint32_t half = s->round_cohort / 2 + s->round_cohort % 2;
    const uint32_t quorum = s->round_quorum != 0 ? s->round_quorum : half;
    const uint32_t enough = quorum < trainers->recent ? quorum : trainers->recent;
    const bool matters = strstr(s->schedule_policy, "budget") != NULL ||
                         strcmp(s->round_selection, "budget-aware") == 0;
    if (!matters || trainers->recent - trainers->spent >= enough) {
        return false;
    }
    say(waiting,
        "waiting for byte budgets: %" PRIu32 " of %" PRIu32
        " clients have none left for a round, and %" PRIu32 " have to take part",
        trainers->spent, trainers->recent, enough);
    advise(waiting, "they are renewed with the month, or raised on the devices ([budget]); a lower "
                    "round.quorum lets fewer do; `tern-aggregator schedule` shows each");
    waiting->needs_help = true;
    return true;
}

static bool pauses(const struct between *between, struct tern_waiting *waiting)
{
    const struct tern_aggregator_settings *s = between->settings;
    const struct tern_db_round *round = &between->status->round;
    const uint64_t opens_ms = round->opened_ms + tern_spending_interval_ms(s);
    char text[TERN_TEXT];
    if (round->round == 0 || opens_ms <= between->now_ms) {
        return false;
    }
    say(waiting, "the next round opens in %s: round.min_interval%s",
        tern_text_duration(opens_ms - between->now_ms, text),
        s->round_min_interval == TERN_AUTO_MS ? " = auto, as round.rounds sets no end" : "");
    advise(waiting,
           "a lower round.min_interval lets rounds follow faster, for more bytes a day: change it, "
           "then send SIGHUP to the service");
    return true;
}

static enum tern_result between_rounds(struct tern_db *db, struct between *between,
                                       struct tern_waiting *waiting)
{
    static bool (*const reasons[])(const struct between *, struct tern_waiting *) = {
        is_over, lacks_clients, sees_nobody, lacks_bytes, pauses};
    char why[TERN_TAG_WHY_MAX];
    (void)!tern_tags_wanted_parse(between->settings->round_selection, &between->tags, why);
    TERN_TRY(count_trainers(db, between));
    TERN_TRY(add_losses(db, between));
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (reasons[i](between, waiting)) {
            return TERN_OK;
        }
    }
    say(waiting, "the next round opens with the next check-in");
    advise(waiting,
           "clients look in by themselves, within round.come_back_max; `tern-client once` on one "
           "does at once");
    return TERN_OK;
}

// --- Public

// What keeps everything else from happening goes before.
static void put_before(struct tern_waiting *waiting, const char *reason)
{
    char rest[sizeof waiting->sentence];
    memcpy(rest, waiting->sentence, sizeof rest);
    say(waiting, "%.190s; %.200s", reason, rest);
}

static void look_at_service(const struct tern_cli *cli, struct tern_waiting *waiting)
{
    char why[256];
    if (!tern_state_is_served(cli)) {
        put_before(waiting, "the service is not running (`tern-aggregator serve`)");
        if (!waiting->needs_help) {
            advise(waiting,
                   "systemctl start tern-aggregator; why it ended is in its log: journalctl "
                   "-u tern-aggregator");
        }
    } else if (tern_readiness_ask(tern_state_settings(cli), why) == TERN_READINESS_BAD) {
        put_before(waiting, why);
        advise(waiting, "%s", tern_readiness_advice(why));
        waiting->needs_help = true;
    }
}

enum tern_result tern_waiting_load(const struct tern_cli *cli, struct tern_db *db,
                                   const struct tern_status *status, uint64_t now_ms,
                                   struct tern_waiting *waiting)
{
    struct between between = {
        .settings = tern_state_settings(cli), .status = status, .now_ms = now_ms};
    memset(waiting, 0, sizeof *waiting);
    if (tern_status_is_open(status)) {
        TERN_TRY(load_members(db, status->round.round, waiting));
        say_open(status, now_ms, waiting);
    } else {
        TERN_TRY(between_rounds(db, &between, waiting));
    }
    look_at_service(cli, waiting);
    return TERN_OK;
}

void tern_waiting_print(const struct tern_waiting *waiting, uint64_t now_ms)
{
    printf("Now         %s\n", waiting->sentence);
    if (waiting->advice[0] != '\0') {
        printf("            %s\n", waiting->advice);
    }
    for (uint32_t i = 0; i < waiting->shown; i++) {
        const struct tern_db_client *client = &waiting->members[i];
        char name[TERN_TEXT];
        char seen[TERN_TEXT];
        const bool spent = client->budgeted && client->budget_left <= client->budget_spent;
        printf("            client %" PRIu64 " (%s), last seen %s%s\n", client->id,
               tern_text_name(client->name, name),
               tern_text_ago(client->last_seen_ms, now_ms, seen),
               spent ? ", its byte budget is spent" : "");
    }
    if (waiting->missing > waiting->shown) {
        printf("            and %" PRIu32 " more\n", waiting->missing - waiting->shown);
    }
}

void tern_waiting_json(cJSON *object, const struct tern_waiting *waiting)
{
    cJSON_AddStringToObject(object, "now", waiting->sentence);
    cJSON_AddStringToObject(object, "advice", waiting->advice);
    tern_json_u64(object, "waits_for", waiting->missing);
    cJSON *ids = cJSON_AddArrayToObject(object, "silent_longest");
    for (uint32_t i = 0; i < waiting->shown; i++) {
        cJSON_AddItemToArray(ids, cJSON_CreateNumber((double)waiting->members[i].id));
    }
}
