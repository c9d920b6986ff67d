// The verb that writes the model that the device holds to a file.
#include "cli/held_inputs.h"
#include "cli/held_model.h"
#include "cli/verbs.h"
#include "hosted/export_file.h"
#include "hosted/json_print.h"

#include <stdio.h>
#include <stdlib.h>

static enum tern_result make(struct session *session, const struct tern_export_file *file,
                             const char *held, cJSON *notes, uint8_t **data, size_t *len,
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
    tern_held_note_inputs(session->settings, identity->model_spec, columns.len > 0, notes);
    tern_export_notes(notes, &model);
    const enum tern_result result = tern_export_file_make(
        file, &session->model, tern_client_weights(&session->client), NULL, notes, data, len, why);
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
    cJSON *notes = cJSON_CreateObject();
    int code = tern_cli_check(cli, make(session, file, held, notes, &data, &len, why), "%s", why);
    code = code == TERN_EXIT_OK ? tern_export_file_write(cli, data, len) : code;
    cJSON *said =
        code == TERN_EXIT_OK
            ? tern_export_file_say(cli, held, tern_client_version(&session->client), data, len)
            : NULL;
    if (code == TERN_EXIT_OK) {
        tern_export_say_inputs(cli, file, notes);
    }
    cJSON_Delete(notes);
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
