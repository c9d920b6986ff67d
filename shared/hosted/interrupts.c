#include "hosted/interrupts.h"

#include <stddef.h>

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
