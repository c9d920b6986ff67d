// The form with a parameter server. What the server knows of a client is what the client's message says; what a
// client knows of the others is in the downloads. Client and server decode the same code with the same weights in
// the same arithmetic, so that what a client takes out of its buffer is, bit for bit, what the server added. So
// group->decoded and received[] stand for the client's own, too.
#include "lgc/group_internal.h"

#include "util/math.h"
#include <string.h>

// --- A client's side

static enum tern_result put_copy(struct tern_lgc_group *group, enum tern_lgc_kind kind,
                                 const float *values, size_t count)
{
    memcpy(group->scratch, values, count * sizeof *values);
    return tern_lgc_put_values(&group->message, kind, &tern_lgc_float32, group->scratch, count);
}

static enum tern_result put_exact(struct tern_lgc_group *group, const float *values)
{
    tern_lgc_exact_of(&group->plan, values, group->exact);
    return put_copy(group, TERN_LGC_PIECE_EXACT, group->exact, group->plan.exact);
}

// What a client says of its learned values, beside a common part that it knows or (the paper's) does not.
static enum tern_result put_innovation(struct tern_lgc_group *group, struct tern_lgc_client *client)
{
    const uint32_t learned = group->plan.learned;
    const float *values = tern_lgc_learned(group, client->picked);
    const struct tern_codec codec = {
        .id = TERN_CODEC_SPARSE, .density = group->settings.innovation, .coder = TERN_INDEX_AUTO};
    if (group->settings.feedback == TERN_LGC_FEEDBACK_CLEARED) {
        client->scale = tern_autoencoder_scale(values, learned);
        memcpy(group->scratch, values, learned * sizeof *values);
    } else {
        client->scale = group->code_arrived ? tern_lgc_fit(values, group->decoded, learned) : 0.0f;
        for (uint32_t i = 0; i < learned; i++) {
            group->scratch[i] = values[i] - client->scale * group->decoded[i];
        }
    }
    tern_lgc_innovation(group->scratch, learned, group->settings.innovation, group->words,
                        client->innovation);
    memcpy(group->scratch, client->innovation, learned * sizeof *values);
    return tern_lgc_put_scaled(&group->message, TERN_LGC_PIECE_INNOVATION, client->scale, &codec,
                               group->scratch, learned);
}

// A code that overflows is not sent; the round does without it.
static enum tern_result put_code(struct tern_lgc_group *group, const struct tern_lgc_client *client)
{
    const float *learned = tern_lgc_learned(group, client->picked);
    const size_t len = tern_autoencoder_code_length(&group->autoencoder, group->plan.learned);
    enum tern_result result =
        tern_lgc_encode(group, learned, tern_autoencoder_scale(learned, group->plan.learned));
    if (result == TERN_OK) {
        result = tern_lgc_put_values(&group->message, TERN_LGC_PIECE_CODE, &group->settings.code,
                                     group->code, len);
    }
    return result == TERN_ERR_NON_FINITE ? TERN_OK : result;
}

// What a leader sends before all others.
static enum tern_result write_lead(struct tern_lgc_group *group, struct tern_lgc_client *client)
{
    tern_lgc_message_clear(&group->message);
    tern_lgc_pick(&group->plan, client->error, group->words, group->at);
    tern_lgc_client_gather(client, &group->plan, group->at);
    TERN_TRY(tern_lgc_put_indices(&group->message, &group->plan, group->at));
    return group->phase == TERN_LGC_PHASE_CODED ? put_code(group, client) : TERN_OK;
}

static enum tern_result write_update(struct tern_lgc_group *group, struct tern_lgc_client *client)
{
    const struct tern_lgc_plan *plan = &group->plan;
    tern_lgc_message_clear(&group->message);
    TERN_TRY(put_exact(group, client->error));
    if (group->phase == TERN_LGC_PHASE_TRAINING) {
        return put_copy(group, TERN_LGC_PIECE_VALUES, client->picked, tern_lgc_picks(plan));
    }
    TERN_TRY(put_copy(group, TERN_LGC_PIECE_VALUES, client->picked, plan->plain));
    return put_innovation(group, client);
}

// --- The server's side

static bool carried(struct tern_lgc_group *group, uint32_t client, enum tern_lgc_way way)
{
    const struct tern_lgc_message *message = &group->message;
    struct tern_lgc_tally *tally = tern_lgc_tally_of(group);
    for (unsigned kind = 0; kind < TERN_LGC_PIECE_KINDS; kind++) {
        tally->up[kind] += message->of_kind[kind];
    }
    tally->leader_up += client == group->leader ? message->len : 0;
    return group->link.carry == NULL ||
           group->link.carry(group->link.ctx, client, way, &group->message);
}

static struct tern_lgc_reader reader_of(const struct tern_lgc_group *group)
{
    return (struct tern_lgc_reader){.bytes = group->message.bytes, .len = group->message.len};
}

static void refuse(struct tern_lgc_group *group, uint32_t round, uint32_t client,
                   enum tern_lgc_kind kind, enum tern_result result)
{
    group->last = (struct tern_lgc_refusal){round, client, kind, result};
    group->refused++;
}

// Reads a client's message: exact values to group->exact, the rest to its place. Nothing is counted yet.
static enum tern_result read_update(struct tern_lgc_group *group, struct tern_lgc_reader *reader,
                                    uint32_t client, float *scale)
{
    const struct tern_lgc_plan *plan = &group->plan;
    float *picks = tern_lgc_received(group, client);
    TERN_TRY(tern_lgc_take_values(reader, TERN_LGC_PIECE_EXACT, group->exact, plan->exact));
    if (group->phase == TERN_LGC_PHASE_TRAINING) {
        TERN_TRY(tern_lgc_take_values(reader, TERN_LGC_PIECE_VALUES, picks, tern_lgc_picks(plan)));
    } else {
        TERN_TRY(tern_lgc_take_values(reader, TERN_LGC_PIECE_VALUES, picks, plan->plain));
        TERN_TRY(tern_lgc_take_scaled(reader, TERN_LGC_PIECE_INNOVATION, scale,
                                      tern_lgc_learned(group, picks), plan->learned));
    }
    return tern_lgc_take_end(reader);
}

// What the server makes of a client's learned values: the common part in the client's unit, and the innovation.
// Without a code the innovation alone.
static enum tern_result decode_update(struct tern_lgc_group *group, uint32_t client, float scale)
{
    float *learned = tern_lgc_learned(group, tern_lgc_received(group, client));
    if (!group->code_arrived) {
        return TERN_OK;
    }
    if (group->settings.feedback == TERN_LGC_FEEDBACK_CLEARED) {
        return tern_lgc_decode(group, learned, scale, learned);
    }
    for (uint32_t i = 0; i < group->plan.learned; i++) {
        group->scratch[i] = scale * group->decoded[i] + learned[i];
        if (!tern_is_finite(group->scratch[i])) {
            return TERN_ERR_NON_FINITE;
        }
    }
    memcpy(learned, group->scratch, group->plan.learned * sizeof *learned);
    return TERN_OK;
}

// Sends and reads one client's update, and counts it where it can be believed.
static enum tern_result take_update(struct tern_lgc_group *group, uint32_t round, uint32_t id)
{
    struct tern_lgc_client *client = &group->clients[id];
    float scale = 0;
    TERN_TRY(write_update(group, client));
    if (!carried(group, id, TERN_LGC_WAY_UPDATE)) {
        return TERN_OK;
    }
    struct tern_lgc_reader reader = reader_of(group);
    enum tern_result result = read_update(group, &reader, id, &scale);
    if (result == TERN_OK && group->phase == TERN_LGC_PHASE_CODED) {
        result = decode_update(group, id, scale);
    }
    if (result != TERN_OK) {
        refuse(group, round, id, reader.asked, result);
        return TERN_OK;
    }
    client->sent_last = round;
    tern_lgc_count(group, group->exact, tern_lgc_received(group, id));
    return TERN_OK;
}

// The common part of all clients: what the code is decoded to in no unit, and without an innovation.
static enum tern_result take_code(struct tern_lgc_group *group, struct tern_lgc_reader *reader)
{
    const uint32_t learned = group->plan.learned;
    const size_t len = tern_autoencoder_code_length(&group->autoencoder, learned);
    TERN_TRY(tern_lgc_take_values(reader, TERN_LGC_PIECE_CODE, group->code, len));
    TERN_TRY(tern_lgc_take_end(reader));
    memset(group->scratch, 0, learned * sizeof *group->scratch);
    return tern_lgc_decode(group, group->scratch, 1, group->decoded);
}

// Indices that are lost or bad leave the client no leader; a code that is bad leaves the round without one.
static bool follow(struct tern_lgc_group *group, uint32_t round, uint32_t client)
{
    if (!carried(group, client, TERN_LGC_WAY_LEAD)) {
        return false;
    }
    struct tern_lgc_reader reader = reader_of(group);
    enum tern_result result = tern_lgc_take_indices(&reader, &group->plan, group->at);
    if (result != TERN_OK) {
        refuse(group, round, client, reader.asked, result);
        return false;
    }
    if (reader.read == reader.len && group->phase == TERN_LGC_PHASE_CODED) {
        return true; // there was no finite code
    }
    result = group->phase == TERN_LGC_PHASE_CODED ? take_code(group, &reader)
                                                  : tern_lgc_take_end(&reader);
    group->code_arrived = group->phase == TERN_LGC_PHASE_CODED && result == TERN_OK;
    if (result != TERN_OK) {
        refuse(group, round, client, reader.asked, result);
    }
    return true;
}

// The round's leader: the one drawn, or the first behind it whose indices arrive whole.
static enum tern_result lead(struct tern_lgc_group *group, uint32_t round, bool *led)
{
    uint32_t client = tern_lgc_draw(group, round);
    *led = false;
    for (uint32_t left = tern_lgc_present(group); left > 0 && !*led; left--) {
        group->leader = client;
        TERN_TRY(write_lead(group, &group->clients[client]));
        *led = follow(group, round, client);
        client = *led ? client : tern_lgc_next(group, client);
    }
    return TERN_OK;
}

// --- Downloads

static void count_down(struct tern_lgc_group *group, uint32_t clients)
{
    for (unsigned kind = 0; kind < TERN_LGC_PIECE_KINDS; kind++) {
        tern_lgc_tally_of(group)->down[kind] += clients * (uint64_t)group->message.of_kind[kind];
    }
}

static double mean_of(const struct tern_lgc_group *group, uint32_t i)
{
    return group->counted > 0 ? group->sum[i] / (double)group->counted : 0;
}

// The leader's indices go to all others, and the code to those who are to know what was made of it.
static void count_lead(struct tern_lgc_group *group)
{
    const uint64_t others = tern_lgc_present(group) - 1;
    uint64_t *down = tern_lgc_tally_of(group)->down;
    down[TERN_LGC_PIECE_INDICES] += others * group->message.of_kind[TERN_LGC_PIECE_INDICES];
    if (group->code_arrived && group->settings.feedback == TERN_LGC_FEEDBACK_DECODED) {
        down[TERN_LGC_PIECE_CODE] += others * group->message.of_kind[TERN_LGC_PIECE_CODE];
    }
}

// The mean of what was exact and of what was picked, which all know the places of.
static enum tern_result download(struct tern_lgc_group *group)
{
    const struct tern_lgc_plan *plan = &group->plan;
    for (uint32_t i = 0; i < plan->count; i++) {
        group->scratch[i] = (float)mean_of(group, i);
    }
    tern_lgc_exact_of(plan, group->scratch, group->exact);
    for (uint32_t i = 0; i < tern_lgc_picks(plan); i++) {
        group->scratch[i] = (float)mean_of(group, group->at[i]);
    }
    tern_lgc_message_clear(&group->message);
    TERN_TRY(tern_lgc_put_values(&group->message, TERN_LGC_PIECE_VALUES, &tern_lgc_float32,
                                 group->scratch, tern_lgc_picks(plan)));
    TERN_TRY(put_copy(group, TERN_LGC_PIECE_EXACT, group->exact, plan->exact));
    count_down(group, tern_lgc_present(group));
    return TERN_OK;
}

// --- Rounds

enum tern_result tern_lgc_server_picked(struct tern_lgc_group *group, uint32_t round)
{
    bool led = false;
    TERN_TRY(lead(group, round, &led));
    if (!led) {
        return TERN_OK;
    }
    count_lead(group);
    uint32_t client = group->leader;
    for (uint32_t left = tern_lgc_present(group); left > 0; left--) {
        tern_lgc_client_gather(&group->clients[client], &group->plan, group->at);
        TERN_TRY(take_update(group, round, client));
        client = tern_lgc_next(group, client);
    }
    if (group->phase == TERN_LGC_PHASE_TRAINING) {
        TERN_TRY(tern_lgc_train_coder(group, round));
    } else {
        group->without_code += !group->code_arrived;
    }
    TERN_TRY(download(group));
    for (uint32_t i = 0; i < group->client_count; i++) {
        if (group->clients[i].sent_last == round) {
            tern_lgc_settle(group, &group->clients[i], tern_lgc_received(group, i),
                            group->phase == TERN_LGC_PHASE_TRAINING || group->code_arrived);
        }
    }
    return TERN_OK;
}

enum tern_result tern_lgc_server_exact(struct tern_lgc_group *group, uint32_t round)
{
    const uint32_t count = group->plan.count;
    struct tern_lgc_message *message = &group->message;
    for (uint32_t i = 0; i < group->client_count; i++) {
        struct tern_lgc_client *client = &group->clients[i];
        if (!client->present) {
            continue;
        }
        tern_lgc_message_clear(message);
        TERN_TRY(put_copy(group, TERN_LGC_PIECE_EXACT, client->error, count));
        if (!carried(group, i, TERN_LGC_WAY_UPDATE)) {
            continue;
        }
        struct tern_lgc_reader reader = reader_of(group);
        enum tern_result result =
            tern_lgc_take_values(&reader, TERN_LGC_PIECE_EXACT, group->scratch, count);
        result = result == TERN_OK ? tern_lgc_take_end(&reader) : result;
        if (result != TERN_OK) {
            refuse(group, round, i, reader.asked, result);
            continue;
        }
        for (uint32_t k = 0; k < count; k++) {
            group->sum[k] += (double)group->scratch[k];
        }
        group->counted++;
        client->sent_last = round;
        memset(client->error, 0, count * sizeof *client->error);
    }
    for (uint32_t i = 0; i < count; i++) {
        group->scratch[i] = (float)mean_of(group, i);
    }
    tern_lgc_message_clear(message);
    TERN_TRY(tern_lgc_put_values(message, TERN_LGC_PIECE_EXACT, &tern_lgc_float32, group->scratch,
                                 count));
    count_down(group, tern_lgc_present(group));
    return TERN_OK;
}
