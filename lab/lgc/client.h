// A client of LGC: a velocity and an error buffer for each value, and what of them goes into a message in each of the
// three phases. A change becomes velocity and then error (momentum correction and local accumulation: Lin et al., ICLR
// 2018, sections 3.1 and 3.2); what a round took is taken out of the error, and no more, so that
//   sum of velocities after each round = sum of what was taken + error
// to the rounding of the sums. Pure; the caller owns all memory.
#ifndef TERN_LAB_LGC_CLIENT_H
#define TERN_LAB_LGC_CLIENT_H

#include "lgc/message.h"
#include "lgc/plan.h"

struct tern_lgc_client {
    uint32_t id;
    float *velocity; // [count]
    float *error;    // [count]
    float *picked;   // [picks]: the error where the leader picked, of this round
    float *
        innovation; // [learned]: what of the learned ones this round sends as it is, and 0 elsewhere
    float scale;    // of the learned ones of this round
    bool present;   // it has joined
    uint32_t sent_last; // round in which its message was counted; 0: none
};

// velocity = momentum * velocity + change; error += velocity. work: [count], holds the change, is overwritten.
// TERN_ERR_NON_FINITE  a sum is not finite; nothing has changed but work
TERN_MUST_USE enum tern_result tern_lgc_client_take(struct tern_lgc_client *client, uint32_t count,
                                                    float momentum, float *work);

// picked = error[at].
void tern_lgc_client_gather(struct tern_lgc_client *client, const struct tern_lgc_plan *plan,
                            const uint32_t *at);

// innovation = the share of learned[count] of largest magnitude, and 0 elsewhere. words: count / 64 + 1 of them.
void tern_lgc_innovation(const float *learned, uint32_t count, float share, uint64_t *words,
                         float *innovation);

// A round took the exact values, all of them.
void tern_lgc_client_sent_exact(struct tern_lgc_client *client, const struct tern_lgc_plan *plan);

// A round took `sent` of the picks first..first + count. masks: where it also clears the velocity, so that what was
// late does not go on in it (section 3.3 there): all of these, or those alone whose `sent` is not 0.
enum tern_lgc_mask { TERN_LGC_MASK_ALL, TERN_LGC_MASK_SENT };
void tern_lgc_client_sent(struct tern_lgc_client *client, const uint32_t *at, const float *sent,
                          uint32_t count, enum tern_lgc_mask mask);

#endif
