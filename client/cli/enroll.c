#include "cli/model.h"
#include "cli/provisioned.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "hosted/json_print.h"
#include "posix/failure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CODE_MAX 64

// Reads the code from the argument, or for "-" from the first line of the standard input.
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

static int say_enrolled(const struct tern_cli *cli, const struct tern_client_identity *identity)
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
    enum tern_result result = tern_provisioned_read(path, &identity);
    if (result == TERN_ERR_IO) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "%s cannot be read", path);
    }
    if (result == TERN_OK) {
        result = tern_client_provision(&session->client, &identity);
    }
    if (result == TERN_ERR_CORRUPT || result == TERN_ERR_ARGUMENT) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "%s is not what tern-aggregator provision --json prints for one "
                             "client",
                             path);
    }
    if (result == TERN_ERR_MODEL_MISMATCH) {
        return tern_cli_fail(cli, result,
                             "the federation's model is none that this version builds: use the "
                             "tern-client that belongs to the aggregator");
    }
    if (result != TERN_OK) {
        return tern_cli_fail(cli, result, "the identity cannot be saved in %s: %s",
                             session->settings->state_dir, tern_result_sentence(result));
    }
    return say_enrolled(cli, tern_client_identity(&session->client));
}

// What a model that is not built in looks like is fetched at once, while somebody is looking. The
// client is enrolled all the same when that fails: it is tried again at each start.
static int fetch_model(struct tern_cli *cli, struct session *session)
{
    if (tern_session_build_model(session) != TERN_OK) {
        fprintf(stderr, "tern-client: enrolled, but %s; it is tried again when the client runs\n",
                session->why);
    }
    return say_enrolled(cli, tern_client_identity(&session->client));
}

static int enroll(struct tern_cli *cli, struct session *session)
{
    char code[CODE_MAX];
    if (tern_session_identify(session) == TERN_OK && !tern_cli_flag(cli, "force")) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "%s is enrolled already as client %llu; --force replaces that",
                             session->settings->state_dir,
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
        const bool evaluator = session->settings->evaluator;
        return tern_cli_fail(cli, result,
                             "the aggregator does not take this code: it is wrong, used up%s "
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
        return tern_cli_fail(cli, result,
                             "the federation's model is none that this version builds: use the "
                             "tern-client that belongs to the aggregator; the code is used up");
    }
    if (result != TERN_OK) {
        char why[TERN_FAILURE_MAX];
        return tern_cli_fail(
            cli, result, "enrolling with %s failed: %s%s", session->settings->server,
            tern_failure_text(&session->client, session->curl, result, why),
            result == TERN_ERR_NETWORK
                ? "; try again: where it took the code meanwhile, it says that it is used up"
                : "");
    }
    return fetch_model(cli, session);
}

static uint64_t wire_bytes(const struct session *session)
{
    const struct tern_meter *meter = tern_client_meter_all(&session->client);
    return tern_meter_total(meter, TERN_UP).wire + tern_meter_total(meter, TERN_DOWN).wire;
}

// Enrolling again must not make the month's bytes free: the meter goes on from what was counted.
static int enroll_metered(struct tern_cli *cli, struct session *session)
{
    const enum tern_result result = tern_client_load_meter(&session->client);
    if (result == TERN_ERR_CORRUPT) {
        fprintf(stderr, "tern-client: the meter's record is damaged; counting from zero\n");
    } else if (result != TERN_OK && result != TERN_ERR_NOT_FOUND) {
        return tern_cli_fail(cli, result, "the meter in %s cannot be read: %s",
                             session->settings->state_dir, tern_result_sentence(result));
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
