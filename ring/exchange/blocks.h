// Cuts a model into N blocks for a ring of N members, and schedules which member sends which block in which step (Li et al.:
// A Network-Centric Hardware/Algorithm Co-Design to Accelerate Distributed Training of Deep Neural Networks, MICRO 2018,
// section IV and algorithm 1). Pure; reentrant.
//
// Members 0..N-1 form a circle; each sends to the next one, in 2(N-1) steps. In step s of the first N-1 steps, the reduce
// leg, member i sends block i - s, and adds its own values to the block that it receives. Member i then has the whole sum of
// block i + 1: it owns that block. In the other N-1 steps, the gather leg, the sums go round. All indices are modulo N.
#ifndef TERN_RING_BLOCKS_H
#define TERN_RING_BLOCKS_H

#include "tensor/model.h"
#include <stdbool.h>
#include <stdint.h>

#define TERN_RING_MEMBERS_MAX 64u // sets of members are 64 bits

// Returns how many values the ring exchanges: the first ones of the flat vector, without those that are never sent.
uint32_t tern_ring_exchanged(const struct tern_model *model);

// Returns the index of the first value of block `block`; for block = members it is `count`. The sizes of blocks differ by at
// most one value; blocks are empty if there are fewer values than members.
uint32_t tern_ring_block_start(uint32_t count, uint32_t members, uint32_t block);

// Returns the steps of an exchange: 2(N-1).
uint32_t tern_ring_steps(uint32_t members);

// Whether `step` belongs to the gather leg.
bool tern_ring_gathers(uint32_t members, uint32_t step);

// Return the block that `member` sends in `step`, and the block that it receives in that step.
uint32_t tern_ring_block_sent(uint32_t members, uint32_t member, uint32_t step);
uint32_t tern_ring_block_taken(uint32_t members, uint32_t member, uint32_t step);

// Returns the block whose sum `member` completes.
uint32_t tern_ring_block_owned(uint32_t members, uint32_t member);

#endif
