// A table of sets of four entries. A new entry replaces the least recently used one of its set. The set is chosen by
// a hash of bytes that the listener has sealed, so no peer can choose it.
#include "http/known_tickets.h"
#include "http/client_hello.h"
#include "util/bytes.h"
#include "util/sha256.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SETS 32768u // a power of two; 2 MiB in all
#define WAYS 4u

struct entry {
    uint64_t tag; // 0 = none
    uint64_t client;
};

struct tern_known_tickets {
    pthread_mutex_t lock;
    struct entry sets[SETS][WAYS]; // the most recently used first
};

struct tern_known_tickets *tern_known_tickets_new(void)
{
    struct tern_known_tickets *tickets = calloc(1, sizeof *tickets);
    if (tickets != NULL) {
        pthread_mutex_init(&tickets->lock, NULL);
    }
    return tickets;
}

void tern_known_tickets_free(struct tern_known_tickets *tickets)
{
    if (tickets != NULL) {
        pthread_mutex_destroy(&tickets->lock);
        free(tickets);
    }
}

uint64_t tern_ticket_tag(const uint8_t *ticket, size_t len)
{
    uint8_t digest[TERN_SHA256_SIZE];
    tern_sha256(ticket, len, digest);
    const uint64_t tag = tern_get_le64(digest);
    return tag != 0 ? tag : 1;
}

// Returns the index of the entry in the set; WAYS = absent.
static size_t find(const struct entry set[WAYS], uint64_t tag)
{
    size_t at = 0;
    while (at < WAYS && set[at].tag != tag) {
        at++;
    }
    return at;
}

void tern_known_tickets_note(struct tern_known_tickets *tickets, uint64_t tag, uint64_t client)
{
    pthread_mutex_lock(&tickets->lock);
    struct entry *set = tickets->sets[tag % SETS];
    const size_t at = find(set, tag);
    memmove(set + 1, set, (at < WAYS ? at : WAYS - 1) * sizeof *set);
    set[0] = (struct entry){.tag = tag, .client = client};
    pthread_mutex_unlock(&tickets->lock);
}

uint64_t tern_known_tickets_of(struct tern_known_tickets *tickets, uint64_t tag)
{
    pthread_mutex_lock(&tickets->lock);
    const struct entry *set = tickets->sets[tag % SETS];
    const size_t at = find(set, tag);
    const uint64_t client = at < WAYS ? set[at].client : 0;
    pthread_mutex_unlock(&tickets->lock);
    return client;
}

uint64_t tern_known_tickets_client(struct tern_known_tickets *tickets, const uint8_t *bytes,
                                   size_t len)
{
    struct tern_offered_ticket offered[TERN_OFFERED_TICKETS];
    const size_t count = tern_client_hello_tickets(bytes, len, offered);
    uint64_t client = 0;
    for (size_t i = 0; i < count && client == 0; i++) {
        client = tern_known_tickets_of(tickets, tern_ticket_tag(offered[i].bytes, offered[i].len));
    }
    return client;
}
