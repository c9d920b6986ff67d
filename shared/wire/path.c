// The paths of protocol v1 (docs/PROTOCOL.md).
#include "util/bytes.h"
#include "wire/wire.h"
#include <stdbool.h>
#include <string.h>

#define HASH_TEXT TERN_BASE64URL_LENGTH(TERN_SHA256_SIZE)
#define NUMBER_MAX 10 // decimal digits of 2^32 - 1

_Static_assert(sizeof(TERN_PATH_DOWNLOADS) + HASH_TEXT <= TERN_PATH_MAX, "limit");
_Static_assert(sizeof(TERN_PATH_UPDATES) + 2 * NUMBER_MAX + 1 <= TERN_PATH_MAX, "limit");

// Reads a number as tern_put_decimal() writes it; returns where it ends, NULL when there is none.
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

// What follows `prefix` in path, NULL when it does not start with it.
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
