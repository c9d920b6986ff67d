// `tern-client export`: writes the model that the device holds to a file.
#include "cli/client_data.h"
#include "cli/client_settings.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "hosted/cli.h"
#include "hosted/csv_text.h"
#include "hosted/data_spec.h"
#include "hosted/export_file.h"
#include "hosted/log.h"
#include "tensor/model.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Metadata: columns, scaling and classes from the client's settings

#define FIELDS 3
#define FILE_MAX (1ull << 28)

struct statistics {
    double *mean; // [room] of the features, then of the target
    double *deviation;
    uint32_t room;
    uint32_t count;
};

// Reads the lines of the file of scale=FILE. A client that trains checks them against its table.
static enum tern_result read_lines(struct tern_csv *csv, struct statistics *statistics)
{
    bool more;
    TERN_TRY(tern_csv_next(csv, &more)); // the header line
    TERN_TRY(more ? tern_csv_next(csv, &more) : TERN_OK);
    while (more) {
        double mean;
        double deviation;
        if (csv->field_count != FIELDS || statistics->count == statistics->room ||
            !tern_csv_double(tern_csv_field(csv, 1), &mean) ||
            !tern_csv_double(tern_csv_field(csv, 2), &deviation) || !(deviation > 0)) {
            return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                     "line %llu does not describe a column of the model's inputs",
                                     (unsigned long long)csv->line);
        }
        statistics->mean[statistics->count] = mean;
        statistics->deviation[statistics->count++] = deviation;
        TERN_TRY(tern_csv_next(csv, &more));
    }
    return TERN_OK;
}

static void read_statistics(const char *path, struct statistics *statistics)
{
    char why[TERN_INPUT_WHY_MAX] = "";
    struct tern_input input;
    struct tern_csv *csv = calloc(1, sizeof *csv);
    enum tern_result result =
        csv != NULL ? tern_input_open(&input, path, FILE_MAX, why) : TERN_ERR_NO_MEMORY;
    if (result == TERN_OK) {
        tern_csv_begin(csv, &input, FIELDS + 1);
        result = read_lines(csv, statistics);
        tern_csv_end(csv);
        tern_input_close(&input);
    }
    free(csv);
    if (result != TERN_OK || statistics->count != statistics->room) {
        statistics->count = 0;
        tern_log(TERN_LOG_WARN, "export", "note=%s why=%s",
                 TERN_LOG_TEXT("the scaling is not written to the file"), TERN_LOG_TEXT(why));
    }
}

static void fill_inputs(const struct tern_csv_names *names, const char *classes,
                        const struct statistics *statistics, uint32_t features, cJSON *notes)
{
    const bool scaled = statistics->count > 0;
    const bool target = statistics->count > features;
    const struct tern_export_inputs inputs = {
        .columns =
            names->features.count == features ? (const char *const *)names->features.names : NULL,
        .mean = scaled ? statistics->mean : NULL,
        .deviation = statistics->deviation,
        .count = features,
        .classes = classes,
        .target = target ? names->label : NULL,
        .target_mean = target ? statistics->mean[features] : 0,
        .target_deviation = target ? statistics->deviation[features] : 0};
    tern_export_note_inputs(notes, &inputs);
}

// Adds the columns, scaling and classes to the metadata. shared: the federation's scaling replaces that of scale=FILE. Omits
// files that cannot be read, and logs that.
static void add_inputs(const struct tern_client_settings *settings, const char *spec, bool shared,
                       cJSON *notes)
{
    char text[TERN_DATA_SPEC_MAX];
    char why[TERN_DATA_WHY_MAX];
    struct tern_data_spec source;
    struct tern_csv_choice choice;
    struct tern_csv_names names;
    const uint32_t features = tern_model_spec_inputs(spec);
    tern_data_spec_join(settings->data_source, settings->data_dir, text);
    if (features == 0 || tern_data_spec_parse(&source, text, why) != TERN_OK ||
        strcmp(source.kind, "csv") != 0 || tern_csv_choose(&source, &choice) != TERN_OK) {
        return;
    }
    const char *scale = tern_spec_option(&source, "scale");
    struct statistics statistics = {.room = features + (choice.numeric ? 1 : 0)};
    statistics.mean = calloc(statistics.room, sizeof *statistics.mean);
    statistics.deviation = calloc(statistics.room, sizeof *statistics.deviation);
    if (statistics.mean != NULL && statistics.deviation != NULL &&
        tern_client_data_names(settings, &names) == TERN_OK) {
        if (choice.scaled && !shared) {
            read_statistics(scale, &statistics);
        }
        fill_inputs(&names, choice.classes, &statistics, features, notes);
        tern_csv_names_free(&names);
    }
    free(statistics.mean);
    free(statistics.deviation);
}

// --- Exporting

static enum tern_result make_file(struct session *session, const struct tern_export_file *file,
                                  const char *held, cJSON *notes, uint8_t **data, size_t *len,
                                  char why[TERN_SAFETENSORS_WHY_MAX])
{
    const struct tern_client_identity *identity = tern_client_identity(&session->client);
    uint8_t *bytes = NULL;
    struct tern_span columns;
    const enum tern_result read = tern_stored_model_scaling(session, &bytes, &columns);
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
    add_inputs(session->settings, identity->model_spec, columns.len > 0, notes);
    tern_export_notes(notes, &model);
    const enum tern_result result = tern_export_file_make(
        file, &session->model, tern_client_weights(&session->client), NULL, notes, data, len, why);
    free(bytes);
    return result;
}

static int export_model(struct tern_cli *cli, struct session *session,
                        const struct tern_export_file *file)
{
    char why[TERN_SAFETENSORS_WHY_MAX] = "";
    const char *held = tern_stored_model_kind(session);
    uint8_t *data = NULL;
    size_t len = 0;
    cJSON *notes = cJSON_CreateObject();
    int code =
        tern_cli_check(cli, make_file(session, file, held, notes, &data, &len, why), "%s", why);
    code = code == TERN_EXIT_OK ? tern_export_file_write(cli, data, len) : code;
    cJSON *said =
        code == TERN_EXIT_OK
            ? tern_export_file_report(cli, held, tern_client_version(&session->client), data, len)
            : NULL;
    if (code == TERN_EXIT_OK) {
        tern_export_report_inputs(cli, file, notes);
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
    const enum tern_result result = tern_stored_model_open(&session);
    const int code = result == TERN_OK ? export_model(cli, &session, &file)
                                       : tern_cli_fail(cli, result, "%s", session.why);
    tern_session_close(&session);
    return code;
}
