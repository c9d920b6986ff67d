#include "downloads/replicas.h"

#include "codec/container.h"
#include "wire/wire.h"
#include <string.h>

// Fewest downloads between two whole forms, unless they take more bytes than whole weights. A search keeps its client's
// weights in a slot, so that it decodes these downloads only after a restart.
#define WHOLE_DEPTH_MIN 8

// Most downloads of one path (TERN_PLAN_PASSES_MAX). Only the weights of the path's last replica are available to be stored
// whole, so depths stay this far below TERN_REPLICA_DEPTH_MAX.
#define DEPTH_MARGIN 8

// A client's weights are stored whole once the downloads since the last whole form take 1/CHAIN_SHARE of the weights' bytes,
// a version's once they take as many: the trunk's downloads stay stored for its clients anyway.
#define CHAIN_SHARE 8

// Replicas that one query examines for deletion (suspects), and that one query evicts.
#define COLLECT_MAX 128
#define EVICT_MAX 32
// Fewest queries in one collection, if each finds COLLECT_MAX suspects. When a replica's weights are stored whole, all its
// downloads become garbage at once. Deleting one replica takes about 0.1 ms.
#define COLLECT_TIMES 8
// Most queries in one eviction; more are necessary only after the limit was lowered.
#define EVICT_TIMES 32

enum tern_result tern_replica_book_load(struct tern_replica_book *book)
{
    struct tern_db_replica_totals totals;
    tern_replica_from_seed(book->model->hash, book->seed, book->seed_id);
    if (tern_model_is_seeded(book->model)) {
        struct tern_db_replica row = {.form = TERN_REPLICA_SEED, .trunk = true};
        memcpy(row.id, book->seed_id, TERN_SHA256_SIZE);
        TERN_TRY(tern_db_replica_put(book->db, &row));
    }
    TERN_TRY(tern_db_replica_totals(book->db, &totals));
    book->bytes = totals.whole_bytes + totals.download_bytes;
    return TERN_OK;
}

// --- Adding

// Whether a replica's weights are stored whole. A client's chain stays short, because each of its searches may have to
// decode the downloads since.
static bool must_store_weights(const struct tern_replica_book *book,
                               const struct tern_db_replica *row)
{
    const uint64_t whole = (uint64_t)book->model->count * sizeof(float);
    if (row->form != TERN_REPLICA_STEP) {
        return row->form == TERN_REPLICA_WHOLE;
    }
    const bool is_long = row->depth >= WHOLE_DEPTH_MIN;
    return row->depth >= TERN_REPLICA_DEPTH_MAX - DEPTH_MARGIN ||
           (row->trunk ? row->bytes > whole && is_long
                       : row->bytes > whole || (row->bytes > whole / CHAIN_SHARE && is_long));
}

// Fills the row of the replica that a download makes.
static enum tern_result describe(struct tern_replica_book *book,
                                 const struct tern_db_download *download,
                                 struct tern_db_replica *row)
{
    struct tern_db_replica parent;
    memcpy(row->id, download->to_replica, TERN_SHA256_SIZE);
    row->version = download->to_version;
    row->form = TERN_REPLICA_SNAPSHOT;
    memcpy(row->download, download->sha256, TERN_SHA256_SIZE);
    if (download->snapshot) {
        return TERN_OK;
    }
    const enum tern_result found = tern_db_replica_get(book->db, download->from_replica, &parent);
    if (found == TERN_ERR_NOT_FOUND) {
        row->form = TERN_REPLICA_WHOLE;
        memset(row->download, 0, TERN_SHA256_SIZE);
        return TERN_OK;
    }
    TERN_TRY(found);
    row->form = TERN_REPLICA_STEP;
    memcpy(row->parent, parent.id, TERN_SHA256_SIZE);
    row->depth = parent.depth + 1;
    row->bytes = parent.bytes + download->size;
    return TERN_OK;
}

static enum tern_result store_weights(struct tern_replica_book *book,
                                      const uint8_t id[TERN_SHA256_SIZE], const float *weights)
{
    TERN_TRY(tern_db_replica_weights_put(book->db, id, weights, book->model->count));
    book->bytes += (uint64_t)book->model->count * sizeof(float);
    return TERN_OK;
}

static enum tern_result put_replica(struct tern_replica_book *book,
                                    const struct tern_db_download *download, const uint8_t *blob,
                                    const float *weights, float residual, bool trunk,
                                    uint64_t now_ms, bool *more)
{
    struct tern_db_download there;
    enum tern_result found = tern_db_download_get(book->db, download->sha256, &there, NULL, 0);
    if (found == TERN_ERR_NOT_FOUND) {
        found = tern_db_download_put(book->db, download, blob);
        book->bytes += download->size;
    }
    TERN_TRY(found);
    struct tern_db_replica known;
    found = tern_db_replica_get(book->db, download->to_replica, &known);
    if (found != TERN_ERR_NOT_FOUND) {
        return found;
    }
    struct tern_db_replica row = {
        .trunk = trunk, .suspect = !trunk, .residual = residual, .used_ms = now_ms};
    TERN_TRY(describe(book, download, &row));
    if (weights == NULL && row.form == TERN_REPLICA_WHOLE) {
        return TERN_OK;
    }
    const bool is_whole = weights != NULL && must_store_weights(book, &row);
    if (is_whole && more != NULL) {
        TERN_TRY(
            tern_db_replica_weights_put_some(book->db, row.id, weights, book->model->count, more));
        if (*more) {
            return TERN_OK;
        }
    }
    book->added++;
    TERN_TRY(tern_db_replica_put(book->db, &row));
    return is_whole ? store_weights(book, row.id, weights) : TERN_OK;
}

// --- Deleting

static enum tern_result drop(struct tern_replica_book *book, const struct tern_db_replica *row)
{
    uint64_t freed = 0;
    TERN_TRY(tern_db_replica_drop(book->db, row->id, &freed));
    book->bytes -= freed < book->bytes ? freed : book->bytes;
    if (row->trunk && book->dropped != NULL) {
        book->dropped(book->ctx, row->version);
    }
    return TERN_OK;
}

// Sets *needed if the replica must stay: it is the seed's or a recent version's, a client has it, or another replica was made
// from it.
static enum tern_result is_needed(struct tern_replica_book *book, const struct tern_db_replica *row,
                                  uint32_t version, bool *needed)
{
    *needed = row->form == TERN_REPLICA_SEED || row->children > 0 ||
              (row->trunk && row->version + book->keep_versions > version);
    if (*needed) {
        return TERN_OK;
    }
    return tern_db_replica_held(book->db, row->id, needed);
}

// Deletes a suspect that is not needed; its parent becomes a suspect. Takes a needed suspect off the list: it returns when
// its client gets another replica, or when the last replica made from it is deleted.
static enum tern_result examine(struct tern_replica_book *book, struct tern_db_replica row,
                                uint32_t version, uint32_t *dropped)
{
    bool needed = false;
    for (;;) {
        TERN_TRY(is_needed(book, &row, version, &needed));
        if (needed) {
            return tern_db_replica_suspect(book->db, row.id, false);
        }
        TERN_TRY(drop(book, &row));
        (*dropped)++;
        if (row.form != TERN_REPLICA_STEP || *dropped >= COLLECT_MAX) {
            return TERN_OK;
        }
        uint8_t parent[TERN_SHA256_SIZE];
        memcpy(parent, row.parent, TERN_SHA256_SIZE);
        TERN_TRY(tern_db_replica_get(book->db, parent, &row));
    }
}

static enum tern_result collect_some(struct tern_replica_book *book, uint32_t version,
                                     uint32_t *dropped)
{
    uint8_t ids[COLLECT_MAX][TERN_SHA256_SIZE];
    uint32_t count = 0;
    *dropped = 0;
    TERN_TRY(tern_db_replica_suspects(book->db, ids, COLLECT_MAX, &count));
    for (uint32_t i = 0; i < count && *dropped < COLLECT_MAX; i++) {
        struct tern_db_replica row;
        enum tern_result found = tern_db_replica_get(book->db, ids[i], &row);
        if (found == TERN_ERR_NOT_FOUND) {
            continue; // deleted as the parent of an earlier suspect
        }
        TERN_TRY(found);
        if (row.version + TERN_REPLICA_GRACE > version) {
            break; // the following suspects are newer
        }
        TERN_TRY(examine(book, row, version, dropped));
    }
    return TERN_OK;
}

// Deletes a replica without children, then its parents while they were used before `next_ms`, the last use of the next
// candidate. Otherwise every chain would lose its end before the oldest chain is deleted.
static enum tern_result drop_chain(struct tern_replica_book *book, struct tern_db_replica row,
                                   uint32_t before, uint64_t next_ms, uint64_t most)
{
    uint8_t parent[TERN_SHA256_SIZE];
    bool more = true;
    while (more) {
        const bool has_parent = row.form == TERN_REPLICA_STEP;
        memcpy(parent, row.parent, TERN_SHA256_SIZE);
        TERN_TRY(drop(book, &row));
        more = has_parent && book->bytes > most;
        if (more) {
            TERN_TRY(tern_db_replica_get(book->db, parent, &row));
            more = row.form != TERN_REPLICA_SEED && row.children == 0 && row.version < before &&
                   row.used_ms <= next_ms;
        }
    }
    return TERN_OK;
}

// Deletes replicas of versions before `before` until at most `most` bytes are left.
static enum tern_result evict_some(struct tern_replica_book *book, uint32_t before, uint64_t most,
                                   bool *any)
{
    uint8_t ids[EVICT_MAX][TERN_SHA256_SIZE];
    uint32_t count = 0;
    *any = false;
    TERN_TRY(tern_db_replica_unused(book->db, before, ids, EVICT_MAX, &count));
    for (uint32_t i = 0; i < count && book->bytes > most; i++) {
        struct tern_db_replica row;
        struct tern_db_replica next = {.used_ms = UINT64_MAX};
        TERN_TRY(tern_db_replica_get(book->db, ids[i], &row));
        if (i + 1 < count) {
            TERN_TRY(tern_db_replica_get(book->db, ids[i + 1], &next));
        }
        if (row.form != TERN_REPLICA_SEED) {
            TERN_TRY(drop_chain(book, row, before, next.used_ms, most));
            *any = true;
        }
    }
    return TERN_OK;
}

static enum tern_result evict(struct tern_replica_book *book, uint32_t before, uint64_t most)
{
    bool any = true;
    for (int i = 0; i < EVICT_TIMES && any && book->bytes > most; i++) {
        TERN_TRY(evict_some(book, before, most, &any));
    }
    return TERN_OK;
}

static enum tern_result evict_above_limit(struct tern_replica_book *book, uint32_t version)
{
    return book->bytes_max > 0 ? evict(book, version, book->bytes_max) : TERN_OK;
}

enum tern_result tern_replica_collect(struct tern_replica_book *book, uint32_t version)
{
    // Examines at least as many replicas as were added since the last collection.
    uint32_t most = COLLECT_TIMES + 4 * book->added / COLLECT_MAX;
    uint32_t dropped = COLLECT_MAX;
    book->added = 0;
    for (uint32_t i = 0; i < most && dropped >= COLLECT_MAX; i++) {
        TERN_TRY(collect_some(book, version, &dropped));
    }
    return evict_above_limit(book, version);
}

enum tern_result tern_replica_add(struct tern_replica_book *book,
                                  const struct tern_db_download *download, const uint8_t *blob,
                                  const float *weights, float residual, bool trunk, uint64_t now_ms,
                                  bool *more)
{
    if (more != NULL) {
        *more = false;
    }
    TERN_TRY(put_replica(book, download, blob, weights, residual, trunk, now_ms, more));
    return evict_above_limit(book, download->to_version);
}

enum tern_result tern_replica_free_disk(struct tern_replica_book *book, uint32_t version,
                                        uint64_t most)
{
    const uint64_t half = book->bytes / 2;
    return version > TERN_REPLICA_GRACE ? evict(book, version - TERN_REPLICA_GRACE,
                                                book->bytes - (half < most ? half : most))
                                        : TERN_OK;
}

// --- Rebuilding weights

static enum tern_result read_blob(struct tern_replica_reader *reader,
                                  const uint8_t sha256[TERN_SHA256_SIZE],
                                  struct tern_span *container)
{
    struct tern_db_download row;
    tern_Download message;
    TERN_TRY(tern_db_download_get(reader->db, sha256, &row, reader->blob, reader->blob_size));
    return tern_wire_decode_download(reader->blob, row.size, &message, container);
}

static enum tern_result add_step(struct tern_replica_reader *reader,
                                 const uint8_t sha256[TERN_SHA256_SIZE], float *weights)
{
    struct tern_span container;
    TERN_TRY(read_blob(reader, sha256, &container));
    // Adds without a check of the whole payload beforehand: after an error the caller does not use the weights.
    return tern_container_add(reader->model, container.data, container.len, 1.0F, weights);
}

static enum tern_result load_base(struct tern_replica_reader *reader,
                                  const struct tern_db_replica *row, float *weights)
{
    struct tern_span container;
    switch (row->form) {
    case TERN_REPLICA_SEED:
        tern_model_init_weights(reader->model, reader->seed, weights);
        return TERN_OK;
    case TERN_REPLICA_SNAPSHOT:
        TERN_TRY(read_blob(reader, row->download, &container));
        return tern_container_decode(reader->model, container.data, container.len, weights);
    case TERN_REPLICA_WHOLE:
        return tern_db_replica_weights_get(reader->db, row->id, weights, reader->model->count);
    case TERN_REPLICA_STEP:
        break;
    }
    return TERN_ERR_CORRUPT;
}

// Goes back from a replica to an ancestor that is stored whole, then adds the downloads since.
enum tern_result tern_replica_weights(struct tern_replica_reader *reader,
                                      const uint8_t id[TERN_SHA256_SIZE], float *weights)
{
    struct tern_db_replica row;
    uint32_t depth = 0;
    TERN_TRY(tern_db_replica_get(reader->db, id, &row));
    while (row.form == TERN_REPLICA_STEP) {
        if (depth == TERN_REPLICA_DEPTH_MAX) {
            return TERN_ERR_CORRUPT;
        }
        uint8_t parent[TERN_SHA256_SIZE];
        memcpy(reader->path[depth++], row.download, TERN_SHA256_SIZE);
        memcpy(parent, row.parent, TERN_SHA256_SIZE);
        TERN_TRY(tern_db_replica_get(reader->db, parent, &row));
    }
    TERN_TRY(load_base(reader, &row, weights));
    while (depth > 0) {
        TERN_TRY(add_step(reader, reader->path[--depth], weights));
    }
    return TERN_OK;
}
