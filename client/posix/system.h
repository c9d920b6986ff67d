// Clock and entropy of a Linux machine. Both ports may be shared by threads.
#ifndef TERN_POSIX_SYSTEM_H
#define TERN_POSIX_SYSTEM_H

#include "ports.h"

#ifdef __cplusplus
extern "C" {
#endif

// CLOCK_MONOTONIC and the date; the date is unknown before 2020-01-01.
struct tern_clock tern_posix_clock(void);

// getrandom().
struct tern_entropy tern_posix_entropy(void);

#ifdef __cplusplus
}
#endif

#endif
