// The phases that use the trainer: local training from the replica, one step per call, and evaluation on this client's held-out
// data. A training client reports the evaluation of its base model with the update; an evaluator reports evaluations with the
// next check-in.
#include "core.h"

#include <string.h>

// --- Evaluation

#if TERN_HELD_OUT
static void describe_metrics(const struct tern_evaluate_result *found, tern_Evaluation *message)
{
    message->metrics_count = (pb_size_t)found->metric_count;
    for (uint32_t i = 0; i < found->metric_count; i++) {
        memcpy(message->metrics[i].name, found->metrics[i].name, TERN_METRIC_NAME_MAX);
        message->metrics[i].value = found->metrics[i].value;
    }
}
#else
static void describe_metrics(const struct tern_evaluate_result *found, tern_Evaluation *message)
{
    (void)found;
    (void)message;
}
#endif

// Makes the message about an evaluation. version: version of the evaluated model; 0 in an update, whose base model implies it.
static tern_Evaluation make_evaluation(const struct tern_evaluate_result *found, uint32_t version)
{
    tern_Evaluation message = {
        .version = version,
        .num_examples = found->num_examples,
        .loss = found->loss,
        .accuracy = found->accuracy,
    };
    message.no_accuracy = TERN_HELD_OUT && found->no_accuracy;
    describe_metrics(found, &message);
    return message;
}

static enum tern_result evaluate_base(struct tern_client *client)
{
    const struct tern_trainer *trainer = &client->work.trainer;
    struct tern_evaluate_result found = {0};
    const enum tern_result result =
        trainer->evaluate(trainer->ctx, client->work.weights, client->work.model->count, &found);
    if (result == TERN_AGAIN) {
        return result;
    }
    client->base_evaluated = true;
    client->has_held_out = result == TERN_OK;
    if (result != TERN_OK) { // there is no usable held-out data: train without evaluating
        return TERN_OK;
    }
    client->held_out = make_evaluation(&found, 0);
    const struct tern_client_event event = {
        .kind = TERN_EVENT_EVALUATED,
        .round = client->task.round,
        .version = client->version,
        .loss = found.loss,
        .accuracy = found.accuracy,
        .num_examples = found.num_examples,
        .evaluation = &found,
    };
    tern_client_emit(client, &event);
    return TERN_OK;
}

enum tern_result tern_phase_evaluate(struct tern_client *client)
{
    const struct tern_trainer *trainer = &client->work.trainer;
    struct tern_evaluate_result found = {0};
    const enum tern_result result =
        trainer->evaluate(trainer->ctx, client->work.weights, client->work.model->count, &found);
    if (result == TERN_AGAIN) {
        return TERN_OK;
    }
    if (result == TERN_ERR_NOT_FOUND || result == TERN_ERR_MODEL_MISMATCH) {
        return result;
    }
    if (result != TERN_OK) {
        return tern_client_drop_task(client, result, TERN_WHY("the evaluation failed"));
    }
    client->evaluation = make_evaluation(&found, client->version);
    client->has_evaluation = true;
    client->failures = 0;
    client->phase = TERN_PHASE_CHECKIN;
    const struct tern_client_event event = {
        .kind = TERN_EVENT_EVALUATED,
        .version = client->version,
        .loss = found.loss,
        .accuracy = found.accuracy,
        .num_examples = found.num_examples,
        .evaluation = &found,
        .global = client->final,
    };
    tern_client_emit(client, &event);
    return tern_budget_end_round(client);
}

// --- Training

static enum tern_result report_failed_training(struct tern_client *client, enum tern_result result)
{
    if (result == TERN_ERR_MODEL_MISMATCH) {
        return result;
    }
    return tern_client_fail_task(client, result,
                                 TERN_WHY("local training failed; nothing was changed"));
}

// Adds the task's fraction of the error buffer to the initial weights (tern_train_task.ahead).
static void start_ahead(void *ctx, float *weights)
{
    struct tern_client *client = ctx;
    const struct tern_error_buffer buffer = tern_client_error_buffer(client);
    const float share = client->task.step_ahead;
    if (tern_error_buffer_add_to(&buffer, share, weights) == TERN_OK) {
        client->carried = 1 - share;
    } else { // a sum is not finite: start from the replica
        memcpy(weights, client->work.weights, (size_t)buffer.count * sizeof *weights);
    }
}

// Returns whether training starts ahead of the replica. With a codec that has momentum it does not, because the step ahead
// would become part of the velocity, which must consist of local changes only.
static bool starts_ahead(const struct tern_client *client)
{
    struct tern_codec codec;
    return client->task.error_directive == tern_ErrorDirective_ERROR_STEP_AHEAD &&
           tern_codec_parse(client->task.codec, &codec, NULL) == TERN_OK &&
           tern_codec_entry(codec.id)->feedback != TERN_FEEDBACK_MOMENTUM;
}

// Returns the task's batch size; a full gradient uses all examples.
static uint32_t batch_size(const tern_Task *task)
{
    const bool full = TERN_VARIANCE_REDUCTION && task->gradient == tern_Gradient_GRADIENT_FULL;
    return full ? TERN_TRAIN_ALL : task->batch_size;
}

// Returns when the task's training began. If the task trains twice, that is the start of training from the anchor.
static uint64_t started_ms(const struct tern_client *client)
{
    return TERN_VARIANCE_REDUCTION && client->trained_at_anchor ? client->train_started_ms
                                                                : tern_client_now_ms(client);
}

static enum tern_result begin(struct tern_client *client, const float *base)
{
    const struct tern_trainer *trainer = &client->work.trainer;
    const tern_Task *task = &client->task;
    const uint32_t limit = client->config.max_local_steps;
    const struct tern_train_task train = {
        .round = task->round,
        .local_steps = limit != 0 && limit < task->local_steps ? limit : task->local_steps,
        .batch_size = batch_size(task),
        .learning_rate = task->learning_rate,
        .momentum = task->momentum,
        .weight_decay = task->weight_decay,
        .prox_mu = task->prox_mu,
        .seed = task->seed,
        .client = (uint32_t)client->identity.client_id,
        .ahead = starts_ahead(client) ? start_ahead : NULL,
        .ahead_ctx = client,
    };
    client->carried = 1;
    TERN_TRY(trainer->begin(trainer->ctx, &train, base, client->work.model->count));
    client->unsent_round = 0; // begin() has overwritten the weights that were trained in that round
    client->training = true;
    client->train_started_ms = started_ms(client);
    return TERN_OK;
}

static void finish_training(struct tern_client *client)
{
    const struct tern_train_result *result = &client->train_result;
    const uint64_t ms = tern_client_now_ms(client) - client->train_started_ms;
    client->train_ms = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
    client->training = false;
    client->phase = TERN_PHASE_ENCODE;
    const struct tern_client_event event = {
        .kind = TERN_EVENT_TRAINED,
        .round = client->task.round,
        .version = client->version,
        .loss = result->loss,
        .num_examples = result->num_examples,
        .local_steps = result->local_steps,
    };
    tern_client_emit(client, &event);
}

// Trains from the anchor, before the task trains from the replica.
static enum tern_result train_at_anchor(struct tern_client *client)
{
    const struct tern_trainer *trainer = &client->work.trainer;
    if (!client->training) {
        TERN_TRY(tern_anchor_begin(client));
        return begin(client, client->work.anchor);
    }
    const enum tern_result result =
        trainer->step(trainer->ctx, &client->trained, &client->train_result);
    if (result == TERN_OK) {
        client->training = false;
        tern_anchor_subtract(client);
    }
    return result == TERN_AGAIN ? TERN_OK : result;
}

enum tern_result tern_phase_train(struct tern_client *client)
{
    const struct tern_trainer *trainer = &client->work.trainer;
    enum tern_result result = TERN_OK;
    if (client->unsent_round == client->task.round) {
        client->phase =
            TERN_PHASE_ENCODE; // the error buffer already has this round's change: train only once
        return TERN_OK;
    }
    if (TERN_SECURE && tern_secure_has_task(&client->task) && !client->training) {
        const char *why = NULL;
        result = tern_secure_check_scales(client, &why);
        if (result != TERN_OK) {
            return tern_client_drop_task(client, result, why);
        }
    }
    if (TERN_HELD_OUT && client->task.evaluate && !client->base_evaluated) {
        result = evaluate_base(client);
        return result == TERN_AGAIN ? TERN_OK : result;
    }
    if (tern_anchor_must_train(client)) {
        result = train_at_anchor(client);
        return result == TERN_OK ? TERN_OK : report_failed_training(client, result);
    }
    if (!client->training) {
        result = begin(client, client->work.weights);
        return result == TERN_OK ? TERN_OK : report_failed_training(client, result);
    }
    result = trainer->step(trainer->ctx, &client->trained, &client->train_result);
    if (result == TERN_AGAIN) {
        return TERN_OK;
    }
    if (result != TERN_OK) {
        return report_failed_training(client, result);
    }
    finish_training(client);
    return TERN_OK;
}
