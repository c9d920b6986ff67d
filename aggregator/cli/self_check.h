// Looks through the whole database now and then while the service runs, on a thread and a connection of its
// own: damage that nobody reads would otherwise be found when it is needed, and backups made of it until
// then. Who calls: serve.
#ifndef TERN_CLI_SELF_CHECK_H
#define TERN_CLI_SELF_CHECK_H

#include "result.h"
#include <stdbool.h>
#include <stdint.h>

struct tern_self_check;

struct tern_self_check_config {
    const char *database;
    uint64_t interval_ms; // 0 = no check, until there is another interval
    uint64_t last_ms;     // Unix milliseconds: of the last check, or when the database was made
    // On its thread; ctx comes with both. Found sound, at that time; or damaged, after which no check follows.
    void (*on_sound)(void *ctx, uint64_t now_ms);
    void (*on_damaged)(void *ctx);
    void *ctx;
};

// The first check is when the interval since the last is over. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_self_check_start(const struct tern_self_check_config *config,
                                                     struct tern_self_check **out);

// From now on; likewise since the last check. One that is under way goes on. Any thread.
void tern_self_check_set_interval(struct tern_self_check *check, uint64_t interval_ms);

// Whether damage was found; why gets a sentence then. NULL is sound. Any thread.
bool tern_self_check_damaged(struct tern_self_check *check, char why[256]);

// Breaks off a check that is under way. NULL is allowed.
void tern_self_check_stop(struct tern_self_check *check);

#endif
