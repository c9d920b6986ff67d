// The aggregator's requests to the helper of secure rounds (tern-helper): the key of the epoch, tickets of clients, and the sum
// of a round's masks, from which the round's mean update follows. The functions run on a thread of the federation; the port
// sends the bytes. Each answer is checked against the helper's public key before it is used.
#ifndef TERN_SECURE_ASK_H
#define TERN_SECURE_ASK_H

#include "secure/masked.h"
#include "secure/round.h"
#include "tensor/model.h"
#include "wire/wire.h"

// One request to the helper, sent with the federation's token.
struct tern_helper_request {
    const char *method; // "GET" or "POST"
    const char *path;
    const uint8_t *body;
    size_t body_len;
};

struct tern_helper_reply {
    int status;    // HTTP status
    uint8_t *body; // [body_size] the caller's buffer
    size_t body_size;
    size_t body_len;
    char why[160]; // a sentence, if the exchange failed
};

// The connection to the helper; implemented by secure/link/link.h.
struct tern_helper_port {
    void *ctx;
    // Sends the request and receives the reply. One call at a time, on any thread.
    // TERN_ERR_NETWORK, TERN_ERR_TLS  there is no reply
    // TERN_ERR_TOO_LARGE              the reply is longer than body_size
    enum tern_result (*exchange)(void *ctx, const struct tern_helper_request *request,
                                 struct tern_helper_reply *reply);
};

// What came of a request.
enum tern_helper_verdict {
    TERN_HELPER_ANSWERED,
    TERN_HELPER_SILENT,  // no usable answer now: the same request may succeed later
    TERN_HELPER_REFUSED, // the helper refuses the request by name
    TERN_HELPER_WRONG,   // the answer is not one of this helper to this request
};

struct tern_helper_outcome {
    enum tern_helper_verdict verdict;
    char name[sizeof((tern_Error){0}.name)]; // of a refusal, or what is wrong
    char sentence[sizeof((tern_Error){0}.sentence)];
};

// The federation and the helper of a request. Strings and pointers are borrowed.
struct tern_helper_party {
    struct tern_helper_port port;
    uint8_t key[TERN_P256_PUBLIC_SIZE]; // public key of the helper (secure.helper_key)
    uint8_t federation[TERN_SHA256_SIZE];
};

struct tern_helper_epoch {
    uint32_t epoch;
    uint8_t public_key[TERN_X25519_PUBLIC_SIZE];
    uint8_t signature[TERN_P256_SIGNATURE_SIZE];
    uint32_t seconds_left; // until the next epoch
    struct tern_helper_log log;
};

void tern_helper_ask_epoch(const struct tern_helper_party *helper, struct tern_helper_epoch *epoch,
                           struct tern_helper_outcome *outcome);

// Passes a client's sealed ticket on. TERN_HELPER_ANSWERED: the helper has admitted it.
void tern_helper_ask_ticket(const struct tern_helper_party *helper, uint64_t client, uint32_t epoch,
                            struct tern_span sealed, struct tern_helper_outcome *outcome);

// A round whose masked updates were added.
struct tern_masked_round {
    const struct tern_model *model;
    const struct tern_secure_round *facts;
    const uint8_t *base;                      // id of the replica that the clients trained from
    const struct tern_secure_member *members; // [count], by client
    uint32_t count;
    const struct tern_secure_groups *groups; // of the members
    // Sums of the groups' masked updates, tern_masked_size() bytes each, one behind the other; get the sums without masks.
    uint8_t *sums;
};

// Asks for the sums of the round's masks and subtracts them. log: the end of the helper's log, which has the list.
void tern_helper_ask_sum(const struct tern_helper_party *helper, struct tern_masked_round *round,
                         struct tern_helper_log *log, struct tern_helper_outcome *outcome);

// The mean update of a round as an encoded Update message, which stands for all of its masked updates. With groups it is the median
// of their means.
struct tern_mean_update {
    uint8_t *body; // malloc'ed
    size_t len;
    // Groups whose sum cannot be one of so many updates: a client lies, or a mask differs from the helper's.
    uint32_t left_out;
    float next_scales[TERN_MASKED_TENSORS_MAX]; // of the next round
};

// Makes the mean update from the sums without masks. norm_max: largest norm of an update that the federation accepts.
// TERN_ERR_NON_FINITE  half or more of the groups would be left out
// TERN_ERR_NORM_LIMIT  the mean is larger than norm_max
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_masked_mean_update(const struct tern_masked_round *round,
                                                       double norm_max,
                                                       struct tern_mean_update *update);

#endif
