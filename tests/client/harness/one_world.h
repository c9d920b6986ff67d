// The one world of a test program, for programs whose every test starts in a fresh one. After
// cmocka.h.
#ifndef TERN_TEST_ONE_WORLD_H
#define TERN_TEST_ONE_WORLD_H

#include "client/harness/world.h"
#include "tests/asserts.h"

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

// So many rounds at the server, each with a change of its own.
static inline void commit(int rounds)
{
    float change[WORLD_VALUES];
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < WORLD_VALUES; i++) {
            change[i] = (float)((i * 7 + r * 3) % 11 - 5) / 64.0f;
        }
        fake_server_commit(&world.server, change);
    }
}

static inline void run_until(enum tern_client_event_kind kind, struct tern_client_event *event)
{
    const enum tern_result result = world_run_until(&world, kind, event);
    assert_true(result == TERN_OK || result == TERN_AGAIN);
}

#endif
