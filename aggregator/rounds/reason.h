// Builds the sentences that explain a plan to people, without stdio. Text that does not fit is cut. Called by steps.c
// and error_policy.c. Pure; reentrant.
#ifndef TERN_REASON_H
#define TERN_REASON_H

#include <stdint.h>

#define TERN_STEPS_REASON_MAX 160 // most bytes of a sentence with the NUL, also in the store

struct tern_reason {
    char text[TERN_STEPS_REASON_MAX]; // the sentence so far; "" at the start
};

void tern_reason_text(struct tern_reason *reason, const char *more);
void tern_reason_integer(struct tern_reason *reason, uint64_t value);
// Adds the number with two decimals, rounded; numbers above 1e15 appear as 1e15.
void tern_reason_real(struct tern_reason *reason, double value);

#endif
