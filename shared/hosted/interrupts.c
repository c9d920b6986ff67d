// ppoll(), so that no signal is slept through.
#define _GNU_SOURCE
#include "hosted/interrupts.h"

#include <poll.h>
#include <stddef.h>
#include <time.h>

volatile sig_atomic_t tern_interrupted;

static void on_signal(int number)
{
    (void)number;
    tern_interrupted = 1;
}

void tern_interrupts_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct sigaction before;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
        sigaction(SIGHUP, &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
}

void tern_interrupts_sleep(uint32_t ms)
{
    const struct timespec time = {.tv_sec = (time_t)(ms / 1000),
                                  .tv_nsec = (long)(ms % 1000) * 1000000L};
    sigset_t blocked;
    sigset_t before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGHUP);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    if (!tern_interrupted) {
        ppoll(NULL, 0, &time, &before);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}
