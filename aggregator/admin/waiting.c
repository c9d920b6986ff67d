#include "admin/waiting.h"

#include "admin/texts.h"
#include "rounds/selection.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void say(struct tern_waiting *waiting,
                                                      const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(waiting->sentence, sizeof waiting->sentence, format, arguments);
    va_end(arguments);
}

void tern_waiting_advise(struct tern_waiting *waiting, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(waiting->advice, sizeof waiting->advice, format, arguments);
    va_end(arguments);
}

// --- The open round's members

// Keeps the few that were seen longest ago, the longest first.
static void keep(struct tern_waiting *waiting, const struct tern_db_client *client, bool has_task)
{
    uint32_t at = waiting->shown;
    while (at > 0 && waiting->members[at - 1].client.last_seen_ms > client->last_seen_ms) {
        at--;
    }
    if (at == TERN_WAITING_MEMBERS) {
        return;
    }
    waiting->shown += waiting->shown < TERN_WAITING_MEMBERS;
    memmove(&waiting->members[at + 1], &waiting->members[at],
            (waiting->shown - at - 1) * sizeof waiting->members[0]);
    waiting->members[at] = (struct tern_waiting_member){*client, has_task};
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
            keep(waiting, &client, assignment.state == TERN_ASSIGNMENT_TASKED);
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
        tern_waiting_advise(
            waiting,
            "its deadline is in %s, and round.quorum = %" PRIu32
            " updates are enough by then; `tern-aggregator close-round` ends it now",
            tern_text_duration(round->deadline_ms - now_ms, left), round->quorum);
    } else {
        tern_waiting_advise(
            waiting,
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
    const struct tern_waiting_rules *rules;
    const struct tern_status *status;
    uint64_t now_ms;
    struct trainers trainers;
    struct tern_losses losses;
    uint32_t told; // statistics that are stored
    bool scaled;   // there is a scaling
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
    const uint64_t within_ms = between->rules->eligible_within_ms;
    struct trainers *trainers = &between->trainers;
    bool spent = false;
    if (client->evaluator || client->revoked) {
        return TERN_OK;
    }
    if (!tern_tags_fit(client->tags, &between->rules->tags)) {
        trainers->other_tags++;
        return TERN_OK;
    }
    if (!tern_selection_came(client->created_ms, client->last_seen_ms,
                             between->rules->come_back_min_ms, between->now_ms)) {
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

// Not of clients that were revoked since, or have other tags than are wanted now.
static enum tern_result count_told(struct tern_db *db, struct between *between)
{
    uint8_t *scaling = NULL;
    size_t len = 0;
    struct tern_db_statistics row;
    struct tern_db_client client;
    const enum tern_result found = tern_db_scaling_get(db, &scaling, &len);
    free(scaling);
    between->scaled = found == TERN_OK;
    TERN_TRY(tern_db_may_miss(found));
    struct tern_db_rows *rows = tern_db_statistics(db);
    while (tern_db_next(rows, &row)) {
        const enum tern_result known = tern_db_client_get(db, row.client, &client);
        between->told += known == TERN_OK && !client.revoked &&
                         tern_tags_fit(client.tags, &between->rules->tags);
        tern_db_check_row(rows, known);
    }
    return tern_db_end(rows);
}

static enum tern_result add_losses(struct tern_db *db, struct between *between)
{
    struct tern_db_round round;
    struct tern_db_rows *rows = tern_db_rounds(db);
    while (tern_db_next(rows, &round)) {
        if (round.state == TERN_ROUND_COMMITTED) {
            tern_losses_add(&between->losses, &between->rules->ending, round.base_version,
                            tern_db_round_loss(&round));
        }
    }
    return tern_db_end(rows);
}

// Each of these says why no round opens, if it is the reason.

static bool is_over(const struct between *between, struct tern_waiting *waiting)
{
    const struct tern_losses *losses = &between->losses;
    const uint32_t rounds = between->rules->rounds;
    if (losses->ending != TERN_ENDING_NONE) {
        say(waiting,
            "ended, since it has %s: the loss of the last round was %.4g, of the first %.4g, the "
            "lowest %.4g, of version %" PRIu32,
            tern_ending_name(losses->ending), (double)tern_db_round_loss(&between->status->round),
            (double)losses->first, (double)losses->lowest, losses->lowest_version);
        tern_waiting_advise(waiting, "%s", tern_ending_advice(losses->ending));
        waiting->needs_help = true;
        return true;
    }
    if (rounds != 0 && between->status->counts.rounds_committed >= rounds) {
        say(waiting, "finished: round.rounds = %" PRIu32 " are done", rounds);
        tern_waiting_advise(
            waiting,
            "`tern-aggregator export` writes the model; with a higher round.rounds it goes "
            "on once the service gets SIGHUP");
        return true;
    }
    return false;
}

static bool lacks_clients(const struct between *between, struct tern_waiting *waiting)
{
    const struct tern_tags_wanted *tags = &between->rules->tags;
    const struct trainers *trainers = &between->trainers;
    const uint32_t wanted = between->rules->min_clients;
    const uint64_t uses = between->status->counts.code_uses_left;
    if (trainers->enrolled >= wanted) {
        return false;
    }
    const uint32_t more = wanted - trainers->enrolled;
    say(waiting, "waiting for %" PRIu32 " more client%s that train%s: round.min_clients = %" PRIu32,
        more, more == 1 ? "" : "s", more == 1 ? "s" : "", wanted);
    waiting->needs_help = true;
    if (trainers->other_tags > 0) {
        tern_waiting_advise(waiting,
                            "%" PRIu32 " client%s not the tags of round.selection = tags:%s%s%s: "
                            "`tern-aggregator tag` sets them, `clients` lists them",
                            trainers->other_tags, trainers->other_tags == 1 ? " has" : "s have",
                            tags->with, tags->with[0] != '\0' && tags->spread[0] != '\0' ? "," : "",
                            tags->spread);
    } else if (trainers->never_came > 0) {
        tern_waiting_advise(waiting,
                            "%" PRIu32 " enrolled and never came: start `tern-client run` on them "
                            "(`tern-aggregator clients` lists them), or lower round.min_clients",
                            trainers->never_came);
    } else if (uses == 0) {
        tern_waiting_advise(waiting,
                            "`tern-aggregator enroll-code --uses %" PRIu32
                            "` makes a join code; on each device: `tern-client enroll CODE`, then "
                            "`tern-client run`",
                            more);
    } else {
        tern_waiting_advise(
            waiting,
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
        tern_text_duration(between->rules->eligible_within_ms, text));
    tern_waiting_advise(
        waiting, "`tern-aggregator clients` tells when each was seen: does it run, may it work "
                 "(`tern-client status`, `conditions`), does it reach this machine "
                 "(`tern-client check`)?");
    waiting->needs_help = true;
    return true;
}

// The first round waits for statistics of columns (federation/statistics.c).
static bool lacks_statistics(const struct between *between, struct tern_waiting *waiting)
{
    const struct tern_waiting_rules *rules = between->rules;
    const uint32_t wanted =
        rules->statistics_min_clients != 0 ? rules->statistics_min_clients : rules->min_clients;
    if (!rules->statistics_are_wanted || between->scaled || between->status->round.round != 0) {
        return false;
    }
    const uint32_t more = wanted > between->told ? wanted - between->told : 0;
    if (more > 0) {
        say(waiting,
            "waiting for the statistics of %" PRIu32 " more client%s, by which columns are scaled: "
            "statistics.min_clients = %" PRIu32,
            more, more == 1 ? "" : "s", wanted);
    } else {
        say(waiting,
            "waiting for the statistics of clients that have come and told none: %" PRIu32
            " of %" PRIu32 " have",
            between->told, between->trainers.enrolled);
    }
    tern_waiting_advise(
        waiting, "each tells them when it checks in; the log of one that does not says why "
                 "(event=client-without-scaling here); statistics.wait ends the wait for more "
                 "than statistics.min_clients");
    waiting->needs_help = more > 0;
    return true;
}

// Where rounds are fitted to budgets, none opens for fewer clients than the quorum (federation/choose.c).
static bool lacks_bytes(const struct between *between, struct tern_waiting *waiting)
{
    const struct tern_waiting_rules *rules = between->rules;
    const struct trainers *trainers = &between->trainers;
    const uint32_t half = rules->cohort / 2 + rules->cohort % 2;
    const uint32_t quorum = rules->quorum != 0 ? rules->quorum : half;
    const uint32_t enough = quorum < trainers->recent ? quorum : trainers->recent;
    if (!rules->fits_budgets || trainers->recent - trainers->spent >= enough) {
        return false;
    }
    say(waiting,
        "waiting for byte budgets: %" PRIu32 " of %" PRIu32
        " clients have none left for a round, and %" PRIu32 " have to take part",
        trainers->spent, trainers->recent, enough);
    tern_waiting_advise(
        waiting, "they are renewed with the month, or raised on the devices ([budget]); a lower "
                 "round.quorum lets fewer do; `tern-aggregator schedule` shows each");
    waiting->needs_help = true;
    return true;
}

static bool pauses(const struct between *between, struct tern_waiting *waiting)
{
    const struct tern_waiting_rules *rules = between->rules;
    const struct tern_db_round *round = &between->status->round;
    const uint64_t opens_ms = round->opened_ms + rules->interval_ms;
    char text[TERN_TEXT];
    if (round->round == 0 || opens_ms <= between->now_ms) {
        return false;
    }
    say(waiting, "the next round opens in %s: round.min_interval%s",
        tern_text_duration(opens_ms - between->now_ms, text),
        rules->interval_is_auto ? " = auto, as round.rounds sets no end" : "");
    tern_waiting_advise(
        waiting,
        "a lower round.min_interval lets rounds follow faster, for more bytes a day: change it, "
        "then send SIGHUP to the service");
    return true;
}

static enum tern_result between_rounds(struct tern_db *db, struct between *between,
                                       struct tern_waiting *waiting)
{
    static bool (*const reasons[])(const struct between *, struct tern_waiting *) = {
        is_over, lacks_clients, sees_nobody, lacks_statistics, lacks_bytes, pauses};
    TERN_TRY(count_trainers(db, between));
    TERN_TRY(count_told(db, between));
    TERN_TRY(add_losses(db, between));
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (reasons[i](between, waiting)) {
            return TERN_OK;
        }
    }
    say(waiting, "the next round opens with the next check-in");
    tern_waiting_advise(
        waiting,
        "clients look in by themselves, within round.come_back_max; `tern-client once` on one "
        "does at once");
    return TERN_OK;
}

// --- Public

enum tern_result tern_waiting_load(struct tern_db *db, const struct tern_waiting_rules *rules,
                                   const struct tern_status *status, uint64_t now_ms,
                                   struct tern_waiting *waiting)
{
    struct between between = {.rules = rules, .status = status, .now_ms = now_ms};
    memset(waiting, 0, sizeof *waiting);
    if (tern_status_is_open(status)) {
        TERN_TRY(load_members(db, status->round.round, waiting));
        say_open(status, now_ms, waiting);
        return TERN_OK;
    }
    return between_rounds(db, &between, waiting);
}
