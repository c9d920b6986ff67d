#include "core.h"

#include <string.h>

struct tern_error_buffer tern_client_error_buffer(const struct tern_client *client)
{
    const struct tern_client_workspace *work = &client->work;
    return (struct tern_error_buffer){work->error_storage, work->error_buffer, work->model->count};
}

// From `len` to where a float may lie, wherever the blob itself begins.
static size_t to_alignment(const struct tern_client *client, size_t len)
{
    const uintptr_t end = (uintptr_t)client->work.blob + len;
    return (sizeof(float) - end % sizeof(float)) % sizeof(float);
}

size_t tern_client_pending_bound(const struct tern_client *client, size_t len)
{
    const struct tern_client_workspace *work = &client->work;
    const uint32_t values = tern_error_give_back_work(work->error_storage, work->model);
    return values == 0 ? len : len + sizeof(float) - 1 + values * sizeof(float);
}

float *tern_client_give_back_work(const struct tern_client *client)
{
    const size_t len = client->pending.len;
    void *start = client->work.blob + len + to_alignment(client, len);
    return start;
}

size_t tern_client_update_bound(const struct tern_client *client, const struct tern_codec *codec)
{
    // The container is encoded at the blob's end and then copied behind the message's fields.
    const size_t container = tern_container_bound(codec, client->work.model);
    const size_t encoding = TERN_WIRE_OVERHEAD + 2 * container;
    const size_t giving_back = tern_client_pending_bound(client, TERN_WIRE_OVERHEAD + container);
    return encoding > giving_back ? encoding : giving_back;
}

// The second container's room is more than what giving back in any storage takes.
size_t tern_client_blob_bound(const struct tern_model *model)
{
    return TERN_WIRE_OVERHEAD + 2 * tern_container_bound_any(model);
}

bool tern_client_has_state_for(const struct tern_client *client, const struct tern_codec *codec)
{
    const struct tern_codec_entry *entry = tern_codec_entry(codec->id);
    return entry->feedback != TERN_FEEDBACK_MOMENTUM || client->work.velocity != NULL;
}

// Judged with the parameters that a spec string without any has.
uint32_t tern_client_codecs(const struct tern_client *client)
{
    uint32_t mask = 0;
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        const struct tern_codec codec = tern_codec_preset(entry);
        if (tern_client_has_state_for(client, &codec) &&
            tern_client_update_bound(client, &codec) <= client->work.blob_size) {
            mask |= 1u << entry->id;
        }
    }
    return mask;
}

tern_ErrorFacts tern_client_error_facts(const struct tern_client *client)
{
    const struct tern_error_buffer buffer = tern_client_error_buffer(client);
    const struct tern_error_facts facts = tern_error_buffer_facts(&buffer);
    return (tern_ErrorFacts){
        .generation = client->generation,
        .sequence = client->sequence,
        .norm = facts.norm,
        .maximum = facts.maximum,
    };
}

enum tern_result tern_client_new_generation(struct tern_client *client)
{
    const struct tern_entropy *entropy = &client->config.ports.entropy;
    uint32_t generation = 0;
    TERN_TRY(entropy->fill(entropy->ctx, &generation, sizeof generation));
    client->generation = generation != 0 ? generation : 1;
    client->sequence = 0;
    client->pending = (struct tern_client_pending){0};
    client->has_velocity = false;
    struct tern_error_buffer buffer = tern_client_error_buffer(client);
    tern_error_buffer_reset(&buffer);
    return TERN_OK;
}

static void say_started_over(const struct tern_client *client, enum tern_result result,
                             const char *why)
{
    const struct tern_client_event event = {
        .kind = TERN_EVENT_STARTED_OVER,
        .result = result,
        .why = why,
    };
    tern_client_emit(client, &event);
}

// Whether a record is simply not to be used, as against a store that cannot be read.
static bool not_usable(enum tern_result result)
{
    return result == TERN_ERR_CORRUPT || result == TERN_ERR_STATE;
}

// Version 0; or nothing, where no seed makes it: the first task then comes with a snapshot.
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

static enum tern_result restore_replica(struct tern_client *client)
{
    client->replica_unsaved = false;
    const enum tern_result result = tern_record_load_replica(client);
    if (not_usable(result)) {
        say_started_over(
            client, result,
            result == TERN_ERR_CORRUPT
                ? TERN_WHY("the replica's record is damaged; starting from the seed")
                : TERN_WHY("the replica is of a former enrolment; starting from the seed"));
    } else if (result != TERN_ERR_NOT_FOUND) {
        return result;
    }
    tern_client_start_from_seed(client);
    return TERN_OK;
}

// An update counts as pending until the settled record names it.
static enum tern_result drop_settled(struct tern_client *client)
{
    uint32_t generation = 0;
    uint32_t sequence = 0;
    const enum tern_result result = tern_record_load_settled(client, &generation, &sequence);
    if (result == TERN_ERR_NOT_FOUND || not_usable(result)) {
        return TERN_OK; // sent once more: the aggregator answers "duplicate"
    }
    TERN_TRY(result);
    if (generation == client->generation && sequence >= client->pending.sequence) {
        client->pending.len = 0;
    }
    return TERN_OK;
}

static enum tern_result restore_upload(struct tern_client *client)
{
    client->pending = (struct tern_client_pending){0};
    client->has_velocity = false;
    const enum tern_result result = tern_record_load_upload(client);
    if (result == TERN_OK) {
        return drop_settled(client);
    }
    if (not_usable(result)) {
        say_started_over(
            client, result,
            result == TERN_ERR_CORRUPT
                ? TERN_WHY("the upload record is damaged; the error buffer is lost and starts "
                           "a new generation from zero")
                : TERN_WHY("the error buffer is of a former enrolment and is not used"));
    } else if (result != TERN_ERR_NOT_FOUND) {
        return result;
    }
    return tern_client_new_generation(client);
}

enum tern_result tern_client_restore_meter(struct tern_client *client)
{
    client->meter_round = (struct tern_meter){0};
    const enum tern_result result = tern_record_load_meter(client);
    if (result == TERN_ERR_CORRUPT) {
        say_started_over(client, result,
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
    // What an evaluator found out about the version it holds may not have been reported.
    const bool evaluates = client->identity.evaluator && client->version > 0;
    return evaluates ? TERN_PHASE_EVALUATE : TERN_PHASE_CHECKIN;
}

enum tern_result tern_client_restore(struct tern_client *client,
                                     const struct tern_client_workspace *workspace)
{
    if (!client->identified) {
        return TERN_ERR_STATE;
    }
    if (!tern_error_storage_known(workspace->error_storage)) {
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
    client->month_closed = false;
    client->due_ms = 0;
    client->failures = 0;
    client->kept_round = 0;
    memset(&client->task, 0, sizeof client->task);
    TERN_TRY(restore_replica(client));
    TERN_TRY(restore_upload(client));
    TERN_TRY(tern_client_restore_meter(client));
    client->phase = first_phase(client);
    return TERN_OK;
}
