// A gateway's federation takes its model from an upstream federation. A version from upstream is made like every other
// version, by a round, here with one stored update: the difference to the upstream model. So restarts, replays and
// downloads need no special case.
#include "federation/clients.h"
#include "federation/round.h"

#include "codec/container.h"
#include "util/bytes.h"
#include <stdlib.h>
#include <string.h>

// The codec of the update that contains the difference to the upstream model, without loss.
#define LOSSLESS_CODEC "float32"

// --- How clients train

void tern_federation_config_set_training(struct tern_federation_config *config,
                                         const struct tern_upstream_training *course)
{
    config->undone_round = course->undone_round;
    config->steps.local_steps = course->local_steps;
    config->train.batch_size = course->batch_size;
    config->train.rate =
        (struct tern_rate_policy){.schedule = TERN_RATE_CONSTANT, .first = course->learning_rate};
    config->train.momentum = course->momentum;
    config->train.weight_decay = course->weight_decay;
    config->strategy = course->prox_mu > 0.0F ? &tern_strategy_fedprox : &tern_strategy_fedavg;
    config->server_learning_rate = 1.0F;
    config->average_versions = 0;
    const float bound =
        // examples_bound stays as the gateway's settings have it.
        config->strategy_parameters[TERN_STRATEGY_EXAMPLES_BOUND];
    memset(config->strategy_parameters, 0, sizeof config->strategy_parameters);
    config->strategy_parameters[TERN_STRATEGY_EXAMPLES_BOUND] = bound;
    config->strategy_parameters[TERN_STRATEGY_PROX_MU] = course->prox_mu;
}

void tern_federation_set_training(struct tern_federation *federation,
                                  const struct tern_upstream_training *course)
{
    struct tern_round_policy *policy = &federation->machine.policy;
    const uint64_t most = federation->config.round.deadline_ms;
    tern_federation_config_set_training(&federation->config, course);
    federation->restored_round = course->undone_round;
    policy->deadline_ms =
        course->window_ms > 0 && course->window_ms < most ? course->window_ms : most;
}

// --- When rounds open

uint64_t tern_federation_upstream_client(const struct tern_federation *federation)
{
    return federation->config.upstream_client;
}

void tern_federation_allow_round(struct tern_federation *federation, uint32_t round)
{
    federation->last_allowed_round = round;
    federation->retry_open_ms = 0;
}

bool tern_federation_end(struct tern_federation *federation)
{
    if (federation->machine.open) {
        return false;
    }
    federation->machine.policy.rounds = federation->machine.committed;
    // Held check-ins get the answer that the federation has finished.
    federation->progressed = true;
    return true;
}

// --- A version from upstream

// Memory for the update that brings the upstream model.
struct update_buffers {
    float *values;
    uint8_t *container;
    uint8_t *body;
    size_t container_size;
    size_t body_size;
};

static void free_buffers(struct update_buffers *buffers)
{
    free(buffers->values);
    free(buffers->container);
    free(buffers->body);
}

static enum tern_result allocate(const struct tern_model *model, const struct tern_codec *codec,
                                 struct update_buffers *buffers)
{
    buffers->container_size = tern_container_bound(codec, model);
    buffers->body_size = TERN_WIRE_OVERHEAD + buffers->container_size;
    buffers->values = malloc((size_t)model->count * sizeof(float));
    buffers->container = malloc(buffers->container_size);
    buffers->body = malloc(buffers->body_size);
    const bool made =
        buffers->values != NULL && buffers->container != NULL && buffers->body != NULL;
    return made ? TERN_OK : TERN_ERR_NO_MEMORY;
}

static tern_Update describe_update(const struct tern_federation *federation)
{
    tern_Update message;
    memset(&message, 0, sizeof message);
    message.base.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(message.base.bytes, federation->merge.replica_id, TERN_WIRE_REPLICA_BYTES);
    message.num_examples = 1;
    message.local_steps = 1;
    message.loss = federation->last_loss; // the last round's loss, because no client has trained
    message.has_error = true;
    message.error.generation = 1;
    message.error.sequence = federation->machine.round + 1;
    return message;
}

// Makes the update that brings the upstream model: `weights` minus the global model.
static enum tern_result make_update(const struct tern_federation *federation, const float *weights,
                                    struct update_buffers *buffers,
                                    struct tern_incoming_update *update)
{
    const struct tern_merge *merge = &federation->merge;
    struct tern_codec codec;
    size_t container_len = 0;
    size_t body_len = 0;
    double sum_square = 0.0;
    TERN_TRY(tern_codec_parse(LOSSLESS_CODEC, &codec, NULL));
    TERN_TRY(allocate(&merge->model, &codec, buffers));
    for (uint32_t i = 0; i < merge->model.count; i++) {
        buffers->values[i] = weights[i] - merge->global[i];
    }
    tern_model_freeze(&merge->model, buffers->values);
    for (uint32_t i = 0; i < merge->model.count; i++) {
        sum_square += (double)buffers->values[i] * (double)buffers->values[i];
    }
    const double limit = federation->config.limits.norm;
    if (!(sum_square <= limit * limit)) {
        return TERN_ERR_NORM_LIMIT;
    }
    TERN_TRY(tern_container_encode(&codec, NULL, &merge->model, buffers->values, buffers->container,
                                   buffers->container_size, &container_len));
    update->message = describe_update(federation);
    update->container = (struct tern_span){buffers->container, container_len};
    TERN_TRY(tern_wire_encode_update(&update->message, update->container, buffers->body,
                                     buffers->body_size, &body_len));
    update->body = (struct tern_span){buffers->body, body_len};
    tern_sha256(buffers->body, body_len, update->sha256);
    update->parsed = TERN_OK;
    update->sum_square = sum_square;
    update->received = (uint32_t)body_len;
    update->payload = (uint32_t)container_len;
    return TERN_OK;
}

// Opens a round whose only member is the upstream client, and assigns the member its task.
static enum tern_result open_upstream_round(struct tern_federation *federation, uint64_t follower,
                                            uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    TERN_TRY(tern_round_open(machine, &follower, 1, now));
    struct tern_member *member = tern_round_member(machine, follower);
    tern_round_assign_task(member, 1, now);
    memcpy(member->base, federation->merge.replica_id, TERN_SHA256_SIZE);
    member->base_version = federation->merge.version;
    strcpy(member->codec, LOSSLESS_CODEC);
    return tern_rounds_store_opened(federation, now);
}

static enum tern_result refuse(struct tern_refusal *refusal, enum tern_result result)
{
    tern_refusal_set(refusal, result, NULL);
    return TERN_OK;
}

static bool is_temporary(enum tern_result result)
{
    return result == TERN_ERR_NO_MEMORY || result == TERN_ERR_IO || result == TERN_ERR_NO_SPACE;
}

static enum tern_result apply_upstream_update(struct tern_federation *federation, uint64_t follower,
                                              struct tern_incoming_update *update, uint64_t now,
                                              struct tern_refusal *refusal)
{
    bool duplicate = false;
    TERN_TRY(open_upstream_round(federation, follower, now));
    update->client = follower;
    update->round = federation->machine.round;
    update->sequence = update->message.error.sequence;
    TERN_TRY(tern_federation_receive_update(federation, update, now, &duplicate, refusal));
    // The error rolls the transaction back: a round without the upstream client's update would never close.
    return refusal->result == TERN_OK ? TERN_OK : TERN_ERR_STATE;
}

enum tern_result tern_federation_set_model(struct tern_federation *federation, uint64_t follower,
                                           const float *weights, uint32_t count, uint64_t now,
                                           struct tern_refusal *refusal)
{
    struct update_buffers buffers = {.values = NULL};
    struct tern_incoming_update update = {.client = follower};
    const struct client *client = client_of(federation, follower);
    tern_refusal_set(refusal, TERN_OK, NULL);
    if (client == NULL || !client->row.evaluator) {
        return refuse(refusal, TERN_ERR_NOT_FOUND);
    }
    if (count != federation->merge.model.count) {
        return refuse(refusal, TERN_ERR_MODEL_MISMATCH);
    }
    if (federation->machine.open || tern_federation_is_merging(federation) ||
        tern_federation_stores_weights(federation)) {
        return refuse(refusal, TERN_ERR_BUSY);
    }
    enum tern_result result = make_update(federation, weights, &buffers, &update);
    if (result == TERN_OK) {
        result = apply_upstream_update(federation, follower, &update, now, refusal);
    } else if (!is_temporary(result)) {
        result = refuse(refusal, result);
    }
    free_buffers(&buffers);
    return result;
}
