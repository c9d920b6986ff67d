// The verb that writes the model that the device holds to a file.
#include "cli/held_model.h"
#include "cli/verbs.h"
#include "hosted/export_file.h"
#include "hosted/json_print.h"

#include <stdio.h>
#include <stdlib.h>

static enum tern_result make(struct session *session, const struct tern_export_file *file,
                             const char *held, uint8_t **data, size_t *len,
                             char why[TERN_SAFETENSORS_WHY_MAX])
{
    const struct tern_client_identity *identity = tern_client_identity(&session->client);
    uint8_t *bytes = NULL;
    struct tern_span columns;
    const enum tern_result read = tern_held_scaling(session, &bytes, &columns);
    if (read != TERN_OK) {
        snprintf(why, TERN_SAFETENSORS_WHY_MAX, "%s", session->why);
        return read;
    }
    const struct tern_export_model model = {.held = held,
                                            .layout = &session->model,
                                            .spec = identity->model_spec,
                                            .hash = identity->model_hash,
                                            .version = tern_client_version(&session->client),
                                            .scaling = columns};
    cJSON *notes = cJSON_CreateObject();
    tern_export_notes(notes, &model);
    const enum tern_result result = tern_export_file_make(
        file, &session->model, tern_client_weights(&session->client), NULL, notes, data, len, why);
    cJSON_Delete(notes);
    free(bytes);
    return result;
}

static int export_held(struct tern_cli *cli, struct session *session,
                       const struct tern_export_file *file)
{
    char why[TERN_SAFETENSORS_WHY_MAX] = "";
    const char *held = tern_held_name(session);
    uint8_t *data = NULL;
    size_t len = 0;
    TERN_CLI_TRY(tern_cli_check(cli, make(session, file, held, &data, &len, why), "%s", why));
    int code = tern_export_file_write(cli, data, len);
    cJSON *said =
        code == TERN_EXIT_OK
            ? tern_export_file_say(cli, held, tern_client_version(&session->client), data, len)
            : NULL;
    free(data);
    return said != NULL ? tern_json_print(cli, said) : code;
}

int tern_verb_export(struct tern_cli *cli)
{
    static struct session session;
    struct tern_export_file file;
    TERN_CLI_TRY(tern_export_file_check(cli, &file));
    const enum tern_result result = tern_held_open(&session);
    const int code = result == TERN_OK ? export_held(cli, &session, &file)
                                       : tern_cli_fail(cli, result, "%s", session.why);
    tern_session_close(&session);
    return code;
}
