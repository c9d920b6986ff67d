// Who leads a round of scalecom, whose clients send values at the indices that one of them chose
// (Chen et al., NeurIPS 2020, section 3: cyclic local top-k). Who calls: aggregator/federation.
// Pure.
#ifndef TERN_LEADER_H
#define TERN_LEADER_H

#include "rounds/round.h"

// Of the n members that the open round was opened with, in client order, number `round` mod n,
// counted from 0. Members that were invited later change nothing. 0: nobody.
uint64_t tern_round_leader(const struct tern_round_machine *machine);

// Until when the others wait for the leader's update: a quarter of the round's window.
uint64_t tern_round_leader_until_ms(const struct tern_round_machine *machine);

// How long one who waits stays away at a time.
uint64_t tern_round_leader_wait_ms(const struct tern_round_machine *machine, uint64_t now);

#endif
