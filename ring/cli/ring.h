// Settings, peer, learner and verbs of tern-ring, shared by its files. Used by the main thread alone.
#ifndef TERN_RING_H
#define TERN_RING_H

#include "codec/codec.h"
#include "data/source.h"
#include "hosted/cli.h"
#include "hosted/settings.h"
#include "mesh/frame.h"
#include "mesh/peers.h"
#include "node/node.h"
#include "node/state.h"
#include "tensor/model.h"
#include "trainer/trainer.h"

// Read-only after loading.
struct tern_ring_settings {
#include "hosted/setting_fields.def"

#include "cli/ring_settings.def"

#include "hosted/setting_rows_end.def"
};

extern struct tern_ring_settings tern_ring_settings;

// --- This peer

struct ring_peer {
    const struct tern_ring_settings *settings;
    struct tern_ring_peers peers;
    struct tern_codec codec;
    struct tern_model model;
    struct tern_ring_state state;
    bool is_new;                         // no state is saved yet
    uint8_t agreement[TERN_SHA256_SIZE]; // hash of the settings that all peers must share
    char terms[TERN_RING_TERMS_MAX + 1]; // these settings as text
    char state_path[300];
    int lock; // file descriptor of the state directory's lock; -1: not locked
};

// Reads the list of peers, the codec and the model. Prints an error; returns an exit code, as the next two functions do.
int ring_peer_open(struct tern_cli *cli, struct ring_peer *peer);

// Creates the state directory if it is missing, and locks it against other processes. Only needed to write.
int ring_peer_lock(struct tern_cli *cli, struct ring_peer *peer);

// Reads the saved state; without one, initialises it from ring.seed.
int ring_peer_load(struct tern_cli *cli, struct ring_peer *peer);

void ring_peer_close(struct ring_peer *peer);

// --- Its learner

#define TERN_RING_TRAINING_WHY_MAX 512

struct tern_ring_training {
    const struct tern_ring_settings *settings;
    uint32_t peer;
    struct tern_data data;
    struct tern_builtin_trainer trainer;
    void *arena;
};

// Opens the data and the trainer. settings: borrowed until the close. peer: this peer's index, which seeds the batches.
// TERN_ERR_CONFIG  the data cannot be read, or does not fit the model; why has the reason
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_ring_training_open(struct tern_ring_training *training,
                                                       const struct tern_ring_settings *settings,
                                                       const struct tern_model *model,
                                                       uint32_t peer,
                                                       char why[TERN_RING_TRAINING_WHY_MAX]);
void tern_ring_training_close(struct tern_ring_training *training);

struct tern_ring_learner tern_ring_training_learner(struct tern_ring_training *training);

// --- Verbs; each returns an exit code

int ring_verb_run(struct tern_cli *cli);
int ring_verb_status(struct tern_cli *cli);
int ring_verb_export(struct tern_cli *cli);

#endif
