// Secure rounds: clients send masked updates, and the helper (tern-helper) reveals the sum of their masks, which makes one mean
// update for the merge. The other files of federation/ call these functions on the thread that owns the store, inside its
// transaction unless a comment says otherwise.
//
// A secure round goes through the states of enum tern_db_secure_state. The transaction that closes the round to updates
// stores ASKED. A thread then adds the masked updates and asks the helper; it asks for the same list again after a failure or
// a restart, and gets the same answer. The transaction that takes the answer stores the mean update, deletes the masked ones and
// settles them as counted; the round is then merged as any other. If the helper refuses, answers wrongly or does not answer
// within round.deadline, the round is abandoned: its updates are settled as given back, and it makes no version.
#ifndef TERN_FEDERATION_SECURE_H
#define TERN_FEDERATION_SECURE_H

#include "federation/state.h"

// Starts what lives as long as the federation: the key of the helper and the thread's connection to the store.
TERN_MUST_USE enum tern_result tern_secure_new(struct tern_federation *federation, char why[256]);
void tern_secure_free(
    struct tern_federation *federation); // allowed after a failed tern_secure_new()

// Whether the federation can train this model in secure rounds; if not, sets why.
bool tern_secure_can_train(const struct tern_federation_config *config,
                           const struct tern_model *model, char why[256]);

// Loads the open round's facts and state, the last scales and the clients' tickets, after the rounds and clients.
TERN_MUST_USE enum tern_result tern_secure_load(struct tern_federation *federation);

// --- Rounds

// Whether the next round may open: the federation has no secure rounds, or the helper answers.
bool tern_secure_allows_round(const struct tern_federation *federation, uint64_t now);
// Whether the client can take part in the next round: it has an admitted ticket of the epoch.
bool tern_secure_allows_client(const struct tern_federation *federation,
                               const struct client *client);
// Makes the round that opens a secure one, if the configuration says so. Called when the round's row is filled, before it is
// stored.
TERN_MUST_USE enum tern_result tern_secure_plan_round(struct tern_federation *federation);
// Stores the facts of the round whose row was stored.
TERN_MUST_USE enum tern_result tern_secure_store_opened(struct tern_federation *federation);
// Records that a round was abandoned at `now`: the next one opens later.
void tern_secure_note_abandoned(struct tern_federation *federation, uint64_t now);
// Closes the open secure round to updates; the helper is then asked.
TERN_MUST_USE enum tern_result tern_secure_close_round(struct tern_federation *federation,
                                                       uint64_t now);
// Takes the helper's answers.
TERN_MUST_USE enum tern_result tern_secure_advance(struct tern_federation *federation,
                                                   uint64_t now);
// Starts the next request to the helper. Called after the commit.
void tern_secure_start_request(struct tern_federation *federation);
// Whether the sum of the round is stored, and the round can be merged now.
bool tern_secure_awaits_merge(const struct tern_federation *federation);
// Returns when tern_secure_advance() should run next or, if that is sooner, the next round may open. next: when it would
// open in a plain federation, in Unix ms.
uint64_t tern_secure_next_advance(const struct tern_federation *federation, uint64_t next);

// Sets the facts about the helper, for what the federation waits for.
void tern_secure_fill_wait_facts(const struct tern_federation *federation,
                                 struct tern_wait_facts *facts);

// --- Clients

// Stores what a check-in reports about secure rounds, and refuses clients of the other kind of federation.
TERN_MUST_USE enum tern_result tern_secure_take_checkin(struct tern_federation *federation,
                                                        uint64_t id,
                                                        const tern_CheckinRequest *message,
                                                        struct tern_refusal *refusal);
// Adds the helper's key and the settlement that the client asked for.
TERN_MUST_USE enum tern_result tern_secure_fill_reply(struct tern_federation *federation,
                                                      uint64_t id, tern_CheckinReply *reply);
// Notes that a client refused the open secure round. *round: the round of the report; for a replayed one, becomes the open round,
// and stays above it for a report of an earlier round.
void tern_secure_note_refused(struct tern_federation *federation, uint64_t id, uint32_t *round,
                              tern_TrainingFailure failure);
// Abandons the open round if members refused it and so many that it cannot have its quorum, or as many as the quorum. After replays the
// next round's number is above all those reported. expected: updates that the round has or still expects.
TERN_MUST_USE enum tern_result tern_secure_check_refused(struct tern_federation *federation,
                                                         uint32_t expected, uint64_t now);
// Replaces the training parameters of a task by those of the open round's facts, and adds the facts.
void tern_secure_fill_task(const struct tern_federation *federation, tern_Task *task);

// --- Updates

// Checks that an update is masked exactly if the open round is secure, and has the length that the round demands.
TERN_MUST_USE enum tern_result tern_secure_check_update(const struct tern_federation *federation,
                                                        const struct tern_incoming_update *update);
// Records that the client's masked update was accepted and has no settlement yet.
TERN_MUST_USE enum tern_result tern_secure_note_update(struct tern_federation *federation,
                                                       uint64_t id);

#endif
