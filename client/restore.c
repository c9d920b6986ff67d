#include "core.h"

#include <string.h>

// Sets the error buffer to zero, and gives it a new random generation.
static enum tern_result new_generation(struct tern_client *client)
{
    const struct tern_entropy *entropy = &client->config.ports.entropy;
    uint32_t generation = 0;
    TERN_TRY(entropy->fill(entropy->ctx, &generation, sizeof generation));
    client->generation = generation != 0 ? generation : 1;
    client->sequence = 0;
    client->pending = (struct tern_client_pending){0};
    client->has_velocity = false;
    client->masked.round = 0;
    struct tern_error_buffer buffer = tern_client_error_buffer(client);
    tern_error_buffer_reset(&buffer);
    return TERN_OK;
}

static void report_started_over(const struct tern_client *client, enum tern_result result,
                                const char *why)
{
    const struct tern_client_event event = {
        .kind = TERN_EVENT_STARTED_OVER,
        .result = result,
        .why = why,
    };
    tern_client_emit(client, &event);
}

// Returns whether the record cannot be used although the store can be read.
static bool is_unusable(enum tern_result result)
{
    return result == TERN_ERR_CORRUPT || result == TERN_ERR_STATE;
}

// A client without a seed has no replica at first; its first task includes a snapshot.
void tern_client_start_from_seed(struct tern_client *client)
{
    client->version = 0;
    if (!tern_model_is_seeded(client->work.model)) {
        memset(client->work.weights, 0, (size_t)client->work.model->count * sizeof(float));
        memset(client->replica, 0, sizeof client->replica);
        return;
    }
    tern_model_init_weights(client->work.model, client->identity.model_seed, client->work.weights);
    tern_replica_from_seed(client->identity.model_hash, client->identity.model_seed,
                           client->replica);
}

enum tern_result tern_client_restore_replica(struct tern_client *client)
{
    client->replica_unsaved = false;
    client->unsaved_bytes = 0;
    client->replica_half_updated = false;
    const enum tern_result result = tern_record_load_replica(client);
    if (is_unusable(result)) {
        report_started_over(
            client, result,
            result == TERN_ERR_CORRUPT
                ? TERN_WHY("the replica's record is damaged; starting from the seed")
                : TERN_WHY("the replica belongs to a former enrolment; starting from the seed"));
    } else if (result != TERN_ERR_NOT_FOUND) {
        return result;
    }
    tern_client_start_from_seed(client);
    return TERN_OK;
}

// Drops the pending update if the settled record shows that the aggregator has answered it. A masked one whose settlement is
// unknown becomes the unsettled update.
static enum tern_result drop_answered_update(struct tern_client *client)
{
    uint32_t generation = 0;
    uint32_t sequence = 0;
    bool settled = false;
    const enum tern_result result =
        tern_record_load_settled(client, &generation, &sequence, &settled);
    if (result == TERN_ERR_NOT_FOUND || is_unusable(result)) {
        return TERN_OK; // the client sends the update again, and the aggregator answers "duplicate"
    }
    TERN_TRY(result);
    if (generation == client->generation && sequence >= client->pending.sequence) {
        if (TERN_SECURE && client->pending.masked && !settled) {
            client->unsettled = client->pending;
        }
        client->pending.len = 0;
    }
    return TERN_OK;
}

static enum tern_result restore_upload(struct tern_client *client)
{
    client->pending = (struct tern_client_pending){0};
    client->unsettled = (struct tern_client_pending){0};
    client->has_velocity = false;
    const enum tern_result result = tern_record_load_upload(client);
    if (result == TERN_OK) {
        return drop_answered_update(client);
    }
    if (is_unusable(result)) {
        report_started_over(
            client, result,
            result == TERN_ERR_CORRUPT
                ? TERN_WHY("the upload record is damaged; the error buffer is lost and starts "
                           "a new generation from zero")
                : TERN_WHY("the error buffer belongs to a former enrolment and is not used"));
    } else if (result != TERN_ERR_NOT_FOUND) {
        return result;
    }
    return new_generation(client);
}

enum tern_result tern_client_restore_meter(struct tern_client *client)
{
    client->meter_round = (struct tern_meter){0};
    const enum tern_result result = tern_record_load_meter(client);
    if (result == TERN_ERR_CORRUPT) {
        report_started_over(client, result,
                            TERN_WHY("the meter's record is damaged; counting from zero"));
        return TERN_OK;
    }
    return result == TERN_ERR_NOT_FOUND ? TERN_OK : result;
}

static enum tern_client_phase first_phase(const struct tern_client *client)
{
    if (client->pending.len > 0) {
        return TERN_PHASE_UPLOAD;
    }
    // The evaluator may have stopped before it reported the evaluation of this version. One that leaves after each round first
    // asks: it would never come to the next version, and the aggregator asks again for an evaluation that was lost.
    const bool evaluates =
        client->identity.evaluator && client->version > 0 && !client->config.leaves;
    return evaluates ? TERN_PHASE_EVALUATE : TERN_PHASE_CHECKIN;
}

static bool lacks_local_memory(const struct tern_client_workspace *workspace)
{
    uint32_t first = 0;
    return TERN_MANIFESTS && workspace->local == NULL &&
           tern_model_local(workspace->model, &first) > 0;
}

enum tern_result tern_client_restore(struct tern_client *client,
                                     const struct tern_client_workspace *workspace)
{
    if (!client->identified) {
        return TERN_ERR_STATE;
    }
    if (!tern_error_storage_known(workspace->error_storage) || lacks_local_memory(workspace)) {
        return TERN_ERR_ARGUMENT;
    }
    if (memcmp(workspace->model->hash, client->identity.model_hash, TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    client->phase = TERN_PHASE_NEW;
    client->work = *workspace;
    client->in_flight = false;
    client->training = false;
    client->has_evaluation = false;
    client->month_exhausted = false;
    client->due_ms = 0;
    client->failures = 0;
    if (!TERN_SMALL) {
        client->returns = false;
        client->unanswered = 0;
        client->stopped_by = TERN_OK;
    }
    client->unsent_round = 0;
    client->final = false;
    client->final_mismatch = false;
    client->has_local = false;
    client->local_is_stashed = false;
    client->error_reported = false;
    client->failed_round = 0;
    client->failure = tern_TrainingFailure_FAILURE_TRAINER;
    memset(&client->task, 0, sizeof client->task);
    if (TERN_STATISTICS) {
        TERN_TRY(tern_client_restore_scaling(
            client)); // before the update is loaded, since both use the blob
    }
    TERN_TRY(tern_client_restore_replica(client));
    TERN_TRY(restore_upload(client));
    if (TERN_SECURE && tern_secure_is_on(client)) {
        TERN_TRY(tern_secure_restore(client));
    }
    if (TERN_VARIANCE_REDUCTION) {
        TERN_TRY(tern_anchor_restore(client));
    }
    TERN_TRY(tern_client_restore_meter(client));
    client->upload_interrupted = client->pending.len > 0;
    client->upload_received = 0;
    client->phase = first_phase(client);
    return TERN_OK;
}
