// What the aggregator that leads takes of those that follow: their requests, into the queue of its service beside those
// of its own listener; and in the transaction that decides them, their answers into the store.
//
// Who calls: the service, on its thread. A thread of its own, by a connection of its own, waits for requests.
#ifndef TERN_NODES_TAKE_H
#define TERN_NODES_TAKE_H

#include "service/internal.h"

struct tern_taker;

// For the database of service->db. why: a sentence on failure. TERN_ERR_IO, TERN_ERR_CONFIG, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_taker_start(struct tern_service *service,
                                                struct tern_taker **out, char why[256]);
// What it has put into the queue stays there.
void tern_taker_stop(struct tern_taker *taker);

// Within the batch's transaction: the answers of its relayed requests take the place of these, and their nodes are told,
// as they are of new clients.
TERN_MUST_USE enum tern_result tern_taker_store_answers(struct tern_service *service);

// After the batch was rolled back: its relayed requests are forgotten, and taken anew.
void tern_taker_give_back(struct tern_service *service);

// The nodes' parts of a round's sum (nodes/sum.h) are wanted: asks for them, the first time, and waits until one may have
// come. False: none will. Any thread, while a round is merged.
bool tern_taker_await_parts(struct tern_taker *taker, uint32_t round);

#endif
