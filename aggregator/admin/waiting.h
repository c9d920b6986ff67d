// Why nothing happens in a federation, or whom its open round waits for, for people: `status`, which reads the
// store, and the admin API, which asks the service. Reentrant.
#ifndef TERN_ADMIN_WAITING_H
#define TERN_ADMIN_WAITING_H

#include "admin/rows.h"
#include "rounds/waits.h"

#define TERN_WAITING_MEMBERS 50

struct tern_waiting_member {
    struct tern_db_client client;
    bool has_task;  // else it has not come for it
    uint32_t tries; // times that it came for it, at the least
};

struct tern_waiting {
    char sentence[512];
    char advice[384]; // what to do about it
    enum tern_wait wait;
    bool needs_help; // it does not end by itself
    // Of the open round's members without an update, or of the clients that told none of the statistics that the
    // first round waits for, those that were seen longest ago.
    struct tern_waiting_member members[TERN_WAITING_MEMBERS];
    uint32_t shown;
    uint32_t missing; // all of them
};

// What the sentences name beside the reason.
struct tern_waiting_known {
    const struct tern_wait_rules *rules;
    const struct tern_wait_facts *facts;
    uint64_t code_uses_left; // of join codes
    uint64_t now_ms;
};

// Adds one of those that are waited for by name, which was not revoked; `waiting` is zeros at first.
void tern_waiting_add(struct tern_waiting *waiting, const struct tern_db_client *client,
                      bool has_task, uint32_t tries);
// Says it, once all of those were added.
void tern_waiting_say(struct tern_waiting *waiting, const struct tern_waiting_known *known);

// Replaces the advice.
void tern_waiting_advise(struct tern_waiting *waiting, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// What keeps everything else from happening goes before what was said.
void tern_waiting_put_before(struct tern_waiting *waiting, const char *reason);

// All of it by the store: reads each client and each round. TERN_ERR_IO and the like: tern_db_error() says it
TERN_MUST_USE enum tern_result tern_waiting_load(struct tern_db *db,
                                                 const struct tern_wait_rules *rules,
                                                 const struct tern_status *status, uint64_t now_ms,
                                                 struct tern_waiting *waiting);

#endif
