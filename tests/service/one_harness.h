// The one harness of a test program, for programs whose every test starts with a fresh service. After
// cmocka.h.
#ifndef TERN_TEST_ONE_HARNESS_H
#define TERN_TEST_ONE_HARNESS_H

#include "harness.h"

static struct harness harness;

static inline int setup(void **state)
{
    (void)state;
    harness_make(&harness);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    harness_free(&harness);
    return 0;
}

#endif
