// Runs the cases of a file; cases.h writes them.
#ifndef TERN_TEST_RUN_CASES_H
#define TERN_TEST_RUN_CASES_H

#include "tests/asserts.h"

struct listed_case {
    struct CMUnitTest test;
    int line;
    struct listed_case *next;
};

// The cases of a file, and what is done before the first and after the last of them; NULL where nothing is.
struct listed_cases {
    struct listed_case *first;
    size_t count;
    CMFixtureFunction set_up, tear_down;
};

// Adds a case in the order of lines.
void test_cases_add(struct listed_cases *cases, struct listed_case *one);
// Returns how many cases failed. `file` names the group in the output.
int test_cases_run(const struct listed_cases *cases, const char *file);

#endif
