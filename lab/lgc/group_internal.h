// What the files of a group share.
#ifndef TERN_LAB_LGC_GROUP_INTERNAL_H
#define TERN_LAB_LGC_GROUP_INTERNAL_H

#include "lgc/group.h"

static inline struct tern_lgc_tally *tern_lgc_tally_of(struct tern_lgc_group *group)
{
    return &group->tally[group->phase];
}

static inline float *tern_lgc_received(const struct tern_lgc_group *group, uint32_t client)
{
    return group->received + (size_t)client * tern_lgc_picks(&group->plan);
}

// Values that are the learned ones among a client's picks.
static inline float *tern_lgc_learned(const struct tern_lgc_group *group, float *picks)
{
    return picks + group->plan.plain;
}

// Present clients.
uint32_t tern_lgc_present(const struct tern_lgc_group *group);

// The number of the present client that a round's draw begins with; the next one that is present.
uint32_t tern_lgc_draw(const struct tern_lgc_group *group, uint32_t round);
uint32_t tern_lgc_next(const struct tern_lgc_group *group, uint32_t client);

// Adds a client's exact values, and picks, to the sums, and counts it.
void tern_lgc_count(struct tern_lgc_group *group, const float *exact, const float *picks);

// One step of training on the learned values of the counted clients. TERN_ERR_TRAINER
TERN_MUST_USE enum tern_result tern_lgc_train_coder(struct tern_lgc_group *group, uint32_t round);

// Decodes code[] with a client's innovation (NULL in a ring) and scale to values[learned].
TERN_MUST_USE enum tern_result tern_lgc_decode(struct tern_lgc_group *group,
                                               const float *innovation, float scale, float *values);
TERN_MUST_USE enum tern_result tern_lgc_encode(struct tern_lgc_group *group, const float *values,
                                               float scale);

// The unit s with the least sum of (values - s * decoded)^2; 0 where all of decoded is 0.
float tern_lgc_fit(const float *values, const float *decoded, uint32_t count);

// Takes what the round took out of the buffer of a client that was counted in `round`: of the picks sent[picks].
void tern_lgc_settle(struct tern_lgc_group *group, struct tern_lgc_client *client,
                     const float *sent, bool all);

// The phases of a round but the sums' mean.
TERN_MUST_USE enum tern_result tern_lgc_server_exact(struct tern_lgc_group *group, uint32_t round);
TERN_MUST_USE enum tern_result tern_lgc_server_picked(struct tern_lgc_group *group, uint32_t round);
TERN_MUST_USE enum tern_result tern_lgc_ring_exact(struct tern_lgc_group *group, uint32_t round);
TERN_MUST_USE enum tern_result tern_lgc_ring_picked(struct tern_lgc_group *group, uint32_t round);

extern const struct tern_codec tern_lgc_float32;

#endif
