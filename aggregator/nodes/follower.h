// An aggregator that follows: another one leads the federation on the same database. What its own listener has received
// and checked it hands over, as rows in the store, and sends the answers that the leader has stored. It decides nothing,
// and holds nothing that the store does not have: a request whose answer does not come is answered by 503, and may be
// sent again to whichever aggregator.
//
// Who calls: the service, on its thread, but for start and stop. A thread of its own waits for answers.
#ifndef TERN_NODES_FOLLOW_H
#define TERN_NODES_FOLLOW_H

#include "service/internal.h"

// Notices between aggregators (store/nodes.h). Each may come without a cause, or twice.
#define TERN_NOTICE_RELAYED "relayed"   // there are requests for the leader
#define TERN_NOTICE_ANSWERED "answers " // and the number of the node that has answers
#define TERN_NOTICE_ENROLLED "enrolled" // there are more clients
#define TERN_NOTICE_CLIENTS "clients"   // clients may have been revoked, or have other keys
#define TERN_NOTICE_SUM "sum "          // and the number of a round: the leader wants its parts
#define TERN_NOTICE_SUMMED                                                                         \
    "summed " // and the numbers of a round and of a node without a part left to deliver

struct tern_follower;

// Opens connections of its own to the database of service->db, which it leaves alone, and loads the clients that there are
// into the service's gate. why: a sentence on failure. TERN_ERR_IO, TERN_ERR_CONFIG, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_follower_start(struct tern_service *service,
                                                   struct tern_follower **out, char why[256]);

// Hands these requests over, which it owns from then on, and what was metered, if that is due. Answers what cannot be
// handed over, or was not answered in time.
void tern_follower_turn(struct tern_follower *follower, struct request *taken);
// In how many ms a turn is due without any request.
uint64_t tern_follower_idle_ms(const struct tern_follower *follower);

// Once this aggregator leads, there is no turn any more, and what it handed over is still answered. Now and then:
// answers by 503 what was not answered in time, and what waited when the connection for answers was lost.
void tern_follower_expire(struct tern_follower *follower);

// Answers what waits by 503 and ends.
void tern_follower_stop(struct tern_follower *follower);

#endif
