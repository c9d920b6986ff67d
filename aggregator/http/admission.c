// One mutex and two balanced trees, because peers choose their addresses. Strangers are displaced in two orders:
// one over all addresses, and one within each address. A displaced place counts as open, and as leaving, until
// its loop has ended it; another connection of its address can take its place at once.
#include "http/admission.h"
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

// An address with connections that have shown no credentials.
struct tern_origin {
    struct tern_address address;  // key of the tree
    uint32_t open;                // strangers, busy ones included
    uint32_t newcomer_count;      // length of `newcomers`
    struct tern_places newcomers; // have sent nothing; the oldest first
    struct tern_places strangers; // other strangers; the longest idle first
};

struct client {
    uint64_t id; // key of the tree
    uint32_t open;
    uint32_t arriving;           // recognised by a ticket, not authenticated
    struct tern_places places;   // the oldest first
    struct tern_places arrivals; // the oldest first
};

struct tern_admission {
    pthread_mutex_t lock;
    uint32_t connections;
    uint32_t per_address;
    uint32_t per_client;
    uint32_t open;
    uint32_t leaving; // of them, displaced
    struct tern_places strangers;
    void *addresses;
    void *clients;
};

struct tern_admission *tern_admission_new(const struct tern_http_limits *limits)
{
    struct tern_admission *admission = calloc(1, sizeof *admission);
    if (admission != NULL) {
        pthread_mutex_init(&admission->lock, NULL);
        tern_admission_limit(admission, limits);
        TAILQ_INIT(&admission->strangers);
    }
    return admission;
}

void tern_admission_limit(struct tern_admission *admission, const struct tern_http_limits *limits)
{
    pthread_mutex_lock(&admission->lock);
    admission->connections = limits->connections;
    admission->per_address = limits->connections_per_address;
    admission->per_client = limits->connections_per_client;
    pthread_mutex_unlock(&admission->lock);
}

// Without places the trees are empty.
void tern_admission_free(struct tern_admission *admission)
{
    if (admission != NULL) {
        pthread_mutex_destroy(&admission->lock);
        free(admission);
    }
}

void tern_place_group_init(struct tern_place_group *group, void (*wake)(void *ctx), void *ctx)
{
    TAILQ_INIT(&group->displaced);
    group->wake = wake;
    group->ctx = ctx;
}

// --- Counts per address and per client. The lock is held from here on, but by the functions at the end

typedef int comparison(const void *, const void *);

static int compare_addresses(const void *a, const void *b)
{
    const struct tern_origin *x = a;
    const struct tern_origin *y = b;
    return memcmp(&x->address, &y->address, sizeof x->address);
}

static int compare_ids(const void *a, const void *b)
{
    const struct client *x = a;
    const struct client *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static void *find(void *const *tree, const void *like, comparison *compare)
{
    void *const *at = tfind(like, tree, compare);
    return at != NULL ? *at : NULL;
}

// The element like that one, of `size` bytes, or a copy of it. NULL when memory is short.
static void *find_or_make(void **tree, const void *like, size_t size, comparison *compare)
{
    void *found = find(tree, like, compare);
    if (found != NULL) {
        return found;
    }
    void *made = malloc(size);
    if (made == NULL) {
        return NULL;
    }
    memcpy(made, like, size);
    if (tsearch(made, tree, compare) == NULL) {
        free(made);
        return NULL;
    }
    return made;
}

static struct tern_origin *origin_of(const struct tern_admission *admission,
                                     const struct tern_address *address)
{
    const struct tern_origin like = {.address = *address};
    return find(&admission->addresses, &like, compare_addresses);
}

static bool is_zero(const struct tern_address *address)
{
    static const struct tern_address zero;
    return memcmp(address, &zero, sizeof zero) == 0;
}

// False: memory is short.
static bool count_in(struct tern_admission *admission, struct tern_place *place)
{
    if (is_zero(&place->address)) {
        return true;
    }
    const struct tern_origin like = {.address = place->address};
    struct tern_origin *origin =
        find_or_make(&admission->addresses, &like, sizeof like, compare_addresses);
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

static void count_out(struct tern_admission *admission, struct tern_place *place)
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

// NULL: out of memory, or id is 0.
static struct client *make_client(struct tern_admission *admission, uint64_t id)
{
    const struct client like = {.id = id};
    struct client *client =
        id != 0 ? find_or_make(&admission->clients, &like, sizeof like, compare_ids) : NULL;
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

// --- Places

static struct tern_places *list_at(struct tern_origin *origin, const struct tern_place *place)
{
    return place->is_newcomer ? &origin->newcomers : &origin->strangers;
}

// Removes the place from the lists that match its state.
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
    count_out(admission, place);
    place->state = TERN_PLACE_DISPLACED;
    TAILQ_INSERT_TAIL(&place->group->displaced, place, link);
    admission->leaving++;
    place->group->wake(place->group->ctx);
}

// True also for a displaced place that its loop has not ended: it can still be spared.
static bool is_strangers(const struct tern_place *place)
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

// Newcomers cost their peer nothing, so they displace only one another once they hold half of the address's share.
// NULL = none.
static struct tern_place *first_to_go(const struct tern_admission *admission,
                                      const struct tern_origin *origin)
{
    struct tern_place *newcomer = TAILQ_FIRST(&origin->newcomers);
    struct tern_place *stranger = TAILQ_FIRST(&origin->strangers);
    const bool are_many = origin->newcomer_count > admission->per_address / 2;
    return stranger == NULL || (are_many && newcomer != NULL) ? newcomer : stranger;
}

// Displaces strangers of the same address only: one device cannot exclude the other devices behind the same
// NAT for good. False: requests that are being handled fill the address's share.
static bool make_room_at(struct tern_admission *admission, const struct tern_address *address)
{
    const struct tern_origin *origin = origin_of(admission, address);
    while (origin != NULL && origin->open >= admission->per_address) {
        struct tern_place *place = first_to_go(admission, origin);
        if (place == NULL) {
            return false;
        }
        displace(admission, place); // frees an origin without other places
        origin = origin_of(admission, address);
    }
    return true;
}

static bool enter(struct tern_admission *admission, struct tern_place *place)
{
    if (!make_room_at(admission, &place->address) || !make_room(admission) ||
        !count_in(admission, place)) {
        return false;
    }
    admission->open++;
    place->is_newcomer = true;
    set_stranger(admission, place);
    return true;
}

// Requires that `place` is a stranger.
static bool move(struct tern_admission *admission, struct tern_place *place,
                 const struct tern_address *address)
{
    unlist(admission, place);
    count_out(admission, place);
    place->address = *address;
    const bool moves = make_room_at(admission, address) && count_in(admission, place);
    set_stranger(admission, place);
    return moves;
}

static void know(struct tern_admission *admission, struct tern_place *place, uint64_t id)
{
    unlist(admission, place);
    count_out(admission, place);
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

// Counts the connection for its address again, beyond the share if necessary: it is already open.
static void lose_name(struct tern_admission *admission, struct tern_place *place)
{
    unlist(admission, place);
    if (place->origin == NULL) {
        const bool ignored = count_in(admission, place); // out of memory: the place stays uncounted
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
    count_out(admission, place);
    place->state = TERN_PLACE_RECOGNISED;
    place->client = id;
    client->arriving++;
    TAILQ_INSERT_TAIL(&client->arrivals, place, link);
    if (client->arriving > admission->per_client) {
        struct tern_place *oldest = TAILQ_FIRST(&client->arrivals);
        lose_name(admission, oldest);
        set_stranger(admission, oldest);
    }
}

// --- Under the lock

bool tern_admission_enter(struct tern_admission *admission, struct tern_place_group *group,
                          const struct tern_address *address, struct tern_place *place)
{
    *place = (struct tern_place){.group = group, .address = *address};
    pthread_mutex_lock(&admission->lock);
    const bool entered = enter(admission, place);
    pthread_mutex_unlock(&admission->lock);
    return entered;
}

bool tern_admission_move(struct tern_admission *admission, struct tern_place *place,
                         const struct tern_address *address)
{
    pthread_mutex_lock(&admission->lock);
    const bool moves = place->state == TERN_PLACE_STRANGER &&
                       move(admission, place, address); // else it is displaced already
    pthread_mutex_unlock(&admission->lock);
    return moves;
}

void tern_admission_leave(struct tern_admission *admission, struct tern_place *place)
{
    pthread_mutex_lock(&admission->lock);
    unlist(admission, place);
    count_out(admission, place);
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
    if (is_strangers(place)) {
        lose_name(admission, place);
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

void tern_admission_doubt(struct tern_admission *admission, struct tern_place *place)
{
    pthread_mutex_lock(&admission->lock);
    if (place->state == TERN_PLACE_RECOGNISED) {
        lose_name(admission, place);
        set_stranger(admission, place);
    }
    pthread_mutex_unlock(&admission->lock);
}

void tern_admission_know(struct tern_admission *admission, struct tern_place *place,
                         uint64_t client)
{
    pthread_mutex_lock(&admission->lock);
    if (is_strangers(place)) {
        know(admission, place, client);
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
