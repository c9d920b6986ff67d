// `tern-client enroll`: exchanges a join code for an identity, or installs a provisioned identity.
#include "cli/session.h"
#include "cli/verbs.h"
#include "client.h"
#include "hosted/cli.h"
#include "posix/transport.h"
#include "tensor/manifest.h"
#include "util/bytes.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- The output of `tern-aggregator provision --json`

#define FILE_MAX 4096

// 2^53: a double can represent all integers up to this one.
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

static enum tern_result read_text(const cJSON *root, const char *key, char *dst, size_t size)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, key));
    if (text == NULL || strlen(text) >= size) {
        return TERN_ERR_CORRUPT;
    }
    memcpy(dst, text, strlen(text) + 1);
    return TERN_OK;
}

static enum tern_result read_integer(const cJSON *root, const char *key, uint64_t *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0.0) || item->valuedouble > WHOLE_MAX ||
        (double)(uint64_t)item->valuedouble != item->valuedouble) {
        return TERN_ERR_CORRUPT;
    }
    *value = (uint64_t)item->valuedouble;
    return TERN_OK;
}

// Reads a flag, which is false if it is missing.
static enum tern_result read_flag(const cJSON *root, const char *key, bool *flag)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key);
    *flag = cJSON_IsTrue(item);
    return item == NULL || cJSON_IsBool(item) ? TERN_OK : TERN_ERR_CORRUPT;
}

// Reads the size of the model's manifest; if it is missing, the size is 0, and the spec defines the model.
static enum tern_result read_manifest(const cJSON *root, uint32_t *bytes)
{
    uint64_t value = 0;
    if (cJSON_GetObjectItemCaseSensitive(root, "manifest") != NULL) {
        TERN_TRY(read_integer(root, "manifest", &value));
    }
    *bytes = (uint32_t)value;
    return value <= TERN_MANIFEST_MAX ? TERN_OK : TERN_ERR_CORRUPT;
}

static enum tern_result read_identity(const cJSON *root, struct tern_client_identity *identity)
{
    char hash[2 * TERN_SHA256_SIZE + 1];
    TERN_TRY(read_integer(root, "client", &identity->client_id));
    TERN_TRY(read_text(root, "token", identity->token, sizeof identity->token));
    TERN_TRY(read_text(root, "model", identity->model_spec, sizeof identity->model_spec));
    TERN_TRY(read_integer(root, "seed", &identity->model_seed));
    TERN_TRY(read_text(root, "model_hash", hash, sizeof hash));
    TERN_TRY(read_flag(root, "evaluator", &identity->evaluator));
    TERN_TRY(read_manifest(root, &identity->manifest));
    return strlen(hash) == sizeof hash - 1
               ? tern_hex_decode(hash, identity->model_hash, TERN_SHA256_SIZE)
               : TERN_ERR_CORRUPT;
}

// Returns whether the text up to `end` is white space. A file with the objects of several clients is refused.
static bool is_blank(const char *text, const char *end)
{
    while (text < end && strchr(" \t\r\n", *text) != NULL && *text != '\0') {
        text++;
    }
    return text == end;
}

// Reads the identity in a file. path: "-" is the standard input.
// TERN_ERR_IO       the file cannot be read
// TERN_ERR_CORRUPT  the file does not have exactly one identity
static enum tern_result read_provisioned(const char *path, struct tern_client_identity *identity)
{
    char text[FILE_MAX];
    size_t len = 0;
    memset(identity, 0, sizeof *identity);
    TERN_TRY(read_file(path, text, &len));
    const char *end = text;
    cJSON *root = cJSON_ParseWithLengthOpts(text, len, &end, 0);
    const bool single = cJSON_IsObject(root) && is_blank(end, text + len);
    const enum tern_result result = single ? read_identity(root, identity) : TERN_ERR_CORRUPT;
    cJSON_Delete(root);
    return result;
}

// --- Enrolling

#define CODE_MAX 64

// Copies the join code from the argument; if that is "-", from the first line of the standard input.
static int read_code(const struct tern_cli *cli, char code[CODE_MAX])
{
    snprintf(code, CODE_MAX, "%s", cli->arguments[0]);
    if (strcmp(code, "-") == 0 && fgets(code, CODE_MAX, stdin) == NULL) {
        code[0] = '\0';
    }
    code[strcspn(code, "\r\n")] = '\0';
    if (code[0] == '\0') {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "the join code is empty; ask for one made by tern-aggregator "
                             "enroll-code");
    }
    return TERN_EXIT_OK;
}

static int print_enrolled(const struct tern_cli *cli, const struct tern_client_identity *identity)
{
    if (!cli->json) {
        printf("Enrolled as client %llu for the model %s.\n",
               (unsigned long long)identity->client_id, identity->model_spec);
        return TERN_EXIT_OK;
    }
    cJSON *root = cJSON_CreateObject();
    cJSON_AddNumberToObject(root, "client", (double)identity->client_id);
    cJSON_AddStringToObject(root, "model", identity->model_spec);
    cJSON_AddBoolToObject(root, "evaluator", identity->evaluator);
    return tern_json_print(cli, root);
}

static int provision(struct tern_cli *cli, struct session *session)
{
    struct tern_client_identity identity;
    const char *path = cli->arguments[0];
    enum tern_result result = read_provisioned(path, &identity);
    if (result == TERN_ERR_IO) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "%s cannot be read", path);
    }
    if (result == TERN_OK) {
        result = tern_client_provision(&session->client, &identity);
    }
    if (result == TERN_ERR_CORRUPT || result == TERN_ERR_ARGUMENT) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "%s does not contain the output of tern-aggregator provision --json for "
            "one client",
            path);
    }
    if (result == TERN_ERR_MODEL_MISMATCH) {
        return tern_cli_fail(
            cli, result,
            "this version cannot build the federation's model: use the tern-client "
            "that belongs to the aggregator");
    }
    if (result != TERN_OK) {
        return tern_cli_fail(cli, result, "the identity cannot be saved in %s: %s",
                             session->settings->client_state_dir, tern_result_sentence(result));
    }
    return print_enrolled(cli, tern_client_identity(&session->client));
}

// Fetches the manifest of a model that is not built in, so that the user sees an error at once. If that fails, the client is
// enrolled nevertheless, and tries again at each start.
static int fetch_model(struct tern_cli *cli, struct session *session)
{
    if (tern_session_build_model(session) != TERN_OK) {
        fprintf(stderr, "tern-client: enrolled, but %s; the client tries again when it runs\n",
                session->why);
    }
    return print_enrolled(cli, tern_client_identity(&session->client));
}

static int enroll(struct tern_cli *cli, struct session *session)
{
    char code[CODE_MAX];
    if (tern_session_identify(session) == TERN_OK && !tern_cli_flag(cli, "force")) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "%s is enrolled already as client %llu; --force replaces this identity",
            session->settings->client_state_dir,
            (unsigned long long)tern_client_identity(&session->client)->client_id);
    }
    if (tern_cli_flag(cli, "provisioned")) {
        return provision(cli, session);
    }
    TERN_CLI_TRY(read_code(cli, code));
    enum tern_result result = TERN_AGAIN;
    while (result == TERN_AGAIN) {
        result = tern_client_enroll(&session->client, code);
    }
    if (result == TERN_ERR_UNAUTHORIZED) {
        const bool evaluator = session->settings->client_evaluator;
        return tern_cli_fail(cli, result,
                             "the aggregator refused this code: it is wrong, used up%s "
                             "expired%s; ask for one made by tern-aggregator enroll-code%s",
                             evaluator ? "," : " or", evaluator ? ", or makes no evaluators" : "",
                             evaluator ? " --evaluator" : "");
    }
    if (result == TERN_ERR_ARGUMENT) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "'%.40s' is no join code: give the line alone that tern-aggregator "
                             "enroll-code prints to its standard output",
                             code);
    }
    if (result == TERN_ERR_MODEL_MISMATCH) {
        return tern_cli_fail(
            cli, result,
            "this version cannot build the federation's model: use the tern-client "
            "that belongs to the aggregator; the code is used up");
    }
    if (result != TERN_OK) {
        char why[TERN_FAILURE_MAX];
        return tern_cli_fail(
            cli, result, "enrolling with %s failed: %s%s", session->settings->client_server,
            tern_failure_text(&session->client, session->curl, result, why),
            result == TERN_ERR_NETWORK && tern_curl_has_sent(session->curl)
                ? "; try again: if the aggregator has accepted the code, it answers that the code "
                  "is used up"
                : "");
    }
    return fetch_model(cli, session);
}

static uint64_t wire_bytes(const struct session *session)
{
    const struct tern_meter *meter = tern_client_meter_all(&session->client);
    return tern_meter_total(meter, TERN_UP).wire + tern_meter_total(meter, TERN_DOWN).wire;
}

// Enrols, and adds the bytes to the saved meter. Enrolling again thus does not renew the month's budget.
static int enroll_metered(struct tern_cli *cli, struct session *session)
{
    const enum tern_result result = tern_client_load_meter(&session->client);
    if (result == TERN_ERR_CORRUPT) {
        fprintf(stderr, "tern-client: the meter's record is damaged; counting from zero\n");
    } else if (result != TERN_OK && result != TERN_ERR_NOT_FOUND) {
        return tern_cli_fail(cli, result, "the meter in %s cannot be read: %s",
                             session->settings->client_state_dir, tern_result_sentence(result));
    }
    const uint64_t before = wire_bytes(session);
    const int code = enroll(cli, session);
    if (wire_bytes(session) != before && tern_client_end(&session->client) != TERN_OK) {
        fprintf(stderr, "tern-client: the meter could not be saved\n");
    }
    return code;
}

int tern_verb_enroll(struct tern_cli *cli)
{
    static struct session session;
    const struct session_listener nobody = {0};
    const enum tern_result result = tern_session_open(&session, &tern_client_settings, &nobody);
    const int code = result == TERN_OK ? enroll_metered(cli, &session)
                                       : tern_cli_fail(cli, result, "%s", session.why);
    tern_session_close(&session);
    return code;
}
