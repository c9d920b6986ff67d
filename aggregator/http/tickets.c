#include "http/tickets.h"
#include "hosted/files.h"
#include "hosted/mbedtls_versions.h"
#include "hosted/system.h"
#include "http/certificate.h"
#include "util/bytes.h"
#include "util/sha256.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <mbedtls/md.h>
#include <mbedtls/pk.h>
#include <mbedtls/platform_util.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if !TERN_MBEDTLS_PSA_ONLY
#include <mbedtls/gcm.h>
#endif

// --- Keys that seal tickets

// Sealing uses a copy of the key and a cipher context on the stack, so that the lock is taken only for the copy, and
// threads share no mbedTLS object.

#define NAME_SIZE 4u
#define NONCE_SIZE 12u
#define TAG_SIZE 16u
#define KEY_SIZE 32u

// A valid ticket was sealed by today's key or by one of the three keys before it; tomorrow's key may exist already.
#define KEYS_MAX (TERN_TICKET_LIFETIME_S / TERN_TICKET_ROTATION_S + 2u)

// File: magic, then for each key its time (8 bytes), name and key, the newest first.
#define MAGIC_SIZE 8u
#define KEY_RECORD_SIZE (8u + NAME_SIZE + KEY_SIZE)
#define KEYS_SIZE_MAX (MAGIC_SIZE + KEYS_MAX * KEY_RECORD_SIZE)
static_assert(KEYS_SIZE_MAX <= TERN_TICKET_KEYS_SIZE, "TERN_TICKET_KEYS_SIZE holds all keys");

static const uint8_t KEYS_MAGIC[MAGIC_SIZE] = {'t', 'e', 'r', 'n', 'k', 'e', 'y', '1'};

struct key {
    uint64_t created_s; // the key is used to seal from this time on
    uint8_t name[NAME_SIZE];
    uint8_t bytes[KEY_SIZE];
};

struct tern_ticket_keys {
    pthread_mutex_t lock;
    size_t count;
    struct key key[KEYS_MAX]; // newest first
    bool shared;
    char *path;
};

// --- AES-256-GCM: nonce | ciphertext | tag

#if TERN_MBEDTLS_PSA_ONLY

static psa_status_t import_gcm(const uint8_t key[KEY_SIZE], psa_key_usage_t usage, psa_key_id_t *id)
{
    psa_key_attributes_t attributes = PSA_KEY_ATTRIBUTES_INIT;
    psa_set_key_type(&attributes, PSA_KEY_TYPE_AES);
    psa_set_key_algorithm(&attributes, PSA_ALG_GCM);
    psa_set_key_usage_flags(&attributes, usage);
    return psa_import_key(&attributes, key, KEY_SIZE, id);
}

// name: additional authenticated data. sealed: NONCE_SIZE + len + TAG_SIZE bytes.
static bool gcm_seal(const uint8_t key[KEY_SIZE], const uint8_t *name, size_t name_len,
                     const uint8_t *plain, size_t len, uint8_t *sealed)
{
    psa_key_id_t id = 0;
    size_t written = 0;
    const bool done =
        tern_random_fill(sealed, NONCE_SIZE) == TERN_OK &&
        import_gcm(key, PSA_KEY_USAGE_ENCRYPT, &id) == PSA_SUCCESS &&
        psa_aead_encrypt(id, PSA_ALG_GCM, sealed, NONCE_SIZE, name, name_len, plain, len,
                         sealed + NONCE_SIZE, len + TAG_SIZE, &written) == PSA_SUCCESS;
    (void)psa_destroy_key(id);
    return done;
}

// len: bytes of the plain text.
static bool gcm_open(const uint8_t key[KEY_SIZE], const uint8_t *name, size_t name_len,
                     const uint8_t *sealed, size_t len, uint8_t *plain)
{
    psa_key_id_t id = 0;
    size_t written = 0;
    const bool done =
        import_gcm(key, PSA_KEY_USAGE_DECRYPT, &id) == PSA_SUCCESS &&
        psa_aead_decrypt(id, PSA_ALG_GCM, sealed, NONCE_SIZE, name, name_len, sealed + NONCE_SIZE,
                         len + TAG_SIZE, plain, len, &written) == PSA_SUCCESS;
    (void)psa_destroy_key(id);
    return done;
}

#else // no PSA: its keys are not safe for several threads in 2.28

static bool gcm_seal(const uint8_t key[KEY_SIZE], const uint8_t *name, size_t name_len,
                     const uint8_t *plain, size_t len, uint8_t *sealed)
{
    uint8_t *text = sealed + NONCE_SIZE;
    mbedtls_gcm_context gcm;
    mbedtls_gcm_init(&gcm);
    const bool done =
        tern_random_fill(sealed, NONCE_SIZE) == TERN_OK &&
        mbedtls_gcm_setkey(&gcm, MBEDTLS_CIPHER_ID_AES, key, KEY_SIZE * 8) == 0 &&
        mbedtls_gcm_crypt_and_tag(&gcm, MBEDTLS_GCM_ENCRYPT, len, sealed, NONCE_SIZE, name,
                                  name_len, plain, text, TAG_SIZE, text + len) == 0;
    mbedtls_gcm_free(&gcm);
    return done;
}

static bool gcm_open(const uint8_t key[KEY_SIZE], const uint8_t *name, size_t name_len,
                     const uint8_t *sealed, size_t len, uint8_t *plain)
{
    const uint8_t *text = sealed + NONCE_SIZE;
    mbedtls_gcm_context gcm;
    mbedtls_gcm_init(&gcm);
    const bool done = mbedtls_gcm_setkey(&gcm, MBEDTLS_CIPHER_ID_AES, key, KEY_SIZE * 8) == 0 &&
                      mbedtls_gcm_auth_decrypt(&gcm, len, sealed, NONCE_SIZE, name, name_len,
                                               text + len, TAG_SIZE, text, plain) == 0;
    mbedtls_gcm_free(&gcm);
    return done;
}

#endif

// --- File of the keys

static size_t write_keys(const struct tern_ticket_keys *keys, uint8_t bytes[KEYS_SIZE_MAX])
{
    memcpy(bytes, KEYS_MAGIC, MAGIC_SIZE);
    uint8_t *at = bytes + MAGIC_SIZE;
    for (size_t i = 0; i < keys->count; i++, at += KEY_RECORD_SIZE) {
        tern_put_le64(at, keys->key[i].created_s);
        memcpy(at + 8, keys->key[i].name, NAME_SIZE);
        memcpy(at + 8 + NAME_SIZE, keys->key[i].bytes, KEY_SIZE);
    }
    return (size_t)(at - bytes);
}

static bool parse_keys(struct tern_ticket_keys *keys, const uint8_t *bytes, size_t len)
{
    if (len < MAGIC_SIZE + KEY_RECORD_SIZE || len > KEYS_SIZE_MAX ||
        memcmp(bytes, KEYS_MAGIC, MAGIC_SIZE) != 0 || (len - MAGIC_SIZE) % KEY_RECORD_SIZE != 0) {
        return false;
    }
    keys->count = (len - MAGIC_SIZE) / KEY_RECORD_SIZE;
    const uint8_t *at = bytes + MAGIC_SIZE;
    for (size_t i = 0; i < keys->count; i++, at += KEY_RECORD_SIZE) {
        keys->key[i].created_s = tern_get_le64(at);
        memcpy(keys->key[i].name, at + 8, NAME_SIZE);
        memcpy(keys->key[i].bytes, at + 8 + NAME_SIZE, KEY_SIZE);
    }
    return true;
}

static enum tern_result save_keys(const struct tern_ticket_keys *keys)
{
    uint8_t bytes[KEYS_SIZE_MAX];
    const enum tern_result result =
        tern_file_write(keys->path, bytes, write_keys(keys, bytes), 0600);
    mbedtls_platform_zeroize(bytes, sizeof bytes);
    return result;
}

static enum tern_result refuse(const char *path, const char *reason, char why[256])
{
    snprintf(why, 256, "ticket key file %.120s %s", path, reason);
    return TERN_ERR_CONFIG;
}

static enum tern_result read_keys(struct tern_ticket_keys *keys, int fd, char why[256])
{
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        return refuse(keys->path, "is not a regular file", why);
    }
    if ((status.st_mode & 077) != 0) {
        return refuse(keys->path,
                      "may be read by other users: run chmod 600, or delete it for new keys", why);
    }
    uint8_t bytes[KEYS_SIZE_MAX + 1];
    ssize_t len = read(fd, bytes, sizeof bytes);
    bool valid = len > 0 && parse_keys(keys, bytes, (size_t)len);
    mbedtls_platform_zeroize(bytes, sizeof bytes);
    return valid ? TERN_OK
                 : refuse(keys->path, "has no ticket keys: correct the path, or delete it", why);
}

// --- Keys

// Whether a new key must be made. lead_s: seconds between a key's creation and its first use.
static bool is_due(const struct tern_ticket_keys *keys, uint64_t now_s, uint64_t lead_s)
{
    if (keys->count == 0) {
        return true;
    }
    uint64_t created = keys->key[0].created_s;
    // If the clock was set back, the newest key is from the future, and would be used for more than a day.
    return now_s + TERN_TICKET_LEAD_S < created ||
           now_s + lead_s >= created + TERN_TICKET_ROTATION_S;
}

// Returns the number of keys that may have sealed a ticket that is still valid. A key seals until the time of the next
// key.
static size_t count_needed(const struct tern_ticket_keys *keys, uint64_t now_s)
{
    size_t needed = keys->count < KEYS_MAX ? keys->count : KEYS_MAX - 1;
    while (needed > 1 && keys->key[needed - 2].created_s + TERN_TICKET_LIFETIME_S <= now_s) {
        needed--;
    }
    return needed;
}

// Adds a random key, which is used from from_s on, and removes keys that are no longer needed.
static enum tern_result add_key(struct tern_ticket_keys *keys, uint64_t now_s, uint64_t from_s)
{
    struct key key = {.created_s = from_s};
    TERN_TRY(tern_random_fill(key.name, sizeof key.name));
    TERN_TRY(tern_random_fill(key.bytes, sizeof key.bytes));
    const size_t kept = count_needed(keys, now_s);
    memmove(keys->key + 1, keys->key, kept * sizeof *keys->key);
    keys->key[0] = key;
    keys->count = kept + 1;
    mbedtls_platform_zeroize(&key, sizeof key);
    return TERN_OK;
}

static enum tern_result load_keys(struct tern_ticket_keys *keys, char why[256])
{
    int fd = open(keys->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? TERN_OK : refuse(keys->path, strerror(errno), why);
    }
    enum tern_result result = read_keys(keys, fd, why);
    close(fd);
    return result;
}

enum tern_result tern_ticket_keys_check(const char *path, char why[256])
{
    struct tern_ticket_keys keys = {.count = 0};
    keys.path = strdup(path);
    if (keys.path == NULL) {
        snprintf(why, 256, "memory is short");
        return TERN_ERR_NO_MEMORY;
    }
    const enum tern_result result = load_keys(&keys, why);
    free(keys.path);
    mbedtls_platform_zeroize(&keys, sizeof keys);
    return result;
}

enum tern_result tern_ticket_keys_open(const char *path, uint64_t now_s,
                                       struct tern_ticket_keys **out, char why[256])
{
    struct tern_ticket_keys *keys = calloc(1, sizeof *keys);
    if (keys == NULL || (keys->path = strdup(path)) == NULL) {
        free(keys);
        snprintf(why, 256, "memory is short");
        return TERN_ERR_NO_MEMORY;
    }
    pthread_mutex_init(&keys->lock, NULL);
    enum tern_result result = load_keys(keys, why);
    if (result == TERN_OK && tern_ticket_keys_rotate(keys, now_s) != TERN_OK) {
        result =
            refuse(path, "cannot be written: check that its directory exists and is writable", why);
    }
    if (result != TERN_OK) {
        tern_ticket_keys_close(keys);
        return result;
    }
    *out = keys;
    return TERN_OK;
}

void tern_ticket_keys_close(struct tern_ticket_keys *keys)
{
    if (keys == NULL) {
        return;
    }
    pthread_mutex_destroy(&keys->lock);
    free(keys->path);
    mbedtls_platform_zeroize(keys, sizeof *keys);
    free(keys);
}

// Writes a copy of the keys to the file without the lock, so that no handshake waits for the disk. The new key is used
// only after the file is complete, so that after a crash every ticket has its key.
enum tern_result tern_ticket_keys_rotate(struct tern_ticket_keys *keys, uint64_t now_s)
{
    pthread_mutex_lock(&keys->lock);
    struct tern_ticket_keys next = *keys;
    pthread_mutex_unlock(&keys->lock);
    if (next.shared || !is_due(&next, now_s, 0)) {
        mbedtls_platform_zeroize(next.key, sizeof next.key);
        return TERN_OK;
    }
    enum tern_result result = add_key(&next, now_s, now_s);
    if (result == TERN_OK) {
        result = save_keys(&next);
    }
    if (result == TERN_OK) {
        pthread_mutex_lock(&keys->lock);
        keys->count = next.count;
        memcpy(keys->key, next.key, sizeof next.key);
        pthread_mutex_unlock(&keys->lock);
    }
    mbedtls_platform_zeroize(next.key, sizeof next.key);
    return result;
}

static bool key_by_name(struct tern_ticket_keys *keys, const uint8_t *name, struct key *found)
{
    bool known = false;
    pthread_mutex_lock(&keys->lock);
    for (size_t i = 0; i < keys->count && !known; i++) {
        known = memcmp(keys->key[i].name, name, NAME_SIZE) == 0;
        if (known) {
            *found = keys->key[i];
        }
    }
    pthread_mutex_unlock(&keys->lock);
    return known;
}

// --- Tickets: key name | nonce | ciphertext | tag

// Returns the newest key whose time has begun. If the clock was set back before the times of all keys, returns the
// oldest key, which every server has.
static struct key sealing_key(struct tern_ticket_keys *keys, uint64_t now_s)
{
    pthread_mutex_lock(&keys->lock);
    size_t i = 0;
    while (i + 1 < keys->count && keys->key[i].created_s > now_s) {
        i++;
    }
    const struct key key = keys->key[i];
    pthread_mutex_unlock(&keys->lock);
    return key;
}

enum tern_result tern_ticket_seal(struct tern_ticket_keys *keys, uint64_t now_s,
                                  const uint8_t *plain, size_t len, uint8_t *ticket)
{
    struct key key = sealing_key(keys, now_s);
    memcpy(ticket, key.name, NAME_SIZE);
    const bool done = gcm_seal(key.bytes, ticket, NAME_SIZE, plain, len, ticket + NAME_SIZE);
    mbedtls_platform_zeroize(&key, sizeof key);
    return done ? TERN_OK : TERN_ERR_TLS;
}

enum tern_result tern_ticket_open(struct tern_ticket_keys *keys, const uint8_t *ticket, size_t len,
                                  uint8_t *plain)
{
    struct key key;
    if (len < TERN_TICKET_OVERHEAD) {
        return TERN_ERR_CORRUPT;
    }
    if (!key_by_name(keys, ticket, &key)) {
        return TERN_ERR_NOT_FOUND;
    }
    const bool done = gcm_open(key.bytes, ticket, NAME_SIZE, ticket + NAME_SIZE,
                               len - TERN_TICKET_OVERHEAD, plain);
    mbedtls_platform_zeroize(&key, sizeof key);
    return done ? TERN_OK : TERN_ERR_CORRUPT;
}

// --- Keys that several servers share

void tern_ticket_keys_share(struct tern_ticket_keys *keys)
{
    pthread_mutex_lock(&keys->lock);
    keys->shared = true;
    pthread_mutex_unlock(&keys->lock);
}

size_t tern_ticket_keys_write(struct tern_ticket_keys *keys, uint8_t bytes[TERN_TICKET_KEYS_SIZE])
{
    pthread_mutex_lock(&keys->lock);
    const size_t len = write_keys(keys, bytes);
    pthread_mutex_unlock(&keys->lock);
    return len;
}

enum tern_result tern_ticket_keys_replace(struct tern_ticket_keys *keys, const uint8_t *bytes,
                                          size_t len)
{
    uint8_t own[TERN_TICKET_KEYS_SIZE];
    struct tern_ticket_keys next = {.path = keys->path};
    if (!parse_keys(&next, bytes, len)) {
        return TERN_ERR_CORRUPT;
    }
    if (tern_ticket_keys_write(keys, own) != len || memcmp(own, bytes, len) != 0) {
        pthread_mutex_lock(&keys->lock);
        keys->count = next.count;
        memcpy(keys->key, next.key, sizeof next.key);
        pthread_mutex_unlock(&keys->lock);
        enum tern_result ignored = save_keys(&next);
        (void)ignored;
    }
    mbedtls_platform_zeroize(own, sizeof own);
    mbedtls_platform_zeroize(next.key, sizeof next.key);
    return TERN_OK;
}

enum tern_result tern_ticket_keys_extend(uint8_t bytes[TERN_TICKET_KEYS_SIZE], size_t *len,
                                         uint64_t now_s)
{
    struct tern_ticket_keys next = {.count = 0};
    if (!parse_keys(&next, bytes, *len)) {
        return TERN_ERR_CORRUPT;
    }
    enum tern_result result = TERN_OK;
    if (is_due(&next, now_s, TERN_TICKET_LEAD_S)) {
        result = add_key(&next, now_s, now_s + TERN_TICKET_LEAD_S);
        *len = result == TERN_OK ? write_keys(&next, bytes) : *len;
    }
    mbedtls_platform_zeroize(next.key, sizeof next.key);
    return result;
}

// --- Encryption of the keys for a database

#define DER_SIZE 6144u // in bytes; an RSA key of 8192 bits takes 4700

// Writes the private key in DER to the end of `der`. Returns its length, or an error of mbedTLS (negative).
static int write_der(const struct tern_pem *pem, uint8_t der[DER_SIZE])
{
    mbedtls_pk_context key;
    struct tern_mbedtls_random random;
    mbedtls_pk_init(&key);
    tern_mbedtls_random_init(&random);
    int result = tern_mbedtls_random_start(&random) ? 0 : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
    if (result == 0) {
        result = tern_mbedtls_parse_key(&key, pem->bytes, pem->size, &random);
    }
    if (result == 0) {
        result = mbedtls_pk_write_key_der(&key, der, DER_SIZE);
    }
    tern_mbedtls_random_free(&random);
    mbedtls_pk_free(&key);
    return result;
}

static bool derive(const uint8_t *der, size_t len, const char *use, uint8_t out[TERN_SHA256_SIZE])
{
    return mbedtls_md_hmac(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), der, len,
                           (const unsigned char *)use, strlen(use), out) == 0;
}

enum tern_result tern_ticket_sealer_make(const char *private_key, struct tern_ticket_sealer *sealer,
                                         char why[256])
{
    struct tern_pem pem;
    uint8_t der[DER_SIZE];
    TERN_TRY(tern_pem_read(private_key, "the private key", &pem, why));
    const int len = write_der(&pem, der);
    tern_pem_free(&pem);
    const uint8_t *begin = der + DER_SIZE - (len > 0 ? len : 0);
    const bool made = len > 0 && derive(begin, (size_t)len, "tern ticket keys: id", sealer->id) &&
                      derive(begin, (size_t)len, "tern ticket keys: key", sealer->key);
    mbedtls_platform_zeroize(der, sizeof der);
    return made ? TERN_OK : tern_pem_refuse(private_key, "the private key", len, why);
}

void tern_ticket_sealer_wipe(struct tern_ticket_sealer *sealer)
{
    mbedtls_platform_zeroize(sealer, sizeof *sealer);
}

enum tern_result tern_ticket_sealer_seal(const struct tern_ticket_sealer *sealer,
                                         const uint8_t *plain, size_t len, uint8_t *sealed)
{
    return gcm_seal(sealer->key, sealer->id, sizeof sealer->id, plain, len, sealed) ? TERN_OK
                                                                                    : TERN_ERR_TLS;
}

enum tern_result tern_ticket_sealer_open(const struct tern_ticket_sealer *sealer,
                                         const uint8_t *sealed, size_t len, uint8_t *plain)
{
    if (len < TERN_TICKET_SEALED_OVERHEAD) {
        return TERN_ERR_CORRUPT;
    }
    const bool done = gcm_open(sealer->key, sealer->id, sizeof sealer->id, sealed,
                               len - TERN_TICKET_SEALED_OVERHEAD, plain);
    return done ? TERN_OK : TERN_ERR_CORRUPT;
}

// --- Tickets in a ClientHello

#define RECORD_HANDSHAKE 22u
#define CLIENT_HELLO 1u
#define VERSION_AND_RANDOM 34u
#define SESSION_TICKET 35u
#define PRE_SHARED_KEY 41u
#define TICKET_AGE 4u

// The unread bytes of a ClientHello. Reading beyond the end sets `bad` and empties the view; a bad view yields zeros.
struct view {
    const uint8_t *at;
    size_t len;
    bool bad;
};

static const uint8_t *take(struct view *view, size_t len)
{
    if (view->bad || len > view->len) {
        *view = (struct view){.bad = true};
        return NULL;
    }
    const uint8_t *at = view->at;
    view->at += len;
    view->len -= len;
    return at;
}

// Reads a big-endian number of `bytes` bytes.
static size_t number(struct view *view, size_t bytes)
{
    size_t value = 0;
    const uint8_t *at = take(view, bytes);
    for (size_t i = 0; at != NULL && i < bytes; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

// Reads a vector of TLS: a length of `bytes` bytes, then its content.
static struct view vector(struct view *view, size_t bytes)
{
    const size_t len = number(view, bytes);
    const uint8_t *at = take(view, len);
    return (struct view){.at = at, .len = at != NULL ? len : 0, .bad = at == NULL};
}

static void offer(const struct view *ticket, struct tern_offered_ticket *offered, size_t *count)
{
    if (ticket->len > 0 && *count < TERN_OFFERED_TICKETS) {
        offered[*count] = (struct tern_offered_ticket){.bytes = ticket->at, .len = ticket->len};
        ++*count;
    }
}

static void take_identities(struct view *extension, struct tern_offered_ticket *offered,
                            size_t *count)
{
    struct view identities = vector(extension, 2);
    while (identities.len > 0) {
        const struct view identity = vector(&identities, 2);
        if (take(&identities, TICKET_AGE) != NULL) {
            offer(&identity, offered, count);
        }
    }
}

size_t tern_client_hello_tickets(const uint8_t *bytes, size_t len,
                                 struct tern_offered_ticket offered[TERN_OFFERED_TICKETS])
{
    size_t count = 0;
    struct view all = {.at = bytes, .len = len};
    const bool is_handshake = number(&all, 1) == RECORD_HANDSHAKE;
    (void)take(&all, 2); // the record's version
    struct view record = vector(&all, 2);
    const bool is_hello = number(&record, 1) == CLIENT_HELLO;
    struct view hello = vector(&record, 3);
    (void)take(&hello, VERSION_AND_RANDOM);
    (void)vector(&hello, 1); // session id
    (void)vector(&hello, 2); // suites
    (void)vector(&hello, 1); // compression
    struct view extensions = vector(&hello, 2);
    if (!is_handshake || !is_hello || hello.bad) {
        return 0;
    }
    while (extensions.len > 0) {
        const size_t type = number(&extensions, 2);
        struct view extension = vector(&extensions, 2);
        if (type == SESSION_TICKET) {
            offer(&extension, offered, &count);
        } else if (type == PRE_SHARED_KEY) {
            take_identities(&extension, offered, &count);
        }
    }
    return count;
}

// --- Clients that used a ticket

// The table is set-associative: a new entry replaces the least recently used of the four entries of its set. A hash of
// bytes that the listener has encrypted chooses the set, so that no peer can choose it.
#define SETS 32768u // a power of two; 2 MiB in total
#define WAYS 4u

#define HOUR_S 3600u

// File: magic, then tag, client and hour of each ticket, the most recently used one of a set last.
#define RECORD_SIZE 16u
#define FILE_MAX (MAGIC_SIZE + SETS * WAYS * RECORD_SIZE)

static const uint8_t KNOWN_MAGIC[MAGIC_SIZE] = {'t', 'e', 'r', 'n', 'k', 'n', 'w', '1'};

struct entry {
    uint64_t tag;    // 0 = none
    uint32_t client; // 0 = the client's credentials were refused
    uint32_t hour;   // when the ticket was recorded first, in hours of Unix time
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

void tern_known_tickets_record(struct tern_known_tickets *tickets, uint64_t tag, uint64_t client)
{
    const struct entry entry = {.tag = tag,
                                .client = client <= UINT32_MAX ? (uint32_t)client : 0,
                                .hour = (uint32_t)((uint64_t)time(NULL) / HOUR_S)};
    put(tickets, entry);
}

// Estimates from above: a ticket is recorded at its issue or later. The ticket itself has the exact end.
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
                          memcmp(bytes, KNOWN_MAGIC, MAGIC_SIZE) == 0;
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
    memcpy(bytes, KNOWN_MAGIC, MAGIC_SIZE);
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

uint64_t tern_known_tickets_client(struct tern_known_tickets *tickets, uint64_t tag)
{
    pthread_mutex_lock(&tickets->lock);
    const struct entry *set = tickets->sets[tag % SETS];
    const size_t at = find(set, tag);
    const uint64_t client = at < WAYS ? set[at].client : 0;
    pthread_mutex_unlock(&tickets->lock);
    return client;
}

uint64_t tern_known_tickets_offered(struct tern_known_tickets *tickets, const uint8_t *bytes,
                                    size_t len)
{
    struct tern_offered_ticket offered[TERN_OFFERED_TICKETS];
    const size_t count = tern_client_hello_tickets(bytes, len, offered);
    uint64_t client = 0;
    for (size_t i = 0; i < count && client == 0; i++) {
        client =
            tern_known_tickets_client(tickets, tern_ticket_tag(offered[i].bytes, offered[i].len));
    }
    return client;
}
