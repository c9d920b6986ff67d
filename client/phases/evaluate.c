// Evaluates the replica on this client's held-out data. The next check-in of an evaluator reports it, the
// update of a client that trains.
#include "core.h"

#include <string.h>

// version: 0 in an update, whose base it is.
static tern_Evaluation describe(const struct tern_evaluate_result *found, uint32_t version)
{
    tern_Evaluation message = {
        .version = version,
        .num_examples = found->num_examples,
        .loss = found->loss,
        .accuracy = found->accuracy,
    };
#if TERN_HELD_OUT
    message.no_accuracy = found->no_accuracy;
    message.metrics_count = (pb_size_t)found->metric_count;
    for (uint32_t i = 0; i < found->metric_count; i++) {
        memcpy(message.metrics[i].name, found->metrics[i].name, TERN_METRIC_NAME_MAX);
        message.metrics[i].value = found->metrics[i].value;
    }
#endif
    return message;
}

#if TERN_HELD_OUT
enum tern_result tern_client_look(struct tern_client *client)
{
    const struct tern_trainer *trainer = &client->work.trainer;
    struct tern_evaluate_result found = {0};
    const enum tern_result result =
        trainer->evaluate(trainer->ctx, client->work.weights, client->work.model->count, &found);
    if (result == TERN_AGAIN) {
        return result;
    }
    client->asked = true;
    client->has_held_out = result == TERN_OK;
    if (result != TERN_OK) { // no held-out data, or none that can be used: training goes on without
        return TERN_OK;
    }
    client->held_out = describe(&found, 0);
    const struct tern_client_event event = {
        .kind = TERN_EVENT_EVALUATED,
        .round = client->task.round,
        .version = client->version,
        .loss = found.loss,
        .accuracy = found.accuracy,
        .num_examples = found.num_examples,
        .found = &found,
    };
    tern_client_emit(client, &event);
    return TERN_OK;
}
#endif

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
    client->evaluation = describe(&found, client->version);
    client->has_evaluation = true;
    client->failures = 0;
    client->phase = TERN_PHASE_CHECKIN;
    const struct tern_client_event event = {
        .kind = TERN_EVENT_EVALUATED,
        .version = client->version,
        .loss = found.loss,
        .accuracy = found.accuracy,
        .num_examples = found.num_examples,
#if TERN_HELD_OUT
        .found = &found,
#endif
#if TERN_FINAL_MODEL
        .global = client->final,
#endif
    };
    tern_client_emit(client, &event);
    return tern_budget_end_round(client);
}
