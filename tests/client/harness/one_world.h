// The one world of a test program, for programs whose every test starts in a fresh one. After
// cmocka.h.
#ifndef TERN_TEST_ONE_WORLD_H
#define TERN_TEST_ONE_WORLD_H

#include "client/harness/world.h"

static struct world world;

static inline int tear_down(void **state)
{
    (void)state;
    world_free(&world);
    return 0;
}

static inline void boot(void)
{
    assert_int_equal(world_boot(&world), TERN_OK);
}

static inline void run_until(enum tern_client_event_kind kind, struct tern_client_event *event)
{
    const enum tern_result result = world_run_until(&world, kind, event);
    assert_true(result == TERN_OK || result == TERN_AGAIN);
}

#endif
