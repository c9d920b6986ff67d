// What a ring learns beside what an aggregator makes of the same gradients with the same codec. Prints accuracy and
// bytes per byte of float32 of each: docs/BENCHMARKS.md has them.
#include "data/partition.h"
#include "data/source.h"
#include "exchange/exchange.h"
#include "tests/cases.h"
#include "trainer/trainer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS_MOST 8u
#define MOST 16384u
#define RATE 0.05F

static struct tern_model model;
static struct tern_data data;
static struct tern_partition partition;

struct worker {
    struct tern_builtin_trainer trainer;
    void *arena;
    float values[MOST]; // what it has learnt and not sent
    uint8_t *buffers[2];
    struct tern_ring_exchange exchange;
};

static uint32_t worker_count;
static struct worker workers[WORKERS_MOST];
static float weights[MOST];
static float sums[WORKERS_MOST][MOST];

static void open_task(uint32_t count, const char *spec, const char *source)
{
    worker_count = count;
    char why[TERN_DATA_WHY_MAX] = "";
    char reason[TERN_PARTITION_WHY_MAX] = "";
    const struct tern_partition_config config = {.kind = TERN_PARTITION_IID,
                                                 .clients = worker_count,
                                                 .min_examples = 1,
                                                 .alpha = 1,
                                                 .seed = 1};
    assert_int_equal(tern_model_from_spec(&model, spec), TERN_OK);
    assert_true(model.count <= MOST);
    assert_int_equal(tern_dataset_open(source, NULL, &data, why), TERN_OK);
    assert_int_equal(tern_partition_make(&config, &data.train, &partition, reason), TERN_OK);
    for (uint32_t i = 0; i < worker_count; i++) {
        const struct tern_builtin_config builtin = {
            .model = &model,
            .train = tern_partition_view(&partition, &data.train, i),
            .test = tern_view_all(&data.test),
            .max_batch = 32};
        const size_t size = tern_builtin_trainer_bound(&builtin);
        workers[i].arena = malloc(size);
        assert_int_equal(
            tern_builtin_trainer_init(&workers[i].trainer, &builtin, workers[i].arena, size),
            TERN_OK);
    }
}

static void close_task(void)
{
    for (uint32_t i = 0; i < worker_count; i++) {
        free(workers[i].arena);
    }
    tern_partition_free(&partition);
    tern_data_close(&data);
}

// Adds a worker's gradient, times -1, to what it has.
static void train(struct worker *worker, uint32_t index, uint32_t round)
{
    const struct tern_trainer trainer = tern_builtin_trainer_port(&worker->trainer);
    const struct tern_train_task task = {.round = round,
                                         .local_steps = 1,
                                         .batch_size = 32,
                                         .learning_rate = RATE,
                                         .seed = 1,
                                         .client = index};
    struct tern_train_result result;
    float *after = NULL;
    assert_int_equal(trainer.begin(trainer.ctx, &task, weights, model.count), TERN_OK);
    assert_int_equal(trainer.step(trainer.ctx, &after, &result), TERN_OK);
    for (uint32_t i = 0; i < model.count; i++) {
        worker->values[i] += (after[i] - weights[i]) / RATE;
    }
}

static size_t add_up_at_aggregator(const struct tern_codec *codec, uint32_t round)
{
    size_t sent = 0;
    memset(sums[0], 0, sizeof sums[0]);
    for (uint32_t i = 0; i < worker_count; i++) {
        for (uint32_t s = 0; s < model.segment_count; s++) {
            const struct tern_segment *segment = &model.segments[s];
            const struct tern_encode_context context = {
                .seed = 1, .round = round, .client = i, .segment = s};
            const size_t bound = tern_codec_bound(codec, segment->count);
            uint8_t *payload = malloc(bound);
            size_t len = 0;
            assert_int_equal(tern_codec_encode(codec, &context, workers[i].values + segment->offset,
                                               segment->count, payload, bound, &len),
                             TERN_OK);
            assert_int_equal(tern_codec_accumulate(payload, len, 1.0F, sums[0] + segment->offset,
                                                   segment->count),
                             TERN_OK);
            free(payload);
            sent += len;
        }
    }
    return sent;
}

static size_t add_up_round_a_ring(const struct tern_codec *codec, uint32_t round)
{
    const size_t bound = tern_ring_block_bound(codec, &model, worker_count);
    size_t sent = 0;
    for (uint32_t i = 0; i < worker_count; i++) {
        struct worker *worker = &workers[i];
        const struct tern_ring_part part = {.model = &model,
                                            .codec = codec,
                                            .members = worker_count,
                                            .member = i,
                                            .seed = 1,
                                            .round = round,
                                            .peer = i};
        worker->buffers[0] = malloc(bound);
        worker->buffers[1] = malloc(bound);
        assert_int_equal(tern_ring_exchange_begin(&worker->exchange, &part, worker->values, sums[i],
                                                  worker->buffers),
                         TERN_OK);
    }
    for (uint32_t step = 0; step < tern_ring_step_count(worker_count); step++) {
        for (uint32_t i = 0; i < worker_count; i++) {
            assert_int_equal(tern_ring_exchange_encode(&workers[i].exchange), TERN_OK);
        }
        size_t lens[WORKERS_MOST];
        for (uint32_t i = 0; i < worker_count; i++) {
            const uint32_t next = (i + 1) % worker_count;
            lens[next] = workers[i].exchange.out_len;
            sent += lens[next];
            memcpy(workers[next].exchange.in, workers[i].exchange.out, lens[next]);
        }
        for (uint32_t i = 0; i < worker_count; i++) {
            const enum tern_result result =
                tern_ring_exchange_decode(&workers[i].exchange, lens[i]);
            assert_true(result == TERN_OK || result == TERN_AGAIN);
        }
    }
    for (uint32_t i = 0; i < worker_count; i++) {
        free(workers[i].buffers[0]);
        free(workers[i].buffers[1]);
    }
    return sent;
}

static float learn(const char *spec, bool in_a_ring, uint32_t rounds, double *ratio)
{
    struct tern_codec codec;
    struct tern_evaluate_result result;
    size_t sent = 0;
    assert_int_equal(tern_codec_parse(spec, &codec, NULL), TERN_OK);
    tern_model_init_weights(&model, 1, weights);
    for (uint32_t i = 0; i < worker_count; i++) {
        memset(workers[i].values, 0, sizeof workers[i].values);
    }
    for (uint32_t round = 1; round <= rounds; round++) {
        for (uint32_t i = 0; i < worker_count; i++) {
            train(&workers[i], i, round);
        }
        sent +=
            in_a_ring ? add_up_round_a_ring(&codec, round) : add_up_at_aggregator(&codec, round);
        for (uint32_t j = 0; j < model.count; j++) {
            weights[j] += RATE * sums[0][j] / (float)worker_count;
        }
        const bool keeps = tern_codec_entry(codec.id)->feedback != TERN_FEEDBACK_NONE;
        for (uint32_t i = 0; i < worker_count && !keeps; i++) {
            memset(workers[i].values, 0, sizeof workers[i].values);
        }
    }
    const struct tern_trainer trainer = tern_builtin_trainer_port(&workers[0].trainer);
    assert_int_equal(trainer.evaluate(trainer.ctx, weights, model.count, &result), TERN_OK);
    // A ring sends 2(N-1) model's worth among N workers, and an aggregator gets N.
    const double models = in_a_ring ? 2.0 * (worker_count - 1) : worker_count;
    *ratio = (double)sent / (models * 4.0 * model.count * rounds);
    return result.accuracy;
}

static void compare(uint32_t count, uint32_t rounds)
{
    static const char *const specs[] = {
        "float32", "inceptionn:bound=10", "inceptionn:bound=6", "int8", "3lc:s=1", "density:p=0.1",
        "onebit"};
    open_task(count, "mlp:24-32-8", "sensors:train=2000,test=1000,devices=50,seed=1");
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        double apart_ratio = 0;
        double ring_ratio = 0;
        const float apart = learn(specs[i], false, rounds, &apart_ratio);
        const float ring = learn(specs[i], true, rounds, &ring_ratio);
        printf("%u workers, %-20s aggregator %.3f %.3f, ring %.3f %.3f\n", count, specs[i],
               (double)apart, apart_ratio, (double)ring, ring_ratio);
        assert_true(apart > 0.65F); // of 8 classes
        assert_true(fabs((double)ring - (double)apart) < 0.03);
    }
    close_task();
}

CASE(four_in_a_ring_learn_what_an_aggregator_does)
{
    compare(4, 200);
}

// Seven hops of each block on the reduce leg, where four have three.
CASE(eight_in_a_ring_learn_what_an_aggregator_does)
{
    compare(8, 200);
}
