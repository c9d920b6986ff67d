// Which signals end a program's work, and that one started by nohup stays.
#include "hosted/host.h"
#include "tests/cases.h"

static void expect(int number, int interrupted)
{
    tern_interrupted = 0;
    assert_int_equal(raise(number), 0);
    assert_int_equal(tern_interrupted, interrupted);
}

CASE(each_signal_is_noted)
{
    signal(SIGHUP, SIG_DFL);
    tern_interrupts_catch();
    expect(SIGINT, 1);
    expect(SIGTERM, 1);
    expect(SIGHUP, 1);
    expect(SIGPIPE, 0);
}

static volatile sig_atomic_t calls;

static void count_call(void)
{
    calls++;
}

CASE(handler_calls_what_ends_a_transfer)
{
    tern_interrupts_call(count_call);
    tern_interrupts_catch();
    expect(SIGTERM, 1);
    expect(SIGINT, 1);
    assert_int_equal(calls, 2);
    tern_interrupts_call(NULL);
    expect(SIGTERM, 1);
    assert_int_equal(calls, 2);
}

CASE(a_terminal_that_closes_is_ignored_under_nohup)
{
    signal(SIGHUP, SIG_IGN);
    tern_interrupts_catch();
    expect(SIGHUP, 0);
    expect(SIGTERM, 1);
}
