// What strategies carry from round to round, and the averaged model.
#include "merge/merge_states.h"

#include <string.h>

static enum tern_result make_states(struct tern_merge *merge, const struct tern_strategy *strategy)
{
    for (size_t i = 0; i < TERN_STRATEGY_STATES; i++) {
        if (strategy->states[i].name == NULL || merge->states[i] != NULL) {
            continue;
        }
        merge->states[i] = tern_vector_new(&merge->vectors);
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

static enum tern_result make_average(struct tern_merge *merge)
{
    if (merge->average == NULL) {
        merge->average = tern_vector_new(&merge->vectors);
    }
    return merge->average != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}

enum tern_result tern_merge_take_average(struct tern_merge *merge, uint32_t averaged)
{
    if (averaged > merge->averaged + 1) {
        return TERN_ERR_CORRUPT;
    }
    merge->averaged = averaged;
    if (averaged == 0) {
        return TERN_OK;
    }
    TERN_TRY(make_average(merge));
    if (averaged == 1) { // what is left of an earlier one does not count
        memcpy(merge->average, merge->global, merge->model.count * sizeof(float));
        return TERN_OK;
    }
    for (uint32_t i = 0; i < merge->model.count; i++) {
        merge->average[i] += (merge->global[i] - merge->average[i]) / (float)averaged;
    }
    return TERN_OK;
}

// --- With the newest version in the store

struct carried {
    const char *name;
    float *values;
};

#define AVERAGE "average" // the name it is stored under, which no strategy's state has
#define CARRIED_MAX (TERN_STRATEGY_STATES + 1)

// Returns how many there are.
static size_t list_carried(const struct tern_merge *merge, struct carried list[CARRIED_MAX])
{
    const struct tern_strategy *strategy = merge->state_of;
    size_t count = 0;
    for (size_t i = 0; strategy != NULL && i < TERN_STRATEGY_STATES; i++) {
        if (strategy->states[i].name != NULL) {
            list[count++] = (struct carried){strategy->states[i].name, merge->states[i]};
        }
    }
    if (merge->averaged > 0) {
        list[count++] = (struct carried){AVERAGE, merge->average};
    }
    return count;
}

// Makes what the round that made the version left. The states of a strategy that is not known here are
// of no use.
static enum tern_result make_carried(struct tern_merge *merge, struct tern_db *db,
                                     const struct tern_db_version *version)
{
    struct tern_db_round round;
    merge->state_of = NULL;
    merge->averaged = 0;
    if (version->round == 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_round_get(db, version->round, &round));
    const struct tern_strategy *strategy = tern_strategy_find(round.strategy);
    TERN_TRY(strategy != NULL ? make_states(merge, strategy) : TERN_OK);
    TERN_TRY(round.averaged > 0 ? make_average(merge) : TERN_OK);
    merge->state_of = strategy;
    merge->averaged = round.averaged;
    return TERN_OK;
}

enum tern_result tern_merge_load_states(struct tern_merge *merge, struct tern_db *db,
                                        const struct tern_db_version *version)
{
    struct carried list[CARRIED_MAX];
    TERN_TRY(make_carried(merge, db, version));
    size_t count = list_carried(merge, list);
    for (size_t i = 0; i < count; i++) {
        enum tern_result found =
            tern_db_state_get(db, list[i].name, merge->version, list[i].values, merge->model.count);
        if (found != TERN_OK) {
            merge->state_of = NULL;
            merge->averaged = 0;
            return found == TERN_ERR_NOT_FOUND ? TERN_ERR_CORRUPT : found;
        }
    }
    return TERN_OK;
}

uint32_t tern_merge_state_count(const struct tern_merge *merge)
{
    struct carried list[CARRIED_MAX];
    return (uint32_t)list_carried(merge, list);
}

enum tern_result tern_merge_put_state(const struct tern_merge *merge, struct tern_db *db,
                                      uint32_t state, uint32_t part)
{
    struct carried list[CARRIED_MAX];
    list_carried(merge, list);
    return tern_db_state_put_part(db, list[state].name, merge->version, list[state].values,
                                  merge->model.count, part);
}

enum tern_result tern_merge_check_states(struct tern_merge *merge, struct tern_db *db)
{
    struct carried list[CARRIED_MAX];
    size_t count = list_carried(merge, list);
    size_t size = merge->model.count * sizeof(float);
    for (size_t i = 0; i < count; i++) {
        enum tern_result found =
            tern_db_state_get(db, list[i].name, merge->version, merge->acc, merge->model.count);
        if (found == TERN_ERR_NOT_FOUND ||
            (found == TERN_OK && memcmp(merge->acc, list[i].values, size) != 0)) {
            return TERN_ERR_CORRUPT;
        }
        TERN_TRY(found);
    }
    return TERN_OK;
}

void tern_merge_free_states(struct tern_merge *merge)
{
    for (size_t i = 0; i < TERN_STRATEGY_STATES; i++) {
        tern_vector_free(&merge->vectors, merge->states[i]);
    }
    tern_vector_free(&merge->vectors, merge->average);
}
