#include "tests/run_cases.h"

#include <stdlib.h>

void test_cases_add(struct listed_cases *cases, struct listed_case *one)
{
    struct listed_case **at = &cases->first;
    while (*at != NULL && (*at)->line < one->line) {
        at = &(*at)->next;
    }
    one->next = *at;
    *at = one;
    cases->count++;
}

int test_cases_run(const struct listed_cases *cases, const char *file)
{
    struct CMUnitTest *tests = calloc(cases->count, sizeof *tests);
    if (tests == NULL) {
        return 1;
    }
    size_t count = 0;
    for (const struct listed_case *one = cases->first; one != NULL; one = one->next) {
        tests[count++] = one->test;
    }
    const int failed = _cmocka_run_group_tests(file, tests, count, cases->set_up, cases->tear_down);
    free(tests);
    return failed;
}
