#include "cli/provisioned.h"

#include "tensor/manifest.h"
#include "util/bytes.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#define FILE_MAX 4096

// The largest whole number up to which a double holds all.
#define WHOLE_MAX 9007199254740992.0

static enum tern_result read_file(const char *path, char text[FILE_MAX], size_t *len)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (file == NULL) {
        return TERN_ERR_IO;
    }
    *len = fread(text, 1, FILE_MAX, file);
    const bool failed = ferror(file) != 0;
    const bool whole = feof(file) != 0;
    if (file != stdin) {
        fclose(file);
    }
    if (failed) {
        return TERN_ERR_IO;
    }
    return whole ? TERN_OK : TERN_ERR_CORRUPT;
}

static enum tern_result take_text(const cJSON *root, const char *key, char *dst, size_t size)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, key));
    if (text == NULL || strlen(text) >= size) {
        return TERN_ERR_CORRUPT;
    }
    memcpy(dst, text, strlen(text) + 1);
    return TERN_OK;
}

static enum tern_result take_whole(const cJSON *root, const char *key, uint64_t *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0.0) || item->valuedouble > WHOLE_MAX ||
        (double)(uint64_t)item->valuedouble != item->valuedouble) {
        return TERN_ERR_CORRUPT;
    }
    *value = (uint64_t)item->valuedouble;
    return TERN_OK;
}

// false where there is none.
static enum tern_result take_flag(const cJSON *root, const char *key, bool *flag)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key);
    *flag = cJSON_IsTrue(item);
    return item == NULL || cJSON_IsBool(item) ? TERN_OK : TERN_ERR_CORRUPT;
}

// 0 where there is none: the spec gives the model.
static enum tern_result take_manifest(const cJSON *root, uint32_t *bytes)
{
    uint64_t value = 0;
    if (cJSON_GetObjectItemCaseSensitive(root, "manifest") != NULL) {
        TERN_TRY(take_whole(root, "manifest", &value));
    }
    *bytes = (uint32_t)value;
    return value <= TERN_MANIFEST_MAX ? TERN_OK : TERN_ERR_CORRUPT;
}

static enum tern_result take(const cJSON *root, struct tern_client_identity *identity)
{
    char hash[2 * TERN_SHA256_SIZE + 1];
    TERN_TRY(take_whole(root, "client", &identity->client_id));
    TERN_TRY(take_text(root, "token", identity->token, sizeof identity->token));
    TERN_TRY(take_text(root, "model", identity->model_spec, sizeof identity->model_spec));
    TERN_TRY(take_whole(root, "seed", &identity->model_seed));
    TERN_TRY(take_text(root, "model_hash", hash, sizeof hash));
    TERN_TRY(take_flag(root, "evaluator", &identity->evaluator));
    TERN_TRY(take_manifest(root, &identity->manifest));
    return strlen(hash) == sizeof hash - 1
               ? tern_hex_decode(hash, identity->model_hash, TERN_SHA256_SIZE)
               : TERN_ERR_CORRUPT;
}

// Several clients' objects one behind the other would else be taken for the first one's.
static bool is_blank(const char *text, const char *end)
{
    while (text < end && strchr(" \t\r\n", *text) != NULL && *text != '\0') {
        text++;
    }
    return text == end;
}

enum tern_result tern_provisioned_read(const char *path, struct tern_client_identity *identity)
{
    char text[FILE_MAX];
    size_t len = 0;
    memset(identity, 0, sizeof *identity);
    TERN_TRY(read_file(path, text, &len));
    const char *end = text;
    cJSON *root = cJSON_ParseWithLengthOpts(text, len, &end, 0);
    const bool single = cJSON_IsObject(root) && is_blank(end, text + len);
    const enum tern_result result = single ? take(root, identity) : TERN_ERR_CORRUPT;
    cJSON_Delete(root);
    return result;
}
