#include "cli/figures.h"
#include "cli/listing.h"
#include "cli/verbs.h"

#include <inttypes.h>

struct rounds {
    struct tern_round_figures figures;
    uint32_t last; // so many are shown
    uint32_t first;
};

// Of the version that the round made.
static const struct tern_accuracy *accuracy_of(const struct rounds *rounds,
                                               const struct tern_db_round *round)
{
    if (round->state != TERN_ROUND_COMMITTED) {
        return NULL;
    }
    return tern_figures_accuracy(&rounds->figures, round->base_version + 1);
}

static void print_row(const struct rounds *rounds, const struct tern_db_round *round)
{
    char accuracy[TERN_TEXT] = "-";
    char took[TERN_TEXT] = "-";
    char up[TERN_TEXT] = "-";
    char down[TERN_TEXT] = "-";
    const struct tern_accuracy *evaluated = accuracy_of(rounds, round);
    const struct tern_round_bytes *bytes = tern_figures_round(&rounds->figures, round->round);
    if (evaluated != NULL) {
        snprintf(accuracy, sizeof accuracy, "%.4f", evaluated->accuracy);
    }
    if (round->closed_ms > round->opened_ms) {
        tern_text_duration(round->closed_ms - round->opened_ms, took);
    }
    if (bytes != NULL && bytes->participants > 0) {
        tern_text_bytes(tern_figures_mean(bytes->up.wire, bytes->participants), up);
        tern_text_bytes(tern_figures_mean(bytes->down.wire, bytes->participants), down);
    }
    printf("%6" PRIu32 "  %-10s %7" PRIu32 " %9.4f %9s %12s %10s %10s  %s\n", round->round,
           tern_round_state_name(round->state), round->applied, (double)round->mean_loss, accuracy,
           took, up, down, round->codec_up);
}

static void add_bytes(cJSON *row, const struct tern_round_bytes *bytes)
{
    tern_json_u64(row, "participants", bytes->participants);
    tern_json_u64(row, "payload_up", bytes->up.payload);
    tern_json_u64(row, "payload_down", bytes->down.payload);
    tern_json_u64(row, "wire_up", bytes->up.wire);
    tern_json_u64(row, "wire_down", bytes->down.wire);
}

static cJSON *json_of(const struct rounds *rounds, const struct tern_db_round *round)
{
    cJSON *row = tern_json_round(round);
    const struct tern_accuracy *evaluated = accuracy_of(rounds, round);
    const struct tern_round_bytes *bytes = tern_figures_round(&rounds->figures, round->round);
    if (evaluated != NULL) {
        tern_json_float(row, "accuracy", (float)evaluated->accuracy);
    }
    if (bytes != NULL) {
        add_bytes(row, bytes);
    }
    return row;
}

static enum tern_result list_round(struct tern_listing *listing, const struct rounds *rounds,
                                   const struct tern_db_round *round)
{
    if (round->round < rounds->first) {
        return TERN_OK;
    }
    if (listing->cli->json) {
        return tern_listing_add(listing, json_of(rounds, round));
    }
    print_row(rounds, round);
    return TERN_OK;
}

static enum tern_result list_all(struct tern_listing *listing)
{
    struct rounds rounds = *(const struct rounds *)listing->ctx;
    struct tern_db_round newest = {.round = 0};
    TERN_TRY(tern_db_may_miss(tern_db_round_last(listing->db, &newest)));
    rounds.first = newest.round > rounds.last ? newest.round - rounds.last + 1 : 0;
    TERN_TRY(tern_round_figures_load(listing->db, &rounds.figures));
    struct tern_db_round round;
    struct tern_db_rows *rows = tern_db_rounds(listing->db);
    while (tern_db_next(rows, &round)) {
        tern_db_check_row(rows, list_round(listing, &rounds, &round));
    }
    tern_round_figures_free(&rounds.figures);
    return tern_db_end(rows);
}

int tern_cli_rounds(struct tern_cli *cli)
{
    static const struct tern_listing_verb verb = {
        .header = " ROUND  STATE      UPDATES      LOSS  ACCURACY         TIME    WIRE UP  "
                  "WIRE DOWN  CODEC",
        .all = list_all,
    };
    uint64_t last;
    if (tern_cli_number(cli, "last", UINT32_MAX, 1, UINT32_MAX, &last) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    const struct rounds rounds = {.last = (uint32_t)last};
    return tern_list(cli, &verb, &rounds);
}
