// Moves the rounds on: closes, extends and opens them, each with its rows in the transaction of the
// batch.
#include "federation/internal.h"

#include "rounds/cohort.h"
#include "rounds/leader.h"
#include <stdio.h>
#include <string.h>

// With nobody eligible, or too few clients, nothing but time or a new client helps.
#define RETRY_OPEN_MS 1000

// --- Opening

// The averaged model begins as the mean of the versions since it was asked for.
static uint32_t average_divisor(const struct tern_federation *federation)
{
    uint32_t most = federation->config.average_versions;
    uint32_t next = federation->merge.averaged + 1;
    return next < most ? next : most;
}

// What the round trains and merges with, kept in its row: from here on the configuration does not
// matter to it.
static void fill_row(struct tern_federation *federation)
{
    const struct tern_federation_config *config = &federation->config;
    const struct tern_round_machine *machine = &federation->machine;
    struct tern_db_round *row = &federation->row;
    char previous[TERN_DB_STRATEGY_MAX];
    memcpy(previous, row->strategy, sizeof previous);
    memset(row, 0, sizeof *row);
    row->round = machine->round;
    row->state = TERN_ROUND_OPEN;
    row->base_version = federation->merge.version;
    row->target = machine->target;
    row->quorum = machine->quorum;
    row->attempts = machine->attempts;
    row->opened_ms = machine->opened_ms;
    row->deadline_ms = machine->deadline_ms;
    row->averaged = average_divisor(federation);
    tern_codec_format(&config->codec_up, row->codec_up);
    tern_codec_format(&config->downloads.codec, row->codec_down);
    row->learning_rate = tern_rate_for(config->train.schedule, config->train.learning_rate,
                                       config->train.learning_rate_final, machine->committed + 1,
                                       config->round.rounds);
    tern_strategy_open(federation, previous);
}

// How many to invite where `count` clients could be. As a share of them it is at most what the strategy
// can merge.
static uint32_t cohort_of(const struct tern_federation *federation, uint32_t count)
{
    const struct tern_federation_config *config = &federation->config;
    uint32_t most = tern_strategy_cohort_max(config, federation->merge.model.count);
    uint32_t cohort = tern_cohort_target(config->round.cohort, config->round.fraction, count);
    return cohort > most && most >= config->round.cohort ? most : cohort;
}

static enum tern_result open_round(struct tern_federation *federation, uint64_t now)
{
    uint32_t count = 0;
    federation->retry_open_ms = now + RETRY_OPEN_MS;
    if (tern_clients_trainers(federation) >= federation->config.min_clients) {
        struct tern_round_policy *policy = &federation->machine.policy;
        count = tern_clients_eligible(federation, now);
        policy->cohort = cohort_of(federation, count);
        uint32_t wanted = tern_cohort_size(policy->cohort, policy->over_selection, count);
        count = tern_choose_eligible(federation, count, federation->machine.round + 1, 1, wanted,
                                     tern_round_quorum(policy), now);
    }
    if (count == 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_round_open(&federation->machine, federation->clients.eligible, count, now));
    fill_row(federation);
    TERN_TRY(tern_db_round_put(federation->db, &federation->row));
    TERN_TRY(tern_members_store_all(federation));
    federation->moved = true;
    return TERN_OK;
}

// --- Replacing members

// Fills federation->clients.eligible with those that are not members yet, ascending, for `need`
// members.
static uint32_t list_fresh(struct tern_federation *federation, uint32_t need, uint64_t now)
{
    uint32_t count = tern_clients_eligible(federation, now);
    uint32_t fresh = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (tern_round_member(&federation->machine, federation->clients.eligible[i]) == NULL) {
            federation->clients.eligible[fresh++] = federation->clients.eligible[i];
        }
    }
    const struct tern_round_machine *machine = &federation->machine;
    uint32_t missing =
        machine->quorum > machine->reported ? machine->quorum - machine->reported : 0;
    return tern_choose_eligible(federation, fresh, machine->round, machine->attempts + 1, need,
                                missing, now);
}

static enum tern_result store_replacements(struct tern_federation *federation)
{
    federation->row.deadline_ms = federation->machine.deadline_ms;
    federation->row.attempts = federation->machine.attempts;
    federation->moved = true;
    TERN_TRY(tern_db_round_put(federation->db, &federation->row));
    return tern_members_store_all(federation);
}

// Whom the round has waited for until its deadline: the first of them.
static void log_silent(const struct tern_round_machine *machine)
{
    char ids[160] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < machine->member_count && used + 24 < sizeof ids; i++) {
        const struct tern_member *member = &machine->members[i];
        if (member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED) {
            used += (size_t)snprintf(ids + used, sizeof ids - used, "%s%llu", used > 0 ? "," : "",
                                     (unsigned long long)member->client);
        }
    }
    tern_log(TERN_LOG_WARN, "round-waits", "round=%u updates=%u quorum=%u silent=%s",
             machine->round, machine->reported, machine->quorum, TERN_LOG_TEXT(ids));
}

static enum tern_result extend_round(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    uint32_t fresh = list_fresh(federation, tern_round_gone(machine, NULL, NULL), now);
    log_silent(machine);
    TERN_TRY(tern_round_extend(machine, federation->clients.eligible, fresh, now));
    TERN_TRY(store_replacements(federation));
    tern_refusals_draw_ended(federation, false);
    tern_log(TERN_LOG_WARN, "round-extended", "round=%u updates=%u quorum=%u invited=%u",
             machine->round, machine->reported, machine->quorum, machine->member_count);
    return TERN_OK;
}

static bool is_revoked(const void *ctx, uint64_t id)
{
    const struct client *client = client_of(ctx, id);
    return client != NULL && client->row.revoked;
}

// A revoked member never reports, so the round need not wait for its deadline to invite another.
// While nobody can take its place, the next batch looks again.
static enum tern_result replace_revoked(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    if (!machine->open || !federation->clients.changed) {
        return TERN_OK;
    }
    uint32_t gone = tern_round_gone(machine, is_revoked, federation);
    uint32_t fresh = gone > 0 ? list_fresh(federation, gone, now) : 0;
    federation->clients.changed = gone > fresh;
    if (fresh == 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_round_replace(machine, is_revoked, federation, federation->clients.eligible,
                                fresh, now));
    TERN_TRY(store_replacements(federation));
    tern_log(TERN_LOG_INFO, "revoked-replaced", "round=%u members=%u", machine->round,
             gone < fresh ? gone : fresh);
    return TERN_OK;
}

// --- Closing

static enum tern_result store_version(struct tern_federation *federation,
                                      const struct tern_download_made *made, uint64_t now)
{
    struct tern_merge *merge = &federation->merge;
    struct tern_db *db = federation->db;
    struct tern_db_version before;
    TERN_TRY(tern_db_version_get(db, merge->version - 1, &before));
    struct tern_db_version version = {
        .version = merge->version, .round = federation->machine.round, .created_ms = now};
    memcpy(version.replica, merge->replica_id, TERN_SHA256_SIZE);
    memcpy(version.model_sha256, merge->model_sha256, TERN_SHA256_SIZE);
    TERN_TRY(tern_db_version_put(db, &version));
    TERN_TRY(tern_catchup_version(federation->catchup, made, before.replica, now));
    return tern_history_checkpoint(federation);
}

static void log_round(const struct tern_federation *federation,
                      const struct tern_strategy_report *report,
                      const struct tern_download_made *made)
{
    const struct tern_db_round *row = &federation->row;
    tern_log(TERN_LOG_INFO, "round",
             "round=%u of=%u version=%u updates=%u loss=%.4f step_norm=%.4g "
             "learning_rate=%.4g ms=%llu download_bytes=%zu",
             row->round, federation->config.round.rounds, federation->merge.version,
             report->updates, (double)report->mean_loss, (double)report->step_norm,
             (double)row->learning_rate, (unsigned long long)(row->closed_ms - row->opened_ms),
             made->len);
}

static bool may_pass(enum tern_result result)
{
    return result == TERN_OK || result == TERN_ERR_IO || result == TERN_ERR_BUSY ||
           result == TERN_ERR_NO_MEMORY;
}

// What was accepted can be merged (strategies/bounds.h). If it cannot, the stored bytes are not
// what was accepted, and the federation halts rather than leave out what it has acknowledged.
static enum tern_result merge_round(struct tern_federation *federation,
                                    struct tern_download_made *made,
                                    struct tern_strategy_report *report)
{
    enum tern_result result = tern_merge_counted(
        &federation->merge, federation->db, &federation->row, &federation->totals, made, report);
    if (!may_pass(result)) {
        snprintf(federation->damage, sizeof federation->damage,
                 "the stored updates of round %u cannot be merged (%s); stop the federation and "
                 "restore a backup",
                 federation->row.round, tern_result_name(result));
    }
    return result;
}

static enum tern_result commit_round(struct tern_federation *federation, uint64_t now)
{
    struct tern_db_round *row = &federation->row;
    struct tern_download_made made;
    struct tern_strategy_report report;
    TERN_TRY(merge_round(federation, &made, &report));
    TERN_TRY(tern_db_received_bytes(federation->db, &row->received_bytes));
    TERN_TRY(store_version(federation, &made, now));
    tern_merge_stop(&federation->merge);
    tern_round_close(&federation->machine, now);
    row->state = TERN_ROUND_COMMITTED;
    row->closed_ms = now;
    row->applied = report.updates;
    row->mean_loss = report.mean_loss;
    TERN_TRY(tern_drift_measure(federation, &report));
    tern_drift_follow(federation, row);
    TERN_TRY(tern_db_round_put(federation->db, row));
    TERN_TRY(tern_history_decide(federation));
    federation->last_loss = report.mean_loss;
    federation->moved = true;
    tern_refusals_draw_ended(federation, true);
    log_round(federation, &report, &made);
    return TERN_OK;
}

// --- All together

static bool may_open(const struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    return !machine->open && !tern_round_finished(machine) &&
           tern_round_may_open_ms(machine) <= now;
}

static enum tern_result step(struct tern_federation *federation, uint64_t now)
{
    switch (tern_round_tick(&federation->machine, now)) {
    case TERN_ROUND_CLOSE:
        return commit_round(federation, now);
    case TERN_ROUND_EXTEND:
        return extend_round(federation, now);
    case TERN_ROUND_NOTHING:
        break;
    }
    return TERN_OK;
}

enum tern_result tern_federation_advance(struct tern_federation *federation, uint64_t now)
{
    TERN_TRY(tern_history_drop(federation));
    TERN_TRY(replace_revoked(federation, now));
    TERN_TRY(step(federation, now));
    if (may_open(federation, now)) {
        TERN_TRY(open_round(federation, now));
    }
    tern_share_watch(federation, now);
    return TERN_OK;
}

uint64_t tern_federation_next_advance(const struct tern_federation *federation)
{
    const struct tern_round_machine *machine = &federation->machine;
    uint64_t next = federation->prune_due ? 0 : tern_round_next_tick(machine);
    if (!machine->open && next < federation->retry_open_ms) {
        next = federation->retry_open_ms;
    }
    if (federation->indices.awaited && tern_round_leader_until_ms(machine) < next) {
        next = tern_round_leader_until_ms(machine);
    }
    return next;
}
