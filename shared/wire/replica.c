// Replica ids: a hash chain over what made the replica (docs/FORMAT.md).
#include "util/bytes.h"
#include "wire/wire.h"

#define SEED_LABEL "tern replica seed"
#define WEIGHTS_LABEL "tern replica weights"
#define SNAPSHOT_LABEL "tern replica snapshot"
#define STEP_LABEL "tern replica step"

void tern_replica_from_seed(const uint8_t model_hash[TERN_SHA256_SIZE], uint64_t seed,
                            uint8_t id[TERN_SHA256_SIZE])
{
    struct tern_sha256 hash;
    uint8_t number[8];
    tern_put_le64(number, seed);
    tern_sha256_init(&hash);
    tern_sha256_update(&hash, SEED_LABEL, sizeof(SEED_LABEL) - 1);
    tern_sha256_update(&hash, model_hash, TERN_SHA256_SIZE);
    tern_sha256_update(&hash, number, sizeof(number));
    tern_sha256_final(&hash, id);
}

void tern_replica_from_weights(const uint8_t model_hash[TERN_SHA256_SIZE],
                               const uint8_t weights_sha256[TERN_SHA256_SIZE],
                               uint8_t id[TERN_SHA256_SIZE])
{
    struct tern_sha256 hash;
    tern_sha256_init(&hash);
    tern_sha256_update(&hash, WEIGHTS_LABEL, sizeof(WEIGHTS_LABEL) - 1);
    tern_sha256_update(&hash, model_hash, TERN_SHA256_SIZE);
    tern_sha256_update(&hash, weights_sha256, TERN_SHA256_SIZE);
    tern_sha256_final(&hash, id);
}

void tern_replica_from_snapshot(const uint8_t model_hash[TERN_SHA256_SIZE], uint32_t version,
                                const uint8_t container_sha256[TERN_SHA256_SIZE],
                                uint8_t id[TERN_SHA256_SIZE])
{
    struct tern_sha256 hash;
    uint8_t number[4];
    tern_put_le32(number, version);
    tern_sha256_init(&hash);
    tern_sha256_update(&hash, SNAPSHOT_LABEL, sizeof(SNAPSHOT_LABEL) - 1);
    tern_sha256_update(&hash, model_hash, TERN_SHA256_SIZE);
    tern_sha256_update(&hash, number, sizeof(number));
    tern_sha256_update(&hash, container_sha256, TERN_SHA256_SIZE);
    tern_sha256_final(&hash, id);
}

void tern_replica_step(const uint8_t from[TERN_SHA256_SIZE],
                       const uint8_t download_sha256[TERN_SHA256_SIZE],
                       uint8_t id[TERN_SHA256_SIZE])
{
    struct tern_sha256 hash;
    tern_sha256_init(&hash);
    tern_sha256_update(&hash, STEP_LABEL, sizeof(STEP_LABEL) - 1);
    tern_sha256_update(&hash, from, TERN_SHA256_SIZE);
    tern_sha256_update(&hash, download_sha256, TERN_SHA256_SIZE);
    tern_sha256_final(&hash, id);
}
