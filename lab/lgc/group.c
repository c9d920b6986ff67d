#include "lgc/group_internal.h"

#include "util/math.h"
#include "util/prng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct tern_codec tern_lgc_float32 = {.id = TERN_CODEC_FLOAT32};

// Streams of TERN_PRNG_FLEET beside those of the fleet.
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

// --- Who takes part

uint32_t tern_lgc_present(const struct tern_lgc_group *group)
{
    uint32_t present = 0;
    for (uint32_t i = 0; i < group->client_count; i++) {
        present += group->clients[i].present;
    }
    return present;
}

uint32_t tern_lgc_next(const struct tern_lgc_group *group, uint32_t client)
{
    do {
        client = (client + 1) % group->client_count;
    } while (!group->clients[client].present);
    return client;
}

uint32_t tern_lgc_draw(const struct tern_lgc_group *group, uint32_t round)
{
    struct tern_prng rng;
    tern_prng_init(&rng, group->settings.seed, TERN_PRNG_FLEET, round, STREAM_LEADER);
    uint32_t client = group->client_count - 1;
    for (uint32_t left = tern_prng_below(&rng, tern_lgc_present(group)) + 1; left > 0; left--) {
        client = tern_lgc_next(group, client);
    }
    return client;
}

// The weights that who takes part in coded rounds needs: the server alone decodes where buffers are cleared.
static uint32_t coder_weights(const struct tern_lgc_group *group)
{
    return group->settings.form == TERN_LGC_SERVER &&
                   group->settings.feedback == TERN_LGC_FEEDBACK_CLEARED
               ? group->autoencoder.encoder_count
               : group->autoencoder.count;
}

// Hands the autoencoder to a client. In a ring it comes from the node that trained it, which is the first.
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

enum tern_result tern_lgc_encode(struct tern_lgc_group *group, const float *values, float scale)
{
    return tern_autoencoder_encode(&group->autoencoder, group->coder, values, group->plan.learned,
                                   scale, group->workspace, group->workspace_size, group->code);
}

enum tern_result tern_lgc_decode(struct tern_lgc_group *group, const float *innovation, float scale,
                                 float *values)
{
    return tern_autoencoder_decode(
        &group->autoencoder, group->coder + group->autoencoder.encoder_count, group->code,
        innovation, group->plan.learned, scale, group->workspace, group->workspace_size, values);
}

float tern_lgc_fit(const float *values, const float *decoded, uint32_t count)
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
    enum { MEMORY = 20 }; // steps that the mean loss is of
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

// Each vector alone, where each code is decoded by itself.
static enum tern_result train_each(struct tern_lgc_group *group, size_t nodes,
                                   const float *const *values)
{
    for (size_t i = 0; i < nodes; i++) {
        TERN_TRY(train_step(group, 1, 0, values + i, NULL));
    }
    return TERN_OK;
}

enum tern_result tern_lgc_train_coder(struct tern_lgc_group *group, uint32_t round)
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
        const float *learned = tern_lgc_learned(group, tern_lgc_received(group, i));
        // There is nothing to learn of zeros.
        if (client->sent_last != round ||
            !(tern_autoencoder_scale(learned, group->plan.learned) > 0)) {
            continue;
        }
        common = i == group->leader ? nodes : common;
        tern_lgc_innovation(learned, group->plan.learned, group->settings.innovation, group->words,
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

// --- A round

void tern_lgc_count(struct tern_lgc_group *group, const float *exact, const float *picks)
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

void tern_lgc_settle(struct tern_lgc_group *group, struct tern_lgc_client *client,
                     const float *sent, bool all)
{
    const struct tern_lgc_plan *plan = &group->plan;
    const bool cleared = group->settings.feedback == TERN_LGC_FEEDBACK_CLEARED;
    const uint32_t picks = tern_lgc_picks(plan);
    tern_lgc_client_sent_exact(client, plan);
    tern_lgc_client_sent(client, group->at, cleared ? client->picked : sent, picks,
                         all || cleared ? TERN_LGC_MASK_ALL : TERN_LGC_MASK_SENT);
}

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
        TERN_TRY(tern_lgc_client_take(client, count, group->settings.momentum, group->scratch));
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
        return server ? tern_lgc_server_exact(group, round) : tern_lgc_ring_exact(group, round);
    }
    return server ? tern_lgc_server_picked(group, round) : tern_lgc_ring_picked(group, round);
}

// weights += mean of the sums.
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
    if (tern_lgc_present(group) == 0) {
        return TERN_ERR_STATE;
    }
    TERN_TRY(enter(group, round));
    TERN_TRY(train_all(group, round, trainer, weights));
    memset(group->sum, 0, group->plan.count * sizeof *group->sum);
    group->counted = 0;
    group->code_arrived = false;
    TERN_TRY(exchange(group, round));
    apply(group, weights);
    struct tern_lgc_tally *tally = tern_lgc_tally_of(group);
    tally->rounds++;
    tally->client_rounds += tern_lgc_present(group);
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
