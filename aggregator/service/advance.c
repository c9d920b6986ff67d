// Moves the rounds on: closes, extends and opens them, each with its rows in the transaction of the
// batch.
#include "service/internal.h"
#include "service/own_replicas.h"

#include "rounds/cohort.h"
#include "rounds/leader.h"
#include <stdio.h>
#include <string.h>

// With nobody eligible, or too few clients, nothing but time or a new client helps.
#define RETRY_OPEN_MS 1000

// Snapshots are large and made anew on demand; old ones serve only who is downloading them now.
#define KEEP_SNAPSHOTS 4

static enum tern_db_assignment_state assignment_state(enum tern_member_state state)
{
    switch (state) {
    case TERN_MEMBER_TASKED:
        return TERN_ASSIGNMENT_TASKED;
    case TERN_MEMBER_REPORTED:
        return TERN_ASSIGNMENT_REPORTED;
    case TERN_MEMBER_REPLACED:
        return TERN_ASSIGNMENT_REPLACED;
    case TERN_MEMBER_INVITED:
        break;
    }
    return TERN_ASSIGNMENT_INVITED;
}

enum tern_result store_member(struct tern_service *service, const struct tern_member *member)
{
    struct tern_db_assignment row = {.round = service->machine.round,
                                     .client = member->client,
                                     .state = assignment_state(member->state),
                                     .local_steps = member->local_steps,
                                     .invited_ms = member->invited_ms,
                                     .tasked_ms = member->tasked_ms,
                                     .reported_ms = member->reported_ms,
                                     .base_version = member->base_version,
                                     .directive = member->directive,
                                     .factor = member->factor};
    memcpy(row.base, member->base, sizeof row.base);
    memcpy(row.codec, member->codec, sizeof row.codec);
    service->roster_due = true;
    return tern_db_assignment_put(service->db, &row);
}

static enum tern_result store_members(struct tern_service *service)
{
    for (uint32_t i = 0; i < service->machine.member_count; i++) {
        TERN_TRY(store_member(service, &service->machine.members[i]));
    }
    return TERN_OK;
}

// --- Opening

// What the round trains and merges with, kept in its row: from here on the configuration does not
// matter to it.
static void fill_row(struct tern_service *service)
{
    const struct tern_service_config *config = &service->config;
    const struct tern_round_machine *machine = &service->machine;
    struct tern_db_round *row = &service->row;
    char previous[TERN_DB_STRATEGY_MAX];
    memcpy(previous, row->strategy, sizeof previous);
    memset(row, 0, sizeof *row);
    row->round = machine->round;
    row->state = TERN_ROUND_OPEN;
    row->base_version = service->merge.version;
    row->target = machine->target;
    row->quorum = machine->quorum;
    row->attempts = machine->attempts;
    row->opened_ms = machine->opened_ms;
    row->deadline_ms = machine->deadline_ms;
    tern_codec_format(&config->codec_up, row->codec_up);
    tern_codec_format(&config->codec_down, row->codec_down);
    row->learning_rate = tern_rate_for(config->train.schedule, config->train.learning_rate,
                                       config->train.learning_rate_final, machine->committed + 1,
                                       config->round.rounds);
    open_strategy(service, previous);
}

// Of so many clients that could be invited. A share of them is no larger than the strategy can
// merge.
static uint32_t cohort_of(const struct tern_service *service, uint32_t count)
{
    const struct tern_service_config *config = &service->config;
    uint32_t most = strategy_cohort_max(config, service->merge.model.count);
    uint32_t cohort = tern_cohort_target(config->round.cohort, config->round.fraction, count);
    return cohort > most && most >= config->round.cohort ? most : cohort;
}

static enum tern_result open_round(struct tern_service *service, uint64_t now)
{
    uint32_t count = 0;
    service->retry_open_ms = now + RETRY_OPEN_MS;
    if (enrolled_trainers(service) >= service->config.min_clients) {
        struct tern_round_policy *policy = &service->machine.policy;
        count = list_eligible(service, now);
        policy->cohort = cohort_of(service, count);
        uint32_t wanted = tern_cohort_size(policy->cohort, policy->over_selection, count);
        count = choose_eligible(service, count, service->machine.round + 1, 1, wanted,
                                tern_round_quorum(policy), now);
    }
    if (count == 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_round_open(&service->machine, service->eligible, count, now));
    fill_row(service);
    TERN_TRY(tern_db_round_put(service->db, &service->row));
    TERN_TRY(store_members(service));
    service->moved = true;
    return TERN_OK;
}

// --- Replacing members

// Fills service->eligible with those that are not members yet, ascending, for `need` members.
static uint32_t list_fresh(struct tern_service *service, uint32_t need, uint64_t now)
{
    uint32_t count = list_eligible(service, now);
    uint32_t fresh = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (tern_round_member(&service->machine, service->eligible[i]) == NULL) {
            service->eligible[fresh++] = service->eligible[i];
        }
    }
    const struct tern_round_machine *machine = &service->machine;
    uint32_t missing =
        machine->quorum > machine->reported ? machine->quorum - machine->reported : 0;
    return choose_eligible(service, fresh, machine->round, machine->attempts + 1, need, missing,
                           now);
}

static enum tern_result store_replacements(struct tern_service *service)
{
    service->row.deadline_ms = service->machine.deadline_ms;
    service->row.attempts = service->machine.attempts;
    service->moved = true;
    TERN_TRY(tern_db_round_put(service->db, &service->row));
    return store_members(service);
}

static enum tern_result extend_round(struct tern_service *service, uint64_t now)
{
    struct tern_round_machine *machine = &service->machine;
    uint32_t fresh = list_fresh(service, tern_round_gone(machine, NULL, NULL), now);
    TERN_TRY(tern_round_extend(machine, service->eligible, fresh, now));
    TERN_TRY(store_replacements(service));
    draw_ended(service, false);
    tern_log(TERN_LOG_WARN, "round-extended", "round=%u updates=%u quorum=%u invited=%u",
             machine->round, machine->reported, machine->quorum, machine->member_count);
    return TERN_OK;
}

static bool is_revoked(const void *ctx, uint64_t id)
{
    const struct tern_service *service = ctx;
    return id <= service->client_count && service->clients[id - 1].revoked;
}

// A revoked member never reports, so the round need not wait for its deadline to invite another.
// While nobody can take its place, the next batch looks again.
static enum tern_result replace_revoked(struct tern_service *service, uint64_t now)
{
    struct tern_round_machine *machine = &service->machine;
    if (!machine->open || !service->clients_changed) {
        return TERN_OK;
    }
    uint32_t gone = tern_round_gone(machine, is_revoked, service);
    uint32_t fresh = gone > 0 ? list_fresh(service, gone, now) : 0;
    service->clients_changed = gone > fresh;
    if (fresh == 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_round_replace(machine, is_revoked, service, service->eligible, fresh, now));
    TERN_TRY(store_replacements(service));
    tern_log(TERN_LOG_INFO, "revoked-replaced", "round=%u members=%u", machine->round,
             gone < fresh ? gone : fresh);
    return TERN_OK;
}

// --- Closing

static enum tern_result store_version(struct tern_service *service,
                                      const struct tern_download_made *made, uint64_t now)
{
    struct tern_merge *merge = &service->merge;
    struct tern_db *db = service->db;
    uint32_t count = merge->model.count;
    struct tern_db_version before;
    TERN_TRY(tern_db_version_get(db, merge->version - 1, &before));
    struct tern_db_version version = {
        .version = merge->version, .round = service->machine.round, .created_ms = now};
    memcpy(version.replica, merge->replica_id, TERN_SHA256_SIZE);
    memcpy(version.model_sha256, merge->model_sha256, TERN_SHA256_SIZE);
    struct tern_db_download download = {.from_version = merge->version - 1,
                                        .to_version = merge->version,
                                        .size = (uint32_t)made->len,
                                        .payload = (uint32_t)made->payload};
    tern_codec_format(&made->codec, download.codec);
    memcpy(download.sha256, made->sha256, TERN_SHA256_SIZE);
    memcpy(download.from_replica, before.replica, TERN_SHA256_SIZE);
    memcpy(download.to_replica, merge->replica_id, TERN_SHA256_SIZE);
    TERN_TRY(tern_db_version_put(db, &version));
    TERN_TRY(own_replicas_version(service, &download, now));
    TERN_TRY(tern_db_weights_put(db, TERN_WEIGHTS_GLOBAL, merge->version, merge->global, count));
    TERN_TRY(tern_db_weights_put(db, TERN_WEIGHTS_REPLICA, merge->version, merge->replica, count));
    return remember_delta(service, merge->version, &download);
}

// Deltas go with their replicas, once nobody needs those.
static enum tern_result prune(struct tern_service *service)
{
    uint32_t version = service->merge.version;
    uint32_t keep = service->config.limits.keep_versions;
    uint64_t freed = 0;
    if (version > KEEP_SNAPSHOTS && service->snapshots > 0) {
        service->snapshots--;
        TERN_TRY(tern_db_snapshot_prune(service->db, version - KEEP_SNAPSHOTS, &freed));
        own_replicas_freed(service->own_replicas, freed);
    }
    if (version > keep) {
        service->deltas[version - keep - 1].size = 0;
    }
    return TERN_OK;
}

static void log_round(const struct tern_service *service, const struct tern_strategy_report *report,
                      const struct tern_download_made *made)
{
    const struct tern_db_round *row = &service->row;
    tern_log(TERN_LOG_INFO, "round",
             "round=%u of=%u version=%u updates=%u loss=%.4f step_norm=%.4g "
             "learning_rate=%.4g ms=%llu download_bytes=%zu",
             row->round, service->config.round.rounds, service->merge.version, report->updates,
             (double)report->mean_loss, (double)report->step_norm, (double)row->learning_rate,
             (unsigned long long)(row->closed_ms - row->opened_ms), made->len);
}

static bool may_pass(enum tern_result result)
{
    return result == TERN_OK || result == TERN_ERR_IO || result == TERN_ERR_BUSY ||
           result == TERN_ERR_NO_MEMORY;
}

// What was accepted can be merged (strategies/bounds.h). If it cannot, the stored bytes are not
// what was accepted, and the service halts rather than leave out what it has acknowledged.
static enum tern_result merge_round(struct tern_service *service, struct tern_download_made *made,
                                    struct tern_strategy_report *report)
{
    enum tern_result result = tern_merge_counted(&service->merge, service->db, &service->row,
                                                 &service->totals, made, report);
    if (!may_pass(result)) {
        snprintf(service->halt_why, sizeof service->halt_why,
                 "the stored updates of round %u cannot be merged (%s); stop the service and "
                 "restore a backup",
                 service->row.round, tern_result_name(result));
    }
    return result;
}

static enum tern_result commit_round(struct tern_service *service, uint64_t now)
{
    struct tern_db_round *row = &service->row;
    struct tern_download_made made;
    struct tern_strategy_report report;
    TERN_TRY(merge_round(service, &made, &report));
    TERN_TRY(store_version(service, &made, now));
    TERN_TRY(tern_merge_store_states(&service->merge, service->db));
    tern_round_close(&service->machine, now);
    row->state = TERN_ROUND_COMMITTED;
    row->closed_ms = now;
    row->applied = report.updates;
    row->mean_loss = report.mean_loss;
    TERN_TRY(measure_drift(service, &report));
    follow_round(service, row);
    TERN_TRY(tern_db_round_put(service->db, row));
    TERN_TRY(prune(service));
    memset(&service->snapshot, 0, sizeof service->snapshot);
    service->last_loss = report.mean_loss;
    service->moved = true;
    draw_ended(service, true);
    log_round(service, &report, &made);
    return TERN_OK;
}

// --- All together

static bool may_open(const struct tern_service *service, uint64_t now)
{
    const struct tern_round_machine *machine = &service->machine;
    return !machine->open && !tern_round_finished(machine) &&
           tern_round_may_open_ms(machine) <= now;
}

static enum tern_result step(struct tern_service *service, uint64_t now)
{
    switch (tern_round_tick(&service->machine, now)) {
    case TERN_ROUND_CLOSE:
        return commit_round(service, now);
    case TERN_ROUND_EXTEND:
        return extend_round(service, now);
    case TERN_ROUND_NOTHING:
        break;
    }
    return TERN_OK;
}

enum tern_result advance_rounds(struct tern_service *service, uint64_t now)
{
    TERN_TRY(replace_revoked(service, now));
    TERN_TRY(step(service, now));
    if (may_open(service, now)) {
        TERN_TRY(open_round(service, now));
    }
    watch_leader(service, now);
    return TERN_OK;
}

uint64_t next_advance(const struct tern_service *service)
{
    const struct tern_round_machine *machine = &service->machine;
    uint64_t next = tern_round_next_tick(machine);
    if (!machine->open && next < service->retry_open_ms) {
        next = service->retry_open_ms;
    }
    if (service->places.awaited && tern_round_leader_until_ms(machine) < next) {
        next = tern_round_leader_until_ms(machine);
    }
    return next;
}
