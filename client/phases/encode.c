// Takes an update out of the error buffer. The task's directive, the local change and the encoding
// become one record together with the update's bytes: before it is saved nothing has happened, and
// whatever fails before then puts the error buffer back to what the store holds. A change that a
// byte budget does not let out is saved in the error buffer, with no update.
#include "core.h"

#include <string.h>

#define CHANGE_BLOCK 256

// What becomes of the client when the record is saved.
struct outcome {
    uint32_t generation;
    uint32_t sequence;
    struct tern_client_pending pending;
};

// Whether the store's error buffer holds this round's change already, and its directive's effect.
static bool is_kept(const struct tern_client *client)
{
    return client->kept_round != 0 && client->kept_round == client->task.round;
}

static enum tern_result apply_directive(struct tern_client *client, struct outcome *outcome)
{
    struct tern_error_buffer buffer = {client->work.error_buffer, client->work.model->count};
    const struct tern_entropy *entropy = &client->config.ports.entropy;
    switch (client->task.error_directive) {
    case tern_ErrorDirective_ERROR_KEEP:
        return TERN_OK;
    case tern_ErrorDirective_ERROR_DECAY:
        return tern_error_buffer_decay(&buffer, client->task.decay);
    case tern_ErrorDirective_ERROR_RESET:
        TERN_TRY(entropy->fill(entropy->ctx, &outcome->generation, sizeof outcome->generation));
        outcome->sequence = 0;
        return tern_error_buffer_decay(&buffer, 0.0f);
    }
    return TERN_ERR_UNKNOWN;
}

// error buffer += trained - replica, a block at a time: no third copy of the weights is needed.
static enum tern_result add_change(struct tern_client *client)
{
    const uint32_t count = client->work.model->count;
    float change[CHANGE_BLOCK];
    for (uint32_t done = 0; done < count; done += CHANGE_BLOCK) {
        const uint32_t n = count - done < CHANGE_BLOCK ? count - done : CHANGE_BLOCK;
        for (uint32_t i = 0; i < n; i++) {
            change[i] = client->trained[done + i] - client->work.weights[done + i];
        }
        struct tern_error_buffer block = {client->work.error_buffer + done, n};
        TERN_TRY(tern_error_buffer_add(&block, change));
    }
    return TERN_OK;
}

static tern_Update describe(const struct tern_client *client, const struct outcome *outcome)
{
    const struct tern_train_result *result = &client->train_result;
    tern_Update message = tern_Update_init_zero;
    message.base.size = TERN_SHA256_SIZE;
    memcpy(message.base.bytes, client->replica, TERN_SHA256_SIZE);
    message.num_examples = result->num_examples;
    message.local_steps = result->local_steps;
    message.loss = result->loss;
    message.train_ms = client->train_ms;
    message.has_error = true;
    message.error = tern_client_error_facts(client);
    message.error.generation = outcome->generation;
    message.error.sequence = outcome->sequence;
    message.model_hash.size = TERN_SHA256_SIZE;
    memcpy(message.model_hash.bytes, client->identity.model_hash, TERN_SHA256_SIZE);
    return message;
}

// error buffer = what the task's directive leaves of it + the local change.
static enum tern_result fill_buffer(struct tern_client *client, struct outcome *outcome)
{
    if (is_kept(client)) {
        return TERN_OK;
    }
    TERN_TRY(apply_directive(client, outcome));
    return add_change(client);
}

// Leaves the whole update at the start of the blob. The container is first encoded at its end.
static enum tern_result build(struct tern_client *client, struct outcome *outcome)
{
    const struct tern_client_workspace *work = &client->work;
    struct tern_error_buffer buffer = {work->error_buffer, work->model->count};
    struct tern_codec codec;
    TERN_TRY(tern_codec_parse(client->task.codec, &codec, NULL));
    TERN_TRY(fill_buffer(client, outcome));
    const size_t bound = tern_container_bound(&codec, work->model);
    const size_t room = work->blob_size - bound; // take_task() checked that both parts fit
    size_t container_len = 0;
    TERN_TRY(tern_error_buffer_take(&buffer, &codec, NULL, work->model, work->blob + room, bound,
                                    &container_len));
    outcome->sequence++;
    const tern_Update message = describe(client, outcome);
    const struct tern_span container = {work->blob + room, container_len};
    size_t len = 0;
    TERN_TRY(tern_wire_encode_update(&message, container, work->blob, room, &len));
    outcome->pending = (struct tern_client_pending){
        .round = client->task.round,
        .sequence = outcome->sequence,
        .len = (uint32_t)len,
        .container = (uint32_t)container_len,
    };
    return TERN_OK;
}

static enum tern_result commit(struct tern_client *client, const struct outcome *outcome)
{
    client->generation = outcome->generation;
    client->sequence = outcome->sequence;
    client->pending = outcome->pending;
    TERN_TRY(tern_record_save_upload(client));
    client->upload_saved = true;
    client->kept_round = 0;
    client->phase = TERN_PHASE_UPLOAD;
    struct tern_client_budget *budget = &client->budget;
    const uint64_t len = outcome->pending.len;
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

// Puts the error buffer to what it was before the update was taken out, which is exact where giving
// the update back would round, and saves it.
static enum tern_result keep_change(struct tern_client *client)
{
    struct outcome outcome = {.generation = client->generation, .sequence = client->sequence};
    TERN_TRY(tern_record_reload_error_buffer(client));
    if (is_kept(client)) {
        return TERN_OK;
    }
    TERN_TRY(fill_buffer(client, &outcome));
    client->generation = outcome.generation;
    client->sequence = outcome.sequence;
    TERN_TRY(tern_record_save_upload(client));
    client->upload_saved = true;
    client->kept_round = client->task.round;
    return TERN_OK;
}

// An update that must not be sent is not made; a later one carries the change.
static enum tern_result too_dear(struct tern_client *client, uint64_t cost, const char *why)
{
    TERN_TRY(keep_change(client));
    client->phase = TERN_PHASE_CHECKIN;
    return tern_budget_stop(client, cost, why);
}

enum tern_result tern_phase_encode(struct tern_client *client)
{
    struct outcome outcome = {.generation = client->generation, .sequence = client->sequence};
    enum tern_result result = build(client, &outcome);
    if (result != TERN_OK) {
        TERN_TRY(tern_record_reload_error_buffer(client));
        return tern_client_drop_task(client, result, "the local change cannot be encoded");
    }
    const char *why = NULL;
    const uint64_t cost = tern_budget_cost(outcome.pending.len, 1);
    result = tern_budget_reserve(client, cost, &why);
    if (result == TERN_ERR_BUDGET) {
        return too_dear(client, cost, why);
    }
    TERN_TRY(result);
    return commit(client, &outcome);
}
