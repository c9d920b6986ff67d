// Connection counts in a small chained hash table under one mutex: it is taken twice in the life of
// a connection, never per request.
#include "http/limits.h"
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BUCKETS 1024u

struct entry {
    struct entry *next;
    struct tern_address address;
    uint32_t open;
};

struct tern_admission {
    pthread_mutex_t lock;
    uint32_t connections;
    uint32_t per_address;
    uint32_t open;
    uint64_t seed; // unknown to peers, so that they cannot aim for one bucket
    struct entry *buckets[BUCKETS];
};

static void fill(uint32_t *limit, uint32_t value)
{
    if (*limit == 0) {
        *limit = value;
    }
}

void tern_limits_fill(struct tern_http_limits *limits)
{
    fill(&limits->connections, 10000);
    fill(&limits->connections_per_address, 256);
    fill(&limits->header_bytes, 4096);
    fill(&limits->body_bytes, 16u << 20);
    if (limits->body_memory == 0) {
        limits->body_memory = 256u << 20;
    }
    if (limits->body_memory < limits->body_bytes) {
        limits->body_memory = limits->body_bytes;
    }
    if (limits->body_disk == 0) {
        limits->body_disk = UINT64_C(8) << 30;
    }
    if (limits->body_disk < limits->body_bytes) {
        limits->body_disk = limits->body_bytes;
    }
    fill(&limits->handshake_ms, 10000);
    fill(&limits->request_ms, 60000);
    fill(&limits->min_rate, 500);
    fill(&limits->idle_ms, 300000);
    fill(&limits->write_ms, 60000);
}

struct tern_address tern_address_of(const struct sockaddr_storage *name)
{
    struct tern_address address = {{0}};
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

struct tern_admission *tern_admission_new(uint32_t connections, uint32_t per_address)
{
    struct tern_admission *admission = calloc(1, sizeof *admission);
    if (admission == NULL) {
        return NULL;
    }
    pthread_mutex_init(&admission->lock, NULL);
    admission->connections = connections;
    admission->per_address = per_address;
    if (getrandom(&admission->seed, sizeof admission->seed, 0) < 0) {
        admission->seed = (uint64_t)(uintptr_t)admission;
    }
    return admission;
}

void tern_admission_free(struct tern_admission *admission)
{
    if (admission == NULL) {
        return;
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        while (admission->buckets[i] != NULL) {
            struct entry *entry = admission->buckets[i];
            admission->buckets[i] = entry->next;
            free(entry);
        }
    }
    pthread_mutex_destroy(&admission->lock);
    free(admission);
}

static bool is_zero(const struct tern_address *address)
{
    static const struct tern_address zero;
    return memcmp(address, &zero, sizeof zero) == 0;
}

static struct entry **bucket_of(struct tern_admission *admission,
                                const struct tern_address *address)
{
    uint64_t words[2];
    memcpy(words, address->bytes, sizeof words);
    uint64_t hash = (words[0] ^ admission->seed) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ (hash >> 29) ^ words[1]) * 0xbf58476d1ce4e5b9u;
    return &admission->buckets[(hash ^ (hash >> 32)) % BUCKETS];
}

// The link that points at the address's entry, or at the NULL where it would go.
static struct entry **find(struct tern_admission *admission, const struct tern_address *address)
{
    struct entry **link = bucket_of(admission, address);
    while (*link != NULL && memcmp(&(*link)->address, address, sizeof *address) != 0) {
        link = &(*link)->next;
    }
    return link;
}

static bool count_address(struct tern_admission *admission, const struct tern_address *address)
{
    if (is_zero(address)) {
        return true;
    }
    struct entry **link = find(admission, address);
    if (*link == NULL) {
        *link = calloc(1, sizeof **link);
        if (*link == NULL) {
            return false;
        }
        (*link)->address = *address;
    }
    if ((*link)->open >= admission->per_address) {
        return false;
    }
    (*link)->open++;
    return true;
}

bool tern_admission_enter(struct tern_admission *admission, const struct tern_address *address)
{
    pthread_mutex_lock(&admission->lock);
    bool admitted = admission->open < admission->connections && count_address(admission, address);
    if (admitted) {
        admission->open++;
    }
    pthread_mutex_unlock(&admission->lock);
    return admitted;
}

void tern_admission_leave(struct tern_admission *admission, const struct tern_address *address)
{
    pthread_mutex_lock(&admission->lock);
    admission->open--;
    struct entry **link = is_zero(address) ? NULL : find(admission, address);
    if (link != NULL && *link != NULL && --(*link)->open == 0) {
        struct entry *entry = *link;
        *link = entry->next;
        free(entry);
    }
    pthread_mutex_unlock(&admission->lock);
}

uint32_t tern_admission_open(struct tern_admission *admission)
{
    pthread_mutex_lock(&admission->lock);
    uint32_t open = admission->open;
    pthread_mutex_unlock(&admission->lock);
    return open;
}
