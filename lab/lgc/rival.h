// What LGC is held against: the same clients, trainer and rounds with one of Tern's codecs, error buffers kept whole.
// Hosted: uses malloc; one thread.
#ifndef TERN_LAB_LGC_RIVAL_H
#define TERN_LAB_LGC_RIVAL_H

#include "codec/container.h"
#include "lgc/group.h"

struct tern_lgc_rival {
    const struct tern_model *model; // borrowed
    struct tern_codec codec;
    uint64_t seed;
    uint32_t client_count;
    uint64_t up;   // bytes of all clients
    uint64_t down; // the mean as it is: its values that are not 0 where these take less than all
    float *state;  // [client_count][2][count]: error buffer and velocity of each
    float *work;   // [count]
    float *update; // [count]
    uint8_t *bytes;
    size_t size;
};

TERN_MUST_USE enum tern_result tern_lgc_rival_open(const struct tern_codec *codec, uint64_t seed,
                                                   const struct tern_model *model, uint32_t clients,
                                                   struct tern_lgc_rival *rival);
void tern_lgc_rival_close(struct tern_lgc_rival *rival);

// As tern_lgc_group_round(). Codecs that follow a leader (scalecom) encode at the largest values of each client.
TERN_MUST_USE enum tern_result tern_lgc_rival_round(struct tern_lgc_rival *rival, uint32_t round,
                                                    const struct tern_lgc_trainer *trainer,
                                                    float *weights);

#endif
