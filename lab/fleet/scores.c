#include "fleet/scores.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void tern_scores_clear(struct tern_scores *scores)
{
    free(scores->confusion);
    free(scores->class_accuracy);
    free(scores->class_precision);
    free(scores->class_f1);
    free(scores->client_accuracy);
    free(scores->client_examples);
    memset(scores, 0, sizeof *scores);
}

static enum tern_result take_memory(struct tern_scores *scores, uint32_t classes, uint32_t clients)
{
    *scores = (struct tern_scores){
        .classes = classes,
        .clients = clients,
        .confusion = calloc((size_t)classes * classes, sizeof *scores->confusion),
        .class_accuracy = calloc(classes, sizeof *scores->class_accuracy),
        .class_precision = calloc(classes, sizeof *scores->class_precision),
        .class_f1 = calloc(classes, sizeof *scores->class_f1),
        .client_accuracy = calloc(clients, sizeof *scores->client_accuracy),
        .client_examples = calloc(clients, sizeof *scores->client_examples),
    };
    const bool taken = scores->confusion != NULL && scores->class_accuracy != NULL &&
                       scores->class_precision != NULL && scores->class_f1 != NULL &&
                       scores->client_accuracy != NULL && scores->client_examples != NULL;
    if (!taken) {
        tern_scores_clear(scores);
    }
    return taken ? TERN_OK : TERN_ERR_NO_MEMORY;
}

static double share(double part, double whole)
{
    return whole > 0.0 ? part / whole : NAN;
}

static void score_classes(struct tern_scores *scores)
{
    const uint32_t n = scores->classes;
    double sum = 0.0;
    uint32_t scored = 0;
    for (uint32_t k = 0; k < n; k++) {
        const double right = scores->confusion[(size_t)k * n + k];
        double examples = 0.0;
        double answers = 0.0;
        for (uint32_t j = 0; j < n; j++) {
            examples += scores->confusion[(size_t)k * n + j];
            answers += scores->confusion[(size_t)j * n + k];
        }
        scores->class_accuracy[k] = share(right, examples);
        scores->class_precision[k] = share(right, answers);
        scores->class_f1[k] = share(2.0 * right, examples + answers);
        if (examples + answers > 0.0) {
            sum += scores->class_f1[k];
            scored++;
        }
    }
    scores->macro_f1 = share(sum, scored);
}

// Returns the classes' accuracies, weighted by the client's mix of classes.
static double accuracy_of_mix(const struct tern_scores *scores, const struct tern_view *own)
{
    double sum = 0.0;
    double known = 0.0;
    for (uint32_t i = 0; i < own->count; i++) {
        const double accuracy = scores->class_accuracy[own->dataset->labels[own->indices[i]]];
        if (!isnan(accuracy)) {
            sum += accuracy;
            known += 1.0;
        }
    }
    return share(sum, known);
}

// Counts each test example for the client of its group.
static enum tern_result score_groups(const struct tern_shares *shares, const uint16_t *answers,
                                     struct tern_scores *scores)
{
    const struct tern_dataset *test = &shares->data.test;
    uint32_t *owners = calloc(shares->data.train.group_count, sizeof *owners);
    uint32_t *tested = calloc(scores->clients, sizeof *tested);
    if (owners == NULL || tested == NULL) {
        free(owners);
        free(tested);
        return TERN_ERR_NO_MEMORY;
    }
    tern_shares_owners(shares, owners);
    memset(scores->client_accuracy, 0, scores->clients * sizeof *scores->client_accuracy);
    for (uint32_t i = 0; i < test->count; i++) {
        const uint32_t owner = owners[test->groups[i]];
        if (owner != TERN_NO_CLIENT) {
            scores->client_accuracy[owner] += answers[i] == test->labels[i];
            tested[owner]++;
        }
    }
    for (uint32_t c = 0; c < scores->clients; c++) {
        scores->client_accuracy[c] = share(scores->client_accuracy[c], tested[c]);
    }
    free(owners);
    free(tested);
    return TERN_OK;
}

enum tern_result tern_scores_make(const struct tern_shares *shares, const uint16_t *answers,
                                  struct tern_scores *scores)
{
    const struct tern_dataset *test = &shares->data.test;
    uint32_t classes = test->class_count;
    for (uint32_t i = 0; i < test->count; i++) {
        classes = answers[i] >= classes ? answers[i] + 1u : classes;
    }
    TERN_TRY(take_memory(scores, classes, shares->partition.client_count));
    for (uint32_t i = 0; i < test->count; i++) {
        scores->confusion[(size_t)test->labels[i] * classes + answers[i]]++;
    }
    score_classes(scores);
    for (uint32_t c = 0; c < scores->clients; c++) {
        const struct tern_view own = tern_shares_of(shares, c);
        scores->client_accuracy[c] = accuracy_of_mix(scores, &own);
        scores->client_examples[c] = own.count;
    }
    if (shares->kind != TERN_PARTITION_NATURAL || test->groups == NULL) {
        return TERN_OK;
    }
    const enum tern_result result = score_groups(shares, answers, scores);
    if (result != TERN_OK) {
        tern_scores_clear(scores);
    }
    return result;
}
