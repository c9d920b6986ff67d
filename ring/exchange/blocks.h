// How a ring of N members cuts a model into N blocks, and which member sends which of them in which
// step (Li et al.: A Network-Centric Hardware/Algorithm Co-Design to Accelerate Distributed Training of
// Deep Neural Networks, MICRO 2018, section IV and algorithm 1). Pure; reentrant.
//
// Members stand in a circle, 0..N-1; each sends to the next one. There are 2(N-1) steps. In the first N-1,
// the reduce leg, member i sends block i - s in step s, and adds its own values to the block that it gets.
// Behind them member i has the whole sum of block i + 1: it owns it. In the other N-1, the gather leg, the
// sums go round. All numbers are modulo N.
#ifndef TERN_RING_BLOCKS_H
#define TERN_RING_BLOCKS_H

#include "tensor/model.h"
#include <stdbool.h>
#include <stdint.h>

#define TERN_RING_MEMBERS_MAX 64u // members are bits of 64

// Values that are exchanged, the first ones of the flat vector: all but those that are never sent.
uint32_t tern_ring_exchanged(const struct tern_model *model);

// First value of block `block` of `members`; that of block `members` is `count`. Blocks differ by one value
// at most and are empty where there are fewer values than members.
uint32_t tern_ring_block_start(uint32_t count, uint32_t members, uint32_t block);

// Steps of an exchange: 2(N-1).
uint32_t tern_ring_steps(uint32_t members);

// Whether `step` is of the gather leg.
bool tern_ring_gathers(uint32_t members, uint32_t step);

// The block that member `member` sends in `step`, and that which it gets then.
uint32_t tern_ring_block_sent(uint32_t members, uint32_t member, uint32_t step);
uint32_t tern_ring_block_taken(uint32_t members, uint32_t member, uint32_t step);

// The block whose sum `member` makes.
uint32_t tern_ring_block_owned(uint32_t members, uint32_t member);

#endif
