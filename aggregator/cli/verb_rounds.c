#include "cli/figures.h"
#include "cli/held_out.h"
#include "cli/listing.h"
#include "cli/verbs.h"

#include <inttypes.h>

struct rounds {
    struct tern_round_figures figures;
    struct tern_held_outs held_outs;
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

static enum tern_colour colour_of(const struct tern_db_round *round)
{
    return round->state == TERN_ROUND_OPEN ? TERN_COLOUR_GOOD : TERN_COLOUR_NONE;
}

// What is not known yet, or never will be, is a -.
static void add_row(struct tern_text_table *table, const struct rounds *rounds,
                    const struct tern_db_round *round)
{
    char loss[TERN_TEXT] = "-";
    char accuracy[TERN_TEXT] = "-";
    const char *model = "-";
    char took[TERN_TEXT] = "-";
    char up[TERN_TEXT] = "-";
    char down[TERN_TEXT] = "-";
    const struct tern_accuracy *evaluated = accuracy_of(rounds, round);
    const struct tern_round_bytes *bytes = tern_figures_round(&rounds->figures, round->round);
    if (round->state == TERN_ROUND_COMMITTED && round->applied > 0) {
        snprintf(loss, sizeof loss, "%.4f", (double)round->mean_loss);
    }
    if (evaluated != NULL) {
        snprintf(accuracy, sizeof accuracy, "%.4f", evaluated->accuracy);
        model = tern_evaluated_name(evaluated->model);
    }
    if (round->closed_ms > round->opened_ms) {
        tern_text_duration(round->closed_ms - round->opened_ms, took);
    }
    if (bytes != NULL && bytes->participants > 0) {
        tern_text_bytes(tern_figures_mean(bytes->up.wire, bytes->participants), up);
        tern_text_bytes(tern_figures_mean(bytes->down.wire, bytes->participants), down);
    }
    tern_text_cell(table, "%" PRIu32, round->round);
    tern_text_cell_in(table, colour_of(round), "%s", tern_round_state_name(round->state));
    tern_text_cell(table, "%" PRIu32, round->applied);
    tern_text_cell(table, "%s", loss);
    tern_text_cell(table, "%s", accuracy);
    tern_text_cell(table, "%s", model);
    tern_text_cell(table, "%s", took);
    tern_text_cell(table, "%s", up);
    tern_text_cell(table, "%s", down);
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
        tern_accuracy_json(row, evaluated);
    }
    if (bytes != NULL) {
        add_bytes(row, bytes);
    }
    tern_held_outs_json(row, &rounds->held_outs, round->base_version);
    return row;
}

static enum tern_result list_round(struct tern_listing *listing, const struct rounds *rounds,
                                   const struct tern_db_round *round)
{
    if (round->round < rounds->first) {
        return TERN_OK;
    }
    if (listing->json != NULL) {
        return tern_listing_add(listing, json_of(rounds, round));
    }
    add_row(&listing->table, rounds, round);
    return TERN_OK;
}

static enum tern_result list_all(struct tern_listing *listing)
{
    struct rounds rounds = *(const struct rounds *)listing->ctx;
    struct tern_db_round newest = {.round = 0};
    TERN_TRY(tern_db_may_miss(tern_db_round_last(listing->db, &newest)));
    rounds.first = newest.round > rounds.last ? newest.round - rounds.last + 1 : 0;
    TERN_TRY(tern_held_outs_load(listing->db, &rounds.held_outs));
    enum tern_result result = tern_round_figures_load(listing->db, &rounds.figures);
    if (result != TERN_OK) {
        tern_held_outs_free(&rounds.held_outs);
        return result;
    }
    struct tern_db_round round;
    struct tern_db_rows *rows = tern_db_rounds(listing->db);
    while (tern_db_next(rows, &round)) {
        tern_db_check_row(rows, list_round(listing, &rounds, &round));
    }
    tern_held_outs_free(&rounds.held_outs);
    tern_round_figures_free(&rounds.figures);
    return tern_db_end(rows);
}

int tern_cli_rounds(struct tern_cli *cli)
{
    static const struct tern_text_column columns[] = {
        {"ROUND", TERN_TEXT_NUMBER},     {"STATE", TERN_TEXT_WORD},
        {"UPDATES", TERN_TEXT_NUMBER},   {"LOSS", TERN_TEXT_NUMBER},
        {"ACCURACY", TERN_TEXT_NUMBER},  {"OF", TERN_TEXT_WORD},
        {"TIME", TERN_TEXT_NUMBER},      {"WIRE UP", TERN_TEXT_NUMBER},
        {"WIRE DOWN", TERN_TEXT_NUMBER},
    };
    static const struct tern_listing_verb verb = {
        TERN_LISTING_COLUMNS(columns),
        .all = list_all,
    };
    uint64_t last;
    if (tern_cli_number(cli, "last", UINT32_MAX, 1, UINT32_MAX, &last) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    const struct rounds rounds = {.last = (uint32_t)last};
    return tern_list(cli, &verb, &rounds);
}
