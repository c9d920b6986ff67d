// What is cheap to refuse is refused before an update's container is read: a hostile one costs the
// aggregator nothing unless it may count.
#include "harness.h"
#include "tests/cases.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// --- How often a container was read (the linker puts these in between)

static atomic_uint inspections;

enum tern_result __real_tern_reading_make(struct tern_reading_room *room,
                                          const struct tern_model *model, const uint8_t *container,
                                          size_t len, struct tern_codec_info *info,
                                          struct tern_reading **reading);
enum tern_result __wrap_tern_reading_make(struct tern_reading_room *room,
                                          const struct tern_model *model, const uint8_t *container,
                                          size_t len, struct tern_codec_info *info,
                                          struct tern_reading **reading);

enum tern_result __wrap_tern_reading_make(struct tern_reading_room *room,
                                          const struct tern_model *model, const uint8_t *container,
                                          size_t len, struct tern_codec_info *info,
                                          struct tern_reading **reading)
{
    atomic_fetch_add(&inspections, 1);
    return __real_tern_reading_make(room, model, container, len, info, reading);
}

// --- A round of two, and a third client that was invited but has no task

struct fixture {
    struct harness harness;
    uint8_t *body;
    size_t len;
};

static struct fixture fixture;

static int setup(void **state)
{
    (void)state;
    struct harness *harness = &fixture.harness;
    harness_make(harness);
    harness->config.federation.round.over_selection = 0.5;
    harness->config.federation.min_clients = 3;
    harness_start(harness);
    for (int i = 0; i < 3; i++) {
        enroll(harness, false);
    }
    tern_CheckinReply next = checkin(harness, 1, NULL);
    fixture.len = encode_update(harness, &next.task, 1.0F, 10, &fixture.body);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(fixture.body);
    harness_free(&fixture.harness);
    return 0;
}

// Sends it and tells how often a container was read on the way.
static unsigned put(uint64_t client, uint32_t round, int status, enum tern_result name)
{
    atomic_store(&inspections, 0);
    struct answer answer =
        put_update(&fixture.harness, client, round, 1, fixture.body, fixture.len);
    assert_int_equal(answer.status, status);
    assert_int_equal(answer_error_name(&answer), name);
    answer_free(&answer);
    return atomic_load(&inspections);
}

// The container loses its last byte.
static void damage(void)
{
    tern_Update update;
    struct tern_span container;
    uint8_t *damaged = malloc(fixture.len);
    size_t len = 0;
    assert_non_null(damaged);
    assert_int_equal(tern_wire_decode_update(fixture.body, fixture.len, &update, &container),
                     TERN_OK);
    container.len--;
    assert_int_equal(tern_wire_encode_update(&update, container, damaged, fixture.len, &len),
                     TERN_OK);
    free(fixture.body);
    fixture.body = damaged;
    fixture.len = len;
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_damaged_container_is_read_of_a_member_only)
{
    uint64_t evaluator = enroll(&fixture.harness, true);
    damage();
    assert_int_equal(put(1, 9, 422, TERN_ERR_UNKNOWN_ROUND), 0);
    assert_int_equal(put(1, 2, 422, TERN_ERR_UNKNOWN_ROUND), 0);
    assert_int_equal(put(2, 1, 422, TERN_ERR_NOT_IN_COHORT), 0); // it has no task yet
    assert_int_equal(put(evaluator, 1, 422, TERN_ERR_NOT_IN_COHORT), 0);
    assert_int_equal(put(1, 1, 422, TERN_ERR_CORRUPT), 1);
    (void)checkin(&fixture.harness, 2, NULL);
    assert_int_equal(put(2, 1, 422, TERN_ERR_CORRUPT), 1);
}

TEST(test_what_is_there_already_is_compared_and_not_read)
{
    assert_int_equal(put(1, 1, 200, TERN_OK), 1);
    assert_int_equal(put(1, 1, 200, TERN_OK), 0);
    harness_restart(&fixture.harness);
    assert_int_equal(put(1, 1, 200, TERN_OK), 0);
    damage();
    assert_int_equal(put(1, 1, 409, TERN_ERR_CONFLICT), 0);
}

TEST(test_late_update_is_not_read)
{
    do_round(&fixture.harness, 2, NULL, 1.0F);
    do_round(&fixture.harness, 3, NULL, 1.0F);
    damage();
    assert_int_equal(put(1, 1, 410, TERN_ERR_LATE), 0);
    harness_restart(&fixture.harness);
    assert_int_equal(put(1, 1, 410, TERN_ERR_LATE), 0);
}
