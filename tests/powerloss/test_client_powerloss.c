// Cuts the power at every write of the client's store, before and after it took effect, and at
// every answer of the aggregator, over a run with lost replies, late rounds, rejections and
// directives. After each restart, and at the end, the conservation equation holds exactly.
#include "client/harness/world.h"
#include "tests/cases.h"

#include <string.h>

#define RUNS_MAX 1000

static struct world world;

// What the client keeps, and how: dyadic changes stay exact in all but int8.
struct variant {
    const char *codec;
    enum tern_error_storage storage;
    double room;  // 9 rounds of changes within [-1, 1], stored twice or thrice each
    bool at_once; // records are saved as a whole, not in pieces
};

static const struct variant plain = {.codec = "3lc:s=1", .storage = TERN_ERROR_FLOAT32};
static const struct variant at_once = {
    .codec = "3lc:s=1", .storage = TERN_ERROR_FLOAT32, .at_once = true};
static const struct variant small = {
    .codec = "3lc:s=1", .storage = TERN_ERROR_INT8, .room = 9 * 3 * 4 / 253.0};
static const struct variant with_velocity = {.codec = "dgc:p=0.01,momentum=0,warmup=0",
                                             .storage = TERN_ERROR_FLOAT32};
// A sixth of the model is local: it is kept, whole, with the round whose training moved it.
static const struct variant with_local = {.codec = "3lc:s=1", .storage = TERN_ERROR_FLOAT32};
static const struct variant *variant = &plain;

static void bring_local_model(void)
{
    static struct tern_model made;
    const uint32_t local = WORLD_VALUES / 6;
    const uint32_t others = WORLD_VALUES - local;
    tern_model_clear(&made);
    assert_int_equal(tern_model_add_by_rule(&made, "head", &local, 1, TERN_RULE_LOCAL), TERN_OK);
    assert_int_equal(tern_model_add_by_rule(&made, "body", &others, 1, TERN_RULE_COMPRESS),
                     TERN_OK);
    world_bring_model(&world, &made);
}

static void write_script(struct fake_server *server)
{
    server->target = 9;
    server->codec = variant->codec;
    server->next_in_reply = true;
    server->faults[2] = FAULT_LOSE_REPLY;
    server->faults[3] = FAULT_LATE;
    server->faults[4] = FAULT_REJECT;
    server->faults[5] = FAULT_LOSE_REQUEST;
    server->faults[6] = FAULT_LATE_LOST_REPLY;
    server->faults[7] = FAULT_BAD_REPLY;
    server->directives[5] = tern_ErrorDirective_ERROR_DECAY;
    server->directives[8] = tern_ErrorDirective_ERROR_RESET;
}

// Starts again after a cut. The cut may have hit the restart's own writes.
static void boot(void)
{
    for (int i = 0; i < 3; i++) {
        if (world_boot(&world) == TERN_OK) {
            return;
        }
        assert_true(world.power_off); // nothing else may make a start fail
    }
    fail_msg("the client does not start any more");
}

// Runs to the end; returns whether the power was cut on the way.
static bool run(void)
{
    boot();
    world_run_until(&world, TERN_EVENT_FINISHED, NULL);
    const bool was_cut = world.power_off;
    if (was_cut) {
        boot();
        world_check_conservation_within(&world, variant->room);
        world_run_until(&world, TERN_EVENT_FINISHED, NULL);
    }
    assert_false(world.power_off);
    assert_int_equal(tern_client_phase(&world.client), TERN_PHASE_FINISHED);
    assert_int_equal(world.server.version, world.server.target);
    assert_int_equal(world.exchanges_off, 0);
    assert_int_equal(tern_client_pending(&world.client)->len, 0);
    world_check_conservation_within(&world, variant->room);
    world_check_replica(&world);
    return was_cut;
}

static void cut_at_every_write(const struct variant *chosen, bool after)
{
    size_t cut_at = 1;
    variant = chosen;
    for (bool was_cut = true; was_cut; cut_at++) {
        assert_true(cut_at < RUNS_MAX);
        world_init(&world);
        if (variant == &with_local) {
            bring_local_model();
        }
        write_script(&world.server);
        world.config.budget_per_month = 1u << 30; // the meter's writes are cut, too
        world.error_storage = variant->storage;
        if (variant->at_once) {
            world_save_at_once(&world);
        }
        world.inexact = variant->room != 0;
        world.store.cut_at = cut_at;
        world.store.cut_after = after;
        // A cut of the very first writes is one of the enrolment.
        was_cut = run() || world.store.writes >= cut_at;
        world_free(&world);
    }
    assert_true(cut_at > 25);
}

CASE(cut_before_every_write)
{
    cut_at_every_write(&plain, false);
}

CASE(cut_after_every_write)
{
    cut_at_every_write(&plain, true);
}

CASE(cut_with_records_as_a_whole)
{
    cut_at_every_write(&at_once, false);
    cut_at_every_write(&at_once, true);
    variant = &plain;
}

CASE(cut_with_a_small_buffer)
{
    cut_at_every_write(&small, false);
    cut_at_every_write(&small, true);
    variant = &plain;
}

CASE(cut_with_a_velocity)
{
    cut_at_every_write(&with_velocity, false);
    cut_at_every_write(&with_velocity, true);
    variant = &plain;
}

CASE(cut_with_local_tensors)
{
    cut_at_every_write(&with_local, false);
    cut_at_every_write(&with_local, true);
    variant = &plain;
}

CASE(cut_at_every_answer)
{
    size_t cut_at = 2; // 1 is the enrolment, which is then done again
    for (bool was_cut = true; was_cut; cut_at++) {
        assert_true(cut_at < RUNS_MAX);
        world_init(&world);
        write_script(&world.server);
        world.cut_exchange_at = cut_at;
        was_cut = run();
        world_free(&world);
    }
    assert_true(cut_at > 20);
}

// Two cuts in one run, at every pair of writes near each other: a restart that is cut as well.
CASE(cut_twice)
{
    for (size_t first = 2; first < 40; first++) {
        for (size_t gap = 1; gap <= 3; gap++) {
            world_init(&world);
            write_script(&world.server);
            world.store.cut_at = first;
            world.store.cut_after = gap % 2 == 0;
            boot();
            world_run_until(&world, TERN_EVENT_FINISHED, NULL);
            if (world.power_off) {
                world.store.cut_at = first + gap;
                world.store.cut_after = first % 2 == 0;
            }
            run();
            world_free(&world);
        }
    }
}
