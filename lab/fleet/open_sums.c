#include "fleet/open_sums.h"

#include "codec/container.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

void tern_open_sums_init(struct tern_open_sums *sums)
{
    memset(sums, 0, sizeof *sums);
    pthread_mutex_init(&sums->mutex, NULL);
}

void tern_open_sums_clear(struct tern_open_sums *sums)
{
    for (uint32_t i = 0; i < sums->count; i++) {
        free(sums->sums[i].packed);
    }
    free(sums->sums);
    pthread_mutex_destroy(&sums->mutex);
    memset(sums, 0, sizeof *sums);
}

static struct tern_open_sum sum_of_round(const struct tern_client *client)
{
    const struct tern_client_masked *masked = &client->masked;
    struct tern_open_sum sum = {
        .round = masked->round,
        .facts = {.share = masked->share,
                  .bits = masked->bits,
                  .places_seed = masked->places_seed,
                  .scale_count = masked->scale_count,
                  .level = client->task.secure.level,
                  .examples_max = client->task.secure.examples_max},
    };
    memcpy(sum.scales, masked->scales, sizeof sum.scales);
    return sum;
}

// Removes the mask from *packed.
static enum tern_result unmask(const struct tern_client *client,
                               const struct tern_masked_shape *shape, uint32_t level,
                               uint8_t *packed)
{
    TERN_TRY(tern_masked_remove_mask(shape, client->masked.key, packed));
    for (uint32_t i = 0; i < shape->values; i++) {
        if (abs(tern_masked_value(shape, packed, i)) > (int)level) {
            return TERN_ERR_CORRUPT;
        }
    }
    return TERN_OK;
}

// Returns the sum of *like's round; a new one has `size` bytes of zeros. NULL: out of memory
static struct tern_open_sum *find(struct tern_open_sums *sums, const struct tern_open_sum *like,
                                  size_t size)
{
    for (uint32_t i = sums->count; i > 0; i--) {
        if (sums->sums[i - 1].round == like->round) {
            return &sums->sums[i - 1];
        }
    }
    struct tern_open_sum *grown = realloc(sums->sums, (sums->count + 1) * sizeof *grown);
    uint8_t *packed = calloc(1, size);
    sums->sums = grown != NULL ? grown : sums->sums;
    if (grown == NULL || packed == NULL) {
        free(packed);
        return NULL;
    }
    grown[sums->count] = *like;
    grown[sums->count].packed = packed;
    return &grown[sums->count++];
}

static enum tern_result add(struct tern_open_sums *sums, const struct tern_client *client,
                            const struct tern_masked_shape *shape, const uint8_t *packed)
{
    const struct tern_open_sum like = sum_of_round(client);
    pthread_mutex_lock(&sums->mutex);
    struct tern_open_sum *sum = find(sums, &like, tern_masked_size(shape));
    if (sum != NULL) {
        sums->model = client->work.model;
        sum->clients++;
        tern_masked_add(shape, sum->packed, packed);
    }
    pthread_mutex_unlock(&sums->mutex);
    return sum != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}

enum tern_result tern_open_sums_add(struct tern_open_sums *sums, const struct tern_client *client)
{
    const struct tern_open_sum like = sum_of_round(client);
    const struct tern_masked_shape shape = tern_masked_shape_of(client->work.model, &like.facts);
    if (client->task.secure.groups != 0) {
        return TERN_OK; // groups follow from the list of all clients
    }
    const uint8_t *update =
        client->stored_update != NULL ? client->stored_update : client->work.blob;
    tern_Update message;
    struct tern_span container;
    TERN_TRY(tern_wire_decode_update(update, client->pending.len, &message, &container));
    TERN_TRY(tern_masked_check(&shape, container.data, container.len));
    uint8_t *packed = malloc(container.len);
    if (packed == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    memcpy(packed, container.data, container.len);
    enum tern_result result = unmask(client, &shape, like.facts.level, packed);
    if (result == TERN_OK) {
        result = add(sums, client, &shape, packed);
    }
    free(packed);
    return result;
}

static enum tern_result hash_mean(const struct tern_model *model, const struct tern_open_sum *sum,
                                  struct tern_open_mean *hashed)
{
    const struct tern_codec codec = {.id = TERN_CODEC_FLOAT32};
    struct tern_secure_round facts = sum->facts;
    facts.scales = sum->scales;
    const struct tern_masked_totals totals =
        tern_masked_totals_of(&facts, sum->packed, sum->clients);
    const size_t bound = tern_container_bound(&codec, model);
    float *mean = malloc(model->count * sizeof *mean);
    uint8_t *container = malloc(bound);
    size_t len = 0;
    enum tern_result result = TERN_ERR_NO_MEMORY;
    if (mean != NULL && container != NULL) {
        const struct tern_masked_part whole = {sum->packed, sum->clients, totals.weight};
        tern_masked_decode(model, &facts, &whole, 1, mean);
        result = tern_container_encode(&codec, NULL, model, mean, container, bound, &len);
        tern_sha256(container, len, hashed->sha256);
        hashed->size = len;
    }
    free(mean);
    free(container);
    return result;
}

enum tern_result tern_open_sums_means(const struct tern_open_sums *sums,
                                      struct tern_open_mean *means)
{
    for (uint32_t i = 0; i < sums->count; i++) {
        const struct tern_open_sum *sum = &sums->sums[i];
        means[i] = (struct tern_open_mean){.round = sum->round, .clients = sum->clients};
        TERN_TRY(hash_mean(sums->model, sum, &means[i]));
    }
    return TERN_OK;
}
