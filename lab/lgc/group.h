// A group of clients that trains one model under LGC (Abrahamyan et al., arXiv 2103.08870, section V), in one
// process, with every message as bytes. A round is in one of three phases:
//   exact     all values are sent unchanged
//   training  of each tensor the share `density` is sent, at indices of the round's random leader; the
//             autoencoder is trained on the learned values. Lasts at least training_rounds, and until the
//             autoencoder's loss is below `accept` of the mean square
//   coded     parameter server: the leader sends the code of its learned values, each client its innovation;
//             the server decodes for each client and takes the mean. Ring: all nodes send codes
// Where the paper leaves open how updates are decoded or what follows a lost message, docs/LGC.md has the choice.
// Uses malloc; one thread per group.
#ifndef TERN_LAB_LGC_GROUP_H
#define TERN_LAB_LGC_GROUP_H

#include "lgc/autoencoder.h"
#include "lgc/message.h"
#include "lgc/plan.h"

// Codec of exact values.
extern const struct tern_codec tern_lgc_float32;

// State of a client of LGC.
struct tern_lgc_client {
    uint32_t id;
    float *velocity;   // [count]
    float *error;      // [count]
    float *picked;     // [picks]: the error at the leader's indices in this round
    float *innovation; // [learned]: learned values that this round sends unchanged, and 0 elsewhere
    float scale;       // scale of the learned values in this round
    bool present;      // it has joined
    uint32_t sent_last; // last round that counted its message; 0: none
};

enum tern_lgc_form {
    TERN_LGC_SERVER,
    TERN_LGC_RING_MEAN,   // codes are averaged on the ring and decoded once, as in the paper
    TERN_LGC_RING_GATHER, // every code travels the ring, and each node decodes it
};

enum tern_lgc_phase { TERN_LGC_PHASE_EXACT, TERN_LGC_PHASE_TRAINING, TERN_LGC_PHASE_CODED };

enum tern_lgc_feedback {
    // Clients decode too: an error buffer keeps the picked values less the decoded ones. With a server they choose
    // scale and innovation accordingly, so that the rest is never larger than the values.
    TERN_LGC_FEEDBACK_DECODED,
    // As in the paper: only the server decodes, and buffers are cleared at the leader's indices whatever arrived.
    TERN_LGC_FEEDBACK_CLEARED,
};

struct tern_lgc_settings {
    enum tern_lgc_form form;
    enum tern_lgc_feedback feedback;
    float density; // share of each tensor that is picked; 0.001 in the paper
    // share of the learned picks sent as innovation (parameter server); 0.1 in the paper, algorithm 1
    float innovation;
    float momentum;           // momentum of the clients' velocities, 0 <= momentum < 1
    struct tern_codec code;   // codec of codes: float32, float16, bfloat16, int8
    uint32_t exact_rounds;    // rounds of the phase `exact`; 200 in the paper
    uint32_t training_rounds; // at least; 300 in the paper
    // largest reconstruction loss, as share of the mean square, to start the coded phase
    float accept;
    uint32_t width;    // width of the autoencoder; 64 in the paper
    uint32_t channels; // channels of a code; 4 in the paper
    struct tern_autoencoder_training training;
    uint64_t seed;
};

// The kinds of message.
enum tern_lgc_way { TERN_LGC_WAY_LEAD, TERN_LGC_WAY_UPDATE };

// Carries a client's message to the server. It may lose (false) or change the message. carry NULL: all arrive.
struct tern_lgc_link {
    void *ctx;
    bool (*carry)(void *ctx, uint32_t client, enum tern_lgc_way way,
                  struct tern_lgc_message *message);
};

// A refused message, as "client 3's code is non-finite".
struct tern_lgc_refusal {
    uint32_t round; // 0: none
    uint32_t client;
    enum tern_lgc_kind kind;
    enum tern_result result;
};

// Bytes of a phase, summed over all clients.
struct tern_lgc_tally {
    uint64_t rounds;
    uint64_t client_rounds;
    uint64_t up[TERN_LGC_PIECE_KINDS]; // bytes sent; in a ring: forwarded
    uint64_t down[TERN_LGC_PIECE_KINDS];
    uint64_t leader_up; // bytes of the leaders, one per round
};

struct tern_lgc_group {
    const struct tern_model *model; // borrowed
    struct tern_lgc_settings settings;
    struct tern_lgc_link link; // may be set after opening
    struct tern_lgc_plan plan;
    uint32_t client_count;
    struct tern_lgc_client *clients; // [client_count]
    struct tern_autoencoder autoencoder;
    float *coder;          // weights of the autoencoder
    float *coder_velocity; // velocity of its training
    void *workspace;
    size_t workspace_size;

    uint32_t leader;              // of the current round
    enum tern_lgc_phase phase;    // of the current round
    bool code_arrived;            // a code arrived in this round
    uint32_t trained;             // training steps of the autoencoder
    float loss;                   // its reconstruction loss, averaged over about 20 steps
    uint32_t coded_from;          // first round of the coded phase; 0: not yet
    struct tern_lgc_refusal last; // last refused message
    uint32_t refused;             // number of refused messages
    uint32_t without_code;        // coded rounds without a code
    struct tern_lgc_tally tally[TERN_LGC_PHASE_CODED + 1];
    double *inputs;  // [count]: sum of all clients' velocities
    double *applied; // [count]: sum of all applied values of all clients

    // What follows is of one round.
    double *sum; // [count]: sum over the counted clients
    uint32_t counted;
    float *update; // [count]: mean over the counted clients
    uint32_t *at;  // [picks]
    uint64_t *words;
    float *scratch;   // [count]
    float *code;      // [code]
    float *mean_code; // [code]
    float *decoded;   // [learned]: values decoded from the common or the mean code
    float *exact;     // [exact]
    float *received;  // [client_count][picks]: each client's values as received, then as decoded
    struct tern_lgc_message message;
};

// Opens a group of `clients` absent clients; see tern_lgc_group_join(). model stays the caller's.
// TERN_ERR_ARGUMENT  a setting is out of range, there is no client, or the model has no learned tensor
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_lgc_group_open(const struct tern_lgc_settings *settings,
                                                   const struct tern_model *model, uint32_t clients,
                                                   struct tern_lgc_group *group);
void tern_lgc_group_close(struct tern_lgc_group *group);

// Adds a client before a round, with an error buffer of zeros. In the coded phase it receives encoder and decoder,
// and their bytes count.
TERN_MUST_USE enum tern_result tern_lgc_group_join(struct tern_lgc_group *group, uint32_t client);

// Source of changes: writes the change of a client's training from weights[count] in a round.
struct tern_lgc_trainer {
    void *ctx;
    TERN_MUST_USE enum tern_result (*train)(void *ctx, uint32_t client, uint32_t round,
                                            const float *weights, float *change);
};

// Runs a round of all present clients, from 1, and adds the mean to weights[count]. If no message counts, weights and
// clients stay unchanged.
// TERN_ERR_TRAINER     the autoencoder's training diverged; other errors of the trainer
// TERN_ERR_NON_FINITE  a client's error buffer
TERN_MUST_USE enum tern_result tern_lgc_group_round(struct tern_lgc_group *group, uint32_t round,
                                                    const struct tern_lgc_trainer *trainer,
                                                    float *weights);

// Returns the largest magnitude over the values of (sum of velocities - sum of applied values - sum of error
// buffers), relative to the largest first sum: 0, except for rounding, if error buffers conserve.
double tern_lgc_group_unaccounted(const struct tern_lgc_group *group);

#endif
