#include "cli/figures.h"

#include <string.h>

// --- Over all rounds

static void take_bytes(struct tern_round_bytes *bytes, const struct tern_db_meter *meter)
{
    bytes->up = meter->up;
    bytes->down = meter->down;
}

enum tern_result tern_figures_load(struct tern_db *db, struct tern_figures *figures)
{
    struct tern_db_counts counts;
    struct tern_db_meter all;
    struct tern_db_meter outside;
    memset(figures, 0, sizeof *figures);
    TERN_TRY(tern_accuracy_newest(db, &figures->newest, &figures->pending));
    TERN_TRY(tern_db_counts(db, 0, &counts));
    TERN_TRY(tern_db_meter_training(db, &all, &outside));
    take_bytes(&figures->all, &all);
    take_bytes(&figures->outside, &outside);
    figures->all.participants = (uint32_t)counts.participants;
    return TERN_OK;
}

double tern_figures_mean(uint64_t total, uint32_t participants)
{
    return participants == 0 ? 0.0 : (double)total / (double)participants;
}
