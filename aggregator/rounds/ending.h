// Whether a federation should end before its rounds are done, from the training losses of its committed rounds: it has
// diverged, or no longer learns. The round machine calls it, `status` and `export --best` too. The same losses give
// the same answer, so that it holds after a restart. Pure.
#ifndef TERN_ENDING_H
#define TERN_ENDING_H

#include <stdbool.h>
#include <stdint.h>

enum tern_ending {
    TERN_ENDING_NONE = 0,
    TERN_ENDING_DIVERGED,
    TERN_ENDING_STALLED,
};

struct tern_ending_policy {
    uint32_t divergence_rounds; // in a row, whose loss has diverged; 0 = it never ends by that
    uint32_t patience;          // rounds without a new lowest loss; 0 = it never ends by that
};

// A loss has diverged when it is not finite, or more than so many times that of the first round, or 1
// where that was less: a model that came trained may lose a little of a loss near 0.
#define TERN_DIVERGED_FACTOR 4.0f

struct tern_losses {
    uint32_t rounds; // added
    float first;
    float lowest;
    uint32_t lowest_version; // that the round of the lowest loss began with
    uint32_t since_lowest;   // rounds
    uint32_t diverged;       // rounds in a row, up to the last
    enum tern_ending ending; // stays once it is set
};

// Adds a committed round. base_version: the version that it trained from, to which its loss belongs.
void tern_losses_add(struct tern_losses *losses, const struct tern_ending_policy *policy,
                     uint32_t base_version, float loss);

// "none", "diverged", "stalled".
const char *tern_ending_name(enum tern_ending ending);

// What an operator does about it, for the log and for people; "" for none.
const char *tern_ending_advice(enum tern_ending ending);

#endif
