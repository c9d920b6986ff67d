// Encodes the update. The sum t of error buffer and local change replaces the trained weights in the trainer's memory, where it
// is encoded. One record then saves the residual error together with the update; until it is saved, the error buffer is
// unchanged. If the update exceeds a byte budget, its change is saved in the error buffer, and the update is discarded.
#include "codec/kernels/kernels.h"
#include "core.h"

#include <string.h>

// The new state of the client, which becomes valid when the upload record is saved.
struct outcome {
    uint32_t generation;
    uint32_t sequence;
    bool has_velocity;
    bool has_local;              // the trained local values are in work.local
    struct tern_error_next next; // the next error buffer
    struct tern_client_pending pending;
    struct tern_span container; // in the blob; data NULL: in the record that is in progress
    bool is_masked;
    uint64_t nonce;                   // of a masked update, never 0
    struct tern_client_masked masked; // of a masked update
    struct tern_client *client;
    enum tern_result stored; // result of the store for the record in progress
    // the message before the container in the record in progress
    uint8_t message[TERN_WIRE_OVERHEAD];
    size_t message_len;
};

// Returns whether the error buffer already includes this round's change, and the effect of its directive.
static bool change_is_in_buffer(const struct tern_client *client)
{
    return client->unsent_round != 0 && client->unsent_round == client->task.round;
}

// Applies the task's directive for the error buffer to *outcome. client->trained already has the local change.
static enum tern_result read_directive(const struct tern_client *client,
                                       const struct tern_error_buffer *buffer,
                                       struct outcome *outcome)
{
    const struct tern_entropy *entropy = &client->config.ports.entropy;
    switch (client->task.error_directive) {
    case tern_ErrorDirective_ERROR_KEEP:
    case tern_ErrorDirective_ERROR_STEP_AHEAD: // does not change the error buffer
        return TERN_OK;
    case tern_ErrorDirective_ERROR_DECAY:
        outcome->next.decay = client->task.decay;
        return TERN_OK;
    case tern_ErrorDirective_ERROR_LIMIT:
        outcome->next.decay =
            tern_error_buffer_limit(buffer, client->task.error_limit, client->trained);
        return TERN_OK;
    case tern_ErrorDirective_ERROR_RESET:
        outcome->next.decay = 0;
        outcome->sequence = 0;
        return entropy->fill(entropy->ctx, &outcome->generation, sizeof outcome->generation);
    }
    return TERN_ERR_UNKNOWN;
}

// Applies momentum correction to client->trained and the velocity. decay: the directive's factor, which scales both error
// buffer and velocity.
static enum tern_result move_velocity(struct tern_client *client, const struct tern_codec *codec,
                                      float decay)
{
    const struct tern_model *model = client->work.model;
    float *velocity = client->work.velocity;
    if (!client->has_velocity) {
        memset(velocity, 0, (size_t)model->count * sizeof *velocity);
    }
    return tern_error_momentum(velocity, codec->momentum * decay, client->trained, model->coded);
}

// Copies the trained values of local tensors to work.local. They are never sent.
static enum tern_result copy_trained_local(struct tern_client *client, struct outcome *outcome)
{
    uint32_t first = 0;
    const uint32_t count = tern_model_local(client->work.model, &first);
    const float *trained = client->trained + first;
    if (!TERN_MANIFESTS || count == 0) {
        return TERN_OK;
    }
    if (tern_kernel_peak(trained, count) >= TERN_INFINITY_BITS) {
        return TERN_ERR_NON_FINITE;
    }
    memcpy(client->work.local, trained, (size_t)count * sizeof *trained);
    outcome->has_local = true;
    return TERN_OK;
}

static void use_trained_local(struct tern_client *client, const struct outcome *outcome)
{
    if (TERN_MANIFESTS && outcome->has_local) {
        client->has_local = true;
        client->local_is_stashed = true;
        tern_client_unstash_local(client);
    }
}

// Replaces the trained weights by t = decay * error buffer + trained - replica. After a step ahead, trained - replica already
// includes a fraction of the error buffer, so only the remaining fraction, client->carried, is added.
static enum tern_result build_sum(struct tern_client *client, const struct tern_codec *codec,
                                  struct outcome *outcome)
{
    const struct tern_error_buffer buffer = tern_client_error_buffer(client);
    float *sum = client->trained;
    const uint32_t trained = tern_model_trained(client->work.model);
    if (change_is_in_buffer(client)) {
        tern_error_buffer_load(&buffer, sum);
        if (TERN_MANIFESTS) { // in other builds the error buffer has all values
            memset(sum + buffer.count, 0, (trained - buffer.count) * sizeof *sum);
        }
        return TERN_OK;
    }
    TERN_TRY(copy_trained_local(client, outcome));
    for (uint32_t i = 0; i < trained && !tern_client_result_is_change(client); i++) {
        sum[i] -= client->work.weights[i];
    }
    if (TERN_VARIANCE_REDUCTION) {
        tern_anchor_add(client, sum, trained);
    }
    tern_model_freeze(client->work.model, sum);
    if (TERN_SECURE && outcome->is_masked) {
        tern_secure_weigh(client, sum);
    }
    TERN_TRY(read_directive(client, &buffer, outcome));
    if (TERN_CLIENT_MOMENTUM && outcome->has_velocity) {
        TERN_TRY(move_velocity(client, codec, outcome->next.decay));
    }
    return tern_error_buffer_add_to(&buffer, outcome->next.decay * client->carried, sum);
}

static enum tern_result append_piece(void *ctx, const uint8_t *data, size_t len)
{
    struct outcome *outcome = ctx;
    outcome->stored = tern_record_append_upload(outcome->client, data, len);
    return outcome->stored;
}

// Encodes the container into the record in progress. The end of the blob holds one block at a time.
static enum tern_result encode_into_record(struct tern_client *client,
                                           const struct tern_codec *codec,
                                           const struct tern_encode_context *context,
                                           struct outcome *outcome)
{
    const struct tern_client_workspace *work = &client->work;
    const size_t bound = tern_container_piece_bound(codec, work->model);
    const struct tern_container_sink sink = {
        .ctx = outcome,
        .piece = work->blob + work->blob_size - bound, // the blob's start has the task's indices
        .piece_size = bound,
        .take = append_piece,
    };
    outcome->client = client;
    outcome->stored = tern_record_begin_upload(client);
    TERN_TRY(outcome->stored);
    return tern_container_encode_into(codec, context, work->model, client->trained, &sink,
                                      &outcome->container.len);
}

// Encodes the container at the end of the blob, or into the record in progress.
static enum tern_result encode(struct tern_client *client, const struct tern_codec *codec,
                               struct outcome *outcome)
{
    const struct tern_client_workspace *work = &client->work;
    const struct tern_encode_context context = {
        .seed = client->task.seed,
        .round = client->task.round,
        .client = (uint32_t)client->identity.client_id,
        .velocity = outcome->has_velocity ? work->velocity : NULL,
        .indices = client->task.has_indices ? client->indices.data : NULL,
        .indices_len = client->indices.len,
    };
    if (tern_record_is_streamed(client)) {
        return encode_into_record(client, codec, &context, outcome);
    }
    const size_t bound = tern_container_bound(codec, work->model);
    uint8_t *dst = work->blob + work->blob_size - bound; // accept_task() has checked the size
    outcome->container.data = dst;
    return tern_container_encode(codec, &context, work->model, client->trained, dst, bound,
                                 &outcome->container.len);
}

// Quantises and masks the sum at the end of the blob, and copies it to the record in progress if there is one.
static enum tern_result encode_masked(struct tern_client *client, struct outcome *outcome)
{
    const struct tern_client_workspace *work = &client->work;
    const struct tern_entropy *entropy = &client->config.ports.entropy;
    const size_t len = tern_secure_update_size(client, &client->task);
    uint8_t *dst = work->blob + work->blob_size - len; // accept_task() has checked the size
    outcome->container = (struct tern_span){dst, len};
    // A copied or restored client repeats generation and sequence, so a random number chooses the mask.
    TERN_TRY(entropy->fill(entropy->ctx, &outcome->nonce, sizeof outcome->nonce));
    outcome->nonce |= outcome->nonce == 0;
    TERN_TRY(tern_secure_encode(client, outcome->nonce, dst, &outcome->masked));
    if (!tern_record_is_streamed(client)) {
        return TERN_OK;
    }
    outcome->stored = tern_record_begin_upload(client);
    TERN_TRY(outcome->stored);
    outcome->stored = tern_record_append_upload(client, dst, len);
    return outcome->stored;
}

// Removes from the message what the mask hides.
static void hide_facts(const struct outcome *outcome, tern_Update *message)
{
#if TERN_SECURE
    message->masked = true;
    message->nonce = outcome->nonce;
#else
    (void)outcome;
#endif
    message->num_examples = 1;
    message->loss = 0;
    message->error.norm = 0;
    message->error.maximum = 0;
}

static tern_Update make_update_message(const struct tern_client *client,
                                       const struct outcome *outcome)
{
    const struct tern_train_result *result = &client->train_result;
    const struct tern_error_buffer buffer = tern_client_error_buffer(client);
    const struct tern_error_facts facts = tern_error_buffer_preview(&buffer, &outcome->next);
    tern_Update message;
    memset(&message, 0, sizeof message);
    message.base.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(message.base.bytes, client->replica, TERN_WIRE_REPLICA_BYTES);
    message.num_examples = result->num_examples;
    message.local_steps = result->local_steps;
    message.loss = result->loss;
    message.train_ms = client->train_ms;
    message.has_error = true;
    message.error.generation = outcome->generation;
    message.error.sequence = outcome->sequence;
    message.error.norm = facts.norm;
    message.error.maximum = facts.maximum;
    message.shared_indices = client->task.has_indices;
    message.decay = change_is_in_buffer(client) ? client->unsent_decay : outcome->next.decay;
    message.has_decay = message.decay != 1;
    if (TERN_HELD_OUT) {
        message.has_evaluation = client->has_held_out;
        message.evaluation = client->held_out;
    }
    if (TERN_SECURE && outcome->is_masked) {
        hide_facts(outcome, &message);
    }
    return message;
}

// Encodes the message that precedes the container: at the start of the blob, or for the record in progress.
static enum tern_result encode_message(struct tern_client *client, struct outcome *outcome,
                                       const tern_Update *message, size_t *len)
{
    if (tern_record_is_streamed(client)) {
        TERN_TRY(tern_wire_begin_update(message, outcome->container.len, outcome->message,
                                        sizeof outcome->message, &outcome->message_len));
        *len = outcome->message_len + outcome->container.len;
        return TERN_OK;
    }
    const size_t room = (size_t)(outcome->container.data - client->work.blob);
    return tern_wire_encode_update(message, outcome->container, client->work.blob, room, len);
}

static enum tern_result build_container(struct tern_client *client, struct outcome *outcome)
{
    struct tern_codec codec;
    if (TERN_SECURE && outcome->is_masked) {
        TERN_TRY(build_sum(client, NULL, outcome));
        return encode_masked(client, outcome);
    }
    TERN_TRY(tern_codec_parse(client->task.codec, &codec, NULL));
    const enum tern_feedback feedback = tern_codec_entry(codec.id)->feedback;
    outcome->has_velocity = TERN_CLIENT_MOMENTUM && feedback == TERN_FEEDBACK_MOMENTUM;
    outcome->next.filter =
        TERN_CLIENT_SHARING && feedback == TERN_FEEDBACK_FILTERED ? codec.filter : 1;
    TERN_TRY(build_sum(client, &codec, outcome));
    return encode(client, &codec, outcome);
}

static enum tern_result build_update(struct tern_client *client, struct outcome *outcome)
{
    TERN_TRY(build_container(client, outcome));
    outcome->sequence++;
    const tern_Update message = make_update_message(client, outcome);
    size_t len = 0;
    TERN_TRY(encode_message(client, outcome, &message, &len));
    outcome->pending = (struct tern_client_pending){
        .round = client->task.round,
        .sequence = outcome->sequence,
        .len = (uint32_t)len,
        .container = (uint32_t)outcome->container.len,
        .masked = outcome->is_masked,
    };
    return TERN_OK;
}

// Makes *outcome the state of the client, and saves the upload record.
static enum tern_result save(struct tern_client *client, const struct outcome *outcome)
{
    struct tern_error_buffer buffer = tern_client_error_buffer(client);
    tern_error_buffer_store(&buffer, &outcome->next);
    use_trained_local(client, outcome);
    client->error_reported = false;
    client->has_velocity = outcome->has_velocity;
    client->generation = outcome->generation;
    client->sequence = outcome->sequence;
    client->pending = outcome->pending;
    if (TERN_SECURE && client->pending.masked) {
        client->masked = outcome->masked;
    }
    if (client->pending.len > 0 && tern_record_is_streamed(client)) {
        const struct tern_span message = {outcome->message, outcome->message_len};
        return tern_record_finish_upload(client, message);
    }
    return tern_record_save_upload(client);
}

static enum tern_result commit(struct tern_client *client, const struct outcome *outcome)
{
    if (TERN_VARIANCE_REDUCTION) {
        TERN_TRY(tern_anchor_set(client));
    }
    TERN_TRY(save(client, outcome));
    client->unsent_round = 0;
    client->phase = TERN_PHASE_UPLOAD;
    struct tern_client_budget *budget = &client->budget;
    struct tern_span body;
    TERN_TRY(tern_share_body(client, &body));
    const uint64_t len = body.len;
    budget->update_mean =
        budget->update_mean == 0 ? len : budget->update_mean - budget->update_mean / 8 + len / 8;
    const struct tern_client_event event = {
        .kind = TERN_EVENT_ENCODED,
        .round = client->task.round,
        .version = client->version,
        .sequence = client->sequence,
        .bytes = len,
    };
    tern_client_emit(client, &event);
    return TERN_OK;
}

// Adds the values of the update to the residual error in client->trained again.
static enum tern_result give_back_unsent(struct tern_client *client, const struct outcome *outcome)
{
    struct tern_span container = outcome->container;
    struct tern_error_buffer residual = {TERN_ERROR_FLOAT32, client->trained,
                                         client->work.model->coded};
    if (TERN_SECURE && outcome->is_masked) {
        uint8_t *packed = client->work.blob + client->work.blob_size - container.len;
        return tern_secure_give_back(client, &outcome->masked, packed, container.len, &residual);
    }
    if (tern_record_is_streamed(client)) {
        TERN_TRY(tern_record_view_container(client, container.len, &container.data));
    }
    return tern_container_give_back(client->work.model, container.data, container.len,
                                    client->trained);
}

// Saves the change of an update that is not sent in the error buffer. This rounds its values again, and their velocity remains
// zero.
static enum tern_result save_unsent_change(struct tern_client *client, struct outcome *outcome)
{
    if (change_is_in_buffer(client)) {
        return tern_record_reload_velocity(client);
    }
    TERN_TRY(give_back_unsent(client, outcome));
    outcome->next.filter = 1;
    outcome->pending = client->pending; // no update is pending
    outcome->sequence--;
    TERN_TRY(save(client, outcome));
    client->unsent_round = client->task.round;
    client->unsent_decay = outcome->next.decay;
    return TERN_OK;
}

// Discards the record in progress, if the store writes records block by block.
static void drop_record(struct tern_client *client)
{
    if (tern_record_is_streamed(client)) {
        tern_record_drop_upload(client);
    }
}

// Saves the change of an update that exceeds the budget; a later update will contain it.
static enum tern_result end_without_update(struct tern_client *client, struct outcome *outcome,
                                           uint64_t cost, const char *why)
{
    TERN_TRY(save_unsent_change(client, outcome));
    drop_record(client);
    client->phase = TERN_PHASE_CHECKIN;
    return tern_budget_wait(client, cost, why);
}

enum tern_result tern_phase_encode(struct tern_client *client)
{
    struct outcome outcome = {
        .generation = client->generation,
        .sequence = client->sequence,
        .next = {.work = client->trained, .filter = 1, .decay = 1},
        .is_masked = TERN_SECURE && tern_secure_has_task(&client->task),
    };
    enum tern_result result = build_update(client, &outcome);
    if (result != TERN_OK) {
        drop_record(client);
        TERN_TRY(
            outcome
                .stored); // an error of the store stops the client; other errors concern this task only
        TERN_TRY(tern_record_reload_velocity(client));
        return tern_client_fail_task(client, result,
                                     TERN_WHY("the local change cannot be encoded"));
    }
    const char *why = NULL;
    const uint64_t cost = tern_budget_cost(outcome.pending.len, 1);
    result = tern_budget_reserve(client, cost, &why);
    if (result == TERN_ERR_BUDGET) {
        return end_without_update(client, &outcome, cost, why);
    }
    TERN_TRY(result);
    return commit(client, &outcome);
}
