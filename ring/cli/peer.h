// What the settings make of this peer before anything is sent: its ring, its model and what it holds. For the
// verbs of tern-ring; one thread.
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
    bool is_new; // nothing was saved yet
    uint8_t agreement[TERN_SHA256_SIZE];
    char terms[TERN_RING_TERMS_MAX + 1]; // that in words
    char state_path[300];
    int lock; // of the state directory; -1: it is looked at alone
};

// Reads the list of peers, codec and model. Returns an exit code, as do the next two, and has then said what is wrong.
int ring_peer_open(struct tern_cli *cli, struct ring_peer *peer);

// Takes the state directory for this process, and makes it where it is missing: for who is going to write.
int ring_peer_lock(struct tern_cli *cli, struct ring_peer *peer);

// Reads the state that is kept, or makes the first one.
int ring_peer_load(struct tern_cli *cli, struct ring_peer *peer);

void ring_peer_close(struct ring_peer *peer);

#endif
