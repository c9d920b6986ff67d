#include "admin/held_out.h"
#include "cli/event_file.h"
#include "cli/figures.h"
#include "cli/listing.h"
#include "cli/verbs.h"
#include "hosted/files.h"
#include "tensor/model.h"

#include <inttypes.h>

struct rounds {
    struct tern_round_figures figures;
    struct tern_held_outs held_outs;
    const char *score; // by which versions are known: "accuracy", "r2", "auc"
    uint32_t last;     // so many are shown
    uint32_t first;
};

// Returns the evaluators' figures of the version that the round made; NULL: none.
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

// Writes the score of the version that the round made, by evaluators or else on the held-out rows of clients, and
// whose it is: "replica", "global" or "clients". Leaves both where nobody reported any.
static void write_score(const struct rounds *rounds, const struct tern_db_round *round,
                        char score[TERN_TEXT], const char **of)
{
    const struct tern_accuracy *evaluated = accuracy_of(rounds, round);
    struct tern_accuracy held_out;
    double value;
    const bool by_clients =
        evaluated == NULL && round->state == TERN_ROUND_COMMITTED &&
        tern_held_outs_accuracy(&rounds->held_outs, round->base_version + 1, &held_out);
    if (evaluated == NULL && !by_clients) {
        return;
    }
    *of = by_clients ? "clients" : tern_evaluated_name(evaluated->model);
    if (tern_accuracy_value(by_clients ? &held_out : evaluated, rounds->score, &value)) {
        snprintf(score, TERN_TEXT, "%.4f", value);
    }
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
    const struct tern_round_bytes *bytes = tern_figures_round(&rounds->figures, round->round);
    const bool is_open = round->state == TERN_ROUND_OPEN;
    const uint32_t updates = !is_open        ? round->applied
                             : bytes != NULL ? bytes->participants
                                             : 0; // rounds so far
    if (round->state == TERN_ROUND_COMMITTED && round->applied > 0) {
        snprintf(loss, sizeof loss, "%.4f", (double)round->mean_loss);
    }
    write_score(rounds, round, accuracy, &model);
    if (round->closed_ms > round->opened_ms) {
        tern_text_duration(round->closed_ms - round->opened_ms, took);
    }
    if (bytes != NULL && bytes->participants > 0) {
        tern_text_bytes(tern_figures_mean(bytes->up.wire, bytes->participants), up);
        tern_text_bytes(tern_figures_mean(bytes->down.wire, bytes->participants), down);
    }
    tern_text_cell(table, "%" PRIu32, round->round);
    tern_text_cell_in(table, colour_of(round), "%s", tern_round_state_name(round->state));
    tern_text_cell(table, "%" PRIu32, updates);
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
    tern_json_u64(row, "http_up", bytes->up.http);
    tern_json_u64(row, "http_down", bytes->down.http);
    tern_json_u64(row, "tls_up", bytes->up.tls);
    tern_json_u64(row, "tls_down", bytes->down.tls);
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
    if (listing->json != NULL) {
        return tern_listing_add(listing, json_of(rounds, round));
    }
    add_row(&listing->table, rounds, round);
    return TERN_OK;
}

// --- All of them

// What is done with each of the rounds that are shown.
typedef enum tern_result round_fn(void *ctx, const struct rounds *rounds,
                                  const struct tern_db_round *round);

static enum tern_result load(struct tern_db *db, struct rounds *rounds)
{
    struct tern_db_round newest = {.round = 0};
    TERN_TRY(tern_db_may_miss(tern_db_round_last(db, &newest)));
    rounds->first = newest.round > rounds->last ? newest.round - rounds->last + 1 : 0;
    const uint32_t base = rounds->first > 0 ? rounds->first - 1 : 0; // of the first one
    TERN_TRY(tern_held_outs_load(db, base, UINT32_MAX, &rounds->held_outs));
    const enum tern_result result = tern_round_figures_load(db, &rounds->figures);
    if (result != TERN_OK) {
        tern_held_outs_free(&rounds->held_outs);
    }
    return result;
}

static enum tern_result each_round(struct tern_db *db, uint32_t last, round_fn *with, void *ctx)
{
    struct rounds rounds = {.last = last};
    struct tern_db_round round;
    struct tern_db_federation federation;
    TERN_TRY(tern_db_federation(db, &federation));
    rounds.score = tern_accuracy_name(federation.model_spec);
    TERN_TRY(load(db, &rounds));
    struct tern_db_rows *rows = tern_db_rounds(db);
    while (tern_db_next(rows, &round)) {
        if (round.round >= rounds.first) {
            tern_db_check_row(rows, with(ctx, &rounds, &round));
        }
    }
    tern_held_outs_free(&rounds.held_outs);
    tern_round_figures_free(&rounds.figures);
    return tern_db_end(rows);
}

static enum tern_result list_next(void *ctx, const struct rounds *rounds,
                                  const struct tern_db_round *round)
{
    return list_round(ctx, rounds, round);
}

#define COLUMNS_WITH(score)                                                                        \
    {                                                                                              \
        {"ROUND", TERN_TEXT_NUMBER}, {"STATE", TERN_TEXT_WORD}, {"UPDATES", TERN_TEXT_NUMBER},     \
            {"LOSS", TERN_TEXT_NUMBER}, {score, TERN_TEXT_NUMBER}, {"OF", TERN_TEXT_WORD},         \
            {"TIME", TERN_TEXT_NUMBER}, {"WIRE UP", TERN_TEXT_NUMBER},                             \
        {                                                                                          \
            "WIRE DOWN", TERN_TEXT_NUMBER                                                          \
        }                                                                                          \
    }

static const struct tern_text_column columns[] = COLUMNS_WITH("ACCURACY");
static const struct tern_text_column number_columns[] = COLUMNS_WITH("R2");
static const struct tern_text_column anomaly_columns[] = COLUMNS_WITH("AUC");

// By the model's loss, which the database knows.
static enum tern_result choose_heading(struct tern_listing *listing)
{
    struct tern_db_federation federation;
    TERN_TRY(tern_db_federation(listing->db, &federation));
    const enum tern_loss loss = tern_model_spec_loss(federation.model_spec);
    listing->table.columns = loss == TERN_LOSS_RECONSTRUCTION  ? anomaly_columns
                             : loss == TERN_LOSS_CROSS_ENTROPY ? columns
                                                               : number_columns;
    return TERN_OK;
}

static enum tern_result list_all(struct tern_listing *listing)
{
    TERN_TRY(choose_heading(listing));
    return each_round(listing->db, *(const uint32_t *)listing->ctx, list_next, listing);
}

// --- As TensorBoard's events

static void add_series(struct tern_event_file *file, const struct rounds *rounds,
                       const struct tern_db_round *round)
{
    const struct tern_accuracy *evaluated = accuracy_of(rounds, round);
    const struct tern_round_bytes *bytes = tern_figures_round(&rounds->figures, round->round);
    const bool trained = round->applied > 0;
    const bool counted = bytes != NULL && bytes->participants > 0;
    const uint32_t by = counted ? bytes->participants : 1;
    double score = 0;
    char tag[TERN_TEXT];
    const bool scored = evaluated != NULL && tern_accuracy_value(evaluated, rounds->score, &score);
    snprintf(tag, sizeof tag, "%s/%s", rounds->score,
             evaluated != NULL ? tern_evaluated_name(evaluated->model) : "");
    const struct tern_bytes none = {0};
    const struct tern_bytes *up = counted ? &bytes->up : &none;
    const struct tern_bytes *down = counted ? &bytes->down : &none;
    const struct {
        const char *tag;
        bool known;
        double value;
    } series[] = {
        {"updates", true, round->applied},
        {"loss/train", trained, round->mean_loss},
        {"loss/evaluated", evaluated != NULL, evaluated != NULL ? evaluated->loss : 0},
        {tag, scored, score},
        {"bytes per client, up/payload", counted, tern_figures_mean(up->payload, by)},
        {"bytes per client, up/wire", counted, tern_figures_mean(up->wire, by)},
        {"bytes per client, down/payload", counted, tern_figures_mean(down->payload, by)},
        {"bytes per client, down/wire", counted, tern_figures_mean(down->wire, by)},
    };
    for (size_t i = 0; i < sizeof series / sizeof series[0]; i++) {
        if (series[i].known) {
            tern_event_file_add(file, round->closed_ms, round->round, series[i].tag,
                                series[i].value);
        }
    }
}

static enum tern_result add_events(void *ctx, const struct rounds *rounds,
                                   const struct tern_db_round *round)
{
    if (round->state == TERN_ROUND_COMMITTED) {
        add_series(ctx, rounds, round);
    }
    return TERN_OK;
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

static int export_events(struct tern_cli *cli, uint32_t last)
{
    struct tern_db *db;
    struct tern_db_federation federation;
    struct tern_event_file file;
    if (cli->json || tern_cli_flag(cli, "csv")) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "--tensorboard writes a file of its own, not --csv or --json");
    }
    TERN_CLI_TRY(tern_state_open_reading(cli, &db));
    enum tern_result result = tern_db_federation(db, &federation);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_event_file_begin(&file, federation.created_ms);
    result = each_round(db, last, add_events, &file);
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
    static const struct tern_listing_verb verb = {
        TERN_LISTING_COLUMNS(columns),
        .all = list_all,
    };
    uint64_t last;
    if (tern_cli_number(cli, "last", UINT32_MAX, 1, UINT32_MAX, &last) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    if (tern_cli_flag(cli, "tensorboard")) {
        return export_events(cli, (uint32_t)last);
    }
    const uint32_t shown = (uint32_t)last;
    return tern_list(cli, &verb, &shown);
}
