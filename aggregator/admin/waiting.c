#include "admin/waiting.h"

#include "views/texts.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void explain(struct tern_waiting *waiting,
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

// --- Clients that are waited for

// Stores at most TERN_WAITING_MEMBERS clients, the longest unseen clients first.
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
        explain(
            waiting,
            "round %" PRIu32
            " has the updates of all its members; it ends at its deadline, or with further members",
            known->facts->round);
    } else {
        explain(waiting, "round %" PRIu32 " waits for %" PRIu32 " of its members",
                known->facts->round, waiting->missing);
    }
    if (known->facts->deadline_ms > known->now_ms) {
        tern_waiting_advise(waiting,
                            "its deadline is in %s; round.quorum = %" PRIu32
                            " updates are enough then; `tern-aggregator close-round` ends it now",
                            tern_text_duration(known->facts->deadline_ms - known->now_ms, left),
                            known->facts->quorum);
    } else {
        tern_waiting_advise(
            waiting,
            "its deadline has passed with fewer updates than round.quorum = %" PRIu32
            ": clients that check in are added; `tern-aggregator close-round` ends it now",
            known->facts->quorum);
    }
}

static void report_ended(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    const struct tern_losses *losses = &known->facts->losses;
    if (losses->ending == TERN_ENDING_NONE || losses->ending == TERN_ENDING_PRIVACY) {
        const struct tern_trainer_counts *trainers = &known->facts->trainers;
        explain(waiting,
                "ended, since the privacy budget is spent: another round would raise %" PRIu32
                " of %" PRIu32 " clients above privacy.epsilon_max",
                trainers->privacy_spent, trainers->enrolled);
        tern_waiting_advise(waiting, "%s", tern_ending_advice(TERN_ENDING_PRIVACY));
        return;
    }
    explain(waiting,
            "ended, since it has %s: the loss of the last round was %.4g, of the first %.4g, the "
            "lowest %.4g, of version %" PRIu32,
            tern_ending_name(losses->ending), (double)known->facts->last_loss,
            (double)losses->first, (double)losses->lowest, losses->lowest_version);
    tern_waiting_advise(waiting, "%s", tern_ending_advice(losses->ending));
}

static void report_finished(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    if (known->rules->upstream_client != 0) {
        explain(waiting, "finished: the federation of the upstream aggregator is done");
        tern_waiting_advise(waiting, "`tern-aggregator export` there writes the model");
        return;
    }
    explain(waiting, "finished: round.rounds = %" PRIu32 " are done", known->rules->rounds);
    tern_waiting_advise(
        waiting, "`tern-aggregator export` writes the model; to continue, raise round.rounds and "
                 "send SIGHUP to the service");
}

static void report_upstream(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    (void)known;
    explain(waiting,
            "waiting for a task from the upstream aggregator, which opens the rounds here");
    tern_waiting_advise(waiting, "`tern-aggregator status` there shows what it waits for");
}

static void report_clients(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    const struct tern_tag_selection *tags = &known->rules->tags;
    const struct tern_trainer_counts *trainers = &known->facts->trainers;
    const uint32_t wanted = known->rules->min_clients;
    const uint32_t more = wanted - trainers->enrolled;
    explain(waiting,
            "waiting for %" PRIu32 " more client%s that train%s: round.min_clients = %" PRIu32,
            more, more == 1 ? "" : "s", more == 1 ? "s" : "", wanted);
    if (trainers->excluded_by_tags > 0) {
        tern_waiting_advise(waiting,
                            "%" PRIu32 " client%s not the tags of round.selection = tags:%s%s%s: "
                            "`tern-aggregator tag` sets them, `clients` lists them",
                            trainers->excluded_by_tags,
                            trainers->excluded_by_tags == 1 ? " has" : "s have", tags->required,
                            tags->required[0] != '\0' && tags->spread_key[0] != '\0' ? "," : "",
                            tags->spread_key);
    } else if (trainers->never_checked_in > 0) {
        tern_waiting_advise(waiting,
                            "%" PRIu32 " enrolled and never checked in: start `tern-client run` on "
                            "them (`tern-aggregator clients` lists them), or lower "
                            "round.min_clients",
                            trainers->never_checked_in);
    } else if (known->code_uses_left == 0) {
        tern_waiting_advise(waiting,
                            "`tern-aggregator enroll-code --uses %" PRIu32
                            "` makes a join code; on each device: `tern-client enroll CODE`, then "
                            "`tern-client run`",
                            more);
    } else {
        tern_waiting_advise(
            waiting,
            "join codes allow %" PRIu64
            " more: `tern-client enroll CODE` on a device, then `tern-client run`; or lower "
            "round.min_clients",
            known->code_uses_left);
    }
}

static void report_seen(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    char text[TERN_TEXT];
    explain(waiting, "waiting for a client: none was seen within round.eligible_within = %s",
            tern_text_duration(known->rules->eligible_within_ms, text));
    tern_waiting_advise(
        waiting, "`tern-aggregator clients` lists when each was seen; on a device check whether it "
                 "runs and may work (`tern-client status`) and reaches this machine "
                 "(`tern-client check`)");
}

static void report_too_few_statistics(struct tern_waiting *waiting,
                                      const struct tern_waiting_known *known)
{
    const uint32_t wanted = tern_wait_statistics_needed(known->rules);
    const uint32_t more = wanted - known->facts->trainers.with_statistics;
    explain(waiting,
            "waiting for the statistics of %" PRIu32 " more client%s, which scale the columns: "
            "statistics.min_clients = %" PRIu32 ", and %" PRIu32 " that checked in sent none",
            more, more == 1 ? "" : "s", wanted, known->facts->trainers.missing_statistics);
    tern_waiting_advise(waiting,
                        "clients send them at a check-in; the log of a client that does not has "
                        "the reason (event=client-without-scaling here); or lower "
                        "statistics.min_clients");
}

static void report_statistics(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    const struct tern_trainer_counts *trainers = &known->facts->trainers;
    char left[TERN_TEXT];
    if (trainers->with_statistics < tern_wait_statistics_needed(known->rules)) {
        report_too_few_statistics(waiting, known);
        return;
    }
    explain(waiting,
            "waiting for the statistics of %" PRIu32 " client%s checked in without, for at most %s",
            trainers->missing_statistics,
            trainers->missing_statistics == 1 ? " that has" : "s that have",
            tern_text_duration(
                tern_wait_statistics_left_ms(known->rules, known->facts, known->now_ms), left));
    tern_waiting_advise(waiting,
                        "statistics.wait after the first; the %" PRIu32 " that have arrived are "
                        "enough then (statistics.min_clients). The log of a client that sends none "
                        "has the reason (event=client-without-scaling here)",
                        trainers->with_statistics);
}

static void report_bytes(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    const struct tern_trainer_counts *trainers = &known->facts->trainers;
    explain(waiting,
            "waiting for byte budgets: %" PRIu32 " of %" PRIu32
            " clients have none left for a round, and %" PRIu32 " must take part",
            trainers->out_of_budget, trainers->recent,
            tern_wait_clients_needed(known->rules, known->facts));
    tern_waiting_advise(
        waiting, "budgets are renewed each month, or raised on the devices ([budget]); a lower "
                 "round.quorum needs fewer clients; `tern-aggregator schedule` shows each");
}

static void report_interval(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    const uint64_t opens_ms = known->facts->opened_ms + known->rules->interval_ms;
    char text[TERN_TEXT];
    explain(waiting, "the next round opens in %s: round.min_interval%s",
            tern_text_duration(opens_ms - known->now_ms, text),
            known->rules->interval_is_auto ? " = auto, because round.rounds sets no end" : "");
    tern_waiting_advise(
        waiting,
        "for faster rounds, which cost more bytes a day, lower round.min_interval and send SIGHUP "
        "to the service");
}

static void report_tickets(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    const uint32_t wanted = tern_wait_tickets_needed(known->rules);
    const uint32_t more = wanted - known->facts->trainers.with_ticket;
    explain(waiting,
            "waiting for %" PRIu32
            " more client%s with a ticket for the helper: secure rounds need "
            "%" PRIu32,
            more, more == 1 ? "" : "s", wanted);
    tern_waiting_advise(waiting, "each client needs [secure] helper_key and code; the log has "
                                 "event=ticket-refused for codes that the helper does not accept");
}

static const char *advice_of_abandoned(const struct tern_wait_facts *facts)
{
    if (tern_wait_is_near_list(facts)) {
        return "the helper refuses lists near an earlier one of the same model: wait until all "
               "devices of that earlier round take part, or the helper's operator runs "
               "`tern-helper release`; `tern-aggregator rounds --json` has the round";
    }
    return strcmp(facts->abandoned, "revoked-client") == 0
               ? "the helper's operator revoked a device; the aggregator asks for the tickets "
                 "again, "
                 "and leaves out those in the log's event=ticket-refused"
               : "`tern-aggregator rounds --json` has the reason";
}

static void report_helper(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    if (known->facts->asks_helper) {
        explain(waiting, "round %" PRIu32 " waits for the helper, which has the sum of its masks",
                known->facts->round);
        tern_waiting_advise(waiting,
                            "after round.deadline the round is abandoned, and clients put their "
                            "updates back; the log has event=helper-gives-no-sum for each failure");
    } else if (known->facts->helper_silent) {
        explain(waiting, "waiting for the helper of secure rounds, which does not answer");
        tern_waiting_advise(waiting,
                            "check that tern-helper runs, that secure.helper is its address, and "
                            "secure.ca and the token; the log has event=helper-silent with the "
                            "reason");
    } else if (tern_wait_is_log_refused(known->facts)) {
        explain(waiting,
                "round %" PRIu32
                " was abandoned (helper-log): clients saw a longer log of the helper, or another",
                known->facts->round);
        tern_waiting_advise(waiting,
                            "ask the helper's operator whether its ledger was restored; then "
                            "`tern-helper renew` there, again until rounds go on: each adds an "
                            "entry (docs/OPERATIONS.md, \"Run a helper\")");
    } else {
        explain(waiting,
                "round %" PRIu32 " was abandoned (%s), and the next one opens a while later",
                known->facts->round, known->facts->abandoned);
        tern_waiting_advise(waiting, "%s", advice_of_abandoned(known->facts));
    }
}

static void report_checkin(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    (void)known;
    explain(waiting, "the next round opens with the next check-in");
    tern_waiting_advise(
        waiting,
        "clients check in by themselves within round.come_back_max; `tern-client once` on a "
        "device does so at once");
}

void tern_waiting_describe(struct tern_waiting *waiting, const struct tern_waiting_known *known)
{
    static report_fn *const sentences[TERN_WAIT_COUNT] = {
        [TERN_WAIT_MEMBERS] = report_members,       [TERN_WAIT_ENDED] = report_ended,
        [TERN_WAIT_FINISHED] = report_finished,     [TERN_WAIT_UPSTREAM] = report_upstream,
        [TERN_WAIT_CLIENTS] = report_clients,       [TERN_WAIT_SEEN] = report_seen,
        [TERN_WAIT_STATISTICS] = report_statistics, [TERN_WAIT_BYTES] = report_bytes,
        [TERN_WAIT_INTERVAL] = report_interval,     [TERN_WAIT_CHECKIN] = report_checkin,
        [TERN_WAIT_TICKETS] = report_tickets,       [TERN_WAIT_HELPER] = report_helper,
    };
    waiting->wait = tern_wait_reason(known->rules, known->facts, known->now_ms);
    waiting->needs_help = tern_wait_needs_help(waiting->wait, known->rules, known->facts);
    sentences[waiting->wait](waiting, known);
}

// --- The upstream aggregator of a gateway

const char *tern_upstream_sentence(const struct tern_service_upstream *upstream, uint64_t now_ms,
                                   char text[TERN_UPSTREAM_MAX])
{
    char duration[TERN_TEXT];
    const uint64_t ms = now_ms > upstream->silent_ms ? now_ms - upstream->silent_ms : 0;
    tern_text_duration(ms, duration);
    if (upstream->status != 0) {
        snprintf(text, TERN_UPSTREAM_MAX,
                 "the upstream aggregator has answered only errors for %.40s (HTTP %d: %s)",
                 duration, upstream->status, upstream->why);
    } else {
        snprintf(text, TERN_UPSTREAM_MAX,
                 "the upstream aggregator has not been reached for %.40s (%s)", duration,
                 upstream->why);
    }
    return text;
}

#define MEANWHILE                                                                                  \
    "devices' updates are kept on this disk and sent once the upstream aggregator answers; until " \
    "then no further round opens here. "

const char *tern_upstream_advice(const struct tern_service_upstream *upstream)
{
    if (upstream->error == TERN_ERR_TLS) {
        return MEANWHILE "Check that relay.ca is the CA of its certificate, that the certificate "
                         "has the name in relay.server, and that it is valid today";
    }
    return upstream->status != 0 ? MEANWHILE
               "The upstream aggregator's status and log have the cause"
                                 : MEANWHILE
               "Check that the upstream aggregator runs, that relay.server is its address, "
               "and the network; the log has event=upstream-unreachable "
               "for each try";
}

void tern_waiting_add_upstream(const struct tern_service_upstream *upstream, uint64_t now_ms,
                               struct tern_waiting *waiting)
{
    char text[TERN_UPSTREAM_MAX];
    if (upstream->silent_ms == 0) {
        return;
    }
    tern_waiting_put_before(waiting, tern_upstream_sentence(upstream, now_ms, text));
    tern_waiting_advise(waiting, "%s", tern_upstream_advice(upstream));
    waiting->needs_help = waiting->needs_help || upstream->error == TERN_ERR_TLS;
}

// --- From the store

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

// The stored statistics, which are read together with the clients, in the order of ids.
struct reading {
    struct tern_db_rows *rows; // NULL: no statistics are needed
    struct tern_db_statistics row;
    bool more;          // `row` is read, and belongs to a client that is not read yet
    double loss_before; // largest privacy_loss of a client that may take part in another round
};

// Whether statistics of the client are stored. Call this function once for each client, in the order of ids.
static bool has_statistics(struct reading *stored, uint64_t client, struct tern_wait_facts *facts)
{
    const bool has = stored->more && stored->row.client == client;
    if (has) {
        facts->first_statistics_ms =
            facts->first_statistics_ms == 0 || stored->row.received_ms < facts->first_statistics_ms
                ? stored->row.received_ms
                : facts->first_statistics_ms;
        stored->more = tern_db_next(stored->rows, &stored->row);
    }
    return has;
}

// Counts a client in facts->trainers, and adds it to `waiting` if its statistics are missing.
static enum tern_result count_trainer(struct tern_db *db, const struct tern_waiting_known *known,
                                      const struct tern_db_client *client, struct reading *reading,
                                      struct tern_wait_facts *facts, struct tern_waiting *waiting)
{
    struct tern_db_schedule schedule = {.least_bytes = 0};
    const bool has_its = has_statistics(reading, client->id, facts);
    if (client->evaluator || client->revoked) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_may_miss(tern_db_schedule_get(db, client->id, &schedule)));
    const uint64_t left =
        client->budget_left > client->budget_spent ? client->budget_left - client->budget_spent : 0;
    const struct tern_wait_client trainer = {client->tags,
                                             client->created_ms,
                                             client->last_seen_ms,
                                             client->budgeted,
                                             left,
                                             schedule.least_bytes,
                                             has_its,
                                             (double)client->privacy_loss > reading->loss_before,
                                             false};
    tern_trainer_counts_add(&facts->trainers, known->rules, &trainer, known->now_ms);
    if (tern_wait_client_lacks_statistics(known->rules, &trainer, known->now_ms)) {
        tern_waiting_add(waiting, client, false, 0);
    }
    return TERN_OK;
}

static enum tern_result count_trainers(struct tern_db *db, const struct tern_waiting_known *known,
                                       uint64_t clients, struct tern_wait_facts *facts,
                                       struct tern_waiting *waiting)
{
    struct tern_db_client client;
    struct reading reading = {.loss_before =
                                  tern_privacy_loss_before(&known->rules->privacy, clients)};
    struct tern_db_rows *rows = tern_db_clients(db);
    if (tern_wait_needs_scaling(known->rules, facts)) {
        reading.rows = tern_db_statistics(db);
        reading.more = tern_db_next(reading.rows, &reading.row);
    }
    while (tern_db_next(rows, &client)) {
        tern_db_check_row(rows, count_trainer(db, known, &client, &reading, facts, waiting));
    }
    const enum tern_result result = tern_db_end(rows);
    const enum tern_result other = reading.rows != NULL ? tern_db_end(reading.rows) : TERN_OK;
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

// Whether a gateway waits for a task of the upstream aggregator: the client that stands for this aggregator has not
// sent the last round's update.
static enum tern_result find_upstream_task(struct tern_db *db, const struct tern_wait_rules *rules,
                                           uint32_t round, bool *awaits)
{
    struct tern_db_update update;
    if (rules->upstream_client == 0) {
        return TERN_OK;
    }
    const enum tern_result found = tern_db_update_find(db, round, rules->upstream_client, &update);
    *awaits = found != TERN_OK;
    return tern_db_may_miss(found);
}

static enum tern_result add_losses(struct tern_db *db, const struct tern_ending_policy *policy,
                                   struct tern_losses *losses)
{
    struct tern_db_round round;
    struct tern_db_rows *rows = tern_db_rounds(db);
    while (tern_db_next(rows, &round)) {
        if (round.mode == TERN_ROUND_RESTORED) {
            *losses = (struct tern_losses){.rounds = 0};
        } else if (round.state == TERN_ROUND_COMMITTED && round.noise == 0) {
            tern_losses_add(losses, policy, round.base_version, tern_db_round_loss(&round));
        }
    }
    return tern_db_end(rows);
}

// Sets what the store has about the helper of secure rounds.
static enum tern_result find_helper_facts(struct tern_db *db, const struct tern_db_round *round,
                                          struct tern_wait_facts *facts)
{
    struct tern_db_secure_round row;
    if (round->mode != TERN_ROUND_SECURE) {
        return TERN_OK;
    }
    struct tern_db_rows *rows = tern_db_secure_round(db, round->round);
    if (tern_db_next(rows, &row)) {
        facts->asks_helper = row.state == TERN_SECURE_ASKED;
    }
    if (round->state == TERN_ROUND_ABANDONED) {
        tern_wait_set_abandoned(facts, round->closed_ms, round->reason);
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
    TERN_TRY(find_helper_facts(db, round, &facts));
    if (facts.open) {
        TERN_TRY(load_members(db, round->round, waiting));
    } else {
        TERN_TRY(find_scaling(db, &facts.scaled));
        TERN_TRY(find_upstream_task(db, rules, round->round, &facts.awaits_upstream));
        TERN_TRY(count_trainers(db, &known, status->counts.clients, &facts, waiting));
        TERN_TRY(add_losses(db, &rules->ending, &facts.losses));
        TERN_TRY(tern_db_tickets_admitted(db, &facts.trainers.with_ticket));
    }
    if (!facts.open && tern_wait_reason(rules, &facts, now_ms) != TERN_WAIT_STATISTICS) {
        waiting->shown = 0; // the federation does not wait for particular clients
        waiting->missing = 0;
    }
    tern_waiting_describe(waiting, &known);
    return TERN_OK;
}
