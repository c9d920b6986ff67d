#include "admin/waiting.h"

#include "views/texts.h"
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

void tern_waiting_put_before(struct tern_waiting *waiting, const char *reason)
{
    char rest[sizeof waiting->sentence];
    memcpy(rest, waiting->sentence, sizeof rest);
    snprintf(waiting->sentence, sizeof waiting->sentence, "%.300s; %.200s", reason, rest);
}

// --- Those who are waited for

// Keeps the few that were seen longest ago, the longest first.
void tern_waiting_add(struct tern_waiting *waiting, const struct tern_db_client *client,
                      bool has_task, uint32_t tries)
{
    uint32_t at = waiting->shown;
    waiting->missing++;
    while (at > 0 && waiting->members[at - 1].client.last_seen_ms > client->last_seen_ms) {
        at--;
    }
    if (at == TERN_WAITING_MEMBERS) {
        return;
    }
    waiting->shown += waiting->shown < TERN_WAITING_MEMBERS;
    memmove(&waiting->members[at + 1], &waiting->members[at],
            (waiting->shown - at - 1) * sizeof waiting->members[0]);
    waiting->members[at] = (struct tern_waiting_member){*client, has_task, tries};
}

// --- A sentence for each reason

typedef void report_fn(struct tern_waiting *waiting, const struct tern_waiting_known *known);

static void report_members(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    char left[TERN_TEXT];
    if (waiting->missing == 0) {
        say(waiting,
            "round %" PRIu32
            " has the updates of all its members, and ends at its deadline or when others come",
            known->facts->round);
    } else {
        say(waiting, "round %" PRIu32 " waits for %" PRIu32 " of its members", known->facts->round,
            waiting->missing);
    }
    if (known->facts->deadline_ms > known->now_ms) {
        tern_waiting_advise(
            waiting,
            "its deadline is in %s, and round.quorum = %" PRIu32
            " updates are enough by then; `tern-aggregator close-round` ends it now",
            tern_text_duration(known->facts->deadline_ms - known->now_ms, left),
            known->facts->quorum);
    } else {
        tern_waiting_advise(
            waiting,
            "its deadline is over: with fewer updates than round.quorum = %" PRIu32
            " others are invited, as they come; `tern-aggregator close-round` ends it now",
            known->facts->quorum);
    }
}

static void report_ended(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    const struct tern_losses *losses = &known->facts->losses;
    say(waiting,
        "ended, since it has %s: the loss of the last round was %.4g, of the first %.4g, the "
        "lowest %.4g, of version %" PRIu32,
        tern_ending_name(losses->ending), (double)known->facts->last_loss, (double)losses->first,
        (double)losses->lowest, losses->lowest_version);
    tern_waiting_advise(waiting, "%s", tern_ending_advice(losses->ending));
}

static void report_finished(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    if (known->rules->follower != 0) {
        say(waiting, "finished: the federation of the aggregator above is done");
        tern_waiting_advise(waiting, "`tern-aggregator export` there writes the model");
        return;
    }
    say(waiting, "finished: round.rounds = %" PRIu32 " are done", known->rules->rounds);
    tern_waiting_advise(
        waiting, "`tern-aggregator export` writes the model; with a higher round.rounds it goes "
                 "on once the service gets SIGHUP");
}

static void report_above(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    (void)known;
    say(waiting, "waiting for a task from the aggregator above: its rounds open those here");
    tern_waiting_advise(waiting, "`tern-aggregator status` there tells what it waits for");
}

static void report_clients(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    const struct tern_tags_wanted *tags = &known->rules->tags;
    const struct tern_trainers *trainers = &known->facts->trainers;
    const uint32_t wanted = known->rules->min_clients;
    const uint32_t more = wanted - trainers->enrolled;
    say(waiting, "waiting for %" PRIu32 " more client%s that train%s: round.min_clients = %" PRIu32,
        more, more == 1 ? "" : "s", more == 1 ? "s" : "", wanted);
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
    } else if (known->code_uses_left == 0) {
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
            known->code_uses_left);
    }
}

static void report_seen(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    char text[TERN_TEXT];
    say(waiting, "waiting for a client: none was seen within round.eligible_within = %s",
        tern_text_duration(known->rules->eligible_within_ms, text));
    tern_waiting_advise(
        waiting, "`tern-aggregator clients` tells when each was seen: does it run, may it work "
                 "(`tern-client status`, `conditions`), does it reach this machine "
                 "(`tern-client check`)?");
}

static void report_too_few_told(struct tern_waiting *waiting,
                                const struct tern_waiting_known *known)
{
    const uint32_t wanted = tern_wait_statistics(known->rules);
    const uint32_t more = wanted - known->facts->trainers.with_statistics;
    say(waiting,
        "waiting for the statistics of %" PRIu32 " more client%s, by which columns are scaled: "
        "statistics.min_clients = %" PRIu32 ", and %" PRIu32 " of those that have come told none",
        more, more == 1 ? "" : "s", wanted, known->facts->trainers.missing_statistics);
    tern_waiting_advise(waiting,
                        "each tells them when it checks in; the log of one that does not says why "
                        "(event=client-without-scaling here); a lower statistics.min_clients does "
                        "without");
}

static void report_statistics(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    const struct tern_trainers *trainers = &known->facts->trainers;
    char left[TERN_TEXT];
    if (trainers->with_statistics < tern_wait_statistics(known->rules)) {
        report_too_few_told(waiting, known);
        return;
    }
    say(waiting,
        "waiting for the statistics of %" PRIu32 " client%s come and told none, for %s at the most",
        trainers->missing_statistics,
        trainers->missing_statistics == 1 ? " that has" : "s that have",
        tern_text_duration(tern_wait_statistics_left_ms(known->rules, known->facts, known->now_ms),
                           left));
    tern_waiting_advise(waiting,
                        "statistics.wait since the first came; the %" PRIu32 " that are there are "
                        "enough by then (statistics.min_clients). The log of a client that tells "
                        "none says why (event=client-without-scaling here)",
                        trainers->with_statistics);
}

static void report_bytes(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    const struct tern_trainers *trainers = &known->facts->trainers;
    say(waiting,
        "waiting for byte budgets: %" PRIu32 " of %" PRIu32
        " clients have none left for a round, and %" PRIu32 " have to take part",
        trainers->spent, trainers->recent, tern_wait_updates(known->rules, known->facts));
    tern_waiting_advise(
        waiting, "they are renewed with the month, or raised on the devices ([budget]); a lower "
                 "round.quorum lets fewer do; `tern-aggregator schedule` shows each");
}

static void report_interval(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    const uint64_t opens_ms = known->facts->opened_ms + known->rules->interval_ms;
    char text[TERN_TEXT];
    say(waiting, "the next round opens in %s: round.min_interval%s",
        tern_text_duration(opens_ms - known->now_ms, text),
        known->rules->interval_is_auto ? " = auto, as round.rounds sets no end" : "");
    tern_waiting_advise(
        waiting,
        "a lower round.min_interval lets rounds follow faster, for more bytes a day: change it, "
        "then send SIGHUP to the service");
}

static void report_checkin(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    (void)known;
    say(waiting, "the next round opens with the next check-in");
    tern_waiting_advise(
        waiting,
        "clients look in by themselves, within round.come_back_max; `tern-client once` on one "
        "does at once");
}

void tern_waiting_say(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    static report_fn *const sentences[TERN_WAIT_COUNT] = {
        [TERN_WAIT_MEMBERS] = report_members,       [TERN_WAIT_ENDED] = report_ended,
        [TERN_WAIT_FINISHED] = report_finished,     [TERN_WAIT_ABOVE] = report_above,
        [TERN_WAIT_CLIENTS] = report_clients,       [TERN_WAIT_SEEN] = report_seen,
        [TERN_WAIT_STATISTICS] = report_statistics, [TERN_WAIT_BYTES] = report_bytes,
        [TERN_WAIT_INTERVAL] = report_interval,     [TERN_WAIT_CHECKIN] = report_checkin,
    };
    waiting->wait = tern_wait_of(known->rules, known->facts, known->now_ms);
    waiting->needs_help = tern_wait_needs_help(waiting->wait, known->rules, known->facts);
    sentences[waiting->wait](waiting, known);
}

// --- By the store

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
            tern_waiting_add(waiting, &client, assignment.state == TERN_ASSIGNMENT_TASKED,
                             assignment.tries);
        }
        tern_db_check_row(rows, found);
    }
    return tern_db_end(rows);
}

// Statistics that clients told, read beside the clients.
struct told {
    struct tern_db_rows *rows; // NULL: they are not awaited
    struct tern_db_statistics row;
    bool more; // `row` is of the first client that was not read yet
};

// Whether the client told any. Each is asked about once, in the order of ids.
static bool has_told(struct told *told, uint64_t client, struct tern_wait_facts *facts)
{
    const bool is_its = told->more && told->row.client == client;
    if (is_its) {
        facts->first_statistics_ms =
            facts->first_statistics_ms == 0 || told->row.received_ms < facts->first_statistics_ms
                ? told->row.received_ms
                : facts->first_statistics_ms;
        told->more = tern_db_next(told->rows, &told->row);
    }
    return is_its;
}

// `waiting` has those that told none.
static enum tern_result count_trainer(struct tern_db *db, const struct tern_waiting_known *known,
                                      const struct tern_db_client *client, struct told *told,
                                      struct tern_wait_facts *facts, struct tern_waiting *waiting)
{
    struct tern_db_schedule schedule = {.least_bytes = 0};
    const bool has_its = has_told(told, client->id, facts);
    if (client->evaluator || client->revoked) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_may_miss(tern_db_schedule_get(db, client->id, &schedule)));
    const uint64_t left =
        client->budget_left > client->budget_spent ? client->budget_left - client->budget_spent : 0;
    const struct tern_waited trainer = {client->tags,
                                        client->created_ms,
                                        client->last_seen_ms,
                                        client->budgeted,
                                        left,
                                        schedule.least_bytes,
                                        has_its};
    tern_trainers_add(&facts->trainers, known->rules, &trainer, known->now_ms);
    if (tern_trainer_is_missing_statistics(known->rules, &trainer, known->now_ms)) {
        tern_waiting_add(waiting, client, false, 0);
    }
    return TERN_OK;
}

static enum tern_result count_trainers(struct tern_db *db, const struct tern_waiting_known *known,
                                       struct tern_wait_facts *facts, struct tern_waiting *waiting)
{
    struct tern_db_client client;
    struct told told = {.rows = NULL};
    struct tern_db_rows *rows = tern_db_clients(db);
    if (tern_wait_scales(known->rules, facts)) {
        told.rows = tern_db_statistics(db);
        told.more = tern_db_next(told.rows, &told.row);
    }
    while (tern_db_next(rows, &client)) {
        tern_db_check_row(rows, count_trainer(db, known, &client, &told, facts, waiting));
    }
    const enum tern_result result = tern_db_end(rows);
    const enum tern_result other = told.rows != NULL ? tern_db_end(told.rows) : TERN_OK;
    return result != TERN_OK ? result : other;
}

static enum tern_result find_scaling(struct tern_db *db, bool *scaled)
{
    uint8_t *scaling = NULL;
    size_t len = 0;
    const enum tern_result found = tern_db_scaling_get(db, &scaling, &len);
    free(scaling);
    *scaled = found == TERN_OK;
    return tern_db_may_miss(found);
}

// Of a gateway whose last round was of devices, or that had none: the next one waits for a task from above.
static enum tern_result find_above(struct tern_db *db, const struct tern_wait_rules *rules,
                                   uint32_t round, bool *awaits)
{
    struct tern_db_update update;
    if (rules->follower == 0) {
        return TERN_OK;
    }
    const enum tern_result found = tern_db_update_find(db, round, rules->follower, &update);
    *awaits = found != TERN_OK;
    return tern_db_may_miss(found);
}

static enum tern_result add_losses(struct tern_db *db, const struct tern_ending_policy *policy,
                                   struct tern_losses *losses)
{
    struct tern_db_round round;
    struct tern_db_rows *rows = tern_db_rounds(db);
    while (tern_db_next(rows, &round)) {
        if (round.state == TERN_ROUND_COMMITTED) {
            tern_losses_add(losses, policy, round.base_version, tern_db_round_loss(&round));
        }
    }
    return tern_db_end(rows);
}

enum tern_result tern_waiting_load(struct tern_db *db, const struct tern_wait_rules *rules,
                                   const struct tern_status *status, uint64_t now_ms,
                                   struct tern_waiting *waiting)
{
    const struct tern_db_round *round = &status->round;
    struct tern_wait_facts facts = {.open = tern_status_is_open(status),
                                    .round = round->round,
                                    .opened_ms = round->opened_ms,
                                    .deadline_ms = round->deadline_ms,
                                    .quorum = round->quorum,
                                    .committed = status->counts.rounds_committed,
                                    .last_loss = tern_db_round_loss(round)};
    const struct tern_waiting_known known = {.rules = rules,
                                             .facts = &facts,
                                             .code_uses_left = status->counts.code_uses_left,
                                             .now_ms = now_ms};
    memset(waiting, 0, sizeof *waiting);
    if (facts.open) {
        TERN_TRY(load_members(db, round->round, waiting));
    } else {
        TERN_TRY(find_scaling(db, &facts.scaled));
        TERN_TRY(find_above(db, rules, round->round, &facts.awaits_above));
        TERN_TRY(count_trainers(db, &known, &facts, waiting));
        TERN_TRY(add_losses(db, &rules->ending, &facts.losses));
    }
    if (!facts.open && tern_wait_of(rules, &facts, now_ms) != TERN_WAIT_STATISTICS) {
        waiting->shown = 0; // nobody is waited for by name
        waiting->missing = 0;
    }
    tern_waiting_say(waiting, &known);
    return TERN_OK;
}
