#include "federation/federation.h"

#include "federation/clients.h"
#include "federation/closing.h"
#include "federation/round.h"
#include "federation/secure.h"
#include "federation/statistics.h"
#include "federation/update.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tern_result tern_federation_accepts_config(const struct tern_federation *federation,
                                                const struct tern_federation_config *config,
                                                char why[256])
{
    TERN_TRY(tern_federation_check_config(config, federation->merge.model.count, why));
    if (!tern_secure_can_train(config, &federation->merge.model, why)) {
        return TERN_ERR_CONFIG;
    }
    return tern_federation_can_scale(config, federation->about.model_spec, why) ? TERN_OK
                                                                                : TERN_ERR_CONFIG;
}

void tern_federation_configure(struct tern_federation *federation,
                               const struct tern_federation_config *config)
{
    federation->config = *config;
    federation->merge.memory = config->strategy_memory;
}

static enum tern_result initialise(struct tern_federation *federation, char why[256])
{
    const struct tern_federation_config *config = &federation->config;
    struct tern_merge *merge = &federation->merge;
    TERN_TRY(tern_db_federation(federation->db, &federation->about));
    TERN_TRY(tern_merge_init(merge, &federation->about, &config->vectors));
    TERN_TRY(tern_federation_accepts_config(federation, config, why));
    merge->memory = config->strategy_memory;
    TERN_TRY(tern_secure_new(federation, why));
    return tern_closing_new(federation, why);
}

// Frees and zeroes all state that is derived from the store.
static void free_derived_state(struct tern_federation *federation)
{
    const size_t first = offsetof(struct tern_federation, catchup);
    if (federation->closing != NULL) {
        tern_federation_wait_for_merge(federation); // the result of the merge is dropped
    }
    if (federation->catchup != NULL) {
        federation->earlier_searches = tern_federation_searches(federation);
    }
    tern_catchup_free(federation->catchup);
    free(federation->machine.members);
    free(federation->clients.list);
    free(federation->clients.candidates);
    free(federation->clients.tagged);
    free(federation->scaling.body);
    memset((uint8_t *)federation + first, 0, sizeof *federation - first);
}

enum tern_result tern_federation_new(const struct tern_federation_config *config,
                                     const struct tern_federation_ports *ports, struct tern_db *db,
                                     struct tern_federation **out, char why[256])
{
    struct tern_federation *federation = calloc(1, sizeof *federation);
    if (federation == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->config = *config;
    federation->ports = *ports;
    federation->db = db;
    federation->published = (struct tern_published){.lock = PTHREAD_MUTEX_INITIALIZER};
    enum tern_result result = initialise(federation, why);
    if (result != TERN_OK) {
        tern_federation_free(federation);
        return result;
    }
    *out = federation;
    return TERN_OK;
}

void tern_federation_free(struct tern_federation *federation)
{
    if (federation == NULL) {
        return;
    }
    free_derived_state(federation);
    tern_closing_free(federation);
    tern_secure_free(federation);
    tern_merge_free(&federation->merge);
    tern_published_free(&federation->published);
    free(federation);
}

// Stores version 0 at a federation's first start.
static enum tern_result store_seed_version(struct tern_federation *federation, uint64_t now)
{
    struct tern_merge *merge = &federation->merge;
    struct tern_db *db = federation->db;
    TERN_TRY(tern_merge_first(merge, db));
    struct tern_db_version version = {.created_ms = now};
    memcpy(version.replica, merge->replica_id, TERN_SHA256_SIZE);
    memcpy(version.model_sha256, merge->model_sha256, TERN_SHA256_SIZE);
    TERN_TRY(tern_db_begin(db));
    enum tern_result result = tern_db_version_put(db, &version);
    if (result == TERN_OK) {
        result = tern_merge_checkpoint(merge, db, UINT64_MAX);
    }
    return tern_db_conclude(db, result);
}

static enum tern_result load_model(struct tern_federation *federation, uint64_t now)
{
    enum tern_result result = tern_merge_load(&federation->merge, federation->db);
    if (result == TERN_ERR_NOT_FOUND) {
        return store_seed_version(federation, now);
    }
    return result;
}

// --- Loading rounds from the store

static void load_round(struct tern_federation *federation, const struct tern_db_round *row)
{
    tern_round_restore(&federation->machine, row->round, row->target, row->quorum, row->attempts,
                       row->opened_ms, row->deadline_ms);
    tern_rate_round_opened(&federation->rate_state, row->decays);
    if (row->state == TERN_ROUND_COMMITTED) {
        tern_closing_apply_committed(federation, row);
        federation->secure.abandoned = 0;
    } else if (row->state == TERN_ROUND_ABANDONED) {
        tern_round_abandon(&federation->machine, row->closed_ms);
        if (row->mode == TERN_ROUND_SECURE) {
            tern_secure_note_abandoned(federation, row->closed_ms);
        }
    }
    if (row->mode == TERN_ROUND_RESTORED) {
        federation->restored_round = row->round;
    }
    federation->row = *row;
}

// Checks at the start that this program has the open round's strategy and codecs, before it receives updates that it
// could not merge. TERN_ERR_UNKNOWN
static enum tern_result check_open_round(const struct tern_db_round *row)
{
    struct tern_codec codec;
    struct tern_strategy_rule rule;
    bool known = tern_rule_read(row, &rule) == TERN_OK &&
                 tern_codec_parse(row->codec_up, &codec, NULL) == TERN_OK &&
                 tern_codec_parse(row->codec_down, &codec, NULL) == TERN_OK;
    return known ? TERN_OK : TERN_ERR_UNKNOWN;
}

static enum tern_result load_member(struct tern_federation *federation,
                                    const struct tern_db_assignment *row)
{
    struct tern_member member = {.client = row->client,
                                 .state = (enum tern_member_state)row->state,
                                 .local_steps = row->local_steps,
                                 .tries = row->tries,
                                 .invited_ms = row->invited_ms,
                                 .tasked_ms = row->tasked_ms,
                                 .reported_ms = row->reported_ms,
                                 .base_version = row->base_version,
                                 .directive = row->directive,
                                 .factor = row->factor,
                                 .decay = row->decay,
                                 .is_stored = true,
                                 .stored = (enum tern_member_state)row->state};
    memcpy(member.base, row->base, sizeof member.base);
    memcpy(member.codec, row->codec, sizeof member.codec);
    return tern_round_restore_member(&federation->machine, &member);
}

static enum tern_result load_members(struct tern_federation *federation)
{
    struct tern_db_assignment row;
    struct tern_db_rows *rows = tern_db_assignments(federation->db, federation->machine.round);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, load_member(federation, &row));
    }
    return tern_db_end(rows);
}

// Replaces the time of a client's last check-in. A client that has never checked in keeps a time no later than its
// enrolment.
static void set_last_seen(struct client *client, uint64_t ms)
{
    struct tern_db_client *row = &client->row;
    if (row->last_seen_ms > row->created_ms) {
        row->last_seen_ms = ms > row->created_ms ? ms : row->created_ms + 1;
    } else {
        row->last_seen_ms = ms < row->created_ms ? ms : row->created_ms;
    }
}

// Moves times in the future back to now: the clock may have been set while the machine was off.
static void limit_times_to_now(struct tern_federation *federation, uint64_t now)
{
    struct clients *clients = &federation->clients;
    tern_round_limit_times(&federation->machine, now);
    federation->row.opened_ms = federation->machine.opened_ms;
    federation->row.deadline_ms = federation->machine.deadline_ms;
    for (uint32_t i = 0; i < clients->count; i++) {
        struct client *client = &clients->list[i];
        const uint64_t seen = client->row.last_seen_ms;
        set_last_seen(client, seen < now ? seen : now);
    }
}

// Records the figures of a stored update of the open round, as when the update arrived.
static enum tern_result record_stored_update(void *ctx, const struct tern_db_update *update)
{
    struct tern_federation *federation = ctx;
    struct client *client = client_of(federation, update->client);
    struct tern_codec_info info;
    struct tern_span container;
    tern_Update message;
    if (client == NULL || update->body == NULL || update->round != federation->machine.round) {
        return TERN_OK;
    }
    TERN_TRY(tern_wire_decode_update(update->body, update->body_len, &message, &container));
    TERN_TRY(
        tern_container_inspect(&federation->merge.model, container.data, container.len, &info));
    tern_clients_record_update(client, &message, info.sum_square);
    return TERN_OK;
}

static enum tern_result load_reported_updates(struct tern_federation *federation)
{
    return federation->machine.open ? tern_db_update_each(federation->db, federation->machine.round,
                                                          record_stored_update, federation)
                                    : TERN_OK;
}

static enum tern_result load_open_round(struct tern_federation *federation)
{
    struct tern_round_machine *machine = &federation->machine;
    if (federation->row.mode == TERN_ROUND_RESTORED) {
        return TERN_OK; // has no members and no updates
    }
    TERN_TRY(check_open_round(&federation->row));
    if (machine->policy.fraction > 0.0 && machine->target > machine->policy.cohort) {
        machine->policy.cohort = machine->target; // the cohort when the round opened
    }
    TERN_TRY(tern_merge_resume(&federation->merge, federation->db, &federation->row,
                               &federation->totals));
    machine->takes_late_updates = federation->totals.rule.strategy->accepts_late_updates;
    tern_rounds_load_epoch(federation);
    TERN_TRY(load_members(federation));
    if (machine->takes_late_updates) {
        tern_round_add_late_updates(machine, federation->totals.updates - machine->reported);
    }
    return TERN_OK;
}

// Loads the operator's order, which closing.c executes once it is ready.
static enum tern_result load_order(struct tern_federation *federation)
{
    federation->order = (struct tern_db_order){.ready = false};
    return tern_db_may_miss(tern_db_order_get(federation->db, &federation->order));
}

// Loads all rounds, and the members and updates of the last one if it is open.
static enum tern_result load_rounds(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_policy policy = federation->config.round;
    policy.seed = federation->about.seed;
    policy.quorum_least =
        federation->config.secure.enabled ? federation->config.secure.min_clients : 0;
    federation->prune_due = true; // the last process may have stopped before it dropped all rows
    federation->disk_check_due = true;
    tern_steps_state_init(&federation->steps_state, &federation->config.steps);
    tern_round_init(&federation->machine, &policy, federation->machine.members,
                    federation->machine.member_capacity);
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        tern_round_client_joined(&federation->machine, federation->clients.list[i].row.created_ms);
    }
    struct tern_db_round row = {.round = 0};
    struct tern_db_rows *rows = tern_db_rounds(federation->db);
    while (tern_db_next(rows, &row)) {
        load_round(federation, &row);
    }
    TERN_TRY(tern_db_end(rows));
    if (federation->config.upstream_client !=
        0) { // no later one, as where the database is a backup
        const uint32_t undone = federation->config.undone_round;
        federation->restored_round = undone < row.round ? undone : row.round;
    }
    tern_merge_stop(&federation->merge);
    TERN_TRY(federation->machine.open ? load_open_round(federation) : TERN_OK);
    TERN_TRY(load_reported_updates(federation));
    TERN_TRY(load_order(federation));
    limit_times_to_now(federation, now);
    // The service was down before now, so members are not yet late with a check-in.
    federation->loaded_ms = now;
    return TERN_OK;
}

// --- Loading all state

enum tern_result tern_federation_load(struct tern_federation *federation, uint64_t now)
{
    free_derived_state(federation);
    federation->counts = federation->counts_before;
    TERN_TRY(load_model(federation, now));
    TERN_TRY(tern_catchup_new(&federation->config.downloads, federation->db, &federation->merge,
                              federation->ports.wake, federation->ports.ctx, &federation->catchup));
    TERN_TRY(tern_clients_load(federation));
    federation->loss_before =
        tern_privacy_loss_before(&federation->config.privacy, federation->clients.count);
    TERN_TRY(load_rounds(federation, now));
    TERN_TRY(tern_statistics_load(federation));
    TERN_TRY(tern_indices_load(federation));
    TERN_TRY(tern_secure_load(federation));
    TERN_TRY(tern_catchup_load(federation->catchup, now));
    federation->progressed = true;
    return TERN_OK;
}

// --- Changes by the operator or of the clock

// Applies a stored deadline only if it is earlier than the deadline in memory, which limit_times_to_now() may have lowered.
enum tern_result tern_federation_reload_round(struct tern_federation *federation)
{
    struct tern_round_machine *machine = &federation->machine;
    struct tern_db_round stored;
    TERN_TRY(load_order(federation));
    if (!machine->open) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_round_get(federation->db, machine->round, &stored));
    if (stored.deadline_ms >= machine->deadline_ms) {
        return TERN_OK;
    }
    machine->deadline_ms = stored.deadline_ms;
    machine->quorum = stored.quorum;
    federation->row.deadline_ms = stored.deadline_ms;
    federation->row.quorum = stored.quorum;
    tern_log(TERN_LOG_INFO, "round-ended-by-hand", "round=%u updates=%u", machine->round,
             machine->reported);
    return TERN_OK;
}

enum tern_result tern_federation_set_clock(struct tern_federation *federation, int64_t step)
{
    struct clients *clients = &federation->clients;
    tern_round_shift_times(&federation->machine, step);
    federation->row.opened_ms = federation->machine.opened_ms;
    federation->row.deadline_ms = federation->machine.deadline_ms;
    federation->row.closed_ms = tern_time_shifted_ms(federation->row.closed_ms, step);
    federation->retry_open_ms = 0;
    federation->member_check_ms = 0;
    federation->loaded_ms = tern_time_shifted_ms(federation->loaded_ms, step);
    for (uint32_t i = 0; i < clients->count; i++) {
        struct client *client = &clients->list[i];
        set_last_seen(client, tern_time_shifted_ms(client->row.last_seen_ms, step));
        client->overdue_ms = tern_time_shifted_ms(client->overdue_ms, step);
        client->dirty = true;
    }
    TERN_TRY(tern_db_replicas_set_clock(federation->db, step));
    TERN_TRY(tern_statistics_set_clock(federation, step));
    if (federation->machine.round == 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_round_put(federation->db, &federation->row));
    return federation->machine.open ? tern_members_store_all(federation) : TERN_OK;
}

void tern_federation_begin_transaction(struct tern_federation *federation, uint64_t worked_us)
{
    federation->worked_us = worked_us;
    federation->progressed = false;
    federation->found_downloads = false;
    federation->counts_before = federation->counts;
}

bool tern_federation_has_progressed(const struct tern_federation *federation)
{
    return federation->progressed;
}

bool tern_federation_has_found_downloads(const struct tern_federation *federation)
{
    return federation->found_downloads;
}

const char *tern_federation_damage(const struct tern_federation *federation)
{
    return federation->damage[0] != '\0' ? federation->damage : NULL;
}

// --- Downloads

// Finds the model's manifest by the model's hash. The manifest is small and each client requests it once, so the cache
// of downloads does not keep it.
static enum tern_result manifest_of(const struct tern_federation *federation,
                                    const uint8_t sha256[TERN_SHA256_SIZE], struct tern_blob **blob)
{
    const struct tern_db_federation *about = &federation->about;
    if (about->manifest == NULL || memcmp(sha256, about->model_hash, TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_NOT_FOUND;
    }
    *blob = tern_blob_new(about->manifest_len);
    if (*blob == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    memcpy((*blob)->data, about->manifest, about->manifest_len);
    return TERN_OK;
}

// Finds the manifest, the scaling or the shared indices, which are in memory and the same for all clients.
static enum tern_result blob_in_memory(struct tern_federation *federation,
                                       const uint8_t sha256[TERN_SHA256_SIZE],
                                       struct tern_blob **blob, struct tern_download_facts *facts)
{
    *facts = (struct tern_download_facts){.shared = true};
    enum tern_result found = manifest_of(federation, sha256, blob);
    if (found == TERN_ERR_NOT_FOUND) {
        found = tern_statistics_find_blob(federation, sha256, blob);
    }
    if (found == TERN_ERR_NOT_FOUND) {
        found = tern_indices_find_blob(federation, sha256, blob, &facts->payload);
    }
    facts->size = found == TERN_OK ? (uint32_t)(*blob)->len : 0;
    return found;
}

enum tern_result tern_federation_blob(struct tern_federation *federation,
                                      const uint8_t sha256[TERN_SHA256_SIZE],
                                      struct tern_blob **blob, struct tern_download_facts *facts)
{
    const enum tern_result found = blob_in_memory(federation, sha256, blob, facts);
    return found == TERN_ERR_NOT_FOUND ? tern_catchup_blob(federation->catchup, sha256, blob, facts)
                                       : found;
}

enum tern_result tern_federation_find_blob(struct tern_federation *federation,
                                           const uint8_t sha256[TERN_SHA256_SIZE],
                                           struct tern_download_facts *facts)
{
    struct tern_blob *blob = NULL;
    const enum tern_result found = blob_in_memory(federation, sha256, &blob, facts);
    if (found == TERN_OK) {
        tern_blob_release(blob);
    }
    return found == TERN_ERR_NOT_FOUND ? tern_catchup_blob(federation->catchup, sha256, NULL, facts)
                                       : found;
}

uint32_t tern_federation_round(const struct tern_federation *federation)
{
    return federation->machine.round;
}

size_t tern_federation_update_max(const struct tern_federation *federation)
{
    return federation->merge.buffers.blob_size;
}

// --- What the federation waits for

static void take_wait_settings(const struct tern_federation_config *config,
                               struct tern_wait_rules *rules)
{
    *rules = (struct tern_wait_rules){
        .rounds = config->round.rounds,
        .min_clients = config->min_clients,
        .cohort = config->round.cohort,
        .quorum = config->round.quorum,
        .eligible_within_ms = config->eligible_within_ms,
        .come_back_min_ms = config->round.come_back_min_ms,
        .interval_ms = config->round.min_interval_ms,
        .interval_is_auto = config->round.interval_is_auto,
        .fits_budgets = (config->steps.policy & TERN_STEPS_BUDGET) != 0 ||
                        config->selection == TERN_SELECTION_BUDGET,
        .ending = config->round.ending,
        .privacy = config->privacy,
        .tags = config->tags,
        .statistics_are_enabled = config->statistics.enabled,
        .statistics_min_clients = config->statistics.min_clients,
        .statistics_wait_ms = config->statistics.wait_ms,
        .upstream_client = config->upstream_client,
        .secure_updates = tern_secure_updates(&config->secure),
    };
}

// Sets the rules by which this federation waits. Takes the number of rounds from the machine, where
// tern_federation_end() sets it when the upstream federation ends.
static void fill_wait_rules(const struct tern_federation *federation, struct tern_wait_rules *rules)
{
    take_wait_settings(&federation->config, rules);
    rules->rounds = federation->machine.policy.rounds;
}

static bool may_train(const struct client *client)
{
    return !client->row.evaluator && !client->row.revoked;
}

static struct tern_wait_client wait_client_of(const struct tern_federation *federation,
                                              const struct client *client)
{
    const struct tern_db_client *row = &client->row;
    return (struct tern_wait_client){
        .tags = row->tags,
        .created_ms = row->created_ms,
        .last_seen_ms = row->last_seen_ms,
        .budgeted = row->budgeted,
        .budget_left =
            row->budget_left > row->budget_spent ? row->budget_left - row->budget_spent : 0,
        .least_bytes = client->least_bytes,
        .has_statistics = client->has_statistics,
        .privacy_spent = tern_federation_has_spent_privacy(federation, client),
        .has_ticket = tern_secure_allows_client(federation, client),
    };
}

static void count_clients(const struct tern_federation *federation,
                          const struct tern_wait_rules *rules, uint64_t now,
                          struct tern_wait_facts *facts)
{
    facts->trainers = (struct tern_trainer_counts){.enrolled = 0};
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        const struct client *client = &federation->clients.list[i];
        const struct tern_wait_client trainer = wait_client_of(federation, client);
        if (may_train(client)) {
            tern_trainer_counts_add(&facts->trainers, rules, &trainer, now);
        }
    }
}

static void fill_round_facts(const struct tern_federation *federation,
                             struct tern_wait_facts *facts)
{
    const struct tern_round_machine *machine = &federation->machine;
    facts->open = machine->open;
    facts->round = machine->round;
    facts->opened_ms = machine->opened_ms;
    facts->deadline_ms = machine->deadline_ms;
    facts->quorum = machine->quorum;
    facts->committed = machine->committed;
    facts->losses = machine->losses;
    facts->last_loss = tern_db_round_loss(&federation->row);
    facts->first_statistics_ms = federation->scaling.first_ms;
    facts->scaled = federation->scaling.body != NULL;
    facts->awaits_upstream = !tern_federation_allows_next_round(federation);
    tern_secure_fill_wait_facts(federation, facts);
}

void tern_federation_wait_facts(const struct tern_federation *federation, uint64_t now,
                                struct tern_wait_rules *rules, struct tern_wait_facts *facts)
{
    fill_wait_rules(federation, rules);
    count_clients(federation, rules, now, facts);
    fill_round_facts(federation, facts);
}

void tern_federation_each_missing_update(const struct tern_federation *federation,
                                         tern_federation_on_missing *take, void *ctx)
{
    const struct tern_round_machine *machine = &federation->machine;
    for (uint32_t i = 0; machine->open && i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        const struct client *client = client_of(federation, member->client);
        const bool is_missing =
            member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED;
        if (is_missing && client != NULL && !client->row.revoked) {
            take(ctx, &client->row, member->state == TERN_MEMBER_TASKED, member->tries);
        }
    }
}

void tern_federation_each_missing_statistics(const struct tern_federation *federation, uint64_t now,
                                             tern_federation_on_missing *take, void *ctx)
{
    struct tern_wait_rules rules;
    take_wait_settings(&federation->config, &rules);
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        const struct client *client = &federation->clients.list[i];
        const struct tern_wait_client trainer = wait_client_of(federation, client);
        if (may_train(client) && tern_wait_client_lacks_statistics(&rules, &trainer, now)) {
            take(ctx, &client->row, false, 0);
        }
    }
}

// --- Facts

#define RENEWED_MS 1000

// Computes the cached results, at most once a second. If the accuracy cannot be read now, the cached accuracy stays.
static void refresh_cached_facts(struct tern_federation *federation,
                                 const struct tern_wait_rules *rules, uint64_t now)
{
    struct recent_facts *recent = &federation->recent;
    if (recent->renewed_ms != 0 && now >= recent->renewed_ms &&
        now - recent->renewed_ms < RENEWED_MS) {
        return;
    }
    recent->renewed_ms = now;
    count_clients(federation, rules, now, &recent->waits);
    if (!federation->accuracy_is_known) {
        struct tern_accuracy evaluated;
        struct tern_reported_version pending;
        federation->accuracy_is_known =
            tern_accuracy_newest(federation->db, &evaluated, &pending) == TERN_OK;
        recent->evaluated = federation->accuracy_is_known ? evaluated : recent->evaluated;
    }
}

static void fill_wait_facts(struct tern_federation *federation, uint64_t now,
                            struct tern_federation_facts *facts)
{
    struct tern_wait_rules rules;
    fill_wait_rules(federation, &rules);
    refresh_cached_facts(federation, &rules, now);
    fill_round_facts(federation, &federation->recent.waits);
    facts->trainers = federation->recent.waits.trainers;
    facts->wait = tern_wait_reason(&rules, &federation->recent.waits, now);
    facts->needs_help = tern_wait_needs_help(facts->wait, &rules, &federation->recent.waits);
    facts->evaluated = federation->recent.evaluated;
}

static const char *advice_of(const struct tern_federation *federation, uint32_t *refused_cohorts)
{
    const char *advice = tern_refusals_advice(federation, refused_cohorts);
    const enum tern_ending ending = federation->machine.losses.ending;
    return ending != TERN_ENDING_NONE ? tern_ending_advice(ending) : advice;
}

void tern_federation_facts(struct tern_federation *federation, uint64_t now,
                           struct tern_federation_facts *facts)
{
    const uint32_t upstream =
        federation->config.upstream_client != 0 && federation->clients.evaluators > 0;
    *facts = (struct tern_federation_facts){
        .version = federation->merge.version,
        .values = federation->merge.model.count,
        .machine = federation->machine,
        .privacy = federation->config.privacy,
        .merging = tern_federation_is_merging(federation),
        .clients = federation->clients.count - upstream,
        .revoked = federation->clients.revoked,
        .evaluators = federation->clients.evaluators - upstream,
        .unreliable = federation->clients.unreliable,
        .last_loss = federation->last_loss,
        .replica_bytes = tern_catchup_bytes(federation->catchup),
        .searches = tern_federation_searches(federation),
        .committed = federation->committed,
        .counts = federation->counts,
    };
    facts->advice = advice_of(federation, &facts->refused_cohorts);
    memcpy(facts->model_spec, federation->about.model_spec, sizeof facts->model_spec);
    memcpy(facts->model_sha256, federation->merge.model_sha256, TERN_SHA256_SIZE);
    facts->machine.members = NULL;
    fill_wait_facts(federation, now, facts);
}
