// A table of sets of four entries. A new entry replaces the least recently used one of its set. The set is chosen by
// a hash of bytes that the listener has sealed, so no peer can choose it.
#include "http/known_tickets.h"
#include "hosted/files.h"
#include "http/client_hello.h"
#include "http/ticket_keys.h"
#include "util/bytes.h"
#include "util/sha256.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SETS 32768u // a power of two; 2 MiB in all
#define WAYS 4u

#define HOUR_S 3600u

// File: magic, then per ticket tag, client and hour, the most recently used of a set last.
#define MAGIC_SIZE 8u
#define RECORD_SIZE 16u
#define FILE_MAX (MAGIC_SIZE + SETS * WAYS * RECORD_SIZE)

static const uint8_t MAGIC[MAGIC_SIZE] = {'t', 'e', 'r', 'n', 'k', 'n', 'w', '1'};

struct entry {
    uint64_t tag;    // 0 = none
    uint32_t client; // 0 = its client was refused
    uint32_t hour;   // when it was noted first, of Unix time
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

static void put(struct tern_known_tickets *tickets, struct entry entry)
{
    pthread_mutex_lock(&tickets->lock);
    struct entry *set = tickets->sets[entry.tag % SETS];
    const size_t at = find(set, entry.tag);
    if (at < WAYS) {
        entry.hour = set[at].hour;
    }
    memmove(set + 1, set, (at < WAYS ? at : WAYS - 1) * sizeof *set);
    set[0] = entry;
    pthread_mutex_unlock(&tickets->lock);
}

void tern_known_tickets_note(struct tern_known_tickets *tickets, uint64_t tag, uint64_t client)
{
    const struct entry entry = {.tag = tag,
                                .client = client <= UINT32_MAX ? (uint32_t)client : 0,
                                .hour = (uint32_t)((uint64_t)time(NULL) / HOUR_S)};
    put(tickets, entry);
}

// --- File

// An entry is noted when its ticket is given, at the earliest, and a ticket ends by its own time.
static bool can_be_valid(const struct entry *entry, uint64_t now_s)
{
    return entry->tag != 0 && entry->client != 0 &&
           (uint64_t)entry->hour * HOUR_S + TERN_TICKET_LIFETIME_S > now_s;
}

void tern_known_tickets_load(struct tern_known_tickets *tickets, const char *path, uint64_t now_s)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    if (tern_file_read_regular(path, FILE_MAX, &bytes, &len) != TERN_OK) {
        return;
    }
    (void)unlink(path);
    const bool is_whole = len >= MAGIC_SIZE && (len - MAGIC_SIZE) % RECORD_SIZE == 0 &&
                          memcmp(bytes, MAGIC, MAGIC_SIZE) == 0;
    for (size_t at = MAGIC_SIZE; is_whole && at < len; at += RECORD_SIZE) {
        const struct entry entry = {.tag = tern_get_le64(bytes + at),
                                    .client = tern_get_le32(bytes + at + 8),
                                    .hour = tern_get_le32(bytes + at + 12)};
        if (can_be_valid(&entry, now_s)) {
            put(tickets, entry);
        }
    }
    free(bytes);
}

enum tern_result tern_known_tickets_save(struct tern_known_tickets *tickets, const char *path,
                                         uint64_t now_s)
{
    size_t len = MAGIC_SIZE;
    uint8_t *bytes = malloc(FILE_MAX);
    if (bytes == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    memcpy(bytes, MAGIC, MAGIC_SIZE);
    pthread_mutex_lock(&tickets->lock);
    for (size_t i = 0; i < SETS * WAYS; i++) {
        const struct entry *entry = &tickets->sets[i / WAYS][WAYS - 1 - i % WAYS];
        if (can_be_valid(entry, now_s)) {
            tern_put_le64(bytes + len, entry->tag);
            tern_put_le32(bytes + len + 8, entry->client);
            tern_put_le32(bytes + len + 12, entry->hour);
            len += RECORD_SIZE;
        }
    }
    pthread_mutex_unlock(&tickets->lock);
    const bool is_empty = len == MAGIC_SIZE;
    const enum tern_result result = is_empty ? TERN_OK : tern_file_write(path, bytes, len, 0600);
    if (is_empty) {
        (void)unlink(path);
    }
    free(bytes);
    return result;
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
