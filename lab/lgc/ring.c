// The forms with a ring. What is summed goes round as in ring/exchange: of a sum of n values each node passes
// 2 (N - 1) / N * n on, of what everybody is to have as it is, (N - 1) times its own. Bytes here are of all nodes
// together, and sums are taken in the order of the nodes.
#include "lgc/group_internal.h"

#include <string.h>

static uint64_t nodes_of(const struct tern_lgc_group *group)
{
    return tern_lgc_present(group);
}

// Bytes of `count` float32 that are summed, and of `len` bytes of each node, or of one of them, that all get.
static uint64_t summed(const struct tern_lgc_group *group, size_t count)
{
    return 2 * (nodes_of(group) - 1) * sizeof(float) * (uint64_t)count;
}

static uint64_t passed(const struct tern_lgc_group *group, size_t len)
{
    return (nodes_of(group) - 1) * (uint64_t)len;
}

static void tally(struct tern_lgc_group *group, enum tern_lgc_kind kind, uint64_t bytes)
{
    tern_lgc_tally_of(group)->up[kind] += bytes;
}

enum tern_result tern_lgc_ring_exact(struct tern_lgc_group *group, uint32_t round)
{
    const uint32_t count = group->plan.count;
    for (uint32_t i = 0; i < group->client_count; i++) {
        struct tern_lgc_client *client = &group->clients[i];
        if (!client->present) {
            continue;
        }
        for (uint32_t k = 0; k < count; k++) {
            group->sum[k] += (double)client->error[k];
        }
        group->counted++;
        client->sent_last = round;
        memset(client->error, 0, count * sizeof *client->error);
    }
    tally(group, TERN_LGC_PIECE_EXACT, summed(group, count));
    return TERN_OK;
}

// The node that is drawn picks, and passes its indices on.
static enum tern_result lead(struct tern_lgc_group *group, uint32_t round)
{
    group->leader = tern_lgc_draw(group, round);
    tern_lgc_message_clear(&group->message);
    tern_lgc_pick(&group->plan, group->clients[group->leader].error, group->words, group->at);
    TERN_TRY(tern_lgc_put_indices(&group->message, &group->plan, group->at));
    tally(group, TERN_LGC_PIECE_INDICES, passed(group, group->message.len));
    for (uint32_t i = 0; i < group->client_count; i++) {
        if (group->clients[i].present) {
            tern_lgc_client_gather(&group->clients[i], &group->plan, group->at);
            group->clients[i].sent_last = round;
        }
    }
    return TERN_OK;
}

// Makes of code[len] what others will read of it; the message has its bytes.
static enum tern_result narrow(struct tern_lgc_group *group, size_t len)
{
    tern_lgc_message_clear(&group->message);
    TERN_TRY(tern_lgc_put_values(&group->message, TERN_LGC_PIECE_CODE, &group->settings.code,
                                 group->code, len));
    struct tern_lgc_reader reader = {.bytes = group->message.bytes, .len = group->message.len};
    return tern_lgc_take_values(&reader, TERN_LGC_PIECE_CODE, group->code, len);
}

// What the codes say of each node's learned values, in the unit that fits them best, to received.
static enum tern_result gather_codes(struct tern_lgc_group *group)
{
    const uint32_t learned = group->plan.learned;
    const size_t len = tern_autoencoder_code_length(&group->autoencoder, learned);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < group->client_count; i++) {
        struct tern_lgc_client *client = &group->clients[i];
        if (!client->present) {
            continue;
        }
        const float *values = tern_lgc_learned(group, client->picked);
        float *made = tern_lgc_learned(group, tern_lgc_received(group, i));
        TERN_TRY(tern_lgc_encode(group, values, tern_autoencoder_scale(values, learned)));
        TERN_TRY(narrow(group, len));
        TERN_TRY(tern_lgc_decode(group, NULL, 1, made));
        client->scale = tern_lgc_fit(values, made, learned);
        bytes += passed(group, group->message.len + sizeof client->scale);
        for (uint32_t k = 0; k < learned; k++) {
            made[k] *= client->scale;
        }
    }
    tally(group, TERN_LGC_PIECE_CODE, bytes);
    return TERN_OK;
}

// All codes in the unit of the leader, summed on their way. A node takes out of its buffer what its own code is decoded
// to; that the mean of these is not what the mean code is decoded to is what this form loses.
static enum tern_result mean_codes(struct tern_lgc_group *group)
{
    const uint32_t learned = group->plan.learned;
    const size_t len = tern_autoencoder_code_length(&group->autoencoder, learned);
    const float *leads = tern_lgc_learned(group, group->clients[group->leader].picked);
    const float scale = tern_autoencoder_scale(leads, learned);
    memset(group->mean_code, 0, len * sizeof *group->mean_code);
    for (uint32_t i = 0; i < group->client_count; i++) {
        const struct tern_lgc_client *client = &group->clients[i];
        if (!client->present) {
            continue;
        }
        TERN_TRY(tern_lgc_encode(group, tern_lgc_learned(group, client->picked), scale));
        for (size_t k = 0; k < len; k++) {
            group->mean_code[k] += group->code[k];
        }
        TERN_TRY(tern_lgc_decode(group, NULL, scale,
                                 tern_lgc_learned(group, tern_lgc_received(group, i))));
    }
    for (size_t k = 0; k < len; k++) {
        group->code[k] = group->mean_code[k] / (float)nodes_of(group);
    }
    TERN_TRY(tern_lgc_decode(group, NULL, scale, group->decoded));
    tally(group, TERN_LGC_PIECE_CODE, summed(group, len) + passed(group, sizeof scale));
    return TERN_OK;
}

// Where a node's values have no code, or the mean has no values, all are summed as they are.
static enum tern_result code_round(struct tern_lgc_group *group)
{
    const enum tern_result result =
        group->settings.form == TERN_LGC_RING_GATHER ? gather_codes(group) : mean_codes(group);
    group->code_arrived = result == TERN_OK;
    group->without_code += result == TERN_ERR_NON_FINITE;
    return result == TERN_ERR_NON_FINITE ? TERN_OK : result;
}

// Completes what each node is taken to have sent, and counts what all take.
static void count_all(struct tern_lgc_group *group)
{
    const struct tern_lgc_plan *plan = &group->plan;
    for (uint32_t i = 0; i < group->client_count; i++) {
        const struct tern_lgc_client *client = &group->clients[i];
        if (!client->present) {
            continue;
        }
        const bool mean = group->code_arrived && group->settings.form == TERN_LGC_RING_MEAN;
        float *sent = tern_lgc_received(group, i);
        memcpy(sent, client->picked,
               (group->code_arrived ? plan->plain : tern_lgc_picks(plan)) * sizeof *sent);
        memcpy(group->scratch, sent, tern_lgc_picks(plan) * sizeof *sent);
        if (mean) {
            memcpy(tern_lgc_learned(group, group->scratch), group->decoded,
                   plan->learned * sizeof *sent);
        }
        tern_lgc_exact_of(plan, client->error, group->exact);
        tern_lgc_count(group, group->exact, group->scratch);
    }
}

// Who trains the autoencoder has to see each node's values, so that these go round as they are.
static void tally_values(struct tern_lgc_group *group)
{
    const struct tern_lgc_plan *plan = &group->plan;
    const uint32_t picks = tern_lgc_picks(plan);
    tally(group, TERN_LGC_PIECE_EXACT, summed(group, plan->exact));
    if (group->phase == TERN_LGC_PHASE_TRAINING) {
        tally(group, TERN_LGC_PIECE_VALUES, nodes_of(group) * passed(group, picks * sizeof(float)));
    } else {
        tally(group, TERN_LGC_PIECE_VALUES,
              summed(group, group->code_arrived ? plan->plain : picks));
    }
}

enum tern_result tern_lgc_ring_picked(struct tern_lgc_group *group, uint32_t round)
{
    TERN_TRY(lead(group, round));
    if (group->phase == TERN_LGC_PHASE_CODED) {
        TERN_TRY(code_round(group));
    }
    count_all(group);
    tally_values(group);
    if (group->phase == TERN_LGC_PHASE_TRAINING) {
        TERN_TRY(tern_lgc_train_coder(group, round));
    }
    for (uint32_t i = 0; i < group->client_count; i++) {
        if (group->clients[i].present) {
            tern_lgc_settle(group, &group->clients[i], tern_lgc_received(group, i), true);
        }
    }
    return TERN_OK;
}
