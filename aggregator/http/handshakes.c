// A balanced tree of the addresses that have taken turns. Peers choose their addresses: a balanced tree has no
// worst case to exploit.
#include "http/handshakes.h"
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

// Debt is counted in thousandths of a handshake, so that it drains by the limit each millisecond.
#define HANDSHAKE UINT64_C(1000)

struct peer {
    struct tern_address address; // first: what the tree compares
    LIST_ENTRY(peer) link;
    uint64_t debt; // turns taken, at at_ms
    uint64_t at_ms;
};

struct tern_handshakes {
    uint32_t per_address;
    void *tree;
    LIST_HEAD(peers, peer) peers; // of the tree
};

struct tern_handshakes *tern_handshakes_new(uint32_t per_address)
{
    struct tern_handshakes *handshakes = calloc(1, sizeof *handshakes);
    if (handshakes != NULL) {
        handshakes->per_address = per_address;
        LIST_INIT(&handshakes->peers);
    }
    return handshakes;
}

void tern_handshakes_limit(struct tern_handshakes *handshakes, uint32_t per_address)
{
    handshakes->per_address = per_address;
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct tern_address));
}

static void forget(struct tern_handshakes *handshakes, struct peer *peer)
{
    (void)tdelete(peer, &handshakes->tree, compare);
    LIST_REMOVE(peer, link);
    free(peer);
}

void tern_handshakes_free(struct tern_handshakes *handshakes)
{
    if (handshakes == NULL) {
        return;
    }
    while (!LIST_EMPTY(&handshakes->peers)) {
        forget(handshakes, LIST_FIRST(&handshakes->peers));
    }
    free(handshakes);
}

static struct peer *find(struct tern_handshakes *handshakes, const struct tern_address *address)
{
    struct peer *const *at = tfind(address, &handshakes->tree, compare);
    return at != NULL ? *at : NULL;
}

static struct peer *make(struct tern_handshakes *handshakes, const struct tern_address *address)
{
    struct peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL) {
        return NULL;
    }
    peer->address = *address;
    if (tsearch(peer, &handshakes->tree, compare) == NULL) {
        free(peer);
        return NULL;
    }
    LIST_INSERT_HEAD(&handshakes->peers, peer, link);
    return peer;
}

static void drain(const struct tern_handshakes *handshakes, struct peer *peer, uint64_t now_ms)
{
    const uint64_t passed = now_ms > peer->at_ms ? now_ms - peer->at_ms : 0;
    const uint64_t needed = peer->debt / handshakes->per_address;
    peer->debt = passed > needed ? 0 : peer->debt - passed * handshakes->per_address;
    peer->at_ms = now_ms;
}

bool tern_handshakes_begin(struct tern_handshakes *handshakes, const struct tern_address *address,
                           uint64_t now_ms)
{
    struct peer *peer = find(handshakes, address);
    peer = peer != NULL ? peer : make(handshakes, address);
    if (peer == NULL) {
        return false;
    }
    drain(handshakes, peer, now_ms);
    const bool begins = peer->debt + HANDSHAKE <= handshakes->per_address * HANDSHAKE;
    peer->debt += begins ? HANDSHAKE : 0;
    return begins;
}

void tern_handshakes_succeed(struct tern_handshakes *handshakes, const struct tern_address *address,
                             uint64_t now_ms)
{
    struct peer *peer = find(handshakes, address);
    if (peer == NULL) { // the turn was freed by time
        return;
    }
    drain(handshakes, peer, now_ms);
    peer->debt -= peer->debt < HANDSHAKE ? peer->debt : HANDSHAKE;
    if (peer->debt == 0) {
        forget(handshakes, peer);
    }
}

void tern_handshakes_sweep(struct tern_handshakes *handshakes, uint64_t now_ms)
{
    struct peer *peer = LIST_FIRST(&handshakes->peers);
    while (peer != NULL) {
        struct peer *next = LIST_NEXT(peer, link);
        drain(handshakes, peer, now_ms);
        if (peer->debt == 0) {
            forget(handshakes, peer);
        }
        peer = next;
    }
}
