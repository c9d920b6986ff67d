#include "lgc/group.h"

#include "codec/kernels/kernels.h"
#include "error_feedback/error_buffer.h"
#include "util/math.h"
#include "util/prng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Which velocities a client clears after a round, so that old gradients do not persist in the momentum (Lin et al., Deep
// Gradient Compression, section 3.3): those of all values that it picked, or of those for which it sent a value other than 0.
enum tern_lgc_mask { TERN_LGC_MASK_ALL, TERN_LGC_MASK_SENT };

static inline struct tern_lgc_tally *tally_of(struct tern_lgc_group *group)
{
    return &group->tally[group->phase];
}

static inline float *received_of(const struct tern_lgc_group *group, uint32_t client)
{
    return group->received + (size_t)client * tern_lgc_picks(&group->plan);
}

// Returns the learned values within a client's picks.
static inline float *learned_of(const struct tern_lgc_group *group, float *picks)
{
    return picks + group->plan.plain;
}

// --- Clients

// A client has a velocity and an error buffer per value. A change is added to the velocity and the velocity to the
// error (momentum correction and local accumulation: Lin et al., ICLR 2018, sections 3.1 and 3.2). A round subtracts
// exactly what it applied from the error, so that
//   sum of velocities after each round = sum of applied values + error
// except for rounding. Pure; the caller owns all memory.

// velocity = momentum * velocity + change; error += velocity. work: [count], holds the change, is overwritten.
// TERN_ERR_NON_FINITE  a sum is not finite; nothing has changed but work
static enum tern_result take_change(struct tern_lgc_client *client, uint32_t count, float momentum,
                                    float *work)
{
    const struct tern_error_buffer buffer = {TERN_ERROR_FLOAT32, client->error, count};
    TERN_TRY(tern_error_momentum(client->velocity, momentum, work, count));
    TERN_TRY(tern_error_buffer_add_to(&buffer, 1, work));
    memcpy(client->error, work, count * sizeof *work);
    return TERN_OK;
}

// Copies the picked values: picked = error[at].
static void gather(struct tern_lgc_client *client, const struct tern_lgc_plan *plan,
                   const uint32_t *at)
{
    for (uint32_t i = 0; i < tern_lgc_picks(plan); i++) {
        client->picked[i] = client->error[at[i]];
    }
}

// Keeps the share of learned[count] with the largest magnitudes, and 0 elsewhere. words: count / 64 + 1 of them.
static void mark_innovation(const float *learned, uint32_t count, float share, uint64_t *words,
                            float *innovation)
{
    const struct tern_selection selection =
        tern_kernel_select(learned, count, tern_select_count(share, count));
    tern_kernel_select_mark(learned, count, selection, words);
    for (uint32_t i = 0; i < count; i++) {
        innovation[i] = words[i / 64] >> i % 64 & 1 ? learned[i] : 0;
    }
}

// Clears the error of all exact values, which a round has applied.
static void client_sent_exact(struct tern_lgc_client *client, const struct tern_lgc_plan *plan)
{
    for (uint32_t i = 0; i < plan->part_count; i++) {
        const struct tern_lgc_part *part = &plan->parts[i];
        if (part->role == TERN_LGC_EXACT) {
            memset(client->error + part->offset, 0, part->count * sizeof *client->error);
        }
    }
}

static void client_sent(struct tern_lgc_client *client, const uint32_t *at, const float *sent,
                        uint32_t count, enum tern_lgc_mask mask)
{
    for (uint32_t i = 0; i < count; i++) {
        client->error[at[i]] -= sent[i];
        if (mask == TERN_LGC_MASK_ALL || sent[i] != 0) {
            client->velocity[at[i]] = 0;
        }
    }
}

// --- The group

const struct tern_codec tern_lgc_float32 = {.id = TERN_CODEC_FLOAT32};

// A stream of TERN_PRNG_FLEET that the fleet does not use.
enum { STREAM_LEADER = 0x4C474301 };

// --- Memory

static bool valid(const struct tern_lgc_settings *settings, uint32_t clients)
{
    return clients >= 1 && settings->innovation > 0 && settings->innovation <= 1 &&
           settings->momentum >= 0 && settings->momentum < 1 && settings->accept > 0 &&
           settings->form <= TERN_LGC_RING_GATHER && tern_codec_entry(settings->code.id) != NULL;
}

static enum tern_result open_coder(struct tern_lgc_group *group)
{
    const struct tern_lgc_settings *settings = &group->settings;
    const struct tern_autoencoder_settings coder = {
        .pattern = settings->form == TERN_LGC_SERVER ? TERN_AUTOENCODER_PARAMETER_SERVER
                                                     : TERN_AUTOENCODER_RING_ALLREDUCE,
        .width = settings->width,
        .channels = settings->channels,
        .decoders = 1,
    };
    TERN_TRY(tern_autoencoder_init(&group->autoencoder, &coder));
    const size_t coding = tern_autoencoder_workspace(&group->autoencoder, group->plan.learned);
    const size_t training = tern_autoencoder_training_workspace(
        &group->autoencoder, group->plan.learned, group->client_count);
    if (coding == 0 || training == 0) {
        return TERN_ERR_TOO_LARGE;
    }
    group->workspace_size = coding > training ? coding : training;
    return TERN_OK;
}

static void *zeros(size_t count, size_t each)
{
    return calloc(count > 0 ? count : 1, each);
}

static bool place_client(const struct tern_lgc_group *group, struct tern_lgc_client *client)
{
    client->velocity = zeros(group->plan.count, sizeof(float));
    client->error = zeros(group->plan.count, sizeof(float));
    client->picked = zeros(tern_lgc_picks(&group->plan), sizeof(float));
    client->innovation = zeros(group->plan.learned, sizeof(float));
    return client->velocity != NULL && client->error != NULL && client->picked != NULL &&
           client->innovation != NULL;
}

static bool place_clients(struct tern_lgc_group *group)
{
    group->clients = zeros(group->client_count, sizeof *group->clients);
    bool placed = group->clients != NULL;
    for (uint32_t i = 0; placed && i < group->client_count; i++) {
        group->clients[i].id = i;
        placed = place_client(group, &group->clients[i]);
    }
    return placed;
}

static bool place(struct tern_lgc_group *group)
{
    const struct tern_lgc_plan *plan = &group->plan;
    const size_t picks = tern_lgc_picks(plan);
    const size_t code = tern_autoencoder_code_length(&group->autoencoder, plan->learned);
    group->coder = zeros(group->autoencoder.count, sizeof(float));
    group->coder_velocity = zeros(group->autoencoder.count, sizeof(float));
    group->workspace = malloc(group->workspace_size);
    group->inputs = zeros(plan->count, sizeof(double));
    group->applied = zeros(plan->count, sizeof(double));
    group->sum = zeros(plan->count, sizeof(double));
    group->update = zeros(plan->count, sizeof(float));
    group->scratch = zeros(plan->count > code ? plan->count : code, sizeof(float));
    group->at = zeros(picks, sizeof(uint32_t));
    group->words = zeros(tern_lgc_pick_words(plan), sizeof(uint64_t));
    group->code = zeros(code, sizeof(float));
    group->mean_code = zeros(code, sizeof(float));
    group->decoded = zeros(plan->learned, sizeof(float));
    group->exact = zeros(plan->exact, sizeof(float));
    group->received = zeros(picks * group->client_count, sizeof(float));
    group->message.size =
        tern_lgc_message_bound(plan, group->autoencoder.count) + tern_codec_bound_any(plan->count);
    group->message.bytes = malloc(group->message.size);
    return place_clients(group) && group->coder != NULL && group->coder_velocity != NULL &&
           group->workspace != NULL && group->inputs != NULL && group->applied != NULL &&
           group->sum != NULL && group->update != NULL && group->scratch != NULL &&
           group->at != NULL && group->words != NULL && group->code != NULL &&
           group->mean_code != NULL && group->decoded != NULL && group->exact != NULL &&
           group->received != NULL && group->message.bytes != NULL;
}

enum tern_result tern_lgc_group_open(const struct tern_lgc_settings *settings,
                                     const struct tern_model *model, uint32_t clients,
                                     struct tern_lgc_group *group)
{
    *group = (struct tern_lgc_group){
        .model = model, .settings = *settings, .client_count = clients, .loss = INFINITY};
    if (!valid(settings, clients)) {
        return TERN_ERR_ARGUMENT;
    }
    TERN_TRY(tern_lgc_plan_make(model, settings->density, &group->plan));
    TERN_TRY(open_coder(group));
    if (!place(group)) {
        tern_lgc_group_close(group);
        return TERN_ERR_NO_MEMORY;
    }
    tern_autoencoder_init_weights(&group->autoencoder, settings->seed, group->coder);
    return TERN_OK;
}

void tern_lgc_group_close(struct tern_lgc_group *group)
{
    for (uint32_t i = 0; group->clients != NULL && i < group->client_count; i++) {
        struct tern_lgc_client *client = &group->clients[i];
        free(client->velocity);
        free(client->error);
        free(client->picked);
        free(client->innovation);
    }
    free(group->clients);
    free(group->coder);
    free(group->coder_velocity);
    free(group->workspace);
    free(group->inputs);
    free(group->applied);
    free(group->sum);
    free(group->update);
    free(group->scratch);
    free(group->at);
    free(group->words);
    free(group->code);
    free(group->mean_code);
    free(group->decoded);
    free(group->exact);
    free(group->received);
    free(group->message.bytes);
    *group = (struct tern_lgc_group){.model = NULL};
}

// --- Present clients

// Counts the present clients.
static uint32_t count_present(const struct tern_lgc_group *group)
{
    uint32_t present = 0;
    for (uint32_t i = 0; i < group->client_count; i++) {
        present += group->clients[i].present;
    }
    return present;
}

static uint32_t next(const struct tern_lgc_group *group, uint32_t client)
{
    do {
        client = (client + 1) % group->client_count;
    } while (!group->clients[client].present);
    return client;
}

// Draws a round's leader among the present clients.
static uint32_t draw(const struct tern_lgc_group *group, uint32_t round)
{
    struct tern_prng rng;
    tern_prng_init(&rng, group->settings.seed, TERN_PRNG_FLEET, round, STREAM_LEADER);
    uint32_t client = group->client_count - 1;
    for (uint32_t left = tern_prng_below(&rng, count_present(group)) + 1; left > 0; left--) {
        client = next(group, client);
    }
    return client;
}

// Returns the number of weights that clients need in coded rounds. If buffers are cleared, only the server decodes.
static uint32_t coder_weights(const struct tern_lgc_group *group)
{
    return group->settings.form == TERN_LGC_SERVER &&
                   group->settings.feedback == TERN_LGC_FEEDBACK_CLEARED
               ? group->autoencoder.encoder_count
               : group->autoencoder.count;
}

// Sends the autoencoder to a client. In a ring the first node has trained it and sends it.
static enum tern_result give_coder(struct tern_lgc_group *group, struct tern_lgc_client *client)
{
    const uint32_t count = coder_weights(group);
    struct tern_lgc_message *message = &group->message;
    struct tern_lgc_tally *tally = &group->tally[TERN_LGC_PHASE_CODED];
    float *copy = malloc(count * sizeof *copy);
    if (copy == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    memcpy(copy, group->coder, count * sizeof *copy);
    tern_lgc_message_clear(message);
    const enum tern_result result =
        tern_lgc_put_values(message, TERN_LGC_PIECE_WEIGHTS, &tern_lgc_float32, copy, count);
    free(copy);
    TERN_TRY(result);
    const bool ring = group->settings.form != TERN_LGC_SERVER;
    if (ring && client->id > 0) {
        tally->up[TERN_LGC_PIECE_WEIGHTS] += message->len;
    } else if (!ring) {
        tally->down[TERN_LGC_PIECE_WEIGHTS] += message->len;
    }
    return TERN_OK;
}

enum tern_result tern_lgc_group_join(struct tern_lgc_group *group, uint32_t client)
{
    if (client >= group->client_count || group->clients[client].present) {
        return TERN_ERR_ARGUMENT;
    }
    group->clients[client].present = true;
    return group->coded_from > 0 ? give_coder(group, &group->clients[client]) : TERN_OK;
}

// --- The autoencoder

static enum tern_result encode(struct tern_lgc_group *group, const float *values, float scale)
{
    return tern_autoencoder_encode(&group->autoencoder, group->coder, values, group->plan.learned,
                                   scale, group->workspace, group->workspace_size, group->code);
}

// Decodes code[] with a client's innovation (NULL in a ring) and scale to values[learned].
static enum tern_result decode(struct tern_lgc_group *group, const float *innovation, float scale,
                               float *values)
{
    return tern_autoencoder_decode(
        &group->autoencoder, group->coder + group->autoencoder.encoder_count, group->code,
        innovation, group->plan.learned, scale, group->workspace, group->workspace_size, values);
}

// Returns the scale s that minimises the sum of (values - s * decoded)²; 0: all of decoded is 0.
static float fit(const float *values, const float *decoded, uint32_t count)
{
    double product = 0;
    double square = 0;
    for (uint32_t i = 0; i < count; i++) {
        product += (double)values[i] * (double)decoded[i];
        square += (double)decoded[i] * (double)decoded[i];
    }
    const float unit = square > 0 ? (float)(product / square) : 0.0f;
    return tern_is_finite(unit) ? unit : 0.0f;
}

static enum tern_result train_step(struct tern_lgc_group *group, size_t nodes, size_t common,
                                   const float *const *values, const float *const *innovations)
{
    enum { MEMORY = 20 }; // steps in the moving average of the loss
    const struct tern_autoencoder_round round = {
        .nodes = nodes,
        .length = group->plan.learned,
        .values = values,
        .innovations = group->settings.form == TERN_LGC_SERVER ? innovations : NULL,
        .common = common,
    };
    struct tern_autoencoder_losses losses;
    TERN_TRY(tern_autoencoder_train_step(&group->autoencoder, &group->settings.training, &round,
                                         group->coder, group->coder_velocity, group->workspace,
                                         group->workspace_size, &losses));
    group->trained++;
    const float share = group->trained < MEMORY ? 1.0f / (float)group->trained : 1.0f / MEMORY;
    group->loss = group->trained == 1 ? losses.reconstruction
                                      : group->loss + share * (losses.reconstruction - group->loss);
    return TERN_OK;
}

// Trains on each vector alone, for the form that decodes each code by itself.
static enum tern_result train_each(struct tern_lgc_group *group, size_t nodes,
                                   const float *const *values)
{
    for (size_t i = 0; i < nodes; i++) {
        TERN_TRY(train_step(group, 1, 0, values + i, NULL));
    }
    return TERN_OK;
}

// Trains one step on the learned values of the counted clients. TERN_ERR_TRAINER
static enum tern_result train_coder(struct tern_lgc_group *group, uint32_t round)
{
    const float **values = zeros(2 * (size_t)group->client_count, sizeof *values);
    size_t nodes = 0;
    size_t common = 0;
    if (values == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    const float **innovations = values + group->client_count;
    for (uint32_t i = 0; i < group->client_count; i++) {
        struct tern_lgc_client *client = &group->clients[i];
        const float *learned = learned_of(group, received_of(group, i));
        // Zeros contain nothing to learn.
        if (client->sent_last != round ||
            !(tern_autoencoder_scale(learned, group->plan.learned) > 0)) {
            continue;
        }
        common = i == group->leader ? nodes : common;
        mark_innovation(learned, group->plan.learned, group->settings.innovation, group->words,
                        client->innovation);
        innovations[nodes] = client->innovation;
        values[nodes++] = learned;
    }
    const enum tern_result result = nodes == 0 ? TERN_OK
                                    : group->settings.form == TERN_LGC_RING_GATHER
                                        ? train_each(group, nodes, values)
                                        : train_step(group, nodes, common, values, innovations);
    free(values);
    return result;
}

// --- Sums

// Adds a client's exact values, and picks, to the sums, and counts it.
static void add_counted(struct tern_lgc_group *group, const float *exact, const float *picks)
{
    const struct tern_lgc_plan *plan = &group->plan;
    for (uint32_t i = 0; i < plan->part_count; i++) {
        const struct tern_lgc_part *part = &plan->parts[i];
        for (uint32_t k = 0; part->role == TERN_LGC_EXACT && k < part->count; k++) {
            group->sum[part->offset + k] += (double)exact[part->first + k];
        }
    }
    for (uint32_t i = 0; i < tern_lgc_picks(plan); i++) {
        group->sum[group->at[i]] += (double)picks[i];
    }
    group->counted++;
}

// Subtracts the applied values from the buffer of a client that the round counted: sent[picks].
static void settle(struct tern_lgc_group *group, struct tern_lgc_client *client, const float *sent,
                   bool all)
{
    const struct tern_lgc_plan *plan = &group->plan;
    const bool cleared = group->settings.feedback == TERN_LGC_FEEDBACK_CLEARED;
    const uint32_t picks = tern_lgc_picks(plan);
    client_sent_exact(client, plan);
    client_sent(client, group->at, cleared ? client->picked : sent, picks,
                all || cleared ? TERN_LGC_MASK_ALL : TERN_LGC_MASK_SENT);
}

// --- With a server

// The form with a parameter server. The server only uses clients' messages, and clients only downloads. Client and
// server decode the same code with the same weights in the same arithmetic, so a client subtracts bit for bit what
// the server added. Therefore group->decoded and received[] also stand for the client's copies.

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

// Appends a client's learned values: its innovation relative to the common part, or, as in the paper, without it.
static enum tern_result put_innovation(struct tern_lgc_group *group, struct tern_lgc_client *client)
{
    const uint32_t learned = group->plan.learned;
    const float *values = learned_of(group, client->picked);
    const struct tern_codec codec = {
        .id = TERN_CODEC_SPARSE, .density = group->settings.innovation, .coder = TERN_INDEX_AUTO};
    if (group->settings.feedback == TERN_LGC_FEEDBACK_CLEARED) {
        client->scale = tern_autoencoder_scale(values, learned);
        memcpy(group->scratch, values, learned * sizeof *values);
    } else {
        client->scale = group->code_arrived ? fit(values, group->decoded, learned) : 0.0f;
        for (uint32_t i = 0; i < learned; i++) {
            group->scratch[i] = values[i] - client->scale * group->decoded[i];
        }
    }
    mark_innovation(group->scratch, learned, group->settings.innovation, group->words,
                    client->innovation);
    memcpy(group->scratch, client->innovation, learned * sizeof *values);
    return tern_lgc_put_scaled(&group->message, TERN_LGC_PIECE_INNOVATION, client->scale, &codec,
                               group->scratch, learned);
}

// Appends the code. A code that overflows is left out, and the round has no code.
static enum tern_result put_code(struct tern_lgc_group *group, const struct tern_lgc_client *client)
{
    const float *learned = learned_of(group, client->picked);
    const size_t len = tern_autoencoder_code_length(&group->autoencoder, group->plan.learned);
    enum tern_result result =
        encode(group, learned, tern_autoencoder_scale(learned, group->plan.learned));
    if (result == TERN_OK) {
        result = tern_lgc_put_values(&group->message, TERN_LGC_PIECE_CODE, &group->settings.code,
                                     group->code, len);
    }
    return result == TERN_ERR_NON_FINITE ? TERN_OK : result;
}

// Writes the leader's message, which precedes all others.
static enum tern_result write_lead(struct tern_lgc_group *group, struct tern_lgc_client *client)
{
    tern_lgc_message_clear(&group->message);
    tern_lgc_pick(&group->plan, client->error, group->words, group->at);
    gather(client, &group->plan, group->at);
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
    struct tern_lgc_tally *tally = tally_of(group);
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

// Reads a client's message: exact values to group->exact, the others to its part of received[]. Counts nothing.
static enum tern_result read_update(struct tern_lgc_group *group, struct tern_lgc_reader *reader,
                                    uint32_t client, float *scale)
{
    const struct tern_lgc_plan *plan = &group->plan;
    float *picks = received_of(group, client);
    TERN_TRY(tern_lgc_take_values(reader, TERN_LGC_PIECE_EXACT, group->exact, plan->exact));
    if (group->phase == TERN_LGC_PHASE_TRAINING) {
        TERN_TRY(tern_lgc_take_values(reader, TERN_LGC_PIECE_VALUES, picks, tern_lgc_picks(plan)));
    } else {
        TERN_TRY(tern_lgc_take_values(reader, TERN_LGC_PIECE_VALUES, picks, plan->plain));
        TERN_TRY(tern_lgc_take_scaled(reader, TERN_LGC_PIECE_INNOVATION, scale,
                                      learned_of(group, picks), plan->learned));
    }
    return tern_lgc_take_end(reader);
}

// Computes a client's learned values at the server: the common part in the client's scale plus the innovation;
// without a code only the innovation.
static enum tern_result decode_update(struct tern_lgc_group *group, uint32_t client, float scale)
{
    float *learned = learned_of(group, received_of(group, client));
    if (!group->code_arrived) {
        return TERN_OK;
    }
    if (group->settings.feedback == TERN_LGC_FEEDBACK_CLEARED) {
        return decode(group, learned, scale, learned);
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

// Sends and reads one client's update, and counts it if it is valid.
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
    add_counted(group, group->exact, received_of(group, id));
    return TERN_OK;
}

// Decodes the common part of all clients: the code with scale 1 and without an innovation.
static enum tern_result take_code(struct tern_lgc_group *group, struct tern_lgc_reader *reader)
{
    const uint32_t learned = group->plan.learned;
    const size_t len = tern_autoencoder_code_length(&group->autoencoder, learned);
    TERN_TRY(tern_lgc_take_values(reader, TERN_LGC_PIECE_CODE, group->code, len));
    TERN_TRY(tern_lgc_take_end(reader));
    memset(group->scratch, 0, learned * sizeof *group->scratch);
    return decode(group, group->scratch, 1, group->decoded);
}

// Reads the leader's message. Lost or invalid indices disqualify the leader; an invalid code only leaves the round
// without a code.
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
        return true; // the leader had no finite code
    }
    result = group->phase == TERN_LGC_PHASE_CODED ? take_code(group, &reader)
                                                  : tern_lgc_take_end(&reader);
    group->code_arrived = group->phase == TERN_LGC_PHASE_CODED && result == TERN_OK;
    if (result != TERN_OK) {
        refuse(group, round, client, reader.asked, result);
    }
    return true;
}

// Chooses the round's leader: the drawn client, or the next one whose indices arrive intact.
static enum tern_result server_lead(struct tern_lgc_group *group, uint32_t round, bool *led)
{
    uint32_t client = draw(group, round);
    *led = false;
    for (uint32_t left = count_present(group); left > 0 && !*led; left--) {
        group->leader = client;
        TERN_TRY(write_lead(group, &group->clients[client]));
        *led = follow(group, round, client);
        client = *led ? client : next(group, client);
    }
    return TERN_OK;
}

// --- Downloads

static void count_down(struct tern_lgc_group *group, uint32_t clients)
{
    for (unsigned kind = 0; kind < TERN_LGC_PIECE_KINDS; kind++) {
        tally_of(group)->down[kind] += clients * (uint64_t)group->message.of_kind[kind];
    }
}

static double mean_of(const struct tern_lgc_group *group, uint32_t i)
{
    return group->counted > 0 ? group->sum[i] / (double)group->counted : 0;
}

// Counts the leader's indices sent to all others, and the code sent to those who decode it.
static void count_lead(struct tern_lgc_group *group)
{
    const uint64_t others = count_present(group) - 1;
    uint64_t *down = tally_of(group)->down;
    down[TERN_LGC_PIECE_INDICES] += others * group->message.of_kind[TERN_LGC_PIECE_INDICES];
    if (group->code_arrived && group->settings.feedback == TERN_LGC_FEEDBACK_DECODED) {
        down[TERN_LGC_PIECE_CODE] += others * group->message.of_kind[TERN_LGC_PIECE_CODE];
    }
}

// Writes and counts the download: the means of the exact and the picked values, whose indices all clients have.
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
    count_down(group, count_present(group));
    return TERN_OK;
}

// --- Rounds

static enum tern_result server_picked(struct tern_lgc_group *group, uint32_t round)
{
    bool led = false;
    TERN_TRY(server_lead(group, round, &led));
    if (!led) {
        return TERN_OK;
    }
    count_lead(group);
    uint32_t client = group->leader;
    for (uint32_t left = count_present(group); left > 0; left--) {
        gather(&group->clients[client], &group->plan, group->at);
        TERN_TRY(take_update(group, round, client));
        client = next(group, client);
    }
    if (group->phase == TERN_LGC_PHASE_TRAINING) {
        TERN_TRY(train_coder(group, round));
    } else {
        group->without_code += !group->code_arrived;
    }
    TERN_TRY(download(group));
    for (uint32_t i = 0; i < group->client_count; i++) {
        if (group->clients[i].sent_last == round) {
            settle(group, &group->clients[i], received_of(group, i),
                   group->phase == TERN_LGC_PHASE_TRAINING || group->code_arrived);
        }
    }
    return TERN_OK;
}

// A round of exact values.
static enum tern_result server_exact(struct tern_lgc_group *group, uint32_t round)
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
    count_down(group, count_present(group));
    return TERN_OK;
}

// --- In a ring

// The forms with a ring. Sums travel as in ring/exchange: for a sum of n values each node sends 2 (N - 1) / N * n;
// for data that all nodes need unchanged, (N - 1) times its own. Bytes are totals of all nodes, and sums are taken in
// the order of the nodes.

static uint64_t nodes_of(const struct tern_lgc_group *group)
{
    return count_present(group);
}

// Return the bytes for summing `count` float32, and for passing `len` bytes of one node to all others.
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
    tally_of(group)->up[kind] += bytes;
}

static enum tern_result ring_exact(struct tern_lgc_group *group, uint32_t round)
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

// The drawn node chooses the indices and passes them on.
static enum tern_result ring_lead(struct tern_lgc_group *group, uint32_t round)
{
    group->leader = draw(group, round);
    tern_lgc_message_clear(&group->message);
    tern_lgc_pick(&group->plan, group->clients[group->leader].error, group->words, group->at);
    TERN_TRY(tern_lgc_put_indices(&group->message, &group->plan, group->at));
    tally(group, TERN_LGC_PIECE_INDICES, passed(group, group->message.len));
    for (uint32_t i = 0; i < group->client_count; i++) {
        if (group->clients[i].present) {
            gather(&group->clients[i], &group->plan, group->at);
            group->clients[i].sent_last = round;
        }
    }
    return TERN_OK;
}

// Encodes code[len] into the message, and replaces it by what receivers decode.
static enum tern_result narrow(struct tern_lgc_group *group, size_t len)
{
    tern_lgc_message_clear(&group->message);
    TERN_TRY(tern_lgc_put_values(&group->message, TERN_LGC_PIECE_CODE, &group->settings.code,
                                 group->code, len));
    struct tern_lgc_reader reader = {.bytes = group->message.bytes, .len = group->message.len};
    return tern_lgc_take_values(&reader, TERN_LGC_PIECE_CODE, group->code, len);
}

// Writes each node's learned values, decoded from its code at the best scale, to received.
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
        const float *values = learned_of(group, client->picked);
        float *made = learned_of(group, received_of(group, i));
        TERN_TRY(encode(group, values, tern_autoencoder_scale(values, learned)));
        TERN_TRY(narrow(group, len));
        TERN_TRY(decode(group, NULL, 1, made));
        client->scale = fit(values, made, learned);
        bytes += passed(group, group->message.len + sizeof client->scale);
        for (uint32_t k = 0; k < learned; k++) {
            made[k] *= client->scale;
        }
    }
    tally(group, TERN_LGC_PIECE_CODE, bytes);
    return TERN_OK;
}

// Sums all codes in the leader's scale. A node subtracts what its own code decodes to. The mean of these differs from
// what the mean code decodes to: this is the error of this form.
static enum tern_result mean_codes(struct tern_lgc_group *group)
{
    const uint32_t learned = group->plan.learned;
    const size_t len = tern_autoencoder_code_length(&group->autoencoder, learned);
    const float *leads = learned_of(group, group->clients[group->leader].picked);
    const float scale = tern_autoencoder_scale(leads, learned);
    memset(group->mean_code, 0, len * sizeof *group->mean_code);
    for (uint32_t i = 0; i < group->client_count; i++) {
        const struct tern_lgc_client *client = &group->clients[i];
        if (!client->present) {
            continue;
        }
        TERN_TRY(encode(group, learned_of(group, client->picked), scale));
        for (size_t k = 0; k < len; k++) {
            group->mean_code[k] += group->code[k];
        }
        TERN_TRY(decode(group, NULL, scale, learned_of(group, received_of(group, i))));
    }
    for (size_t k = 0; k < len; k++) {
        group->code[k] = group->mean_code[k] / (float)nodes_of(group);
    }
    TERN_TRY(decode(group, NULL, scale, group->decoded));
    tally(group, TERN_LGC_PIECE_CODE, summed(group, len) + passed(group, sizeof scale));
    return TERN_OK;
}

// Exchanges codes. If a node's values have no finite code, or the mean code does not decode, the values are summed
// unchanged.
static enum tern_result code_round(struct tern_lgc_group *group)
{
    const enum tern_result result =
        group->settings.form == TERN_LGC_RING_GATHER ? gather_codes(group) : mean_codes(group);
    group->code_arrived = result == TERN_OK;
    group->without_code += result == TERN_ERR_NON_FINITE;
    return result == TERN_ERR_NON_FINITE ? TERN_OK : result;
}

// Completes what each node has sent, and adds it to the sums.
static void count_all(struct tern_lgc_group *group)
{
    const struct tern_lgc_plan *plan = &group->plan;
    for (uint32_t i = 0; i < group->client_count; i++) {
        const struct tern_lgc_client *client = &group->clients[i];
        if (!client->present) {
            continue;
        }
        const bool mean = group->code_arrived && group->settings.form == TERN_LGC_RING_MEAN;
        float *sent = received_of(group, i);
        memcpy(sent, client->picked,
               (group->code_arrived ? plan->plain : tern_lgc_picks(plan)) * sizeof *sent);
        memcpy(group->scratch, sent, tern_lgc_picks(plan) * sizeof *sent);
        if (mean) {
            memcpy(learned_of(group, group->scratch), group->decoded, plan->learned * sizeof *sent);
        }
        tern_lgc_exact_of(plan, client->error, group->exact);
        add_counted(group, group->exact, group->scratch);
    }
}

// Counts the values' bytes. During training every node's values travel unchanged, since training needs them
// individually.
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

static enum tern_result ring_picked(struct tern_lgc_group *group, uint32_t round)
{
    TERN_TRY(ring_lead(group, round));
    if (group->phase == TERN_LGC_PHASE_CODED) {
        TERN_TRY(code_round(group));
    }
    count_all(group);
    tally_values(group);
    if (group->phase == TERN_LGC_PHASE_TRAINING) {
        TERN_TRY(train_coder(group, round));
    }
    for (uint32_t i = 0; i < group->client_count; i++) {
        if (group->clients[i].present) {
            settle(group, &group->clients[i], received_of(group, i), true);
        }
    }
    return TERN_OK;
}

// --- A round

static enum tern_result train_all(struct tern_lgc_group *group, uint32_t round,
                                  const struct tern_lgc_trainer *trainer, const float *weights)
{
    const uint32_t count = group->plan.count;
    for (uint32_t i = 0; i < group->client_count; i++) {
        struct tern_lgc_client *client = &group->clients[i];
        if (!client->present) {
            continue;
        }
        TERN_TRY(trainer->train(trainer->ctx, i, round, weights, group->scratch));
        TERN_TRY(take_change(client, count, group->settings.momentum, group->scratch));
        for (uint32_t k = 0; k < count; k++) {
            group->inputs[k] += (double)client->velocity[k];
        }
    }
    return TERN_OK;
}

static enum tern_lgc_phase phase_of(const struct tern_lgc_group *group, uint32_t round)
{
    if (round <= group->settings.exact_rounds) {
        return TERN_LGC_PHASE_EXACT;
    }
    if (group->coded_from > 0) {
        return TERN_LGC_PHASE_CODED;
    }
    const uint32_t trained = round - group->settings.exact_rounds - 1;
    return trained < group->settings.training_rounds || !(group->loss < group->settings.accept)
               ? TERN_LGC_PHASE_TRAINING
               : TERN_LGC_PHASE_CODED;
}

static enum tern_result enter(struct tern_lgc_group *group, uint32_t round)
{
    group->phase = phase_of(group, round);
    if (group->phase != TERN_LGC_PHASE_CODED || group->coded_from > 0) {
        return TERN_OK;
    }
    group->coded_from = round;
    for (uint32_t i = 0; i < group->client_count; i++) {
        if (group->clients[i].present) {
            TERN_TRY(give_coder(group, &group->clients[i]));
        }
    }
    return TERN_OK;
}

static enum tern_result exchange(struct tern_lgc_group *group, uint32_t round)
{
    const bool server = group->settings.form == TERN_LGC_SERVER;
    if (group->phase == TERN_LGC_PHASE_EXACT) {
        return server ? server_exact(group, round) : ring_exact(group, round);
    }
    return server ? server_picked(group, round) : ring_picked(group, round);
}

// Applies the update: weights += mean of the sums.
static void apply(struct tern_lgc_group *group, float *weights)
{
    for (uint32_t i = 0; group->counted > 0 && i < group->plan.count; i++) {
        group->update[i] = (float)(group->sum[i] / (double)group->counted);
        group->applied[i] += (double)group->update[i] * (double)group->counted;
        weights[i] += group->update[i];
    }
}

enum tern_result tern_lgc_group_round(struct tern_lgc_group *group, uint32_t round,
                                      const struct tern_lgc_trainer *trainer, float *weights)
{
    if (count_present(group) == 0) {
        return TERN_ERR_STATE;
    }
    TERN_TRY(enter(group, round));
    TERN_TRY(train_all(group, round, trainer, weights));
    memset(group->sum, 0, group->plan.count * sizeof *group->sum);
    group->counted = 0;
    group->code_arrived = false;
    TERN_TRY(exchange(group, round));
    apply(group, weights);
    struct tern_lgc_tally *tally = tally_of(group);
    tally->rounds++;
    tally->client_rounds += count_present(group);
    return TERN_OK;
}

double tern_lgc_group_unaccounted(const struct tern_lgc_group *group)
{
    double off = 0;
    double most = 0;
    for (uint32_t i = 0; i < group->plan.count; i++) {
        double rest = group->inputs[i] - group->applied[i];
        for (uint32_t k = 0; k < group->client_count; k++) {
            rest -= (double)group->clients[k].error[i];
        }
        off = fabs(rest) > off ? fabs(rest) : off;
        most = fabs(group->inputs[i]) > most ? fabs(group->inputs[i]) : most;
    }
    return most > 0 ? off / most : off;
}
