#include "fleet/client_figures.h"

#include "fleet/pool.h"
#include "trainer/trainer.h"
#include <stdlib.h>
#include <string.h>

void tern_client_figures_clear(struct tern_client_figures *figures)
{
    free(figures->of);
    memset(figures, 0, sizeof *figures);
}

static enum tern_result evaluate(const struct tern_shares *shares, uint32_t client,
                                 const struct tern_model *model, const float *weights,
                                 const struct tern_view *test, struct tern_evaluate_result *found)
{
    static struct tern_builtin_trainer trainer;
    const struct tern_builtin_config config = {.model = model,
                                               .train = tern_shares_of(shares, client),
                                               .test = *test,
                                               .max_batch = TERN_POOL_BATCH};
    const size_t size = tern_builtin_trainer_bound(&config);
    void *arena = size > 0 ? malloc(size) : NULL;
    if (size > 0 && arena == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = tern_builtin_trainer_init(&trainer, &config, arena, size);
    if (result == TERN_OK) {
        const struct tern_trainer port = tern_builtin_trainer_port(&trainer);
        result = port.evaluate(port.ctx, weights, model->count, found);
    }
    free(arena);
    return result;
}

// owners: of each group; indices: room for all test examples.
static enum tern_result make(const struct tern_shares *shares, const struct tern_model *model,
                             const float *weights, const uint32_t *owners, uint32_t *indices,
                             struct tern_client_figures *figures)
{
    const struct tern_dataset *test = &shares->data.test;
    for (uint32_t c = 0; c < figures->clients; c++) {
        struct tern_view own = {.dataset = test, .indices = indices};
        for (uint32_t i = 0; i < test->count; i++) {
            if (owners[test->groups[i]] == c) {
                indices[own.count++] = i;
            }
        }
        if (own.count > 0) {
            TERN_TRY(evaluate(shares, c, model, weights, &own, &figures->of[c]));
        }
    }
    return TERN_OK;
}

enum tern_result tern_client_figures_make(const struct tern_shares *shares,
                                          const struct tern_model *model, const float *weights,
                                          struct tern_client_figures *figures)
{
    const struct tern_dataset *test = &shares->data.test;
    *figures = (struct tern_client_figures){.clients = 0};
    if (shares->kind != TERN_PARTITION_NATURAL || test->groups == NULL) {
        return TERN_OK;
    }
    uint32_t *owners = calloc(shares->data.train.group_count, sizeof *owners);
    uint32_t *indices = calloc(test->count, sizeof *indices);
    figures->clients = shares->partition.client_count;
    figures->of = calloc(figures->clients, sizeof *figures->of);
    enum tern_result result =
        owners != NULL && indices != NULL && figures->of != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
    if (result == TERN_OK) {
        tern_shares_owners(shares, owners);
        result = make(shares, model, weights, owners, indices, figures);
    }
    free(owners);
    free(indices);
    if (result != TERN_OK) {
        tern_client_figures_clear(figures);
    }
    return result;
}

static cJSON *json_of(const struct tern_evaluate_result *of, const char *name)
{
    if (of->num_examples > 0 && name == NULL) {
        return cJSON_CreateNumber((double)of->loss);
    }
    for (uint32_t i = 0; of->num_examples > 0 && i < of->metric_count; i++) {
        if (strcmp(of->metrics[i].name, name) == 0) {
            return cJSON_CreateNumber((double)of->metrics[i].value);
        }
    }
    return cJSON_CreateNull();
}

cJSON *tern_client_figures_json(const struct tern_client_figures *figures, const char *name)
{
    cJSON *list = cJSON_CreateArray();
    for (uint32_t c = 0; c < figures->clients; c++) {
        cJSON_AddItemToArray(list, json_of(&figures->of[c], name));
    }
    return list;
}
