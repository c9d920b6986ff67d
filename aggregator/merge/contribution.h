// What an update says of itself to strategies. Who calls: merge and federation. Pure; reentrant.
#ifndef TERN_CONTRIBUTION_H
#define TERN_CONTRIBUTION_H

#include "strategies/strategy.h"
#include "wire/wire.h"

// Its staleness is not set: the update does not know it.
static inline struct tern_contribution tern_contribution_of(const tern_Update *message)
{
    return (struct tern_contribution){.num_examples = message->num_examples,
                                      .local_steps = message->local_steps,
                                      .loss = message->loss};
}

#endif
