// Refused requests: the sentence that the client receives, the time to ask again, and the log lines. The code that
// processes clients' requests calls it, on the thread that owns the store.
#ifndef TERN_FEDERATION_REFUSALS_H
#define TERN_FEDERATION_REFUSALS_H

#include "federation/clients.h"

// Sets the refusal. sentence: NULL = the result's default sentence.
void tern_refusal_set(struct tern_refusal *refusal, enum tern_result result, const char *sentence);
// Sets when a client whose check-in, statistics or update was refused should ask again.
void tern_refusals_delay_retry(struct client *client, struct tern_refusal *refusal);
// Whether the result means that an update was refused for the size of its values.
bool tern_refusals_is_about_values(enum tern_result result);
// Refuses an update and counts the refusal. Logs a client's 1st, 2nd, 4th, 8th, ... refusal only.
void tern_refusals_refuse_update(struct tern_federation *federation,
                                 const struct tern_incoming_update *update, enum tern_result result,
                                 struct tern_refusal *refusal);
// Records an accepted update: the client's earlier refusals no longer delay it.
void tern_refusals_update_accepted(struct tern_federation *federation, struct client *client);
// Records that members are selected anew, since the round was committed or extended. Warns when every update of enough
// consecutive draws was refused for its values, and again at twice as many draws.
void tern_refusals_end_cohort(struct tern_federation *federation, bool committed);
// Returns what the operator should do about draws in which every update was refused, or NULL. *draws: how many in a
// row.
const char *tern_refusals_advice(const struct tern_federation *federation, uint32_t *draws);

#endif
