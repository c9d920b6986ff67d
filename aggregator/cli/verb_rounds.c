// rounds: a row for each round, or for each round that selected a client; TensorBoard's events.
#include "cli/event_file.h"
#include "cli/listing.h"
#include "cli/verbs.h"
#include "hosted/files.h"

#include <inttypes.h>
#include <string.h>

// Columns that events are made of, in this order.
enum event_column {
    ROUND,
    STATE,
    CLOSED_MS,
    APPLIED,
    MEAN_LOSS,
    EVALUATED_LOSS,
    SCORE,
    ACCURACY_MODEL,
    PARTICIPANTS,
    PAYLOAD_UP,
    WIRE_UP,
    PAYLOAD_DOWN,
    WIRE_DOWN,
    EVENT_COLUMNS,
};
#define EVENT_COLUMN_NAMES                                                                         \
    "round,state,closed_ms,applied,mean_loss,evaluated_loss,score,accuracy_model,participants,"    \
    "payload_up,wire_up,payload_down,wire_down"

static void add_events(struct tern_event_file *file, const struct tern_view_rows *rows,
                       const char *score)
{
    struct tern_view_value of[EVENT_COLUMNS];
    char tag[TERN_TEXT];
    for (size_t i = 0; i < EVENT_COLUMNS; i++) {
        tern_view_value(rows, &rows->columns[rows->shown[i]], &of[i]);
    }
    if (strcmp(of[STATE].text, "committed") != 0) {
        return;
    }
    const bool evaluated = of[ACCURACY_MODEL].kind != TERN_VIEW_NULL;
    const bool counted = of[PARTICIPANTS].number > 0;
    const double by = counted ? (double)of[PARTICIPANTS].number : 1;
    snprintf(tag, sizeof tag, "%s/%s", score, evaluated ? of[ACCURACY_MODEL].text : "");
    const struct {
        const char *tag;
        bool known;
        double value;
    } series[] = {
        {"updates", true, (double)of[APPLIED].number},
        {"loss/train", of[MEAN_LOSS].kind != TERN_VIEW_NULL, (double)of[MEAN_LOSS].real},
        {"loss/evaluated", evaluated, (double)of[EVALUATED_LOSS].real},
        {tag, evaluated && of[SCORE].kind != TERN_VIEW_NULL, (double)of[SCORE].real},
        {"bytes per client, up/payload", counted, (double)of[PAYLOAD_UP].number / by},
        {"bytes per client, up/wire", counted, (double)of[WIRE_UP].number / by},
        {"bytes per client, down/payload", counted, (double)of[PAYLOAD_DOWN].number / by},
        {"bytes per client, down/wire", counted, (double)of[WIRE_DOWN].number / by},
    };
    for (size_t i = 0; i < sizeof series / sizeof series[0]; i++) {
        if (series[i].known) {
            tern_event_file_add(file, of[CLOSED_MS].number, (uint32_t)of[ROUND].number,
                                series[i].tag, series[i].value);
        }
    }
}

static enum tern_result read_events(struct tern_db *db, const struct tern_view_query *query,
                                    const char *score, struct tern_event_file *file)
{
    struct tern_view_rows *rows;
    char why[TERN_VIEW_WHY_MAX];
    TERN_TRY(tern_view_open(&tern_view_rounds, db, query, &rows, why));
    while (tern_view_next(rows)) {
        add_events(file, rows, score);
    }
    return tern_view_close(rows);
}

// One file for a federation, so that the next export replaces it.
static enum tern_result write_events(struct tern_event_file *file, const char *folder,
                                     uint64_t created_ms, char path[PATH_MAX])
{
    const int len = snprintf(path, PATH_MAX, "%s/events.out.tfevents.%" PRIu64 ".tern", folder,
                             created_ms / 1000);
    TERN_TRY(len > 0 && len < PATH_MAX ? TERN_OK : TERN_ERR_TOO_LARGE);
    TERN_TRY(tern_file_make_folders(folder, 0777));
    return tern_event_file_write(file, path);
}

static int export_events(struct tern_cli *cli)
{
    struct tern_db *db;
    struct tern_db_federation federation;
    struct tern_event_file file;
    struct tern_view_query query;
    TERN_CLI_TRY(tern_list_query(cli, &query));
    if (cli->json || tern_cli_flag(cli, "csv") || query.columns != NULL || query.where != NULL ||
        query.sort != NULL) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "--tensorboard writes a file of its own, not --csv or --json, and takes "
            "--last alone of the options of a list");
    }
    query.columns = EVENT_COLUMN_NAMES;
    TERN_CLI_TRY(tern_state_open_reading(cli, &db));
    enum tern_result result = tern_db_federation(db, &federation);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_event_file_begin(&file, federation.created_ms);
    result = read_events(db, &query, tern_accuracy_name(federation.model_spec), &file);
    if (result != TERN_OK) {
        tern_event_file_drop(&file);
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    char path[PATH_MAX];
    const char *folder = tern_cli_option(cli, "tensorboard", NULL);
    result = write_events(&file, folder, federation.created_ms, path);
    tern_event_file_drop(&file);
    TERN_CLI_TRY(tern_cli_check(cli, result, "cannot write into %s: %s", folder,
                                tern_result_sentence(result)));
    printf("%s\n", path);
    return TERN_EXIT_OK;
}

int tern_cli_rounds(struct tern_cli *cli)
{
    if (tern_cli_flag(cli, "tensorboard")) {
        return export_events(cli);
    }
    return tern_list(cli, cli->argument_count > 0 ? &tern_view_client_rounds : &tern_view_rounds,
                     NULL);
}
