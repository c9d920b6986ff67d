// Which values are picked, against a search that knows nothing of selections.
#include "lgc/plan.h"
#include "tests/cases.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

static struct tern_model model_of(const char *spec)
{
    struct tern_model model;
    assert_int_equal(tern_model_from_spec(&model, spec), TERN_OK);
    return model;
}

CASE(tensors_have_their_parts)
{
    static struct tern_lgc_plan plan;
    const struct tern_model model = model_of("mlp:64-16-40");
    assert_int_equal(tern_lgc_plan_make(&model, 0.05f, &plan), TERN_OK);
    // fc1 has 1024 values, fc2 640, the biases 16 + 40.
    assert_int_equal(plan.count, 1024 + 640 + 56);
    assert_int_equal(plan.learned, 52); // ceil(51.2)
    assert_int_equal(plan.plain, 32);
    assert_int_equal(plan.exact, 56);
    assert_int_equal(plan.parts[0].role, TERN_LGC_LEARNED);
    assert_int_equal(plan.parts[0].first, 32); // behind the plain ones
    assert_int_equal(plan.parts[1].role, TERN_LGC_PLAIN);
    assert_int_equal(plan.parts[1].first, 0);
    assert_int_equal(plan.parts[2].role, TERN_LGC_EXACT);
}

CASE(a_model_without_a_learned_tensor_is_refused)
{
    static struct tern_lgc_plan plan;
    const struct tern_model one = model_of("softmax:64-40");
    const struct tern_model two = model_of("mlp:64-16-40");
    assert_int_equal(tern_lgc_plan_make(&one, 0.05f, &plan), TERN_ERR_ARGUMENT);
    assert_int_equal(tern_lgc_plan_make(&two, 0, &plan), TERN_ERR_ARGUMENT);
    assert_int_equal(tern_lgc_plan_make(&two, NAN, &plan), TERN_ERR_ARGUMENT);
    assert_int_equal(tern_lgc_plan_make(&two, 1.5f, &plan), TERN_ERR_ARGUMENT);
}

// How many of a part's values come before value i: larger ones, and as large ones of lower index.
static uint32_t rank_of(const float *values, const struct tern_lgc_part *part, uint32_t i)
{
    uint32_t before = 0;
    for (uint32_t k = part->offset; k < part->offset + part->count; k++) {
        const float mine = fabsf(values[i]);
        const float other = fabsf(values[k]);
        before += other > mine || (other == mine && k < i);
    }
    return before;
}

static void check_picks(const struct tern_lgc_plan *plan, const float *values, const uint32_t *at)
{
    for (uint32_t p = 0; p < plan->part_count; p++) {
        const struct tern_lgc_part *part = &plan->parts[p];
        uint32_t next = part->first;
        for (uint32_t i = part->offset;
             part->role != TERN_LGC_EXACT && i < part->offset + part->count; i++) {
            if (rank_of(values, part, i) < part->picks) {
                assert_int_equal(at[next], i);
                next++;
            }
        }
        assert_int_equal(next,
                         part->role != TERN_LGC_EXACT ? part->first + part->picks : part->first);
    }
}

CASE(the_largest_of_each_tensor_are_picked)
{
    static struct tern_lgc_plan plan;
    static float values[1720];
    uint64_t words[1024 / 64];
    uint32_t at[84];
    const struct tern_model model = model_of("mlp:64-16-40");
    assert_int_equal(tern_lgc_plan_make(&model, 0.05f, &plan), TERN_OK);
    assert_true(tern_lgc_pick_words(&plan) <= sizeof words / sizeof words[0]);
    for (uint32_t i = 0; i < plan.count; i++) {
        values[i] = (float)((int)(i * 7919u % 997) - 498); // with ties
    }
    tern_lgc_pick(&plan, values, words, at);
    check_picks(&plan, values, at);
    // Where too few are not 0, zeros from the first on: as many as ever are picked.
    memset(values, 0, sizeof values);
    values[1000] = -3;
    values[1030] = 2;
    tern_lgc_pick(&plan, values, words, at);
    check_picks(&plan, values, at);
    assert_int_equal(at[plan.plain + plan.learned - 1], 1000);
}

CASE(exact_values_come_back_to_their_places)
{
    static struct tern_lgc_plan plan;
    static float values[1720];
    static float back[1720];
    float exact[56];
    const struct tern_model model = model_of("mlp:64-16-40");
    assert_int_equal(tern_lgc_plan_make(&model, 0.05f, &plan), TERN_OK);
    for (uint32_t i = 0; i < plan.count; i++) {
        values[i] = (float)i;
    }
    tern_lgc_exact_of(&plan, values, exact);
    assert_true(exact[0] == 1664 && exact[55] == 1719);
    tern_lgc_exact_to(&plan, exact, back);
    assert_true(back[1663] == 0 && back[1664] == 1664 && back[1719] == 1719);
}
