// The comparison for LGC: the same clients, trainer and rounds with one of Tern's codecs and full error buffers. Uses
// malloc; one thread.
#ifndef TERN_LAB_LGC_RIVAL_H
#define TERN_LAB_LGC_RIVAL_H

#include "codec/container.h"
#include "lgc/group.h"

struct tern_lgc_rival {
    const struct tern_model *model; // borrowed
    struct tern_codec codec;
    uint64_t seed;
    uint32_t client_count;
    uint64_t up;   // bytes sent by all clients
    uint64_t down; // bytes of the mean as float32; sparse if this is smaller
    float *state;  // [client_count][2][count]: error buffer and velocity of each client
    float *work;   // [count]
    float *update; // [count]
    uint8_t *bytes;
    size_t size;
};

TERN_MUST_USE enum tern_result tern_lgc_rival_open(const struct tern_codec *codec, uint64_t seed,
                                                   const struct tern_model *model, uint32_t clients,
                                                   struct tern_lgc_rival *rival);
void tern_lgc_rival_close(struct tern_lgc_rival *rival);

// Runs a round as tern_lgc_group_round(). Codecs that follow a leader (scalecom) encode at each client's largest
// values.
TERN_MUST_USE enum tern_result tern_lgc_rival_round(struct tern_lgc_rival *rival, uint32_t round,
                                                    const struct tern_lgc_trainer *trainer,
                                                    float *weights);

#endif
