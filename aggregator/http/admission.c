#include "http/admission.h"
#include <netinet/in.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

// --- Addresses

struct tern_address tern_address_of(const struct sockaddr_storage *name)
{
    struct tern_address address = {{0}};
    if (name == NULL) {
        return address;
    }
    if (name->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)name;
        memset(address.bytes + 10, 0xff, 2);
        memcpy(address.bytes + 12, &v4->sin_addr, 4);
    } else if (name->ss_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)name)->sin6_addr;
        memcpy(address.bytes, v6, IN6_IS_ADDR_V4MAPPED(v6) ? 16 : 8);
    }
    return address;
}

// --- Places of connections

// The trees of addresses and clients are balanced, because peers choose their addresses. Strangers (connections that
// have not authenticated) are displaced in two orders: one over all addresses, and one within each address. A displaced
// place counts as open and as leaving until its loop has closed the connection; a newcomer can replace it at once.

// An address with connections that have not authenticated.
struct tern_origin {
    struct tern_address address; // key of the tree; first, for compare_addresses()
    uint32_t open; // strangers of this address, including those whose request is being handled
    uint32_t newcomer_count;      // length of `newcomers`
    struct tern_places newcomers; // strangers that are tern_place.is_newcomer, the oldest first
    struct tern_places strangers; // all other strangers, the longest idle first
};

struct client {
    uint64_t id;                 // key of the tree
    uint32_t open;               // authenticated connections
    uint32_t arriving;           // recognised connections
    struct tern_places places;   // authenticated connections, the oldest first
    struct tern_places arrivals; // recognised connections, the oldest first
};

struct tern_admission {
    pthread_mutex_t lock;
    uint32_t connections; // limit of all open connections
    uint32_t per_address;
    uint32_t per_client;
    uint32_t open;
    uint32_t leaving;             // displaced connections, counted in `open`
    struct tern_places strangers; // of all addresses, the longest idle first
    void *addresses;              // tree of tern_origin
    void *clients;                // tree of client
};

struct tern_admission *tern_admission_new(const struct tern_http_limits *limits)
{
    struct tern_admission *admission = calloc(1, sizeof *admission);
    if (admission != NULL) {
        pthread_mutex_init(&admission->lock, NULL);
        tern_admission_set_limits(admission, limits);
        TAILQ_INIT(&admission->strangers);
    }
    return admission;
}

void tern_admission_set_limits(struct tern_admission *admission,
                               const struct tern_http_limits *limits)
{
    pthread_mutex_lock(&admission->lock);
    admission->connections = limits->connections;
    admission->per_address = limits->connections_per_address;
    admission->per_client = limits->connections_per_client;
    pthread_mutex_unlock(&admission->lock);
}

// The trees are empty, because all connections have left.
void tern_admission_free(struct tern_admission *admission)
{
    if (admission != NULL) {
        pthread_mutex_destroy(&admission->lock);
        free(admission);
    }
}

// --- Counts per address and per client. These functions require the lock

typedef int comparison(const void *, const void *);

// Compares structs whose first member is a tern_address.
static int compare_addresses(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct tern_address));
}

static int compare_ids(const void *a, const void *b)
{
    const struct client *x = a;
    const struct client *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static void *find(void *const *tree, const void *key, comparison *compare)
{
    void *const *at = tfind(key, tree, compare);
    return at != NULL ? *at : NULL;
}

// Returns the element of the tree that equals `key`, or adds a copy of `key`, which has `size` bytes. NULL when memory is
// short.
static void *find_or_make(void **tree, const void *key, size_t size, comparison *compare)
{
    void *found = find(tree, key, compare);
    if (found != NULL) {
        return found;
    }
    void *made = malloc(size);
    if (made == NULL) {
        return NULL;
    }
    memcpy(made, key, size);
    if (tsearch(made, tree, compare) == NULL) {
        free(made);
        return NULL;
    }
    return made;
}

static bool is_zero(const struct tern_address *address)
{
    static const struct tern_address zero;
    return memcmp(address, &zero, sizeof zero) == 0;
}

// Counts the connection for its peer's address. False: memory is short.
static bool join_origin(struct tern_admission *admission, struct tern_place *place)
{
    if (is_zero(&place->address)) {
        return true;
    }
    const struct tern_origin key = {.address = place->address};
    struct tern_origin *origin =
        find_or_make(&admission->addresses, &key, sizeof key, compare_addresses);
    if (origin == NULL) {
        return false;
    }
    if (origin->open++ == 0) {
        TAILQ_INIT(&origin->newcomers);
        TAILQ_INIT(&origin->strangers);
    }
    place->origin = origin;
    return true;
}

static void leave_origin(struct tern_admission *admission, struct tern_place *place)
{
    struct tern_origin *origin = place->origin;
    place->origin = NULL;
    if (origin != NULL && --origin->open == 0) {
        (void)tdelete(origin, &admission->addresses, compare_addresses);
        free(origin);
    }
}

static struct client *client_of(struct tern_admission *admission, uint64_t id)
{
    return find(&admission->clients, &(struct client){.id = id}, compare_ids);
}

// NULL: memory is short, or id is 0.
static struct client *make_client(struct tern_admission *admission, uint64_t id)
{
    const struct client key = {.id = id};
    struct client *client =
        id != 0 ? find_or_make(&admission->clients, &key, sizeof key, compare_ids) : NULL;
    if (client != NULL && client->open + client->arriving == 0) {
        TAILQ_INIT(&client->places);
        TAILQ_INIT(&client->arrivals);
    }
    return client;
}

static void drop_unused(struct tern_admission *admission, struct client *client)
{
    if (client->open + client->arriving == 0) {
        (void)tdelete(client, &admission->clients, compare_ids);
        free(client);
    }
}

// --- States of places. These functions require the lock

static struct tern_places *list_at(struct tern_origin *origin, const struct tern_place *place)
{
    return place->is_newcomer ? &origin->newcomers : &origin->strangers;
}

// Removes the place from the lists of its state.
static void unlist(struct tern_admission *admission, struct tern_place *place)
{
    struct client *client = NULL;
    switch (place->state) {
    case TERN_PLACE_STRANGER:
        TAILQ_REMOVE(&admission->strangers, place, link);
        if (place->origin != NULL) {
            TAILQ_REMOVE(list_at(place->origin, place), place, of_address);
            place->origin->newcomer_count -= place->is_newcomer;
        }
        break;
    case TERN_PLACE_DISPLACED:
        TAILQ_REMOVE(&place->group->displaced, place, link);
        admission->leaving--;
        break;
    case TERN_PLACE_RECOGNISED:
        client = client_of(admission, place->client);
        TAILQ_REMOVE(&client->arrivals, place, link);
        client->arriving--;
        drop_unused(admission, client);
        place->client = 0;
        break;
    case TERN_PLACE_KNOWN:
        client = client_of(admission, place->client);
        if (client != NULL) {
            TAILQ_REMOVE(&client->places, place, link);
            client->open--;
            drop_unused(admission, client);
        }
        break;
    case TERN_PLACE_BUSY:
        break;
    }
}

static void set_stranger(struct tern_admission *admission, struct tern_place *place)
{
    place->state = TERN_PLACE_STRANGER;
    TAILQ_INSERT_TAIL(&admission->strangers, place, link);
    if (place->origin != NULL) {
        TAILQ_INSERT_TAIL(list_at(place->origin, place), place, of_address);
        place->origin->newcomer_count += place->is_newcomer;
    }
}

static void displace(struct tern_admission *admission, struct tern_place *place)
{
    unlist(admission, place);
    leave_origin(admission, place);
    place->state = TERN_PLACE_DISPLACED;
    TAILQ_INSERT_TAIL(&place->group->displaced, place, link);
    admission->leaving++;
    place->group->wake(place->group->ctx);
}

// Whether the connection has not authenticated. A displaced connection can still authenticate until its loop closes it.
static bool is_unauthenticated(const struct tern_place *place)
{
    return place->state == TERN_PLACE_STRANGER || place->state == TERN_PLACE_BUSY ||
           place->state == TERN_PLACE_RECOGNISED ||
           (place->state == TERN_PLACE_DISPLACED && place->client == 0);
}

static bool make_room(struct tern_admission *admission)
{
    while (admission->open - admission->leaving >= admission->connections) {
        if (TAILQ_EMPTY(&admission->strangers)) {
            return false;
        }
        displace(admission, TAILQ_FIRST(&admission->strangers));
    }
    return true;
}

// Returns the place that the next newcomer of this address displaces; NULL = none. A peer can open connections for
// free, so newcomers displace only other newcomers once they fill half of the address's limit.
static struct tern_place *next_displaced(const struct tern_admission *admission,
                                         const struct tern_origin *origin)
{
    struct tern_place *newcomer = TAILQ_FIRST(&origin->newcomers);
    struct tern_place *stranger = TAILQ_FIRST(&origin->strangers);
    const bool are_many = origin->newcomer_count > admission->per_address / 2;
    return stranger == NULL || (are_many && newcomer != NULL) ? newcomer : stranger;
}

// Displaces strangers of this address until one more connection fits. False: all its connections have requests being
// handled.
static bool make_room_at(struct tern_admission *admission, const struct tern_address *address)
{
    const struct tern_origin *origin;
    while ((origin = find(&admission->addresses, address, compare_addresses)) != NULL &&
           origin->open >= admission->per_address) {
        struct tern_place *place = next_displaced(admission, origin);
        if (place == NULL) {
            return false;
        }
        displace(admission, place); // frees the origin, too, with its last place
    }
    return true;
}

static bool enter(struct tern_admission *admission, struct tern_place *place)
{
    if (!make_room_at(admission, &place->address) || !make_room(admission) ||
        !join_origin(admission, place)) {
        return false;
    }
    admission->open++;
    place->is_newcomer = true;
    set_stranger(admission, place);
    return true;
}

// `place` must be a stranger.
static bool move(struct tern_admission *admission, struct tern_place *place,
                 const struct tern_address *address)
{
    unlist(admission, place);
    leave_origin(admission, place);
    place->address = *address;
    const bool moves = make_room_at(admission, address) && join_origin(admission, place);
    set_stranger(admission, place);
    return moves;
}

static void authenticate(struct tern_admission *admission, struct tern_place *place, uint64_t id)
{
    unlist(admission, place);
    leave_origin(admission, place);
    struct client *client = make_client(admission, id);
    place->state = TERN_PLACE_KNOWN;
    place->client = client != NULL ? id : 0;
    if (client == NULL) {
        return;
    }
    client->open++;
    TAILQ_INSERT_TAIL(&client->places, place, link);
    if (client->open > admission->per_client) {
        displace(admission, TAILQ_FIRST(&client->places));
    }
}

// Counts the connection for its address, no longer for its client. The address may exceed its limit, because the
// connection is open already.
static void clear_client(struct tern_admission *admission, struct tern_place *place)
{
    unlist(admission, place);
    if (place->origin == NULL) {
        const bool ignored =
            join_origin(admission, place); // if memory is short, no address counts the connection
        (void)ignored;
    }
}

static void recognise(struct tern_admission *admission, struct tern_place *place, uint64_t id)
{
    struct client *client = make_client(admission, id);
    if (client == NULL) {
        return;
    }
    unlist(admission, place);
    leave_origin(admission, place);
    place->state = TERN_PLACE_RECOGNISED;
    place->client = id;
    client->arriving++;
    TAILQ_INSERT_TAIL(&client->arrivals, place, link);
    if (client->arriving > admission->per_client) {
        struct tern_place *oldest = TAILQ_FIRST(&client->arrivals);
        clear_client(admission, oldest);
        set_stranger(admission, oldest);
    }
}

// --- Functions that take the lock

bool tern_admission_enter(struct tern_admission *admission, struct tern_place_group *group,
                          const struct sockaddr_storage *name, struct tern_place *place)
{
    *place = (struct tern_place){.group = group, .address = tern_address_of(name)};
    pthread_mutex_lock(&admission->lock);
    const bool entered = enter(admission, place);
    pthread_mutex_unlock(&admission->lock);
    return entered;
}

bool tern_admission_move(struct tern_admission *admission, struct tern_place *place,
                         const struct sockaddr_storage *name)
{
    const struct tern_address address = tern_address_of(name);
    pthread_mutex_lock(&admission->lock);
    // A place that is no longer a stranger's was displaced meanwhile.
    const bool moves = place->state == TERN_PLACE_STRANGER && move(admission, place, &address);
    pthread_mutex_unlock(&admission->lock);
    return moves;
}

void tern_admission_leave(struct tern_admission *admission, struct tern_place *place)
{
    pthread_mutex_lock(&admission->lock);
    unlist(admission, place);
    leave_origin(admission, place);
    admission->open--;
    pthread_mutex_unlock(&admission->lock);
}

void tern_admission_touch(struct tern_admission *admission, struct tern_place *place)
{
    pthread_mutex_lock(&admission->lock);
    if (place->state == TERN_PLACE_STRANGER || place->state == TERN_PLACE_BUSY) {
        unlist(admission, place);
        place->is_newcomer = false;
        set_stranger(admission, place);
    } else if (place->state == TERN_PLACE_RECOGNISED) {
        place->is_newcomer = false;
    }
    pthread_mutex_unlock(&admission->lock);
}

void tern_admission_busy(struct tern_admission *admission, struct tern_place *place)
{
    pthread_mutex_lock(&admission->lock);
    if (is_unauthenticated(place)) {
        clear_client(admission, place);
        place->state = TERN_PLACE_BUSY;
    }
    pthread_mutex_unlock(&admission->lock);
}

void tern_admission_recognise(struct tern_admission *admission, struct tern_place *place,
                              uint64_t client)
{
    pthread_mutex_lock(&admission->lock);
    if (place->state == TERN_PLACE_STRANGER) {
        recognise(admission, place, client);
    }
    pthread_mutex_unlock(&admission->lock);
}

void tern_admission_unrecognise(struct tern_admission *admission, struct tern_place *place)
{
    pthread_mutex_lock(&admission->lock);
    if (place->state == TERN_PLACE_RECOGNISED) {
        clear_client(admission, place);
        set_stranger(admission, place);
    }
    pthread_mutex_unlock(&admission->lock);
}

void tern_admission_authenticate(struct tern_admission *admission, struct tern_place *place,
                                 uint64_t client)
{
    pthread_mutex_lock(&admission->lock);
    if (is_unauthenticated(place)) {
        authenticate(admission, place, client);
    }
    pthread_mutex_unlock(&admission->lock);
}

struct tern_place *tern_admission_displaced(struct tern_admission *admission,
                                            struct tern_place_group *group)
{
    pthread_mutex_lock(&admission->lock);
    struct tern_place *place = TAILQ_FIRST(&group->displaced);
    pthread_mutex_unlock(&admission->lock);
    return place;
}

uint32_t tern_admission_open(struct tern_admission *admission)
{
    pthread_mutex_lock(&admission->lock);
    uint32_t open = admission->open;
    pthread_mutex_unlock(&admission->lock);
    return open;
}

// --- Handshake slots

// An address has a debt: the slots that it has taken and that are not free again. It is counted in thousandths of a
// slot, so that it falls by per_address each millisecond.
#define HANDSHAKE UINT64_C(1000)

// An address that has taken handshake slots.
struct tern_handshake_peer {
    struct tern_address address; // key of the tree; first, for compare_addresses()
    bool is_listed;
    LIST_ENTRY(tern_handshake_peer) link;
    uint64_t debt; // thousandths of slots taken, at the time at_ms
    uint64_t at_ms;
};

static void forget(struct tern_handshakes *handshakes, struct tern_handshake_peer *peer)
{
    (void)tdelete(peer, &handshakes->tree, compare_addresses);
    LIST_REMOVE(peer, link);
    free(peer);
}

// Lowers the address's debt by the slots that have become free since at_ms.
static void drain(const struct tern_handshakes *handshakes, struct tern_handshake_peer *peer,
                  uint64_t now_ms)
{
    const uint64_t passed = now_ms > peer->at_ms ? now_ms - peer->at_ms : 0;
    const uint64_t needed = peer->debt / handshakes->per_address;
    peer->debt = passed > needed ? 0 : peer->debt - passed * handshakes->per_address;
    peer->at_ms = now_ms;
}

bool tern_handshakes_take_slot(struct tern_handshakes *handshakes,
                               const struct tern_address *address, uint64_t now_ms)
{
    const struct tern_handshake_peer key = {.address = *address};
    struct tern_handshake_peer *peer =
        find_or_make(&handshakes->tree, &key, sizeof key, compare_addresses);
    if (peer == NULL) {
        return false;
    }
    if (!peer->is_listed) {
        peer->is_listed = true;
        LIST_INSERT_HEAD(&handshakes->peers, peer, link);
    }
    drain(handshakes, peer, now_ms);
    const bool begins = peer->debt + HANDSHAKE <= handshakes->per_address * HANDSHAKE;
    peer->debt += begins ? HANDSHAKE : 0;
    return begins;
}

void tern_handshakes_free_slot(struct tern_handshakes *handshakes,
                               const struct tern_address *address, uint64_t now_ms)
{
    struct tern_handshake_peer *peer = find(&handshakes->tree, address, compare_addresses);
    if (peer == NULL) { // forgotten by a sweep, because its debt was 0
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
    struct tern_handshake_peer *peer = LIST_FIRST(&handshakes->peers);
    while (peer != NULL) {
        struct tern_handshake_peer *next = LIST_NEXT(peer, link);
        drain(handshakes, peer, now_ms);
        if (peer->debt == 0) {
            forget(handshakes, peer);
        }
        peer = next;
    }
}
