// Checks the whole database at intervals while the service runs, on a thread and a database connection of its own. Damage in
// rows that nobody reads would otherwise be noticed late, and would be copied into backups meanwhile. Called by `serve`.
#ifndef TERN_CLI_SELF_CHECK_H
#define TERN_CLI_SELF_CHECK_H

#include "result.h"
#include <stdbool.h>
#include <stdint.h>

struct tern_self_check;

struct tern_self_check_config {
    const char *database;
    uint64_t interval_ms; // 0: no check until the interval changes
    uint64_t last_ms;     // Unix milliseconds of the last check, or of the making of the database
    // Called on the thread of the checks. After on_damaged there is no further check.
    void (*on_sound)(void *ctx, uint64_t now_ms);
    void (*on_damaged)(void *ctx);
    void *ctx;
};

// Starts the thread. The first check is due one interval after last_ms. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_self_check_start(const struct tern_self_check_config *config,
                                                     struct tern_self_check **out);

// Changes the interval, which counts from the last check. A check that runs continues. Any thread.
void tern_self_check_set_interval(struct tern_self_check *check, uint64_t interval_ms);

// Returns whether a check found damage; why is a sentence then. NULL: false. Any thread.
bool tern_self_check_damaged(struct tern_self_check *check, char why[256]);

// Aborts a check that runs, and frees everything. NULL is allowed.
void tern_self_check_stop(struct tern_self_check *check);

#endif
