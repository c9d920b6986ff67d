#include "merge/part_delivery.h"

#include "merge/part_form.h"
#include "store/nodes.h"
#include "store/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum tern_result count_bytes(void *ctx, const uint8_t *data, size_t len)
{
    uint64_t *bytes = ctx;
    (void)data;
    *bytes += len;
    return TERN_OK;
}

struct delivery {
    struct tern_db *db;
    struct tern_db_part row; // of the piece that is being filled
    size_t size;             // of a piece, at most
    size_t used;             // of this one
    uint8_t *first;          // piece 0, which is written last
    uint8_t *next;           // one of the others
};

// A file has no transactions apart.
static enum tern_result begin(struct tern_db *db)
{
    return tern_db_is_url(tern_db_path(db)) ? tern_db_begin_apart(db, false) : tern_db_begin(db);
}

static enum tern_result write_piece(struct delivery *delivery, bool anew)
{
    struct tern_db *db = delivery->db;
    TERN_TRY(begin(db));
    enum tern_result result =
        anew ? tern_db_part_drop(db, delivery->row.round, delivery->row.node) : TERN_OK;
    if (result == TERN_OK) {
        result = tern_db_part_put(db, &delivery->row);
    }
    return tern_db_conclude(db, result);
}

// The one that is being filled is ready.
static enum tern_result end_piece(struct delivery *delivery)
{
    struct tern_db_part *row = &delivery->row;
    if (row->piece > 0) {
        row->body = (struct tern_blob_column){delivery->next, delivery->used};
        TERN_TRY(write_piece(delivery, row->piece == 1));
    }
    row->piece++;
    delivery->used = 0;
    return TERN_OK;
}

static enum tern_result fill_pieces(void *ctx, const uint8_t *data, size_t len)
{
    struct delivery *delivery = ctx;
    while (len > 0) {
        TERN_TRY(delivery->used == delivery->size ? end_piece(delivery) : TERN_OK);
        uint8_t *piece = delivery->row.piece == 0 ? delivery->first : delivery->next;
        const size_t left = delivery->size - delivery->used;
        const size_t n = len < left ? len : left;
        memcpy(piece + delivery->used, data, n);
        delivery->used += n;
        data += n;
        len -= n;
    }
    return TERN_OK;
}

static enum tern_result write_all(struct tern_part *part, struct delivery *delivery)
{
    struct tern_db_part *row = &delivery->row;
    TERN_TRY(tern_part_write(part, fill_pieces, delivery));
    const size_t first = row->piece == 0 ? delivery->used : delivery->size;
    TERN_TRY(end_piece(delivery));
    row->pieces = row->piece;
    row->piece = 0;
    row->body = (struct tern_blob_column){delivery->first, first};
    return write_piece(delivery, row->pieces == 1);
}

enum tern_result tern_part_store(struct tern_part *part, struct tern_db *db, const char *node)
{
    struct delivery delivery = {.db = db,
                                .row = {.round = part->round.round, .updates = part->count},
                                .size = TERN_DB_PIECE_BYTES};
    uint64_t bytes = 0;
    TERN_TRY(part->count > 0 ? tern_part_write(part, count_bytes, &bytes) : TERN_ERR_STATE);
    snprintf(delivery.row.node, sizeof delivery.row.node, "%s", node);
    delivery.size = bytes < delivery.size ? (size_t)bytes : delivery.size;
    delivery.first = malloc(delivery.size);
    delivery.next = malloc(delivery.size);
    enum tern_result result = TERN_ERR_NO_MEMORY;
    if (delivery.first != NULL && delivery.next != NULL) {
        result = write_all(part, &delivery);
    }
    free(delivery.first);
    free(delivery.next);
    return result;
}

// The leader reads no more bytes with it than without.
static enum tern_result is_worth(struct tern_part *part, bool *worth)
{
    uint64_t bytes = 0;
    *worth = false;
    if (part->count > 0) {
        TERN_TRY(tern_part_write(part, count_bytes, &bytes));
        *worth = bytes <= part->replaced;
    }
    return TERN_OK;
}

enum tern_result tern_part_deliver(struct tern_part *part, struct tern_db *db, const char *node,
                                   bool *delivered)
{
    TERN_TRY(is_worth(part, delivered));
    return *delivered ? tern_part_store(part, db, node) : TERN_OK;
}
