#include "data/partition.h"
#include "data/random.h"
#include "util/math.h"
#define TERN_CASES_OWN_MAIN
#include "tests/cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 20011
#define CLASSES 10
#define GROUPS 120
#define EMPTY_GROUP 77

static uint16_t labels[COUNT];
static uint32_t groups[COUNT];
static const struct tern_dataset data = {
    .count = COUNT, .labels = labels, .groups = groups, .group_count = GROUPS};
static char why[TERN_PARTITION_WHY_MAX];

static struct tern_partition make(enum tern_partition_kind kind, uint32_t clients, float alpha,
                                  uint64_t seed)
{
    struct tern_partition_config config = {
        .kind = kind, .clients = clients, .min_examples = 10, .alpha = alpha, .seed = seed};
    struct tern_partition partition;
    assert_int_equal(tern_partition_make(&config, &data, &partition, why), TERN_OK);
    assert_int_equal(partition.client_count, clients);
    return partition;
}

static void check_complete(const struct tern_partition *partition)
{
    static uint8_t seen[COUNT];
    memset(seen, 0, sizeof seen);
    assert_int_equal(partition->starts[0], 0);
    assert_int_equal(partition->starts[partition->client_count], COUNT);
    for (uint32_t c = 0; c < partition->client_count; c++) {
        assert_true(partition->starts[c + 1] - partition->starts[c] >= 10);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_true(partition->indices[i] < COUNT);
        assert_int_equal(seen[partition->indices[i]]++, 0);
    }
}

CASE(every_example_is_used_exactly_once)
{
    const uint32_t clients[] = {1, 3, 50, 1000};
    const float alphas[] = {0.001f, 0.1f, 0.5f, 100.0f, 1e6f};
    for (size_t i = 0; i < 4; i++) {
        for (size_t a = 0; a < 5; a++) {
            struct tern_partition p = make(TERN_PARTITION_DIRICHLET, clients[i], alphas[a], 1);
            check_complete(&p);
            tern_partition_free(&p);
        }
        struct tern_partition p = make(TERN_PARTITION_IID, clients[i], 0.0f, 1);
        check_complete(&p);
        tern_partition_free(&p);
        p = make(TERN_PARTITION_SHARDS, clients[i], 0.0f, 1);
        check_complete(&p);
        tern_partition_free(&p);
    }
}

// Mean over the clients of the share of their most frequent class.
static double top_share(const struct tern_partition *p)
{
    double sum = 0.0;
    for (uint32_t c = 0; c < p->client_count; c++) {
        uint32_t seen[CLASSES] = {0};
        uint32_t most = 0;
        for (uint32_t i = p->starts[c]; i < p->starts[c + 1]; i++) {
            uint32_t n = ++seen[labels[p->indices[i]]];
            most = n > most ? n : most;
        }
        sum += (double)most / (double)(p->starts[c + 1] - p->starts[c]);
    }
    return sum / (double)p->client_count;
}

static double top_share_of(enum tern_partition_kind kind, float alpha)
{
    struct tern_partition p = make(kind, 40, alpha, 9);
    double share = top_share(&p);
    tern_partition_free(&p);
    return share;
}

CASE(alpha_says_how_uneven_the_classes_are)
{
    double iid = top_share_of(TERN_PARTITION_IID, 0.0f);
    double even = top_share_of(TERN_PARTITION_DIRICHLET, 1000.0f);
    double uneven = top_share_of(TERN_PARTITION_DIRICHLET, 0.5f);
    double single = top_share_of(TERN_PARTITION_DIRICHLET, 0.01f);
    double shards = top_share_of(TERN_PARTITION_SHARDS, 0.0f);
    assert_true(iid < 0.15 && even < 0.15);
    assert_true(uneven > 0.3 && uneven < 0.55);
    assert_true(single > 0.8);
    assert_true(shards > 0.45);
}

CASE(sizes_are_even)
{
    const enum tern_partition_kind kinds[] = {TERN_PARTITION_IID, TERN_PARTITION_DIRICHLET};
    for (size_t k = 0; k < 2; k++) {
        struct tern_partition p = make(kinds[k], 50, 0.5f, 1);
        for (uint32_t c = 0; c < 50; c++) {
            assert_in_range(p.starts[c + 1] - p.starts[c], COUNT / 50, COUNT / 50 + 1);
        }
        tern_partition_free(&p);
    }
}

CASE(a_seed_names_a_partition)
{
    const enum tern_partition_kind kinds[] = {TERN_PARTITION_IID, TERN_PARTITION_DIRICHLET,
                                              TERN_PARTITION_SHARDS, TERN_PARTITION_NATURAL};
    for (size_t k = 0; k < 4; k++) {
        struct tern_partition a = make(kinds[k], 20, 0.5f, 1);
        struct tern_partition b = make(kinds[k], 20, 0.5f, 1);
        struct tern_partition c = make(kinds[k], 20, 0.5f, 2);
        assert_memory_equal(a.indices, b.indices, COUNT * sizeof *a.indices);
        assert_int_not_equal(memcmp(a.indices, c.indices, COUNT * sizeof *a.indices), 0);
        tern_partition_free(&a);
        tern_partition_free(&b);
        tern_partition_free(&c);
    }
}

// This digest was computed once; every machine must give it.
CASE(bits_are_the_same_everywhere)
{
    struct tern_partition p = make(TERN_PARTITION_DIRICHLET, 50, 0.5f, 1);
    uint32_t digest = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        digest = digest * 31 + p.indices[i];
    }
    assert_int_equal(digest, 0x6fecab01u);
    tern_partition_free(&p);
}

// Clients that a group's examples went to; 0 when it has none.
static uint32_t owners_of(const struct tern_partition *p, uint32_t group)
{
    uint32_t owners = 0;
    for (uint32_t c = 0; c < p->client_count; c++) {
        uint32_t own = 0;
        for (uint32_t i = p->starts[c]; i < p->starts[c + 1]; i++) {
            own += groups[p->indices[i]] == group;
        }
        owners += own > 0;
    }
    return owners;
}

CASE(a_natural_group_has_one_client)
{
    const uint32_t clients[] = {1, 7, 50, GROUPS - 1};
    for (size_t i = 0; i < 4; i++) {
        struct tern_partition p = make(TERN_PARTITION_NATURAL, clients[i], 0.0f, 3);
        check_complete(&p);
        for (uint32_t g = 0; g < GROUPS; g++) {
            assert_int_equal(owners_of(&p, g), g == EMPTY_GROUP ? 0 : 1);
        }
        tern_partition_free(&p);
    }
}

CASE(natural_groups_that_do_not_suffice_are_refused)
{
    struct tern_partition_config config = {
        .kind = TERN_PARTITION_NATURAL, .clients = GROUPS, .min_examples = 1};
    struct tern_dataset bare = data;
    struct tern_partition partition;
    assert_int_equal(tern_partition_make(&config, &data, &partition, why), TERN_ERR_ARGUMENT);
    assert_string_equal(why,
                        "natural groups of training examples: 119, fewer than the 120 clients");
    config.clients = GROUPS - 1;
    config.min_examples = 160; // of 168 on average
    assert_int_equal(tern_partition_make(&config, &data, &partition, why), TERN_ERR_ARGUMENT);
    assert_non_null(strstr(why, "training examples, fewer than the 160 that a client needs"));
    bare.groups = NULL;
    assert_int_equal(tern_partition_make(&config, &bare, &partition, why), TERN_ERR_ARGUMENT);
    assert_non_null(strstr(why, "has no natural groups"));
}

CASE(views_are_the_clients_examples)
{
    struct tern_partition p = make(TERN_PARTITION_SHARDS, 7, 0.0f, 1);
    uint32_t sum = 0;
    for (uint32_t c = 0; c < 7; c++) {
        struct tern_view view = tern_partition_view(&p, &data, c);
        assert_ptr_equal(view.dataset, &data);
        assert_ptr_equal(view.indices, p.indices + sum);
        sum += view.count;
    }
    assert_int_equal(sum, COUNT);
    tern_partition_free(&p);
}

CASE(impossible_partitions_are_refused)
{
    const struct tern_partition_config good = {
        .kind = TERN_PARTITION_DIRICHLET, .clients = 100, .min_examples = 200, .alpha = 1.0f};
    struct tern_partition_config bad[6] = {good, good, good, good, good, good};
    struct tern_partition partition;
    assert_int_equal(tern_partition_make(&good, &data, &partition, why), TERN_OK);
    tern_partition_free(&partition);
    bad[0].min_examples = 201;
    bad[1].clients = 0;
    bad[2].alpha = 0.0f;
    bad[3].alpha = NAN;
    bad[4].min_examples = 0;
    bad[5].clients = UINT32_MAX;
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(tern_partition_make(&bad[i], &data, &partition, why), TERN_ERR_ARGUMENT);
    }
}

CASE(shares_and_their_index_draws_agree)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 7, TERN_PRNG_TEST, 0, 0);
    const float share[4] = {0.5f, 0.0f, 1.0f, 0.5f};
    uint32_t seen[4] = {0};
    for (int i = 0; i < 20000; i++) {
        seen[tern_random_index(&rng, share, 4)]++;
    }
    assert_in_range(seen[0], 4700, 5300);
    assert_int_equal(seen[1], 0);
    assert_in_range(seen[2], 9700, 10300);
    // A small alpha leaves one share alone, a large one makes all alike.
    float shares[8];
    double rest[2] = {0.0, 0.0};
    for (int i = 0; i < 200; i++) {
        tern_random_shares(&rng, i % 2 ? 1000.0f : 0.01f, shares, 8);
        float most = 0.0f;
        for (int k = 0; k < 8; k++) {
            most = shares[k] > most ? shares[k] : most;
            rest[i % 2] += (double)shares[k];
        }
        assert_true(most == 1.0f);
    }
    assert_true(rest[0] < 130.0 && rest[1] > 700.0);
}

CASE(gamma_and_normal_draws_have_their_moments)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 1, TERN_PRNG_TEST, 0, 0);
    const int draws = 50000;
    double sum = 0.0;
    double square = 0.0;
    for (int i = 0; i < draws; i++) {
        double x = (double)tern_random_normal(&rng);
        sum += x;
        square += x * x;
    }
    assert_true(fabs(sum / draws) < 0.02);
    assert_true(fabs(square / draws - 1.0) < 0.03);
    const float shapes[] = {0.2f, 0.5f, 1.0f, 3.0f, 40.0f};
    for (size_t s = 0; s < 5; s++) {
        double shape = (double)shapes[s];
        sum = 0.0;
        square = 0.0;
        for (int i = 0; i < draws; i++) {
            double x = exp((double)tern_random_log_gamma(&rng, shapes[s]));
            sum += x;
            square += (x - shape) * (x - shape);
        }
        assert_true(fabs(sum / draws - shape) < 0.04 * shape + 0.005);
        assert_true(fabs(square / draws - shape) < 0.08 * shape + 0.005);
    }
}

int main(void)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 2, TERN_PRNG_TEST, 0, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        labels[i] = (uint16_t)tern_prng_below(&rng, CLASSES);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        groups[i] = tern_prng_below(&rng, GROUPS - 1);
        groups[i] += groups[i] >= EMPTY_GROUP;
    }
    return test_cases_run(&cases_of_this_file, __FILE__);
}
