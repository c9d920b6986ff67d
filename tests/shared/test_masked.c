// Masked updates: quantising, packing, and sums under masks against sums without masks.
#include "secure/masked.h"
#include "tests/cases.h"
#include "util/bytes.h"
#include "util/prng.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 4096u

static struct tern_model model;
static float scales[8];
static struct tern_secure_round round_facts;

static void add_tensor(const char *name, uint32_t count, enum tern_rule rule)
{
    assert_int_equal(tern_model_add_by_rule(&model, name, &count, 1, rule), TERN_OK);
}

// A model with tensors of every rule, which the manifest has in another order than the flat vector.
static int start(void **state)
{
    (void)state;
    tern_model_clear(&model);
    add_tensor("frozen", 3, TERN_RULE_SKIP);
    add_tensor("bias", 7, TERN_RULE_FUSE);
    add_tensor("bias3", 5, TERN_RULE_FUSE);
    add_tensor("weight", 41, TERN_RULE_COMPRESS);
    add_tensor("head", 11, TERN_RULE_LOCAL);
    add_tensor("bias2", 2, TERN_RULE_FUSE);
    assert_int_equal(tern_model_layout(&model), TERN_OK);
    assert_int_equal(tern_masked_tensors(&model), 4);
    for (size_t i = 0; i < 4; i++) {
        scales[i] = 0.5f + (float)i;
    }
    round_facts = (struct tern_secure_round){
        .round = 1, .level = 1, .share = 1, .places_seed = 5, .scale_count = 4, .scales = scales};
    return tern_secret_start() == TERN_OK ? 0 : -1;
}

static void set_cohort(uint32_t cohort, uint32_t level)
{
    round_facts.cohort = cohort;
    round_facts.level = level;
    round_facts.bits = tern_secure_bits(&round_facts);
}

static const struct tern_masked_training training = {.examples = 100, .loss = 0.5f};

static struct tern_prng draws;

static void draw_work(float *work)
{
    for (uint32_t i = 0; i < model.count; i++) {
        work[i] = (tern_prng_float(&draws) - 0.5f) * 8;
    }
}

static void quantise(float *work, uint8_t *packed)
{
    assert_int_equal(tern_masked_quantise(&model, &round_facts, &training, work, packed), TERN_OK);
}

static void decode(const uint8_t *packed, float *change)
{
    const struct tern_masked_part part = {packed, 1, 1};
    tern_masked_decode(&model, &round_facts, &part, 1, change);
}

static void next_scales(const uint8_t *sum, uint32_t members, float *next)
{
    const struct tern_masked_part part = {sum, members, members};
    tern_masked_next_scales(&model, &round_facts, &part, 1, next);
}

CASE_WITH(values_are_rounded_to_the_nearest_step_and_ties_to_even, start, NULL)
{
    set_cohort(10, 2);
    float work[VALUES_MAX] = {0.25f, 0.2500001f, -0.25f, -0.26f, 0.75f, 0.74f,
                              1.25f, 99,         -99,    0.5f,   -0.0f};
    const int32_t expected[] = {0, 1, 0, -1, 2, 1, 2, 2, -2, 1, 0}; // steps of 0.5
    const float rest[] = {
        0.25f, 0.2500001f - 0.5f, -0.25f, -0.26f + 0.5f, -0.25f, 0.74f - 0.5f, 0.25f, 98, -98, 0,
        -0.0f};
    uint8_t packed[1024];
    quantise(work, packed);
    const struct tern_masked_shape shape = tern_masked_shape_of(&model, &round_facts);
    for (uint32_t i = 0; i < 11; i++) {
        assert_int_equal(tern_masked_value(&shape, packed, i), expected[i]);
        assert_true(work[i] == rest[i]);
    }
    assert_int_equal(tern_get_le32(packed + 8), 8); // values of the first tensor that are not zero
    assert_int_equal(tern_get_le32(packed), 100);
    assert_int_equal(tern_get_le32(packed + 4), 2048);
    assert_int_equal(tern_masked_check(&shape, packed, tern_masked_size(&shape)), TERN_OK);
}

CASE_WITH(each_tensor_has_its_scale_and_local_and_frozen_ones_are_not_sent, start, NULL)
{
    set_cohort(10, 1);
    float work[VALUES_MAX];
    for (uint32_t i = 0; i < model.count; i++) {
        work[i] = 1.1f;
    }
    uint8_t packed[1024];
    quantise(work, packed);
    const struct tern_masked_shape shape = tern_masked_shape_of(&model, &round_facts);
    assert_int_equal(shape.values, 41 + 7 + 2 + 5);
    // In the order of the flat vector: weight (scale 0.5), bias (1.5), bias3 (2.5), bias2 (3.5), head, frozen.
    assert_true(work[0] == 1.1f - 0.5f && work[40] == work[0]);
    assert_true(work[41] == 1.1f - 1.5f && work[47] == work[41]);
    for (uint32_t i = 48; i < model.count; i++) { // 1.1 / 2.5 rounds to 0
        assert_true(work[i] == 1.1f);
    }
    assert_int_equal(tern_get_le32(packed + 8), 41);
    assert_int_equal(tern_get_le32(packed + 12), 7);
    assert_int_equal(tern_get_le32(packed + 16), 0);
    assert_int_equal(tern_get_le32(packed + 20), 0);
}

CASE_WITH(a_share_sends_one_value_of_each_group, start, NULL)
{
    const uint32_t shares[] = {2, 10};
    for (size_t s = 0; s < 2; s++) {
        set_cohort(10, 1);
        round_facts.share = shares[s];
        uint32_t sent_ever[VALUES_MAX] = {0};
        for (uint64_t seed = 1; seed <= 200; seed++) {
            round_facts.places_seed = seed;
            float work[VALUES_MAX];
            float change[VALUES_MAX];
            uint8_t packed[1024];
            for (uint32_t i = 0; i < model.count; i++) {
                work[i] = 99;
            }
            quantise(work, packed);
            decode(packed, change);
            uint32_t sent = 0;
            for (uint32_t i = 0; i < model.count; i++) {
                assert_int_equal(change[i] != 0, work[i] != 99);
                assert_true(work[i] + change[i] == 99);
                sent += change[i] != 0;
                sent_ever[i] += change[i] != 0;
            }
            assert_int_equal(sent, (55 + shares[s] - 1) / shares[s]);
        }
        for (uint32_t i = 0; i < 55; i++) {
            assert_in_range(sent_ever[i], 200 / shares[s] / 3,
                            200); // the last group may be smaller
        }
    }
}

CASE_WITH(a_value_that_is_not_finite_changes_nothing, start, NULL)
{
    set_cohort(10, 1);
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        float work[VALUES_MAX];
        float before[VALUES_MAX];
        uint8_t packed[1024];
        draw_work(work);
        work[model.count - 1] = bad[i];
        memcpy(before, work, sizeof before);
        assert_int_equal(tern_masked_quantise(&model, &round_facts, &training, work, packed),
                         TERN_ERR_NON_FINITE);
        assert_memory_equal(before, work, sizeof(float) * model.count);
    }
}

CASE_WITH(give_back_returns_what_was_quantised, start, NULL)
{
    set_cohort(100, 1);
    tern_prng_init(&draws, 3, TERN_PRNG_TEST, 0, 0);
    float work[VALUES_MAX];
    float before[VALUES_MAX];
    uint8_t packed[1024];
    draw_work(work);
    memcpy(before, work, sizeof before);
    quantise(work, packed);
    struct tern_error_buffer buffer = {TERN_ERROR_FLOAT32, work, model.coded};
    tern_masked_give_back(&model, &round_facts, packed, &buffer);
    for (uint32_t i = 0; i < model.count; i++) {
        assert_true(fabsf(work[i] - before[i]) <=
                    FLT_EPSILON * 4); // one rounding of values below 4
    }
}

// --- Sums

struct sum_fixture {
    struct tern_masked_shape shape;
    size_t size;
    uint32_t clients;
    uint8_t *packed; // [clients][size], then masked
    uint8_t (*keys)[TERN_SECRET_SIZE];
};

// Makes the masked updates of a cohort; the largest values are more likely, so that sums reach the modulus.
static void make_updates(struct sum_fixture *f, uint32_t clients, uint8_t *plain)
{
    f->shape = tern_masked_shape_of(&model, &round_facts);
    f->size = tern_masked_size(&f->shape);
    f->clients = clients;
    f->packed = malloc(f->size * clients);
    f->keys = malloc(sizeof *f->keys * clients);
    for (uint32_t c = 0; c < clients; c++) {
        float work[VALUES_MAX];
        uint8_t secret[TERN_SECRET_SIZE] = {(uint8_t)c, (uint8_t)(c >> 8)};
        const struct tern_masked_key masked = {.nonce = c};
        draw_work(work);
        work[0] = 99;
        work[1] = -99;
        quantise(work, plain + c * f->size);
        memcpy(f->packed + c * f->size, plain + c * f->size, f->size);
        assert_int_equal(tern_mask_key(secret, &masked, f->keys[c]), TERN_OK);
        assert_int_equal(tern_masked_add_mask(&f->shape, f->keys[c], f->packed + c * f->size),
                         TERN_OK);
        assert_int_equal(tern_masked_check(&f->shape, f->packed + c * f->size, f->size), TERN_OK);
    }
}

// Adds the members' updates in a random order, subtracts the sum of their masks, and compares with plain sums.
static void check_sum(const struct sum_fixture *f, const uint8_t *plain, const bool *is_member)
{
    uint8_t *sum = calloc(1, f->size);
    uint8_t *masks = calloc(1, f->size);
    uint32_t first = tern_prng_below(&draws, f->clients);
    uint32_t step =
        1 + 2 * tern_prng_below(
                    &draws, 500); // odd, so that most cohorts are visited in an order of its own
    uint32_t visited = 0;
    bool *done = calloc(f->clients, sizeof *done);
    for (uint32_t c = first; visited < f->clients; c = (c + step) % f->clients) {
        while (done[c]) {
            c = (c + 1) % f->clients;
        }
        done[c] = true;
        visited++;
        if (is_member[c]) {
            tern_masked_add(&f->shape, sum, f->packed + c * f->size);
            assert_int_equal(tern_masked_add_mask(&f->shape, f->keys[f->clients - 1 - c], masks),
                             TERN_OK);
        }
    }
    // The helper adds its masks in another order.
    memset(masks, 0, f->size);
    for (uint32_t c = f->clients; c-- > 0;) {
        if (is_member[c]) {
            assert_int_equal(tern_masked_add_mask(&f->shape, f->keys[c], masks), TERN_OK);
        }
    }
    tern_masked_subtract(&f->shape, sum, masks);
    for (uint32_t i = 0; i < f->shape.values; i++) {
        int32_t expected = 0;
        for (uint32_t c = 0; c < f->clients; c++) {
            expected += is_member[c] ? tern_masked_value(&f->shape, plain + c * f->size, i) : 0;
        }
        assert_int_equal(tern_masked_value(&f->shape, sum, i), expected);
    }
    for (uint32_t counter = 0; counter < 2 + f->shape.tensors; counter++) {
        uint32_t expected = 0;
        for (uint32_t c = 0; c < f->clients; c++) {
            expected += is_member[c] ? tern_get_le32(plain + c * f->size + 4 * counter) : 0;
        }
        assert_int_equal(tern_get_le32(sum + 4 * counter), expected);
    }
    free(done);
    free(masks);
    free(sum);
}

static void check_cohort(uint32_t clients, uint32_t level)
{
    set_cohort(clients, level);
    struct sum_fixture f;
    uint8_t *plain = malloc((size_t)1024 * clients);
    bool *is_member = malloc(clients);
    make_updates(&f, clients, plain);
    memset(is_member, true, clients);
    check_sum(&f, plain, is_member);
    for (uint32_t c = 0; c < clients; c++) { // drop-outs
        is_member[c] = tern_prng_below(&draws, 3) > 0;
    }
    check_sum(&f, plain, is_member);
    free(f.keys);
    free(f.packed);
    free(is_member);
    free(plain);
}

// Makes the sum of three updates, which is possible.
static void sum_three(uint8_t *sum)
{
    const struct tern_masked_shape shape = tern_masked_shape_of(&model, &round_facts);
    memset(sum, 0, tern_masked_size(&shape));
    for (uint32_t client = 0; client < 3; client++) {
        float work[VALUES_MAX];
        uint8_t packed[1024];
        draw_work(work);
        quantise(work, packed);
        tern_masked_add(&shape, sum, packed);
    }
    assert_true(tern_masked_sum_is_possible(&model, &round_facts, sum, 3));
}

CASE_WITH(a_sum_that_no_updates_have_is_not_possible, start, NULL)
{
    set_cohort(20, 1); // 6 bits: values beyond 3 fit
    round_facts.examples_max = 100;
    tern_prng_init(&draws, 9, TERN_PRNG_TEST, 0, 0);
    uint8_t sum[1024];
    uint8_t changed[1024];
    sum_three(sum);
    memcpy(changed, sum, sizeof sum);
    tern_put_le32(changed, 301); // examples
    assert_false(tern_masked_sum_is_possible(&model, &round_facts, changed, 3));
    memcpy(changed, sum, sizeof sum);
    tern_put_le32(changed + 8, 3 * 41 + 1); // values of the first tensor that are not zero
    assert_false(tern_masked_sum_is_possible(&model, &round_facts, changed, 3));
    tern_put_le32(changed + 8, 0);
    assert_false(tern_masked_sum_is_possible(&model, &round_facts, changed, 3));
    memcpy(changed, sum, sizeof sum);
    changed[8 + 4 * 4] = 5; // the first value
    assert_false(tern_masked_sum_is_possible(&model, &round_facts, changed, 3));
    assert_false(tern_masked_sum_is_possible(&model, &round_facts, sum, 1));
}

CASE_WITH(a_sum_under_masks_is_the_plain_sum, start, NULL)
{
    tern_prng_init(&draws, 1, TERN_PRNG_TEST, 0, 0);
    for (uint32_t clients = 2; clients <= 130; clients++) {
        check_cohort(clients, 1);
    }
    const uint32_t large[] = {255, 256, 511, 512, 1000};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        check_cohort(large[i], 1);
    }
    for (uint32_t level = 2; level <= TERN_SECURE_LEVEL_MAX; level += 25) {
        check_cohort(20, level);
    }
    for (uint32_t i = 0; i < 2; i++) {
        round_facts.share = i == 0 ? 2 : 10;
        check_cohort(50, 1);
        check_cohort(1000, 1);
    }
    for (uint32_t clients = 2; getenv("TERN_LONG_TESTS") != NULL && clients <= 1000; clients++) {
        round_facts.share = (const uint32_t[]){1, 2, 10}[clients % 3];
        check_cohort(clients, 1);
    }
}

CASE_WITH(fields_of_every_width_are_added_modulo_their_width, start, NULL)
{
    tern_prng_init(&draws, 2, TERN_PRNG_TEST, 0, 0);
    for (uint32_t bits = 2; bits <= TERN_SECURE_BITS_MAX; bits++) {
        for (uint32_t values = 1; values < 70; values++) {
            const struct tern_masked_shape shape = {.tensors = 1, .values = values, .bits = bits};
            uint8_t a[512];
            uint8_t b[512];
            uint8_t sum[512];
            size_t size = tern_masked_size(&shape);
            memset(a, 0, sizeof a);
            memset(b, 0, sizeof b);
            const uint8_t keys[2][TERN_SECRET_SIZE] = {{(uint8_t)bits, 1}, {(uint8_t)values, 2}};
            assert_int_equal(tern_masked_add_mask(&shape, keys[0], a), TERN_OK);
            assert_int_equal(tern_masked_add_mask(&shape, keys[1], b), TERN_OK);
            memcpy(sum, a, size);
            tern_masked_add(&shape, sum, b);
            assert_int_equal(tern_masked_check(&shape, sum, size), TERN_OK);
            int32_t modulus = INT32_C(1) << bits;
            for (uint32_t i = 0; i < values; i++) {
                int32_t total = tern_masked_value(&shape, a, i) + tern_masked_value(&shape, b, i);
                assert_int_equal((total - tern_masked_value(&shape, sum, i)) % modulus, 0);
            }
            for (size_t counter = 0; counter < 3; counter++) {
                assert_int_equal(tern_get_le32(sum + 4 * counter),
                                 tern_get_le32(a + 4 * counter) + tern_get_le32(b + 4 * counter));
            }
            tern_masked_subtract(&shape, sum, a);
            assert_memory_equal(sum, b, size);
            assert_int_equal(tern_masked_remove_mask(&shape, keys[1], sum), TERN_OK);
            for (size_t i = 0; i < size; i++) {
                assert_int_equal(sum[i], 0);
            }
        }
    }
}

CASE_WITH(a_packed_vector_has_its_size_and_no_other_bits, start, NULL)
{
    set_cohort(100, 1);
    struct tern_masked_shape shape = {.tensors = 4, .values = 100000, .bits = 8};
    assert_int_equal(tern_masked_size(&shape), 100000 + 4 * 6);
    shape = (struct tern_masked_shape){.tensors = 1, .values = 3, .bits = 5};
    uint8_t packed[16] = {0};
    assert_int_equal(tern_masked_check(&shape, packed, 16), TERN_OK);
    assert_int_equal(tern_masked_check(&shape, packed, 15), TERN_ERR_CORRUPT);
    packed[13] = 0x80; // bit 15 of three values of 5 bits
    assert_int_equal(tern_masked_check(&shape, packed, 16), TERN_ERR_CORRUPT);
}

CASE_WITH(totals_are_weighted_by_examples, start, NULL)
{
    set_cohort(10, 1);
    round_facts.examples_max = 200;
    uint8_t sum[1024] = {0};
    const struct tern_masked_shape shape = tern_masked_shape_of(&model, &round_facts);
    const struct tern_masked_training clients[] = {{50, 1}, {400, 2}, {100, 0.5f}};
    for (size_t i = 0; i < 3; i++) {
        float work[VALUES_MAX] = {0};
        uint8_t packed[1024];
        assert_int_equal(tern_masked_quantise(&model, &round_facts, &clients[i], work, packed),
                         TERN_OK);
        tern_masked_add(&shape, sum, packed);
    }
    const struct tern_masked_totals totals = tern_masked_totals_of(&round_facts, sum, 3);
    assert_int_equal(totals.examples, 350);
    assert_true(totals.weight == 1.75);
    assert_true(fabs(totals.loss - (0.25 * 1 + 1 * 2 + 0.5 * 0.5) / 1.75) < 0.001);
    round_facts.examples_max = 0;
    assert_true(tern_masked_totals_of(&round_facts, sum, 3).weight == 3);
}

CASE_WITH(a_change_is_weighed_where_it_is_sent_and_dropped_elsewhere, start, NULL)
{
    set_cohort(10, 1);
    round_facts.share = 2;
    round_facts.examples_max = 400;
    float work[VALUES_MAX];
    float change[VALUES_MAX];
    float sent[VALUES_MAX];
    uint8_t packed[1024];
    for (uint32_t i = 0; i < model.count; i++) {
        work[i] = 99;
        change[i] = 8;
    }
    tern_masked_weigh(&model, &round_facts, 100, change);
    quantise(work, packed);
    decode(packed, sent);
    for (uint32_t i = 0; i < model.coded; i++) {
        assert_true(change[i] == (sent[i] != 0 ? 2 : 0));
    }
    round_facts.share = 1;
    round_facts.examples_max = 0;
    change[0] = 8;
    tern_masked_weigh(&model, &round_facts, 3, change);
    assert_true(change[0] == 8);
}

CASE_WITH(counters_of_a_whole_cohort_fit_32_bits, start, NULL)
{
    set_cohort(1000, 1);
    const struct tern_masked_training huge[] = {{UINT32_MAX, FLT_MAX}, {1, NAN}, {1, -5}};
    const uint32_t losses[] = {UINT32_MAX / 1000, UINT32_MAX / 1000, 0};
    for (size_t i = 0; i < 3; i++) {
        float work[VALUES_MAX] = {0};
        uint8_t packed[1024];
        assert_int_equal(tern_masked_quantise(&model, &round_facts, &huge[i], work, packed),
                         TERN_OK);
        assert_in_range(tern_get_le32(packed), 1, UINT32_MAX / 1000);
        assert_int_equal(tern_get_le32(packed + 4), losses[i]);
    }
}

CASE_WITH(scales_may_move_by_4_and_by_16_after_missed_rounds, start, NULL)
{
    const float before[4] = {1, 1, 1, 1};
    const struct {
        float scale;
        uint32_t before_round;
        bool near;
    } rows[] = {{4, 9, true},    {4.01f, 9, false},   {0.25f, 9, true},    {0.249f, 9, false},
                {8, 8, true},    {8.1f, 8, false},    {16, 7, true},       {16.1f, 7, false},
                {16, 1, true},   {16.1f, 1, false},   {0.0624f, 1, false}, {0, 9, false},
                {NAN, 9, false}, {INFINITY, 1, false}};
    round_facts.round = 10;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        scales[0] = scales[1] = scales[2] = 1;
        scales[3] = rows[i].scale;
        assert_int_equal(tern_masked_scales_are_near(&round_facts, before, rows[i].before_round),
                         rows[i].near);
    }
}

CASE_WITH(after_round_1_the_first_scales_are_rough, start, NULL)
{
    const float before[4] = {1, 1, 1, 1};
    scales[0] = scales[1] = scales[2] = 1;
    scales[3] = 1000; // a bias that was 0 when round 1 began
    round_facts.round = 2;
    assert_true(tern_masked_scales_are_near(&round_facts, before, 0));
    assert_false(tern_masked_scales_are_near(&round_facts, before, 1));
    round_facts.round = 1;
    assert_false(tern_masked_scales_are_near(&round_facts, before, 0));
}

CASE_WITH(the_first_scales_follow_weights_and_learning_rate, start, NULL)
{
    float weights[VALUES_MAX] = {0};
    float first[4];
    round_facts.learning_rate = 0.5f;
    round_facts.local_steps = 4;
    tern_masked_first_scales(&model, &round_facts, weights, first);
    for (size_t i = 0; i < 4; i++) {
        assert_true(first[i] == 0.02f); // 0.25 * 0.5 * 4 * 0.04
    }
    for (uint32_t i = 0; i < 41; i++) {
        weights[i] = i % 2 == 0 ? 0.25f : -0.25f;
    }
    weights[41] = 7;
    tern_masked_first_scales(&model, &round_facts, weights, first);
    const double whole = (41 * 0.25 + 7) / 55;
    const float expected[4] = {0.125f, 0.5f, (float)(0.5 * whole), (float)(0.5 * whole)};
    assert_memory_equal(first, expected, sizeof first);
}

// Each client's values are u^3 with u uniform in [-1, 1], so a scale of 1.458 makes one in ten of them different from zero.
CASE_WITH(scales_settle_where_one_value_in_ten_is_not_zero, start, NULL)
{
    const struct tern_masked_shape shape = {.tensors = 4, .values = 55, .bits = 11};
    set_cohort(1000, 1);
    round_facts.bits = shape.bits;
    tern_prng_init(&draws, 7, TERN_PRNG_TEST, 0, 0);
    for (size_t i = 0; i < 4; i++) {
        scales[i] = i == 0 ? 0.01f : 50.0f;
    }
    for (uint32_t r = 0; r < 40; r++) {
        uint8_t sum[1024] = {0};
        float next[4];
        for (uint32_t c = 0; c < 100; c++) {
            float work[VALUES_MAX] = {0};
            uint8_t packed[1024];
            for (uint32_t i = 0; i < model.coded; i++) {
                const float u = tern_prng_float(&draws) * 2 - 1;
                work[i] = u * u * u;
            }
            quantise(work, packed);
            tern_masked_add(&shape, sum, packed);
        }
        next_scales(sum, 100, next);
        for (size_t i = 0; i < 4; i++) {
            assert_true(next[i] <= scales[i] * 2 && next[i] >= scales[i] / 2);
        }
        memcpy(scales, next, sizeof next);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_true(scales[i] > 1.2f && scales[i] < 1.75f);
    }
}

// --- Groups

CASE(the_median_of_an_even_number_is_between_the_middle_two)
{
    double values[] = {5, -1, 3, 8, 8, 2, 0, 4, 1};
    assert_true(tern_masked_median(values, 1) == 5);
    assert_true(tern_masked_median(values, 2) == 2);
    assert_true(tern_masked_median(values, 3) == 3);
    assert_true(tern_masked_median(values, 4) == 4);
    assert_true(tern_masked_median(values, 9) == 3);
}

// Makes the sums of five groups of 7 clients with other values in each. sums: 1024 bytes for each.
static void make_parts(uint8_t sums[5][1024], struct tern_masked_part parts[5])
{
    set_cohort(35, 1);
    round_facts.groups = 5;
    round_facts.bits = tern_secure_bits(&round_facts);
    assert_int_equal(round_facts.bits, 4); // sums from -7 to 7
    const struct tern_masked_shape shape = tern_masked_shape_of(&model, &round_facts);
    tern_prng_init(&draws, 43, TERN_PRNG_TEST, 0, 0);
    for (uint32_t k = 0; k < 5; k++) {
        memset(sums[k], 0, sizeof sums[k]);
        for (uint32_t c = 0; c < 7; c++) {
            float work[VALUES_MAX];
            uint8_t packed[1024];
            draw_work(work);
            quantise(work, packed);
            tern_masked_add(&shape, sums[k], packed);
        }
        parts[k] = (struct tern_masked_part){sums[k], 7, 7};
    }
}

// Whatever one group sends, each value of the median stays between the least and the largest of the other groups.
CASE_WITH(one_group_moves_the_median_no_further_than_the_others, start, NULL)
{
    static uint8_t sums[5][1024];
    struct tern_masked_part parts[5];
    float means[5][VALUES_MAX];
    float median[VALUES_MAX];
    make_parts(sums, parts);
    const struct tern_masked_shape shape = tern_masked_shape_of(&model, &round_facts);
    memset(sums[2] + 4 * (2 + (size_t)shape.tensors), 0x77, 27); // 7, the largest sum
    for (uint32_t k = 0; k < 5; k++) {
        tern_masked_decode(&model, &round_facts, &parts[k], 1, means[k]);
    }
    tern_masked_decode(&model, &round_facts, parts, 5, median);
    uint32_t moved = 0;
    for (uint32_t i = 0; i < model.count; i++) {
        float honest[4] = {means[0][i], means[1][i], means[3][i], means[4][i]};
        float least = honest[0];
        float largest = honest[0];
        double all[5];
        for (uint32_t k = 0; k < 5; k++) {
            all[k] = (double)means[k][i];
            least = k < 4 && honest[k] < least ? honest[k] : least;
            largest = k < 4 && honest[k] > largest ? honest[k] : largest;
        }
        assert_true(median[i] >= least && median[i] <= largest);
        assert_true(median[i] == (float)tern_masked_median(all, 5));
        moved += means[2][i] > largest;
    }
    assert_true(moved > 40); // the lie is beyond all others nearly everywhere
}

// A group that claims many values, or none, does not move the next scales: they follow from the other groups.
CASE_WITH(one_group_does_not_set_the_next_scales, start, NULL)
{
    static uint8_t sums[5][1024];
    struct tern_masked_part parts[5];
    const uint32_t counters[5] = {400, 0, 200, 29, 300}; // of 287 values, in the first tensor
    float next[8];
    float expected[8];
    make_parts(sums, parts);
    for (uint32_t k = 0; k < 5; k++) {
        tern_put_le32(sums[k] + 8, counters[k]);
    }
    tern_masked_next_scales(&model, &round_facts, parts, 5, next);
    tern_masked_next_scales(&model, &round_facts, &parts[2], 1, expected);
    assert_true(next[0] == expected[0]);
    tern_put_le32(sums[0] + 8, UINT32_MAX);
    tern_masked_next_scales(&model, &round_facts, parts, 5, next);
    assert_true(next[0] == expected[0]);
}

CASE_WITH(a_model_with_dense_or_local_tensors_is_not_supported, start, NULL)
{
    static const enum tern_rule rules[] = {TERN_RULE_COMPRESS, TERN_RULE_FUSE, TERN_RULE_SKIP,
                                           TERN_RULE_DENSE, TERN_RULE_LOCAL};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        tern_model_clear(&model);
        add_tensor("weight", 41, TERN_RULE_COMPRESS);
        add_tensor("another", 5, rules[i]);
        assert_int_equal(tern_model_layout(&model), TERN_OK);
        assert_int_equal(tern_masked_supports(&model), i < 3);
    }
}

CASE_WITH(the_largest_counter_is_the_values_of_a_sent_tensor, start, NULL)
{
    assert_int_equal(tern_masked_counter_most(&model, 1), 41); // of `weight`
    assert_int_equal(tern_masked_counter_most(&model, 4), 12); // 41 / 4, and a group at each end
    tern_model_clear(&model);
    add_tensor("large", 100, TERN_RULE_SKIP);
    add_tensor("bias", 2, TERN_RULE_FUSE);
    assert_int_equal(tern_masked_counter_most(&model, 1), 2);
    assert_int_equal(tern_masked_counter_most(&model, 10), 2);
}

CASE_WITH(the_hash_of_weights_is_that_of_all_their_bytes, start, NULL)
{
    float weights[VALUES_MAX];
    uint8_t bytes[4 * VALUES_MAX];
    uint8_t expected[TERN_SHA256_SIZE];
    uint8_t hash[TERN_SHA256_SIZE];
    add_tensor("more", 321, TERN_RULE_COMPRESS);
    assert_int_equal(tern_model_layout(&model), TERN_OK);
    draw_work(weights);
    for (uint32_t i = 0; i < model.count; i++) {
        tern_put_f32(bytes + 4 * (size_t)i, weights[i]);
    }
    tern_sha256(bytes, 4 * (size_t)model.count, expected);
    tern_masked_weights_hash(&model, weights, hash);
    assert_memory_equal(hash, expected, sizeof hash);
}

// --- Rounds with noise

static void set_noise(uint32_t cohort, uint32_t places_max, uint32_t noise)
{
    round_facts.places_max = places_max;
    round_facts.noise = noise;
    set_cohort(cohort, 1);
}

CASE_WITH(with_noise_no_counter_shows_more_than_its_bound, start, NULL)
{
    uint8_t packed[1024];
    set_noise(100, 22, 1000); // 22 of 55 places
    assert_int_equal(tern_secure_counter_max(&round_facts), 1);
    set_noise(100, 4000, 1000);
    const uint32_t most = tern_secure_counter_max(&round_facts);
    assert_int_equal(most, 6);
    float work[VALUES_MAX] = {0};
    quantise(work, packed);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(tern_get_le32(packed + 4 * (size_t)i), 0);
    }
    for (uint32_t i = 0; i < model.coded; i++) {
        work[i] = 100;
    }
    quantise(work, packed);
    assert_int_equal(tern_get_le32(packed), 0); // examples and loss
    assert_int_equal(tern_get_le32(packed + 4), 0);
    for (uint32_t i = 2; i < 6; i++) {
        assert_int_equal(tern_get_le32(packed + 4 * (size_t)i), most / 2);
    }
    for (uint32_t i = 0; i < model.coded; i++) {
        work[i] =
            i % 2 == 0 ? 100 : 0; // the target is all values, which half of the bound stands for
    }
    quantise(work, packed);
    assert_int_equal(tern_get_le32(packed + 8),
                     2); // 21 of the 41 values are not zero: 6 * 21 / 41 / 2
}

// The squared norm of every update, counters included, is at most the one that the noise is drawn for.
CASE_WITH(no_update_has_a_larger_norm_than_the_noise_is_for, start, NULL)
{
    uint8_t packed[1024];
    tern_prng_init(&draws, 41, TERN_PRNG_TEST, 0, 0);
    for (uint32_t i = 0; i < 200; i++) {
        set_noise(100, 1 + i % 60, 1000);
        const struct tern_masked_shape shape = tern_masked_shape_of(&model, &round_facts);
        float work[VALUES_MAX];
        float before[VALUES_MAX];
        uint64_t square = 0;
        draw_work(work);
        memcpy(before, work, sizeof before);
        quantise(work, packed);
        for (uint32_t k = 0; k < 6; k++) {
            const uint64_t counter = tern_get_le32(packed + 4 * (size_t)k);
            square += counter * counter;
        }
        for (uint32_t k = 0; k < shape.values; k++) {
            const int32_t value = tern_masked_value(&shape, packed, k);
            square += (uint64_t)(value * value);
        }
        assert_true(square <= tern_secure_variance(&round_facts));
        // Nothing is lost: what was not sent is in the error buffer, to the bit of the sum.
        struct tern_error_buffer buffer = {TERN_ERROR_FLOAT32, (uint8_t *)work, model.coded};
        tern_masked_give_back(&model, &round_facts, packed, &buffer);
        for (uint32_t k = 0; k < model.coded; k++) {
            assert_true(fabsf(work[k] - before[k]) < 1e-5f);
        }
    }
}

static enum tern_result draw_bytes(void *dst, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        ((uint8_t *)dst)[i] = (uint8_t)tern_prng_below(&draws, 256);
    }
    return TERN_OK;
}

CASE_WITH(noise_is_on_values_and_counters_of_tensors_alone, start, NULL)
{
    struct tern_gaussian gaussian;
    uint8_t noise[VALUES_MAX * 4];
    add_tensor("more", 1900, TERN_RULE_COMPRESS);
    assert_int_equal(tern_model_layout(&model), TERN_OK);
    tern_prng_init(&draws, 42, TERN_PRNG_TEST, 0, 0);
    round_facts.scale_count = 5;
    set_noise(100, 1000, 1000);
    const struct tern_masked_shape shape = tern_masked_shape_of(&model, &round_facts);
    const double variance = (double)tern_secure_variance(&round_facts);
    tern_gaussian_start(&gaussian, tern_secure_variance(&round_facts), draw_bytes);
    assert_int_equal(tern_masked_draw_noise(&shape, &gaussian, noise), TERN_OK);
    assert_int_equal(tern_masked_check(&shape, noise, tern_masked_size(&shape)), TERN_OK);
    assert_int_equal(tern_get_le32(noise), 0);
    assert_int_equal(tern_get_le32(noise + 4), 0);
    uint32_t counters = 0;
    for (uint32_t i = 2; i < 7; i++) {
        counters += tern_get_le32(noise + 4 * (size_t)i) != 0;
    }
    assert_true(counters >= 4);
    double square = 0;
    for (uint32_t i = 0; i < shape.values; i++) {
        const int32_t value = tern_masked_value(&shape, noise, i);
        square += (double)value * value;
    }
    assert_true(fabs(square / shape.values / variance - 1) < 4.5 * sqrt(2.0 / shape.values));
}

CASE_WITH(sums_that_noise_cannot_explain_are_refused, start, NULL)
{
    uint8_t sum[1024] = {0};
    set_noise(100, 10, 1000);
    const struct tern_masked_shape shape = tern_masked_shape_of(&model, &round_facts);
    const uint32_t bound = (uint32_t)tern_gaussian_bound(tern_secure_variance(&round_facts));
    uint8_t *first = sum + 4 * (2 + (size_t)shape.tensors);
    assert_true(shape.bits == 9 && 100 + bound < 255);
    tern_put_le32(first, 100 + bound);
    assert_true(tern_masked_sum_is_possible(&model, &round_facts, sum, 100));
    assert_false(tern_masked_sum_is_possible(&model, &round_facts, sum, 99));
    tern_put_le32(first, 0);
    tern_put_le32(sum, 1); // an update under another mask has other examples
    assert_false(tern_masked_sum_is_possible(&model, &round_facts, sum, 100));
    tern_put_le32(sum, 0);
    tern_put_le32(sum + 4, UINT32_MAX);
    assert_false(tern_masked_sum_is_possible(&model, &round_facts, sum, 100));
}

CASE_WITH(scales_follow_noisy_counters_within_their_limits, start, NULL)
{
    uint8_t sum[1024] = {0};
    float next[8];
    set_noise(100, 4000, 100); // the largest counter is 6, and half of it stands for the target
    const double gain = 0.5 * (90000.0 / (90000.0 + 42)); // (4000 + 4 * 36) / 100, rounded up
    assert_int_equal(tern_secure_variance(&round_facts), 42);
    tern_put_le32(sum + 8, 300);
    tern_put_le32(sum + 12, 600);
    tern_put_le32(sum + 16, (uint32_t)-40); // noise
    tern_put_le32(sum + 20, 100000);
    next_scales(sum, 100, next);
    assert_true(next[0] == scales[0] && next[1] == (float)((1 + gain) * (double)scales[1]) &&
                next[2] == (float)((1 - gain) * (double)scales[2]) && next[3] == 2 * scales[3]);
}

// Scales do not walk at random where counters are mostly noise.
CASE_WITH(scales_follow_less_the_more_noise_there_is, start, NULL)
{
    uint8_t sum[1024] = {0};
    float next[8];
    set_noise(50, 25, 10000); // counters of 0 and 1, with noise of 10 * sqrt(29)
    tern_put_le32(sum + 8, 54);
    tern_put_le32(sum + 12, (uint32_t)-54);
    next_scales(sum, 50, next);
    assert_true(next[0] > scales[0] && next[0] < 1.16f * scales[0]);
    assert_true(next[1] < scales[1] && next[1] > 0.85f * scales[1]);
}

CASE_WITH(steps_become_smaller_where_noise_is_larger_than_the_sum, start, NULL)
{
    uint8_t sum[1024] = {0};
    float change[VALUES_MAX];
    const struct tern_masked_part part = {sum, 30, 30};
    set_noise(30, 25, 0);
    const struct tern_masked_shape shape = tern_masked_shape_of(&model, &round_facts);
    tern_put_le32(sum + 4 * (2 + (size_t)shape.tensors), 7); // the first value, of the scale 0.5
    tern_masked_decode(&model, &round_facts, &part, 1, change);
    assert_true(change[0] == (float)(3.5 / 30));
    round_facts.noise = 4000; // without other bits: 4 * sqrt(55) is as large as 30
    tern_masked_decode(&model, &round_facts, &part, 1, change);
    assert_true(fabsf(change[0] - (float)(3.5 / sqrt(900 + 16 * 55))) < 1e-7f);
}

CASE_WITH(at_most_places_max_values_are_not_zero, start, NULL)
{
    set_cohort(10, 2);
    for (uint32_t most = 1; most <= 60; most++) {
        round_facts.places_max = most;
        float work[VALUES_MAX] = {0};
        for (uint32_t i = 0; i < model.coded; i++) {
            work[i] = i % 3 == 0 ? 0.6f : 0.5f + (float)i; // ties, of which the first ones stay
        }
        work[2] = 0.1f; // rounds to 0, and counts for nothing
        float before[VALUES_MAX];
        memcpy(before, work, sizeof before);
        uint8_t packed[1024];
        quantise(work, packed);
        uint32_t count = 0;
        float least = FLT_MAX;
        float most_left = 0;
        for (uint32_t i = 0; i < 41; i++) { // the first tensor, with scale 0.5
            const bool is_sent = work[i] != before[i];
            least = is_sent && before[i] < least ? before[i] : least;
            most_left = !is_sent && before[i] > most_left && i != 2 ? before[i] : most_left;
        }
        for (uint32_t i = 0; i < model.coded; i++) {
            count += work[i] != before[i];
        }
        assert_int_equal(count, most < 49 ? most : 49); // 49 values do not round to 0
        assert_true(least >= most_left);
    }
}
