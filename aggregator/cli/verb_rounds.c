#include "cli/figures.h"
#include "cli/state.h"
#include "cli/verbs.h"

#include <inttypes.h>

struct listing {
    struct tern_figures figures;
    cJSON *rows; // NULL: lines for people
    uint32_t first;
};

static const char *state_name(enum tern_db_round_state state)
{
    return state == TERN_ROUND_OPEN ? "open" : "committed";
}

// Of the version that the round made.
static const struct tern_accuracy *accuracy_of(const struct listing *listing,
                                               const struct tern_db_round *round)
{
    if (round->state != TERN_ROUND_COMMITTED) {
        return NULL;
    }
    return tern_figures_accuracy(&listing->figures, round->base_version + 1);
}

static void print_row(const struct listing *listing, const struct tern_db_round *round)
{
    char accuracy[TERN_TEXT] = "-";
    char took[TERN_TEXT] = "-";
    char up[TERN_TEXT] = "-";
    char down[TERN_TEXT] = "-";
    const struct tern_accuracy *evaluated = accuracy_of(listing, round);
    const struct tern_round_bytes *bytes = tern_figures_round(&listing->figures, round->round);
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
           state_name(round->state), round->applied, (double)round->mean_loss, accuracy, took, up,
           down, round->codec_up);
}

static void add_bytes(cJSON *row, const struct tern_round_bytes *bytes)
{
    tern_json_u64(row, "participants", bytes->participants);
    tern_json_u64(row, "payload_up", bytes->up.payload);
    tern_json_u64(row, "payload_down", bytes->down.payload);
    tern_json_u64(row, "wire_up", bytes->up.wire);
    tern_json_u64(row, "wire_down", bytes->down.wire);
}

static void add_row(const struct listing *listing, const struct tern_db_round *round)
{
    cJSON *row = cJSON_CreateObject();
    const struct tern_accuracy *evaluated = accuracy_of(listing, round);
    const struct tern_round_bytes *bytes = tern_figures_round(&listing->figures, round->round);
    tern_json_u64(row, "round", round->round);
    cJSON_AddStringToObject(row, "state", state_name(round->state));
    tern_json_u64(row, "base_version", round->base_version);
    tern_json_u64(row, "target", round->target);
    tern_json_u64(row, "quorum", round->quorum);
    tern_json_u64(row, "updates", round->applied);
    tern_json_u64(row, "attempts", round->attempts);
    tern_json_float(row, "mean_loss", round->mean_loss);
    tern_json_float(row, "median_loss", round->median_loss);
    tern_json_float(row, "local_steps", round->local_steps);
    tern_json_float(row, "variance", round->variance);
    if (evaluated != NULL) {
        tern_json_float(row, "accuracy", (float)evaluated->accuracy);
    }
    tern_json_u64(row, "opened_ms", round->opened_ms);
    tern_json_u64(row, "deadline_ms", round->deadline_ms);
    tern_json_u64(row, "closed_ms", round->closed_ms);
    cJSON_AddStringToObject(row, "strategy", round->strategy);
    cJSON_AddStringToObject(row, "strategy_parameters", round->strategy_parameters);
    cJSON_AddStringToObject(row, "codec_up", round->codec_up);
    cJSON_AddStringToObject(row, "codec_down", round->codec_down);
    tern_json_float(row, "learning_rate", round->learning_rate);
    if (bytes != NULL) {
        add_bytes(row, bytes);
    }
    cJSON_AddItemToArray(listing->rows, row);
}

static bool list_round(void *ctx, const struct tern_db_round *round)
{
    const struct listing *listing = ctx;
    if (round->round < listing->first) {
        return true;
    }
    if (listing->rows != NULL) {
        add_row(listing, round);
    } else {
        print_row(listing, round);
    }
    return true;
}

static enum tern_result list(struct tern_db *db, struct listing *listing, uint64_t last)
{
    struct tern_db_round newest = {.round = 0};
    enum tern_result result = tern_db_round_last(db, &newest);
    if (result != TERN_OK && result != TERN_ERR_NOT_FOUND) {
        return result;
    }
    listing->first = newest.round > last ? newest.round - (uint32_t)last + 1 : 0;
    TERN_TRY(tern_figures_load(db, &listing->figures));
    result = tern_db_round_each(db, list_round, listing);
    tern_figures_free(&listing->figures);
    return result;
}

int tern_cli_rounds(struct tern_cli *cli)
{
    int code;
    uint64_t last;
    struct listing listing = {.rows = NULL};
    if (tern_cli_number(cli, "last", UINT32_MAX, 1, UINT32_MAX, &last) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    struct tern_db *db = tern_state_open_reading(cli, &code);
    if (db == NULL) {
        return code;
    }
    if (cli->json) {
        listing.rows = cJSON_CreateArray();
    } else {
        printf("%6s  %-10s %7s %9s %9s %12s %10s %10s  %s\n", "ROUND", "STATE", "UPDATES", "LOSS",
               "ACCURACY", "TIME", "WIRE UP", "WIRE DOWN", "CODEC");
    }
    enum tern_result result = list(db, &listing, last);
    if (result != TERN_OK) {
        cJSON_Delete(listing.rows);
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    return cli->json ? tern_json_print(cli, listing.rows) : TERN_EXIT_OK;
}
