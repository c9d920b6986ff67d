// Decides from the training losses of committed rounds whether a federation ends before its last round: because it diverged,
// or because it no longer learns. Called by the round machine, `status` and `export --best`. Pure: after a restart the same
// losses give the same answer.
#ifndef TERN_ENDING_H
#define TERN_ENDING_H

#include <stdbool.h>
#include <stdint.h>

enum tern_ending {
    TERN_ENDING_NONE = 0,
    TERN_ENDING_DIVERGED,
    TERN_ENDING_STALLED,
    // Not by losses: too few clients are left whose epsilon is below privacy.epsilon_max (rounds/waits.h).
    TERN_ENDING_PRIVACY,
};

struct tern_ending_policy {
    // Number of consecutive diverged rounds that ends the federation; 0 = never.
    uint32_t divergence_rounds;
    // Number of rounds without a new lowest loss that ends the federation; 0 = never.
    uint32_t patience;
};

// A loss has diverged when it is not finite, or exceeds max(first loss, 1) this many times. The 1 is for a model that
// was trained before the federation: its first loss is near 0 and may rise a little.
#define TERN_DIVERGED_FACTOR 4.0f

struct tern_losses {
    uint32_t rounds; // number of rounds that were added
    float first;
    float lowest;
    uint32_t lowest_version; // base version of the round with the lowest loss
    uint32_t since_lowest;   // number of rounds since the lowest loss
    uint32_t diverged;       // number of consecutive diverged rounds, up to the last round
    enum tern_ending ending; // why the federation ended; never changes once it is set
};

// Adds a committed round. base_version: the version from which the round trained; the loss is that version's.
void tern_losses_add(struct tern_losses *losses, const struct tern_ending_policy *policy,
                     uint32_t base_version, float loss);

// Returns "none", "diverged", "stalled" or "privacy-spent".
const char *tern_ending_name(enum tern_ending ending);

// Returns what the operator should do about the end, for the log and for screens; "" for TERN_ENDING_NONE.
const char *tern_ending_advice(enum tern_ending ending);

#endif
