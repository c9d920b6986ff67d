// One mutex, two balanced trees, because peers choose their addresses, and the list of strangers in the
// order in which they are displaced. A displaced one still counts as open, and as leaving.
#include "http/admission.h"
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

struct count {
    struct tern_address address; // what the tree compares
    uint32_t open;
};

struct client {
    uint64_t id; // likewise
    uint32_t open;
    struct tern_places places; // the oldest first
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
    const struct count *x = a;
    const struct count *y = b;
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

static struct count *count_of(const struct tern_admission *admission,
                              const struct tern_address *address)
{
    const struct count like = {.address = *address};
    return find(&admission->addresses, &like, compare_addresses);
}

static bool is_zero(const struct tern_address *address)
{
    static const struct tern_address zero;
    return memcmp(address, &zero, sizeof zero) == 0;
}

static bool has_share(const struct tern_admission *admission, const struct tern_address *address)
{
    const struct count *count = count_of(admission, address);
    return count != NULL && count->open >= admission->per_address;
}

// False: memory is short.
static bool count_address(struct tern_admission *admission, const struct tern_address *address)
{
    if (is_zero(address)) {
        return true;
    }
    const struct count like = {.address = *address};
    struct count *count =
        find_or_make(&admission->addresses, &like, sizeof like, compare_addresses);
    if (count != NULL) {
        count->open++;
    }
    return count != NULL;
}

static void discount_address(struct tern_admission *admission, const struct tern_address *address)
{
    struct count *count = count_of(admission, address);
    if (count != NULL && --count->open == 0) {
        (void)tdelete(count, &admission->addresses, compare_addresses);
        free(count);
    }
}

static void discount_client(struct tern_admission *admission, struct client *client)
{
    if (--client->open == 0) {
        (void)tdelete(client, &admission->clients, compare_ids);
        free(client);
    }
}

// --- Places

// Off the list that its state has it on.
static void unlist(struct tern_admission *admission, struct tern_place *place)
{
    struct client *client = NULL;
    switch (place->state) {
    case TERN_PLACE_STRANGER:
        TAILQ_REMOVE(&admission->strangers, place, link);
        break;
    case TERN_PLACE_DISPLACED:
        TAILQ_REMOVE(&place->group->displaced, place, link);
        admission->leaving--;
        break;
    case TERN_PLACE_KNOWN:
        client = find(&admission->clients, &(struct client){.id = place->client}, compare_ids);
        if (client != NULL) {
            TAILQ_REMOVE(&client->places, place, link);
            discount_client(admission, client);
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
}

static void displace(struct tern_admission *admission, struct tern_place *place)
{
    unlist(admission, place);
    place->state = TERN_PLACE_DISPLACED;
    TAILQ_INSERT_TAIL(&place->group->displaced, place, link);
    admission->leaving++;
    place->group->wake(place->group->ctx);
}

// Also while it waits to be ended: then it is spared.
static bool is_strangers(const struct tern_place *place)
{
    return place->state == TERN_PLACE_STRANGER || place->state == TERN_PLACE_BUSY ||
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

static bool enter(struct tern_admission *admission, struct tern_place *place)
{
    if (has_share(admission, &place->address) || !make_room(admission) ||
        !count_address(admission, &place->address)) {
        return false;
    }
    admission->open++;
    set_stranger(admission, place);
    return true;
}

static void know(struct tern_admission *admission, struct tern_place *place, uint64_t id)
{
    unlist(admission, place);
    const struct client like = {.id = id};
    struct client *client =
        id != 0 ? find_or_make(&admission->clients, &like, sizeof like, compare_ids) : NULL;
    place->state = TERN_PLACE_KNOWN;
    place->client = client != NULL ? id : 0;
    if (client == NULL) {
        return;
    }
    if (client->open == 0) {
        TAILQ_INIT(&client->places);
    }
    client->open++;
    TAILQ_INSERT_TAIL(&client->places, place, link);
    if (client->open > admission->per_client) {
        displace(admission, TAILQ_FIRST(&client->places));
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
    const bool moves = !has_share(admission, address) && count_address(admission, address);
    if (moves) {
        discount_address(admission, &place->address);
        place->address = *address;
    }
    pthread_mutex_unlock(&admission->lock);
    return moves;
}

void tern_admission_leave(struct tern_admission *admission, struct tern_place *place)
{
    pthread_mutex_lock(&admission->lock);
    unlist(admission, place);
    discount_address(admission, &place->address);
    admission->open--;
    pthread_mutex_unlock(&admission->lock);
}

void tern_admission_touch(struct tern_admission *admission, struct tern_place *place)
{
    pthread_mutex_lock(&admission->lock);
    if (place->state == TERN_PLACE_STRANGER || place->state == TERN_PLACE_BUSY) {
        unlist(admission, place);
        set_stranger(admission, place);
    }
    pthread_mutex_unlock(&admission->lock);
}

void tern_admission_busy(struct tern_admission *admission, struct tern_place *place)
{
    pthread_mutex_lock(&admission->lock);
    if (is_strangers(place)) {
        unlist(admission, place);
        place->state = TERN_PLACE_BUSY;
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
