#include "merge/part.h"

#include "merge/strategy_rule.h"
#include <stdlib.h>
#include <string.h>

// --- Life

enum tern_result tern_part_round_of(struct tern_db *db, const struct tern_db_round *row,
                                    struct tern_part_round *round)
{
    struct tern_db_version version;
    TERN_TRY(tern_rule_read(row, &round->rule));
    TERN_TRY(tern_db_version_get(db, row->base_version, &version));
    round->round = row->round;
    round->base_version = row->base_version;
    memcpy(round->base, version.replica, TERN_SHA256_SIZE);
    return TERN_OK;
}

bool tern_part_suits(const struct tern_strategy_rule *rule)
{
    return tern_strategy_divides(rule->strategy);
}

enum tern_result tern_part_begin(struct tern_part *part, const struct tern_model *model,
                                 const struct tern_part_round *round, uint64_t memory)
{
    tern_part_clear(part);
    if (!tern_part_suits(&round->rule)) {
        return TERN_ERR_STATE;
    }
    part->round = *round;
    tern_exact_mean_begin(&part->mean, model, &round->rule, memory, 0, model->count);
    return TERN_OK;
}

void tern_part_clear(struct tern_part *part)
{
    tern_exact_mean_clear(&part->mean);
    free(part->updates);
    memset(part, 0, sizeof *part);
}

// --- Adding

static enum tern_result note_update(struct tern_part *part, const struct tern_arrival *arrival)
{
    if (part->count == part->room) {
        const uint32_t room = part->room == 0 ? 16 : 2 * part->room;
        struct tern_part_update *updates = realloc(part->updates, room * sizeof updates[0]);
        if (updates == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        part->updates = updates;
        part->room = room;
    }
    struct tern_part_update *update = &part->updates[part->count++];
    *update = (struct tern_part_update){.client = arrival->client,
                                        .num_examples = arrival->contribution.num_examples,
                                        .local_steps = arrival->contribution.local_steps,
                                        .sum_square = arrival->sum_square};
    memcpy(update->sha256, arrival->sha256, TERN_SHA256_SIZE);
    return TERN_OK;
}

static enum tern_result add(struct tern_part *part, const struct tern_arrival *arrival)
{
    if (part->count == TERN_EXACT_TERMS_MAX) {
        return TERN_ERR_TOO_LARGE;
    }
    TERN_TRY(note_update(part, arrival));
    return tern_exact_mean_arrive(&part->mean, arrival);
}

enum tern_result tern_part_add(struct tern_part *part, const struct tern_arrival *arrival,
                               size_t body_len)
{
    if (part->round.round == 0 || arrival->round != part->round.round ||
        arrival->contribution.staleness != 0) {
        return TERN_ERR_STATE;
    }
    const enum tern_result result = add(part, arrival);
    part->replaced += body_len;
    if (result != TERN_OK) {
        tern_part_clear(part);
    }
    return result;
}
