#include "catchup/internal.h"

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

// --- Life

void tern_own_free(struct tern_own_replicas *own)
{
    if (own == NULL) {
        return;
    }
    free(own->book.slots);
    free(own->book.blob);
    free(own->slot_memory);
    free(own);
}

static bool take_slots(struct tern_replica_book *book, struct tern_own_replicas *own,
                       uint64_t bytes)
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

struct tern_own_replicas *tern_own_new(struct tern_catchup *catchup)
{
    const struct tern_catchup_config *config = &catchup->config;
    struct tern_own_replicas *own = calloc(1, sizeof *own);
    if (own == NULL) {
        return NULL;
    }
    struct tern_replica_book *book = &own->book;
    book->db = catchup->db;
    book->model = &catchup->merge->model;
    book->seed = catchup->merge->seed;
    book->keep_versions = config->keep_versions;
    book->bytes_max = config->replica_bytes;
    book->blob_size = catchup->merge->buffers.blob_size;
    book->blob = malloc(book->blob_size);
    book->dropped = tern_trunk_dropped;
    book->ctx = catchup;
    if (book->blob == NULL || !take_slots(book, own, config->replica_cache)) {
        tern_own_free(own);
        return NULL;
    }
    for (int i = TERN_PLAN_INT8; i < TERN_PLAN_STARTS; i++) {
        if (tern_codec_parse(snapshot_codecs[i], &own->snapshots[i], NULL) != TERN_OK) {
            tern_own_free(own);
            return NULL;
        }
    }
    return own;
}

// --- The trunk in the book

// A replica of a version that what the book knows does not lead to: kept whole.
static enum tern_result put_root(struct tern_catchup *catchup, uint64_t now)
{
    const struct tern_merge *merge = catchup->merge;
    struct tern_own_replicas *own = catchup->own;
    struct tern_db_replica row = {
        .form = TERN_REPLICA_WHOLE, .trunk = true, .version = merge->version, .used_ms = now};
    memcpy(row.id, merge->replica_id, TERN_SHA256_SIZE);
    row.residual = (float)tern_own_residual(merge->global, merge->replica, merge->model.count);
    TERN_TRY(tern_db_replica_put(catchup->db, &row));
    TERN_TRY(tern_db_replica_weights_put(catchup->db, row.id, merge->replica, merge->model.count));
    own->book.bytes += merge->model.count * sizeof(float);
    return TERN_OK;
}

// Version 0 of a federation that is not seeded is where its book begins.
static enum tern_result load_book(struct tern_catchup *catchup, uint64_t now)
{
    struct tern_db_replica row;
    TERN_TRY(tern_replica_book_load(&catchup->own->book));
    enum tern_result found = tern_db_replica_get(catchup->db, catchup->merge->replica_id, &row);
    return found == TERN_ERR_NOT_FOUND ? put_root(catchup, now) : found;
}

enum tern_result tern_own_load(struct tern_catchup *catchup, uint64_t now)
{
    struct tern_own_replicas *own = catchup->own;
    own->ways_version = UINT32_MAX;
    for (uint32_t i = 0; i < own->book.slot_count; i++) {
        own->book.slots[i].used = 0;
    }
    TERN_TRY(tern_db_begin(catchup->db));
    return tern_db_conclude(catchup->db, load_book(catchup, now));
}

// What all ways to the newest version share.
static void look_at_version(struct tern_catchup *catchup)
{
    struct tern_own_replicas *own = catchup->own;
    const struct tern_merge *merge = catchup->merge;
    if (own->ways_version == merge->version) {
        return;
    }
    own->next_way = 0;
    memset(own->ways, 0, sizeof own->ways);
    own->exact.leads = false;
    own->ways_version = merge->version;
    own->trunk_residual = tern_own_residual(merge->global, merge->replica, merge->model.count);
    own->global_norm = -1.0;
}

enum tern_result tern_own_version(struct tern_catchup *catchup,
                                  const struct tern_db_download *download, uint64_t now)
{
    const struct tern_merge *merge = catchup->merge;
    struct tern_own_replicas *own = catchup->own;
    look_at_version(catchup);
    TERN_TRY(tern_replica_add(&own->book, download, merge->buffers.blob, merge->replica,
                              (float)own->trunk_residual, true, now));
    return tern_replica_evict(&own->book, merge->version);
}

// A version that ages out of keep_versions is looked at once; those before it follow.
enum tern_result tern_own_collect(struct tern_catchup *catchup)
{
    const uint32_t version = catchup->merge->version;
    const uint32_t keep = catchup->config.keep_versions;
    if (version >= keep) {
        struct tern_db_version old;
        enum tern_result found = tern_db_version_get(catchup->db, version - keep, &old);
        if (found == TERN_OK) {
            found = tern_db_replica_suspect(catchup->db, old.replica, true);
        }
        if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
            return found;
        }
    }
    return tern_replica_collect(&catchup->own->book, version);
}

// --- Ways

static struct known_way *find_way(struct tern_own_replicas *own, const uint8_t *held,
                                  const struct tern_abilities *able)
{
    for (uint32_t i = 0; i < OWN_WAYS; i++) {
        struct known_way *way = &own->ways[i];
        if (way->used && memcmp(way->held, held, TERN_SHA256_SIZE) == 0 &&
            tern_abilities_equal(&way->able, able)) {
            return way;
        }
    }
    return NULL;
}

// Whether nothing of a way was forgotten since it was found. One that leads nowhere needs nothing.
static enum tern_result is_whole(struct tern_own_replicas *own, const struct tern_way *way,
                                 bool *whole)
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
    return tern_db_may_miss(found);
}

// A known way, or NULL.
static enum tern_result known(struct tern_own_replicas *own, const uint8_t *held,
                              const struct tern_abilities *able, struct known_way **way)
{
    bool whole = true;
    *way = find_way(own, held, able);
    if (*way != NULL) {
        TERN_TRY(is_whole(own, &(*way)->way, &whole));
    }
    if (!whole) {
        (*way)->used = false;
        *way = NULL;
    }
    return TERN_OK;
}

// Those that are not known have one way in common, whatever name a client made up.
static enum tern_result held_by(const struct tern_own_replicas *own,
                                const struct tern_holder *holder, const uint8_t **held)
{
    struct tern_db_replica row;
    bool none = memcmp(holder->replica, no_replica, TERN_SHA256_SIZE) == 0;
    *held = none ? own->book.seed_id : holder->replica;
    enum tern_result found = tern_db_replica_get(own->book.db, *held, &row);
    if (found == TERN_ERR_NOT_FOUND) {
        *held = unknown_replica;
        return TERN_OK;
    }
    return found;
}

static bool may_search(const struct tern_catchup *catchup, struct tern_searches *searches)
{
    if (searches->version != catchup->merge->version) {
        *searches = (struct tern_searches){.version = catchup->merge->version};
    }
    return searches->count++ < OWN_SEARCHES;
}

static enum tern_result new_way(struct tern_catchup *catchup, const struct tern_holder *holder,
                                const uint8_t *held, bool newest, uint64_t now,
                                struct known_way **way)
{
    struct tern_own_replicas *own = catchup->own;
    *way = &own->ways[own->next_way++ % OWN_WAYS];
    memset(*way, 0, sizeof **way);
    catchup->searches++;
    TERN_TRY(tern_own_search(catchup, holder, held, newest, now, &(*way)->way));
    memcpy((*way)->held, held, TERN_SHA256_SIZE);
    (*way)->able = holder->able;
    (*way)->used = true;
    return TERN_OK;
}

enum tern_result tern_own_way(struct tern_catchup *catchup, const struct tern_holder *holder,
                              struct tern_searches *searches, bool newest, uint64_t now,
                              struct tern_way *way)
{
    const uint8_t *held = NULL;
    TERN_TRY(held_by(catchup->own, holder, &held));
    look_at_version(catchup);
    struct known_way *found = NULL;
    TERN_TRY(known(catchup->own, held, &holder->able, &found));
    if (found == NULL && may_search(catchup, searches)) {
        TERN_TRY(new_way(catchup, holder, held, newest, now, &found));
    }
    if (found != NULL) {
        *way = found->way;
        way->own = true;
    }
    return TERN_OK;
}

enum tern_result tern_own_exact(struct tern_catchup *catchup, uint64_t now, struct tern_way *way)
{
    struct tern_own_replicas *own = catchup->own;
    look_at_version(catchup);
    bool whole = own->exact.leads;
    if (whole) {
        TERN_TRY(is_whole(own, &own->exact, &whole));
    }
    if (!whole) {
        TERN_TRY(tern_own_open_exact(catchup, now, &own->exact));
    }
    *way = own->exact;
    return TERN_OK;
}

enum tern_result tern_own_is_stranded(struct tern_catchup *catchup,
                                      const struct tern_holder *holder, bool *stranded)
{
    struct tern_own_replicas *own = catchup->own;
    const uint8_t *held = NULL;
    *stranded = false;
    for (int i = TERN_PLAN_INT8; i < TERN_PLAN_STARTS; i++) {
        if (tern_abilities_decode(&holder->able, &own->snapshots[i])) {
            return TERN_OK;
        }
    }
    bool reads = tern_own_pass_reads(catchup, &holder->able, TERN_PLAN_DOWN) ||
                 tern_own_pass_reads(catchup, &holder->able, TERN_PLAN_REFINE);
    bool from_seed = holder->able.from_seed && tern_model_is_seeded(&catchup->merge->model);
    TERN_TRY(held_by(own, holder, &held));
    *stranded = !reads || (held == unknown_replica && !from_seed);
    return TERN_OK;
}
