// Opens this peer from its settings: the list of peers, the model and the saved state. Called by the verbs of tern-ring,
// before any traffic; one thread.
#ifndef TERN_RING_PEER_H
#define TERN_RING_PEER_H

#include "cli/ring_settings.h"
#include "codec/codec.h"
#include "hosted/cli.h"
#include "mesh/frame.h"
#include "mesh/peers.h"
#include "node/state.h"
#include "tensor/model.h"

struct ring_peer {
    const struct tern_ring_settings *settings;
    struct tern_ring_peers peers;
    struct tern_codec codec;
    struct tern_model model;
    struct tern_ring_state state;
    bool is_new; // no state is saved yet
    uint8_t agreement[TERN_SHA256_SIZE];
    char terms[TERN_RING_TERMS_MAX + 1]; // the agreement as text
    char state_path[300];
    int lock; // of the state directory; -1: not locked, only read
};

// Reads the list of peers, codec and model. Like the next two functions it returns an exit code, after it has printed any
// error.
int ring_peer_open(struct tern_cli *cli, struct ring_peer *peer);

// Makes the state directory if it is missing, and locks it for this process, which is going to write.
int ring_peer_lock(struct tern_cli *cli, struct ring_peer *peer);

// Reads the saved state, or makes the first one.
int ring_peer_load(struct tern_cli *cli, struct ring_peer *peer);

void ring_peer_close(struct ring_peer *peer);

#endif
