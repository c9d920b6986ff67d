#include "service/own_replicas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Of replicas kept in memory, however small they are: all are looked through for each task.
#define SLOTS_MAX 1024u

static const uint8_t no_replica[TERN_SHA256_SIZE];
static const uint8_t unknown_replica[TERN_SHA256_SIZE] = {1}; // stands for all that are not known
static const char *const snapshot_codecs[TERN_PLAN_STARTS] = {
    [TERN_PLAN_INT8] = "qsgd:levels=127,bucket=256",
    [TERN_PLAN_FLOAT16] = "float16",
    [TERN_PLAN_FLOAT32] = "float32",
};

// --- Norms: Euclidean, in double, from first to last

double own_residual(const float *a, const float *b, uint32_t count)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        double difference = (double)a[i] - (double)b[i];
        sum += difference * difference;
    }
    return sqrt(sum);
}

static double norm_of(const float *a, uint32_t count)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (double)a[i] * (double)a[i];
    }
    return sqrt(sum);
}

// --- Life

void own_replicas_free(struct own_replicas *own)
{
    if (own == NULL) {
        return;
    }
    free(own->book.slots);
    free(own->book.blob);
    free(own->slot_memory);
    free(own->weights);
    free(own);
}

// The trunk's deltas are found by their version: one that is gone is in no chain.
static void trunk_dropped(void *ctx, uint32_t version)
{
    struct tern_service *service = ctx;
    if (version > 0 && version <= service->delta_capacity) {
        service->deltas[version - 1].size = 0;
    }
    if (version < service->delta_capacity) {
        service->deltas[version].size = 0;
    }
}

static bool take_slots(struct tern_replica_book *book, struct own_replicas *own, uint64_t bytes)
{
    uint64_t count = bytes / ((uint64_t)book->model->count * sizeof(float));
    book->slot_count = count < SLOTS_MAX ? (uint32_t)count : SLOTS_MAX;
    if (book->slot_count == 0) {
        return true;
    }
    book->slots = calloc(book->slot_count, sizeof book->slots[0]);
    own->slot_memory = malloc((size_t)book->slot_count * book->model->count * sizeof(float));
    if (book->slots == NULL || own->slot_memory == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < book->slot_count; i++) {
        book->slots[i].weights = own->slot_memory + (size_t)i * book->model->count;
    }
    return true;
}

struct own_replicas *own_replicas_new(struct tern_service *service)
{
    const struct tern_service_limits *limits = &service->config.limits;
    struct own_replicas *own = calloc(1, sizeof *own);
    if (own == NULL) {
        return NULL;
    }
    struct tern_replica_book *book = &own->book;
    book->db = service->db;
    book->model = &service->merge.model;
    book->seed = service->federation.seed;
    book->keep_versions = limits->keep_versions;
    book->bytes_max = limits->replica_bytes;
    book->blob_size = service->merge.buffers.blob_size;
    book->blob = malloc(book->blob_size);
    book->dropped = trunk_dropped;
    book->ctx = service;
    own->weights = malloc(book->model->count * sizeof(float));
    if (book->blob == NULL || own->weights == NULL ||
        !take_slots(book, own, limits->replica_cache)) {
        own_replicas_free(own);
        return NULL;
    }
    for (int i = TERN_PLAN_INT8; i < TERN_PLAN_STARTS; i++) {
        if (tern_codec_parse(snapshot_codecs[i], &own->snapshots[i], NULL) != TERN_OK) {
            own_replicas_free(own);
            return NULL;
        }
    }
    return own;
}

void own_replicas_count(struct own_replicas *own, uint64_t bytes)
{
    own->book.bytes += bytes;
}

void own_replicas_freed(struct own_replicas *own, uint64_t bytes)
{
    own->book.bytes -= bytes < own->book.bytes ? bytes : own->book.bytes;
}

// --- The trunk in the book

// A replica of a version that what the book knows does not lead to: kept whole.
static enum tern_result put_root(struct tern_service *service)
{
    const struct tern_merge *merge = &service->merge;
    struct own_replicas *own = service->own_replicas;
    struct tern_db_replica row = {.form = TERN_REPLICA_WHOLE,
                                  .trunk = true,
                                  .version = merge->version,
                                  .used_ms = service_now(service)};
    memcpy(row.id, merge->replica_id, TERN_SHA256_SIZE);
    row.residual = (float)own_residual(merge->global, merge->replica, merge->model.count);
    TERN_TRY(tern_db_replica_put(service->db, &row));
    TERN_TRY(tern_db_replica_weights_put(service->db, row.id, merge->replica, merge->model.count));
    own->book.bytes += merge->model.count * sizeof(float);
    return TERN_OK;
}

// Version 0 of a federation that is not seeded is where its book begins.
static enum tern_result load_book(struct tern_service *service)
{
    struct tern_db_replica row;
    TERN_TRY(tern_replica_book_load(&service->own_replicas->book));
    enum tern_result found = tern_db_replica_get(service->db, service->merge.replica_id, &row);
    return found == TERN_ERR_NOT_FOUND ? put_root(service) : found;
}

enum tern_result own_replicas_load(struct tern_service *service)
{
    struct own_replicas *own = service->own_replicas;
    own->ways_version = UINT32_MAX;
    service->snapshots = TRUNK_SNAPSHOT_COMMITS;
    for (uint32_t i = 0; i < own->book.slot_count; i++) {
        own->book.slots[i].used = 0;
    }
    TERN_TRY(tern_db_begin(service->db));
    enum tern_result result = load_book(service);
    if (result != TERN_OK) {
        tern_db_rollback(service->db);
        return result;
    }
    return tern_db_commit(service->db);
}

// What all ways to the newest version share.
static void look_at_version(struct tern_service *service)
{
    struct own_replicas *own = service->own_replicas;
    const struct tern_merge *merge = &service->merge;
    if (own->ways_version == merge->version) {
        return;
    }
    own->next_way = 0;
    memset(own->ways, 0, sizeof own->ways);
    own->ways_version = merge->version;
    own->trunk_residual = own_residual(merge->global, merge->replica, merge->model.count);
    own->global_norm = norm_of(merge->global, merge->model.count);
}

enum tern_result own_replicas_version(struct tern_service *service,
                                      const struct tern_db_download *download, uint64_t now)
{
    const struct tern_merge *merge = &service->merge;
    struct own_replicas *own = service->own_replicas;
    look_at_version(service);
    service->collect_due = true;
    TERN_TRY(tern_replica_add(&own->book, download, merge->buffers.blob, merge->replica,
                              (float)own->trunk_residual, true, now));
    return tern_replica_evict(&own->book, merge->version);
}

// A version that ages out of keep_versions is looked at once; those before it follow.
enum tern_result own_replicas_collect(struct tern_service *service)
{
    const uint32_t version = service->merge.version;
    const uint32_t keep = service->config.limits.keep_versions;
    service->collect_due = false;
    if (version >= keep) {
        struct tern_db_version old;
        enum tern_result found = tern_db_version_get(service->db, version - keep, &old);
        if (found == TERN_OK) {
            found = tern_db_replica_suspect(service->db, old.replica, true);
        }
        if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
            return found;
        }
    }
    return tern_replica_collect(&service->own_replicas->book, version);
}

// --- Ways

static struct known_way *find_way(struct own_replicas *own, const uint8_t *held,
                                  const struct abilities *able)
{
    for (uint32_t i = 0; i < OWN_WAYS; i++) {
        struct known_way *way = &own->ways[i];
        if (way->used && memcmp(way->held, held, TERN_SHA256_SIZE) == 0 &&
            abilities_equal(&way->able, able)) {
            return way;
        }
    }
    return NULL;
}

// Whether nothing of a way was forgotten since it was found. One that leads nowhere needs nothing.
static enum tern_result is_whole(struct own_replicas *own, const struct known_way *way, bool *whole)
{
    struct tern_db_replica base;
    struct tern_db_download download;
    *whole = true;
    enum tern_result found =
        way->leads ? tern_db_replica_get(own->book.db, way->base, &base) : TERN_OK;
    for (uint32_t i = 0; i < way->count && found == TERN_OK; i++) {
        found = tern_db_download_get(own->book.db, way->sha256[i], &download, NULL, 0);
    }
    *whole = found == TERN_OK;
    return found == TERN_ERR_NOT_FOUND ? TERN_OK : found;
}

// A known way, or NULL.
static enum tern_result known(struct own_replicas *own, const uint8_t *held,
                              const struct abilities *able, struct known_way **way)
{
    bool whole = true;
    *way = find_way(own, held, able);
    if (*way != NULL) {
        TERN_TRY(is_whole(own, *way, &whole));
    }
    if (!whole) {
        (*way)->used = false;
        *way = NULL;
    }
    return TERN_OK;
}

// Those that are not known have one way in common, whatever name a client made up.
static enum tern_result held_by(const struct own_replicas *own, const struct client *client,
                                const uint8_t **held)
{
    struct tern_db_replica row;
    bool none = memcmp(client->replica, no_replica, TERN_SHA256_SIZE) == 0;
    *held = none ? own->book.seed_id : client->replica;
    enum tern_result found = tern_db_replica_get(own->book.db, *held, &row);
    if (found == TERN_ERR_NOT_FOUND) {
        *held = unknown_replica;
        return TERN_OK;
    }
    return found;
}

static bool may_search(const struct tern_service *service, struct client *client)
{
    if (client->searched_version != service->merge.version) {
        client->searched_version = service->merge.version;
        client->searches = 0;
    }
    return client->searches++ < OWN_SEARCHES;
}

static enum tern_result new_way(struct tern_service *service, const struct client *client,
                                const uint8_t *held, uint64_t now, struct known_way **way)
{
    struct own_replicas *own = service->own_replicas;
    *way = &own->ways[own->next_way++ % OWN_WAYS];
    memset(*way, 0, sizeof **way);
    service->counters.ways++;
    TERN_TRY(own_search(service, client, held, now, *way));
    memcpy((*way)->held, held, TERN_SHA256_SIZE);
    (*way)->able = client->able;
    (*way)->used = true;
    return TERN_OK;
}

enum tern_result add_own_way(struct tern_service *service, struct client *client, uint64_t now,
                             tern_Task *task, bool *found)
{
    const uint8_t *held = NULL;
    *found = false;
    TERN_TRY(held_by(service->own_replicas, client, &held));
    look_at_version(service);
    struct known_way *way = NULL;
    TERN_TRY(known(service->own_replicas, held, &client->able, &way));
    if (way == NULL && !may_search(service, client)) {
        return TERN_OK;
    }
    if (way == NULL) {
        TERN_TRY(new_way(service, client, held, now, &way));
    }
    *found = way->leads;
    if (!*found) {
        return TERN_OK;
    }
    for (uint32_t i = 0; i < way->count; i++) {
        add_download(task, way->sha256[i], way->bytes[i]);
    }
    set_base(task, way->base, way->base_version);
    return TERN_OK;
}

enum tern_result own_is_stranded(struct tern_service *service, const struct client *client,
                                 bool *stranded)
{
    struct own_replicas *own = service->own_replicas;
    const uint8_t *held = NULL;
    *stranded = false;
    for (int i = TERN_PLAN_INT8; i < TERN_PLAN_STARTS; i++) {
        if (abilities_decode(&client->able, &own->snapshots[i])) {
            return TERN_OK;
        }
    }
    bool reads = own_pass_reads(service, &client->able, TERN_PLAN_DOWN) ||
                 own_pass_reads(service, &client->able, TERN_PLAN_REFINE);
    bool from_seed = client->able.from_seed && tern_model_is_seeded(&service->merge.model);
    TERN_TRY(held_by(own, client, &held));
    *stranded = !reads || (held == unknown_replica && !from_seed);
    return TERN_OK;
}
