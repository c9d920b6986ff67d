// Refused requests: the sentence, the time to ask again, and what the log reports of them. Whoever takes a request of a
// client calls it, on the thread that owns the store.
#ifndef TERN_FEDERATION_REFUSALS_H
#define TERN_FEDERATION_REFUSALS_H

#include "federation/clients.h"

// sentence: NULL = the result's.
void tern_refuse(struct tern_refusal *refusal, enum tern_result result, const char *sentence);
// Sets when a client whose check-in, statistics or update was refused should ask again.
void tern_refusals_ask_later(struct client *client, struct tern_refusal *refusal);
// Whether an update was refused for the size of its values, however well-formed the rest.
bool tern_refusals_are_of_values(enum tern_result result);
// Refuses an update and counts it. Logs a client's 1st, 2nd, 4th, 8th, ...
void tern_refusals_refuse(struct tern_federation *federation, const struct tern_incoming *update,
                          enum tern_result result, struct tern_refusal *refusal);
// An update was accepted: the client's refusals no longer delay it.
void tern_refusals_accepted(struct tern_federation *federation, struct client *client);
// Members are selected anew: the round was committed, or is extended. Logs when every update of enough consecutive
// draws was refused for its values, and again at twice as many.
void tern_refusals_draw_ended(struct tern_federation *federation, bool committed);
// What the operator should do about such draws, or NULL; and how many there were.
const char *tern_refusals_advice(const struct tern_federation *federation, uint32_t *draws);

#endif
