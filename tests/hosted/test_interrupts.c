// Which signals end a program's work, and that one started by nohup stays.
#include "hosted/interrupts.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void expect(int number, int interrupted)
{
    tern_interrupted = 0;
    assert_int_equal(raise(number), 0);
    assert_int_equal(tern_interrupted, interrupted);
}

static void each_signal_is_noted(void **state)
{
    (void)state;
    signal(SIGHUP, SIG_DFL);
    tern_interrupts_catch();
    expect(SIGINT, 1);
    expect(SIGTERM, 1);
    expect(SIGHUP, 1);
    expect(SIGPIPE, 0);
}

static void a_terminal_that_closes_is_ignored_under_nohup(void **state)
{
    (void)state;
    signal(SIGHUP, SIG_IGN);
    tern_interrupts_catch();
    expect(SIGHUP, 0);
    expect(SIGTERM, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_signal_is_noted),
        cmocka_unit_test(a_terminal_that_closes_is_ignored_under_nohup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
