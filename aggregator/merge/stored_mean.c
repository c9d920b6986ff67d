#include "merge/stored_mean.h"

enum tern_result tern_stored_read(const struct tern_db_update *update,
                                  struct tern_contribution *contribution,
                                  struct tern_span *container)
{
    tern_Update message;
    if (update->body == NULL) {
        return TERN_ERR_NOT_FOUND;
    }
    TERN_TRY(tern_wire_decode_update(update->body, update->body_len, &message, container));
    *contribution = (struct tern_contribution){.num_examples = message.num_examples,
                                               .local_steps = message.local_steps,
                                               .loss = message.loss};
    return TERN_OK;
}

struct summing {
    struct tern_exact_mean mean;
    struct tern_db *db;
    const struct tern_db_round *round;
};

// Versions made since the one that the update's round began from. Members of the round itself began
// from its own.
static enum tern_result staleness_of(const struct summing *summing,
                                     const struct tern_db_update *update, uint32_t *staleness)
{
    struct tern_db_round own;
    *staleness = 0;
    if (update->merged == 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_round_get(summing->db, update->round, &own));
    if (own.base_version > summing->round->base_version) {
        return TERN_ERR_CORRUPT;
    }
    *staleness = summing->round->base_version - own.base_version;
    return TERN_OK;
}

static enum tern_result add_update(void *ctx, const struct tern_db_update *update)
{
    struct summing *summing = ctx;
    struct tern_contribution contribution;
    struct tern_span container;
    TERN_TRY(tern_stored_read(update, &contribution, &container));
    TERN_TRY(staleness_of(summing, update, &contribution.staleness));
    return tern_exact_mean_add(&summing->mean, &contribution, container.data, container.len, NULL);
}

// The end of a window of `width` coordinates at most: where a segment ends, so that none is read
// twice, unless it is longer than that.
static uint32_t end_of_window(const struct tern_model *model, uint32_t first, uint32_t width)
{
    const uint32_t most = model->count - first < width ? model->count : first + width;
    uint32_t end = first;
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const uint32_t past = model->segments[i].offset + model->segments[i].count;
        end = past > end && past <= most ? past : end;
    }
    return end > first ? end : most;
}

static enum tern_result mean_of_window(struct summing *summing, const struct tern_model *model,
                                       const struct tern_strategy_totals *totals, uint64_t memory,
                                       uint32_t first, uint32_t end, float *acc)
{
    tern_exact_mean_begin(&summing->mean, model, &totals->rule, memory, first, end);
    TERN_TRY(tern_db_update_each(summing->db, summing->round->round, add_update, summing));
    if (summing->mean.updates == 0 || summing->mean.updates != totals->updates) {
        return TERN_ERR_STATE;
    }
    tern_exact_mean_take(&summing->mean, totals, acc);
    return TERN_OK;
}

enum tern_result tern_stored_mean(const struct tern_model *model, struct tern_db *db,
                                  const struct tern_db_round *round,
                                  const struct tern_strategy_totals *totals, uint64_t memory,
                                  float *acc)
{
    struct summing summing = {.db = db, .round = round};
    enum tern_result result = TERN_OK;
    uint32_t width = model->count;
    for (uint32_t first = 0; first < model->count && result == TERN_OK;) {
        const uint32_t end = end_of_window(model, first, width);
        result = mean_of_window(&summing, model, totals, memory, first, end, acc);
        if (result == TERN_OK) {
            first = end;
        } else if (result == TERN_ERR_NO_SPACE) {
            width = (end - first) / 2; // of one coordinate there is always room
            result = TERN_OK;
        }
    }
    tern_exact_mean_clear(&summing.mean);
    return result;
}
