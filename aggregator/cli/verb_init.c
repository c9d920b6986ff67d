#include "cli/state.h"
#include "cli/verbs.h"

#include "hosted/files.h"
#include "tensor/model.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

// The options of init stand over the settings.
static int take_options(struct tern_cli *cli, struct tern_db_federation *federation)
{
    const struct tern_aggregator_settings *settings = tern_state_settings(cli);
    const char *spec = tern_cli_option(cli, "model", settings->federation_model);
    if (strlen(spec) >= sizeof federation->model_spec) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "the model spec is longer than %zu characters",
                             sizeof federation->model_spec - 1);
    }
    memcpy(federation->model_spec, spec, strlen(spec) + 1);
    enum tern_result result = tern_cli_number(cli, "seed", settings->federation_seed, 0,
                                              1000000000000000, &federation->seed);
    return (int)tern_cli_exit_code(result);
}

static int take_model(struct tern_cli *cli, struct tern_db_federation *federation, uint32_t *count)
{
    static struct tern_model model;
    enum tern_result result = tern_model_from_spec(&model, federation->model_spec);
    if (result == TERN_ERR_TOO_LARGE) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "model '%s' is too large: at most %u values in %d tensors",
                             federation->model_spec, TERN_MODEL_MAX_VALUES, TERN_MODEL_MAX_TENSORS);
    }
    if (result != TERN_OK) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "model '%s' is none of softmax:FEATURES-CLASSES,"
                             " mlp:FEATURES-HIDDEN-...-CLASSES, cnn:HxWxC-F1-F2-CLASSES",
                             federation->model_spec);
    }
    memcpy(federation->model_hash, model.hash, sizeof model.hash);
    *count = model.count;
    return TERN_EXIT_OK;
}

static int make_state(struct tern_cli *cli, const struct tern_db_federation *federation)
{
    char database[PATH_MAX];
    char token[PATH_MAX];
    char why[256] = "";
    const char *folder = tern_state_settings(cli)->federation_state;
    tern_state_path(cli, TERN_STATE_DATABASE, database);
    tern_state_path(cli, TERN_STATE_ADMIN_TOKEN, token);
    if (access(database, F_OK) == 0) {
        return tern_cli_fail(cli, TERN_ERR_IO,
                             "%s holds a federation already; choose another --state, or see it"
                             " with `tern-aggregator status`",
                             folder);
    }
    enum tern_result result = tern_file_make_folders(folder, 0700);
    if (result == TERN_OK) {
        bool made; // one from an init that was cut short before the database is kept
        result = tern_state_make_token(token, &made);
    }
    if (result != TERN_OK) {
        return tern_cli_fail(cli, result, "cannot make %s: %s", folder, strerror(errno));
    }
    // Last, because its presence says that the directory is complete.
    result = tern_db_create(database, federation, why);
    return result == TERN_OK ? TERN_EXIT_OK : tern_cli_fail(cli, TERN_ERR_IO, "%s", why);
}

static int print_made(struct tern_cli *cli, const struct tern_db_federation *federation,
                      uint32_t count)
{
    const char *folder = tern_state_settings(cli)->federation_state;
    if (cli->json) {
        cJSON *made = cJSON_CreateObject();
        cJSON_AddStringToObject(made, "state", folder);
        cJSON_AddStringToObject(made, "model", federation->model_spec);
        tern_json_u64(made, "values", count);
        tern_json_u64(made, "seed", federation->seed);
        tern_json_hash(made, "model_hash", federation->model_hash);
        return tern_json_print(cli, made);
    }
    printf("Made %s: a federation of %s (%" PRIu32 " values), seed %" PRIu64 ".\n\n"
           "Next:\n"
           "  1. Put the server's certificate and key there as %s and %s\n"
           "     (or name them in server.certificate and server.private_key).\n"
           "  2. tern-aggregator serve --state %s\n"
           "  3. tern-aggregator enroll-code --state %s\n"
           "     and on each device: tern-client enroll CODE\n",
           folder, federation->model_spec, count, federation->seed, TERN_STATE_CERTIFICATE,
           TERN_STATE_PRIVATE_KEY, folder, folder);
    return TERN_EXIT_OK;
}

int tern_cli_init(struct tern_cli *cli)
{
    struct tern_db_federation federation = {.created_ms = tern_now_ms()};
    uint32_t count = 0;
    int code = take_options(cli, &federation);
    code = code == 0 ? take_model(cli, &federation, &count) : code;
    code = code == 0 ? make_state(cli, &federation) : code;
    return code == 0 ? print_made(cli, &federation, count) : code;
}
