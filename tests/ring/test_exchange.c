// A whole ring in one process: every member's exchange, step by step, against the plain sum.
#include "exchange/exchange.h"
#include "tests/cases.h"
#include "util/prng.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 9u
#define VALUES_MOST 4096u

struct ring {
    const struct tern_model *model;
    const struct tern_codec *codec;
    uint32_t members;
    uint32_t count; // exchanged
    float given[MOST][VALUES_MOST];
    float values[MOST][VALUES_MOST];
    float sums[MOST][VALUES_MOST];
    uint8_t *buffers[MOST][2];
    struct tern_ring_exchange exchanges[MOST];
    size_t sent[MOST];
};

static struct ring ring;

static struct tern_codec codec_of(const char *spec)
{
    struct tern_codec codec;
    assert_int_equal(tern_codec_parse(spec, &codec, NULL), TERN_OK);
    return codec;
}

static void begin(struct ring *r, const struct tern_model *model, const struct tern_codec *codec,
                  uint32_t members)
{
    const size_t bound = tern_ring_block_bound(codec, model, members);
    struct tern_prng rng;
    r->model = model;
    r->codec = codec;
    r->members = members;
    r->count = tern_ring_exchanged_count(model);
    for (uint32_t i = 0; i < members; i++) {
        tern_prng_init(&rng, 7, TERN_PRNG_TEST, members, i);
        for (uint32_t j = 0; j < model->count; j++) {
            r->given[i][j] = r->values[i][j] = (tern_prng_float(&rng) - 0.5F) * 0.25F;
            r->sums[i][j] = NAN;
        }
        for (int k = 0; k < 2; k++) {
            r->buffers[i][k] = malloc(bound > 0 ? bound : 1);
        }
        const struct tern_ring_part part = {.model = model,
                                            .codec = codec,
                                            .members = members,
                                            .member = i,
                                            .seed = 3,
                                            .round = 1,
                                            .peer = i};
        r->sent[i] = 0;
        assert_int_equal(tern_ring_exchange_begin(&r->exchanges[i], &part, r->values[i], r->sums[i],
                                                  r->buffers[i]),
                         TERN_OK);
    }
}

static void end(struct ring *r)
{
    for (uint32_t i = 0; i < r->members; i++) {
        free(r->buffers[i][0]);
        free(r->buffers[i][1]);
    }
}

// All make, then all take, as if everything went at once.
static void run(struct ring *r)
{
    for (uint32_t step = 0; step < tern_ring_step_count(r->members); step++) {
        for (uint32_t i = 0; i < r->members; i++) {
            struct tern_ring_exchange *exchange = &r->exchanges[i];
            assert_int_equal(tern_ring_exchange_encode(exchange), TERN_OK);
            r->sent[i] += exchange->out_len;
        }
        size_t lens[MOST];
        for (uint32_t i = 0; i < r->members; i++) {
            const struct tern_ring_exchange *next = &r->exchanges[(i + 1) % r->members];
            lens[(i + 1) % r->members] = r->exchanges[i].out_len;
            assert_true(r->exchanges[i].out_len <= next->in_size);
            memcpy(next->in, r->exchanges[i].out, r->exchanges[i].out_len);
        }
        const bool is_last = step + 1 == tern_ring_step_count(r->members);
        for (uint32_t i = 0; i < r->members; i++) {
            assert_int_equal(tern_ring_exchange_decode(&r->exchanges[i], lens[i]),
                             is_last ? TERN_OK : TERN_AGAIN);
        }
    }
}

static void assert_same_bits(const struct ring *r)
{
    for (uint32_t i = 1; i < r->members; i++) {
        assert_memory_equal(r->sums[i], r->sums[0], sizeof(float) * r->count);
    }
}

static struct tern_model plain_model(uint32_t count)
{
    static struct tern_model model;
    tern_model_clear(&model);
    assert_int_equal(tern_model_add(&model, "w", &count, 1, 0), TERN_OK);
    assert_int_equal(tern_model_layout(&model), TERN_OK);
    return model;
}

// --- Blocks

CASE(blocks_are_a_partition)
{
    static const uint32_t counts[] = {1, 3, 8, 9, 1000, 1001, TERN_MODEL_MAX_VALUES};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (uint32_t members = 2; members <= TERN_RING_MEMBERS_MAX; members++) {
            assert_int_equal(tern_ring_block_start(counts[c], members, 0), 0);
            assert_int_equal(tern_ring_block_start(counts[c], members, members), counts[c]);
            for (uint32_t b = 0; b < members; b++) {
                const uint32_t size = tern_ring_block_start(counts[c], members, b + 1) -
                                      tern_ring_block_start(counts[c], members, b);
                assert_in_range(size, counts[c] / members, counts[c] / members + 1);
            }
        }
    }
}

CASE(every_member_sends_what_the_next_one_takes)
{
    for (uint32_t members = 2; members <= TERN_RING_MEMBERS_MAX; members++) {
        for (uint32_t step = 0; step < tern_ring_step_count(members); step++) {
            uint64_t seen = 0;
            for (uint32_t i = 0; i < members; i++) {
                const uint32_t sent = tern_ring_block_sent(members, i, step);
                assert_int_equal(tern_ring_block_received(members, (i + 1) % members, step), sent);
                seen |= (uint64_t)1 << sent;
            }
            assert_true(seen == (members < 64 ? ((uint64_t)1 << members) - 1 : UINT64_MAX));
        }
        // As in the paper's figure: in the first step member i sends block i, and behind the reduce leg it
        // has the sum of block i + 1.
        assert_int_equal(tern_ring_block_sent(members, 1, 0), 1);
        assert_int_equal(tern_ring_block_owned(members, 0), 1);
    }
}

// --- Sums

CASE(float32_is_the_stated_sum)
{
    static const uint32_t counts[] = {1, 2, 5, 8, 31, 512, 1000, 4093};
    const struct tern_codec codec = codec_of("float32");
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        const struct tern_model model = plain_model(counts[c]);
        for (uint32_t members = 2; members <= MOST; members++) {
            begin(&ring, &model, &codec, members);
            run(&ring);
            assert_same_bits(&ring);
            for (uint32_t b = 0; b < members; b++) {
                for (uint32_t j = tern_ring_block_start(counts[c], members, b);
                     j < tern_ring_block_start(counts[c], members, b + 1); j++) {
                    float sum = ring.given[b][j];
                    for (uint32_t k = 1; k < members; k++) {
                        sum = ring.given[(b + k) % members][j] + sum;
                    }
                    assert_memory_equal(&ring.sums[0][j], &sum, sizeof sum);
                }
            }
            end(&ring);
        }
    }
}

static double plain_sum(const struct ring *r, uint32_t j)
{
    double sum = 0;
    for (uint32_t i = 0; i < r->members; i++) {
        sum += (double)r->given[i][j];
    }
    return sum;
}

// A value is encoded once by each member on its way: the bound of section V, members times.
CASE(inceptionn_is_within_its_bound)
{
    const struct tern_model model = plain_model(1003);
    for (uint32_t exponent = 6; exponent <= 14; exponent += 4) {
        char spec[32];
        snprintf(spec, sizeof spec, "inceptionn:bound=%u", exponent);
        const struct tern_codec codec = codec_of(spec);
        const double bound = ldexp(1, -(int)exponent);
        double worst = 0;
        for (uint32_t members = 2; members <= MOST; members++) {
            begin(&ring, &model, &codec, members);
            run(&ring);
            assert_same_bits(&ring);
            for (uint32_t j = 0; j < ring.count; j++) {
                const double error = fabs((double)ring.sums[0][j] - plain_sum(&ring, j));
                assert_true(error <= members * (bound + 1e-6));
                worst = error / members > worst ? error / members : worst;
            }
            end(&ring);
        }
        assert_true(worst > bound / 4); // the bound says something
    }
}

// What all put in is what came out, plus what they hold: nothing is lost with codecs that feed errors back.
CASE(residuals_hold_what_is_not_in_the_sum)
{
    static const char *const specs[] = {"3lc:s=1.5", "density:p=0.1", "sparse:p=0.05", "onebit"};
    static struct tern_model model;
    assert_int_equal(tern_model_from_spec(&model, "mlp:24-32-30-8"), TERN_OK);
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        const struct tern_codec codec = codec_of(specs[s]);
        for (uint32_t members = 2; members <= MOST; members++) {
            double left = 0;
            begin(&ring, &model, &codec, members);
            run(&ring);
            assert_same_bits(&ring);
            for (uint32_t j = 0; j < ring.count; j++) {
                double held = 0;
                for (uint32_t i = 0; i < members; i++) {
                    held += (double)ring.values[i][j];
                }
                left += fabs(held);
                assert_true(fabs(plain_sum(&ring, j) - held - (double)ring.sums[0][j]) < 1e-5);
            }
            assert_true(left > 0.1); // they do leave something out
            end(&ring);
        }
    }
}

CASE(every_codec_ends_with_the_same_bits)
{
    static struct tern_model model;
    assert_int_equal(tern_model_from_spec(&model, "mlp:24-32-8"), TERN_OK);
    unsigned tried = 0;
    for (size_t i = 0; tern_codec_entry_at(i) != NULL; i++) {
        const struct tern_codec codec = tern_codec_preset(tern_codec_entry_at(i));
        if (!tern_ring_codec_is_usable(&codec)) {
            continue;
        }
        tried++;
        for (uint32_t members = 2; members <= MOST; members++) {
            begin(&ring, &model, &codec, members);
            run(&ring);
            assert_same_bits(&ring);
            for (uint32_t j = 0; j < ring.count; j++) {
                assert_true(isfinite(ring.sums[0][j]));
            }
            end(&ring);
        }
    }
    assert_int_equal(tried, 12);
}

// Blocks of one tensor that are alike are drawn for apart.
CASE(stochastic_codecs_draw_anew_for_each_block)
{
    const struct tern_codec codec = codec_of("qsgd");
    const struct tern_model model = plain_model(900);
    begin(&ring, &model, &codec, 3);
    struct tern_ring_exchange *exchange = &ring.exchanges[0];
    const struct tern_ring_exchange *before = &ring.exchanges[2];
    memset(ring.values[2], 0, sizeof ring.values[2]);
    for (uint32_t j = 0; j < 300; j++) {
        ring.values[0][600 + j] = ring.values[0][j];
    }
    uint8_t first[4096];
    assert_int_equal(tern_ring_exchange_encode(exchange), TERN_OK);
    const size_t len = exchange->out_len;
    assert_in_range(len, 1, sizeof first);
    memcpy(first, exchange->out, len);
    assert_int_equal(tern_ring_exchange_encode(&ring.exchanges[2]), TERN_OK); // block 2, of zeros
    memcpy(exchange->in, before->out, before->out_len);
    assert_int_equal(tern_ring_exchange_decode(exchange, before->out_len), TERN_AGAIN);
    assert_int_equal(tern_ring_exchange_encode(exchange), TERN_OK);
    assert_int_equal(exchange->out_len, len);
    assert_memory_not_equal(exchange->out, first, len);
    end(&ring);
}

// Each member sends 2(N-1) blocks of count / N values: 2(N-1)/N of the model.
CASE(bytes_are_as_the_paper_says)
{
    const struct tern_codec codec = codec_of("float32");
    const struct tern_model model = plain_model(4095);
    for (uint32_t members = 2; members <= MOST; members++) {
        begin(&ring, &model, &codec, members);
        run(&ring);
        for (uint32_t i = 0; i < members; i++) {
            const double expected = 2.0 * (members - 1) / members * 4 * model.count;
            // A length and a mode byte for each block, and blocks of one value more or less.
            assert_true(fabs((double)ring.sent[i] - expected) <= 2.0 * members * (4 + 4));
        }
        end(&ring);
    }
}

// Statistics of a batch norm go as they are, and what is never sent stays out of it.
CASE(rules_of_tensors_hold)
{
    static struct tern_model model;
    const struct tern_codec codec = codec_of("onebit");
    const uint32_t count = 600;
    const uint32_t small = 10;
    tern_model_clear(&model);
    assert_int_equal(tern_model_add_by_rule(&model, "frozen", &count, 1, TERN_RULE_SKIP), TERN_OK);
    assert_int_equal(tern_model_add_by_rule(&model, "w", &count, 1, TERN_RULE_COMPRESS), TERN_OK);
    assert_int_equal(tern_model_add_by_rule(&model, "mean", &small, 1, TERN_RULE_DENSE), TERN_OK);
    assert_int_equal(tern_model_layout(&model), TERN_OK);
    assert_int_equal(tern_ring_exchanged_count(&model), count + small);
    begin(&ring, &model, &codec, 3);
    run(&ring);
    assert_same_bits(&ring);
    for (uint32_t j = count; j < count + small; j++) {
        assert_true(fabs((double)ring.sums[0][j] - plain_sum(&ring, j)) < 1e-6);
    }
    for (uint32_t j = count + small; j < model.count; j++) {
        assert_true(isnan(ring.sums[0][j]));
        assert_memory_equal(&ring.values[0][j], &ring.given[0][j], sizeof(float));
    }
    end(&ring);
}

// --- Refusals

CASE(what_cannot_go_round_is_refused)
{
    struct tern_ring_exchange exchange;
    const struct tern_model model = plain_model(100);
    const struct tern_codec fits = codec_of("float32");
    const struct tern_codec dgc = codec_of("dgc");
    const struct tern_codec scalecom = codec_of("scalecom");
    uint8_t *buffers[2] = {NULL, NULL};
    const struct tern_ring_part parts[] = {
        {.model = &model, .codec = &fits, .members = 1},
        {.model = &model, .codec = &fits, .members = TERN_RING_MEMBERS_MAX + 1},
        {.model = &model, .codec = &fits, .members = 3, .member = 3},
        {.model = &model, .codec = &dgc, .members = 3},
        {.model = &model, .codec = &scalecom, .members = 3},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        assert_int_equal(tern_ring_exchange_begin(&exchange, &parts[i], NULL, NULL, buffers),
                         TERN_ERR_ARGUMENT);
    }
}

// A member may be sent anything: it says so, or takes what is in order, and never reads beyond it.
CASE(hostile_blocks_are_refused)
{
    static const char *const specs[] = {"float32", "inceptionn:bound=10", "3lc:s=1", "int8"};
    static struct tern_model model;
    struct tern_prng rng;
    unsigned refused = 0;
    assert_int_equal(tern_model_from_spec(&model, "mlp:24-32-8"), TERN_OK);
    tern_prng_init(&rng, 1, TERN_PRNG_TEST, 2, 3);
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        const struct tern_codec codec = codec_of(specs[s]);
        for (unsigned trial = 0; trial < 500; trial++) {
            begin(&ring, &model, &codec, 3);
            struct tern_ring_exchange *from = &ring.exchanges[0];
            struct tern_ring_exchange *to = &ring.exchanges[1];
            assert_int_equal(tern_ring_exchange_encode(from), TERN_OK);
            assert_int_equal(tern_ring_exchange_encode(to), TERN_OK);
            size_t len = from->out_len;
            uint8_t *exact = malloc(len + 8);
            memcpy(exact, from->out, len);
            for (unsigned flips = tern_prng_below(&rng, 3); flips > 0; flips--) {
                exact[tern_prng_below(&rng, (uint32_t)len)] ^=
                    (uint8_t)(1 + tern_prng_below(&rng, 255));
            }
            const uint32_t change = tern_prng_below(&rng, 3);
            len = change == 0 ? tern_prng_below(&rng, (uint32_t)len) : len;
            if (change == 1) {
                exact[len++] = (uint8_t)tern_prng_u32(&rng);
            }
            uint8_t *tight =
                malloc(len > 0 ? len : 1); // so that a sanitizer sees what is read behind it
            memcpy(tight, exact, len);
            uint8_t *kept = to->in;
            to->in = tight;
            const enum tern_result result = tern_ring_exchange_decode(to, len);
            to->in = kept;
            assert_true(result == TERN_AGAIN || result == TERN_ERR_CORRUPT ||
                        result == TERN_ERR_UNKNOWN || result == TERN_ERR_NON_FINITE);
            assert_true(change == 2 ||
                        result != TERN_AGAIN); // of another length it is never in order
            refused += result != TERN_AGAIN;
            free(tight);
            free(exact);
            end(&ring);
        }
    }
    assert_true(refused > 1300);
}

CASE(values_that_are_no_numbers_are_refused)
{
    const struct tern_codec codec = codec_of("inceptionn:bound=10");
    const struct tern_model model = plain_model(100);
    begin(&ring, &model, &codec, 2);
    ring.values[0][3] = NAN;
    assert_int_equal(tern_ring_exchange_encode(&ring.exchanges[0]), TERN_ERR_NON_FINITE);
    end(&ring);
}
