#include "merge/stored_mean.h"

#include <stdlib.h>

enum tern_result tern_stored_read(const struct tern_db_update *update,
                                  struct tern_contribution *contribution,
                                  struct tern_span *container)
{
    tern_Update message;
    if (update->body == NULL) {
        return TERN_ERR_NOT_FOUND;
    }
    TERN_TRY(tern_wire_decode_update(update->body, update->body_len, &message, container));
    *contribution = tern_contribution_of(&message);
    return TERN_OK;
}

// The key of a stored update, its group and its weight.
struct place {
    struct tern_exact_key key;
    uint32_t round;
    uint64_t client;
    double weight; // weight of a bounded update; below 0: its examples are the weight
};

struct summing {
    struct tern_exact_mean mean;
    const struct tern_model *model;
    struct tern_db *db;
    const struct tern_db_round *round;
    const struct tern_strategy_totals *totals;
    uint64_t memory;
    struct tern_update_bounds *bounds;
    struct place *places; // in ascending order of their keys, once all are noted
    uint32_t placed;
};

// Sets the number of versions made since the base version of the update's round; 0 for an update of this round.
static enum tern_result staleness_of(struct tern_db *db, const struct tern_db_round *round,
                                     const struct tern_db_update *update, uint32_t *staleness)
{
    struct tern_db_round own;
    *staleness = 0;
    if (update->merged == 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_round_get(db, update->round, &own));
    if (own.base_version > round->base_version) {
        return TERN_ERR_CORRUPT;
    }
    *staleness = round->base_version - own.base_version;
    return TERN_OK;
}

static enum tern_result add_update(struct summing *summing, const struct tern_db_update *update,
                                   struct tern_codec_info *info)
{
    struct tern_contribution contribution;
    struct tern_span container;
    TERN_TRY(tern_stored_read(update, &contribution, &container));
    TERN_TRY(staleness_of(summing->db, summing->round, update, &contribution.staleness));
    return tern_exact_mean_add(&summing->mean, &contribution, container.data, container.len, NULL,
                               info);
}

// --- Bounded updates

struct reweighing {
    struct tern_exact_mean *mean;
    struct tern_db *db;
    const struct tern_db_round *round;
    double weight;
};

static enum tern_result reweigh_update(void *ctx, const struct tern_db_update *update)
{
    const struct reweighing *reweighing = ctx;
    struct tern_contribution contribution;
    struct tern_span container;
    TERN_TRY(tern_stored_read(update, &contribution, &container));
    TERN_TRY(staleness_of(reweighing->db, reweighing->round, update, &contribution.staleness));
    return tern_exact_mean_reweigh(reweighing->mean, &contribution, container.data, container.len,
                                   reweighing->weight);
}

enum tern_result tern_stored_reweigh(struct tern_exact_mean *mean, struct tern_db *db,
                                     const struct tern_db_round *round,
                                     const struct tern_update_bounds *bounds)
{
    for (uint32_t i = 0; i < bounds->count; i++) {
        const struct tern_update_bound *bound = &bounds->list[i];
        struct reweighing reweighing = {mean, db, round, bound->weight};
        if (tern_update_is_bounded(bound) &&
            !tern_exact_mean_reweigh_held(mean, bound->client, bound->round, bound->weight)) {
            TERN_TRY(
                tern_db_update_show(db, bound->round, bound->client, reweigh_update, &reweighing));
        }
    }
    return TERN_OK;
}

static void begin(struct summing *summing, uint32_t first, uint32_t end)
{
    tern_exact_mean_begin(&summing->mean, summing->model, &summing->totals->rule, summing->memory,
                          first, end);
}

static enum tern_result take(struct summing *summing, float *acc)
{
    const uint32_t updates = summing->mean.updates;
    if (updates == 0 || updates != summing->totals->updates) {
        return TERN_ERR_STATE;
    }
    tern_exact_mean_take(&summing->mean, summing->totals, acc);
    return TERN_OK;
}

// --- All groups at once, in the order of the store

static enum tern_result add_and_note(void *ctx, const struct tern_db_update *update)
{
    struct summing *summing = ctx;
    struct tern_codec_info info;
    struct tern_contribution contribution;
    struct tern_span container;
    if (!tern_update_bounds_matter(&summing->totals->rule)) {
        return add_update(summing, update, NULL);
    }
    TERN_TRY(tern_stored_read(update, &contribution, &container));
    TERN_TRY(add_update(summing, update, &info));
    return tern_update_bounds_add(summing->bounds, update->client, update->round, &contribution,
                                  info.sum_square);
}

static enum tern_result mean_at_once(struct summing *summing, float *acc)
{
    begin(summing, 0, summing->model->count);
    summing->mean.lent_scratch = acc; // until take() writes the mean there
    TERN_TRY(tern_db_update_each(summing->db, summing->round->round, add_and_note, summing));
    TERN_TRY(tern_update_bounds_set(summing->bounds, summing->totals));
    TERN_TRY(tern_stored_reweigh(&summing->mean, summing->db, summing->round, summing->bounds));
    return take(summing, acc);
}

// --- One group after the other

static enum tern_result add_shown(void *ctx, const struct tern_db_update *update)
{
    return add_update(ctx, update, NULL);
}

static enum tern_result note_place(void *ctx, const struct tern_db_update *update)
{
    struct summing *summing = ctx;
    struct tern_contribution contribution;
    struct tern_span container;
    TERN_TRY(tern_stored_read(update, &contribution, &container));
    TERN_TRY(staleness_of(summing->db, summing->round, update, &contribution.staleness));
    if (summing->placed == summing->totals->updates) {
        return TERN_ERR_STATE;
    }
    summing->places[summing->placed++] =
        (struct place){.key = tern_exact_key_of(&summing->totals->rule, &contribution),
                       .round = update->round,
                       .client = update->client,
                       .weight = -1.0};
    if (!tern_update_bounds_matter(&summing->totals->rule)) {
        return TERN_OK;
    }
    struct tern_codec_info info = {.sum_square = -1.0};
    if (tern_update_bounds_need_norms(&summing->totals->rule)) {
        TERN_TRY(tern_container_inspect(summing->model, container.data, container.len, &info));
    }
    return tern_update_bounds_add(summing->bounds, update->client, update->round, &contribution,
                                  info.sum_square);
}

static int compare_places(const void *a, const void *b)
{
    const struct place *one = a;
    const struct place *other = b;
    return tern_exact_key_compare(&one->key, &other->key);
}

static enum tern_result note_places(struct summing *summing)
{
    summing->places = calloc(summing->totals->updates, sizeof *summing->places);
    if (summing->places == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(tern_db_update_each(summing->db, summing->round->round, note_place, summing));
    if (summing->placed != summing->totals->updates) {
        return TERN_ERR_STATE;
    }
    TERN_TRY(tern_update_bounds_set(summing->bounds, summing->totals));
    for (uint32_t i = 0; i < summing->bounds->count; i++) { // in the order of the places
        const struct tern_update_bound *bound = &summing->bounds->list[i];
        summing->places[i].weight = tern_update_is_bounded(bound) ? bound->weight : -1.0;
    }
    qsort(summing->places, summing->placed, sizeof *summing->places, compare_places);
    return TERN_OK;
}

// Adds a stored update, with its bounded weight, within the window.
static enum tern_result add_place(struct summing *summing, const struct place *place)
{
    struct reweighing reweighing = {&summing->mean, summing->db, summing->round, place->weight};
    TERN_TRY(tern_db_update_show(summing->db, place->round, place->client, add_shown, summing));
    return place->weight >= 0.0 ? tern_db_update_show(summing->db, place->round, place->client,
                                                      reweigh_update, &reweighing)
                                : TERN_OK;
}

static enum tern_result mean_of_window(struct summing *summing, uint32_t first, uint32_t end,
                                       float *acc)
{
    begin(summing, first, end);
    for (uint32_t i = 0; i < summing->placed; i++) {
        const struct place *place = &summing->places[i];
        if (i > 0 && tern_exact_key_compare(&place[-1].key, &place->key) != 0) {
            TERN_TRY(tern_exact_mean_fold(&summing->mean, summing->totals));
        }
        TERN_TRY(add_place(summing, place));
    }
    return take(summing, acc);
}

// Returns the end of a window of at most `width` coordinates: the end of a segment, so that no segment is read twice,
// unless the first one is longer.
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

// Computes the mean window after window, each as wide as the sums of one group allow.
static enum tern_result mean_by_groups(struct summing *summing, float *acc)
{
    const uint32_t count = summing->model->count;
    uint32_t width = count;
    TERN_TRY(note_places(summing));
    for (uint32_t first = 0; first < count;) {
        const uint32_t end = end_of_window(summing->model, first, width);
        const enum tern_result result = mean_of_window(summing, first, end, acc);
        if (result == TERN_OK) {
            first = end;
        } else if (result == TERN_ERR_NO_SPACE) {
            width = (end - first) / 2; // one coordinate always has room
        } else {
            return result;
        }
    }
    return TERN_OK;
}

enum tern_result tern_stored_mean(const struct tern_model *model, struct tern_db *db,
                                  const struct tern_db_round *round,
                                  const struct tern_strategy_totals *totals, uint64_t memory,
                                  struct tern_update_bounds *bounds, float *acc)
{
    struct summing summing = {.model = model,
                              .db = db,
                              .round = round,
                              .totals = totals,
                              .memory = memory,
                              .bounds = bounds};
    tern_update_bounds_clear(bounds);
    enum tern_result result = mean_at_once(&summing, acc);
    if (result == TERN_ERR_NO_SPACE) {
        tern_update_bounds_clear(bounds);
        result = mean_by_groups(&summing, acc);
    }
    tern_exact_mean_clear(&summing.mean);
    free(summing.places);
    return result;
}
