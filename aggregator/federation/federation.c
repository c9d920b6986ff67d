#include "federation/federation.h"

#include "federation/clients.h"
#include "federation/ledger.h"
#include "federation/refusals.h"
#include "federation/round.h"
#include "federation/statistics.h"
#include "federation/strategy.h"
#include "federation/update.h"
#include "hosted/system.h"
#include "util/bytes.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Cached results for status pages and metrics, computed again at most once a second.
struct recent_facts {
    struct tern_wait_facts waits;
    struct tern_accuracy evaluated; // the newest version that was evaluated
    uint64_t renewed_ms;            // 0 = never
};

enum tern_result tern_federation_check_config(const struct tern_federation_config *config,
                                              uint32_t count, char why[256])
{
    return tern_strategy_check_config(config, count, why) ? TERN_OK : TERN_ERR_CONFIG;
}

enum tern_result tern_federation_accepts_config(const struct tern_federation *federation,
                                                const struct tern_federation_config *config,
                                                char why[256])
{
    return tern_strategy_check_config(config, federation->merge.model.count, why) &&
                   tern_federation_can_scale(config, federation->about.model_spec, why)
               ? TERN_OK
               : TERN_ERR_CONFIG;
}

void tern_federation_configure(struct tern_federation *federation,
                               const struct tern_federation_config *config)
{
    federation->config = *config;
    federation->merge.memory = config->strategy_memory;
}

// Empties the state of the other files, which is derived from the store. Only the first call allocates and can fail.
static enum tern_result reset_rooms(struct tern_federation *federation)
{
    if (federation->recent == NULL) {
        federation->recent = malloc(sizeof *federation->recent);
    }
    if (federation->recent == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    memset(federation->recent, 0, sizeof *federation->recent);
    TERN_TRY(tern_clients_reset(&federation->clients));
    TERN_TRY(tern_ledger_reset(&federation->ledger));
    TERN_TRY(tern_statistics_reset(&federation->scaling));
    return tern_indices_reset(&federation->indices);
}

static enum tern_result make(struct tern_federation *federation, char why[256])
{
    const struct tern_federation_config *config = &federation->config;
    struct tern_merge *merge = &federation->merge;
    TERN_TRY(reset_rooms(federation));
    TERN_TRY(tern_db_federation(federation->db, &federation->about));
    TERN_TRY(tern_merge_init(merge, &federation->about, &config->vectors));
    TERN_TRY(tern_federation_accepts_config(federation, config, why));
    merge->memory = config->strategy_memory;
    return tern_closing_new(federation, why);
}

// Frees and zeroes all state that is derived from the store.
static void forget(struct tern_federation *federation)
{
    const size_t first = offsetof(struct tern_federation, catchup);
    tern_closing_cancel(federation);
    if (federation->catchup != NULL) {
        federation->searches += tern_catchup_searches(federation->catchup);
    }
    tern_catchup_free(federation->catchup);
    free(federation->machine.members);
    (void)!reset_rooms(federation);
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
    tern_published_init(&federation->published);
    enum tern_result result = make(federation, why);
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
    forget(federation);
    tern_closing_free(federation);
    tern_merge_free(&federation->merge);
    tern_published_free(&federation->published);
    free(federation->clients);
    free(federation->ledger);
    free(federation->scaling);
    free(federation->indices);
    free(federation->recent);
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

enum tern_result tern_federation_load(struct tern_federation *federation, uint64_t now)
{
    forget(federation);
    federation->counts = federation->counted;
    TERN_TRY(load_model(federation, now));
    federation->catchup =
        tern_catchup_new(&federation->config.downloads, federation->db, &federation->merge);
    if (federation->catchup == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(tern_clients_load(federation));
    TERN_TRY(tern_clients_load_records(federation));
    TERN_TRY(tern_rounds_load(federation, now));
    TERN_TRY(tern_statistics_load(federation));
    TERN_TRY(tern_indices_load(federation));
    TERN_TRY(tern_catchup_load(federation->catchup, now));
    federation->moved = true;
    return TERN_OK;
}

enum tern_result tern_federation_reload_clients(struct tern_federation *federation)
{
    federation->moved = true; // answers the held check-ins of revoked clients
    return tern_clients_load(federation);
}

enum tern_result tern_federation_flush(struct tern_federation *federation)
{
    for (uint32_t i = 0; i < federation->clients->count; i++) {
        if (federation->clients->list[i].dirty) {
            TERN_TRY(tern_clients_store(federation, (uint64_t)i + 1));
        }
    }
    return tern_catchup_collect(federation->catchup);
}

void tern_federation_flushed(struct tern_federation *federation)
{
    for (uint32_t i = 0; i < federation->clients->count; i++) {
        federation->clients->list[i].dirty = false;
    }
}

void tern_federation_begin_transaction(struct tern_federation *federation)
{
    federation->moved = false;
    federation->counted = federation->counts;
}

bool tern_federation_has_progressed(const struct tern_federation *federation)
{
    return federation->moved;
}

void tern_federation_publish(struct tern_federation *federation)
{
    struct unpublished *unpublished = &federation->unpublished;
    if (federation->moved || unpublished->count > UNPUBLISHED_MAX) {
        tern_published_machine(&federation->published, &federation->machine);
    } else if (unpublished->any) {
        tern_published_members(&federation->published, &federation->machine, unpublished->clients,
                               unpublished->count);
    }
    unpublished->any = false;
    unpublished->count = 0;
    tern_closing_start_merge(federation);
}

const char *tern_federation_damage(const struct tern_federation *federation)
{
    return federation->damage[0] != '\0' ? federation->damage : NULL;
}

// --- Enrolment

static enum tern_result add_client(struct tern_federation *federation,
                                   const tern_EnrollRequest *message,
                                   const uint8_t token[TERN_WIRE_TOKEN_BYTES], uint64_t now,
                                   struct tern_db_client *row)
{
    memcpy(row->name, message->name, sizeof row->name);
    memcpy(row->platform, message->platform, sizeof row->platform);
    tern_sha256(token, TERN_WIRE_TOKEN_BYTES, row->token_hash);
    row->evaluator = message->evaluator;
    row->created_ms = now;
    row->last_seen_ms = now;
    TERN_TRY(tern_db_client_add(federation->db, row));
    tern_round_client_joined(&federation->machine, now);
    return tern_clients_put_row(federation, row);
}

static void fill_reply(const struct tern_federation *federation, uint64_t id,
                       const uint8_t token[TERN_WIRE_TOKEN_BYTES], tern_EnrollReply *reply)
{
    const struct tern_db_federation *about = &federation->about;
    *reply = (tern_EnrollReply)tern_EnrollReply_init_zero;
    reply->client_id = id;
    tern_base64url_encode(token, TERN_WIRE_TOKEN_BYTES, reply->token);
    reply->has_model = true;
    memcpy(reply->model.spec, about->model_spec, sizeof reply->model.spec);
    reply->model.seed = about->seed;
    reply->model.hash.size = TERN_SHA256_SIZE;
    memcpy(reply->model.hash.bytes, about->model_hash, TERN_SHA256_SIZE);
    reply->model.manifest = (uint32_t)about->manifest_len;
}

// Checks that the join code may enrol an evaluator: evaluators determine the federation's accuracy, so the operator
// appoints them. An invalid code is refused with the same sentence as for other clients.
static enum tern_result check_evaluator(struct tern_federation *federation,
                                        const uint8_t code_hash[TERN_SHA256_SIZE], uint64_t now,
                                        struct tern_refusal *refusal)
{
    struct tern_db_code code;
    const enum tern_result found = tern_db_code_get(federation->db, code_hash, &code);
    if (found == TERN_OK && code.uses_left > 0 && code.expires_ms > now && !code.evaluator) {
        tern_refusal_set(
            refusal, TERN_ERR_UNAUTHORIZED,
            "This join code does not enrol evaluators. Make a code with `tern-aggregator "
            "enroll-code "
            "--evaluator`, or set client.evaluator = no.");
    }
    return tern_db_may_miss(found);
}

enum tern_result tern_federation_enroll(struct tern_federation *federation,
                                        const tern_EnrollRequest *message, const char *peer,
                                        uint64_t now, tern_EnrollReply *reply,
                                        struct tern_refusal *refusal)
{
    if (federation->clients->count >= federation->config.limits.clients) {
        tern_refusal_set(refusal, TERN_ERR_BUSY,
                         "The federation accepts no further clients (limits.clients).");
        return TERN_OK;
    }
    uint8_t code_hash[TERN_SHA256_SIZE];
    tern_join_code_hash(message->join_code, code_hash);
    if (message->evaluator) {
        TERN_TRY(check_evaluator(federation, code_hash, now, refusal));
    }
    if (refusal->result != TERN_OK) {
        return TERN_OK;
    }
    enum tern_result used = tern_db_code_use(federation->db, code_hash, now);
    if (used == TERN_ERR_NOT_FOUND) {
        tern_refusal_set(refusal, TERN_ERR_UNAUTHORIZED, NULL);
        return TERN_OK;
    }
    TERN_TRY(used);
    uint8_t token[TERN_WIRE_TOKEN_BYTES];
    struct tern_db_client row = {0};
    struct tern_db_code code;
    tern_join_code_id(code_hash, row.code);
    TERN_TRY(tern_db_code_get(federation->db, code_hash, &code));
    memcpy(row.tags, code.tags, sizeof row.tags);
    snprintf(row.address, sizeof row.address, "%s", peer);
    TERN_TRY(tern_random_fill(token, sizeof token));
    TERN_TRY(add_client(federation, message, token, now, &row));
    fill_reply(federation, row.id, token, reply);
    tern_log(TERN_LOG_INFO, "enrolled", "client=%llu evaluator=%d code=%s peer=%s",
             (unsigned long long)row.id, row.evaluator, row.code, row.address);
    return TERN_OK;
}

// --- Downloads

bool tern_federation_has_client(struct tern_federation *federation, uint64_t client)
{
    const struct client *known = client_of(federation, client);
    return known != NULL && !known->row.revoked;
}

void tern_federation_set_waiting(struct tern_federation *federation, uint64_t client, bool waits)
{
    client_of(federation, client)->waiting = waits;
}

// Returns the model's manifest by its hash, which every client has. It is small and each client asks for it once, so
// the cache does not keep it.
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

// Finds downloads that are in memory and the same for all clients.
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

enum tern_result tern_federation_find_stored_blob(struct tern_federation *federation,
                                                  const uint8_t sha256[TERN_SHA256_SIZE],
                                                  struct tern_download_facts *facts)
{
    return tern_catchup_blob(federation->catchup, sha256, NULL, facts);
}

const struct tern_model *tern_federation_model(const struct tern_federation *federation)
{
    return &federation->merge.model;
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

void tern_federation_wait_rules(const struct tern_federation_config *config,
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
        .tags = config->tags,
        .statistics_are_enabled = config->statistics.enabled,
        .statistics_min_clients = config->statistics.min_clients,
        .statistics_wait_ms = config->statistics.wait_ms,
        .upstream_client = config->upstream_client,
    };
}

// Takes the number of rounds from the machine: tern_federation_end() sets it there when the upstream federation ends.
static void rules_of(const struct tern_federation *federation, struct tern_wait_rules *rules)
{
    tern_federation_wait_rules(&federation->config, rules);
    rules->rounds = federation->machine.policy.rounds;
}

static bool may_train(const struct client *client)
{
    return !client->row.evaluator && !client->row.revoked;
}

static struct tern_wait_client trainer_of(const struct client *client)
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
    };
}

static void count_clients(const struct tern_federation *federation,
                          const struct tern_wait_rules *rules, uint64_t now,
                          struct tern_wait_facts *facts)
{
    facts->trainers = (struct tern_trainer_counts){.enrolled = 0};
    for (uint32_t i = 0; i < federation->clients->count; i++) {
        const struct client *client = &federation->clients->list[i];
        const struct tern_wait_client trainer = trainer_of(client);
        if (may_train(client)) {
            tern_trainer_counts_add(&facts->trainers, rules, &trainer, now);
        }
    }
}

static void take_round(const struct tern_federation *federation, struct tern_wait_facts *facts)
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
    tern_statistics_fill_facts(federation, facts);
    facts->awaits_upstream = !tern_federation_allows_next_round(federation);
}

void tern_federation_wait_facts(const struct tern_federation *federation, uint64_t now,
                                struct tern_wait_rules *rules, struct tern_wait_facts *facts)
{
    rules_of(federation, rules);
    count_clients(federation, rules, now, facts);
    take_round(federation, facts);
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
    tern_federation_wait_rules(&federation->config, &rules);
    for (uint32_t i = 0; i < federation->clients->count; i++) {
        const struct client *client = &federation->clients->list[i];
        const struct tern_wait_client trainer = trainer_of(client);
        if (may_train(client) && tern_wait_client_lacks_statistics(&rules, &trainer, now)) {
            take(ctx, &client->row, false, 0);
        }
    }
}

// --- Facts

#define RENEWED_MS 1000

// Computes the cached results again. If the accuracy cannot be read now, the previous one stays until the next time.
static void renew(struct tern_federation *federation, const struct tern_wait_rules *rules,
                  uint64_t now)
{
    struct recent_facts *recent = federation->recent;
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
    rules_of(federation, &rules);
    renew(federation, &rules, now);
    take_round(federation, &federation->recent->waits);
    facts->trainers = federation->recent->waits.trainers;
    facts->wait = tern_wait_reason(&rules, &federation->recent->waits, now);
    facts->needs_help = tern_wait_needs_help(facts->wait, &rules, &federation->recent->waits);
    facts->evaluated = federation->recent->evaluated;
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
        federation->config.upstream_client != 0 && federation->clients->evaluators > 0;
    *facts = (struct tern_federation_facts){
        .version = federation->merge.version,
        .values = federation->merge.model.count,
        .machine = federation->machine,
        .merging = tern_federation_is_merging(federation),
        .clients = federation->clients->count - upstream,
        .revoked = federation->clients->revoked,
        .evaluators = federation->clients->evaluators - upstream,
        .unreliable = federation->clients->unreliable,
        .last_loss = federation->last_loss,
        .replica_bytes = tern_catchup_bytes(federation->catchup),
        .replica_searches = federation->searches + tern_catchup_searches(federation->catchup),
        .counts = federation->counts,
    };
    facts->advice = advice_of(federation, &facts->refused_cohorts);
    memcpy(facts->model_spec, federation->about.model_spec, sizeof facts->model_spec);
    memcpy(facts->model_sha256, federation->merge.model_sha256, TERN_SHA256_SIZE);
    facts->machine.members = NULL;
    fill_wait_facts(federation, now, facts);
}
