// The bytes of downloads between the store and those that ask for them: in a file while they are asked for,
// where they are many, so that neither what is made nor what is sent need fit into memory.
#include "catchup/internal.h"

static enum tern_result read_pieces(struct tern_catchup *catchup,
                                    const struct tern_db_download *row, struct tern_new_blob *fresh,
                                    struct tern_blob **blob)
{
    const struct tern_download_sink sink = tern_new_blob_sink(fresh);
    TERN_TRY(tern_db_download_stream(catchup->db, row, sink.take, sink.ctx));
    return tern_new_blob_end(fresh, blob);
}

enum tern_result tern_catchup_read(struct tern_catchup *catchup, const struct tern_db_download *row,
                                   struct tern_blob **blob)
{
    struct tern_new_blob fresh;
    TERN_TRY(tern_new_blob_begin(&fresh, catchup->config.spool_folder, row->size));
    const enum tern_result result = read_pieces(catchup, row, &fresh, blob);
    tern_new_blob_drop(&fresh);
    return result;
}

// The pages of what was looked at before may leave memory.
static enum tern_result view(void *ctx, size_t at, size_t len, const uint8_t **data)
{
    const struct tern_blob *blob = ctx;
    if (len > blob->len || at > blob->len - len) {
        return TERN_ERR_ARGUMENT;
    }
    tern_blob_rest(blob, 0, at);
    *data = blob->data + at;
    return TERN_OK;
}

// What leads on from a version's replica is given to all who hold that, and a snapshot to all who need one.
// Other deltas begin at a replica of a client's own.
static enum tern_result facts_of(struct tern_catchup *catchup, const struct tern_db_download *row,
                                 struct tern_download_facts *facts)
{
    struct tern_db_replica from = {.trunk = false};
    enum tern_result found = TERN_OK;
    if (!row->snapshot) {
        found = tern_db_replica_get(catchup->db, row->from_replica, &from);
    }
    *facts = (struct tern_download_facts){
        .size = row->size, .payload = row->payload, .shared = row->snapshot || from.trunk};
    return tern_db_may_miss(found);
}

static void keep_for_others(struct tern_catchup *catchup, const struct tern_db_download *row,
                            struct tern_blob *blob, const struct tern_download_facts *facts)
{
    tern_blob_cache_put(tern_blob_is_in_file(blob) ? &catchup->files : &catchup->cache, row->sha256,
                        blob, facts);
}

enum tern_result tern_catchup_store(struct tern_catchup *catchup,
                                    const struct tern_db_download *row, struct tern_blob *blob)
{
    struct tern_db_download there;
    struct tern_download_facts facts;
    TERN_TRY(facts_of(catchup, row, &facts));
    const enum tern_result found = tern_db_download_get(catchup->db, row->sha256, &there, NULL, 0);
    if (found == TERN_ERR_NOT_FOUND) {
        TERN_TRY(tern_blob_is_in_file(blob)
                     ? tern_db_download_put_pieces(catchup->db, row, view, blob)
                     : tern_db_download_put(catchup->db, row, blob->data));
        catchup->own->book.bytes += row->size;
    } else {
        TERN_TRY(found);
    }
    tern_blob_rest(blob, 0, blob->len);
    keep_for_others(catchup, row, blob, &facts);
    return TERN_OK;
}

static enum tern_result read_blob(struct tern_catchup *catchup,
                                  const uint8_t sha256[TERN_SHA256_SIZE], struct tern_blob **blob,
                                  struct tern_download_facts *facts)
{
    struct tern_db_download row;
    TERN_TRY(tern_db_download_get(catchup->db, sha256, &row, NULL, 0));
    TERN_TRY(facts_of(catchup, &row, facts));
    TERN_TRY(tern_catchup_read(catchup, &row, blob));
    keep_for_others(catchup, &row, *blob, facts);
    return TERN_OK;
}

enum tern_result tern_catchup_blob(struct tern_catchup *catchup,
                                   const uint8_t sha256[TERN_SHA256_SIZE], struct tern_blob **blob,
                                   struct tern_download_facts *facts)
{
    *blob = tern_blob_cache_get(&catchup->cache, sha256, facts);
    if (*blob == NULL) {
        *blob = tern_blob_cache_get(&catchup->files, sha256, facts);
    }
    return *blob != NULL ? TERN_OK : read_blob(catchup, sha256, blob, facts);
}

enum tern_result tern_catchup_know(struct tern_catchup *catchup,
                                   const uint8_t sha256[TERN_SHA256_SIZE],
                                   struct tern_download_facts *facts)
{
    struct tern_db_download row;
    if (tern_blob_cache_know(&catchup->cache, sha256, facts) ||
        tern_blob_cache_know(&catchup->files, sha256, facts)) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_download_get(catchup->db, sha256, &row, NULL, 0));
    return facts_of(catchup, &row, facts);
}
