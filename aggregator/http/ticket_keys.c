// Sealing works on a copy of the key, with a cipher context on the stack: the lock is held for a
// copy of 36 bytes and no mbedTLS object is seen by two threads.
#include "http/ticket_keys.h"
#include "hosted/files.h"
#include "hosted/random.h"
#include "util/bytes.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <mbedtls/gcm.h>
#include <mbedtls/platform_util.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_SIZE 4u
#define NONCE_SIZE 12u
#define TAG_SIZE 16u
#define KEY_SIZE 32u

// A ticket lives for three days, so that it may be under today's key or one of the three before; and there
// may be tomorrow's.
#define KEYS_MAX (TERN_TICKET_LIFETIME_S / TERN_TICKET_ROTATION_S + 2u)

// File: magic, then per key 8 bytes creation time, name, key; newest first.
#define MAGIC_SIZE 8u
#define RECORD_SIZE (8u + NAME_SIZE + KEY_SIZE)
#define FILE_MAX (MAGIC_SIZE + KEYS_MAX * RECORD_SIZE)
static_assert(FILE_MAX <= TERN_TICKET_KEYS_SIZE, "the header says how many bytes it takes");

static const uint8_t MAGIC[MAGIC_SIZE] = {'t', 'e', 'r', 'n', 'k', 'e', 'y', '1'};

struct key {
    uint64_t created_s; // from then on it seals
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

// --- File

static size_t to_file(const struct tern_ticket_keys *keys, uint8_t bytes[FILE_MAX])
{
    memcpy(bytes, MAGIC, MAGIC_SIZE);
    uint8_t *at = bytes + MAGIC_SIZE;
    for (size_t i = 0; i < keys->count; i++, at += RECORD_SIZE) {
        tern_put_le64(at, keys->key[i].created_s);
        memcpy(at + 8, keys->key[i].name, NAME_SIZE);
        memcpy(at + 8 + NAME_SIZE, keys->key[i].bytes, KEY_SIZE);
    }
    return (size_t)(at - bytes);
}

static bool from_file(struct tern_ticket_keys *keys, const uint8_t *bytes, size_t len)
{
    if (len < MAGIC_SIZE + RECORD_SIZE || len > FILE_MAX || memcmp(bytes, MAGIC, MAGIC_SIZE) != 0 ||
        (len - MAGIC_SIZE) % RECORD_SIZE != 0) {
        return false;
    }
    keys->count = (len - MAGIC_SIZE) / RECORD_SIZE;
    const uint8_t *at = bytes + MAGIC_SIZE;
    for (size_t i = 0; i < keys->count; i++, at += RECORD_SIZE) {
        keys->key[i].created_s = tern_get_le64(at);
        memcpy(keys->key[i].name, at + 8, NAME_SIZE);
        memcpy(keys->key[i].bytes, at + 8 + NAME_SIZE, KEY_SIZE);
    }
    return true;
}

static enum tern_result save(const struct tern_ticket_keys *keys)
{
    uint8_t bytes[FILE_MAX];
    const enum tern_result result = tern_file_write(keys->path, bytes, to_file(keys, bytes), 0600);
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
        return refuse(keys->path, "may be read by others: chmod 600 it, or delete it for new keys",
                      why);
    }
    uint8_t bytes[FILE_MAX + 1];
    ssize_t len = read(fd, bytes, sizeof bytes);
    bool valid = len > 0 && from_file(keys, bytes, (size_t)len);
    mbedtls_platform_zeroize(bytes, sizeof bytes);
    return valid ? TERN_OK
                 : refuse(keys->path, "holds something else: correct the path, or delete it", why);
}

// --- Keys

// lead_s: how long before its time a key is made.
static bool is_due(const struct tern_ticket_keys *keys, uint64_t now_s, uint64_t lead_s)
{
    if (keys->count == 0) {
        return true;
    }
    uint64_t created = keys->key[0].created_s;
    // A key from a later time tells of a clock that was set back; it would never be due.
    return now_s + TERN_TICKET_LEAD_S < created ||
           now_s + lead_s >= created + TERN_TICKET_ROTATION_S;
}

// How many keys a valid ticket may be under: each was in use until the time of the next.
static size_t count_needed(const struct tern_ticket_keys *keys, uint64_t now_s)
{
    size_t needed = keys->count < KEYS_MAX ? keys->count : KEYS_MAX - 1;
    while (needed > 1 && keys->key[needed - 2].created_s + TERN_TICKET_LIFETIME_S <= now_s) {
        needed--;
    }
    return needed;
}

// It seals from from_s on.
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

static enum tern_result load(struct tern_ticket_keys *keys, char why[256])
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
    const enum tern_result result = load(&keys, why);
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
    enum tern_result result = load(keys, why);
    if (result == TERN_OK && tern_ticket_keys_rotate(keys, now_s) != TERN_OK) {
        result = refuse(path, "cannot be written: is its directory there, and writable?", why);
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

// The file is written outside the lock, from a copy, so that no handshake waits for the disk; and
// before the key is used, so that no ticket outlives its key by a crash.
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
        result = save(&next);
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

// --- Sealing: name | nonce | ciphertext | tag, the name authenticated too

// Where the clock was set back before the times of all: the oldest, which others have for sure.
static struct key key_at(struct tern_ticket_keys *keys, uint64_t now_s)
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
    struct key key = key_at(keys, now_s);
    uint8_t *nonce = ticket + NAME_SIZE;
    uint8_t *sealed = nonce + NONCE_SIZE;
    memcpy(ticket, key.name, NAME_SIZE);
    mbedtls_gcm_context gcm;
    mbedtls_gcm_init(&gcm);
    bool done = tern_random_fill(nonce, NONCE_SIZE) == TERN_OK &&
                mbedtls_gcm_setkey(&gcm, MBEDTLS_CIPHER_ID_AES, key.bytes, KEY_SIZE * 8) == 0 &&
                mbedtls_gcm_crypt_and_tag(&gcm, MBEDTLS_GCM_ENCRYPT, len, nonce, NONCE_SIZE, ticket,
                                          NAME_SIZE, plain, sealed, TAG_SIZE, sealed + len) == 0;
    mbedtls_gcm_free(&gcm);
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
    const uint8_t *nonce = ticket + NAME_SIZE;
    const uint8_t *sealed = nonce + NONCE_SIZE;
    size_t plain_len = len - TERN_TICKET_OVERHEAD;
    mbedtls_gcm_context gcm;
    mbedtls_gcm_init(&gcm);
    bool done = mbedtls_gcm_setkey(&gcm, MBEDTLS_CIPHER_ID_AES, key.bytes, KEY_SIZE * 8) == 0 &&
                mbedtls_gcm_auth_decrypt(&gcm, plain_len, nonce, NONCE_SIZE, ticket, NAME_SIZE,
                                         sealed + plain_len, TAG_SIZE, sealed, plain) == 0;
    mbedtls_gcm_free(&gcm);
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
    const size_t len = to_file(keys, bytes);
    pthread_mutex_unlock(&keys->lock);
    return len;
}

enum tern_result tern_ticket_keys_take(struct tern_ticket_keys *keys, const uint8_t *bytes,
                                       size_t len)
{
    uint8_t own[TERN_TICKET_KEYS_SIZE];
    struct tern_ticket_keys next = {.path = keys->path};
    if (!from_file(&next, bytes, len)) {
        return TERN_ERR_CORRUPT;
    }
    if (tern_ticket_keys_write(keys, own) != len || memcmp(own, bytes, len) != 0) {
        pthread_mutex_lock(&keys->lock);
        keys->count = next.count;
        memcpy(keys->key, next.key, sizeof next.key);
        pthread_mutex_unlock(&keys->lock);
        enum tern_result ignored = save(&next);
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
    if (!from_file(&next, bytes, *len)) {
        return TERN_ERR_CORRUPT;
    }
    enum tern_result result = TERN_OK;
    if (is_due(&next, now_s, TERN_TICKET_LEAD_S)) {
        result = add_key(&next, now_s, now_s + TERN_TICKET_LEAD_S);
        *len = result == TERN_OK ? to_file(&next, bytes) : *len;
    }
    mbedtls_platform_zeroize(next.key, sizeof next.key);
    return result;
}
