// Error feedback over many rounds, for every codec of the table in every storage: what was fed in
// is what was decoded and what is still held, within the rounding that is counted up on the way.
// Rounds follow the client: some updates are given back, and sometimes a directive lets the buffer
// decay.
#include "any_codec.h"
#include "check.h"
#include "tests/sanitized.h"

#include "error_feedback/error_buffer.h"
#include "tests/cases.h"
#include <math.h>
#include <string.h>

// softmax:90-10: a segment of 900 values and one of 10, so that a block lies in both.
enum {
    COUNT = 910,
    BOUND = 5 * COUNT + 256,
    ROUNDS = FEWER_TRIALS ? 15 : 50,
    STORAGES = 3,
    DRAWS = 3
};

struct feed {
    struct tern_codec codec;
    const struct tern_codec_entry *entry;
    char spec[ANY_CODEC_SPEC_MAX];
    struct tern_error_buffer buffer;
    float filter;
    float bytes[COUNT];    // of the buffer: room for any storage
    float velocity[COUNT]; // u
    double owed[COUNT];    // what the buffer would be without rounding
    double room[COUNT];    // most that rounding can have added up to

    // The values of one round:
    float work[COUNT];
    float sum[COUNT]; // t
    float decoded[COUNT];
    uint8_t container[BOUND];
    size_t len;
};

static struct tern_model model;
static struct tern_prng rng;

static int start(void **state)
{
    (void)state;
    tern_prng_init(&rng, 33, TERN_PRNG_TEST, 0, 0);
    assert_int_equal(tern_model_from_spec(&model, "softmax:90-10"), TERN_OK);
    assert_int_equal(model.count, COUNT);
    assert_true(tern_container_bound_any(&model) <= BOUND);
    return 0;
}

// --- What rounding may do

static void allow_addition(struct feed *feed, const float *results)
{
    for (int i = 0; i < COUNT; i++) {
        feed->room[i] += fabs((double)results[i]) * 0x1p-24 + 0x1p-149;
    }
}

static double peak_of_block(const float *values, int i)
{
    double peak = 0;
    for (int k = i - i % TERN_ERROR_BLOCK;
         k < COUNT && k / TERN_ERROR_BLOCK == i / TERN_ERROR_BLOCK; k++) {
        peak = fmax(peak, fabs((double)values[k]));
    }
    return peak;
}

// Once for storing values of these magnitudes.
static void allow_storing(struct feed *feed, const float *values)
{
    for (int i = 0; i < COUNT; i++) {
        if (feed->buffer.storage == TERN_ERROR_BFLOAT16) {
            feed->room[i] += fabs((double)values[i]) * 0x1p-8;
        } else if (feed->buffer.storage == TERN_ERROR_INT8) {
            feed->room[i] += peak_of_block(values, i) / 250;
        }
    }
}

static void check_against_owed(struct feed *feed, int round)
{
    float held[COUNT];
    tern_error_buffer_load(&feed->buffer, held);
    for (int i = 0; i < COUNT; i++) {
        const double off = fabs(feed->owed[i] - (double)held[i]);
        if (!(off <= feed->room[i])) {
            fail_msg(
                "%s in storage %d, round %d, value %d: owed %.9g, held %.9g, off by %.3g of %.3g",
                feed->spec, (int)feed->buffer.storage, round, i, feed->owed[i], (double)held[i],
                off, feed->room[i]);
        }
    }
}

// --- A round

// Mostly small, with a few large values, as changes of a model are.
static void draw_change(struct feed *feed)
{
    for (int i = 0; i < COUNT; i++) {
        const float size = tern_prng_below(&rng, 40) == 0 ? 1 : 0.02f;
        feed->work[i] = normal_float(&rng) * size;
    }
}

static void move_velocity(struct feed *feed)
{
    float old[COUNT];
    float change[COUNT];
    memcpy(old, feed->velocity, sizeof old);
    memcpy(change, feed->work, sizeof change);
    assert_int_equal(tern_error_momentum(feed->velocity, feed->codec.momentum, feed->work, COUNT),
                     TERN_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_true(feed->work[i] == feed->codec.momentum * old[i] + change[i]);
    }
}

static void decay(struct feed *feed, float gamma)
{
    float held[COUNT];
    tern_error_buffer_load(&feed->buffer, held);
    for (int i = 0; i < COUNT && gamma != 1; i++) {
        feed->owed[i] *= (double)gamma;
        feed->room[i] += fabs((double)held[i]) * 0x1p-24;
    }
}

static void encode(struct feed *feed, int round)
{
    const struct tern_encode_context context = {
        .seed = 5, .round = (uint32_t)round, .client = 9, .velocity = feed->velocity};
    memcpy(feed->sum, feed->work, sizeof feed->sum);
    assert_int_equal(tern_container_encode(&feed->codec, &context, &model, feed->work,
                                           feed->container, sizeof feed->container, &feed->len),
                     TERN_OK);
    assert_int_equal(tern_container_decode(&model, feed->container, feed->len, feed->decoded),
                     TERN_OK);
}

// What the encoder left is exactly what the decoder lacks; a velocity is cleared where it was sent.
static void check_left(struct feed *feed)
{
    for (int i = 0; i < COUNT; i++) {
        const float expected =
            feed->entry->feedback == TERN_FEEDBACK_NONE ? 0 : feed->sum[i] - feed->decoded[i];
        if (feed->work[i] != expected) {
            fail_msg("%s, value %d: t %a, decoded %a, left %a", feed->spec, i, (double)feed->sum[i],
                     (double)feed->decoded[i], (double)feed->work[i]);
        }
        if (feed->entry->feedback == TERN_FEEDBACK_MOMENTUM && feed->decoded[i] != 0) {
            assert_true(feed->velocity[i] == 0);
        }
    }
}

static void give_back(struct feed *feed)
{
    float held[COUNT];
    assert_int_equal(
        tern_error_buffer_give_back(&feed->buffer, &model, feed->container, feed->len, feed->work),
        TERN_OK);
    tern_error_buffer_load(&feed->buffer, held);
    allow_addition(feed, held);
    allow_storing(feed, held);
    allow_storing(feed, held); // the block that lies in both segments
    for (int i = 0; i < COUNT; i++) {
        feed->owed[i] += (double)feed->decoded[i];
    }
}

static void one_round(struct feed *feed, int round)
{
    const float gamma = round % 11 == 0 ? 0.5f : 1;
    const bool late = round % 7 == 0;
    draw_change(feed);
    if (feed->entry->feedback == TERN_FEEDBACK_MOMENTUM) {
        move_velocity(feed);
    }
    decay(feed, gamma);
    for (int i = 0; i < COUNT; i++) {
        feed->owed[i] += (double)feed->filter * (double)feed->work[i];
    }
    assert_int_equal(tern_error_buffer_add_to(&feed->buffer, gamma, feed->work), TERN_OK);
    allow_addition(feed, feed->work);
    encode(feed, round);
    check_left(feed);
    allow_addition(feed, feed->work);
    for (int i = 0; i < COUNT; i++) {
        feed->owed[i] -= (double)feed->filter * (double)feed->decoded[i];
    }
    const struct tern_error_next next = {feed->work, feed->filter, gamma};
    tern_error_buffer_store(&feed->buffer, &next);
    if (feed->filter != 1) { // three roundings more, none above |m| + |left|
        allow_addition(feed, feed->sum);
        allow_addition(feed, feed->sum);
        allow_addition(feed, feed->sum);
        allow_addition(feed, feed->work);
        allow_storing(feed, feed->sum);
    }
    allow_storing(feed, feed->work);
    if (late) {
        give_back(feed);
    }
}

// Without feedback the buffer holds nothing but what was given back, and that for a round.
static void forget_what_is_lost(struct feed *feed)
{
    float held[COUNT];
    tern_error_buffer_load(&feed->buffer, held);
    for (int i = 0; i < COUNT; i++) {
        feed->owed[i] = (double)held[i];
        feed->room[i] = 0;
    }
}

static void check_empty(struct feed *feed)
{
    static const float zeros[COUNT];
    float held[COUNT];
    tern_error_buffer_load(&feed->buffer, held);
    assert_same_floats(held, zeros, COUNT);
}

static void run(const struct tern_codec_entry *entry, const struct tern_codec *codec,
                const char *spec, enum tern_error_storage storage)
{
    static struct feed feed;
    memset(&feed, 0, sizeof feed);
    feed.codec = *codec;
    feed.entry = entry;
    feed.filter = entry->feedback == TERN_FEEDBACK_FILTERED ? codec->filter : 1;
    feed.buffer = (struct tern_error_buffer){storage, feed.bytes, COUNT};
    memcpy(feed.spec, spec, sizeof feed.spec);
    for (int round = 1; round <= ROUNDS; round++) {
        one_round(&feed, round);
        if (entry->feedback != TERN_FEEDBACK_NONE) {
            check_against_owed(&feed, round);
            continue;
        }
        if (round % 7 != 0) {
            check_empty(&feed);
        }
        forget_what_is_lost(&feed);
    }
}

static uint32_t below(void *arg, uint32_t bound)
{
    return tern_prng_below(arg, bound);
}

CASE_WITH(test_every_codec_in_every_storage, start, NULL)
{
    const struct any_source source = {below, &rng};
    const struct tern_codec_entry *entry = NULL;
    for (size_t e = 0; (entry = tern_codec_entry_at(e)) != NULL; e++) {
        for (int s = 0; s < STORAGES * (DRAWS + 2); s++) {
            char spec[ANY_CODEC_SPEC_MAX] = "";
            const int kind = s / STORAGES;
            const struct tern_codec codec = kind < 2
                                                ? corner_codec(entry, kind == 0 ? 0 : ~0u, spec)
                                                : any_codec(entry, &source, spec);
            run(entry, &codec, spec, (enum tern_error_storage)(s % STORAGES));
        }
    }
}

// beta = 1 of scalecom is plain error feedback: the same bits as sparse with the same density.
CASE_WITH(test_a_filter_of_one_is_plain, start, NULL)
{
    struct tern_codec codecs[2];
    static struct feed feeds[2];
    memset(feeds, 0, sizeof feeds);
    assert_int_equal(tern_codec_parse("sparse:p=0.05", &codecs[0], NULL), TERN_OK);
    assert_int_equal(tern_codec_parse("scalecom:p=0.05,beta=1", &codecs[1], NULL), TERN_OK);
    for (int f = 0; f < 2; f++) {
        tern_prng_init(&rng, 34, TERN_PRNG_TEST, 0, 0);
        feeds[f].codec = codecs[f];
        feeds[f].entry = tern_codec_entry(codecs[f].id);
        feeds[f].filter = f == 0 ? 1 : codecs[f].filter;
        feeds[f].buffer = (struct tern_error_buffer){TERN_ERROR_INT8, feeds[f].bytes, COUNT};
        for (int round = 1; round <= ROUNDS; round++) {
            one_round(&feeds[f], round);
        }
    }
    assert_memory_equal(feeds[0].bytes, feeds[1].bytes, sizeof feeds[0].bytes);
    assert_same_floats(feeds[0].decoded, feeds[1].decoded, COUNT);
}
