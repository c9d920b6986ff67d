#include "cli/proposal.h"

#include "hosted/export_file.h"
#include <stdlib.h>

// Room for every column of the sample.
struct room {
    const char **columns;
    double *mean;
    double *deviation;
};

static void take_columns(const struct tern_proposal *proposal, struct room *room,
                         struct tern_export_inputs *inputs)
{
    const struct tern_csv_profile *profile = &proposal->profile;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        if (column->feature) {
            room->columns[inputs->count] = column->name;
            room->mean[inputs->count] = column->mean;
            room->deviation[inputs->count++] = column->deviation;
        }
    }
    inputs->columns = profile->columns.header ? room->columns : NULL;
    if (!proposal->shares) { // else export writes the scaling that clients agreed on
        inputs->mean = room->mean;
        inputs->deviation = room->deviation;
    }
}

static void take_target(const struct tern_proposal *proposal, struct tern_export_inputs *inputs)
{
    const struct tern_csv_profile *profile = &proposal->profile;
    if (proposal->task != TERN_TASK_REGRESSION) {
        inputs->classes = proposal->task == TERN_TASK_CLASSIFICATION ? proposal->classes : NULL;
        return;
    }
    const struct tern_csv_column *target = &profile->column[profile->columns.label];
    inputs->target = profile->columns.header ? target->name : NULL;
    if (!proposal->shares) {
        inputs->target_mean = target->mean;
        inputs->target_deviation = target->deviation;
    }
}

char *tern_proposal_notes(const struct tern_proposal *proposal, const char *metadata)
{
    const size_t count = proposal->profile.columns.count;
    cJSON *notes = metadata != NULL ? cJSON_Parse(metadata) : cJSON_CreateObject();
    struct room room = {calloc(count, sizeof *room.columns), calloc(count, sizeof *room.mean),
                        calloc(count, sizeof *room.deviation)};
    char *text = NULL;
    if (notes != NULL && room.columns != NULL && room.mean != NULL && room.deviation != NULL) {
        struct tern_export_inputs inputs = {.count = 0};
        take_columns(proposal, &room, &inputs);
        take_target(proposal, &inputs);
        tern_export_note_inputs(notes, &inputs);
        text = cJSON_PrintUnformatted(notes);
    }
    cJSON_Delete(notes);
    free(room.columns);
    free(room.mean);
    free(room.deviation);
    return text;
}
