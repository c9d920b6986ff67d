// Why local training failed: in words, for the log, and kept in the state directory until training works again, for
// `tern-client status`. From the main thread.
#ifndef TERN_CLIENT_TRAINING_TROUBLE_H
#define TERN_CLIENT_TRAINING_TROUBLE_H

#include "cli/external.h"
#include "ports.h"
#include "trainer/trainer.h"

#define TRAINING_WHY_MAX (EXTERNAL_WHY_MAX + 256) // with a hint

// What is known of a failure.
struct training_trouble {
    uint32_t round;
    enum tern_result result;
    uint64_t time_s; // of the epoch
    char why[TRAINING_WHY_MAX];
};

// Stands between the client and its trainer.
struct watched_trainer {
    struct tern_trainer inner;
    const struct tern_builtin_trainer *builtin; // or
    const struct external_trainer *external;    // whichever is not NULL
    void (*on_first)(void *ctx); // before training begins for the first time; NULL: nothing is due
    void *ctx;
    bool failed; // since the reporter last reset it
    struct training_trouble trouble;
};

// The port that fills in *watched, whose `inner` and one of the others are set. It is borrowed.
struct tern_trainer tern_watched_trainer_port(struct watched_trainer *watched);

// What to do about it; "" where the reason says it.
const char *tern_training_hint(const struct watched_trainer *watched);

// Keeps it, or forgets what was kept: a folder that cannot be written to is said elsewhere.
void tern_training_trouble_keep(const char *state_dir, const struct watched_trainer *watched);
void tern_training_trouble_forget(const char *state_dir);

// Reads what is kept. False: nothing is.
bool tern_training_trouble_read(const char *state_dir, struct training_trouble *trouble);

#endif
