#include "downloads/blobs.h"

#include "hosted/log.h"
#include "util/bytes.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// --- New blobs

#define LONG_BYTES                                                                                 \
    (1u << 20) // larger blobs are in a file from their first byte on, if there is a folder for it

struct new_blob {
    struct tern_spool spool;
    struct tern_blob *blob; // in memory; NULL = in the file
    size_t len;
    size_t most;
};

// Logs that a blob's file cannot be made for lack of disk, memory or descriptors (errno); the store is intact. Clients retry,
// so only the 1st, 2nd, 4th, ... failure since the start is logged.
static enum tern_result without_file(void)
{
    static atomic_uint failures;
    const int why = errno;
    const unsigned count = atomic_fetch_add(&failures, 1) + 1;
    if ((count & (count - 1)) == 0) {
        tern_log(TERN_LOG_WARN, "download-without-file", "count=%u error=%s", count,
                 TERN_LOG_TEXT(strerror(why)));
    }
    return TERN_ERR_BUSY;
}

// Begins a blob of at most `most` bytes. folder: NULL = in memory, whatever its size.
// TERN_ERR_BUSY  too little disk, memory or descriptors
static enum tern_result begin_blob(struct new_blob *made, const char *folder, size_t most)
{
    *made = (struct new_blob){.spool = TERN_SPOOL_CLOSED, .most = most};
    if (most > LONG_BYTES && folder != NULL) {
        return tern_spool_open(&made->spool, folder) ? TERN_OK : without_file();
    }
    made->blob = tern_blob_new(most);
    return made->blob != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}

// Begins a blob that a client waits for: in memory if the file cannot be made.
static enum tern_result begin_in_file_or_memory(struct new_blob *made, const char *folder,
                                                size_t most)
{
    const enum tern_result result = begin_blob(made, folder, most);
    return result == TERN_ERR_BUSY ? begin_blob(made, NULL, most) : result;
}

// Appends bytes to a struct new_blob. TERN_ERR_NO_SPACE: more than it may have
static enum tern_result take(void *ctx, const uint8_t *data, size_t len)
{
    struct new_blob *made = ctx;
    if (len > made->most - made->len) {
        return TERN_ERR_NO_SPACE;
    }
    if (made->blob != NULL) {
        memcpy(made->blob->data + made->len, data, len);
    } else if (!tern_spool_append(&made->spool, data, len)) {
        return without_file();
    }
    made->len += len;
    return TERN_OK;
}

static enum tern_result end_blob(struct new_blob *made, struct tern_blob **blob)
{
    if (made->blob == NULL) {
        *blob = tern_blob_from_spool(&made->spool);
        return *blob != NULL ? TERN_OK : without_file();
    }
    made->blob->len = made->len;
    *blob = made->blob;
    made->blob = NULL;
    return TERN_OK;
}

// Drops an incomplete blob; does nothing after end_blob().
static void drop_blob(struct new_blob *made)
{
    tern_spool_close(&made->spool);
    tern_blob_release(made->blob);
    made->blob = NULL;
}

enum tern_result tern_blob_copy(const char *folder, const uint8_t *bytes, size_t len,
                                struct tern_blob **blob)
{
    struct new_blob fresh;
    TERN_TRY(begin_in_file_or_memory(&fresh, folder, len));
    enum tern_result result = take(&fresh, bytes, len);
    if (result == TERN_OK) {
        result = end_blob(&fresh, blob);
    }
    drop_blob(&fresh);
    return result;
}

// --- The cache

struct tern_blob_entry {
    uint8_t sha256[TERN_SHA256_SIZE];
    struct tern_download_facts facts;
    struct tern_blob *blob;
    uint32_t to_version;
    bool trunk;                      // a delta of the trunk, which later tasks name, too
    struct tern_blob_entry *in_slot; // next entry of the same slot
    struct tern_blob_entry *newer;
    struct tern_blob_entry *older;
};

static struct tern_blob_entry **slot_of(struct tern_blob_cache *cache,
                                        const uint8_t sha256[TERN_SHA256_SIZE])
{
    return &cache->slots[tern_get_le32(sha256) % TERN_BLOB_CACHE_SLOTS];
}

static void unlink_age(struct tern_blob_cache *cache, struct tern_blob_entry *entry)
{
    *(entry->newer != NULL ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older != NULL ? &entry->older->newer : &cache->oldest) = entry->newer;
}

static void link_newest(struct tern_blob_cache *cache, struct tern_blob_entry *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    *(cache->newest != NULL ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

static struct tern_blob_entry *find(struct tern_blob_cache *cache,
                                    const uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_blob_entry *entry = *slot_of(cache, sha256);
    while (entry != NULL && memcmp(entry->sha256, sha256, TERN_SHA256_SIZE) != 0) {
        entry = entry->in_slot;
    }
    return entry;
}

static void drop(struct tern_blob_cache *cache, struct tern_blob_entry *entry)
{
    struct tern_blob_entry **at = slot_of(cache, entry->sha256);
    while (*at != entry) {
        at = &(*at)->in_slot;
    }
    *at = entry->in_slot;
    unlink_age(cache, entry);
    cache->bytes -= entry->blob->len;
    tern_blob_release(entry->blob);
    free(entry);
}

static struct tern_blob *cache_get(struct tern_blob_cache *cache,
                                   const uint8_t sha256[TERN_SHA256_SIZE],
                                   struct tern_download_facts *facts)
{
    struct tern_blob_entry *entry = find(cache, sha256);
    if (entry == NULL) {
        return NULL;
    }
    unlink_age(cache, entry);
    link_newest(cache, entry);
    *facts = entry->facts;
    return tern_blob_share(entry->blob);
}

static bool cache_facts(struct tern_blob_cache *cache, const uint8_t sha256[TERN_SHA256_SIZE],
                        struct tern_download_facts *facts)
{
    const struct tern_blob_entry *entry = find(cache, sha256);
    if (entry != NULL) {
        *facts = entry->facts;
    }
    return entry != NULL;
}

static void cache_put(struct tern_blob_cache *cache, const struct tern_db_download *row, bool trunk,
                      struct tern_blob *blob, const struct tern_download_facts *facts)
{
    const uint8_t *sha256 = row->sha256;
    if (blob->len > cache->bytes_max || find(cache, sha256) != NULL) {
        return;
    }
    struct tern_blob_entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL) {
        return;
    }
    while (cache->bytes > cache->bytes_max - blob->len) {
        drop(cache, cache->oldest);
    }
    memcpy(entry->sha256, sha256, TERN_SHA256_SIZE);
    entry->facts = *facts;
    entry->to_version = row->to_version;
    entry->trunk = trunk;
    entry->blob = tern_blob_share(blob);
    struct tern_blob_entry **slot = slot_of(cache, sha256);
    entry->in_slot = *slot;
    *slot = entry;
    link_newest(cache, entry);
    cache->bytes += blob->len;
}

static void cache_forget(struct tern_blob_cache *cache, uint32_t version)
{
    struct tern_blob_entry *newer = NULL;
    for (struct tern_blob_entry *entry = cache->oldest; entry != NULL; entry = newer) {
        newer = entry->newer;
        if (version == TERN_ALL_VERSIONS || (entry->to_version < version && !entry->trunk)) {
            drop(cache, entry);
        }
    }
}

// --- Downloads in the store

static enum tern_result read_pieces(struct tern_db *db, const struct tern_db_download *row,
                                    struct new_blob *fresh, struct tern_blob **blob)
{
    TERN_TRY(tern_db_download_stream(db, row, take, fresh));
    return end_blob(fresh, blob);
}

enum tern_result tern_download_read(struct tern_db *db, const char *folder,
                                    const struct tern_db_download *row, struct tern_blob **blob)
{
    struct new_blob fresh;
    TERN_TRY(begin_blob(&fresh, folder, row->size));
    const enum tern_result result = read_pieces(db, row, &fresh, blob);
    drop_blob(&fresh);
    return result;
}

void tern_download_store_forget(struct tern_download_store *store, uint32_t version)
{
    cache_forget(&store->memory, version);
    cache_forget(&store->files, version);
}

static bool is_in_file(const struct tern_blob *blob)
{
    return blob->spool.fd >= 0;
}

// Returns a view of a piece of a blob, and drops the memory pages of earlier pieces.
static enum tern_result view(void *ctx, size_t at, size_t len, const uint8_t **data)
{
    const struct tern_blob *blob = ctx;
    if (len > blob->len || at > blob->len - len) {
        return TERN_ERR_ARGUMENT;
    }
    tern_blob_drop_pages(blob, 0, at);
    *data = blob->data + at;
    return TERN_OK;
}

// Many clients can use a snapshot, or a delta that begins at a version's replica. Other deltas begin at the replica of one
// client or a few.
static enum tern_result facts_of(struct tern_db *db, const struct tern_db_download *row,
                                 struct tern_download_facts *facts)
{
    struct tern_db_replica from = {.trunk = false};
    enum tern_result found = TERN_OK;
    if (!row->snapshot) {
        found = tern_db_replica_get(db, row->from_replica, &from);
    }
    *facts = (struct tern_download_facts){
        .size = row->size, .payload = row->payload, .shared = row->snapshot || from.trunk};
    return tern_db_may_miss(found);
}

static void cache_blob(struct tern_download_store *store, const struct tern_db_download *row,
                       bool trunk, struct tern_blob *blob, const struct tern_download_facts *facts)
{
    cache_put(is_in_file(blob) ? &store->files : &store->memory, row, trunk, blob, facts);
}

enum tern_result tern_download_store_put(struct tern_download_store *store,
                                         const struct tern_db_download *row, struct tern_blob *blob,
                                         uint64_t *bytes, bool *more)
{
    struct tern_db_download there;
    struct tern_download_facts facts;
    *more = false;
    const enum tern_result found = tern_db_download_get(store->db, row->sha256, &there, NULL, 0);
    if (found == TERN_ERR_NOT_FOUND) {
        TERN_TRY(tern_db_download_put_some(store->db, row, view, blob, more));
        if (*more) {
            return TERN_OK;
        }
        *bytes += row->size;
    } else {
        TERN_TRY(found);
    }
    TERN_TRY(facts_of(store->db, row, &facts));
    tern_blob_drop_pages(blob, 0, blob->len);
    cache_blob(store, row, false, blob, &facts);
    return TERN_OK;
}

static enum tern_result read_and_cache(struct tern_download_store *store,
                                       const uint8_t sha256[TERN_SHA256_SIZE],
                                       struct tern_blob **blob, struct tern_download_facts *facts)
{
    struct tern_db_download row;
    struct tern_db_replica to = {.trunk = false};
    TERN_TRY(tern_db_download_get(store->db, sha256, &row, NULL, 0));
    TERN_TRY(facts_of(store->db, &row, facts));
    TERN_TRY(tern_db_may_miss(tern_db_replica_get(store->db, row.to_replica, &to)));
    TERN_TRY(tern_download_read(store->db, store->spool_folder, &row, blob));
    cache_blob(store, &row, to.trunk && !row.snapshot, *blob, facts);
    return TERN_OK;
}

enum tern_result tern_download_store_get(struct tern_download_store *store,
                                         const uint8_t sha256[TERN_SHA256_SIZE],
                                         struct tern_blob **blob, struct tern_download_facts *facts)
{
    struct tern_db_download row;
    if (blob == NULL) {
        if (cache_facts(&store->memory, sha256, facts) ||
            cache_facts(&store->files, sha256, facts)) {
            return TERN_OK;
        }
        TERN_TRY(tern_db_download_get(store->db, sha256, &row, NULL, 0));
        return facts_of(store->db, &row, facts);
    }
    *blob = cache_get(&store->memory, sha256, facts);
    if (*blob == NULL) {
        *blob = cache_get(&store->files, sha256, facts);
    }
    return *blob != NULL ? TERN_OK : read_and_cache(store, sha256, blob, facts);
}

// --- Snapshots in float32

static enum tern_result write_snapshot(const struct tern_merge *merge,
                                       enum tern_snapshot_weights which, struct new_blob *fresh,
                                       struct tern_db_download *row, struct tern_blob **blob)
{
    const struct tern_download_sink sink = {fresh, take};
    struct tern_download_made made;
    TERN_TRY(which == TERN_SNAPSHOT_REPLICA
                 ? tern_whole_snapshot(&merge->model, merge->replica, merge->replica_id,
                                       merge->version, &sink, &made)
                 : tern_whole_opening(&merge->model, merge->global, merge->version, &sink, &made));
    *row = (struct tern_db_download){.snapshot = true,
                                     .to_version = merge->version,
                                     .size = (uint32_t)made.len,
                                     .payload = (uint32_t)made.payload};
    tern_codec_format(&made.codec, row->codec);
    memcpy(row->sha256, made.sha256, TERN_SHA256_SIZE);
    memcpy(row->to_replica, made.replica, TERN_SHA256_SIZE);
    return end_blob(fresh, blob);
}

enum tern_result tern_snapshot_blob(const struct tern_merge *merge,
                                    enum tern_snapshot_weights which, const char *folder,
                                    struct tern_db_download *row, struct tern_blob **blob)
{
    struct new_blob fresh;
    const float *weights = which == TERN_SNAPSHOT_REPLICA ? merge->replica : merge->global;
    const size_t size = tern_whole_size(&merge->model, weights, merge->version);
    TERN_TRY(begin_in_file_or_memory(&fresh, folder, size));
    const enum tern_result result = write_snapshot(merge, which, &fresh, row, blob);
    drop_blob(&fresh);
    return result;
}
