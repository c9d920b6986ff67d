// Evaluates the replica on this client's held-out data; the next check-in reports it.
#include "core.h"

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
    client->evaluation = (tern_Evaluation){
        .version = client->version,
        .num_examples = found.num_examples,
        .loss = found.loss,
        .accuracy = found.accuracy,
    };
    client->has_evaluation = true;
    client->failures = 0;
    client->phase = TERN_PHASE_CHECKIN;
    const struct tern_client_event event = {
        .kind = TERN_EVENT_EVALUATED,
        .version = client->version,
        .loss = found.loss,
        .accuracy = found.accuracy,
        .num_examples = found.num_examples,
    };
    tern_client_emit(client, &event);
    return tern_budget_end_round(client);
}
