// A group of clients that trains one model under LGC (Abrahamyan et al., arXiv 2103.08870, section V), all in one
// process, every message as bytes. A round is in one of three phases:
//   exact     all values go as they are
//   training  of each tensor the share `density` goes, at positions that the round's leader, drawn by the seed,
//             chooses for all; the autoencoder is trained on the learned ones. It lasts training_rounds, and on
//             until the autoencoder leaves less than `accept` of the mean square
//   coded     parameter server: the leader sends the code of its learned values, and each client what is its own
//             (innovation); the server decodes for each of them and takes the mean. Ring: all send codes
// Where the paper leaves open how an update can be decoded, or what was sent is lost, docs/LGC.md says what is done
// here. Hosted: uses malloc; one thread for one group.
#ifndef TERN_LAB_LGC_GROUP_H
#define TERN_LAB_LGC_GROUP_H

#include "lgc/autoencoder.h"
#include "lgc/message.h"
#include "lgc/plan.h"

// Codec of the values that go exactly.
extern const struct tern_codec tern_lgc_float32;

// A client of LGC: a velocity and an error buffer for each value.
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

enum tern_lgc_form {
    TERN_LGC_SERVER,
    TERN_LGC_RING_MEAN,   // the mean of codes goes round and is decoded once, as in the paper
    TERN_LGC_RING_GATHER, // every code goes round and is decoded by each node
};

enum tern_lgc_phase { TERN_LGC_PHASE_EXACT, TERN_LGC_PHASE_TRAINING, TERN_LGC_PHASE_CODED };

enum tern_lgc_feedback {
    // Clients know what was decoded: an error buffer keeps what was picked less that. With a server they choose
    // unit and innovation by it, so that what is left is never more than what there was.
    TERN_LGC_FEEDBACK_DECODED,
    // The paper's: the server alone decodes, and buffers are cleared where the leader picked, whatever arrived.
    TERN_LGC_FEEDBACK_CLEARED,
};

struct tern_lgc_settings {
    enum tern_lgc_form form;
    enum tern_lgc_feedback feedback;
    float density;          // share of each tensor that is picked: the paper's 0.001
    float innovation;       // of the learned picks (parameter server): the paper's 0.1, algorithm 1
    float momentum;         // of the clients' velocities, 0 <= momentum < 1
    struct tern_codec code; // of codes: float32, float16, bfloat16, int8
    uint32_t exact_rounds;  // the paper's: 200
    uint32_t training_rounds; // at least: the paper's 300
    float accept;             // of the mean square: the reconstruction loss to go on with
    uint32_t width;           // of the autoencoder: the paper's 64
    uint32_t channels;        // the paper's 4
    struct tern_autoencoder_training training;
    uint64_t seed;
};

// Whose message is carried, and which.
enum tern_lgc_way { TERN_LGC_WAY_LEAD, TERN_LGC_WAY_UPDATE };

// Carries a client's message to the server, which may be lost (false) or come changed. carry NULL: all arrive.
struct tern_lgc_link {
    void *ctx;
    bool (*carry)(void *ctx, uint32_t client, enum tern_lgc_way way,
                  struct tern_lgc_message *message);
};

// A message that was refused: client 3's code is non-finite.
struct tern_lgc_refusal {
    uint32_t round; // 0: none was
    uint32_t client;
    enum tern_lgc_kind kind;
    enum tern_result result;
};

// Bytes of a phase, of all clients together.
struct tern_lgc_tally {
    uint64_t rounds;
    uint64_t client_rounds;
    uint64_t up[TERN_LGC_PIECE_KINDS]; // ring: that a node passes to the next
    uint64_t down[TERN_LGC_PIECE_KINDS];
    uint64_t leader_up; // of the leaders, in as many rounds
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
    float *coder_velocity; // of its training
    void *workspace;
    size_t workspace_size;

    uint32_t leader;              // of this round
    enum tern_lgc_phase phase;    // of this round
    bool code_arrived;            // in this round
    uint32_t trained;             // steps of the autoencoder
    float loss;                   // its reconstruction loss, a mean of about the last 20 steps
    uint32_t coded_from;          // first round of the coded phase; 0: not yet
    struct tern_lgc_refusal last; // message that was refused
    uint32_t refused;             // messages
    uint32_t without_code;        // coded rounds in which none arrived
    struct tern_lgc_tally tally[TERN_LGC_PHASE_CODED + 1];
    double *inputs;  // [count]: sum of all clients' velocities
    double *applied; // [count]: sum of what updates took, of all clients

    // What follows is of one round.
    double *sum; // [count]: of the clients that are counted
    uint32_t counted;
    float *update; // [count]: their mean
    uint32_t *at;  // [picks]
    uint64_t *words;
    float *scratch;   // [count]
    float *code;      // [code]
    float *mean_code; // [code]
    float *decoded;   // [learned]: what the common code, or the mean code, is decoded to
    float *exact;     // [exact]
    float *
        received; // [client_count][picks]: of each, what the server was sent, then what it made of it
    struct tern_lgc_message message;
};

// clients: they are all absent; tern_lgc_group_join(). model stays the caller's.
// TERN_ERR_ARGUMENT  a setting is out of range, there is no client, or the model has no learned tensor
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_lgc_group_open(const struct tern_lgc_settings *settings,
                                                   const struct tern_model *model, uint32_t clients,
                                                   struct tern_lgc_group *group);
void tern_lgc_group_close(struct tern_lgc_group *group);

// A client joins before a round, with an error buffer of zeros. Once there are codes it is given encoder and
// decoder, whose bytes are counted.
TERN_MUST_USE enum tern_result tern_lgc_group_join(struct tern_lgc_group *group, uint32_t client);

// Where changes come from: writes what a client's training made of weights[count] in a round.
struct tern_lgc_trainer {
    void *ctx;
    TERN_MUST_USE enum tern_result (*train)(void *ctx, uint32_t client, uint32_t round,
                                            const float *weights, float *change);
};

// A round of all present clients, from 1: weights[count] are moved by the mean. Where no message counts, nothing is
// moved and every client keeps what it has.
// TERN_ERR_TRAINER     the autoencoder's training diverged; others of the trainer
// TERN_ERR_NON_FINITE  a client's error buffer
TERN_MUST_USE enum tern_result tern_lgc_group_round(struct tern_lgc_group *group, uint32_t round,
                                                    const struct tern_lgc_trainer *trainer,
                                                    float *weights);

// The largest magnitude, over the values, of sum of velocities - sum of what was applied - sum of error buffers, as a
// share of the largest of the first sum: 0 but for rounding where error buffers conserve.
double tern_lgc_group_unaccounted(const struct tern_lgc_group *group);

#endif
