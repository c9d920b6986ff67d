#include "fleet/personal.h"

#include "fleet/scores.h"
#include "trainer/trainer.h"
#include <math.h>
#include <stdlib.h>

struct bench {
    const struct tern_shares *shares;
    struct tern_builtin_trainer trainer;
    uint16_t *answers; // of the model to each test example
};

static enum tern_result measure(struct bench *bench, const struct tern_member *member,
                                uint32_t index, double *accuracy)
{
    struct tern_scores scores;
    const struct tern_client *client = &member->client;
    *accuracy = NAN;
    if (!tern_client_is_personal(client)) {
        return TERN_OK;
    }
    TERN_TRY(tern_builtin_trainer_answer(&bench->trainer, tern_client_weights(client),
                                         client->work.model->count, bench->answers));
    TERN_TRY(tern_scores_make(bench->shares, bench->answers, &scores));
    *accuracy = scores.client_accuracy[index];
    tern_scores_clear(&scores);
    return TERN_OK;
}

static enum tern_result measure_all(struct bench *bench, const struct tern_member *members,
                                    uint32_t count, double *accuracy)
{
    for (uint32_t i = 0; i < count; i++) {
        TERN_TRY(measure(bench, &members[i], i, &accuracy[i]));
    }
    return TERN_OK;
}

enum tern_result tern_personal_measure(const struct tern_member *members, uint32_t count,
                                       const struct tern_shares *shares,
                                       const struct tern_model *model, double *accuracy)
{
    static struct bench bench;
    const struct tern_builtin_config config = {.model = model,
                                               .train = {.dataset = &shares->data.train},
                                               .test = tern_view_all(&shares->data.test),
                                               .max_batch = TERN_POOL_BATCH};
    const size_t size = tern_builtin_trainer_bound(&config);
    void *arena = malloc(size > 0 ? size : 1);
    bench.shares = shares;
    bench.answers = malloc((shares->data.test.count + 1) * sizeof *bench.answers);
    enum tern_result result = arena != NULL && bench.answers != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
    if (result == TERN_OK) {
        result = tern_builtin_trainer_init(&bench.trainer, &config, arena, size);
    }
    if (result == TERN_OK) {
        result = measure_all(&bench, members, count, accuracy);
    }
    free(arena);
    free(bench.answers);
    return result;
}
