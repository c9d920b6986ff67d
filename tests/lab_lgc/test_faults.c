// Messages that are lost or bad, and clients that join later: what a round does then, and that nothing is lost by it.
#include "lab_lgc/small_group.h"
#include "tests/cases.h"
#include "util/bytes.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CODED = SMALL_EXACT + SMALL_TRAINING + 1 }; // the first coded round

enum fault { LOSE, CUT, CUT_INDICES, NAN_CODE, ONE_MORE, NAN_SCALE, NAN_EXACT };

// What the link does to the messages of one kind of sender, from `round` on, `times` times.
struct trouble {
    struct small_group *small;
    enum fault fault;
    enum tern_lgc_way way;
    bool of_leader; // else of the client behind it
    uint32_t round;
    uint32_t times;
    uint32_t whose; // client whose message it was
    enum tern_lgc_feedback feedback;
};

// The body of the piece of a kind, or NULL; *head: where its kind stands.
static uint8_t *piece(struct tern_lgc_message *message, enum tern_lgc_kind kind, size_t *head)
{
    for (size_t at = 0; at < message->len;) {
        uint64_t len = 0;
        const size_t used = tern_get_varint(message->bytes + at + 1, message->len - at - 1, &len);
        assert_true(used > 0);
        *head = at;
        at += 1 + used;
        if (message->bytes[*head] == (uint8_t)kind) {
            return message->bytes + at;
        }
        at += (size_t)len;
    }
    return NULL;
}

// Takes the last number of the code, which ends a leader's message, off: one half less than there should be. Of other
// messages two bytes.
static void cut(struct tern_lgc_message *message)
{
    size_t head = 0;
    const uint8_t *body = piece(message, TERN_LGC_PIECE_CODE, &head);
    if (body == NULL) {
        message->len -= 2;
        return;
    }
    assert_true(message->bytes[head + 1] < 128); // one byte of length
    message->bytes[head + 1] = (uint8_t)(message->bytes[head + 1] - 2);
    message->len -= 2;
}

static void spoil(struct tern_lgc_message *message, enum fault fault)
{
    size_t head = 0;
    uint8_t *body = NULL;
    switch (fault) {
    case LOSE:
        break;
    case CUT:
        cut(message);
        break;
    case CUT_INDICES:
        message->len = message->of_kind[TERN_LGC_PIECE_INDICES] - 2;
        break;
    case NAN_CODE:
        body = piece(message, TERN_LGC_PIECE_CODE, &head);
        assert_non_null(body);
        tern_put_le16(body + 1, 0x7E00); // behind the mode byte
        break;
    case ONE_MORE:
        message->bytes[message->len++] = 0;
        break;
    case NAN_SCALE:
        body = piece(message, TERN_LGC_PIECE_INNOVATION, &head);
        assert_non_null(body);
        tern_put_f32(body, NAN);
        break;
    case NAN_EXACT:
        body = piece(message, TERN_LGC_PIECE_EXACT, &head);
        assert_non_null(body);
        tern_put_f32(body + 1, INFINITY);
        break;
    }
}

static bool trouble_some(void *ctx, uint32_t client, enum tern_lgc_way way,
                         struct tern_lgc_message *message)
{
    struct trouble *trouble = ctx;
    const struct tern_lgc_group *group = &trouble->small->group;
    const bool leads = client == group->leader;
    if (trouble->small->round < trouble->round || trouble->times == 0 || way != trouble->way ||
        leads != trouble->of_leader) {
        return true;
    }
    trouble->times--;
    trouble->whose = client;
    spoil(message, trouble->fault);
    return trouble->fault != LOSE;
}

static void open_with(struct small_group *small, struct trouble *trouble)
{
    struct tern_lgc_settings settings = small_settings(TERN_LGC_SERVER);
    settings.feedback = trouble->feedback;
    small_open(small, &settings, 0);
    trouble->small = small;
    small->group.link = (struct tern_lgc_link){trouble, trouble_some};
    small_play(small, trouble->round - 1);
}

static void check_conserved(const struct small_group *small)
{
    assert_true(tern_lgc_group_unaccounted(&small->group) < 1e-6);
}

// How many of the learned places the last update moved.
static uint32_t learned_moved(const struct small_group *small)
{
    const struct tern_lgc_plan *plan = &small->group.plan;
    uint32_t moved = 0;
    for (uint32_t i = 0; i < plan->learned; i++) {
        moved += small->group.update[small->group.at[plan->plain + i]] != 0;
    }
    return moved;
}

// How many of the learned places of a client have no velocity any more.
static uint32_t learned_stopped(const struct small_group *small, uint32_t client)
{
    const struct tern_lgc_plan *plan = &small->group.plan;
    uint32_t stopped = 0;
    for (uint32_t i = 0; i < plan->learned; i++) {
        stopped += small->group.clients[client].velocity[small->group.at[plan->plain + i]] == 0;
    }
    return stopped;
}

CASE(without_a_code_innovations_count)
{
    const enum fault faults[] = {CUT, NAN_CODE, ONE_MORE};
    const enum tern_result refusals[] = {TERN_ERR_CORRUPT, TERN_ERR_NON_FINITE, TERN_ERR_CORRUPT};
    for (int i = 0; i < 3; i++) {
        struct small_group small;
        struct trouble trouble = {.fault = faults[i],
                                  .way = TERN_LGC_WAY_LEAD,
                                  .of_leader = true,
                                  .round = CODED + 3,
                                  .times = 1};
        open_with(&small, &trouble);
        small_play(&small, CODED + 3);
        assert_int_equal(trouble.times, 0);
        assert_int_equal(small.group.without_code, 1);
        assert_int_equal(small.group.counted, SMALL_CLIENTS);
        assert_false(small.group.code_arrived);
        // Each client sends 6 of 52 learned places; the others move on by their velocity.
        assert_in_range(learned_moved(&small), 6, 24);
        assert_int_equal(learned_stopped(&small, 0), 6);
        assert_int_equal(learned_stopped(&small, 3), 6);
        assert_int_equal(small.group.refused, 1);
        assert_int_equal(small.group.last.round, CODED + 3);
        assert_int_equal(small.group.last.client, trouble.whose);
        assert_int_equal(small.group.last.kind, TERN_LGC_PIECE_CODE);
        assert_int_equal(small.group.last.result, refusals[i]);
        check_conserved(&small);
        // The next round has one again.
        small_play(&small, SMALL_ROUNDS);
        assert_int_equal(small.group.without_code, 1);
        assert_true(learned_moved(&small) > 24);
        check_conserved(&small);
        small_close(&small);
    }
}

// Where the server alone decodes, it makes nothing of an older code.
CASE(without_a_code_the_server_decodes_nothing)
{
    struct small_group small;
    struct trouble trouble = {.fault = NAN_CODE,
                              .way = TERN_LGC_WAY_LEAD,
                              .of_leader = true,
                              .round = CODED + 3,
                              .times = 1,
                              .feedback = TERN_LGC_FEEDBACK_CLEARED};
    open_with(&small, &trouble);
    small_play(&small, CODED + 3);
    assert_int_equal(small.group.without_code, 1);
    assert_in_range(learned_moved(&small), 6, 24);
    small_play(&small, CODED + 4);
    assert_true(learned_moved(&small) > 24);
    small_close(&small);
}

// A leader whose values have no finite code sends none, and nobody is refused.
CASE(a_leader_may_have_no_code)
{
    struct small_group small;
    struct trouble trouble = {.times = 0};
    trouble.round = CODED + 3;
    open_with(&small, &trouble);
    small.group.coder[0] = NAN;
    small_play(&small, CODED + 3);
    assert_int_equal(small.group.without_code, 1);
    assert_int_equal(small.group.refused, 0);
    assert_int_equal(small.group.counted, SMALL_CLIENTS);
    assert_in_range(learned_moved(&small), 6, 24);
    check_conserved(&small);
    small_close(&small);
}

// Its code stands, as all have it; but it is not in the mean, and keeps what it has.
CASE(a_leader_whose_update_is_lost_still_leads)
{
    struct small_group small;
    struct trouble trouble = {
        .way = TERN_LGC_WAY_UPDATE, .of_leader = true, .round = CODED + 3, .times = 1};
    open_with(&small, &trouble);
    small_play(&small, CODED + 3);
    assert_int_equal(trouble.times, 0);
    assert_true(small.group.code_arrived);
    assert_int_equal(small.group.counted, SMALL_CLIENTS - 1);
    const struct tern_lgc_client *leader = &small.group.clients[trouble.whose];
    for (uint32_t k = 0; k < tern_lgc_picks(&small.group.plan); k++) {
        assert_true(leader->error[small.group.at[k]] == leader->picked[k]);
    }
    check_conserved(&small);
    small_close(&small);
}

CASE(a_bad_client_is_left_out_and_keeps_what_it_has)
{
    const enum fault faults[] = {NAN_SCALE, NAN_EXACT, CUT, LOSE};
    const enum tern_lgc_kind kinds[] = {TERN_LGC_PIECE_INNOVATION, TERN_LGC_PIECE_EXACT,
                                        TERN_LGC_PIECE_INNOVATION, TERN_LGC_PIECE_EXACT};
    for (int i = 0; i < 4; i++) {
        struct small_group small;
        struct trouble trouble = {
            .fault = faults[i], .way = TERN_LGC_WAY_UPDATE, .round = CODED + 3, .times = 1};
        open_with(&small, &trouble);
        small_play(&small, CODED + 3);
        assert_int_equal(small.group.counted, SMALL_CLIENTS - 1);
        assert_true(small.group.code_arrived);
        if (faults[i] != LOSE) {
            assert_int_equal(small.group.last.client, trouble.whose);
            assert_int_equal(small.group.last.kind, kinds[i]);
        }
        const struct tern_lgc_client *left_out = &small.group.clients[trouble.whose];
        for (uint32_t k = 0; k < tern_lgc_picks(&small.group.plan); k++) {
            assert_true(left_out->error[small.group.at[k]] == left_out->picked[k]);
        }
        check_conserved(&small);
        small_close(&small);
    }
}

CASE(another_leads_where_indices_are_lost_or_bad)
{
    const enum fault faults[] = {LOSE, CUT_INDICES};
    for (int i = 0; i < 2; i++) {
        struct small_group small;
        struct trouble trouble = {.fault = faults[i],
                                  .way = TERN_LGC_WAY_LEAD,
                                  .of_leader = true,
                                  .round = CODED + 3,
                                  .times = 2};
        open_with(&small, &trouble);
        small_play(&small, CODED + 3);
        assert_int_equal(trouble.times, 0);
        assert_int_equal(small.group.leader, (trouble.whose + 1) % SMALL_CLIENTS);
        assert_int_equal(small.group.refused, faults[i] == LOSE ? 0 : 2);
        assert_true(faults[i] == LOSE || small.group.last.kind == TERN_LGC_PIECE_INDICES);
        assert_true(small.group.code_arrived);
        assert_int_equal(small.group.counted, SMALL_CLIENTS);
        check_conserved(&small);
        small_close(&small);
    }
}

CASE(without_any_indices_nothing_moves)
{
    struct small_group small;
    struct trouble trouble = {
        .way = TERN_LGC_WAY_LEAD, .of_leader = true, .round = CODED + 3, .times = SMALL_CLIENTS};
    open_with(&small, &trouble);
    float before[1720];
    memcpy(before, small.weights, sizeof before);
    small_play(&small, CODED + 3);
    assert_int_equal(small.group.counted, 0);
    assert_memory_equal(before, small.weights, sizeof before);
    check_conserved(&small);
    small_play(&small, SMALL_ROUNDS);
    check_conserved(&small);
    small_close(&small);
}

CASE(the_autoencoder_learns_of_what_arrives_alone)
{
    struct small_group groups[2];
    struct trouble troubles[2];
    for (int i = 0; i < 2; i++) {
        troubles[i] =
            (struct trouble){.way = TERN_LGC_WAY_UPDATE, .round = SMALL_EXACT + 4, .times = 1};
        open_with(&groups[i], &troubles[i]);
        // What the server has of earlier rounds is nothing to learn from.
        struct tern_lgc_group *group = &groups[i].group;
        for (uint32_t k = 0; i == 1 && k < SMALL_CLIENTS * tern_lgc_picks(&group->plan); k++) {
            group->received[k] = 1;
        }
        small_play(&groups[i], SMALL_EXACT + 4);
        assert_int_equal(troubles[i].times, 0);
    }
    assert_memory_equal(groups[0].group.coder, groups[1].group.coder,
                        groups[0].group.autoencoder.count * sizeof(float));
    small_close(&groups[0]);
    small_close(&groups[1]);
}

CASE(a_client_that_joins_later_is_given_the_autoencoder)
{
    const enum tern_lgc_form forms[] = {TERN_LGC_SERVER, TERN_LGC_RING_GATHER};
    for (int i = 0; i < 2; i++) {
        struct small_group small;
        const struct tern_lgc_settings settings = small_settings(forms[i]);
        small_open(&small, &settings, 1);
        small_play(&small, CODED + 3);
        const bool server = forms[i] == TERN_LGC_SERVER;
        struct tern_lgc_tally *coded = &small.group.tally[TERN_LGC_PHASE_CODED];
        const uint64_t *given = (server ? coded->down : coded->up) + TERN_LGC_PIECE_WEIGHTS;
        const uint64_t one = 1 + 2 + 1 + 4 * (uint64_t)small.group.autoencoder.count;
        assert_int_equal(*given, (server ? 3 : 2) * one); // of a ring's first node they come
        assert_int_equal(tern_lgc_group_join(&small.group, SMALL_CLIENTS - 1), TERN_OK);
        assert_int_equal(*given, (server ? 4 : 3) * one);
        assert_int_equal(tern_lgc_group_join(&small.group, SMALL_CLIENTS - 1), TERN_ERR_ARGUMENT);
        bool led = false;
        for (uint32_t round = CODED + 4; round <= SMALL_ROUNDS; round++) {
            small_play(&small, round);
            assert_int_equal(small.group.counted, SMALL_CLIENTS);
            led = led || small.group.leader == SMALL_CLIENTS - 1;
        }
        assert_true(led);
        check_conserved(&small);
        small_close(&small);
    }
}

CASE(before_there_are_codes_a_client_is_given_nothing)
{
    struct small_group small;
    const struct tern_lgc_settings settings = small_settings(TERN_LGC_SERVER);
    small_open(&small, &settings, 1);
    small_play(&small, SMALL_EXACT + 3);
    assert_int_equal(tern_lgc_group_join(&small.group, SMALL_CLIENTS - 1), TERN_OK);
    const struct tern_lgc_tally *coded = &small.group.tally[TERN_LGC_PHASE_CODED];
    assert_int_equal(coded->down[TERN_LGC_PIECE_WEIGHTS], 0);
    small_play(&small, CODED);
    assert_int_equal(coded->down[TERN_LGC_PIECE_WEIGHTS],
                     SMALL_CLIENTS * (1 + 2 + 1 + 4 * (uint64_t)small.group.autoencoder.count));
    check_conserved(&small);
    small_close(&small);
}

// An autoencoder that has no finite code for anybody: all values go as they are.
CASE(a_ring_without_codes_sums_values)
{
    const enum tern_lgc_form forms[] = {TERN_LGC_RING_MEAN, TERN_LGC_RING_GATHER};
    for (int i = 0; i < 2; i++) {
        struct small_group small;
        const struct tern_lgc_settings settings = small_settings(forms[i]);
        small_open(&small, &settings, 0);
        small_play(&small, CODED);
        const struct tern_lgc_tally before = small.group.tally[TERN_LGC_PHASE_CODED];
        const double unaccounted = tern_lgc_group_unaccounted(&small.group);
        small.group.coder[0] = NAN;
        small_play(&small, CODED + 1);
        assert_int_equal(small.group.without_code, 1);
        const struct tern_lgc_tally *coded = &small.group.tally[TERN_LGC_PHASE_CODED];
        assert_int_equal(coded->up[TERN_LGC_PIECE_CODE], before.up[TERN_LGC_PIECE_CODE]);
        assert_int_equal(coded->up[TERN_LGC_PIECE_VALUES] - before.up[TERN_LGC_PIECE_VALUES],
                         6 * 4 * 84);
        for (uint32_t k = 0; k < tern_lgc_picks(&small.group.plan); k++) {
            assert_true(small.group.clients[1].error[small.group.at[k]] == 0);
        }
        assert_true(tern_lgc_group_unaccounted(&small.group) < unaccounted + 1e-6);
        small_close(&small);
    }
}
