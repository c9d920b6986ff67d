// Records why local training failed: in words for the log, and in a file of the state directory, which `tern-client
// status` shows until training works again. Called by session.c, verb_run.c and verb_status.c from the main thread.
#ifndef TERN_CLIENT_TRAINING_FAILURE_H
#define TERN_CLIENT_TRAINING_FAILURE_H

#include "cli/external_trainer.h"
#include "ports.h"
#include "trainer/trainer.h"

#define TRAINING_WHY_MAX (EXTERNAL_WHY_MAX + 256) // bytes of a reason with advice

struct training_failure {
    uint32_t round;
    enum tern_result result;
    uint64_t time_s; // since 1970
    char why[TRAINING_WHY_MAX];
};

// Wraps a trainer and records its failures.
struct watched_trainer {
    struct tern_trainer inner;
    const struct tern_builtin_trainer *builtin; // the wrapped trainer; NULL: it is external
    const struct external_trainer *external;    // the wrapped trainer; NULL: it is built in
    void (*on_first)(void *ctx); // called once before the first training; may be NULL
    void *ctx;
    bool failed; // set at a failure; verb_run.c resets it
    struct training_failure failure;
};

// Returns the port that runs watched->inner and records its failures in *watched, which is borrowed. The caller sets
// `inner` and either `builtin` or `external`.
struct tern_trainer tern_watched_trainer_port(struct watched_trainer *watched);

// Advice about the recorded failure; "" when its reason already contains it.
const char *tern_training_failure_hint(const struct watched_trainer *watched);

// Writes the failure to the state directory, or removes it. Errors are ignored: the store reports such a directory.
void tern_training_failure_save(const char *state_dir, const struct watched_trainer *watched);
void tern_training_failure_clear(const char *state_dir);

// Reads the saved failure. Returns false when there is none.
bool tern_training_failure_read(const char *state_dir, struct training_failure *failure);

#endif
