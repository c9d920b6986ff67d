#include "merge/gather.h"

#include "hosted/log.h"
#include "merge/part_form.h"
#include "merge/stored_mean.h"
#include "store/store.h"
#include <stdlib.h>
#include <string.h>

static int compare_deferred(const void *a, const void *b)
{
    const struct tern_deferred *one = a;
    const struct tern_deferred *other = b;
    return (one->client > other->client) - (one->client < other->client);
}

void tern_gather_begin(struct tern_gather *gather, struct tern_merge *merge, struct tern_db *db,
                       const struct tern_db_round *row)
{
    memset(gather, 0, sizeof *gather);
    gather->merge = merge;
    gather->db = db;
    gather->round.round = row->round;
    gather->round.base_version = row->base_version;
    gather->round.rule = merge->arrived.rule;
    memcpy(gather->round.base, merge->replica_id, TERN_SHA256_SIZE);
    if (merge->deferred_count > 0) {
        qsort(merge->deferred, merge->deferred_count, sizeof merge->deferred[0], compare_deferred);
    }
}

uint32_t tern_gather_missing(const struct tern_gather *gather)
{
    const struct tern_merge *merge = gather->merge;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < merge->deferred_count; i++) {
        missing += !merge->deferred[i].is_in;
    }
    return missing;
}

// The sums already contain the update.
static void note_norm(const struct tern_gather *gather, struct tern_deferred *deferred,
                      double sum_square)
{
    gather->merge->bounds.list[deferred->at].sum_square = sum_square;
    deferred->is_in = true;
}

// --- The bytes of a part

struct pieces {
    struct tern_db *db;
    const struct tern_db_part *part;
    uint32_t next;
    uint8_t *bytes; // of one piece
    size_t len;
};

static enum tern_result copy_piece(void *ctx, const struct tern_db_part *piece)
{
    struct pieces *pieces = ctx;
    pieces->len = piece->body.len < TERN_DB_PIECE_BYTES ? piece->body.len : TERN_DB_PIECE_BYTES;
    if (pieces->len > 0) {
        memcpy(pieces->bytes, piece->body.data, pieces->len);
    }
    return TERN_OK;
}

// One that is missing ends it too early, which the reader finds.
static enum tern_result next_piece(void *ctx, const uint8_t **data, size_t *len)
{
    struct pieces *pieces = ctx;
    const struct tern_db_part *part = pieces->part;
    pieces->len = 0;
    if (pieces->next < part->pieces) {
        TERN_TRY(tern_db_may_miss(tern_db_part_show(pieces->db, part->round, part->node,
                                                    pieces->next, copy_piece, pieces)));
        pieces->next++;
    }
    *data = pieces->bytes;
    *len = pieces->len;
    return TERN_OK;
}

static enum tern_result read_part(const struct tern_gather *gather, const struct tern_db_part *row,
                                  struct tern_part *part, enum tern_part_fault *fault)
{
    const struct tern_merge *merge = gather->merge;
    struct pieces pieces = {.db = gather->db, .part = row, .bytes = malloc(TERN_DB_PIECE_BYTES)};
    const struct tern_part_source source = {&pieces, next_piece};
    if (pieces.bytes == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    const enum tern_result result = tern_part_read(part, &merge->model, &gather->round,
                                                   merge->arrived.memory - merge->arrived.used,
                                                   merge->deferred_count, &source, fault);
    free(pieces.bytes);
    return result;
}

// --- What it covers

static struct tern_deferred *find_deferred(const struct tern_merge *merge, uint64_t client)
{
    const struct tern_deferred wanted = {.client = client};
    return bsearch(&wanted, merge->deferred, merge->deferred_count, sizeof wanted,
                   compare_deferred);
}

// Each was accepted, as the part has it, and nobody else has brought it.
static enum tern_part_fault check_updates(const struct tern_merge *merge,
                                          const struct tern_part *part)
{
    for (uint32_t i = 0; i < part->count; i++) {
        const struct tern_part_update *update = &part->updates[i];
        const struct tern_deferred *deferred = find_deferred(merge, update->client);
        if (deferred == NULL || deferred->num_examples != update->num_examples ||
            deferred->local_steps != update->local_steps ||
            (deferred->sum_square >= 0.0 && deferred->sum_square != update->sum_square) ||
            memcmp(deferred->sha256, update->sha256, TERN_SHA256_SIZE) != 0) {
            return TERN_PART_OTHER_UPDATE;
        }
        if (deferred->is_in) {
            return TERN_PART_TWICE;
        }
    }
    return TERN_PART_NONE;
}

static enum tern_result join(const struct tern_gather *gather, struct tern_part *part)
{
    TERN_TRY(tern_exact_mean_join(&gather->merge->arrived, &part->mean));
    for (uint32_t i = 0; i < part->count; i++) {
        const struct tern_part_update *update = &part->updates[i];
        note_norm(gather, find_deferred(gather->merge, update->client), update->sum_square);
    }
    return TERN_OK;
}

static void refuse(const struct tern_db_part *row, const char *why)
{
    tern_log(TERN_LOG_WARN, "part-refused", "round=%u node=%s updates=%u reason=%s", row->round,
             TERN_LOG_TEXT(row->node), row->updates, TERN_LOG_TEXT(why));
}

static void take_part(const struct tern_gather *gather, const struct tern_db_part *row)
{
    struct tern_part part = {.count = 0};
    enum tern_part_fault fault = TERN_PART_NONE;
    const enum tern_result read = read_part(gather, row, &part, &fault);
    if (read == TERN_OK && fault == TERN_PART_NONE) {
        fault = check_updates(gather->merge, &part);
    }
    if (read != TERN_OK) {
        refuse(row, tern_result_name(read));
    } else if (fault != TERN_PART_NONE) {
        refuse(row, tern_part_fault_text(fault));
    } else if (join(gather, &part) != TERN_OK) {
        tern_merge_stop(gather->merge);
    } else {
        tern_log(TERN_LOG_INFO, "part", "round=%u node=%s updates=%u", row->round,
                 TERN_LOG_TEXT(row->node), part.count);
    }
    tern_part_clear(&part);
}

static bool is_new(struct tern_gather *gather, const char *node)
{
    for (uint32_t i = 0; i < gather->seen_count; i++) {
        if (strcmp(gather->seen[i], node) == 0) {
            return false;
        }
    }
    const bool has_room = gather->seen_count < TERN_GATHER_NODES;
    if (has_room) {
        memcpy(gather->seen[gather->seen_count++], node, TERN_DB_NODE_MAX);
    }
    return has_room;
}

void tern_gather_parts(struct tern_gather *gather)
{
    struct tern_db_part rows[TERN_GATHER_NODES];
    size_t count = 0;
    if (tern_gather_missing(gather) == 0 || tern_db_parts(gather->db, gather->round.round, rows,
                                                          TERN_GATHER_NODES, &count) != TERN_OK) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (is_new(gather, rows[i].node)) {
            take_part(gather, &rows[i]);
        }
    }
}

// --- What no part covers

struct storing {
    const struct tern_gather *gather;
    struct tern_deferred *deferred;
};

static enum tern_result add_stored(void *ctx, const struct tern_db_update *update)
{
    const struct storing *storing = ctx;
    const struct tern_gather *gather = storing->gather;
    struct tern_contribution contribution;
    struct tern_codec_info info;
    struct tern_span container;
    TERN_TRY(tern_stored_read(update, &contribution, &container));
    TERN_TRY(tern_exact_mean_add(&gather->merge->arrived, &contribution, container.data,
                                 container.len, NULL, &info));
    note_norm(gather, storing->deferred, info.sum_square);
    return TERN_OK;
}

void tern_gather_rest(struct tern_gather *gather)
{
    struct tern_merge *merge = gather->merge;
    for (uint32_t i = 0; i < merge->deferred_count; i++) {
        struct tern_deferred *deferred = &merge->deferred[i];
        struct storing storing = {gather, deferred};
        if (!deferred->is_in &&
            tern_db_update_show(gather->db, gather->round.round, deferred->client, add_stored,
                                &storing) != TERN_OK) {
            tern_merge_stop(merge);
            return;
        }
    }
}
