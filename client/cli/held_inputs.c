#include "cli/held_inputs.h"

#include "cli/client_data.h"
#include "hosted/csv_choice.h"
#include "hosted/csv_text.h"
#include "hosted/export_file.h"
#include "hosted/log.h"
#include "tensor/model.h"

#include <stdlib.h>
#include <string.h>

#define FIELDS 3
#define FILE_MAX (1ull << 28)

struct statistics {
    double *mean; // [room] of the features, and behind them of the target
    double *deviation;
    uint32_t room;
    uint32_t count;
};

// Takes the lines of scale=FILE; a client that trains has checked them against its table.
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
                                     "line %llu is not that of a column that the model takes",
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

static void note(const struct tern_csv_names *names, const char *classes,
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

void tern_held_note_inputs(const struct tern_client_settings *settings, const char *spec,
                           bool shared, cJSON *notes)
{
    char text[TERN_DATA_SPEC_MAX];
    char why[TERN_DATA_WHY_MAX];
    struct tern_data_spec source;
    struct tern_csv_choice choice;
    struct tern_csv_names names;
    const uint32_t features = tern_model_spec_inputs(spec);
    tern_data_spec_join(settings->data_source, settings->data_dir, text);
    if (features == 0 || tern_spec_parse(&source, text, why) != TERN_OK ||
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
        note(&names, choice.classes, &statistics, features, notes);
        tern_csv_names_free(&names);
    }
    free(statistics.mean);
    free(statistics.deviation);
}
