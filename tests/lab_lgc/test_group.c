// Whole rounds: phases, conservation, who decodes what, what is counted.
#include "lab_lgc/small_group.h"
#include "tests/cases.h"
#include "util/math.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const enum tern_lgc_form forms[] = {TERN_LGC_SERVER, TERN_LGC_RING_MEAN,
                                           TERN_LGC_RING_GATHER};
enum { FORMS = 3 };

CASE(phases_follow_each_other)
{
    for (int i = 0; i < FORMS; i++) {
        struct small_group small;
        const struct tern_lgc_settings settings = small_settings(forms[i]);
        small_open(&small, &settings, 0);
        small_play(&small, SMALL_ROUNDS);
        const struct tern_lgc_tally *tally = small.group.tally;
        assert_int_equal(small.group.coded_from, SMALL_EXACT + SMALL_TRAINING + 1);
        assert_int_equal(tally[TERN_LGC_PHASE_EXACT].rounds, SMALL_EXACT);
        assert_int_equal(tally[TERN_LGC_PHASE_TRAINING].rounds, SMALL_TRAINING);
        assert_int_equal(tally[TERN_LGC_PHASE_CODED].rounds,
                         SMALL_ROUNDS - SMALL_EXACT - SMALL_TRAINING);
        assert_int_equal(small.group.trained,
                         SMALL_TRAINING * (forms[i] == TERN_LGC_RING_GATHER ? SMALL_CLIENTS : 1));
        assert_int_equal(small.group.without_code, 0);
        assert_int_equal(small.group.refused, 0);
        small_close(&small);
    }
}

static double unaccounted_of(const struct tern_lgc_settings *settings)
{
    struct small_group small;
    small_open(&small, settings, 0);
    small_play(&small, SMALL_ROUNDS);
    const double unaccounted = tern_lgc_group_unaccounted(&small.group);
    small_close(&small);
    return unaccounted;
}

CASE(buffers_conserve)
{
    struct tern_lgc_settings settings = small_settings(TERN_LGC_SERVER);
    assert_true(unaccounted_of(&settings) < 1e-6);
    settings.momentum = 0.9f;
    settings.density = 0.5f;
    assert_true(unaccounted_of(&settings) < 1e-6);
    settings = small_settings(TERN_LGC_RING_GATHER);
    assert_true(unaccounted_of(&settings) < 1e-6);
}

// The figure tells where they do not: the paper's feedback, and a mean of codes that is decoded once.
CASE(what_is_lost_is_told)
{
    struct tern_lgc_settings settings = small_settings(TERN_LGC_SERVER);
    settings.feedback = TERN_LGC_FEEDBACK_CLEARED;
    assert_true(unaccounted_of(&settings) > 1e-3);
    settings = small_settings(TERN_LGC_RING_MEAN);
    const double mean = unaccounted_of(&settings);
    assert_true(mean > 1e-6 && mean < 0.05);
}

CASE(codes_wait_until_the_autoencoder_is_good_enough)
{
    struct small_group small;
    struct tern_lgc_settings settings = small_settings(TERN_LGC_SERVER);
    settings.accept = 1e-9f;
    small_open(&small, &settings, 0);
    small_play(&small, SMALL_ROUNDS);
    assert_int_equal(small.group.coded_from, 0);
    assert_int_equal(small.group.phase, TERN_LGC_PHASE_TRAINING);
    assert_int_equal(small.group.trained, SMALL_ROUNDS - SMALL_EXACT);
    assert_int_equal(small.group.tally[TERN_LGC_PHASE_CODED].down[TERN_LGC_PIECE_WEIGHTS], 0);
    small_close(&small);
}

CASE(a_seed_gives_the_same_bits)
{
    for (int i = 0; i < FORMS; i++) {
        struct small_group a;
        struct small_group b;
        const struct tern_lgc_settings settings = small_settings(forms[i]);
        small_open(&a, &settings, 0);
        small_open(&b, &settings, 0);
        small_play(&a, SMALL_ROUNDS);
        small_play(&b, SMALL_ROUNDS);
        assert_memory_equal(a.weights, b.weights, a.model.count * sizeof(float));
        small_close(&a);
        small_close(&b);
    }
}

// --- What a client can know is enough to take out of its buffer what the server added

// Copies of the messages of one round.
struct heard {
    uint8_t *lead;
    size_t lead_len;
    uint8_t *bytes[SMALL_CLIENTS];
    size_t len[SMALL_CLIENTS];
};

static uint8_t *copy_of(const struct tern_lgc_message *message)
{
    uint8_t *copy = malloc(message->len);
    assert_non_null(copy);
    memcpy(copy, message->bytes, message->len);
    return copy;
}

static bool hear(void *ctx, uint32_t client, enum tern_lgc_way way,
                 struct tern_lgc_message *message)
{
    struct heard *heard = ctx;
    if (way == TERN_LGC_WAY_LEAD) {
        heard->lead = copy_of(message);
        heard->lead_len = message->len;
    } else {
        heard->bytes[client] = copy_of(message);
        heard->len[client] = message->len;
    }
    return true;
}

// The common part by the leader's message and the weights alone.
static void decode_alone(const struct tern_lgc_group *group, const struct heard *heard, float *out)
{
    const uint32_t learned = group->plan.learned;
    const size_t len = tern_autoencoder_code_length(&group->autoencoder, learned);
    uint32_t at[128];
    float code[64];
    const float none[64] = {0};
    struct tern_lgc_reader reader = {.bytes = heard->lead, .len = heard->lead_len};
    assert_int_equal(tern_lgc_take_indices(&reader, &group->plan, at), TERN_OK);
    assert_int_equal(tern_lgc_take_values(&reader, TERN_LGC_PIECE_CODE, code, len), TERN_OK);
    const size_t size = tern_autoencoder_workspace(&group->autoencoder, learned);
    void *workspace = malloc(size);
    assert_int_equal(tern_autoencoder_decode(&group->autoencoder,
                                             group->coder + group->autoencoder.encoder_count, code,
                                             none, learned, 1, workspace, size, out),
                     TERN_OK);
    free(workspace);
}

// A client's learned values by its own message and the common part.
static void decode_own(const struct tern_lgc_group *group, const struct heard *heard,
                       uint32_t client, const float *common, float *out)
{
    float rest[64];
    float scale = 0;
    struct tern_lgc_reader reader = {.bytes = heard->bytes[client], .len = heard->len[client]};
    assert_int_equal(tern_lgc_take_values(&reader, TERN_LGC_PIECE_EXACT, rest, group->plan.exact),
                     TERN_OK);
    assert_int_equal(tern_lgc_take_values(&reader, TERN_LGC_PIECE_VALUES, rest, group->plan.plain),
                     TERN_OK);
    assert_int_equal(
        tern_lgc_take_scaled(&reader, TERN_LGC_PIECE_INNOVATION, &scale, rest, group->plan.learned),
        TERN_OK);
    for (uint32_t i = 0; i < group->plan.learned; i++) {
        out[i] = scale * common[i] + rest[i];
        // An innovation is what the common part lacks.
        const float value = group->clients[client].picked[group->plan.plain + i];
        assert_true(rest[i] == 0 ||
                    fabsf(value - out[i]) <= 1e-6f * (fabsf(value) + fabsf(rest[i])));
    }
}

static void check_left(const struct tern_lgc_group *group, const struct tern_lgc_client *own,
                       const float *out)
{
    const struct tern_lgc_plan *plan = &group->plan;
    double left = 0;
    double was = 0;
    for (uint32_t i = 0; i < plan->learned; i++) {
        const float value = own->picked[plan->plain + i];
        const uint32_t at = group->at[plan->plain + i];
        assert_true(own->error[at] == value - out[i]);
        assert_true(own->velocity[at] == 0);
        left += (double)own->error[at] * (double)own->error[at];
        was += (double)value * (double)value;
    }
    // However good the autoencoder is: by unit and innovation it is always less.
    assert_true(left < was);
}

CASE(a_client_takes_out_what_the_server_added)
{
    struct small_group small;
    struct heard heard = {.lead_len = 0};
    const struct tern_lgc_settings settings = small_settings(TERN_LGC_SERVER);
    small_open(&small, &settings, 0);
    small_play(&small, SMALL_ROUNDS - 1);
    small.group.link = (struct tern_lgc_link){&heard, hear};
    small_play(&small, SMALL_ROUNDS);
    float common[64];
    float out[64];
    double mean[64] = {0};
    decode_alone(&small.group, &heard, common);
    for (uint32_t client = 0; client < SMALL_CLIENTS; client++) {
        decode_own(&small.group, &heard, client, common, out);
        check_left(&small.group, &small.group.clients[client], out);
        for (uint32_t i = 0; i < small.group.plan.learned; i++) {
            mean[i] += (double)out[i] / SMALL_CLIENTS;
        }
        free(heard.bytes[client]);
    }
    for (uint32_t i = 0; i < small.group.plan.learned; i++) {
        const uint32_t at = small.group.at[small.group.plan.plain + i];
        assert_true(fabs((double)small.group.update[at] - mean[i]) <= 1e-6 * fabs(mean[i]));
    }
    free(heard.lead);
    small_close(&small);
}

// What is decoded in a ring is the code as it is sent, in float16, in the unit that fits each node's values.
CASE(a_ring_decodes_what_was_sent)
{
    struct small_group small;
    const struct tern_lgc_settings settings = small_settings(TERN_LGC_RING_GATHER);
    small_open(&small, &settings, 0);
    small_play(&small, SMALL_ROUNDS);
    const struct tern_lgc_group *group = &small.group;
    for (uint32_t client = 0; client < SMALL_CLIENTS; client++) {
        const struct tern_lgc_client *own = &group->clients[client];
        const size_t learned = group->plan.plain;
        double left = 0;
        double was = 0;
        for (size_t i = learned; i < tern_lgc_picks(&group->plan); i++) {
            left += pow((double)own->error[group->at[i]], 2);
            was += pow((double)own->picked[i], 2);
        }
        assert_true(left < was);
    }
    for (size_t i = 0; i < 16; i++) {
        // A half has 10 bits of a float's 23.
        assert_int_equal(tern_float_bits(group->code[i]) & 0x1FFFu, 0);
    }
    small_close(&small);
}

// --- Bytes

CASE(bytes_are_counted_by_kind)
{
    struct small_group small;
    const struct tern_lgc_settings settings = small_settings(TERN_LGC_SERVER);
    small_open(&small, &settings, 0);
    small_play(&small, SMALL_ROUNDS);
    const struct tern_lgc_group *group = &small.group;
    const struct tern_lgc_tally *exact = &group->tally[TERN_LGC_PHASE_EXACT];
    const struct tern_lgc_tally *coded = &group->tally[TERN_LGC_PHASE_CODED];
    // A kind, a length of two or three bytes, a mode byte, and float32.
    assert_int_equal(exact->up[TERN_LGC_PIECE_EXACT],
                     SMALL_EXACT * SMALL_CLIENTS * (1 + 2 + 1 + 4 * 1720));
    assert_int_equal(coded->up[TERN_LGC_PIECE_EXACT],
                     coded->rounds * SMALL_CLIENTS * (1 + 2 + 1 + 4 * 56));
    assert_int_equal(coded->up[TERN_LGC_PIECE_VALUES],
                     coded->rounds * SMALL_CLIENTS * (1 + 2 + 1 + 4 * 32));
    // One code of 16 halves in a round; everybody but the leader is told it.
    assert_int_equal(coded->up[TERN_LGC_PIECE_CODE], coded->rounds * (1 + 1 + 1 + 2 * 16));
    assert_int_equal(coded->down[TERN_LGC_PIECE_CODE],
                     (SMALL_CLIENTS - 1) * coded->up[TERN_LGC_PIECE_CODE]);
    assert_int_equal(coded->down[TERN_LGC_PIECE_INDICES],
                     (SMALL_CLIENTS - 1) * coded->up[TERN_LGC_PIECE_INDICES]);
    const uint64_t weights = 1 + 2 + 1 + 4 * (uint64_t)group->autoencoder.count;
    assert_int_equal(coded->down[TERN_LGC_PIECE_WEIGHTS], SMALL_CLIENTS * weights);
    small_close(&small);
}

CASE(a_ring_counts_what_its_nodes_pass_on)
{
    struct small_group small;
    const struct tern_lgc_settings settings = small_settings(TERN_LGC_RING_MEAN);
    small_open(&small, &settings, 0);
    small_play(&small, SMALL_ROUNDS);
    const struct tern_lgc_tally *tally = small.group.tally;
    const struct tern_lgc_tally *coded = &tally[TERN_LGC_PHASE_CODED];
    // 2 (N - 1) / N of each node, and the leader's scale that N - 1 are told.
    assert_int_equal(tally[TERN_LGC_PHASE_EXACT].up[TERN_LGC_PIECE_EXACT],
                     SMALL_EXACT * 6 * 4 * 1720);
    assert_int_equal(tally[TERN_LGC_PHASE_TRAINING].up[TERN_LGC_PIECE_VALUES],
                     SMALL_TRAINING * 12 * 4 * 84);
    assert_int_equal(coded->up[TERN_LGC_PIECE_CODE], coded->rounds * (6 * 4 * 16 + 3 * 4));
    assert_int_equal(coded->up[TERN_LGC_PIECE_VALUES], coded->rounds * 6 * 4 * 32);
    assert_int_equal(coded->up[TERN_LGC_PIECE_WEIGHTS],
                     3 * (1 + 2 + 1 + 4 * (uint64_t)small.group.autoencoder.count));
    assert_int_equal(coded->down[TERN_LGC_PIECE_WEIGHTS], 0);
    small_close(&small);
}
