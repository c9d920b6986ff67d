// list shows all federations of a machine: one settings file each, as the units tern-aggregator and tern-aggregator@NAME read.
#include "cli/figures.h"
#include "cli/state.h"
#include "cli/verbs.h"
#include "cli/waiting.h"

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SETTINGS_FOLDER "/etc/tern"
#define PREFIX "aggregator"
#define SUFFIX ".ini"

struct federation {
    char name[128]; // "" is that of aggregator.ini
    char why[512];  // why the rest is unknown; "": it is known
    const char *service;
    struct tern_db_federation row;
    struct tern_status status;
    uint64_t wire_bytes;
    uint32_t rounds; // planned; 0: no end
};

// Returns a word for the service of the federation on this machine.
static const char *service_state(const struct tern_cli *cli)
{
    char why[256];
    if (!tern_state_is_served(cli)) {
        return "stopped";
    }
    switch (tern_readiness_ask(tern_state_settings(cli), why)) {
    case TERN_READINESS_GOOD:
        return "ready";
    case TERN_READINESS_BAD:
        return "not-ready";
    case TERN_READINESS_SILENT:
        return "silent";
    case TERN_READINESS_UNKNOWN:
        break;
    }
    return "running"; // it stands by, is starting, or has no listener of its own
}

static enum tern_result load_rows(const struct tern_cli *cli, struct tern_db *db,
                                  struct federation *federation)
{
    struct tern_figures figures;
    TERN_TRY(tern_db_federation(db, &federation->row));
    TERN_TRY(tern_status_load(db, tern_now_ms(), &federation->status));
    if (tern_state_is_gateway(cli)) {
        tern_status_leave_out_follower(&federation->status);
    }
    TERN_TRY(tern_figures_load(db, &figures));
    federation->wire_bytes = figures.total.up.wire + figures.total.down.wire;
    return TERN_OK;
}

// Refuses a FIFO, on which a read would wait for a writer, and a device.
static int check_regular(const struct tern_cli *cli)
{
    struct stat status;
    if (stat(cli->config, &status) != 0 || S_ISREG(status.st_mode)) {
        return TERN_EXIT_OK; // what cannot be found, the reader of settings names
    }
    return tern_cli_fail(cli, TERN_ERR_CONFIG,
                         "%s is no regular file: remove or rename it, or make it a settings file",
                         cli->config);
}

// Loads one federation. cli: with its settings file; its messages go to federation->why.
static int load(struct tern_cli *cli, struct federation *federation)
{
    struct tern_db *db;
    federation->service = "unknown";
    TERN_CLI_TRY(check_regular(cli));
    TERN_CLI_TRY(tern_cli_load_settings(cli));
    federation->rounds = tern_state_settings(cli)->round_rounds;
    federation->service = service_state(cli);
    if (tern_state_is_postgres(cli) && !tern_db_is_url(tern_state_settings(cli)->store_url)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "store.url is no PostgreSQL URL");
    }
    TERN_CLI_TRY(tern_state_open_reading(cli, &db));
    const enum tern_result result = load_rows(cli, db, federation);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    return TERN_EXIT_OK;
}

// Writes NAME of a path that ends with aggregator-NAME.ini; "" for aggregator.ini.
static void name_of(const char *path, char name[128])
{
    const char *base = strrchr(path, '/') + 1 + strlen(PREFIX);
    const size_t len = strlen(base) - strlen(SUFFIX); // with the hyphen
    snprintf(name, 128, "%.*s", len > 0 ? (int)len - 1 : 0, base + 1);
}

static void add_json(cJSON *list, const struct federation *federation, const char *path)
{
    const struct tern_status *status = &federation->status;
    cJSON *row = cJSON_CreateObject();
    cJSON_AddItemToArray(list, row);
    tern_json_text(row, "name", federation->name);
    tern_json_text(row, "settings", path);
    tern_json_text(row, "service", federation->service);
    tern_json_text(row, "error", federation->why);
    if (federation->why[0] != '\0') {
        return;
    }
    tern_json_text(row, "model", federation->row.model_spec);
    tern_json_u64(row, "round", status->round.round);
    tern_json_u64(row, "rounds", federation->rounds);
    tern_json_u64(row, "rounds_committed", status->counts.rounds_committed);
    tern_json_u64(row, "clients", status->counts.clients - status->counts.clients_revoked);
    tern_json_u64(row, "wire_bytes", federation->wire_bytes);
}

static void add_cells(struct tern_text_table *table, const struct federation *federation)
{
    const struct tern_status *status = &federation->status;
    const bool known = federation->why[0] == '\0';
    char text[TERN_TEXT];
    tern_text_cell(table, "%s", federation->name[0] != '\0' ? federation->name : "-");
    tern_text_cell(table, "%s", federation->service);
    if (!known) {
        for (int i = 0; i < 4; i++) {
            tern_text_cell(table, "-");
        }
    } else {
        tern_text_cell(table, "%s", federation->row.model_spec);
        // A rollback adds a round to the planned ones.
        const bool fits = federation->rounds > 0 && federation->rounds >= status->round.round;
        snprintf(text, sizeof text, fits ? " of %" PRIu32 : "", federation->rounds);
        tern_text_cell(table, "%" PRIu32 "%s", status->round.round, text);
        tern_text_cell(table, "%" PRIu64, status->counts.clients - status->counts.clients_revoked);
        tern_text_cell(table, "%s", tern_text_bytes((double)federation->wire_bytes, text));
    }
    tern_text_cell(table, "%s", known ? "-" : federation->why);
}

// Prints one row for each settings file. Returns TERN_EXIT_FAILED if the federation of one cannot be read.
static int print_all(const struct tern_cli *cli, const glob_t *found)
{
    static const struct tern_text_column columns[] = {
        {"NAME", TERN_TEXT_WORD},    {"SERVICE", TERN_TEXT_WORD},   {"MODEL", TERN_TEXT_LONG},
        {"ROUND", TERN_TEXT_NUMBER}, {"CLIENTS", TERN_TEXT_NUMBER}, {"BYTES", TERN_TEXT_NUMBER},
        {"ERROR", TERN_TEXT_NOTE}};
    // Functions that open a federation read --state, which is no option of `list`.
    static const struct tern_cli_option options[] = {TERN_OPTION_STATE, {0}};
    const struct tern_cli_verb verb = {.name = "list", .options = options};
    static struct tern_aggregator_settings settings;
    static struct federation federation;
    struct tern_text_table table = TERN_TEXT_TABLE(columns);
    struct tern_cli_program program = *cli->program;
    cJSON *list = cJSON_CreateArray();
    int code = TERN_EXIT_OK;
    program.values = &settings;
    for (size_t i = 0; i < found->gl_pathc; i++) {
        memset(&federation, 0, sizeof federation);
        struct tern_cli one = *cli;
        one.program = &program;
        one.verb = &verb;
        one.config = found->gl_pathv[i];
        one.message = federation.why;
        one.message_size = sizeof federation.why;
        name_of(found->gl_pathv[i], federation.name);
        if (load(&one, &federation) != TERN_EXIT_OK) {
            code = TERN_EXIT_FAILED;
        }
        add_json(list, &federation, found->gl_pathv[i]);
        add_cells(&table, &federation);
    }
    if (cli->json) {
        tern_text_table_free(&table);
        TERN_CLI_TRY(tern_json_print(cli, list));
        return code;
    }
    cJSON_Delete(list);
    const enum tern_result result = tern_text_table_print(&table, stdout);
    TERN_CLI_TRY(tern_cli_check(cli, result, "the list cannot be printed: %s",
                                tern_result_sentence(result)));
    return code;
}

int tern_cli_list(struct tern_cli *cli)
{
    const char *folder = cli->argument_count > 0 ? cli->arguments[0] : SETTINGS_FOLDER;
    char pattern[PATH_MAX];
    glob_t found;
    if (cli->set_count > 0 || cli->config != NULL) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "list takes each federation's own settings file: give the folder of "
                             "these files, not --set or --config");
    }
    if (strpbrk(folder, "*?[\\") != NULL ||
        snprintf(pattern, sizeof pattern, "%s/" PREFIX SUFFIX, folder) >= (int)sizeof pattern) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "the folder '%.200s' is too long or has a *, ?, [ or \\", folder);
    }
    glob(pattern, 0, NULL, &found);
    snprintf(pattern, sizeof pattern, "%s/" PREFIX "-*" SUFFIX, folder);
    glob(pattern, GLOB_APPEND, NULL, &found);
    const int code =
        found.gl_pathc > 0
            ? print_all(cli, &found)
            : tern_cli_fail(cli, TERN_ERR_NOT_FOUND,
                            "%s has no aggregator.ini and no aggregator-NAME.ini: give the folder "
                            "of the settings files",
                            folder);
    globfree(&found);
    return code;
}
