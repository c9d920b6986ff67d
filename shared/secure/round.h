// The public facts of a secure round, which every member and the helper must see alike, and the statements that are hashed or
// signed about it. A device recomputes the descriptor from the task, the helper from the aggregator's request: if one fact
// differs, their masks differ and cancel nothing. Pure; the caller owns all memory. docs/PROTOCOL.md specifies every byte.
#ifndef TERN_SECURE_ROUND_H
#define TERN_SECURE_ROUND_H

#include "result.h"
#include "secure/secret.h"
#include "util/sha256.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_SECURE_BITS_MAX 24   // most bits of a masked value
#define TERN_SECURE_LEVEL_MAX 127 // most steps of a quantised value
#define TERN_SECURE_GROUPS_MAX 9  // most groups of a round
#define TERN_SECURE_MIN_CLIENTS                                                                    \
    50 // n_min of a device and of the helper, unless their settings have another one
#define TERN_SECURE_CODE_MAX 64 // bytes of the helper's join code, without a terminating NUL
#define TERN_SECURE_TICKET_MAX (TERN_HPKE_OVERHEAD + TERN_SECRET_SIZE + TERN_SECURE_CODE_MAX)

struct tern_secure_round {
    uint8_t federation[TERN_SHA256_SIZE]; // tern_federation_id()
    uint32_t round;
    // tern_masked_weights_hash() of the weights that every member's training starts from, not an id that
    // the aggregator chose
    uint8_t replica[TERN_SHA256_SIZE];
    uint8_t model_hash[TERN_SHA256_SIZE];
    uint32_t local_steps;
    uint32_t batch_size;
    float learning_rate;
    float momentum;
    float weight_decay;
    float prox_mu;
    // 0, ERROR_KEEP: two rounds of which one resets or decays error buffers would differ by what these had
    uint32_t directive;
    float decay;          // 0
    uint32_t level;       // L: quantised values are -L to L
    uint32_t bits;        // b: tern_secure_bits()
    uint32_t cohort;      // most members whose updates are added
    uint32_t min_clients; // n_min: fewest members whose updates are added
    // each has a sum of its own, of at least n_min members: an odd number from 3 on, or 0 for one sum of all
    uint32_t groups;
    uint32_t share;       // 1, 2 or 10: one of so many values is sent
    uint64_t places_seed; // chooses the values that are sent
    uint32_t places_max;  // K: most values of one update that are not zero; 0: no limit
    // z in thousandths: the helper adds noise with this multiple of the largest norm of one update as its standard deviation; 0: none
    uint32_t noise;
    uint32_t examples_max; // N_max: number of examples with weight 1; 0: every client has weight 1
    uint64_t epoch;        // of the helper's key
    uint32_t scale_count;  // tensors that are sent
    const float *scales;   // [scale_count], borrowed, in the order of the flat vector
};

// Returns the number of sums that the helper reveals: the groups, or 1.
uint32_t tern_secure_sums(const struct tern_secure_round *round);

// Returns the fewest members whose updates are added over all groups.
uint64_t tern_secure_least(const struct tern_secure_round *round);

// Returns the bits of a masked value, so that a sum of values of -level to level fits: 5 for cohort 10, 8 for 100, 11 for 1,000
// with level 1 and one sum. A group has at most its part of the cohort, rounded up. With noise the sum of 2^27 values fits with a
// probability of 1 - 2^-40. 0: cohort or level is 0, or the sum needs more than TERN_SECURE_BITS_MAX bits.
uint32_t tern_secure_bits(const struct tern_secure_round *round);

// --- Noise, which needs places_max and equal weights. docs/FORMAT.md, section 12.5

// Returns the largest value of an update's counter of a tensor in a round with noise.
uint32_t tern_secure_counter_max(const struct tern_secure_round *round);

// Returns the variance of the noise that the helper adds to each value and each tensor's counter of a sum; 0: none, or the facts
// are out of range.
uint64_t tern_secure_variance(const struct tern_secure_round *round);

// Returns NULL if the facts can be those of a round, or the name of the first one outside its range, such as "bits".
const char *tern_secure_round_check(const struct tern_secure_round *round);

// --- The descriptor

// Returns the size of the round's canonical bytes.
size_t tern_secure_round_size(const struct tern_secure_round *round);

// Writes the canonical bytes, tern_secure_round_size() of them.
void tern_secure_round_encode(const struct tern_secure_round *round, uint8_t *dst);

// Reads canonical bytes. scales: room for `capacity` values, which the round borrows.
// TERN_ERR_CORRUPT    the bytes are not canonical bytes of a round
// TERN_ERR_TOO_LARGE  the round has more than `capacity` scales
TERN_MUST_USE enum tern_result tern_secure_round_decode(const uint8_t *src, size_t size,
                                                        float *scales, uint32_t capacity,
                                                        struct tern_secure_round *round);

// Writes the descriptor, the SHA-256 of the canonical bytes.
void tern_secure_round_hash(const struct tern_secure_round *round,
                            uint8_t descriptor[TERN_SHA256_SIZE]);

// --- Keys

// Writes the id of a federation: SHA-256 of "tern federation v1", the model's hash and its seed.
void tern_federation_id(const uint8_t model_hash[TERN_SHA256_SIZE], uint64_t seed,
                        uint8_t id[TERN_SHA256_SIZE]);

// Identifies one masked update.
struct tern_masked_key {
    uint8_t descriptor[TERN_SHA256_SIZE];
    // random, so that a copied or restored client masks another update with another key
    uint64_t nonce;
};

// Derives the key of one masked update from the client's secret of the epoch.
TERN_MUST_USE enum tern_result tern_mask_key(const uint8_t secret[TERN_SECRET_SIZE],
                                             const struct tern_masked_key *masked,
                                             uint8_t key[TERN_SECRET_SIZE]);

// --- Tickets: a client's secret for one epoch and its join code, sealed to the helper

struct tern_secure_ticket {
    const uint8_t *federation; // TERN_SHA256_SIZE bytes
    uint64_t client;
    uint64_t epoch;
};

// Seals a ticket. ephemeral: 32 fresh random bytes. code: 1 to TERN_SECURE_CODE_MAX bytes. sealed: TERN_HPKE_OVERHEAD +
// TERN_SECRET_SIZE + code.size bytes.
TERN_MUST_USE enum tern_result tern_secure_ticket_seal(
    const struct tern_secure_ticket *ticket, const uint8_t helper_key[TERN_X25519_PUBLIC_SIZE],
    const uint8_t ephemeral[TERN_SECRET_SIZE], const uint8_t secret[TERN_SECRET_SIZE],
    struct tern_bytes_view code, uint8_t *sealed);

// Opens a ticket. code: TERN_SECURE_CODE_MAX + 1 bytes; gets the code with a terminating NUL.
// TERN_ERR_CORRUPT  the ticket was not sealed for this federation, client, epoch and key, or its size or code is wrong
TERN_MUST_USE enum tern_result
tern_secure_ticket_open(const struct tern_secure_ticket *ticket,
                        const uint8_t helper_private[TERN_SECRET_SIZE],
                        struct tern_bytes_view sealed, uint8_t secret[TERN_SECRET_SIZE],
                        char code[TERN_SECURE_CODE_MAX + 1]);

// --- Statements that the helper signs (tern_p256_sign())

// Writes the hash that the helper signs to publish its key of an epoch.
void tern_helper_key_statement(const uint8_t federation[TERN_SHA256_SIZE], uint64_t epoch,
                               const uint8_t public_key[TERN_X25519_PUBLIC_SIZE],
                               uint8_t hash[TERN_SHA256_SIZE]);

// The end of the helper's log, which the helper signs for each federation.
struct tern_helper_log {
    uint64_t count; // entries
    uint8_t head[TERN_SHA256_SIZE];
    uint8_t signature[TERN_P256_SIGNATURE_SIZE];
};

#define TERN_HELPER_LOG_SHORT 12 // characters of a head in base64url that people compare

// Writes the hash that the helper signs about its log. Its signature is not read.
void tern_helper_log_statement(const uint8_t federation[TERN_SHA256_SIZE],
                               const struct tern_helper_log *log, uint8_t hash[TERN_SHA256_SIZE]);

// Hashes the list of the clients that a sum contains. Add them in ascending order of their ids.
struct tern_secure_list {
    struct tern_sha256 sha;
    uint64_t last; // id of the client added last
};

struct tern_secure_member {
    uint64_t client;
    uint64_t nonce;
    uint8_t ticket[TERN_SHA256_SIZE]; // SHA-256 of the client's sealed ticket
};

void tern_secure_list_start(struct tern_secure_list *list,
                            const uint8_t descriptor[TERN_SHA256_SIZE]);

// TERN_ERR_ARGUMENT  the id is 0 or not above that of the client added before: a client would be in the list twice
TERN_MUST_USE enum tern_result tern_secure_list_add(struct tern_secure_list *list,
                                                    const struct tern_secure_member *member);

void tern_secure_list_finish(struct tern_secure_list *list, uint8_t hash[TERN_SHA256_SIZE]);

// --- Groups of a list: the members in a fixed order of their ids, cut into parts of equal size, give or take one

struct tern_secure_groups {
    uint32_t count;                         // of groups
    uint64_t first[TERN_SECURE_GROUPS_MAX]; // key of each group's first member
    uint32_t sizes[TERN_SECURE_GROUPS_MAX]; // members of each group
};

// Divides a list of `count` members, each there once, into the round's groups. The order of the list does not matter.
void tern_secure_divide(const struct tern_secure_round *round,
                        const struct tern_secure_member *members, uint32_t count,
                        struct tern_secure_groups *groups);

// Returns the group of a client of the list, below groups->count.
uint32_t tern_secure_group_of(const struct tern_secure_groups *groups, uint64_t client);

// Writes the hash that the helper signs to release the sums of masks. sum: those of all groups, packed as in secure/masked.h.
void tern_secure_sum_statement(const uint8_t list_hash[TERN_SHA256_SIZE], const uint8_t *sum,
                               size_t size, uint8_t hash[TERN_SHA256_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
