// A follower: an aggregator beside the leader on the same database. It hands the requests that its listener has received and
// checked to the leader, as rows in the store, and sends the answers that the leader stores. It decides nothing and has no
// state beyond the store: a request without an answer gets 503, and may be sent again to any aggregator.
//
// Called by the service on its thread, except start and stop. A thread of the follower waits for answers.
#ifndef TERN_NODES_FOLLOW_H
#define TERN_NODES_FOLLOW_H

#include "service/internal.h"

// Notices between aggregators (store/nodes.h). Each may come without a cause, or twice.
#define TERN_NOTICE_RELAYED "relayed"   // there are requests for the leader
#define TERN_NOTICE_ANSWERED "answers " // and the number of the node whose requests are answered
#define TERN_NOTICE_ENROLLED "enrolled" // there are more clients
#define TERN_NOTICE_CLIENTS "clients"   // clients may have been revoked, or have other keys
#define TERN_NOTICE_SUM "sum "          // and the number of a round: the leader wants its parts
#define TERN_NOTICE_SUMMED                                                                         \
    "summed " // and the numbers of a round and of a node without a part left to deliver

struct tern_follower;

// Opens connections of its own to the database of service->db, and loads all clients into the service's gate. why: a
// sentence on failure. TERN_ERR_IO, TERN_ERR_CONFIG, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_follower_start(struct tern_service *service,
                                                   struct tern_follower **out, char why[256]);

// Takes over these requests and hands them to the leader, together with metered bytes that are due. Answers requests that
// cannot be handed over or have expired.
void tern_follower_turn(struct tern_follower *follower, struct request *taken);
// Returns in how many ms the next turn is due without requests.
uint64_t tern_follower_idle_ms(const struct tern_follower *follower);

// Call now and then after this aggregator has become leader, when there are no turns any more but earlier requests are still
// answered: answers by 503 the requests that expired or waited when the connection for answers was lost.
void tern_follower_expire(struct tern_follower *follower);

// Answers waiting requests by 503, and ends.
void tern_follower_stop(struct tern_follower *follower);

#endif
