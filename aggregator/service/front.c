// Runs on the listeners' threads: authenticates clients, limits rates, routes and checks a request before its body is read,
// then parses and hashes the body, so that the service thread only has to run the transaction. Also writes the access log.
#include "service/internal.h"

#include "hosted/growing.h"
#include "hosted/log.h"
#include "hosted/system.h"
#include "store/store.h"
#include "util/bytes.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Allowances

static uint32_t take_allowance(struct tern_allowance *allowance, uint32_t per_minute,
                               uint64_t now_ms)
{
    double rate = (double)per_minute / 60000.0; // requests per ms
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

static enum tern_result init_allowances(struct tern_address_allowances *allowances)
{
    return tern_random_fill(allowances->seed, sizeof allowances->seed);
}

static struct tern_allowance *allowance_of(struct tern_address_allowances *allowances,
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

static void init_psks(struct tern_psk_keys *keys)
{
    memset(keys, 0, sizeof *keys);
    pthread_rwlock_init(&keys->lock, NULL);
}

// Overwrites the keys before their memory is freed.
static void discard(struct tern_db_psk *entries, size_t count)
{
    if (entries != NULL) {
        explicit_bzero(entries, count * sizeof entries[0]);
        free(entries);
    }
}

static void free_psks(struct tern_psk_keys *keys)
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

static enum tern_result load_psks(struct tern_psk_keys *keys, struct tern_db *db)
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

static bool find_psk(struct tern_psk_keys *keys, uint64_t client, uint8_t *key)
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
    uint64_t client; // id; 0 = the slot is free
    bool revoked;
    uint8_t token_hash[TERN_SHA256_SIZE];
};

#define NAME_HASH_SIZE 16u

struct client {
    struct tern_allowance allowance;
    uint8_t name_hash[NAME_HASH_SIZE];
    bool admitted;
};

// The hashes of all join codes, in ascending order.
struct codes {
    uint8_t (*hashes)[TERN_SHA256_SIZE];
    size_t count;
    size_t capacity;
};

struct tern_gate {
    pthread_rwlock_t lock;
    struct entry *entries; // hash table with open addressing
    size_t capacity;       // power of two
    size_t count;

    pthread_mutex_t rate_lock;
    uint32_t requests_per_minute;
    uint32_t enrollments_per_minute;
    struct client *clients; // array indexed by the client's id
    size_t client_slots;
    // Allowances per address, for enrolments with an unknown code.
    struct tern_address_allowances strangers;
    struct tern_address_allowances holders; // allowances per address and known code
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
    if (gate->entries == NULL || init_allowances(&gate->strangers) != TERN_OK ||
        init_allowances(&gate->holders) != TERN_OK) {
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

static void set_rates(struct tern_gate *gate, uint32_t requests_per_minute,
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

// Returns the slot with this hash, or the free slot where the hash belongs. The table is never full. The search time
// depends on the hash that the peer sent, which reveals nothing about stored tokens; each comparison takes the same
// time.
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

// Grows gate->clients, whose index is the client's id, for this client.
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

// Hashes the token of an Authorization header. False: the header is malformed.
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

static bool is_unknown_token(struct tern_gate *gate, const char *authorization)
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

static bool gate_admits(struct tern_gate *gate, uint64_t client)
{
    pthread_mutex_lock(&gate->rate_lock);
    const bool admits = client < gate->client_slots && gate->clients[client].admitted;
    pthread_mutex_unlock(&gate->rate_lock);
    return admits;
}

static bool is_named(struct tern_gate *gate, uint64_t client, const char *name)
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

static enum tern_result append_code(struct codes *codes, const uint8_t hash[TERN_SHA256_SIZE])
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

static enum tern_result load_codes(struct tern_gate *gate, struct tern_db *db)
{
    struct codes codes = {NULL, 0, 0};
    struct tern_db_code row;
    struct tern_db_rows *rows = tern_db_codes(db);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, append_code(&codes, row.hash));
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

static uint32_t take_request(struct tern_gate *gate, uint64_t client, uint64_t now_ms)
{
    uint32_t wait = 0;
    pthread_mutex_lock(&gate->rate_lock);
    if (gate->requests_per_minute != 0 && client < gate->client_slots) {
        wait = take_allowance(&gate->clients[client].allowance, gate->requests_per_minute, now_ms);
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
        struct tern_allowance *allowance = is_holder
                                               ? allowance_of(&gate->holders, address, code_hash)
                                               : allowance_of(&gate->strangers, address, NULL);
        wait = take_allowance(allowance, gate->enrollments_per_minute, now_ms);
    }
    pthread_mutex_unlock(&gate->rate_lock);
    return wait;
}

// --- Access log

// Limits of lines about wrong credentials, per minute.
#define FAILURES_PER_ADDRESS 10
#define FAILURES_PER_MINUTE 600

#define REPORT_MS 60000

static void set_access_log(struct tern_access_log *log, const struct tern_service_logging *logging)
{
    pthread_mutex_lock(&log->lock);
    atomic_store(&log->requests, (uint32_t)logging->requests);
    log->per_minute = logging->requests_per_minute;
    pthread_mutex_unlock(&log->lock);
}

static enum tern_result init_access_log(struct tern_access_log *log,
                                        const struct tern_service_logging *logging)
{
    TERN_TRY(init_allowances(&log->addresses));
    pthread_mutex_init(&log->lock, NULL);
    set_access_log(log, logging);
    return TERN_OK;
}

static void free_access_log(struct tern_access_log *log)
{
    pthread_mutex_destroy(&log->lock);
}

static bool has_line(struct tern_access_log *log, const struct tern_http_answered *answered)
{
    switch ((enum tern_logged_requests)atomic_load(&log->requests)) {
    case TERN_LOG_NO_REQUESTS:
        return answered->status == 401;
    case TERN_LOG_REFUSED_REQUESTS:
        return answered->status >= 400;
    case TERN_LOG_ALL_REQUESTS:
        break;
    }
    return true;
}

// Takes a log line from the address's allowance first, so that an address at its limit uses up no lines of other
// addresses.
static bool take_failure(struct tern_access_log *log, const struct tern_address *address,
                         uint64_t now_ms)
{
    struct tern_allowance *own = allowance_of(&log->addresses, address, NULL);
    return take_allowance(own, FAILURES_PER_ADDRESS, now_ms) == 0 &&
           take_allowance(&log->failures, FAILURES_PER_MINUTE, now_ms) == 0;
}

static bool take_line(struct tern_access_log *log, const struct tern_http_answered *answered,
                      uint64_t now_ms)
{
    const bool failure = answered->status == 401;
    pthread_mutex_lock(&log->lock);
    const bool may = failure ? take_failure(log, &answered->request->address, now_ms)
                             : take_allowance(&log->lines, log->per_minute, now_ms) == 0;
    log->failures_dropped += failure && !may;
    log->lines_dropped += !failure && !may;
    pthread_mutex_unlock(&log->lock);
    return may;
}

static void log_request(struct tern_access_log *log, const char *listener,
                        const struct tern_http_answered *answered, uint64_t now_ms)
{
    const struct tern_http_request *request = answered->request;
    if (!has_line(log, answered) || !take_line(log, answered, now_ms)) {
        return;
    }
    const bool failure = answered->status == 401;
    // All values before the path are checked or made by this program, so that log filters can match the values by
    // position.
    tern_log(failure ? TERN_LOG_WARN : TERN_LOG_INFO, failure ? "authentication-failed" : "request",
             "listener=%s peer=%s request=%llu client=%llu status=%d ms=%llu received=%llu "
             "sends=%llu method=%s path=%s",
             listener, request->peer, (unsigned long long)request->id,
             (unsigned long long)answered->client, answered->status,
             (unsigned long long)answered->ms, (unsigned long long)answered->received,
             (unsigned long long)answered->sends, TERN_LOG_TEXT(request->method),
             TERN_LOG_TEXT(request->path));
}

static void log_other_certificate(struct tern_access_log *log,
                                  const struct tern_http_request *request, uint64_t client,
                                  uint64_t now_ms)
{
    pthread_mutex_lock(&log->lock);
    const bool may = take_failure(log, &request->address, now_ms);
    pthread_mutex_unlock(&log->lock);
    if (may) {
        tern_log(TERN_LOG_WARN, "certificate-name-mismatch",
                 "listener=clients peer=%s request=%llu client=%llu certificate=%s", request->peer,
                 (unsigned long long)request->id, (unsigned long long)client,
                 TERN_LOG_TEXT(request->certificate));
    }
}

static void log_handshake(struct tern_access_log *log, const char *peer, const char *why,
                          uint64_t now_ms)
{
    if (atomic_load(&log->requests) == TERN_LOG_NO_REQUESTS) {
        return;
    }
    pthread_mutex_lock(&log->lock);
    const bool may = take_allowance(&log->lines, log->per_minute, now_ms) == 0;
    log->lines_dropped += !may;
    pthread_mutex_unlock(&log->lock);
    if (may && why[0] != '\0') {
        tern_log(TERN_LOG_WARN, "handshake-failed", "listener=clients peer=%s reason=%s", peer,
                 TERN_LOG_TEXT(why));
    } else if (may) {
        tern_log(TERN_LOG_INFO, "handshake-failed", "listener=clients peer=%s", peer);
    }
}

void tern_access_log_report_dropped(struct tern_access_log *log, uint64_t now_ms)
{
    pthread_mutex_lock(&log->lock);
    const uint64_t lines = log->lines_dropped;
    const uint64_t failures = log->failures_dropped;
    const bool due = lines + failures > 0 && now_ms - log->reported_ms >= REPORT_MS;
    if (due) {
        log->lines_dropped = 0;
        log->failures_dropped = 0;
        log->reported_ms = now_ms;
    }
    pthread_mutex_unlock(&log->lock);
    if (due) {
        tern_log(TERN_LOG_WARN, "log-lines-dropped", "requests=%llu authentication_failures=%llu",
                 (unsigned long long)lines, (unsigned long long)failures);
    }
}

// --- HTTP caches between clients and the aggregator
//
// A cache asks the aggregator for each download whether the client may have it (docs/PROTOCOL.md, "Downloads from a cache").

#define TERN_PATH_AUTHORIZE "/v1/authorize/"

// Reads the hash of the download that a cache asks for. TERN_ERR_NOT_FOUND: the path has another form.
static enum tern_result parse_authorize(const char *path, uint8_t sha256[TERN_SHA256_SIZE])
{
    const size_t len = sizeof TERN_PATH_AUTHORIZE - 1;
    char download[TERN_PATH_MAX];
    if (strncmp(path, TERN_PATH_AUTHORIZE, len) != 0) {
        return TERN_ERR_NOT_FOUND;
    }
    const int whole = snprintf(download, sizeof download, TERN_PATH_DOWNLOADS "%s", path + len);
    return whole < (int)sizeof download ? tern_path_parse_download(download, sha256)
                                        : TERN_ERR_NOT_FOUND;
}

// Returns the HTTP bytes of the client's request to the cache. http: the request of the cache.
static uint32_t request_bytes(const struct tern_http_request *http,
                              const uint8_t sha256[TERN_SHA256_SIZE])
{
    char path[TERN_PATH_MAX];
    char range[48] = "";
    tern_path_download(sha256, path);
    if (http->range_from > 0) {
        snprintf(range, sizeof range, "Range: bytes=%" PRIu64 "-\r\n", http->range_from);
    }
    return (uint32_t)snprintf(NULL, 0, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\n%s\r\n",
                              path, http->host, http->authorization, range);
}

// Costs of TLS and TCP as in shared/meter/meter.h: records of TLS 1.2, headers of IP and TCP with time stamps, and
// segments for links with an MTU of 1,500 bytes. Every second segment has an acknowledgement.
#define RECORD_BYTES 16384u
#define RECORD_COST 29u
#define SEGMENT_BYTES 1400u
#define SEGMENT_COST 52u

static uint64_t parts_of(uint64_t bytes, uint32_t size)
{
    return (bytes + size - 1) / size;
}

static uint64_t encrypt(struct tern_bytes *bytes)
{
    bytes->tls = bytes->http + parts_of(bytes->http, RECORD_BYTES) * RECORD_COST;
    const uint64_t segments = parts_of(bytes->tls, SEGMENT_BYTES);
    bytes->wire = bytes->tls + segments * SEGMENT_COST;
    return segments;
}

// Estimates the bytes of the exchange between client and cache in all layers.
static void estimate_cached(const struct tern_http_tag *tag, struct tern_bytes *up,
                            struct tern_bytes *down)
{
    *up = (struct tern_bytes){.http = tag->cache_receives};
    *down = (struct tern_bytes){.payload = tag->payload_down, .http = tag->cache_sends};
    (void)encrypt(up);
    up->wire += parts_of(encrypt(down), 2) * SEGMENT_COST;
}

// --- Parsing

// Sets the tag's round; 0 if the round does not exist, so that peers cannot create rows in the meter's table for
// invented rounds.
static void tag_round(struct tern_service *service, uint32_t round, struct tern_http_tag *tag)
{
    tag->round = tern_federation_has_opened(service->federation, round) ? round : 0;
}

static uint32_t enrollment_over_rate(struct tern_service *service,
                                     const struct tern_http_request *http, uint64_t now_ms)
{
    tern_EnrollRequest message;
    uint8_t code_hash[TERN_SHA256_SIZE];
    const bool is_read =
        tern_wire_decode_enroll_request(http->body, http->body_len, &message) == TERN_OK;
    if (is_read) {
        tern_join_code_hash(message.join_code, code_hash);
    }
    return tern_gate_enrollment(service->gate, &http->address, is_read ? code_hash : NULL, now_ms);
}

// Counts a request against the rate limits. Returns 0, or the seconds after which the peer may try again. A cache's
// download does not count, since the client's request to the cache has counted already.
static uint32_t over_rate(struct tern_service *service, const struct tern_http_request *http,
                          uint64_t client, enum request_kind kind)
{
    if (kind == REQUEST_DOWNLOAD && http->peer_is_cache) {
        return 0;
    }
    uint64_t now = tern_service_monotonic(service);
    uint32_t wait = kind == REQUEST_ENROLL ? enrollment_over_rate(service, http, now)
                                           : take_request(service->gate, client, now);
    if (wait != 0) {
        atomic_fetch_add(&service->rate_limited, 1);
    }
    return wait;
}

static enum tern_result parse_update(struct tern_service *service,
                                     const struct tern_http_request *http, struct request *request)
{
    struct tern_incoming_update *update = &request->u.update;
    update->client = request->client;
    update->body = (struct tern_span){http->body, http->body_len};
    tern_federation_read_update(service->federation, update);
    tag_round(service, update->round, &request->tag);
    request->tag.payload_up = update->parsed == TERN_OK ? update->payload : 0;
    return update->parsed;
}

static enum tern_result parse_statistics(const struct tern_http_request *http,
                                         struct tern_incoming_statistics *statistics)
{
    statistics->body = (struct tern_span){http->body, http->body_len};
    statistics->parsed = tern_wire_decode_statistics(http->body, http->body_len,
                                                     &statistics->message, &statistics->columns);
    return statistics->parsed;
}

// Parses the path into request->u, by the request's kind. An error: the path is malformed.
static enum tern_result parse_path(const char *path, struct request *request)
{
    switch ((int)request->kind) {
    case REQUEST_DOWNLOAD:
        return tern_path_parse_download(path, request->u.download.sha256);
    case REQUEST_AUTHORIZE:
        return parse_authorize(path, request->u.download.sha256);
    case REQUEST_UPDATE:
        return tern_path_parse_update(path, &request->u.update.round, &request->u.update.sequence);
    case REQUEST_PROGRESS:
        return tern_path_parse_update(path, &request->u.progress.round,
                                      &request->u.progress.sequence);
    default: // the path has no parameters
        return TERN_OK;
    }
}

// Parses the body into request->u and sets the tag, after parse_path(). After an error the service thread refuses the
// request when it handles the request.
static enum tern_result parse(struct tern_service *service, struct request *request)
{
    const struct tern_http_request *http = tern_http_exchange_request(request->exchange);
    switch (request->kind) {
    case REQUEST_ENROLL:
        return tern_wire_decode_enroll_request(http->body, http->body_len, &request->u.enroll);
    case REQUEST_CHECKIN:
        return tern_wire_decode_checkin_request(http->body, http->body_len, &request->u.checkin);
    case REQUEST_DOWNLOAD:
        request->u.download.from = http->range_from;
        return TERN_OK;
    case REQUEST_AUTHORIZE:
        request->u.download.from = http->range_from;
        request->u.download.request_bytes = request_bytes(http, request->u.download.sha256);
        return TERN_OK;
    case REQUEST_UPDATE:
        return parse_update(service, http, request);
    case REQUEST_PROGRESS:
        tag_round(service, request->u.progress.round, &request->tag);
        return TERN_OK;
    case REQUEST_STATISTICS:
        return parse_statistics(http, &request->u.statistics);
    case REQUEST_SCALING:
        return TERN_OK;
    case REQUEST_JOB:
        break;
    }
    return TERN_ERR_ARGUMENT;
}

// --- Credentials

// Finds the client of the bearer token. The connection's certificate must have this client's name, so that a stolen
// certificate or token alone is useless.
static enum tern_result authenticate_by_token(struct tern_service *service,
                                              const struct tern_http_request *request,
                                              uint64_t *client)
{
    TERN_TRY(tern_gate_client(service->gate, request->authorization, client));
    if (request->certificate[0] == '\0' || is_named(service->gate, *client, request->certificate)) {
        return TERN_OK;
    }
    log_other_certificate(&service->access, request, *client, tern_service_monotonic(service));
    return TERN_ERR_UNAUTHORIZED;
}

// Finds the client of the request. A connection with a pre-shared key belongs to the client whose key the handshake
// proved, and needs no token; a token that is sent anyway must belong to the same client.
static enum tern_result authenticate(struct tern_service *service,
                                     const struct tern_http_request *request, uint64_t *client)
{
    if (request->psk_client == 0) {
        return authenticate_by_token(service, request, client);
    }
    // The client may have been revoked since the handshake; then it has no key.
    if (!find_psk(&service->psk_keys, request->psk_client, NULL)) {
        return TERN_ERR_UNAUTHORIZED;
    }
    *client = request->psk_client;
    if (request->authorization[0] == '\0') {
        return TERN_OK;
    }
    uint64_t token_client = 0;
    TERN_TRY(tern_gate_client(service->gate, request->authorization, &token_client));
    return token_client == request->psk_client ? TERN_OK : TERN_ERR_UNAUTHORIZED;
}

struct route {
    enum request_kind kind;
    const char *method;
    const char *path;
    bool has_more; // the path continues with parameters
    enum tern_purpose purpose;
};

#define HEALTH_PATH "/healthz"
#define READY_PATH "/readyz"

static const struct route routes[] = {
    {REQUEST_ENROLL, "POST", TERN_PATH_ENROLL, false, TERN_PURPOSE_ENROLL},
    {REQUEST_CHECKIN, "POST", TERN_PATH_CHECKIN, false, TERN_PURPOSE_CHECKIN},
    {REQUEST_DOWNLOAD, "GET", TERN_PATH_DOWNLOADS, true, TERN_PURPOSE_DOWNLOAD},
    {REQUEST_AUTHORIZE, "GET", TERN_PATH_AUTHORIZE, true, TERN_PURPOSE_DOWNLOAD},
    {REQUEST_UPDATE, "PUT", TERN_PATH_UPDATES, true, TERN_PURPOSE_UPLOAD},
    {REQUEST_PROGRESS, "GET", TERN_PATH_UPDATES, true, TERN_PURPOSE_UPLOAD},
    {REQUEST_STATISTICS, "PUT", TERN_PATH_STATISTICS, false, TERN_PURPOSE_UPLOAD},
    {REQUEST_SCALING, "GET", TERN_PATH_STATISTICS, false, TERN_PURPOSE_CHECKIN},
};

// Returns the route of the path, preferably with the request's method. NULL: the path does not exist.
static const struct route *find_route(const struct tern_http_request *http)
{
    const struct route *found = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        const struct route *route = &routes[i];
        const size_t len = strlen(route->path) + !route->has_more;
        if (strncmp(http->path, route->path, len) == 0 &&
            (found == NULL || strcmp(http->method, route->method) == 0)) {
            found = route;
        }
    }
    return found;
}

// Routes the request: sets its kind and the members that follow from its path. Returns 0 or the status of a refusal.
static int route_request(const struct tern_http_request *http, struct request *request)
{
    const struct route *route = find_route(http);
    if (route == NULL) {
        return 404;
    }
    request->kind = route->kind;
    if (parse_path(http->path, request) != TERN_OK) {
        return 404;
    }
    if (strcmp(http->method, route->method) != 0) {
        return 405;
    }
    request->tag.purpose = route->purpose;
    request->tag.peer_is_cache = request->kind == REQUEST_AUTHORIZE ||
                                 (request->kind == REQUEST_DOWNLOAD && http->peer_is_cache);
    return request->kind == REQUEST_AUTHORIZE && !http->peer_is_cache ? 403 : 0;
}

// Whether the path is a monitoring probe, which needs no credentials.
static bool is_probe(const char *path)
{
    return strcmp(path, HEALTH_PATH) == 0 || strcmp(path, READY_PATH) == 0;
}

static size_t body_limit(const struct tern_service *service, const struct request *request)
{
    if (request->kind == REQUEST_UPDATE) {
        return tern_federation_update_max(service->federation);
    }
    if (request->kind == REQUEST_STATISTICS) {
        return tern_federation_statistics_max(service->federation);
    }
    return request->kind == REQUEST_ENROLL || request->kind == REQUEST_CHECKIN
               ? TERN_WIRE_MESSAGE_MAX
               : 0;
}

// Authenticates the client by its token or handshake, and sets request->client. A client with a pre-shared key is enrolled
// already, and cannot enrol again.
static enum tern_result check_client(struct tern_service *service,
                                     const struct tern_http_request *http, struct request *request)
{
    enum tern_result result = TERN_OK;
    if (request->kind != REQUEST_ENROLL) {
        result = authenticate(service, http, &request->client);
    } else if (http->psk_client != 0) {
        result = TERN_ERR_UNAUTHORIZED;
    }
    if (result != TERN_OK) {
        request->client = 0;
        atomic_fetch_add(&service->unauthorized, 1);
    }
    return result;
}

// A leader begins a transaction twice a second. After this time without one, another aggregator may have become the leader.
#define CURRENT_MS 1000

// Whether the client may have enrolled while another aggregator was the leader, so that this aggregator has not loaded
// its token yet.
static bool may_be_new(struct tern_service *service, const struct tern_http_request *http)
{
    return service->config.shares &&
           tern_service_monotonic(service) > atomic_load(&service->current_ms) + CURRENT_MS &&
           http->psk_client == 0 && is_unknown_token(service->gate, http->authorization);
}

// Sets the request's client. Returns 0 or the status of a refusal.
static int identify(struct tern_service *service, const struct tern_http_request *http,
                    struct request *request)
{
    request->client = 0;
    if (request->kind != REQUEST_ENROLL && may_be_new(service, http)) {
        return 503;
    }
    if (check_client(service, http, request) != TERN_OK) {
        return 401;
    }
    request->tag.client = request->client;
    return 0;
}

// Checks by the path whether a long update may count. If another aggregator can take over the database, every body is read:
// only a transaction shows whether that has happened and the new leader has opened the round, and a client whose update is
// refused must train again.
static enum tern_result worth_reading(struct tern_service *service, const struct request *request,
                                      uint64_t content_length)
{
    return content_length <= TERN_WIRE_MESSAGE_MAX || request->kind != REQUEST_UPDATE ||
                   service->config.shares
               ? TERN_OK
               : tern_federation_expects_update(service->federation, request->client,
                                                request->u.update.round);
}

// Counts a request that is refused before its body against the client's rate limit. Returns the status.
static int refuse_early(struct tern_service *service, const struct tern_http_request *http,
                        const struct request *request, int status)
{
    if (over_rate(service, http, request->client, REQUEST_UPDATE) != 0) {
        return 429;
    }
    return status;
}

// Meters the bytes of an update for its client, and lets the client complete it after a broken connection.
static void permit_update(struct tern_service *service, const struct request *request,
                          struct tern_http_permit *permit)
{
    permit->owner = request->client;
    permit->tag.client = request->client;
    permit->tag.purpose = TERN_PURPOSE_UPLOAD;
    tag_round(service, request->u.update.round, &permit->tag);
}

// Checks a routed request before its body is read. Returns 0 or the status of a refusal.
static int check_headers(struct tern_service *service, const struct tern_http_request *http,
                         uint64_t content_length, struct request *request,
                         struct tern_http_permit *permit)
{
    const size_t limit = body_limit(service, request);
    int status = identify(service, http, request);
    permit->known = request->client != 0;
    // A cache's connection belongs to no client, because it has requests of many clients.
    permit->client = http->peer_is_cache ? 0 : request->client;
    permit->body_limit = limit < permit->body_limit ? (uint32_t)limit : permit->body_limit;
    if (status != 0 || request->client == 0) {
        return status;
    }
    if (content_length > permit->body_limit) {
        return refuse_early(service, http, request, 413);
    }
    const enum tern_result worth = worth_reading(service, request, content_length);
    if (worth != TERN_OK) {
        status = refuse_early(service, http, request, 422);
        permit->refusal = status == 422 ? worth : TERN_OK;
        return status;
    }
    if (request->kind == REQUEST_UPDATE) {
        permit_update(service, request, permit);
    }
    return 0;
}

// Routes the request, and refuses a body that is too large or useless before it is read.
static int on_headers(void *ctx, const struct tern_http_request *http, uint64_t content_length,
                      struct tern_http_permit *permit)
{
    if (is_probe(http->path)) {
        permit->body_limit = 0;
        return strcmp(http->method, "GET") == 0 ? 0 : 405;
    }
    struct request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        return 503;
    }
    int status = route_request(http, request);
    if (status != 0) {
        permit->body_limit = 0;
    } else {
        status = check_headers(ctx, http, content_length, request, permit);
    }
    if (status != 0) {
        free(request);
        return status;
    }
    permit->context = request;
    return 0;
}

static void on_dropped(void *ctx, void *context)
{
    (void)ctx;
    free(context);
}

// Whether the client may still send the rest of an interrupted update.
static bool expects_upload(void *ctx, uint64_t client, const char *path)
{
    struct tern_service *service = ctx;
    uint32_t round;
    uint32_t sequence;
    return gate_admits(service->gate, client) &&
           tern_path_parse_update(path, &round, &sequence) == TERN_OK &&
           tern_federation_expects_update(service->federation, client, round) == TERN_OK;
}

// Whether the client of a session ticket is admitted: a revoked client may still have a ticket.
static bool admits_client(void *ctx, uint64_t client)
{
    struct tern_service *service = ctx;
    return gate_admits(service->gate, client);
}

// --- Requests

static void reply_now(struct tern_http_exchange *exchange, int status)
{
    struct tern_http_reply reply = {.status = status, .retry_after_s = status == 503 ? 1 : 0};
    tern_http_reply(exchange, &reply);
}

// Answers a probe without the reason of a failure, which only the admin listener reports.
static void reply_probe(struct tern_service *service, const char *path,
                        struct tern_http_exchange *exchange)
{
    char why[256];
    const bool is_good = strcmp(path, HEALTH_PATH) == 0 || tern_service_can_store(service, why);
    const char *text = is_good ? "ok\n" : "nothing can be stored\n";
    struct tern_http_tag tag = {.purpose = TERN_PURPOSE_CHECKIN};
    struct tern_http_reply reply = {
        .status = is_good ? 200 : 503, .retry_after_s = is_good ? 0 : 1, .type = "text/plain"};
    reply.body = tern_blob_new(strlen(text));
    if (reply.body != NULL) {
        memcpy(reply.body->data, text, strlen(text));
    }
    tern_http_exchange_tag(exchange, &tag);
    tern_http_reply(exchange, &reply);
}

// Queues the request for the service thread. Refuses it if the queue is full, or the database does not answer.
static void queue(struct tern_service *service, struct request *request)
{
    const bool is_stuck = tern_service_is_stuck(service);
    if (is_stuck || !tern_request_queue_put(&service->queue, request)) {
        tern_answer_refusal(
            request, 503, TERN_ERR_BUSY,
            is_stuck
                ? "The aggregator's database does not answer. Nothing changed; try again later."
                : "Too many requests wait for the aggregator. Nothing changed; try again.");
        tern_answer_reconnect(request, is_stuck && service->config.shares);
        tern_answer_send(request);
    }
}

static void admit(struct tern_service *service, struct request *request)
{
    const struct tern_http_request *http = tern_http_exchange_request(request->exchange);
    const uint32_t wait = over_rate(service, http, request->client, request->kind);
    if (wait != 0) {
        tern_answer_refusal(request, 429, TERN_ERR_BUSY,
                            request->client == 0
                                ? "This address has sent too many enrolments within a minute; try "
                                  "again later."
                                : "This client has sent too many requests within a minute; try "
                                  "again later.");
        request->reply.retry_after_s = wait;
        tern_answer_send(request);
        return;
    }
    request->parsed = parse(service, request);
    if (request->kind == REQUEST_PROGRESS) {
        request->u.progress.interrupted = tern_http_exchange_unfinished(
            request->exchange, request->client, &request->u.progress.unfinished);
    }
    tern_http_exchange_evict_body(request->exchange);
    queue(service, request);
}

static void on_request(void *ctx, struct tern_http_exchange *exchange)
{
    struct tern_service *service = ctx;
    const struct tern_http_request *http = tern_http_exchange_request(exchange);
    struct request *request = tern_http_exchange_context(exchange);
    if (request == NULL) { // a probe
        reply_probe(service, http->path, exchange);
        return;
    }
    request->exchange = exchange;
    // Identifies the client again, since the client may have been revoked while the body arrived.
    const int status = identify(service, http, request);
    if (status != 0) {
        request->tag = (struct tern_http_tag){.purpose = TERN_PURPOSE_CHECKIN};
        const enum tern_result reason = status == 401 ? TERN_ERR_UNAUTHORIZED : TERN_ERR_BUSY;
        tern_answer_refusal(request, status, reason, tern_result_sentence(reason));
        tern_answer_send(request);
        return;
    }
    admit(service, request);
}

// Meters the bytes between a client and this aggregator, or between the client and a cache (estimated). Bytes between the
// cache and this aggregator count separately.
static void on_metered(void *ctx, const struct tern_http_tag *tag, const struct tern_bytes *up,
                       const struct tern_bytes *down)
{
    struct tern_service *service = ctx;
    struct tern_db_meter row = {.client = tag->client,
                                .round = tag->round,
                                .purpose = tag->purpose,
                                .up = *up,
                                .down = *down,
                                .exchanges = 1};
    if (tag->peer_is_cache) {
        atomic_fetch_add(&service->cache_bytes[TERN_UP], up->wire);
        atomic_fetch_add(&service->cache_bytes[TERN_DOWN], down->wire);
        estimate_cached(tag, &row.up, &row.down);
    }
    if (!tag->peer_is_cache || tag->cache_sends > 0) {
        tern_metering_add(service->metering, &row);
    }
}

static void on_answered(void *ctx, const struct tern_http_answered *answered)
{
    struct tern_service *service = ctx;
    log_request(&service->access, "clients", answered, tern_service_monotonic(service));
}

static void on_handshake_failed(void *ctx, const char *peer, const char *why)
{
    struct tern_service *service = ctx;
    log_handshake(&service->access, peer, why, tern_service_monotonic(service));
}

void tern_service_log_admin_request(struct tern_service *service,
                                    const struct tern_http_answered *answered)
{
    log_request(&service->access, "admin", answered, tern_service_monotonic(service));
}

// Returns the pre-shared key of a client. Called on the listener's thread during a handshake.
static bool on_psk(void *ctx, uint64_t client, uint8_t key[TERN_HTTP_PSK_SIZE])
{
    struct tern_service *service = ctx;
    return find_psk(&service->psk_keys, client, key);
}

_Static_assert(TERN_HTTP_PSK_SIZE == TERN_PSK_SIZE, "one key");

struct tern_http_handler tern_service_handler(struct tern_service *service)
{
    return (struct tern_http_handler){.ctx = service,
                                      .on_headers = on_headers,
                                      .on_dropped = on_dropped,
                                      .expects_upload = expects_upload,
                                      .admits_client = admits_client,
                                      .on_request = on_request,
                                      .psk = service->config.psk ? on_psk : NULL,
                                      .on_metered = on_metered,
                                      .on_handshake_failed = on_handshake_failed,
                                      .on_answered = on_answered};
}

void tern_service_submit(struct tern_service *service, struct tern_http_exchange *exchange,
                         tern_service_job job, tern_service_refuse refusal, void *ctx)
{
    struct request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        free(ctx);
        reply_now(exchange, 503);
        return;
    }
    request->exchange = exchange;
    request->kind = REQUEST_JOB;
    request->u.job = (struct job_request){job, refusal, ctx};
    queue(service, request);
}

// --- Tokens of the admin listener

static enum tern_result append_token(struct tern_admin_tokens *tokens,
                                     const struct tern_db_token *token)
{
    struct tern_db_token *grown = tern_grown(tokens->tokens, tokens->count, sizeof *grown);
    if (grown == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    grown[tokens->count++] = *token;
    tokens->tokens = grown;
    return TERN_OK;
}

static enum tern_result load_tokens(struct tern_admin_tokens *tokens, struct tern_db *db)
{
    struct tern_admin_tokens loaded = {.count = 0};
    struct tern_db_token row;
    struct tern_db_rows *rows = tern_db_tokens(db);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, append_token(&loaded, &row));
    }
    const enum tern_result result = tern_db_end(rows);
    if (result == TERN_OK) {
        pthread_mutex_lock(&tokens->lock);
        struct tern_db_token *before = tokens->tokens;
        tokens->tokens = loaded.tokens;
        tokens->count = loaded.count;
        pthread_mutex_unlock(&tokens->lock);
        loaded.tokens = before;
    }
    free(loaded.tokens);
    return result;
}

bool tern_service_find_token(struct tern_service *service, const uint8_t sha256[TERN_SHA256_SIZE],
                             struct tern_db_token *token)
{
    struct tern_admin_tokens *tokens = &service->tokens;
    bool found = false;
    pthread_mutex_lock(&tokens->lock);
    for (size_t i = 0; i < tokens->count; i++) {
        if (tern_equal_constant_time(tokens->tokens[i].sha256, sha256, TERN_SHA256_SIZE)) {
            *token = tokens->tokens[i];
            found = true;
        }
    }
    pthread_mutex_unlock(&tokens->lock);
    return found;
}

// --- Start and settings

enum tern_result tern_front_open(struct tern_service *service)
{
    const struct tern_service_limits *limits = &service->config.limits;
    service->gate = tern_gate_new(limits->requests_per_minute, limits->enrollments_per_minute);
    init_psks(&service->psk_keys);
    pthread_mutex_init(&service->tokens.lock, NULL);
    const enum tern_result result = init_access_log(&service->access, &service->config.logging);
    return service->gate != NULL ? result : TERN_ERR_NO_MEMORY;
}

enum tern_result tern_front_load(struct tern_service *service)
{
    if (service->config.psk) {
        TERN_TRY(load_psks(&service->psk_keys, service->db));
    }
    TERN_TRY(load_tokens(&service->tokens, service->db));
    return load_codes(service->gate, service->db);
}

void tern_front_configure(struct tern_service *service, const struct tern_service_config *config)
{
    set_access_log(&service->access, &config->logging);
    set_rates(service->gate, config->limits.requests_per_minute,
              config->limits.enrollments_per_minute);
}

void tern_front_close(struct tern_service *service)
{
    free_psks(&service->psk_keys);
    free(service->tokens.tokens);
    pthread_mutex_destroy(&service->tokens.lock);
    free_access_log(&service->access);
    tern_gate_free(service->gate);
}
