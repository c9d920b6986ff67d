#include "fleet/replicas.h"
#include "fleet/figure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct survey {
    const struct tern_member *members;
    uint32_t count;
    uint32_t most; // the first so many are measured
    double *figure;
    pthread_mutex_t mutex;
    uint32_t newest; // version held by a member
    uint32_t next;
    enum tern_result result;
};

// The first member that holds the same replica: it is measured for all of them.
static uint32_t first_with(const struct survey *survey, uint32_t member)
{
    const uint8_t *wanted = tern_client_replica(&survey->members[member].client);
    if (tern_client_is_personal(&survey->members[member].client)) {
        return member; // with local tensors of its own
    }
    uint32_t i = 0;
    while (memcmp(tern_client_replica(&survey->members[i].client), wanted, TERN_SHA256_SIZE) != 0) {
        i++;
    }
    return i;
}

static bool is_passed_over(const struct survey *survey, uint32_t member)
{
    const uint32_t version = tern_client_version(&survey->members[member].client);
    return member >= survey->most || version < survey->newest - survey->newest / 10;
}

static bool take(struct survey *survey, uint32_t *member)
{
    pthread_mutex_lock(&survey->mutex);
    while (survey->next < survey->count && (is_passed_over(survey, survey->next) ||
                                            first_with(survey, survey->next) != survey->next)) {
        survey->next++;
    }
    const bool taken = survey->next < survey->count && survey->result == TERN_OK;
    *member = survey->next++;
    pthread_mutex_unlock(&survey->mutex);
    return taken;
}

static void *measure(void *argument)
{
    struct survey *survey = argument;
    uint32_t i = 0;
    while (take(survey, &i)) {
        const struct tern_member *member = &survey->members[i];
        struct tern_pool_seat seat = {.pool = member->seat.pool, .test = member->test};
        const struct tern_trainer port = tern_pool_port(&seat);
        struct tern_evaluate_result found = {0};
        const enum tern_result result =
            port.evaluate(port.ctx, tern_client_weights(&member->client),
                          member->client.work.model->count, &found);
        survey->figure[i] = tern_figure_value(&found);
        if (result != TERN_OK) {
            pthread_mutex_lock(&survey->mutex);
            survey->result = result;
            pthread_mutex_unlock(&survey->mutex);
        }
    }
    return NULL;
}

static enum tern_result run(struct survey *survey, uint32_t workers)
{
    pthread_t *threads = calloc(workers, sizeof *threads);
    uint32_t started = 0;
    if (threads == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    while (started < workers && pthread_create(&threads[started], NULL, measure, survey) == 0) {
        started++;
    }
    if (started == 0) {
        measure(survey);
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    free(threads);
    return survey->result;
}

enum tern_result tern_replicas_measure(const struct tern_member *members, uint32_t count,
                                       uint32_t most, double *figure, double *version)
{
    struct survey survey = {
        .members = members, .count = count, .most = most, .figure = figure, .result = TERN_OK};
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t held = tern_client_version(&members[i].client);
        survey.newest = held > survey.newest ? held : survey.newest;
    }
    pthread_mutex_init(&survey.mutex, NULL);
    const enum tern_result result = run(&survey, members[0].seat.pool->count);
    pthread_mutex_destroy(&survey.mutex);
    TERN_TRY(result);
    for (uint32_t i = 0; i < count; i++) {
        figure[i] = is_passed_over(&survey, i) ? NAN : figure[first_with(&survey, i)];
        version[i] = (double)tern_client_version(&members[i].client);
    }
    return TERN_OK;
}
