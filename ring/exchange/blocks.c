#include "exchange/blocks.h"

uint32_t tern_ring_exchanged(const struct tern_model *model)
{
    for (uint32_t i = 0; i < model->segment_count; i++) {
        if (tern_segment_is_skipped(&model->segments[i])) {
            return model->segments[i].offset;
        }
    }
    return model->count;
}

uint32_t tern_ring_block_start(uint32_t count, uint32_t members, uint32_t block)
{
    return (uint32_t)((uint64_t)count * block / members);
}

uint32_t tern_ring_steps(uint32_t members)
{
    return 2 * (members - 1);
}

bool tern_ring_gathers(uint32_t members, uint32_t step)
{
    return step >= members - 1;
}

// One formula serves both legs: the gather leg's step s has number N - 1 + s, and its block i + 1 - s equals
// i - (N - 1 + s) modulo N.
uint32_t tern_ring_block_sent(uint32_t members, uint32_t member, uint32_t step)
{
    return (member + 2 * members - step) % members;
}

uint32_t tern_ring_block_taken(uint32_t members, uint32_t member, uint32_t step)
{
    return tern_ring_block_sent(members, (member + members - 1) % members, step);
}

uint32_t tern_ring_block_owned(uint32_t members, uint32_t member)
{
    return tern_ring_block_sent(members, member, members - 1);
}
