#include "cli/figures.h"

#include <stdlib.h>
#include <string.h>

struct loading {
    struct tern_db *db;
    struct tern_figures *figures;
    uint64_t *evaluators; // in order
    size_t evaluator_count;
};

// Makes room for one more element when count has reached a power of two.
static void *grown(void *array, size_t count, size_t size)
{
    if (count != 0 && (count & (count - 1)) != 0) {
        return array;
    }
    return realloc(array, (count == 0 ? 1 : 2 * count) * size);
}

static enum tern_result add_evaluation(struct tern_figures *figures,
                                       const struct tern_db_evaluation *evaluation)
{
    size_t count = figures->accuracy_count;
    if (count == 0 || figures->accuracies[count - 1].version != evaluation->version) {
        void *array = grown(figures->accuracies, count, sizeof figures->accuracies[0]);
        if (array == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        figures->accuracies = array;
        figures->accuracies[count] = (struct tern_accuracy){.version = evaluation->version};
        figures->accuracy_count = ++count;
    }
    struct tern_accuracy *mean = &figures->accuracies[count - 1];
    double share = (double)evaluation->num_examples;
    double before = (double)mean->num_examples;
    if (share + before > 0) {
        mean->accuracy =
            (mean->accuracy * before + (double)evaluation->accuracy * share) / (before + share);
        mean->loss = (mean->loss * before + (double)evaluation->loss * share) / (before + share);
    }
    mean->num_examples += evaluation->num_examples;
    return TERN_OK;
}

static enum tern_result add_evaluator(struct loading *loading, const struct tern_db_client *client)
{
    if (!client->evaluator) {
        return TERN_OK;
    }
    void *array =
        grown(loading->evaluators, loading->evaluator_count, sizeof loading->evaluators[0]);
    if (array == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    loading->evaluators = array;
    loading->evaluators[loading->evaluator_count++] = client->id;
    return TERN_OK;
}

static int compare_ids(const void *key, const void *element)
{
    uint64_t wanted = *(const uint64_t *)key;
    uint64_t here = *(const uint64_t *)element;
    return (wanted > here) - (wanted < here);
}

// Peers that never authenticated (client 0) do not train either.
static bool trains(const struct loading *loading, uint64_t client)
{
    return client != 0 && (loading->evaluator_count == 0 ||
                           bsearch(&client, loading->evaluators, loading->evaluator_count,
                                   sizeof loading->evaluators[0], compare_ids) == NULL);
}

// The entry of the round, which is the newest one or comes after it; NULL when memory is out.
static struct tern_round_bytes *entry(struct tern_figures *figures, uint32_t round)
{
    size_t count = figures->round_count;
    if (count == 0 || figures->rounds[count - 1].round != round) {
        void *array = grown(figures->rounds, count, sizeof figures->rounds[0]);
        if (array == NULL) {
            return NULL;
        }
        figures->rounds = array;
        figures->rounds[count] = (struct tern_round_bytes){.round = round};
        figures->round_count = ++count;
    }
    return &figures->rounds[count - 1];
}

static enum tern_result add_meter(struct loading *loading, const struct tern_db_meter *meter)
{
    struct tern_figures *figures = loading->figures;
    if (!trains(loading, meter->client)) {
        return TERN_OK;
    }
    struct tern_round_bytes *into =
        meter->round == 0 ? &figures->outside : entry(figures, meter->round);
    if (into == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    tern_bytes_add(&into->up, &meter->up);
    tern_bytes_add(&into->down, &meter->down);
    tern_bytes_add(&figures->all.up, &meter->up);
    tern_bytes_add(&figures->all.down, &meter->down);
    return TERN_OK;
}

// An accepted update came over the link, so that its round has an entry.
static enum tern_result count_participants(struct loading *loading)
{
    struct tern_figures *figures = loading->figures;
    for (size_t i = 0; i < figures->round_count; i++) {
        struct tern_round_bytes *round = &figures->rounds[i];
        struct tern_db_assignment assignment;
        struct tern_db_rows *rows = tern_db_assignments(loading->db, round->round);
        while (tern_db_next(rows, &assignment)) {
            round->participants += assignment.state == TERN_ASSIGNMENT_REPORTED;
        }
        TERN_TRY(tern_db_end(rows));
        figures->all.participants += round->participants;
    }
    return TERN_OK;
}

static enum tern_result load(struct loading *loading)
{
    struct tern_db_evaluation evaluation;
    struct tern_db_client client;
    struct tern_db_meter meter;
    struct tern_db_rows *rows = tern_db_evaluations(loading->db);
    while (tern_db_next(rows, &evaluation)) {
        tern_db_check_row(rows, add_evaluation(loading->figures, &evaluation));
    }
    TERN_TRY(tern_db_end(rows));
    rows = tern_db_clients(loading->db);
    while (tern_db_next(rows, &client)) {
        tern_db_check_row(rows, add_evaluator(loading, &client));
    }
    TERN_TRY(tern_db_end(rows));
    rows = tern_db_meters(loading->db);
    while (tern_db_next(rows, &meter)) {
        tern_db_check_row(rows, add_meter(loading, &meter));
    }
    TERN_TRY(tern_db_end(rows));
    return count_participants(loading);
}

enum tern_result tern_figures_load(struct tern_db *db, struct tern_figures *figures)
{
    struct loading loading = {.db = db, .figures = figures};
    memset(figures, 0, sizeof *figures);
    enum tern_result result = load(&loading);
    free(loading.evaluators);
    if (result != TERN_OK) {
        tern_figures_free(figures);
    }
    return result;
}

void tern_figures_free(struct tern_figures *figures)
{
    free(figures->accuracies);
    free(figures->rounds);
    memset(figures, 0, sizeof *figures);
}

static int compare_numbers(const void *key, const void *element)
{
    // Both structs begin with the number they are ordered by.
    uint32_t wanted = *(const uint32_t *)key;
    uint32_t here = *(const uint32_t *)element;
    return (wanted > here) - (wanted < here);
}

const struct tern_accuracy *tern_figures_accuracy(const struct tern_figures *figures,
                                                  uint32_t version)
{
    if (figures->accuracy_count == 0) {
        return NULL;
    }
    return bsearch(&version, figures->accuracies, figures->accuracy_count,
                   sizeof figures->accuracies[0], compare_numbers);
}

const struct tern_round_bytes *tern_figures_round(const struct tern_figures *figures,
                                                  uint32_t round)
{
    if (figures->round_count == 0) {
        return NULL;
    }
    return bsearch(&round, figures->rounds, figures->round_count, sizeof figures->rounds[0],
                   compare_numbers);
}

double tern_figures_mean(uint64_t total, uint32_t participants)
{
    return participants == 0 ? 0.0 : (double)total / (double)participants;
}
