// Tests of one file, each written once:
//
//   CASE(a_round_opens)                                  CASE_WITH(a_round_opens, set_up, tear_down)
//   {                                                    {
//       assert_true(open_round());                           struct fixture *f = *state;
//   }                                                    }
//
// A file with cases needs no list of them and no main(): cases run in the order in which they are written. One that does
// more than run them defines TERN_CASES_OWN_MAIN in front of this header, and calls test_cases_run().
#ifndef TERN_TEST_CASES_H
#define TERN_TEST_CASES_H

#include "tests/run_cases.h"

static struct listed_cases cases_of_this_file;

// `set_up` and `tear_down` of each case may be NULL.
#define CASE_WITH(name, set_up_case, tear_down_case)                                               \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void add_##name(void)                                      \
    {                                                                                              \
        static struct listed_case listed_case = {                                                  \
            .test = {#name, name, set_up_case, tear_down_case, NULL}, .line = __LINE__};           \
        test_cases_add(&cases_of_this_file, &listed_case);                                         \
    }                                                                                              \
    static void name(void **state __attribute__((unused)))

#define CASE(name) CASE_WITH(name, NULL, NULL)

// What all cases of the file share; either may be NULL.
#define CASES_SHARE(set_up_all, tear_down_all)                                                     \
    __attribute__((constructor)) static void share_fixture(void)                                   \
    {                                                                                              \
        cases_of_this_file.set_up = set_up_all;                                                    \
        cases_of_this_file.tear_down = tear_down_all;                                              \
    }

#ifndef TERN_CASES_OWN_MAIN
int main(void)
{
    return test_cases_run(&cases_of_this_file, __BASE_FILE__);
}
#endif

#endif
