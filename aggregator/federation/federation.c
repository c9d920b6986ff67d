// The federation's life, and what all its parts load from the store and tell of themselves.
#include "federation/federation.h"

#include "federation/internal.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// --- Life

enum tern_result tern_federation_suits(const struct tern_federation_config *config, uint32_t count,
                                       char why[256])
{
    return tern_strategy_check_config(config, count, why) ? TERN_OK : TERN_ERR_CONFIG;
}

enum tern_result tern_federation_accepts(const struct tern_federation *federation,
                                         const struct tern_federation_config *config, char why[256])
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

static enum tern_result make(struct tern_federation *federation, char why[256])
{
    const struct tern_federation_config *config = &federation->config;
    struct tern_merge *merge = &federation->merge;
    TERN_TRY(tern_db_federation(federation->db, &federation->about));
    TERN_TRY(tern_merge_init(merge, &federation->about, &config->vectors));
    TERN_TRY(tern_federation_accepts(federation, config, why));
    merge->memory = config->strategy_memory;
    return tern_closing_init(federation, why);
}

// Makes memory that of a federation which was never loaded.
static void forget(struct tern_federation *federation)
{
    const size_t first = offsetof(struct tern_federation, clients);
    tern_closing_forget(federation);
    if (federation->catchup != NULL) {
        federation->ways += tern_catchup_searches(federation->catchup);
    }
    tern_catchup_free(federation->catchup);
    free(federation->machine.members);
    free(federation->scaling.body);
    free(federation->clients.list);
    free(federation->clients.eligible);
    free(federation->clients.lots);
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
    free(federation);
}

// --- Memory from the store, and back

// The first start of a federation: version 0 is stored.
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
    TERN_TRY(tern_assign_load(federation));
    TERN_TRY(tern_restore_rounds(federation, now));
    TERN_TRY(tern_statistics_load(federation));
    TERN_TRY(tern_drift_load(federation));
    TERN_TRY(tern_share_load(federation));
    TERN_TRY(tern_catchup_load(federation->catchup, now));
    TERN_TRY(tern_clients_load_evaluations(federation));
    federation->moved = true;
    return TERN_OK;
}

enum tern_result tern_federation_reload_clients(struct tern_federation *federation)
{
    federation->moved = true; // a revoked client's held check-in is to be answered
    return tern_clients_load(federation);
}

enum tern_result tern_federation_flush(struct tern_federation *federation)
{
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        if (federation->clients.list[i].dirty) {
            TERN_TRY(tern_clients_store(federation, (uint64_t)i + 1));
        }
    }
    return tern_catchup_collect(federation->catchup);
}

void tern_federation_flushed(struct tern_federation *federation)
{
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        federation->clients.list[i].dirty = false;
    }
}

// --- A transaction's course

void tern_federation_begin(struct tern_federation *federation)
{
    federation->moved = false;
    federation->counted = federation->counts;
}

bool tern_federation_moved(const struct tern_federation *federation)
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
    tern_closing_begin(federation);
}

const char *tern_federation_damage(const struct tern_federation *federation)
{
    return federation->damage[0] != '\0' ? federation->damage : NULL;
}

// --- What others ask

bool tern_federation_admits(struct tern_federation *federation, uint64_t client)
{
    const struct client *known = client_of(federation, client);
    return known != NULL && !known->row.revoked;
}

void tern_federation_wait(struct tern_federation *federation, uint64_t client, bool waits)
{
    client_of(federation, client)->waiting = waits;
}

// The manifest of the model goes by its hash, which every client knows. It is small and asked for
// once by each client, so that it is not kept in the cache.
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

static enum tern_result indices_of(struct tern_federation *federation,
                                   const uint8_t sha256[TERN_SHA256_SIZE], struct tern_blob **blob,
                                   uint32_t *payload)
{
    const struct shared_indices *indices = &federation->indices;
    struct tern_published *published = &federation->published;
    if (memcmp(sha256, indices->sha256, TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_NOT_FOUND;
    }
    *payload = indices->payload;
    *blob = tern_published_indices(published, published->indices_round);
    return *blob != NULL ? TERN_OK : TERN_ERR_NOT_FOUND;
}

// What the federation has in memory, and is the same for all.
static enum tern_result blob_in_memory(struct tern_federation *federation,
                                       const uint8_t sha256[TERN_SHA256_SIZE],
                                       struct tern_blob **blob, struct tern_download_facts *facts)
{
    *facts = (struct tern_download_facts){.shared = true};
    enum tern_result found = manifest_of(federation, sha256, blob);
    if (found == TERN_ERR_NOT_FOUND) {
        found = tern_statistics_blob(federation, sha256, blob);
    }
    if (found == TERN_ERR_NOT_FOUND) {
        found = indices_of(federation, sha256, blob, &facts->payload);
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

enum tern_result tern_federation_know_blob(struct tern_federation *federation,
                                           const uint8_t sha256[TERN_SHA256_SIZE],
                                           struct tern_download_facts *facts)
{
    struct tern_blob *blob = NULL;
    const enum tern_result found = blob_in_memory(federation, sha256, &blob, facts);
    if (found == TERN_OK) {
        tern_blob_release(blob);
    }
    return found == TERN_ERR_NOT_FOUND ? tern_catchup_know(federation->catchup, sha256, facts)
                                       : found;
}

enum tern_result tern_federation_know_stored(struct tern_federation *federation,
                                             const uint8_t sha256[TERN_SHA256_SIZE],
                                             struct tern_download_facts *facts)
{
    return tern_catchup_know(federation->catchup, sha256, facts);
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

static const char *advice_of(const struct tern_federation *federation)
{
    const enum tern_ending ending = federation->machine.losses.ending;
    return ending != TERN_ENDING_NONE ? tern_ending_advice(ending)
                                      : tern_refusals_advice(federation);
}

void tern_federation_facts(struct tern_federation *federation, uint64_t now,
                           struct tern_federation_facts *facts)
{
    const uint32_t follower =
        federation->config.follower != 0 && federation->clients.evaluators > 0;
    *facts = (struct tern_federation_facts){
        .version = federation->merge.version,
        .values = federation->merge.model.count,
        .machine = federation->machine,
        .merging = tern_federation_is_merging(federation),
        .clients = federation->clients.count - follower,
        .revoked = federation->clients.revoked,
        .evaluators = federation->clients.evaluators - follower,
        .unreliable = federation->clients.unreliable,
        .last_loss = federation->last_loss,
        .refused_draws = federation->refused.draws,
        .advice = advice_of(federation),
        .replica_bytes = tern_catchup_bytes(federation->catchup),
        .ways = federation->ways + tern_catchup_searches(federation->catchup),
        .counts = federation->counts,
    };
    memcpy(facts->model_spec, federation->about.model_spec, sizeof facts->model_spec);
    memcpy(facts->model_sha256, federation->merge.model_sha256, TERN_SHA256_SIZE);
    facts->machine.members = NULL;
    tern_waits_facts(federation, now, facts);
}
