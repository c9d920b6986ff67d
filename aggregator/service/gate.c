#include "service/gate.h"

#include "hosted/system.h"
#include "store/store.h"
#include "util/bytes.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// --- Allowances

uint32_t tern_allowance_take(struct tern_allowance *allowance, uint32_t per_minute, uint64_t now_ms)
{
    double rate = (double)per_minute / 60000.0; // per ms
    if (now_ms > allowance->at_ms) {
        double drained = (double)(now_ms - allowance->at_ms) * rate;
        allowance->used = allowance->used > drained ? allowance->used - drained : 0.0;
        allowance->at_ms = now_ms;
    }
    double over = allowance->used + 1.0 - (double)per_minute;
    if (over > 0.0) {
        return (uint32_t)(over / rate / 1000.0) + 1;
    }
    allowance->used += 1.0;
    return 0;
}

enum tern_result tern_address_allowances_init(struct tern_address_allowances *allowances)
{
    return tern_random_fill(allowances->seed, sizeof allowances->seed);
}

struct tern_allowance *tern_allowance_of(struct tern_address_allowances *allowances,
                                         const struct tern_address *address,
                                         const uint8_t code_hash[TERN_SHA256_SIZE])
{
    struct tern_sha256 sha;
    uint8_t hash[TERN_SHA256_SIZE];
    tern_sha256_init(&sha);
    tern_sha256_update(&sha, allowances->seed, sizeof allowances->seed);
    tern_sha256_update(&sha, address->bytes, sizeof address->bytes);
    if (code_hash != NULL) {
        tern_sha256_update(&sha, code_hash, TERN_SHA256_SIZE);
    }
    tern_sha256_final(&sha, hash);
    return &allowances->slots[tern_get_le32(hash) % TERN_ADDRESS_SLOTS];
}

// --- Pre-shared keys

void tern_psk_keys_init(struct tern_psk_keys *keys)
{
    memset(keys, 0, sizeof *keys);
    pthread_rwlock_init(&keys->lock, NULL);
}

// Erases the keys before their memory is freed.
static void discard(struct tern_db_psk *entries, size_t count)
{
    if (entries != NULL) {
        explicit_bzero(entries, count * sizeof entries[0]);
        free(entries);
    }
}

void tern_psk_keys_free(struct tern_psk_keys *keys)
{
    discard(keys->entries, keys->count);
    pthread_rwlock_destroy(&keys->lock);
}

struct loading {
    struct tern_db_psk *entries;
    size_t count;
    size_t capacity;
};

static enum tern_result grow_loading(struct loading *loading)
{
    size_t capacity = loading->capacity == 0 ? 64 : loading->capacity * 2;
    struct tern_db_psk *entries = calloc(capacity, sizeof entries[0]);
    if (entries == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    if (loading->count > 0) {
        memcpy(entries, loading->entries, loading->count * sizeof entries[0]);
    }
    discard(loading->entries, loading->count);
    loading->entries = entries;
    loading->capacity = capacity;
    return TERN_OK;
}

static enum tern_result add_psk(struct loading *loading, const struct tern_db_psk *psk)
{
    if (loading->count == loading->capacity) {
        TERN_TRY(grow_loading(loading));
    }
    loading->entries[loading->count++] = *psk;
    return TERN_OK;
}

enum tern_result tern_psk_keys_load(struct tern_psk_keys *keys, struct tern_db *db)
{
    struct loading loading = {.count = 0};
    struct tern_db_psk psk;
    struct tern_db_rows *rows = tern_db_psks(db);
    while (tern_db_next(rows, &psk)) {
        tern_db_check_row(rows, add_psk(&loading, &psk));
    }
    enum tern_result result = tern_db_end(rows);
    if (result != TERN_OK) {
        discard(loading.entries, loading.count);
        return result;
    }
    pthread_rwlock_wrlock(&keys->lock);
    struct tern_db_psk *old = keys->entries;
    size_t old_count = keys->count;
    keys->entries = loading.entries;
    keys->count = loading.count;
    pthread_rwlock_unlock(&keys->lock);
    discard(old, old_count);
    return TERN_OK;
}

static int by_client(const void *a, const void *b)
{
    uint64_t left = ((const struct tern_db_psk *)a)->client;
    uint64_t right = ((const struct tern_db_psk *)b)->client;
    return (left > right) - (left < right);
}

bool tern_psk_keys_find(struct tern_psk_keys *keys, uint64_t client, uint8_t *key)
{
    struct tern_db_psk wanted = {.client = client};
    pthread_rwlock_rdlock(&keys->lock);
    const struct tern_db_psk *found =
        keys->count == 0 ? NULL
                         : bsearch(&wanted, keys->entries, keys->count, sizeof wanted, by_client);
    if (found != NULL && key != NULL) {
        memcpy(key, found->key, TERN_PSK_SIZE);
    }
    pthread_rwlock_unlock(&keys->lock);
    return found != NULL;
}

// --- Gate

#define TOKEN_BYTES 16
#define TOKEN_TEXT TERN_BASE64URL_LENGTH(TOKEN_BYTES)

struct entry {
    uint64_t client; // 0 = free slot
    bool revoked;
    uint8_t token_hash[TERN_SHA256_SIZE];
};

#define NAME_HASH_SIZE 16u

struct client {
    struct tern_allowance allowance;
    uint8_t name_hash[NAME_HASH_SIZE];
    bool admitted;
};

// The hashes of all join codes, in order.
struct codes {
    uint8_t (*hashes)[TERN_SHA256_SIZE];
    size_t count;
    size_t capacity;
};

struct tern_gate {
    pthread_rwlock_t lock;
    struct entry *entries; // open addressing by the first bytes of the hash
    size_t capacity;       // power of two
    size_t count;

    pthread_mutex_t rate_lock;
    uint32_t requests_per_minute;
    uint32_t enrollments_per_minute;
    struct client *clients; // by id
    size_t client_slots;
    struct tern_address_allowances strangers; // per address, for enrolments with an unknown code
    struct tern_address_allowances holders;   // per address and code of `codes`
    struct codes codes;
};

struct tern_gate *tern_gate_new(uint32_t requests_per_minute, uint32_t enrollments_per_minute)
{
    struct tern_gate *gate = calloc(1, sizeof *gate);
    if (gate == NULL) {
        return NULL;
    }
    gate->capacity = 64;
    gate->entries = calloc(gate->capacity, sizeof gate->entries[0]);
    if (gate->entries == NULL || tern_address_allowances_init(&gate->strangers) != TERN_OK ||
        tern_address_allowances_init(&gate->holders) != TERN_OK) {
        free(gate->entries);
        free(gate);
        return NULL;
    }
    gate->requests_per_minute = requests_per_minute;
    gate->enrollments_per_minute = enrollments_per_minute;
    pthread_rwlock_init(&gate->lock, NULL);
    pthread_mutex_init(&gate->rate_lock, NULL);
    return gate;
}

void tern_gate_set_rates(struct tern_gate *gate, uint32_t requests_per_minute,
                         uint32_t enrollments_per_minute)
{
    pthread_mutex_lock(&gate->rate_lock);
    gate->requests_per_minute = requests_per_minute;
    gate->enrollments_per_minute = enrollments_per_minute;
    pthread_mutex_unlock(&gate->rate_lock);
}

void tern_gate_free(struct tern_gate *gate)
{
    if (gate == NULL) {
        return;
    }
    pthread_rwlock_destroy(&gate->lock);
    pthread_mutex_destroy(&gate->rate_lock);
    free(gate->entries);
    free(gate->clients);
    free(gate->codes.hashes);
    free(gate);
}

// --- Tokens

// Returns the slot with this hash, or the free slot where it belongs. The table is never full. The search depends on the
// hash that the peer sent, which reveals nothing about stored tokens; each comparison takes the same time.
static struct entry *slot_of(struct entry *entries, size_t capacity,
                             const uint8_t hash[TERN_SHA256_SIZE])
{
    size_t at = (size_t)tern_get_le64(hash) & (capacity - 1);
    while (entries[at].client != 0 &&
           !tern_equal_constant_time(entries[at].token_hash, hash, TERN_SHA256_SIZE)) {
        at = (at + 1) & (capacity - 1);
    }
    return &entries[at];
}

static enum tern_result grow(struct tern_gate *gate)
{
    size_t capacity = gate->capacity * 2;
    struct entry *entries = calloc(capacity, sizeof entries[0]);
    if (entries == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < gate->capacity; i++) {
        if (gate->entries[i].client != 0) {
            *slot_of(entries, capacity, gate->entries[i].token_hash) = gate->entries[i];
        }
    }
    free(gate->entries);
    gate->entries = entries;
    gate->capacity = capacity;
    return TERN_OK;
}

static enum tern_result put_locked(struct tern_gate *gate, uint64_t client,
                                   const uint8_t token_hash[TERN_SHA256_SIZE], bool revoked)
{
    if (gate->count * 2 >= gate->capacity) {
        TERN_TRY(grow(gate));
    }
    struct entry *entry = slot_of(gate->entries, gate->capacity, token_hash);
    gate->count += entry->client == 0;
    entry->client = client;
    entry->revoked = revoked;
    memcpy(entry->token_hash, token_hash, TERN_SHA256_SIZE);
    return TERN_OK;
}

// Grows the table of clients, whose index is the id, for this client.
static enum tern_result make_client(struct tern_gate *gate, uint64_t client)
{
    if (client < gate->client_slots) {
        return TERN_OK;
    }
    size_t slots = gate->client_slots == 0 ? 64 : gate->client_slots;
    while (slots <= client) {
        slots *= 2;
    }
    struct client *grown = realloc(gate->clients, slots * sizeof grown[0]);
    if (grown == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    memset(grown + gate->client_slots, 0, (slots - gate->client_slots) * sizeof grown[0]);
    gate->clients = grown;
    gate->client_slots = slots;
    return TERN_OK;
}

static void hash_name(const char *name, uint8_t hash[NAME_HASH_SIZE])
{
    uint8_t digest[TERN_SHA256_SIZE];
    tern_sha256(name, strlen(name), digest);
    memcpy(hash, digest, NAME_HASH_SIZE);
}

enum tern_result tern_gate_set_client(struct tern_gate *gate, uint64_t client,
                                      const uint8_t token_hash[TERN_SHA256_SIZE], const char *name,
                                      bool revoked)
{
    pthread_mutex_lock(&gate->rate_lock);
    enum tern_result result = make_client(gate, client);
    if (result == TERN_OK) {
        gate->clients[client].admitted = !revoked;
        hash_name(name, gate->clients[client].name_hash);
    }
    pthread_mutex_unlock(&gate->rate_lock);
    if (result != TERN_OK) {
        return result;
    }
    pthread_rwlock_wrlock(&gate->lock);
    result = put_locked(gate, client, token_hash, revoked);
    pthread_rwlock_unlock(&gate->lock);
    return result;
}

void tern_gate_remove_from(struct tern_gate *gate, uint64_t first)
{
    pthread_rwlock_wrlock(&gate->lock);
    for (size_t i = 0; i < gate->capacity; i++) {
        gate->entries[i].revoked |= gate->entries[i].client >= first;
    }
    pthread_rwlock_unlock(&gate->lock);
    pthread_mutex_lock(&gate->rate_lock);
    for (uint64_t client = first; client < gate->client_slots; client++) {
        gate->clients[client].admitted = false;
    }
    pthread_mutex_unlock(&gate->rate_lock);
}

// False: the header is malformed.
static bool hash_token(const char *authorization, uint8_t hash[TERN_SHA256_SIZE])
{
    const char *text = tern_http_bearer(authorization);
    uint8_t token[TOKEN_BYTES];
    if (text == NULL || strlen(text) != TOKEN_TEXT ||
        tern_base64url_decode(text, TOKEN_TEXT, token, sizeof token) != TERN_OK) {
        return false;
    }
    tern_sha256(token, sizeof token, hash);
    return true;
}

bool tern_gate_is_unknown_token(struct tern_gate *gate, const char *authorization)
{
    uint8_t hash[TERN_SHA256_SIZE];
    if (!hash_token(authorization, hash)) {
        return false;
    }
    pthread_rwlock_rdlock(&gate->lock);
    const bool is_strange = slot_of(gate->entries, gate->capacity, hash)->client == 0;
    pthread_rwlock_unlock(&gate->lock);
    return is_strange;
}

enum tern_result tern_gate_client(struct tern_gate *gate, const char *authorization,
                                  uint64_t *client)
{
    uint8_t hash[TERN_SHA256_SIZE];
    if (!hash_token(authorization, hash)) {
        return TERN_ERR_UNAUTHORIZED;
    }
    pthread_rwlock_rdlock(&gate->lock);
    const struct entry *entry = slot_of(gate->entries, gate->capacity, hash);
    bool known = entry->client != 0 && !entry->revoked;
    *client = known ? entry->client : 0;
    pthread_rwlock_unlock(&gate->lock);
    return known ? TERN_OK : TERN_ERR_UNAUTHORIZED;
}

bool tern_gate_admits(struct tern_gate *gate, uint64_t client)
{
    pthread_mutex_lock(&gate->rate_lock);
    const bool admits = client < gate->client_slots && gate->clients[client].admitted;
    pthread_mutex_unlock(&gate->rate_lock);
    return admits;
}

bool tern_gate_is_named(struct tern_gate *gate, uint64_t client, const char *name)
{
    uint8_t hash[NAME_HASH_SIZE];
    hash_name(name, hash);
    pthread_mutex_lock(&gate->rate_lock);
    const bool is_named = client < gate->client_slots &&
                          memcmp(gate->clients[client].name_hash, hash, NAME_HASH_SIZE) == 0;
    pthread_mutex_unlock(&gate->rate_lock);
    return is_named;
}

// --- Join codes

static int compare_hashes(const void *a, const void *b)
{
    return memcmp(a, b, TERN_SHA256_SIZE);
}

static enum tern_result append(struct codes *codes, const uint8_t hash[TERN_SHA256_SIZE])
{
    if (codes->count == codes->capacity) {
        const size_t capacity = codes->capacity == 0 ? 64 : 2 * codes->capacity;
        void *grown = realloc(codes->hashes, capacity * sizeof codes->hashes[0]);
        if (grown == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        codes->hashes = grown;
        codes->capacity = capacity;
    }
    memcpy(codes->hashes[codes->count++], hash, TERN_SHA256_SIZE);
    return TERN_OK;
}

enum tern_result tern_gate_load_codes(struct tern_gate *gate, struct tern_db *db)
{
    struct codes codes = {NULL, 0, 0};
    struct tern_db_code row;
    struct tern_db_rows *rows = tern_db_codes(db);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, append(&codes, row.hash));
    }
    const enum tern_result result = tern_db_end(rows);
    if (result == TERN_OK) {
        if (codes.count > 0) {
            qsort(codes.hashes, codes.count, sizeof codes.hashes[0], compare_hashes);
        }
        pthread_mutex_lock(&gate->rate_lock);
        const struct codes before = gate->codes;
        gate->codes = codes;
        pthread_mutex_unlock(&gate->rate_lock);
        codes = before;
    }
    free(codes.hashes);
    return result;
}

static bool is_code(const struct codes *codes, const uint8_t hash[TERN_SHA256_SIZE])
{
    return codes->count > 0 && bsearch(hash, codes->hashes, codes->count, sizeof codes->hashes[0],
                                       compare_hashes) != NULL;
}

// --- Rates

uint32_t tern_gate_request(struct tern_gate *gate, uint64_t client, uint64_t now_ms)
{
    uint32_t wait = 0;
    pthread_mutex_lock(&gate->rate_lock);
    if (gate->requests_per_minute != 0 && client < gate->client_slots) {
        wait = tern_allowance_take(&gate->clients[client].allowance, gate->requests_per_minute,
                                   now_ms);
    }
    pthread_mutex_unlock(&gate->rate_lock);
    return wait;
}

uint32_t tern_gate_enrollment(struct tern_gate *gate, const struct tern_address *address,
                              const uint8_t code_hash[TERN_SHA256_SIZE], uint64_t now_ms)
{
    uint32_t wait = 0;
    pthread_mutex_lock(&gate->rate_lock);
    if (gate->enrollments_per_minute != 0) {
        const bool is_holder = code_hash != NULL && is_code(&gate->codes, code_hash);
        struct tern_allowance *allowance =
            is_holder ? tern_allowance_of(&gate->holders, address, code_hash)
                      : tern_allowance_of(&gate->strangers, address, NULL);
        wait = tern_allowance_take(allowance, gate->enrollments_per_minute, now_ms);
    }
    pthread_mutex_unlock(&gate->rate_lock);
    return wait;
}
