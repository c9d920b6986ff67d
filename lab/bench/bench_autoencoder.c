// What LGC's autoencoder makes of real updates. Takes the largest values of recorded changes, trains on the first
// rounds and measures on the later ones, which it never saw, how much of the values' energy (sum of squares) is lost;
// beside it the same of values that are sent by so many bits each. lab/bench/autoencoder.py records the changes and
// makes a table of it.
//
//   bench-autoencoder CHANGES KEY=NUMBER...     prints one flat JSON object
//
// CHANGES: float32 [rounds][nodes][sum of segments]. Keys: segment (of values, once for each), nodes, ring (0, 1),
// share (of values that are taken, of each segment), innovation (share of those that each node sends as they are),
// width, channels, own (0: one decoder for all), train (rounds), passes, rate, momentum, clip, similarity, seed.
#include "lgc/autoencoder.h"
#include "util/prng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SEGMENTS_MAX = 64, CODE_BITS_MAX = 32 };

struct options {
    double nodes, ring, share, innovation, width, channels, own, train, passes, rate, momentum,
        clip, similarity, seed;
    size_t segments[SEGMENTS_MAX];
    size_t segment_count;
};

// One round: the values that each node would send, at its own indices or, in a ring, at those of one node.
struct picked {
    float **values;      // [nodes][length]
    float **innovations; // [nodes][length]
    uint32_t **indices;  // [nodes][length]
    size_t chosen;       // the node whose code is sent, or whose indices are taken
};

struct bench {
    struct options options;
    size_t nodes;
    size_t rounds;
    size_t train;
    size_t count;  // values of a change
    size_t length; // values that are taken
    size_t innovation;
    struct picked *picked; // [rounds]
    struct tern_autoencoder autoencoder;
    float *weights;
    void *workspace;
    size_t workspace_size;
};

static void fail(const char *what, const char *which)
{
    fprintf(stderr, "bench-autoencoder: %s%s\n", what, which);
    exit(1);
}

static void must(enum tern_result result)
{
    if (result != TERN_OK) {
        fail("failed: ", tern_result_name(result));
    }
}

static void *memory(size_t count, size_t size)
{
    void *block = calloc(count, size);
    if (block == NULL) {
        must(TERN_ERR_NO_MEMORY);
    }
    return block;
}

// --- Options

static double *option_named(struct options *o, const char *name, size_t length)
{
    const struct {
        const char *name;
        double *value;
    } names[] = {
        {"nodes", &o->nodes},       {"ring", &o->ring},
        {"share", &o->share},       {"width", &o->width},
        {"channels", &o->channels}, {"innovation", &o->innovation},
        {"own", &o->own},           {"train", &o->train},
        {"passes", &o->passes},     {"rate", &o->rate},
        {"momentum", &o->momentum}, {"clip", &o->clip},
        {"seed", &o->seed},         {"similarity", &o->similarity},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i].name) == length && memcmp(names[i].name, name, length) == 0) {
            return names[i].value;
        }
    }
    return NULL;
}

static void read_option(struct options *options, const char *text)
{
    const char *equals = strchr(text, '=');
    char *end = NULL;
    const double number = equals != NULL ? strtod(equals + 1, &end) : 0;
    if (equals == NULL || end == equals + 1 || *end != '\0' || !(number >= 0 && number < 1e15)) {
        fail("not KEY=NUMBER: ", text);
    }
    if (strncmp(text, "segment=", 8) == 0 && options->segment_count < SEGMENTS_MAX) {
        options->segments[options->segment_count++] = (size_t)number;
        return;
    }
    double *value = option_named(options, text, (size_t)(equals - text));
    if (value == NULL) {
        fail("no such key: ", text);
    }
    *value = number;
}

// --- The values that are sent

struct ranked {
    float magnitude;
    uint32_t index;
};

// Larger first; of those alike the first.
static int by_rank(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    if (a->magnitude != b->magnitude) {
        return a->magnitude < b->magnitude ? 1 : -1;
    }
    return a->index < b->index ? -1 : a->index > b->index;
}

static int by_index(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    return a->index < b->index ? -1 : a->index > b->index;
}

// The `most` largest of values[0..count), in rising order of their indices; indices count from `first`.
static void largest(const float *values, size_t count, size_t most, size_t first, uint32_t *indices)
{
    struct ranked *ranked = memory(count, sizeof *ranked);
    for (size_t i = 0; i < count; i++) {
        ranked[i] = (struct ranked){fabsf(values[i]), (uint32_t)i};
    }
    qsort(ranked, count, sizeof *ranked, by_rank);
    qsort(ranked, most, sizeof *ranked, by_index);
    for (size_t i = 0; i < most; i++) {
        indices[i] = ranked[i].index + (uint32_t)first;
    }
    free(ranked);
}

static size_t taken_of(const struct bench *bench, size_t segment)
{
    return (size_t)ceil(bench->options.share * (double)bench->options.segments[segment]);
}

static void choose_indices(const struct bench *bench, const float *change, uint32_t *indices)
{
    size_t first = 0;
    for (size_t s = 0; s < bench->options.segment_count; s++) {
        const size_t most = taken_of(bench, s);
        largest(change + first, bench->options.segments[s], most, first, indices);
        indices += most;
        first += bench->options.segments[s];
    }
}

// Takes the values out of what the node has accumulated; what is not taken stays there (section V-A).
static void take(const struct bench *bench, const uint32_t *indices, float *accumulated,
                 float *values, float *innovation)
{
    for (size_t i = 0; i < bench->length; i++) {
        values[i] = accumulated[indices[i]];
        accumulated[indices[i]] = 0;
    }
    if (bench->innovation == 0) {
        return;
    }
    uint32_t *best = memory(bench->innovation, sizeof *best);
    largest(values, bench->length, bench->innovation, 0, best);
    for (size_t i = 0; i < bench->innovation; i++) {
        innovation[best[i]] = values[best[i]];
    }
    free(best);
}

static void *rows(size_t nodes, size_t length, size_t size)
{
    void **row = memory(nodes, sizeof *row);
    for (size_t k = 0; k < nodes; k++) {
        row[k] = memory(length, size);
    }
    return row;
}

static void pick(struct bench *bench, size_t round, float **accumulated, struct tern_prng *rng)
{
    struct picked *picked = &bench->picked[round];
    picked->values = rows(bench->nodes, bench->length, sizeof(float));
    picked->innovations = rows(bench->nodes, bench->length, sizeof(float));
    picked->indices = rows(bench->nodes, bench->length, sizeof(uint32_t));
    picked->chosen = tern_prng_below(rng, (uint32_t)bench->nodes);
    for (size_t k = 0; k < bench->nodes; k++) {
        choose_indices(bench, accumulated[k], picked->indices[k]);
    }
    for (size_t k = 0; k < bench->nodes; k++) {
        if (bench->options.ring > 0 && k != picked->chosen) {
            memcpy(picked->indices[k], picked->indices[picked->chosen],
                   bench->length * sizeof(uint32_t));
        }
        take(bench, picked->indices[k], accumulated[k], picked->values[k], picked->innovations[k]);
    }
}

static void read_changes(struct bench *bench, const char *path)
{
    FILE *file = fopen(path, "rb");
    float **accumulated = rows(bench->nodes, bench->count, sizeof(float));
    float *change = memory(bench->count, sizeof(float));
    struct tern_prng rng;
    tern_prng_init(&rng, (uint64_t)bench->options.seed, TERN_PRNG_TEST, 0, 0);
    if (file == NULL) {
        fail("cannot be read: ", path);
    }
    for (size_t k = 0; fread(change, sizeof(float), bench->count, file) == bench->count;
         k = (k + 1) % bench->nodes) {
        for (size_t i = 0; i < bench->count; i++) {
            accumulated[k][i] += change[i];
        }
        if (k + 1 == bench->nodes) {
            bench->picked = realloc(bench->picked, (bench->rounds + 1) * sizeof *bench->picked);
            if (bench->picked == NULL) {
                must(TERN_ERR_NO_MEMORY);
            }
            pick(bench, bench->rounds++, accumulated, &rng);
        }
    }
    fclose(file);
    for (size_t k = 0; k < bench->nodes; k++) {
        free(accumulated[k]);
    }
    free(accumulated);
    free(change);
}

// --- Training

static void set_up(struct bench *bench, const char *path)
{
    const struct options *o = &bench->options;
    const bool ring = o->ring > 0;
    bench->nodes = (size_t)o->nodes;
    bench->train = (size_t)o->train;
    for (size_t s = 0; s < o->segment_count; s++) {
        bench->count += o->segments[s];
        bench->length += taken_of(bench, s);
    }
    bench->innovation = ring ? 0 : (size_t)ceil(o->innovation * (double)bench->length);
    if (bench->nodes == 0 || bench->length == 0 || o->share > 1 || o->innovation > 1) {
        fail("nodes, segments or shares", " are outside their range");
    }
    const struct tern_autoencoder_settings settings = {
        .pattern = ring ? TERN_AUTOENCODER_RING_ALLREDUCE : TERN_AUTOENCODER_PARAMETER_SERVER,
        .width = (uint32_t)o->width,
        .channels = (uint32_t)o->channels,
        .decoders = o->own > 0 && !ring ? (uint32_t)bench->nodes : 1,
    };
    must(tern_autoencoder_init(&bench->autoencoder, &settings));
    read_changes(bench, path);
    if (bench->train >= bench->rounds) {
        fail("no rounds are left to measure on in ", path);
    }
    bench->weights = memory(bench->autoencoder.count, sizeof(float));
    bench->workspace_size =
        tern_autoencoder_training_workspace(&bench->autoencoder, bench->length, bench->nodes);
    bench->workspace = memory(bench->workspace_size, 1);
    tern_autoencoder_init_weights(&bench->autoencoder, (uint64_t)o->seed, bench->weights);
}

// Returns the mean reconstruction loss of the last pass.
static double train(struct bench *bench)
{
    const struct options *o = &bench->options;
    const struct tern_autoencoder_training training = {.learning_rate = (float)o->rate,
                                                       .momentum = (float)o->momentum,
                                                       .clip = (float)o->clip,
                                                       .similarity = (float)o->similarity};
    float *velocity = memory(bench->autoencoder.count, sizeof(float));
    double loss = 0;
    for (size_t pass = 0; pass < (size_t)o->passes; pass++) {
        loss = 0;
        for (size_t i = 0; i < bench->train; i++) {
            struct picked *picked = &bench->picked[i];
            const struct tern_autoencoder_round round = {
                .nodes = bench->nodes,
                .length = bench->length,
                .values = (const float *const *)picked->values,
                .innovations = o->ring > 0 ? NULL : (const float *const *)picked->innovations,
                .common = picked->chosen,
            };
            struct tern_autoencoder_losses losses;
            must(tern_autoencoder_train_step(&bench->autoencoder, &training, &round, bench->weights,
                                             velocity, bench->workspace, bench->workspace_size,
                                             &losses));
            loss += (double)losses.reconstruction / (double)bench->train;
        }
    }
    free(velocity);
    return loss;
}

// --- Numbers by few bits

// Sign and magnitude: 2^(bits - 1) cells, as wide as each other in the logarithm, between the smallest and the
// largest magnitude, of which a value is its cell's mean; 1 bit is the sign and one mean magnitude. What the means cost
// is left out.
static void quantize_values(const float *values, size_t count, unsigned bits, float *out)
{
    const size_t cells = (size_t)1 << (bits - 1);
    double *sum = memory(cells, sizeof *sum), *number = memory(cells, sizeof *number);
    size_t *cell = memory(count, sizeof *cell);
    double smallest = INFINITY, most = 0;
    for (size_t i = 0; i < count; i++) {
        const double m = fabs((double)values[i]);
        smallest = m > 0 && m < smallest ? m : smallest;
        most = m > most ? m : most;
    }
    for (size_t i = 0; i < count; i++) {
        const double m = fmax(fabs((double)values[i]), smallest);
        const double at = most > smallest ? log(m / smallest) / log(most / smallest) : 0;
        cell[i] = (size_t)fmin(at * (double)cells, (double)(cells - 1));
        sum[cell[i]] += fabs((double)values[i]);
        number[cell[i]]++;
    }
    for (size_t i = 0; i < count; i++) {
        const double m = sum[cell[i]] / number[cell[i]];
        out[i] = (float)(values[i] < 0 ? -m : m);
    }
    free(sum);
    free(number);
    free(cell);
}

// A code's numbers, on a grid of 2^bits - 1 points around 0 up to the largest; 32 bits as they are.
static void quantize_code(float *code, size_t count, unsigned bits)
{
    float most = 0;
    const double points = (double)(((uint64_t)1 << (bits - 1)) - 1);
    for (size_t i = 0; i < count; i++) {
        most = fmaxf(most, fabsf(code[i]));
    }
    for (size_t i = 0; i < count && bits < CODE_BITS_MAX && most > 0; i++) {
        code[i] = (float)(round((double)(code[i] / most) * points) / points * (double)most);
    }
}

// --- What is lost on rounds that were not trained on

struct lost {
    double energy;     // of what should arrive
    double error;      // of its difference from what did
    double sum_energy; // the same of the nodes' mean, each value at its place in the model
    double sum_error;
};

static void add_lost(struct lost *lost, const float *sent, const float *arrived, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        lost->energy += (double)sent[i] * (double)sent[i];
        lost->error +=
            ((double)sent[i] - (double)arrived[i]) * ((double)sent[i] - (double)arrived[i]);
    }
}

// A way to send one round: writes what arrives of node k's values to out.
struct way {
    struct bench *bench;
    unsigned code_bits;  // of the autoencoder
    unsigned value_bits; // else: of each value
    bool innovation;     // else: innovations alone
    float *code;         // of the round: of one node, or the mean
};

static void encode(struct way *way, const struct picked *picked, size_t node, float scale,
                   float *code)
{
    struct bench *bench = way->bench;
    must(tern_autoencoder_encode(&bench->autoencoder, bench->weights, picked->values[node],
                                 bench->length, scale, bench->workspace, bench->workspace_size,
                                 code));
    quantize_code(code, tern_autoencoder_code_length(&bench->autoencoder, bench->length),
                  way->code_bits);
}

static void begin_round(struct way *way, const struct picked *picked)
{
    struct bench *bench = way->bench;
    const size_t count = tern_autoencoder_code_length(&bench->autoencoder, bench->length);
    if (way->code_bits == 0) {
        return;
    }
    const float scale = tern_autoencoder_scale(picked->values[picked->chosen], bench->length);
    if (bench->options.ring == 0) {
        encode(way, picked, picked->chosen, scale, way->code);
        return;
    }
    float *one = memory(count, sizeof *one);
    memset(way->code, 0, count * sizeof(float));
    for (size_t k = 0; k < bench->nodes; k++) {
        encode(way, picked, k, scale, one);
        for (size_t i = 0; i < count; i++) {
            way->code[i] += one[i] / (float)bench->nodes;
        }
    }
    free(one);
}

static void arrive(struct way *way, const struct picked *picked, size_t node, float *out)
{
    struct bench *bench = way->bench;
    const struct tern_autoencoder *a = &bench->autoencoder;
    const bool ring = bench->options.ring > 0;
    if (way->code_bits > 0) {
        const size_t own = a->settings.decoders > 1 ? node : 0;
        must(tern_autoencoder_decode(
            a, bench->weights + a->encoder_count + own * a->decoder_count, way->code,
            ring ? NULL : picked->innovations[node], bench->length,
            tern_autoencoder_scale(picked->values[ring ? picked->chosen : node], bench->length),
            bench->workspace, bench->workspace_size, out));
    } else if (way->value_bits > 0) {
        quantize_values(picked->values[node], bench->length, way->value_bits, out);
    } else {
        memcpy(out, picked->innovations[node], bench->length * sizeof(float));
    }
}

static void add_to_model(const float *values, const uint32_t *indices, size_t count, float *model)
{
    for (size_t i = 0; i < count; i++) {
        model[indices[i]] += values[i];
    }
}

// In a ring the decoder makes the mean, which is all there is: its energy is that of the nodes' mean.
static struct lost measure(struct way *way)
{
    struct bench *bench = way->bench;
    const bool mean_alone = bench->options.ring > 0 && way->code_bits > 0;
    float *out = memory(bench->length, sizeof *out);
    float *sent = memory(bench->count, sizeof *sent), *arrived = memory(bench->count, sizeof *sent);
    struct lost lost = {0, 0, 0, 0}, sums = {0, 0, 0, 0};
    for (size_t r = bench->train; r < bench->rounds; r++) {
        const struct picked *picked = &bench->picked[r];
        memset(sent, 0, bench->count * sizeof *sent);
        memset(arrived, 0, bench->count * sizeof *arrived);
        begin_round(way, picked);
        for (size_t k = 0; k < bench->nodes; k++) {
            arrive(way, picked, k, out);
            add_lost(&lost, picked->values[k], out, bench->length);
            add_to_model(picked->values[k], picked->indices[k], bench->length, sent);
            add_to_model(out, picked->indices[k], bench->length, arrived);
        }
        add_lost(&sums, sent, arrived, bench->count);
    }
    free(out);
    free(sent);
    free(arrived);
    lost.sum_energy = sums.energy;
    lost.sum_error = sums.error;
    if (mean_alone) {
        lost.energy = lost.error = NAN;
    }
    return lost;
}

// --- Bits

// Bits to say which `few` of `count` values they are.
static double subset_bits(double count, double few)
{
    return few == 0 ? 0 : (lgamma(count + 1) - lgamma(few + 1) - lgamma(count - few + 1)) / log(2);
}

// Of all nodes in a round, over their values. That of the indices, which every way needs, is left out.
static double bits_per_value(const struct bench *bench, unsigned code_bits)
{
    const double length = (double)bench->length, nodes = (double)bench->nodes;
    const double code =
        (double)tern_autoencoder_code_length(&bench->autoencoder, bench->length) * code_bits;
    if (bench->options.ring > 0) {
        return (nodes * code + 32) / (nodes * length);
    }
    const double few = (double)bench->innovation;
    return (code + nodes * (few * 32 + subset_bits(length, few) + 32)) / (nodes * length);
}

static void print_way(const char *name, unsigned number, double bits, struct lost lost)
{
    printf(", \"%s%u_bits\": %.4f, \"%s%u_lost\": %.4f", name, number, bits, name, number,
           lost.sum_error / lost.sum_energy);
    if (!isnan(lost.energy)) {
        printf(", \"%s%u_lost_of_each\": %.4f", name, number, lost.error / lost.energy);
    }
}

static void report(struct bench *bench, double trained, double seconds)
{
    const struct tern_autoencoder *a = &bench->autoencoder;
    struct way way = {.bench = bench};
    way.code = memory(tern_autoencoder_code_length(a, bench->length), sizeof(float));
    printf("{\"rounds\": %zu, \"trained_rounds\": %zu, \"values\": %zu, \"code\": %zu, "
           "\"innovation\": %zu, \"encoder_bytes\": %u, \"autoencoder_bytes\": %u, "
           "\"training_workspace\": %zu, \"cpu_seconds_of_training\": %.2f, \"lost_in_training\": "
           "%.4f",
           bench->rounds, bench->train, bench->length,
           tern_autoencoder_code_length(a, bench->length), bench->innovation, 4 * a->encoder_count,
           4 * a->count, bench->workspace_size, seconds, trained);
    const unsigned code_bits[] = {32, 16, 8, 4};
    for (size_t i = 0; i < sizeof code_bits / sizeof code_bits[0]; i++) {
        way.code_bits = code_bits[i];
        print_way("code", code_bits[i], bits_per_value(bench, code_bits[i]), measure(&way));
    }
    way.code_bits = 0;
    for (way.value_bits = 1; way.value_bits <= 8; way.value_bits++) {
        print_way("values", way.value_bits, way.value_bits, measure(&way));
    }
    way.value_bits = 0;
    if (bench->options.ring == 0) {
        print_way("innovation", 0, bits_per_value(bench, 0), measure(&way));
    }
    printf("}\n");
    free(way.code);
}

int main(int argc, char **argv)
{
    static struct bench bench = {.options = {.share = 0.01,
                                             .innovation = 0.1,
                                             .width = 64,
                                             .channels = 4,
                                             .passes = 1,
                                             .rate = 0.05,
                                             .momentum = 0.9,
                                             .clip = 1,
                                             .similarity = 0.5,
                                             .seed = 1}};
    if (argc < 3) {
        fail("usage: bench-autoencoder CHANGES KEY=NUMBER...", "");
    }
    for (int i = 2; i < argc; i++) {
        read_option(&bench.options, argv[i]);
    }
    set_up(&bench, argv[1]);
    const clock_t start = clock();
    const double trained = train(&bench);
    report(&bench, trained, (double)(clock() - start) / CLOCKS_PER_SEC);
    free(bench.weights);
    free(bench.workspace);
    return 0;
}
