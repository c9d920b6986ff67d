// What a strategy carries from round to round: what store.h promises of it.
#include "store/fixture.h"
#include "tests/cases.h"

#include <stdlib.h>
#include <string.h>

#define PART (1u << 18)

static float *ramp(uint32_t count, float step)
{
    float *values = malloc(count * sizeof *values);
    for (uint32_t i = 0; i < count; i++) {
        values[i] = step * (float)i;
    }
    return values;
}

static void put(struct fixture *f, const char *name, uint32_t version, uint32_t count, float step)
{
    float *values = ramp(count, step);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_state_put(f->db, name, version, values, count));
    assert_ok(f, tern_db_commit(f->db));
    free(values);
}

static enum tern_result get(struct fixture *f, const char *name, uint32_t version, uint32_t count,
                            float step)
{
    float *expected = ramp(count, step);
    float *got = malloc(count * sizeof *got);
    enum tern_result result = tern_db_state_get(f->db, name, version, got, count);
    if (result == TERN_OK) {
        assert_memory_equal(got, expected, count * sizeof *got);
    }
    free(expected);
    free(got);
    return result;
}

CASE_WITH(states_are_kept_by_name_and_version, fixture_setup, fixture_teardown)
{
    struct fixture *f = *state;
    put(f, "m", 1, 1000, 0.5F);
    put(f, "v", 1, 1000, 0.25F);
    put(f, "m", 2, 1000, 0.125F);
    put(f, "v", 1, 1000, 0.75F); // replaces
    fixture_reopen(f);
    assert_ok(f, get(f, "m", 1, 1000, 0.5F));
    assert_ok(f, get(f, "m", 2, 1000, 0.125F));
    assert_ok(f, get(f, "v", 1, 1000, 0.75F));
    assert_int_equal(get(f, "v", 2, 1000, 0.75F), TERN_ERR_NOT_FOUND);
    assert_int_equal(get(f, "w", 1, 1000, 0.5F), TERN_ERR_NOT_FOUND);
}

CASE_WITH(states_may_span_parts, fixture_setup, fixture_teardown)
{
    struct fixture *f = *state;
    put(f, "m", 1, 2 * PART + 1, 0.5F);
    assert_ok(f, get(f, "m", 1, 2 * PART + 1, 0.5F));
    put(f, "m", 2, PART, 0.25F);
    assert_ok(f, get(f, "m", 2, PART, 0.25F));
}

CASE_WITH(other_versions_are_forgotten, fixture_setup, fixture_teardown)
{
    struct fixture *f = *state;
    const float weight = 1.0F;
    bool more = true;
    put(f, "m", 1, 10, 0.5F);
    put(f, "v", 2, 10, 0.25F);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_weights_put(f->db, TERN_WEIGHTS_GLOBAL, 2, &weight, 1));
    while (more) {
        assert_ok(f, tern_db_checkpoint_drop_some(f->db, &more));
    }
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(get(f, "m", 1, 10, 0.5F), TERN_ERR_NOT_FOUND);
    assert_ok(f, get(f, "v", 2, 10, 0.25F));
}

CASE_WITH(writes_need_a_transaction, fixture_setup, fixture_teardown)
{
    struct fixture *f = *state;
    const float value = 1.0F;
    assert_int_equal(tern_db_state_put(f->db, "m", 1, &value, 1), TERN_ERR_STATE);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_state_put(f->db, "m", 1, &value, 1));
    tern_db_rollback(f->db);
    assert_int_equal(get(f, "m", 1, 1, 1.0F), TERN_ERR_NOT_FOUND);
}

// A model of another size, and one of more parts than are there.
CASE_WITH(what_is_not_whole_is_damage, fixture_setup, fixture_teardown)
{
    struct fixture *f = *state;
    put(f, "m", 1, 10, 0.5F);
    assert_int_equal(get(f, "m", 1, 11, 0.5F), TERN_ERR_IO);
    assert_true(tern_db_damaged(f->db));
}
