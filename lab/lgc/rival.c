#include "lgc/rival.h"

#include "error_feedback/error_buffer.h"
#include <stdlib.h>
#include <string.h>

enum tern_result tern_lgc_rival_open(const struct tern_codec *codec, uint64_t seed,
                                     const struct tern_model *model, uint32_t clients,
                                     struct tern_lgc_rival *rival)
{
    const size_t bound = tern_container_bound(codec, model);
    const size_t any = tern_container_bound_any(model);
    *rival = (struct tern_lgc_rival){.model = model,
                                     .codec = *codec,
                                     .seed = seed,
                                     .client_count = clients,
                                     .size = bound > any ? bound : any};
    rival->state = calloc(2 * (size_t)clients * model->count, sizeof(float));
    rival->work = calloc(model->count, sizeof(float));
    rival->update = calloc(model->count, sizeof(float));
    rival->bytes = malloc(rival->size);
    if (rival->state == NULL || rival->work == NULL || rival->update == NULL ||
        rival->bytes == NULL) {
        tern_lgc_rival_close(rival);
        return TERN_ERR_NO_MEMORY;
    }
    return TERN_OK;
}

void tern_lgc_rival_close(struct tern_lgc_rival *rival)
{
    free(rival->state);
    free(rival->work);
    free(rival->update);
    free(rival->bytes);
    rival->state = NULL;
}

// Encodes a client's change into its update.
static enum tern_result upload(struct tern_lgc_rival *rival, uint32_t client, uint32_t round,
                               size_t *len)
{
    const uint32_t count = rival->model->count;
    float *error = rival->state + 2 * (size_t)client * count;
    float *velocity = error + count;
    const enum tern_feedback feedback = tern_codec_entry(rival->codec.id)->feedback;
    struct tern_error_buffer buffer = {TERN_ERROR_FLOAT32, error, count};
    const struct tern_encode_context context = {
        .seed = rival->seed, .round = round, .client = client, .velocity = velocity};
    if (feedback == TERN_FEEDBACK_MOMENTUM) {
        TERN_TRY(tern_error_momentum(velocity, rival->codec.momentum, rival->work, count));
    }
    if (feedback != TERN_FEEDBACK_NONE) {
        TERN_TRY(tern_error_buffer_add_to(&buffer, 1, rival->work));
    }
    TERN_TRY(tern_container_encode(&rival->codec, &context, rival->model, rival->work, rival->bytes,
                                   rival->size, len));
    const struct tern_error_next next = {
        rival->work, feedback == TERN_FEEDBACK_FILTERED ? rival->codec.filter : 1, 1};
    if (feedback != TERN_FEEDBACK_NONE) {
        tern_error_buffer_store(&buffer, &next);
    }
    return TERN_OK;
}

static enum tern_result count_down(struct tern_lgc_rival *rival)
{
    static const struct tern_codec codecs[] = {{.id = TERN_CODEC_FLOAT32},
                                               {.id = TERN_CODEC_SPARSE, .density = 1}};
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
        size_t len = 0;
        memcpy(rival->work, rival->update, rival->model->count * sizeof(float));
        TERN_TRY(tern_container_encode(&codecs[i], NULL, rival->model, rival->work, rival->bytes,
                                       rival->size, &len));
        least = len < least ? len : least;
    }
    rival->down += least * (uint64_t)rival->client_count;
    return TERN_OK;
}

enum tern_result tern_lgc_rival_round(struct tern_lgc_rival *rival, uint32_t round,
                                      const struct tern_lgc_trainer *trainer, float *weights)
{
    const uint32_t count = rival->model->count;
    const float share = 1.0f / (float)rival->client_count;
    memset(rival->update, 0, count * sizeof(float));
    for (uint32_t i = 0; i < rival->client_count; i++) {
        size_t len = 0;
        TERN_TRY(trainer->train(trainer->ctx, i, round, weights, rival->work));
        TERN_TRY(upload(rival, i, round, &len));
        TERN_TRY(tern_container_add(rival->model, rival->bytes, len, share, rival->update));
        rival->up += len;
    }
    for (uint32_t i = 0; i < count; i++) {
        weights[i] += rival->update[i];
    }
    return count_down(rival);
}
