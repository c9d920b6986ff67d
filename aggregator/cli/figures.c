#include "cli/figures.h"

#include "cli/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
    take_bytes(&figures->total, &all);
    take_bytes(&figures->outside_rounds, &outside);
    figures->total.participants = (uint32_t)counts.participants;
    return TERN_OK;
}

double tern_figures_mean(uint64_t total, uint32_t participants)
{
    return participants == 0 ? 0.0 : (double)total / (double)participants;
}

// --- Output

void tern_figures_print_outside(const struct tern_figures *figures, const char *indent)
{
    const struct tern_round_bytes *outside = &figures->outside_rounds;
    char up[TERN_TEXT];
    char down[TERN_TEXT];
    if (outside->up.wire == 0 && outside->down.wire == 0) {
        return;
    }
    tern_text_bytes((double)outside->up.wire, up);
    tern_text_bytes((double)outside->down.wire, down);
    printf(
        "%sincludes, in total outside of rounds (enrolment, first handshakes, idle check-ins), %s "
        "up and %s down\n",
        indent, up, down);
}

// Adds the totals divided by `divisor`; exact integers if it is 1.
static void add_numbers(cJSON *object, const struct tern_round_bytes *bytes, uint32_t divisor)
{
    const struct {
        const char *key;
        uint64_t total;
    } rows[] = {
        {"payload_up", bytes->up.payload}, {"payload_down", bytes->down.payload},
        {"http_up", bytes->up.http},       {"http_down", bytes->down.http},
        {"tls_up", bytes->up.tls},         {"tls_down", bytes->down.tls},
        {"wire_up", bytes->up.wire},       {"wire_down", bytes->down.wire},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (divisor == 1) {
            tern_json_u64(object, rows[i].key, rows[i].total);
        } else {
            double mean = tern_figures_mean(rows[i].total, divisor);
            tern_json_float(object, rows[i].key, (float)mean);
        }
    }
}

void tern_figures_add_json(cJSON *object, const struct tern_figures *figures)
{
    const struct tern_round_bytes *all = &figures->total;
    tern_json_u64(object, "client_rounds", all->participants);
    add_numbers(cJSON_AddObjectToObject(object, "per_client_and_round"), all, all->participants);
    add_numbers(cJSON_AddObjectToObject(object, "outside_rounds"), &figures->outside_rounds, 1);
}

void tern_figures_add_totals(cJSON *object, const struct tern_bytes *up,
                             const struct tern_bytes *down)
{
    const struct tern_round_bytes bytes = {.up = *up, .down = *down};
    add_numbers(object, &bytes, 1);
}
