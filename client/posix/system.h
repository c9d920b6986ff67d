// Implements the clock and entropy ports on Linux. Threads may share both.
#ifndef TERN_POSIX_SYSTEM_H
#define TERN_POSIX_SYSTEM_H

#include "ports.h"

#ifdef __cplusplus
extern "C" {
#endif

// Returns the clock port: CLOCK_MONOTONIC and CLOCK_REALTIME. A date before 2020-01-01 counts as unknown.
struct tern_clock tern_posix_clock(void);

// Returns the entropy port, which calls getrandom().
struct tern_entropy tern_posix_entropy(void);

#ifdef __cplusplus
}
#endif

#endif
