#include "wire/wire.h"

#include "util/bytes.h"
#include <stdbool.h>
#include <string.h>

// --- Paths (docs/PROTOCOL.md)

#define HASH_TEXT TERN_BASE64URL_LENGTH(TERN_SHA256_SIZE)
#define NUMBER_MAX 10 // decimal digits of 2^32 - 1

_Static_assert(sizeof(TERN_PATH_DOWNLOADS) + HASH_TEXT <= TERN_PATH_MAX, "limit");
_Static_assert(sizeof(TERN_PATH_UPDATES) + 2 * NUMBER_MAX + 1 <= TERN_PATH_MAX, "limit");

// Reads a number in the form that tern_put_decimal() writes; returns its end, or NULL if there is
// none.
static const char *get_number(const char *at, uint32_t *number)
{
    uint64_t value = 0;
    const char *end = tern_get_decimal(at, &value);
    const bool padded = end - at > 1 && at[0] == '0';
    if (end == at || padded || value > UINT32_MAX) {
        return NULL;
    }
    *number = (uint32_t)value;
    return end;
}

void tern_path_download(const uint8_t sha256[TERN_SHA256_SIZE], char path[TERN_PATH_MAX])
{
    memcpy(path, TERN_PATH_DOWNLOADS, sizeof(TERN_PATH_DOWNLOADS));
    tern_base64url_encode(sha256, TERN_SHA256_SIZE, path + sizeof(TERN_PATH_DOWNLOADS) - 1);
}

void tern_path_update(uint32_t round, uint32_t sequence, char path[TERN_PATH_MAX])
{
    memcpy(path, TERN_PATH_UPDATES, sizeof(TERN_PATH_UPDATES));
    char *at = tern_put_decimal(path + sizeof(TERN_PATH_UPDATES) - 1, round);
    *at++ = '/';
    tern_put_decimal(at, sequence);
}

// Returns the rest of the path after `prefix`, or NULL if it starts differently.
static const char *after(const char *path, const char *prefix)
{
    size_t len = strlen(prefix);
    return strncmp(path, prefix, len) == 0 ? path + len : NULL;
}

enum tern_result tern_path_parse_download(const char *path, uint8_t sha256[TERN_SHA256_SIZE])
{
    const char *text = after(path, TERN_PATH_DOWNLOADS);
    if (text == NULL ||
        tern_base64url_decode(text, strlen(text), sha256, TERN_SHA256_SIZE) != TERN_OK) {
        return TERN_ERR_NOT_FOUND;
    }
    return TERN_OK;
}

enum tern_result tern_path_parse_update(const char *path, uint32_t *round, uint32_t *sequence)
{
    const char *at = after(path, TERN_PATH_UPDATES);
    at = at == NULL ? NULL : get_number(at, round);
    if (at == NULL || *at != '/') {
        return TERN_ERR_NOT_FOUND;
    }
    at = get_number(at + 1, sequence);
    return at != NULL && *at == '\0' ? TERN_OK : TERN_ERR_NOT_FOUND;
}

// --- Replica ids: a hash chain over the downloads that made the replica (docs/FORMAT.md)

#define SEED_LABEL "tern replica seed"
#define WEIGHTS_LABEL "tern replica weights"
#define SNAPSHOT_LABEL "tern replica snapshot"
#define STEP_LABEL "tern replica step"

void tern_replica_from_seed(const uint8_t model_hash[TERN_SHA256_SIZE], uint64_t seed,
                            uint8_t id[TERN_SHA256_SIZE])
{
    struct tern_sha256 hash;
    uint8_t number[8];
    tern_put_le64(number, seed);
    tern_sha256_init(&hash);
    tern_sha256_update(&hash, SEED_LABEL, sizeof(SEED_LABEL) - 1);
    tern_sha256_update(&hash, model_hash, TERN_SHA256_SIZE);
    tern_sha256_update(&hash, number, sizeof(number));
    tern_sha256_final(&hash, id);
}

void tern_replica_from_weights(const uint8_t model_hash[TERN_SHA256_SIZE],
                               const uint8_t weights_sha256[TERN_SHA256_SIZE],
                               uint8_t id[TERN_SHA256_SIZE])
{
    struct tern_sha256 hash;
    tern_sha256_init(&hash);
    tern_sha256_update(&hash, WEIGHTS_LABEL, sizeof(WEIGHTS_LABEL) - 1);
    tern_sha256_update(&hash, model_hash, TERN_SHA256_SIZE);
    tern_sha256_update(&hash, weights_sha256, TERN_SHA256_SIZE);
    tern_sha256_final(&hash, id);
}

void tern_replica_from_snapshot(const uint8_t model_hash[TERN_SHA256_SIZE], uint32_t version,
                                const uint8_t container_sha256[TERN_SHA256_SIZE],
                                uint8_t id[TERN_SHA256_SIZE])
{
    struct tern_sha256 hash;
    uint8_t number[4];
    tern_put_le32(number, version);
    tern_sha256_init(&hash);
    tern_sha256_update(&hash, SNAPSHOT_LABEL, sizeof(SNAPSHOT_LABEL) - 1);
    tern_sha256_update(&hash, model_hash, TERN_SHA256_SIZE);
    tern_sha256_update(&hash, number, sizeof(number));
    tern_sha256_update(&hash, container_sha256, TERN_SHA256_SIZE);
    tern_sha256_final(&hash, id);
}

void tern_replica_step(const uint8_t from[TERN_SHA256_SIZE],
                       const uint8_t download_sha256[TERN_SHA256_SIZE],
                       uint8_t id[TERN_SHA256_SIZE])
{
    struct tern_sha256 hash;
    tern_sha256_init(&hash);
    tern_sha256_update(&hash, STEP_LABEL, sizeof(STEP_LABEL) - 1);
    tern_sha256_update(&hash, from, TERN_SHA256_SIZE);
    tern_sha256_update(&hash, download_sha256, TERN_SHA256_SIZE);
    tern_sha256_final(&hash, id);
}

// --- Pre-shared keys

void tern_psk_from_token(const char *token, uint8_t psk[TERN_PSK_SIZE])
{
    static const char domain[] = "tern psk v1";
    struct tern_sha256 hash;
    tern_sha256_init(&hash);
    tern_sha256_update(&hash, domain, sizeof domain - 1);
    tern_sha256_update(&hash, token, strlen(token));
    tern_sha256_final(&hash, psk);
}

// --- The columns of Statistics and Scaling

struct tern_column_pair tern_column_get(struct tern_span columns, uint32_t column)
{
    const uint8_t *at = columns.data + (size_t)column * TERN_WIRE_COLUMN_BYTES;
    return (struct tern_column_pair){tern_get_f32(at), tern_get_f32(at + 4)};
}

void tern_column_put(uint8_t *columns, uint32_t column, struct tern_column_pair pair)
{
    uint8_t *at = columns + (size_t)column * TERN_WIRE_COLUMN_BYTES;
    tern_put_f32(at, pair.mean);
    tern_put_f32(at + 4, pair.spread);
}

uint32_t tern_scaling_tag(const uint8_t sha256[TERN_SHA256_SIZE])
{
    const uint32_t tag = tern_get_le32(sha256);
    return tag != 0 ? tag : 1;
}

uint32_t tern_column_names_tag(const char *names, size_t len)
{
    uint8_t sha256[TERN_SHA256_SIZE];
    if (len == 0) {
        return 0;
    }
    tern_sha256(names, len, sha256);
    return tern_scaling_tag(sha256);
}
