// What strategies carry from round to round.
#include "merge/merge_states.h"

#include <stdlib.h>
#include <string.h>

static enum tern_result make_states(struct tern_merge *merge, const struct tern_strategy *strategy)
{
    for (size_t i = 0; i < TERN_STRATEGY_STATES; i++) {
        if (strategy->states[i].name == NULL || merge->states[i] != NULL) {
            continue;
        }
        merge->states[i] = calloc(merge->model.count, sizeof(float));
        if (merge->states[i] == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
    }
    return TERN_OK;
}

// Another strategy's states mean nothing to this one, so it starts from its own beginning.
enum tern_result tern_merge_take_states(struct tern_merge *merge,
                                        const struct tern_strategy_rule *rule)
{
    if (merge->state_of == rule->strategy) {
        return TERN_OK;
    }
    TERN_TRY(make_states(merge, rule->strategy));
    for (size_t i = 0; i < TERN_STRATEGY_STATES; i++) {
        if (rule->strategy->states[i].name != NULL) {
            tern_strategy_start_state(rule, i, merge->states[i], merge->model.count);
        }
    }
    merge->state_of = rule->strategy;
    return TERN_OK;
}

// The strategy of the round that made the newest version; NULL = nobody, or one that is not known
// here, whose states are of no use.
static enum tern_result strategy_of(struct tern_db *db, const struct tern_db_version *version,
                                    const struct tern_strategy **strategy)
{
    struct tern_db_round round;
    *strategy = NULL;
    if (version->round != 0) {
        TERN_TRY(tern_db_round_get(db, version->round, &round));
        *strategy = tern_strategy_find(round.strategy);
    }
    return TERN_OK;
}

enum tern_result tern_merge_load_states(struct tern_merge *merge, struct tern_db *db,
                                        const struct tern_db_version *version)
{
    const struct tern_strategy *strategy;
    TERN_TRY(strategy_of(db, version, &strategy));
    merge->state_of = NULL;
    if (strategy == NULL) {
        return TERN_OK;
    }
    TERN_TRY(make_states(merge, strategy));
    for (size_t i = 0; i < TERN_STRATEGY_STATES; i++) {
        const char *name = strategy->states[i].name;
        enum tern_result found = TERN_OK;
        if (name != NULL) {
            found =
                tern_db_state_get(db, name, merge->version, merge->states[i], merge->model.count);
        }
        if (found != TERN_OK) {
            return found == TERN_ERR_NOT_FOUND ? TERN_ERR_CORRUPT : found;
        }
    }
    merge->state_of = strategy;
    return TERN_OK;
}

enum tern_result tern_merge_store_states(const struct tern_merge *merge, struct tern_db *db)
{
    const struct tern_strategy *strategy = merge->state_of;
    for (size_t i = 0; strategy != NULL && i < TERN_STRATEGY_STATES; i++) {
        const char *name = strategy->states[i].name;
        if (name != NULL) {
            TERN_TRY(
                tern_db_state_put(db, name, merge->version, merge->states[i], merge->model.count));
        }
    }
    return tern_db_state_keep(db, merge->version);
}

enum tern_result tern_merge_check_states(struct tern_merge *merge, struct tern_db *db)
{
    const struct tern_strategy *strategy = merge->state_of;
    size_t size = merge->model.count * sizeof(float);
    for (size_t i = 0; strategy != NULL && i < TERN_STRATEGY_STATES; i++) {
        const char *name = strategy->states[i].name;
        if (name == NULL) {
            continue;
        }
        enum tern_result found =
            tern_db_state_get(db, name, merge->version, merge->acc, merge->model.count);
        if (found == TERN_ERR_NOT_FOUND ||
            (found == TERN_OK && memcmp(merge->acc, merge->states[i], size) != 0)) {
            return TERN_ERR_CORRUPT;
        }
        TERN_TRY(found);
    }
    return TERN_OK;
}

void tern_merge_free_states(struct tern_merge *merge)
{
    for (size_t i = 0; i < TERN_STRATEGY_STATES; i++) {
        free(merge->states[i]);
    }
}
