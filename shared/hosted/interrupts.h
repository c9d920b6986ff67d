// That somebody wants the program to end: SIGINT (Ctrl-C), SIGTERM, or SIGHUP where it is not ignored
// as under nohup. For programs whose main loop looks at it between pieces of work.
#ifndef TERN_INTERRUPTS_H
#define TERN_INTERRUPTS_H

#include <signal.h>
#include <stdint.h>

extern volatile sig_atomic_t tern_interrupted; // 1 once such a signal has come

// Has them noted from now on, and has writes to pipes and sockets that nobody reads fail instead of
// ending the program. From the main thread, once.
void tern_interrupts_catch(void);

// Sleeps until such a signal comes, or has come, for `ms` at the most. Where they are caught; from the main
// thread.
void tern_interrupts_sleep(uint32_t ms);

#endif
