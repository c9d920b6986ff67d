// The manifest of a model that its spec alone does not give, and the tensors that came with it but
// are no part of it. They never change, so that the manifest is read once and stays with the
// connection; the tensors are for export alone.
#include "store/store_sqlite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tern_result tern_db_manifest_put(struct tern_db *db,
                                      const struct tern_db_federation *federation)
{
    const char *metadata = federation->metadata != NULL ? federation->metadata : "";
    uint8_t sha256[TERN_SHA256_SIZE];
    tern_sha256(federation->manifest, federation->manifest_len, sha256);
    struct tern_query query = tern_query_write(
        db, "INSERT INTO manifest (sha256, body, metadata, id) VALUES (?, ?, ?, 1)");
    tern_query_bind_blob(&query, sha256, sizeof sha256);
    tern_query_bind_blob(&query, federation->manifest, federation->manifest_len);
    tern_query_bind_text(&query, metadata, strlen(metadata) + 1);
    return tern_query_run(&query);
}

enum tern_result tern_db_kept_put(struct tern_db *db, const struct tern_db_federation *federation)
{
    uint8_t sha256[TERN_SHA256_SIZE];
    tern_sha256(federation->kept, federation->kept_len, sha256);
    struct tern_query query =
        tern_query_write(db, "INSERT INTO kept_tensors (sha256, body, id) VALUES (?, ?, 1)");
    tern_query_bind_blob(&query, sha256, sizeof sha256);
    tern_query_bind_blob(&query, federation->kept, federation->kept_len);
    return tern_query_run(&query);
}

// The copy of what a row has, if its hash is right; query->result says so otherwise.
static uint8_t *copy_kept(struct tern_query *query, size_t *len)
{
    uint8_t sha256[TERN_SHA256_SIZE] = {0};
    uint8_t found[TERN_SHA256_SIZE];
    tern_query_hash(query, sha256);
    const uint8_t *body = tern_query_blob(query, len);
    if (query->result != TERN_OK) {
        return NULL;
    }
    tern_sha256(body, *len, found);
    if (*len == 0 || memcmp(found, sha256, sizeof sha256) != 0) {
        tern_query_damaged(query, "the hash of the tensors that are kept for export is wrong");
        return NULL;
    }
    uint8_t *copy = malloc(*len);
    if (copy != NULL) {
        memcpy(copy, body, *len);
    }
    return copy;
}

enum tern_result tern_db_kept_get(struct tern_db *db, uint8_t **kept, size_t *len)
{
    struct tern_query query =
        tern_query_read(db, "SELECT sha256, body FROM kept_tensors WHERE id = 1");
    *kept = NULL;
    *len = 0;
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    *kept = copy_kept(&query, len);
    const enum tern_result ended = tern_query_end(&query);
    return ended == TERN_OK && *kept == NULL ? TERN_ERR_NO_MEMORY : ended;
}

static enum tern_result keep(struct tern_db *db, const uint8_t *body, size_t len,
                             const uint8_t *metadata, size_t metadata_len)
{
    uint8_t *manifest = malloc(len);
    char *text = malloc(metadata_len + 1);
    if (manifest == NULL || text == NULL) {
        free(manifest);
        free(text);
        return TERN_ERR_NO_MEMORY;
    }
    memcpy(manifest, body, len);
    if (metadata_len > 0) {
        memcpy(text, metadata, metadata_len);
    }
    text[metadata_len] = '\0';
    db->manifest = manifest;
    db->manifest_len = len;
    db->metadata = text;
    return TERN_OK;
}

static enum tern_result load(struct tern_db *db)
{
    struct tern_query query = tern_query_read(
        db, "SELECT sha256, body, CAST(metadata AS BLOB) FROM manifest WHERE id = 1");
    if (!tern_query_row(&query)) {
        return tern_query_end(&query);
    }
    uint8_t sha256[TERN_SHA256_SIZE] = {0};
    uint8_t found[TERN_SHA256_SIZE];
    size_t len = 0;
    size_t metadata_len = 0;
    tern_query_hash(&query, sha256);
    const uint8_t *body = tern_query_blob(&query, &len);
    const uint8_t *metadata = tern_query_blob(&query, &metadata_len);
    if (query.result != TERN_OK) {
        return tern_query_end(&query);
    }
    tern_sha256(body, len, found);
    if (len == 0 || memcmp(found, sha256, sizeof sha256) != 0) {
        tern_query_damaged(&query, "the hash of the model's manifest is wrong");
        return tern_query_end(&query);
    }
    enum tern_result kept = keep(db, body, len, metadata, metadata_len);
    enum tern_result ended = tern_query_end(&query);
    return kept != TERN_OK ? kept : ended;
}

enum tern_result tern_db_manifest_get(struct tern_db *db, struct tern_db_federation *federation)
{
    if (db->manifest == NULL) {
        TERN_TRY(load(db));
    }
    federation->manifest = db->manifest;
    federation->manifest_len = db->manifest_len;
    federation->metadata = db->metadata;
    return TERN_OK;
}
