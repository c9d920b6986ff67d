#include "cli/figures.h"

#include <stdlib.h>
#include <string.h>

struct loading {
    struct tern_figures *figures;
    struct tern_db_meter client; // sums of the rows of one client in one round
    bool uploads;
    enum tern_result result;
};

// Makes room for one more element when count has reached a power of two.
static void *grown(void *array, size_t count, size_t size)
{
    if (count != 0 && (count & (count - 1)) != 0) {
        return array;
    }
    return realloc(array, (count == 0 ? 1 : 2 * count) * size);
}

static bool add_evaluation(void *ctx, const struct tern_db_evaluation *evaluation)
{
    struct loading *loading = ctx;
    struct tern_figures *figures = loading->figures;
    size_t count = figures->accuracy_count;
    if (count == 0 || figures->accuracies[count - 1].version != evaluation->version) {
        void *array = grown(figures->accuracies, count, sizeof figures->accuracies[0]);
        if (array == NULL) {
            loading->result = TERN_ERR_NO_MEMORY;
            return false;
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
    return true;
}

static void add_client(struct tern_round_bytes *into, const struct tern_db_meter *client)
{
    into->participants++;
    tern_bytes_add(&into->up, &client->up);
    tern_bytes_add(&into->down, &client->down);
}

// Takes the client and round that just ended into the figures, if it took part.
static void end_client(struct loading *loading)
{
    struct tern_figures *figures = loading->figures;
    size_t count = figures->round_count;
    if (!loading->uploads || loading->result != TERN_OK) {
        return;
    }
    if (count == 0 || figures->rounds[count - 1].round != loading->client.round) {
        void *array = grown(figures->rounds, count, sizeof figures->rounds[0]);
        if (array == NULL) {
            loading->result = TERN_ERR_NO_MEMORY;
            return;
        }
        figures->rounds = array;
        figures->rounds[count] = (struct tern_round_bytes){.round = loading->client.round};
        figures->round_count = ++count;
    }
    add_client(&figures->rounds[count - 1], &loading->client);
    add_client(&figures->all, &loading->client);
}

static bool add_meter(void *ctx, const struct tern_db_meter *meter)
{
    struct loading *loading = ctx;
    struct tern_db_meter *client = &loading->client;
    if (meter->round == 0 || meter->client == 0) {
        return true;
    }
    if (meter->round != client->round || meter->client != client->client) {
        end_client(loading);
        *client = (struct tern_db_meter){.round = meter->round, .client = meter->client};
        loading->uploads = false;
    }
    tern_bytes_add(&client->up, &meter->up);
    tern_bytes_add(&client->down, &meter->down);
    if (meter->purpose == TERN_PURPOSE_UPLOAD && meter->up.payload > 0) {
        loading->uploads = true;
    }
    return loading->result == TERN_OK;
}

enum tern_result tern_figures_load(struct tern_db *db, struct tern_figures *figures)
{
    struct loading loading = {.figures = figures, .result = TERN_OK};
    memset(figures, 0, sizeof *figures);
    enum tern_result result = tern_db_evaluation_each(db, add_evaluation, &loading);
    if (result == TERN_OK && loading.result == TERN_OK) {
        result = tern_db_meter_each(db, add_meter, &loading);
        end_client(&loading);
    }
    result = result == TERN_OK ? loading.result : result;
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
