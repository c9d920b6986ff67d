// Sums of a fleet's masked updates without their masks, for each secure round: what an aggregator must compute from the masked ones
// and the helper's answer. Clients add from their threads; the main thread reads after they have ended.
#ifndef TERN_FLEET_OPEN_SUMS_H
#define TERN_FLEET_OPEN_SUMS_H

#include "client.h"
#include <pthread.h>

struct tern_open_sum {
    uint32_t round;
    uint32_t clients;               // clients whose updates were added
    struct tern_secure_round facts; // those that layout and mean depend on
    float scales[TERN_MASKED_TENSORS_MAX];
    uint8_t *packed; // malloc'ed, as in secure/masked.h
};

struct tern_open_sums {
    pthread_mutex_t mutex;
    const struct tern_model *model; // of the clients; NULL: nothing was added
    struct tern_open_sum *sums;     // malloc'ed
    uint32_t count;
};

void tern_open_sums_init(struct tern_open_sums *sums);
void tern_open_sums_clear(struct tern_open_sums *sums);

// Adds the client's pending masked update to the sum of its round. Rounds with groups are left out.
// TERN_ERR_CORRUPT   the update is not masked with the client's key: without that mask its values are outside the range
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_open_sums_add(struct tern_open_sums *sums,
                                                  const struct tern_client *client);

// The mean update of a secure round, as a float32 container, which the aggregator stores. Tensors of zeros have no bytes in it.
struct tern_open_mean {
    uint32_t round;
    uint32_t clients;
    size_t size; // bytes of the container
    uint8_t sha256[TERN_SHA256_SIZE];
};

// Fills means[0..sums->count). TERN_ERR_NO_MEMORY, errors of tern_container_encode()
TERN_MUST_USE enum tern_result tern_open_sums_means(const struct tern_open_sums *sums,
                                                    struct tern_open_mean *means);

#endif
