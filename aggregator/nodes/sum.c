#include "nodes/sum.h"

#include "hosted/log.h"
#include "merge/merge.h"
#include "merge/part.h"
#include "nodes/follower.h"
#include "store/nodes.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void tern_node_sum_init(struct tern_node_sum *sum, const struct tern_federation *federation,
                        uint64_t memory)
{
    sum->model = tern_federation_model(federation);
    sum->memory = memory != 0 ? memory : TERN_MERGE_MEMORY;
}

void tern_node_sum_clear(struct tern_node_sum *sum)
{
    tern_part_clear(&sum->part);
}

static enum tern_result begin(struct tern_node_sum *sum, struct tern_db *db, uint32_t round)
{
    struct tern_db_round row;
    struct tern_part_round of;
    TERN_TRY(tern_db_round_get(db, round, &row));
    TERN_TRY(row.state == TERN_ROUND_OPEN ? TERN_OK : TERN_ERR_STATE); // answered after its close
    TERN_TRY(tern_part_round_of(db, &row, &of));
    return tern_part_begin(&sum->part, sum->model, &of, sum->memory);
}

static enum tern_result add(struct tern_node_sum *sum, struct tern_db *db,
                            const struct tern_incoming *update)
{
    struct tern_arrival arrival = {.client = update->client,
                                   .round = update->round,
                                   .contribution = tern_contribution_of(&update->message),
                                   .container = update->container,
                                   .reading = update->reading,
                                   .sum_square = update->sum_square};
    memcpy(arrival.sha256, update->sha256, TERN_SHA256_SIZE);
    if (sum->part.round.round != update->round) {
        TERN_TRY(begin(sum, db, update->round));
    }
    return tern_part_add(&sum->part, &arrival, update->body.len);
}

void tern_node_sum_add(struct tern_node_sum *sum, struct tern_db *db,
                       const struct tern_incoming *update)
{
    if (update->round == sum->refused) {
        return;
    }
    const enum tern_result result = add(sum, db, update);
    if (result != TERN_OK) {
        sum->refused = update->round;
    }
    if (result != TERN_OK && result != TERN_ERR_STATE) {
        tern_log(TERN_LOG_WARN, "part-failed", "round=%" PRIu32 " error=%s", update->round,
                 tern_result_name(result));
    }
}

static enum tern_result tell(struct tern_db *db, uint32_t node, uint32_t round)
{
    char message[64];
    snprintf(message, sizeof message, TERN_NOTICE_SUMMED "%" PRIu32 " %" PRIu32, round, node);
    TERN_TRY(tern_db_begin_apart(db, false));
    return tern_db_conclude(db, tern_db_notify(db, message));
}

void tern_node_sum_deliver(struct tern_node_sum *sum, struct tern_db *db, uint32_t node,
                           uint32_t round)
{
    char name[TERN_DB_NODE_MAX];
    const uint32_t updates = sum->part.count;
    bool delivered = false;
    enum tern_result result = TERN_OK;
    snprintf(name, sizeof name, "%" PRIx32, node);
    if (sum->part.round.round == round) {
        result = tern_part_deliver(&sum->part, db, name, &delivered);
        tern_part_clear(&sum->part);
    }
    if (result == TERN_OK) {
        result = tell(db, node, round);
    }
    if (result != TERN_OK) { // the leader waits a moment longer, and reads the updates
        tern_log(TERN_LOG_WARN, "part-failed", "round=%" PRIu32 " error=%s detail=%s", round,
                 tern_result_name(result), TERN_LOG_TEXT(tern_db_error(db)));
    } else if (delivered) {
        tern_log(TERN_LOG_INFO, "part-delivered", "round=%" PRIu32 " node=%s updates=%" PRIu32,
                 round, name, updates);
    }
}
