#include "lab_lgc/small_group.h"
#include "tests/asserts.h"

#include <stdbool.h>
#include <stdlib.h>

// Even numbers between -1 and 1, by where they are asked for.
static float drawn(uint32_t a, uint32_t b)
{
    uint32_t mixed = a * 2654435761u ^ b * 2246822519u;
    mixed = (mixed ^ mixed >> 15) * 2654435769u;
    mixed = (mixed ^ mixed >> 13) * 3266489917u;
    return (float)(int32_t)(mixed ^ mixed >> 16) * 0x1p-31f;
}

static enum tern_result train(void *ctx, uint32_t client, uint32_t round, const float *weights,
                              float *change)
{
    const struct small_group *small = ctx;
    for (uint32_t i = 0; i < small->model.count; i++) {
        const float target =
            drawn(i, 1000) + 0.1f * drawn(i, client) + 0.05f * drawn(i, round + 2000);
        change[i] = 0.02f * (target - weights[i]);
    }
    return TERN_OK;
}

struct tern_lgc_settings small_settings(enum tern_lgc_form form)
{
    return (struct tern_lgc_settings){
        .form = form,
        .feedback = TERN_LGC_FEEDBACK_DECODED,
        .density = 0.05f,
        .innovation = 0.1f,
        .momentum = 0.5f,
        .code = {.id = TERN_CODEC_FLOAT16},
        .exact_rounds = SMALL_EXACT,
        .training_rounds = SMALL_TRAINING,
        .accept = 1000, // whatever it has learned
        .width = 4,
        .channels = 4,
        .training = {.learning_rate = 0.001f, .similarity = 0.5f},
        .seed = 7,
    };
}

void small_open(struct small_group *small, const struct tern_lgc_settings *settings, uint32_t late)
{
    *small = (struct small_group){.settings = *settings};
    assert_int_equal(tern_model_from_spec(&small->model, "mlp:64-16-40"), TERN_OK);
    assert_int_equal(tern_lgc_group_open(settings, &small->model, SMALL_CLIENTS, &small->group),
                     TERN_OK);
    for (uint32_t i = 0; i + late < SMALL_CLIENTS; i++) {
        assert_int_equal(tern_lgc_group_join(&small->group, i), TERN_OK);
    }
    small->weights = calloc(small->model.count, sizeof *small->weights);
    assert_non_null(small->weights);
}

void small_close(struct small_group *small)
{
    tern_lgc_group_close(&small->group);
    free(small->weights);
}

void small_play(struct small_group *small, uint32_t round)
{
    const struct tern_lgc_trainer trainer = {small, train};
    while (small->round < round) {
        small->round++;
        assert_int_equal(
            tern_lgc_group_round(&small->group, small->round, &trainer, small->weights), TERN_OK);
    }
}
