// rounds lists rounds and exports them for TensorBoard; close-round ends the open round before its deadline.
#include "admin/rows.h"
#include "cli/listing.h"
#include "cli/state.h"
#include "cli/verbs.h"
#include "hosted/files.h"
#include "result.h"
#include "util/bytes.h"
#include "util/crc32c.h"

#include <inttypes.h>
#include <pb_encode.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Event files of TensorBoard: TFRecords, each an Event of TensorFlow's event.proto with one scalar at a step

struct event_file {
    FILE *stream; // writes to `bytes`
    char *bytes;
    size_t len;
    enum tern_result result; // of the first call that failed
};

#define EVENT_MAX 256 // most bytes of one encoded event

// Field numbers in TensorFlow's event.proto and summary.proto.
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE_VALUE = 2 };

static uint32_t masked_crc(const uint8_t *data, size_t len)
{
    const uint32_t crc = tern_crc32c(0, data, len);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

// Writes a TFRecord: length, checksum of the length, data, checksum of the data.
static void write_record(struct event_file *file, const uint8_t *data, size_t len)
{
    uint8_t head[12];
    uint8_t tail[4];
    tern_put_le64(head, len);
    tern_put_le32(head + 8, masked_crc(head, 8));
    tern_put_le32(tail, masked_crc(data, len));
    if (fwrite(head, sizeof head, 1, file->stream) != 1 ||
        fwrite(data, len, 1, file->stream) != 1 ||
        fwrite(tail, sizeof tail, 1, file->stream) != 1) {
        file->result = TERN_ERR_NO_MEMORY;
    }
}

static bool put_string(pb_ostream_t *out, uint32_t field, const char *text)
{
    return pb_encode_tag(out, PB_WT_STRING, field) &&
           pb_encode_string(out, (const pb_byte_t *)text, strlen(text));
}

static bool put_double(pb_ostream_t *out, uint32_t field, double value)
{
    return pb_encode_tag(out, PB_WT_64BIT, field) && pb_encode_fixed64(out, &value);
}

static bool put_float(pb_ostream_t *out, uint32_t field, float value)
{
    return pb_encode_tag(out, PB_WT_32BIT, field) && pb_encode_fixed32(out, &value);
}

static bool put_summary(pb_ostream_t *out, const char *tag, double value)
{
    pb_byte_t bytes[EVENT_MAX];
    pb_ostream_t inner = pb_ostream_from_buffer(bytes, sizeof bytes);
    pb_byte_t around[EVENT_MAX];
    pb_ostream_t summary = pb_ostream_from_buffer(around, sizeof around);
    return put_string(&inner, VALUE_TAG, tag) &&
           put_float(&inner, VALUE_SIMPLE_VALUE, (float)value) &&
           pb_encode_tag(&summary, PB_WT_STRING, SUMMARY_VALUE) &&
           pb_encode_string(&summary, bytes, inner.bytes_written) &&
           pb_encode_tag(out, PB_WT_STRING, EVENT_SUMMARY) &&
           pb_encode_string(out, around, summary.bytes_written);
}

// Begins a file. wall_ms: Unix time in milliseconds.
static void event_file_begin(struct event_file *file, uint64_t wall_ms)
{
    pb_byte_t event[EVENT_MAX];
    pb_ostream_t out = pb_ostream_from_buffer(event, sizeof event);
    *file = (struct event_file){.result = TERN_OK};
    file->stream = open_memstream(&file->bytes, &file->len);
    if (file->stream == NULL || !put_double(&out, EVENT_WALL_TIME, (double)wall_ms / 1e3) ||
        !put_string(&out, EVENT_FILE_VERSION, "brain.Event:2")) {
        file->result = TERN_ERR_NO_MEMORY;
        return;
    }
    write_record(file, event, out.bytes_written);
}

// Adds a value of the series `tag`, e.g. "loss/train".
static void event_file_add(struct event_file *file, uint64_t wall_ms, uint32_t step,
                           const char *tag, double value)
{
    pb_byte_t event[EVENT_MAX];
    pb_ostream_t out = pb_ostream_from_buffer(event, sizeof event);
    if (file->result != TERN_OK) {
        return;
    }
    if (!put_double(&out, EVENT_WALL_TIME, (double)wall_ms / 1e3) ||
        !pb_encode_tag(&out, PB_WT_VARINT, EVENT_STEP) || !pb_encode_varint(&out, step) ||
        !put_summary(&out, tag, value)) {
        file->result = TERN_ERR_TOO_LARGE;
        return;
    }
    write_record(file, event, out.bytes_written);
}

// Closes the stream; `bytes` remains. Returns the first failure of all calls.
static enum tern_result close_stream(struct event_file *file)
{
    const bool closed = file->stream == NULL || fclose(file->stream) == 0;
    file->stream = NULL;
    return closed ? file->result : TERN_ERR_NO_MEMORY;
}

// Frees the event file, whether it was written or not.
static void event_file_drop(struct event_file *file)
{
    (void)close_stream(file);
    free(file->bytes);
    file->bytes = NULL;
}

// Writes the file to `path`, after which nothing can be added. Returns TERN_ERR_NO_MEMORY and errors of
// tern_file_write().
static enum tern_result event_file_write(struct event_file *file, const char *path)
{
    TERN_TRY(close_stream(file));
    return tern_file_write(path, file->bytes, file->len, 0644);
}

// --- Export of the rounds

// Index of each column in EVENT_COLUMN_NAMES.
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

static void add_events(struct event_file *file, const struct tern_view_rows *rows,
                       const char *score)
{
    struct tern_view_value of[EVENT_COLUMNS];
    char tag[TERN_TEXT];
    for (size_t i = 0; i < EVENT_COLUMNS; i++) {
        tern_view_value(rows->row, &rows->columns[rows->shown[i]], &of[i]);
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
            event_file_add(file, of[CLOSED_MS].number, (uint32_t)of[ROUND].number, series[i].tag,
                           series[i].value);
        }
    }
}

static enum tern_result read_events(struct tern_db *db, const struct tern_view_query *query,
                                    const char *score, struct event_file *file)
{
    struct tern_view_rows *rows;
    char why[TERN_VIEW_WHY_MAX];
    TERN_TRY(tern_view_open(&tern_view_rounds, db, query, &rows, why));
    while (tern_view_next(rows)) {
        add_events(file, rows, score);
    }
    return tern_view_close(rows);
}

// Names the file after the federation's creation, so that the next export replaces it.
static enum tern_result write_events(struct event_file *file, const char *folder,
                                     uint64_t created_ms, char path[PATH_MAX])
{
    const int len = snprintf(path, PATH_MAX, "%s/events.out.tfevents.%" PRIu64 ".tern", folder,
                             created_ms / 1000);
    TERN_TRY(len > 0 && len < PATH_MAX ? TERN_OK : TERN_ERR_TOO_LARGE);
    TERN_TRY(tern_file_make_folders(folder, 0777));
    return event_file_write(file, path);
}

static int export_events(struct tern_cli *cli)
{
    struct tern_db *db;
    struct tern_db_federation federation;
    struct event_file file;
    struct tern_view_query query;
    TERN_CLI_TRY(tern_list_query(cli, &query));
    if (cli->json || tern_cli_flag(cli, "csv") || query.columns != NULL || query.where != NULL ||
        query.sort != NULL) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "--tensorboard writes a file, and of the options of a list allows "
                             "only --last: leave out "
                             "the others");
    }
    query.columns = EVENT_COLUMN_NAMES;
    TERN_CLI_TRY(tern_state_open_reading(cli, &db));
    enum tern_result result = tern_db_federation(db, &federation);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    event_file_begin(&file, federation.created_ms);
    result = read_events(db, &query, tern_accuracy_name(federation.model_spec), &file);
    if (result != TERN_OK) {
        event_file_drop(&file);
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    char path[PATH_MAX];
    const char *folder = tern_cli_option(cli, "tensorboard", NULL);
    result = write_events(&file, folder, federation.created_ms, path);
    event_file_drop(&file);
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

// --- Closing the open round

static enum tern_result close_round(struct tern_db *db, struct tern_status *status)
{
    TERN_TRY(tern_db_begin(db));
    return tern_db_conclude(db, tern_round_end_time(db, tern_now_ms(), "close-round", status));
}

static int print_closed(struct tern_cli *cli, const struct tern_status *status)
{
    const bool served = tern_state_is_served(cli);
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        tern_json_u64(object, "round", status->round.round);
        tern_json_u64(object, "reported", status->reported);
        tern_json_bool(object, "served", served);
        return tern_json_print(cli, object);
    }
    const char *when = served ? "now" : "when the service starts (`tern-aggregator serve`)";
    const uint32_t least =
        status->round.mode == TERN_ROUND_SECURE ? tern_state_settings(cli)->secure_min_clients : 0;
    if (status->reported > 0 && status->reported < least) {
        printf(
            "Round %" PRIu32 " is abandoned %s: it has %" PRIu32
            " update%s, and secure.min_clients is %" PRIu32 ". Clients put their updates back.\n",
            status->round.round, when, status->reported, status->reported == 1 ? "" : "s", least);
    } else if (status->reported > 0) {
        printf("Round %" PRIu32 " is merged %s, with %" PRIu32 " update%s.\n", status->round.round,
               when, status->reported, status->reported == 1 ? "" : "s");
    } else {
        printf("Round %" PRIu32
               " has no update to merge. Members that did not report are replaced %s, if other "
               "clients are eligible, and the round closes at its next deadline.\n",
               status->round.round, when);
    }
    return TERN_EXIT_OK;
}

int tern_cli_close_round(struct tern_cli *cli)
{
    struct tern_db *db;
    struct tern_status status;
    TERN_CLI_TRY(tern_state_open(cli, &db));
    const enum tern_result result = close_round(db, &status);
    if (result == TERN_ERR_NOT_FOUND) {
        tern_db_close(db);
        tern_cli_fail(
            cli, TERN_ERR_STATE,
            "no round is open; `tern-aggregator status` shows what the next one waits for");
        return TERN_EXIT_NOTHING;
    }
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    return print_closed(cli, &status);
}
