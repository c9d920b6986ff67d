#include "data/partition.h"
#include "data/random.h"
#include "util/math.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARDS_PER_CLIENT 2

static void shuffle(struct tern_prng *rng, uint32_t *values, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = tern_prng_below(rng, i);
        uint32_t last = values[i - 1];
        values[i - 1] = values[j];
        values[j] = last;
    }
}

// Gives all clients the same number of examples; the first count % clients clients get one more.
static void set_even_starts(struct tern_partition *partition, uint32_t count)
{
    uint32_t clients = partition->client_count;
    for (uint32_t c = 0; c <= clients; c++) {
        uint32_t more = c < count % clients ? c : count % clients;
        partition->starts[c] = c * (count / clients) + more;
    }
}

static void deal_iid(struct tern_partition *partition, struct tern_prng *rng, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        partition->indices[i] = i;
    }
    shuffle(rng, partition->indices, count);
}

// The examples sorted by class, and shuffled within each class, for dirichlet and shards.
struct pools {
    uint32_t class_count;
    uint32_t *order; // [count] numbers of examples
    uint32_t *next;  // [class_count] index in order[] of the class's next example
    uint32_t *end;   // [class_count] index in order[] after the class's last example
    float *share;    // [class_count]
};

static void free_pools(struct pools *pools)
{
    free(pools->order);
    free(pools->next);
    free(pools->end);
    free(pools->share);
}

static void sort_by_class(struct pools *pools, const uint16_t *labels, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        pools->end[labels[i]]++;
    }
    uint32_t start = 0;
    for (uint32_t k = 0; k < pools->class_count; k++) {
        pools->next[k] = start;
        start += pools->end[k];
        pools->end[k] = pools->next[k];
    }
    for (uint32_t i = 0; i < count; i++) {
        pools->order[pools->end[labels[i]]++] = i;
    }
}

static enum tern_result make_pools(struct pools *pools, struct tern_prng *rng,
                                   const uint16_t *labels, uint32_t count)
{
    uint32_t classes = 1;
    for (uint32_t i = 0; i < count; i++) {
        classes = labels[i] >= classes ? labels[i] + 1u : classes;
    }
    *pools = (struct pools){
        .class_count = classes,
        .order = malloc(count * sizeof(uint32_t)),
        .next = calloc(classes, sizeof(uint32_t)),
        .end = calloc(classes, sizeof(uint32_t)),
        .share = calloc(classes, sizeof(float)),
    };
    if (pools->order == NULL || pools->next == NULL || pools->end == NULL || pools->share == NULL) {
        free_pools(pools);
        return TERN_ERR_NO_MEMORY;
    }
    sort_by_class(pools, labels, count);
    for (uint32_t k = 0; k < classes; k++) {
        shuffle(rng, pools->order + pools->next[k], pools->end[k] - pools->next[k]);
    }
    return TERN_OK;
}

// Draws share ~ Dirichlet(alpha * prior) as gamma draws divided by their sum; a class of mean size has prior 1. Gamma draws
// of a small shape underflow float32, so the shares are computed from their logarithms, relative to the largest.
static void draw_shares(struct pools *pools, const float *prior, struct tern_prng *rng, float alpha)
{
    float most = 0.0f;
    bool any = false;
    for (uint32_t k = 0; k < pools->class_count; k++) {
        if (prior[k] > 0.0f) {
            pools->share[k] = tern_random_log_gamma(rng, alpha * prior[k]);
            most = !any || pools->share[k] > most ? pools->share[k] : most;
            any = true;
        }
    }
    for (uint32_t k = 0; k < pools->class_count; k++) {
        pools->share[k] = prior[k] > 0.0f ? tern_expf(pools->share[k] - most) : 0.0f;
    }
}

// Draws one of the classes that still have examples in the pools, with probabilities proportional to share[]. If the shares of
// these classes are all 0, returns the class with most remaining examples.
static uint32_t draw_class(const struct pools *pools, struct tern_prng *rng)
{
    float sum = 0.0f;
    uint32_t fullest = 0;
    uint32_t last = 0;
    for (uint32_t k = 0; k < pools->class_count; k++) {
        uint32_t left = pools->end[k] - pools->next[k];
        sum += left > 0 ? pools->share[k] : 0.0f;
        fullest = left > pools->end[fullest] - pools->next[fullest] ? k : fullest;
    }
    last = fullest;
    float at = tern_prng_float(rng) * sum;
    for (uint32_t k = 0; k < pools->class_count && sum > 0.0f; k++) {
        if (pools->next[k] == pools->end[k] || pools->share[k] <= 0.0f) {
            continue;
        }
        last = k;
        if (at < pools->share[k]) {
            break;
        }
        at -= pools->share[k];
    }
    return last;
}

static enum tern_result deal_dirichlet(struct tern_partition *partition, struct tern_prng *rng,
                                       float alpha, const uint16_t *labels, uint32_t count)
{
    struct pools pools;
    TERN_TRY(make_pools(&pools, rng, labels, count));
    float *prior = calloc(pools.class_count, sizeof *prior);
    if (prior == NULL) {
        free_pools(&pools);
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t k = 0; k < pools.class_count; k++) {
        uint32_t size = pools.end[k] - pools.next[k];
        prior[k] = (float)size * (float)pools.class_count / (float)count;
    }
    for (uint32_t c = 0; c < partition->client_count; c++) {
        draw_shares(&pools, prior, rng, alpha);
        for (uint32_t i = partition->starts[c]; i < partition->starts[c + 1]; i++) {
            uint32_t k = draw_class(&pools, rng);
            partition->indices[i] = pools.order[pools.next[k]++];
        }
    }
    free(prior);
    free_pools(&pools);
    return TERN_OK;
}

static enum tern_result deal_shards(struct tern_partition *partition, struct tern_prng *rng,
                                    const uint16_t *labels, uint32_t count)
{
    struct pools pools;
    TERN_TRY(make_pools(&pools, rng, labels, count));
    uint32_t shards = partition->client_count * SHARDS_PER_CLIENT;
    uint32_t *shard_order = malloc(shards * sizeof *shard_order);
    if (shard_order == NULL) {
        free_pools(&pools);
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t s = 0; s < shards; s++) {
        shard_order[s] = s;
    }
    shuffle(rng, shard_order, shards);
    uint32_t dealt = 0;
    for (uint32_t s = 0; s < shards; s++) {
        uint32_t first = (uint32_t)((uint64_t)count * shard_order[s] / shards);
        uint32_t end = (uint32_t)((uint64_t)count * (shard_order[s] + 1u) / shards);
        memcpy(partition->indices + dealt, pools.order + first,
               (end - first) * sizeof *shard_order);
        dealt += end - first;
        partition->starts[s / SHARDS_PER_CLIENT + 1] = dealt;
    }
    free(shard_order);
    free_pools(&pools);
    return TERN_OK;
}

// --- Natural groups

// Sets sizes[group] to the group's number of examples. Returns how many groups have any.
static uint32_t count_groups(const struct tern_dataset *data, uint32_t *sizes)
{
    uint32_t present = 0;
    for (uint32_t i = 0; i < data->count; i++) {
        present += sizes[data->groups[i]]++ == 0;
    }
    return present;
}

// Sets owners[group] to the index of a client, for each group with examples. order: scratch memory, [group_count].
static void deal_groups(struct tern_prng *rng, const uint32_t *sizes, uint32_t group_count,
                        uint32_t clients, uint32_t *order, uint32_t *owners)
{
    uint32_t present = 0;
    for (uint32_t g = 0; g < group_count; g++) {
        if (sizes[g] > 0) {
            order[present++] = g;
        }
    }
    shuffle(rng, order, present);
    for (uint32_t i = 0; i < present; i++) {
        owners[order[i]] = i % clients;
    }
}

// Sorts the examples by client; a client's examples keep their order.
static void sort_by_owner(struct tern_partition *partition, const struct tern_dataset *data,
                          const uint32_t *owners)
{
    uint32_t *starts = partition->starts;
    memset(starts, 0, ((size_t)partition->client_count + 1) * sizeof *starts);
    for (uint32_t i = 0; i < data->count; i++) {
        starts[owners[data->groups[i]] + 1]++;
    }
    for (uint32_t c = 0; c < partition->client_count; c++) {
        starts[c + 1] += starts[c];
    }
    // starts[c] serves as the index of client c's next example, and ends as the next client's start.
    for (uint32_t i = 0; i < data->count; i++) {
        partition->indices[starts[owners[data->groups[i]]]++] = i;
    }
    memmove(starts + 1, starts, partition->client_count * sizeof *starts);
    starts[0] = 0;
}

static enum tern_result check_natural(const struct tern_partition_config *config,
                                      const struct tern_partition *partition, uint32_t present,
                                      char why[TERN_PARTITION_WHY_MAX])
{
    if (present < config->clients) {
        snprintf(why, TERN_PARTITION_WHY_MAX,
                 "natural groups of training examples: %u, fewer than the %u clients", present,
                 config->clients);
        return TERN_ERR_ARGUMENT;
    }
    for (uint32_t c = 0; c < partition->client_count; c++) {
        const uint32_t size = partition->starts[c + 1] - partition->starts[c];
        if (size < config->min_examples) {
            snprintf(why, TERN_PARTITION_WHY_MAX,
                     "a client's natural groups have %u training examples, fewer than the %u that "
                     "a client needs",
                     size, config->min_examples);
            return TERN_ERR_ARGUMENT;
        }
    }
    return TERN_OK;
}

static enum tern_result deal_natural(const struct tern_partition_config *config,
                                     struct tern_partition *partition, struct tern_prng *rng,
                                     const struct tern_dataset *data,
                                     char why[TERN_PARTITION_WHY_MAX])
{
    const size_t groups = data->group_count;
    uint32_t *sizes = calloc(3 * groups, sizeof *sizes);
    if (sizes == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    uint32_t *order = sizes + groups;
    uint32_t *owners = order + groups;
    const uint32_t present = count_groups(data, sizes);
    deal_groups(rng, sizes, data->group_count, config->clients, order, owners);
    sort_by_owner(partition, data, owners);
    free(sizes);
    return check_natural(config, partition, present, why);
}

static enum tern_result deal(const struct tern_partition_config *config,
                             const struct tern_dataset *data, struct tern_partition *partition,
                             char why[TERN_PARTITION_WHY_MAX])
{
    struct tern_prng rng;
    tern_prng_init(&rng, config->seed, TERN_PRNG_PARTITION, config->clients,
                   (uint32_t)config->kind);
    set_even_starts(partition, data->count);
    switch (config->kind) {
    case TERN_PARTITION_IID:
        deal_iid(partition, &rng, data->count);
        return TERN_OK;
    case TERN_PARTITION_DIRICHLET:
        return deal_dirichlet(partition, &rng, config->alpha, data->labels, data->count);
    case TERN_PARTITION_SHARDS:
        return deal_shards(partition, &rng, data->labels, data->count);
    case TERN_PARTITION_NATURAL:
        return deal_natural(config, partition, &rng, data, why);
    }
    return TERN_ERR_ARGUMENT;
}

static enum tern_result check(const struct tern_partition_config *config,
                              const struct tern_dataset *data, char why[TERN_PARTITION_WHY_MAX])
{
    uint64_t least = config->min_examples;
    if (config->kind == TERN_PARTITION_SHARDS) {
        // A shard has count / shards examples, rounded down: round up to whole shards.
        least = (least + SHARDS_PER_CLIENT - 1) / SHARDS_PER_CLIENT * SHARDS_PER_CLIENT;
    }
    if (config->kind == TERN_PARTITION_NATURAL && data->groups == NULL) {
        snprintf(why, TERN_PARTITION_WHY_MAX,
                 "the data has no natural groups; sensors and audio have, csv with group=COLUMN, "
                 "and NumPy arrays with a group array");
        return TERN_ERR_ARGUMENT;
    }
    if (config->kind == TERN_PARTITION_DIRICHLET &&
        !(config->alpha >= 0.001f && config->alpha <= 1e6f)) {
        snprintf(why, TERN_PARTITION_WHY_MAX, "alpha is %g; it must be 0.001 to 1000000",
                 (double)config->alpha);
        return TERN_ERR_ARGUMENT;
    }
    if (config->clients < 1 || config->clients > 1u << 30 || least < 1 ||
        data->count < config->clients * least) {
        snprintf(why, TERN_PARTITION_WHY_MAX,
                 "%u examples cannot be shared among %u clients, %llu for each", data->count,
                 config->clients, (unsigned long long)least);
        return TERN_ERR_ARGUMENT;
    }
    return TERN_OK;
}

enum tern_result tern_partition_make(const struct tern_partition_config *config,
                                     const struct tern_dataset *data,
                                     struct tern_partition *partition,
                                     char why[TERN_PARTITION_WHY_MAX])
{
    memset(partition, 0, sizeof *partition);
    TERN_TRY(check(config, data, why));
    snprintf(why, TERN_PARTITION_WHY_MAX, "no memory to partition the examples");
    partition->client_count = config->clients;
    partition->indices = malloc(data->count * sizeof *partition->indices);
    partition->starts = calloc((size_t)config->clients + 1, sizeof *partition->starts);
    enum tern_result result = TERN_ERR_NO_MEMORY;
    if (partition->indices != NULL && partition->starts != NULL) {
        result = deal(config, data, partition, why);
    }
    if (result != TERN_OK) {
        tern_partition_free(partition);
    }
    return result;
}

void tern_partition_free(struct tern_partition *partition)
{
    free(partition->indices);
    free(partition->starts);
    memset(partition, 0, sizeof *partition);
}

struct tern_view tern_partition_view(const struct tern_partition *partition,
                                     const struct tern_dataset *dataset, uint32_t client)
{
    uint32_t start = partition->starts[client];
    return (struct tern_view){.dataset = dataset,
                              .indices = partition->indices + start,
                              .count = partition->starts[client + 1] - start};
}

enum tern_result tern_partition_kind_from_name(const char *name, enum tern_partition_kind *kind)
{
    static const char *const names[] = {"iid", "dirichlet", "shards", "natural"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *kind = (enum tern_partition_kind)i;
            return TERN_OK;
        }
    }
    return TERN_ERR_UNKNOWN;
}
