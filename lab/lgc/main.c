// bench-lgc: trains a model with a group of clients in one process, under LGC or one of Tern's codecs; prints JSON.
// ./tern bench lgc runs it for each scheme.
#include "data/partition.h"
#include "data/source.h"
#include "lgc/group.h"
#include "lgc/rival.h"
#include "trainer/trainer.h"
#include "util/math.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct world_settings {
    const char *model; // spec of a built-in model
    const char *data;  // spec of a data set (data/source.h)
    enum tern_partition_kind partition;
    float alpha;         // concentration of the Dirichlet partition
    uint32_t clients;    // >= 1
    uint32_t rounds;     // number of rounds
    uint32_t batch_size; // >= 1
    float learning_rate; // in the first round; falls along a cosine
    float rate_final;    // in the last round
    uint64_t seed;
};

struct world {
    struct world_settings settings;
    struct tern_model model;
    struct tern_data data;
    struct tern_partition partition;
    struct tern_builtin_trainer trainer;
    void *arena;
    size_t arena_size;
};

struct options {
    struct world_settings world;
    struct tern_lgc_settings lgc;
    struct tern_codec codec; // the codec if `rival`
    bool rival;              // uses one of Tern's codecs instead of LGC
    uint32_t evaluate_every; // interval in rounds
    uint32_t late;           // round in which the last client joins; 0: at the start
    uint32_t lose;           // interval in rounds at which the leader's update is lost; 0: never
};

// --- Data, shares and trainer

// The data set, its shares, and one built-in trainer that each client of a group uses in turn. Hosted: uses malloc;
// one thread.

static enum tern_result use_share(struct world *world, uint32_t client)
{
    const struct tern_builtin_config config = {
        .model = &world->model,
        .train = tern_partition_view(&world->partition, &world->data.train, client),
        .test = tern_view_all(&world->data.test),
        .max_batch = world->settings.batch_size,
    };
    return tern_builtin_trainer_init(&world->trainer, &config, world->arena, world->arena_size);
}

static enum tern_result place_trainer(struct world *world)
{
    for (uint32_t i = 0; i < world->settings.clients; i++) {
        const struct tern_builtin_config config = {
            .model = &world->model,
            .train = tern_partition_view(&world->partition, &world->data.train, i),
            .test = tern_view_all(&world->data.test),
            .max_batch = world->settings.batch_size,
        };
        const size_t bound = tern_builtin_trainer_bound(&config);
        world->arena_size = bound > world->arena_size ? bound : world->arena_size;
        if (bound == 0) {
            return TERN_ERR_MODEL_MISMATCH;
        }
    }
    // Aligned: the trainer's vectors are relative to the start of its memory.
    world->arena_size += TERN_ARENA_ALIGNMENT - world->arena_size % TERN_ARENA_ALIGNMENT;
    world->arena = aligned_alloc(TERN_ARENA_ALIGNMENT, world->arena_size);
    return world->arena != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}

static enum tern_result open_data(struct world *world, char why[TERN_DATA_WHY_MAX])
{
    const struct world_settings *settings = &world->settings;
    const struct tern_partition_config partition = {.kind = settings->partition,
                                                    .clients = settings->clients,
                                                    .min_examples = 1,
                                                    .alpha = settings->alpha,
                                                    .seed = settings->seed};
    char partition_why[TERN_PARTITION_WHY_MAX] = "";
    TERN_TRY(tern_dataset_open(settings->data, NULL, &world->data, why));
    const enum tern_result result =
        tern_partition_make(&partition, &world->data.train, &world->partition, partition_why);
    if (result != TERN_OK) {
        snprintf(why, TERN_DATA_WHY_MAX, "partition: %s", partition_why);
    }
    return result;
}

static void world_close(struct world *world)
{
    tern_partition_free(&world->partition);
    tern_data_close(&world->data);
    free(world->arena);
    world->arena = NULL;
}

// why: on an error, one sentence. Errors of tern_model_from_spec(), tern_dataset_open(), tern_partition_make()
static enum tern_result world_open(const struct world_settings *settings, struct world *world,
                                   char why[TERN_DATA_WHY_MAX])
{
    *world = (struct world){.settings = *settings};
    enum tern_result result = tern_model_from_spec(&world->model, settings->model);
    if (result != TERN_OK) {
        snprintf(why, TERN_DATA_WHY_MAX, "model '%s' is not a built-in model", settings->model);
        return result;
    }
    result = open_data(world, why);
    if (result == TERN_OK) {
        result = place_trainer(world);
        snprintf(why, TERN_DATA_WHY_MAX,
                 "the built-in trainer cannot train this model on this data: %s",
                 tern_result_sentence(result));
    }
    if (result != TERN_OK) {
        world_close(world);
    }
    return result;
}

// A cosine from the first rate to the last, which it would reach one round after the end.
static float rate_of(const struct world_settings *settings, uint32_t round)
{
    if (settings->rounds < 2) {
        return settings->learning_rate;
    }
    const float turns = 0.5f * (float)(round - 1) / (float)settings->rounds;
    return settings->rate_final +
           (settings->learning_rate - settings->rate_final) * 0.5f * (1 + tern_cos_turns(turns));
}

// Implements tern_lgc_trainer.train for a world: one step of SGD without momentum on a batch of the client's own
// examples, so that change = -rate * gradient.
static enum tern_result world_train(void *ctx, uint32_t client, uint32_t round,
                                    const float *weights, float *change)
{
    struct world *world = ctx;
    const struct tern_train_task task = {
        .round = round,
        .local_steps = 1,
        .batch_size = world->settings.batch_size,
        .learning_rate = rate_of(&world->settings, round),
        .seed = world->settings.seed,
        .client = client,
    };
    TERN_TRY(use_share(world, client));
    const struct tern_trainer port = tern_builtin_trainer_port(&world->trainer);
    struct tern_train_result done;
    float *trained = NULL;
    TERN_TRY(port.begin(port.ctx, &task, weights, world->model.count));
    TERN_TRY(port.step(port.ctx, &trained, &done));
    for (uint32_t i = 0; i < world->model.count; i++) {
        change[i] = trained[i] - weights[i];
    }
    return TERN_OK;
}

// Measures on the test examples.
static enum tern_result world_evaluate(struct world *world, const float *weights,
                                       struct tern_evaluate_result *result)
{
    enum tern_result told = TERN_AGAIN;
    TERN_TRY(use_share(world, 0));
    const struct tern_trainer port = tern_builtin_trainer_port(&world->trainer);
    while (told == TERN_AGAIN) {
        told = port.evaluate(port.ctx, weights, world->model.count, result);
    }
    return told;
}

// --- Options

// Options of bench-lgc: KEY=VALUE words. One thread.

enum kind { TEXT, WHOLE, NUMBER, CHOICE, CODEC, SCHEME };

struct key {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *preset;
    double least;
    double most;
    const char *const *choices; // NULL-terminated
    const char *meaning;
};

static const char *const schemes[] = {"lgc-server", "lgc-ring-mean", "lgc-ring-gather", NULL};
static const char *const partitions[] = {"iid", "dirichlet", "shards", NULL};
static const char *const feedbacks[] = {"decoded", "cleared", NULL};

#define WORLD(member) offsetof(struct options, world.member)
#define LGC(member) offsetof(struct options, lgc.member)
#define OWN(member) offsetof(struct options, member)

enum { MANY = 100000000 };

static const struct key keys[] = {
    {"scheme", SCHEME, LGC(form), "lgc-server", 0, 0, schemes,
     "lgc-server, lgc-ring-mean, lgc-ring-gather, or a codec as codec:SPEC"},
    {"model", TEXT, WORLD(model), "cnn:28x28x1-8-16-10", 0, 0, NULL, "spec of a built-in model"},
    {"data", TEXT, WORLD(data), "digits:train=6000,test=2000,size=28,seed=1", 0, 0, NULL,
     "spec of a data set"},
    {"partition", CHOICE, WORLD(partition), "iid", 0, 0, partitions, "iid, dirichlet or shards"},
    {"alpha", NUMBER, WORLD(alpha), "0.5", 0.001, 1000000, NULL,
     "concentration of the partition dirichlet"},
    {"clients", WHOLE, WORLD(clients), "10", 1, 1000, NULL, "number of clients"},
    {"rounds", WHOLE, WORLD(rounds), "1000", 1, MANY, NULL, "number of rounds, of one step each"},
    {"batch", WHOLE, WORLD(batch_size), "16", 1, 65536, NULL, "number of examples in a step"},
    {"rate", NUMBER, WORLD(learning_rate), "0.01", 0, 1000, NULL,
     "learning rate in the first round"},
    {"rate_final", NUMBER, WORLD(rate_final), "0.0001", 0, 1000, NULL,
     "learning rate in the last round; it falls along a cosine"},
    {"seed", WHOLE, WORLD(seed), "1", 0, MANY, NULL, "seed of data, batches, leaders and weights"},
    {"evaluate_every", WHOLE, OWN(evaluate_every), "100", 1, MANY, NULL,
     "rounds between two evaluations"},
    {"density", NUMBER, LGC(density), "0.001", 0.000001, 1, NULL,
     "share of a tensor's values that a round picks"},
    {"innovation", NUMBER, LGC(innovation), "0.1", 0.000001, 1, NULL,
     "share of the learned picks that are sent as innovation"},
    {"momentum", NUMBER, LGC(momentum), "0.9", 0, 0.999999, NULL,
     "momentum of the clients' velocities"},
    {"exact", WHOLE, LGC(exact_rounds), "100", 0, MANY, NULL,
     "rounds that send all values unchanged"},
    {"training", WHOLE, LGC(training_rounds), "200", 0, MANY, NULL,
     "minimum number of rounds that train the autoencoder"},
    {"accept", NUMBER, LGC(accept), "0.9", 0.000001, 1000000, NULL,
     "reconstruction loss below which codes are used, as a share of the mean square"},
    {"code", CODEC, LGC(code), "float16", 0, 0, NULL, "codec that encodes codes"},
    {"feedback", CHOICE, LGC(feedback), "decoded", 0, 0, feedbacks,
     "decoded: buffers keep the decoding errors; cleared: buffers are cleared, as in the paper"},
    {"width", WHOLE, LGC(width), "64", 2, 256, NULL, "width of the autoencoder"},
    {"channels", WHOLE, LGC(channels), "4", 1, 64, NULL,
     "channels of a code: its numbers per 16 values"},
    {"coder_rate", NUMBER, LGC(training.learning_rate), "0.001", 0, 1000, NULL,
     "learning rate of the autoencoder"},
    {"coder_momentum", NUMBER, LGC(training.momentum), "0", 0, 0.999999, NULL,
     "momentum of the autoencoder's training"},
    {"coder_clip", NUMBER, LGC(training.clip), "0", 0, 1000000, NULL,
     "clipping norm of the autoencoder's gradient; 0: none"},
    {"similarity", NUMBER, LGC(training.similarity), "0.5", 0, 1000000, NULL,
     "weight of the similarity loss (lambda_2 in the paper)"},
    {"late", WHOLE, OWN(late), "0", 0, MANY, NULL,
     "round in which the last client joins; 0: at the start"},
    {"lose", WHOLE, OWN(lose), "0", 0, MANY, NULL,
     "rounds between two losses of the leader's update; 0: none is lost"},
};

enum { KEYS = sizeof keys / sizeof keys[0] };

static bool wrong(const struct key *key, const char *value, const char *instead)
{
    fprintf(stderr, "bench-lgc: %s=%s: %s\n", key->name, value, instead);
    return false;
}

static bool read_number(const struct key *key, const char *value, void *member)
{
    char *end = NULL;
    char range[80];
    errno = 0;
    const double number = strtod(value, &end);
    const bool whole = key->kind == WHOLE;
    if (errno != 0 || end == value || *end != '\0' || !(number >= key->least) ||
        !(number <= key->most) || (whole && number != (double)(uint64_t)number)) {
        snprintf(range, sizeof range, "use a %snumber from %.9g to %.9g", whole ? "whole " : "",
                 key->least, key->most);
        return wrong(key, value, range);
    }
    if (!whole) {
        *(float *)member = (float)number;
    } else if (key->offset == WORLD(seed)) {
        *(uint64_t *)member = (uint64_t)number;
    } else {
        *(uint32_t *)member = (uint32_t)number;
    }
    return true;
}

static bool read_choice(const struct key *key, const char *value, void *member)
{
    for (int i = 0; key->choices[i] != NULL; i++) {
        if (strcmp(value, key->choices[i]) == 0) {
            *(int *)member = i;
            return true;
        }
    }
    return wrong(key, value, key->meaning);
}

static bool read_codec(const struct key *key, const char *value, struct tern_codec *codec)
{
    struct tern_spec_refusal refusal;
    char sentence[TERN_SPEC_SENTENCE_MAX];
    if (tern_codec_parse(value, codec, &refusal) == TERN_OK) {
        return true;
    }
    tern_spec_explain(&refusal, sentence);
    return wrong(key, value, sentence);
}

static bool read_scheme(const struct key *key, const char *value, struct options *options)
{
    static const char prefix[] = "codec:";
    options->rival = strncmp(value, prefix, sizeof prefix - 1) == 0;
    return options->rival ? read_codec(key, value + sizeof prefix - 1, &options->codec)
                          : read_choice(key, value, (uint8_t *)options + key->offset);
}

static bool read_value(const struct key *key, const char *value, struct options *options)
{
    void *member = (uint8_t *)options + key->offset;
    switch (key->kind) {
    case TEXT:
        *(const char **)member = value;
        return true;
    case WHOLE:
    case NUMBER:
        return read_number(key, value, member);
    case CHOICE:
        return read_choice(key, value, member);
    case CODEC:
        return read_codec(key, value, member);
    case SCHEME:
        return read_scheme(key, value, options);
    }
    return false;
}

static bool read_word(const char *word, struct options *options)
{
    const char *equals = strchr(word, '=');
    const size_t len = equals != NULL ? (size_t)(equals - word) : strlen(word);
    for (int i = 0; equals != NULL && i < KEYS; i++) {
        if (strlen(keys[i].name) == len && strncmp(word, keys[i].name, len) == 0) {
            return read_value(&keys[i], equals + 1, options);
        }
    }
    fprintf(stderr,
            "bench-lgc: '%s' is not KEY=VALUE with a known key. `bench-lgc help` lists the keys\n",
            word);
    return false;
}

// Reads the words; other keys have their defaults. False, with a sentence on stderr: an unknown key, or a malformed
// value or one out of range.
static bool options_read(char **words, int count, struct options *options)
{
    *options = (struct options){.rival = false};
    for (int i = 0; i < KEYS; i++) {
        if (!read_value(&keys[i], keys[i].preset, options)) {
            return false;
        }
    }
    for (int i = 0; i < count; i++) {
        if (!read_word(words[i], options)) {
            return false;
        }
    }
    options->lgc.seed = options->world.seed;
    return true;
}

// Prints every key with meaning and default.
static void options_print(void)
{
    for (int i = 0; i < KEYS; i++) {
        printf("  %-14s %-12s %s\n", keys[i].name, keys[i].preset, keys[i].meaning);
    }
}

// --- Runs

struct run {
    struct options options;
    struct world world;
    struct tern_lgc_group group; // used for LGC
    struct tern_lgc_rival rival; // used otherwise
    uint32_t round;              // current round
    bool diverged;               // the current round diverged
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
    const struct options *options = &run->options;
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
    const struct tern_lgc_trainer trainer = {&run->world, world_train};
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
            TERN_TRY(world_evaluate(&run->world, run->weights, &run->at_end));
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

// --- Results

static uint64_t sum_of(const uint64_t bytes[TERN_LGC_PIECE_KINDS], bool with_weights)
{
    uint64_t sum = 0;
    for (unsigned kind = 0; kind < TERN_LGC_PIECE_KINDS; kind++) {
        sum += kind != TERN_LGC_PIECE_WEIGHTS || with_weights ? bytes[kind] : 0;
    }
    return sum;
}

// Returns the mean bits per model value that one client sends or receives in a round.
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
        return fail("the scheme does not support these settings or this model", result);
    }
    tern_model_init_weights(&run->world.model, run->options.world.seed, run->weights);
    result = play(run);
    // Divergence is a result, too.
    run->diverged = result == TERN_ERR_TRAINER || result == TERN_ERR_NON_FINITE;
    if (result != TERN_OK && !run->diverged) {
        fprintf(stderr, "bench-lgc: round %u failed\n", run->round);
        return fail("the run ended early", result);
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
        options_print();
        return 0;
    }
    if (!options_read(argv + 1, argc - 1, &run.options)) {
        return 2;
    }
    const enum tern_result opened = world_open(&run.options.world, &run.world, why);
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
    world_close(&run.world);
    return status;
}
