#include "data/partition.h"
#include "data/random.h"
#include "util/math.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 20011
#define CLASSES 10

static uint16_t labels[COUNT];

static struct tern_partition make(enum tern_partition_kind kind, uint32_t clients, float alpha,
                                  uint64_t seed)
{
    struct tern_partition_config config = {
        .kind = kind, .clients = clients, .min_examples = 10, .alpha = alpha, .seed = seed};
    struct tern_partition partition;
    assert_int_equal(tern_partition_make(&config, labels, COUNT, &partition), TERN_OK);
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

static void every_example_is_used_exactly_once(void **state)
{
    (void)state;
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

static void alpha_says_how_uneven_the_classes_are(void **state)
{
    (void)state;
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

static void sizes_are_even(void **state)
{
    (void)state;
    const enum tern_partition_kind kinds[] = {TERN_PARTITION_IID, TERN_PARTITION_DIRICHLET};
    for (size_t k = 0; k < 2; k++) {
        struct tern_partition p = make(kinds[k], 50, 0.5f, 1);
        for (uint32_t c = 0; c < 50; c++) {
            assert_in_range(p.starts[c + 1] - p.starts[c], COUNT / 50, COUNT / 50 + 1);
        }
        tern_partition_free(&p);
    }
}

static void a_seed_names_a_partition(void **state)
{
    (void)state;
    const enum tern_partition_kind kinds[] = {TERN_PARTITION_IID, TERN_PARTITION_DIRICHLET,
                                              TERN_PARTITION_SHARDS};
    for (size_t k = 0; k < 3; k++) {
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
static void bits_are_the_same_everywhere(void **state)
{
    (void)state;
    struct tern_partition p = make(TERN_PARTITION_DIRICHLET, 50, 0.5f, 1);
    uint32_t digest = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        digest = digest * 31 + p.indices[i];
    }
    assert_int_equal(digest, 0x6fecab01u);
    tern_partition_free(&p);
}

static void views_are_the_clients_examples(void **state)
{
    (void)state;
    struct tern_dataset data = {.count = COUNT, .labels = labels};
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

static void impossible_partitions_are_refused(void **state)
{
    (void)state;
    const struct tern_partition_config good = {
        .kind = TERN_PARTITION_DIRICHLET, .clients = 100, .min_examples = 200, .alpha = 1.0f};
    struct tern_partition_config bad[6] = {good, good, good, good, good, good};
    struct tern_partition partition;
    assert_int_equal(tern_partition_make(&good, labels, COUNT, &partition), TERN_OK);
    tern_partition_free(&partition);
    bad[0].min_examples = 201;
    bad[1].clients = 0;
    bad[2].alpha = 0.0f;
    bad[3].alpha = NAN;
    bad[4].min_examples = 0;
    bad[5].clients = UINT32_MAX;
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(tern_partition_make(&bad[i], labels, COUNT, &partition),
                         TERN_ERR_ARGUMENT);
    }
}

static void gamma_and_normal_draws_have_their_moments(void **state)
{
    (void)state;
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_is_used_exactly_once),
        cmocka_unit_test(alpha_says_how_uneven_the_classes_are),
        cmocka_unit_test(sizes_are_even),
        cmocka_unit_test(a_seed_names_a_partition),
        cmocka_unit_test(bits_are_the_same_everywhere),
        cmocka_unit_test(views_are_the_clients_examples),
        cmocka_unit_test(impossible_partitions_are_refused),
        cmocka_unit_test(gamma_and_normal_draws_have_their_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
