// bench-lgc: a group of clients that trains a model under LGC, or under one of Tern's codecs, in one process; prints
// JSON. ./tern bench lgc runs it for each scheme.
#include "lgc/options.h"
#include "lgc/rival.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run {
    struct tern_lgc_options options;
    struct tern_lgc_world world;
    struct tern_lgc_group group; // of LGC
    struct tern_lgc_rival rival; // else
    uint32_t round;              // that is played
    bool diverged;               // in that round
    float *weights;
    struct tern_evaluate_result at_end;
};

// --- Rounds

static bool lose_leaders(void *ctx, uint32_t client, enum tern_lgc_way way,
                         struct tern_lgc_message *message)
{
    const struct run *run = ctx;
    (void)message;
    return way != TERN_LGC_WAY_UPDATE || client != run->group.leader ||
           run->group.phase != TERN_LGC_PHASE_CODED || run->round % run->options.lose != 0;
}

static enum tern_result open_scheme(struct run *run)
{
    const struct tern_lgc_options *options = &run->options;
    const uint32_t clients = options->world.clients;
    if (options->rival) {
        return tern_lgc_rival_open(&options->codec, options->world.seed, &run->world.model, clients,
                                   &run->rival);
    }
    TERN_TRY(tern_lgc_group_open(&options->lgc, &run->world.model, clients, &run->group));
    for (uint32_t i = 0; i < clients; i++) {
        if (i + 1 < clients || options->late == 0) {
            TERN_TRY(tern_lgc_group_join(&run->group, i));
        }
    }
    if (options->lose > 0) {
        run->group.link = (struct tern_lgc_link){run, lose_leaders};
    }
    return TERN_OK;
}

static enum tern_result play_round(struct run *run)
{
    const struct tern_lgc_trainer trainer = {&run->world, tern_lgc_world_train};
    if (run->options.rival) {
        return tern_lgc_rival_round(&run->rival, run->round, &trainer, run->weights);
    }
    if (run->options.late == run->round) {
        TERN_TRY(tern_lgc_group_join(&run->group, run->options.world.clients - 1));
    }
    return tern_lgc_group_round(&run->group, run->round, &trainer, run->weights);
}

static enum tern_result play(struct run *run)
{
    const uint32_t rounds = run->options.world.rounds;
    for (run->round = 1; run->round <= rounds; run->round++) {
        TERN_TRY(play_round(run));
        if (run->round % run->options.evaluate_every == 0 || run->round == rounds) {
            TERN_TRY(tern_lgc_world_evaluate(&run->world, run->weights, &run->at_end));
            fprintf(stderr, "round %u: loss %.4f, accuracy %.4f", run->round,
                    (double)run->at_end.loss, (double)run->at_end.accuracy);
            if (!run->options.rival) {
                fprintf(stderr, ", autoencoder %.4f after %u steps", (double)run->group.loss,
                        run->group.trained);
            }
            fputc('\n', stderr);
        }
    }
    return TERN_OK;
}

// --- What it came to

static uint64_t sum_of(const uint64_t bytes[TERN_LGC_PIECE_KINDS], bool with_weights)
{
    uint64_t sum = 0;
    for (unsigned kind = 0; kind < TERN_LGC_PIECE_KINDS; kind++) {
        sum += kind != TERN_LGC_PIECE_WEIGHTS || with_weights ? bytes[kind] : 0;
    }
    return sum;
}

// Bits that one client sends, or takes, of each value of the model, in the mean of so many rounds.
static double bits(const struct run *run, uint64_t bytes, uint64_t client_rounds)
{
    return client_rounds == 0
               ? 0
               : 8.0 * (double)bytes / (double)client_rounds / (double)run->world.model.count;
}

static void add_kinds(cJSON *object, const char *key, const uint64_t bytes[TERN_LGC_PIECE_KINDS])
{
    cJSON *kinds = cJSON_AddObjectToObject(object, key);
    for (unsigned kind = 0; kind < TERN_LGC_PIECE_KINDS; kind++) {
        cJSON_AddNumberToObject(kinds, tern_lgc_kind_name((enum tern_lgc_kind)kind),
                                (double)bytes[kind]);
    }
}

static void add_phase(const struct run *run, cJSON *phases, enum tern_lgc_phase phase)
{
    static const char *const names[] = {"exact", "training", "coded"};
    const struct tern_lgc_tally *tally = &run->group.tally[phase];
    const uint64_t up = sum_of(tally->up, false);
    cJSON *object = cJSON_AddObjectToObject(phases, names[phase]);
    cJSON_AddNumberToObject(object, "rounds", (double)tally->rounds);
    cJSON_AddNumberToObject(object, "bits_up", bits(run, up, tally->client_rounds));
    cJSON_AddNumberToObject(object, "bits_down",
                            bits(run, sum_of(tally->down, false), tally->client_rounds));
    add_kinds(object, "up", tally->up);
    add_kinds(object, "down", tally->down);
    if (run->options.lgc.form == TERN_LGC_SERVER && phase == TERN_LGC_PHASE_CODED) {
        cJSON_AddNumberToObject(object, "leader_bits_up",
                                bits(run, tally->leader_up, tally->rounds));
        cJSON_AddNumberToObject(
            object, "follower_bits_up",
            bits(run, up - tally->leader_up, tally->client_rounds - tally->rounds));
    }
}

static void add_lgc(const struct run *run, cJSON *json)
{
    const struct tern_lgc_group *group = &run->group;
    uint64_t up = 0;
    uint64_t down = 0;
    uint64_t weights = 0;
    uint64_t client_rounds = 0;
    cJSON *phases = cJSON_AddObjectToObject(json, "phases");
    for (unsigned phase = 0; phase <= TERN_LGC_PHASE_CODED; phase++) {
        const struct tern_lgc_tally *tally = &group->tally[phase];
        add_phase(run, phases, (enum tern_lgc_phase)phase);
        up += sum_of(tally->up, false);
        down += sum_of(tally->down, false);
        weights += tally->up[TERN_LGC_PIECE_WEIGHTS] + tally->down[TERN_LGC_PIECE_WEIGHTS];
        client_rounds += tally->client_rounds;
    }
    cJSON_AddNumberToObject(json, "bits_up", bits(run, up, client_rounds));
    cJSON_AddNumberToObject(json, "bits_down", bits(run, down, client_rounds));
    cJSON_AddNumberToObject(json, "bits_autoencoder", bits(run, weights, client_rounds));
    cJSON_AddNumberToObject(json, "picked", tern_lgc_picks(&group->plan));
    cJSON_AddNumberToObject(json, "learned", group->plan.learned);
    cJSON_AddNumberToObject(json, "exact", group->plan.exact);
    cJSON_AddNumberToObject(json, "encoder_values", group->autoencoder.encoder_count);
    cJSON_AddNumberToObject(json, "decoder_values", group->autoencoder.decoder_count);
    cJSON_AddNumberToObject(json, "coded_from", group->coded_from);
    if (isfinite(group->loss)) {
        cJSON_AddNumberToObject(json, "reconstruction_loss", (double)group->loss);
    }
    cJSON_AddNumberToObject(json, "rounds_without_code", group->without_code);
    cJSON_AddNumberToObject(json, "refused", group->refused);
    cJSON_AddNumberToObject(json, "unaccounted", tern_lgc_group_unaccounted(group));
}

static void add_rival(const struct run *run, cJSON *json)
{
    const uint64_t client_rounds = (uint64_t)run->options.world.clients * run->options.world.rounds;
    cJSON_AddNumberToObject(json, "bits_up", bits(run, run->rival.up, client_rounds));
    cJSON_AddNumberToObject(json, "bits_down", bits(run, run->rival.down, client_rounds));
    cJSON_AddNumberToObject(json, "bits_autoencoder", 0);
}

static void print(const struct run *run)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "values", run->world.model.count);
    cJSON_AddNumberToObject(json, "clients", run->options.world.clients);
    cJSON_AddNumberToObject(json, "rounds", run->options.world.rounds);
    cJSON_AddNumberToObject(json, "accuracy", (double)run->at_end.accuracy);
    cJSON_AddNumberToObject(json, "loss", (double)run->at_end.loss);
    if (run->diverged) {
        cJSON_AddNumberToObject(json, "diverged_in", run->round);
    }
    if (run->options.rival) {
        add_rival(run, json);
    } else {
        add_lgc(run, json);
    }
    char *text = cJSON_Print(json);
    puts(text != NULL ? text : "{}");
    free(text);
    cJSON_Delete(json);
}

static int fail(const char *what, enum tern_result result)
{
    fprintf(stderr, "bench-lgc: %s: %s\n", what, tern_result_sentence(result));
    return 1;
}

static int run_all(struct run *run)
{
    enum tern_result result = open_scheme(run);
    if (result != TERN_OK) {
        return fail("the scheme does not take these settings or this model", result);
    }
    tern_model_init_weights(&run->world.model, run->options.world.seed, run->weights);
    result = play(run);
    // Weights that left the range of numbers are a result, too.
    run->diverged = result == TERN_ERR_TRAINER || result == TERN_ERR_NON_FINITE;
    if (result != TERN_OK && !run->diverged) {
        fprintf(stderr, "bench-lgc: in round %u\n", run->round);
        return fail("it came to an end", result);
    }
    print(run);
    return 0;
}

int main(int argc, char **argv)
{
    static struct run run;
    char why[TERN_DATA_WHY_MAX] = "";
    if (argc == 2 && strcmp(argv[1], "help") == 0) {
        puts("usage: bench-lgc [KEY=VALUE]...\n");
        tern_lgc_options_print();
        return 0;
    }
    if (!tern_lgc_options_read(argv + 1, argc - 1, &run.options)) {
        return 2;
    }
    const enum tern_result opened = tern_lgc_world_open(&run.options.world, &run.world, why);
    if (opened != TERN_OK) {
        return fail(why, opened);
    }
    run.weights = calloc(run.world.model.count, sizeof *run.weights);
    const int status = run.weights != NULL ? run_all(&run) : fail("memory", TERN_ERR_NO_MEMORY);
    free(run.weights);
    if (run.group.model != NULL) {
        tern_lgc_group_close(&run.group);
    }
    if (run.rival.state != NULL) {
        tern_lgc_rival_close(&run.rival);
    }
    tern_lgc_world_close(&run.world);
    return status;
}
