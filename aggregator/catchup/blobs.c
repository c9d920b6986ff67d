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

static void keep_for_others(struct tern_catchup *catchup, const struct tern_db_download *row,
                            struct tern_blob *blob)
{
    tern_blob_cache_put(tern_blob_is_in_file(blob) ? &catchup->files : &catchup->cache, row->sha256,
                        blob, row->payload);
}

enum tern_result tern_catchup_store(struct tern_catchup *catchup,
                                    const struct tern_db_download *row, struct tern_blob *blob)
{
    struct tern_db_download there;
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
    keep_for_others(catchup, row, blob);
    return TERN_OK;
}

static enum tern_result read_blob(struct tern_catchup *catchup,
                                  const uint8_t sha256[TERN_SHA256_SIZE], struct tern_blob **blob,
                                  uint32_t *payload)
{
    struct tern_db_download row;
    TERN_TRY(tern_db_download_get(catchup->db, sha256, &row, NULL, 0));
    TERN_TRY(tern_catchup_read(catchup, &row, blob));
    keep_for_others(catchup, &row, *blob);
    *payload = row.payload;
    return TERN_OK;
}

enum tern_result tern_catchup_blob(struct tern_catchup *catchup,
                                   const uint8_t sha256[TERN_SHA256_SIZE], struct tern_blob **blob,
                                   uint32_t *payload)
{
    *blob = tern_blob_cache_get(&catchup->cache, sha256, payload);
    if (*blob == NULL) {
        *blob = tern_blob_cache_get(&catchup->files, sha256, payload);
    }
    return *blob != NULL ? TERN_OK : read_blob(catchup, sha256, blob, payload);
}
