// Explains in sentences what a federation waits for, and which clients its open round still needs. `status` and `doctor`
// load it from the store, the admin API from the running service. Reentrant.
#ifndef TERN_ADMIN_WAITING_H
#define TERN_ADMIN_WAITING_H

#include "admin/rows.h"
#include "rounds/waits.h"
#include "service/service.h"

#define TERN_WAITING_MEMBERS 50

struct tern_waiting_member {
    struct tern_db_client client;
    bool has_task;  // the client has fetched its task
    uint32_t tries; // how often the client fetched its task, at least
};

struct tern_waiting {
    char sentence[512];
    char advice[384]; // what the operator can do
    enum tern_wait wait;
    bool needs_help; // the wait does not end by itself
    // The clients that the federation waits for, the longest unseen first, as many as fit: members of the open round
    // without an update, or clients without statistics.
    struct tern_waiting_member members[TERN_WAITING_MEMBERS];
    uint32_t shown;   // members[0..shown)
    uint32_t missing; // number of all clients that the federation waits for
};

// Values that the sentences contain.
struct tern_waiting_known {
    const struct tern_wait_rules *rules;
    const struct tern_wait_facts *facts;
    uint64_t code_uses_left; // remaining uses of all join codes
    uint64_t now_ms;
};

// Adds a client that the federation waits for. The client must not be revoked. *waiting must be all zero before the
// first call.
void tern_waiting_add(struct tern_waiting *waiting, const struct tern_db_client *client,
                      bool has_task, uint32_t tries);
// Writes sentence and advice, after all clients were added.
void tern_waiting_describe(struct tern_waiting *waiting, const struct tern_waiting_known *known);

// Replaces the advice.
void tern_waiting_advise(struct tern_waiting *waiting, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Prepends a reason that prevents everything else to the sentence.
void tern_waiting_put_before(struct tern_waiting *waiting, const char *reason);

#define TERN_UPSTREAM_MAX 320

// Writes "the upstream aggregator has not been reached for 3 m 20 s (Connection refused)". Returns text.
const char *tern_upstream_sentence(const struct tern_service_upstream *upstream, uint64_t now_ms,
                                   char text[TERN_UPSTREAM_MAX]);
// Explains what happens to devices' updates while the upstream aggregator does not answer, and what to do. Static
// string.
const char *tern_upstream_advice(const struct tern_service_upstream *upstream);
// Prepends sentence and advice about the upstream aggregator while it does not answer.
void tern_waiting_add_upstream(const struct tern_service_upstream *upstream, uint64_t now_ms,
                               struct tern_waiting *waiting);

// Fills *waiting from the store; reads each client and each round. Errors of the store: tern_db_error() has the reason.
TERN_MUST_USE enum tern_result tern_waiting_load(struct tern_db *db,
                                                 const struct tern_wait_rules *rules,
                                                 const struct tern_status *status, uint64_t now_ms,
                                                 struct tern_waiting *waiting);

#endif
