#include "cli/session.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CODE_MAX 64

// Reads the code from the argument, or for "-" from the first line of the standard input.
static void read_code(const struct tern_cli *cli, char code[CODE_MAX])
{
    snprintf(code, CODE_MAX, "%s", cli->arguments[0]);
    if (strcmp(code, "-") == 0 && fgets(code, CODE_MAX, stdin) == NULL) {
        code[0] = '\0';
    }
    code[strcspn(code, "\r\n")] = '\0';
}

static int enroll(struct tern_cli *cli, struct session *session)
{
    char code[CODE_MAX];
    if (session_identify(session) == TERN_OK && !tern_cli_flag(cli, "force")) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "%s is enrolled already as client %llu; --force replaces that",
                             session->settings->state_dir,
                             (unsigned long long)tern_client_identity(&session->client)->client_id);
    }
    read_code(cli, code);
    enum tern_result result = TERN_AGAIN;
    while (result == TERN_AGAIN) {
        result = tern_client_enroll(&session->client, code);
    }
    if (result == TERN_ERR_UNAUTHORIZED) {
        return tern_cli_fail(cli, result,
                             "the aggregator does not take this code: it is wrong, used up or "
                             "expired; ask for one made by tern-aggregator enroll-code");
    }
    if (result != TERN_OK) {
        return tern_cli_fail(cli, result, "enrolling with %s failed: %s %s",
                             session->settings->server, tern_result_sentence(result),
                             tern_curl_why(session->curl));
    }
    const struct tern_client_identity *identity = tern_client_identity(&session->client);
    printf("Enrolled as client %llu for the model %s.\n", (unsigned long long)identity->client_id,
           identity->model_spec);
    return TERN_EXIT_OK;
}

int verb_enroll(struct tern_cli *cli)
{
    static struct session session;
    const struct session_listener nobody = {0};
    const enum tern_result result = session_open(&session, &tern_client_settings, &nobody);
    const int code =
        result == TERN_OK ? enroll(cli, &session) : tern_cli_fail(cli, result, "%s", session.why);
    if (result == TERN_OK && tern_client_save_meter(&session.client) != TERN_OK) {
        fprintf(stderr, "tern-client: the meter could not be saved\n");
    }
    session_close(&session);
    return code;
}
