// Secure rounds on the client: the ticket that gives its secret to the helper, the checks of tasks and scales, masked updates, and
// their settlements. docs/PROTOCOL.md specifies the bytes.
#include "core.h"
#include "secure/masked.h"
#include "util/bytes.h"

#include <string.h>

#if TERN_SECURE

_Static_assert(sizeof((tern_CheckinRequest *)NULL)->ticket.bytes >= TERN_SECURE_TICKET_MAX,
               "ticket");
_Static_assert(sizeof((tern_SecureRound *)NULL)->scales.bytes ==
                   sizeof(float) * TERN_MASKED_TENSORS_MAX,
               "scales");

enum tern_result tern_secure_init(const struct tern_client *client)
{
    const char *code = client->config.helper_code;
    if (client->config.evaluator || code == NULL || code[0] == '\0' ||
        strlen(code) > TERN_SECURE_CODE_MAX) {
        return TERN_ERR_ARGUMENT;
    }
    return tern_secret_start();
}

static uint32_t min_clients(const struct tern_client *client)
{
    const uint32_t setting = client->config.secure_min_clients;
    return setting != 0 ? setting : TERN_SECURE_MIN_CLIENTS;
}

static void get_federation(const struct tern_client *client, uint8_t id[TERN_SHA256_SIZE])
{
    tern_federation_id(client->identity.model_hash, client->identity.model_seed, id);
}

// --- Tickets

enum tern_result tern_secure_restore(struct tern_client *client)
{
    client->ticket_due = false;
    client->ticket.epoch = 0;
    const enum tern_result result = tern_record_load_ticket(client); // also ticket_due
    // Without the record the client seals another secret, which it then uses for later rounds.
    return result == TERN_ERR_IO ? result : TERN_OK;
}

// Notes whether the next check-in sends the ticket, also in the record, so that a restart does not forget it.
static enum tern_result set_ticket_due(struct tern_client *client, bool due)
{
    if (client->ticket_due == due) {
        return TERN_OK;
    }
    client->ticket_due = due;
    return tern_record_save_ticket(client);
}

void tern_secure_fill_checkin(const struct tern_client *client, tern_CheckinRequest *message)
{
    const struct tern_client_ticket *ticket = &client->ticket;
    message->secure = true;
    message->ticket_epoch = ticket->epoch;
    if (client->ticket_due) {
        message->ticket.size = (pb_size_t)ticket->size;
        memcpy(message->ticket.bytes, ticket->sealed, ticket->size);
    }
    message->unsettled = client->unsettled.len > 0 ? client->unsettled.round : 0;
    message->error.norm = 0;
    message->error.maximum = 0;
    message->has_evaluation = false;
}

static enum tern_result seal_ticket(struct tern_client *client, const tern_HelperKey *helper,
                                    const uint8_t federation[TERN_SHA256_SIZE])
{
    const struct tern_entropy *entropy = &client->config.ports.entropy;
    const char *code = client->config.helper_code;
    const struct tern_secure_ticket facts = {federation, client->identity.client_id, helper->epoch};
    struct tern_client_ticket ticket = {.epoch = helper->epoch};
    uint8_t ephemeral[TERN_SECRET_SIZE];
    TERN_TRY(entropy->fill(entropy->ctx, ticket.secret, sizeof ticket.secret));
    TERN_TRY(entropy->fill(entropy->ctx, ephemeral, sizeof ephemeral));
    TERN_TRY(tern_secure_ticket_seal(&facts, helper->public_key.bytes, ephemeral, ticket.secret,
                                     (struct tern_bytes_view){code, strlen(code)}, ticket.sealed));
    tern_secret_erase(ephemeral, sizeof ephemeral);
    ticket.size = (uint32_t)(TERN_HPKE_OVERHEAD + TERN_SECRET_SIZE + strlen(code));
    client->ticket = ticket;
    client->ticket_due = true;
    return tern_record_save_ticket(client);
}

static bool is_signed_by_helper(const struct tern_client *client, const tern_HelperKey *helper,
                                const uint8_t federation[TERN_SHA256_SIZE])
{
    uint8_t statement[TERN_SHA256_SIZE];
    tern_helper_key_statement(federation, helper->epoch, helper->public_key.bytes, statement);
    return tern_p256_verify(client->config.helper_key, statement, helper->signature.bytes) ==
           TERN_OK;
}

// Makes a ticket for the helper's key, unless the client has one of this epoch already. The aggregator lacks an admitted ticket.
// TERN_AGAIN, without an event: the next check-in brings the ticket at once, since a client that leaves ends with the event of a
// wait. A ticket that was just sent waits for the next regular check-in.
static enum tern_result handle_helper_key(struct tern_client *client,
                                          const tern_CheckinReply *reply)
{
    const tern_HelperKey *helper = &reply->helper;
    const bool sent = client->ticket_due;
    uint8_t federation[TERN_SHA256_SIZE];
    get_federation(client, federation);
    if (helper->epoch == client->ticket.epoch) {
        TERN_TRY(set_ticket_due(client, true));
        return sent || reply->has_task ? TERN_OK : TERN_AGAIN;
    }
    TERN_TRY(set_ticket_due(client, false));
    if (!is_signed_by_helper(client, helper, federation)) {
        return tern_client_retry_later(
            client, TERN_ERR_UNAUTHORIZED,
            TERN_WHY("the helper's key is not signed by secure.helper_key, so the client made no "
                     "ticket for it"));
    }
    if (helper->epoch < client->ticket.epoch) {
        return tern_client_retry_later(
            client, TERN_ERR_CONFLICT,
            TERN_WHY("the helper's key is of an earlier epoch than this client's ticket"));
    }
    TERN_TRY(seal_ticket(client, helper, federation));
    const struct tern_client_event event = {.kind = TERN_EVENT_TICKET, .epoch = helper->epoch};
    tern_client_emit(client, &event);
    return TERN_AGAIN;
}

// --- Checks of tasks

static uint32_t scale_count(const tern_Task *task)
{
    return (uint32_t)(task->secure.scales.size / sizeof(float));
}

// Reads the round's public facts from the task, all but the hash of the weights. scales: [TERN_MASKED_TENSORS_MAX], which the
// round borrows.
static struct tern_secure_round read_round(const struct tern_client *client, const tern_Task *task,
                                           float *scales)
{
    const tern_SecureRound *secure = &task->secure;
    struct tern_secure_round round = {
        .round = task->round,
        .local_steps = task->local_steps,
        .batch_size = task->batch_size,
        .learning_rate = task->learning_rate,
        .momentum = task->momentum,
        .weight_decay = task->weight_decay,
        .prox_mu = task->prox_mu,
        .directive = (uint32_t)task->error_directive,
        .level = secure->level,
        .bits = secure->bits,
        .cohort = secure->cohort,
        .min_clients = secure->min_clients,
        .groups = secure->groups,
        .share = secure->share,
        .places_seed = secure->places_seed,
        .places_max = secure->places_max,
        .noise = secure->noise,
        .examples_max = secure->examples_max,
        .epoch = secure->epoch,
        .scale_count = scale_count(task),
        .scales = scales,
    };
    get_federation(client, round.federation);
    memcpy(round.model_hash, client->identity.model_hash, sizeof round.model_hash);
    for (uint32_t i = 0; i < round.scale_count; i++) {
        scales[i] = tern_get_f32(secure->scales.bytes + i * sizeof(float));
    }
    return round;
}

// Checks what would reveal something about this client beside the masked update, or make its update differ from others'.
static enum tern_result check_equal_work(const struct tern_client *client, const tern_Task *task,
                                         const char **why)
{
    const uint32_t steps_max = client->config.max_local_steps;
    if (task->evaluate) {
        *why = TERN_WHY("the task asks for an evaluation on this client's data, which "
                        "secure.helper_key forbids");
        return TERN_ERR_ARGUMENT;
    }
    if (task->gradient != tern_Gradient_GRADIENT_BATCH || task->has_indices ||
        task->error_directive != tern_ErrorDirective_ERROR_KEEP) {
        *why = TERN_WHY(
            "the secure task uses variance reduction, shared indices, or a directive that changes "
            "the error buffer");
        return TERN_ERR_ARGUMENT;
    }
    if (steps_max != 0 && steps_max < task->local_steps) {
        *why = TERN_WHY("the secure task has more local steps than client.max_local_steps; all "
                        "clients do the same "
                        "number");
        return TERN_ERR_ARGUMENT;
    }
    return TERN_OK;
}

// Compares the end of the helper's log with that in the task of the last masked update. A helper that shows one log to a device
// now and another one later signs both, so that its operator can be confronted with them.
static enum tern_result check_log(const struct tern_client *client, const tern_SecureRound *round,
                                  const char **why)
{
    const struct tern_client_masked *last = &client->masked;
    struct tern_helper_log log = {.count = round->log_count};
    uint8_t federation[TERN_SHA256_SIZE];
    uint8_t statement[TERN_SHA256_SIZE];
    get_federation(client, federation);
    memcpy(log.head, round->log_head.bytes, sizeof log.head);
    tern_helper_log_statement(federation, &log, statement);
    if (tern_p256_verify(client->config.helper_key, statement, round->log_signature.bytes) !=
        TERN_OK) {
        *why = TERN_WHY("the end of the helper's log is not signed by secure.helper_key");
        return TERN_ERR_ARGUMENT;
    }
    if (last->round != 0 && log.count < last->log_count) {
        *why = TERN_WHY("the helper's log has fewer entries than before: it was rolled back, or "
                        "the aggregator shows an old one");
        return TERN_ERR_CONFLICT;
    }
    if (last->round != 0 && log.count == last->log_count &&
        memcmp(log.head, last->log_head, sizeof log.head) != 0) {
        *why = TERN_WHY("the helper's log has as many entries as before, and another head: there "
                        "are two logs");
        return TERN_ERR_CONFLICT;
    }
    return TERN_OK;
}

static enum tern_result check_round(const struct tern_client *client,
                                    const struct tern_secure_round *round, const char **why)
{
    if (round->min_clients < min_clients(client)) {
        *why = TERN_WHY("the helper may reveal sums of fewer updates than secure.min_clients");
        return TERN_ERR_ARGUMENT;
    }
    if (round->noise < client->config.secure_min_noise) {
        *why = TERN_WHY("the helper would add less noise to the sum than secure.min_noise");
        return TERN_ERR_ARGUMENT;
    }
    if (round->bits != tern_secure_bits(round)) {
        *why = TERN_WHY("the bits of a masked value are not those that the cohort, the level and "
                        "the noise need");
        return TERN_ERR_ARGUMENT;
    }
    if (round->scale_count != tern_masked_tensors(client->work.model) ||
        tern_secure_round_check(round) != NULL) {
        *why = TERN_WHY("a fact of the secure round is out of range, or the scales are not one for "
                        "each tensor");
        return TERN_ERR_ARGUMENT;
    }
    if (round->round <= client->masked.round) {
        *why = TERN_WHY(
            "the secure round is not newer than this client's last masked update: it was replayed");
        return TERN_ERR_CONFLICT;
    }
    if (round->epoch != client->ticket.epoch) {
        *why = TERN_WHY("the secure round is of another epoch than this client's ticket");
        return TERN_ERR_CONFLICT;
    }
    return TERN_OK;
}

enum tern_result tern_secure_check_task(const struct tern_client *client, const tern_Task *task,
                                        const char **why)
{
    float scales[TERN_MASKED_TENSORS_MAX];
    if (!tern_secure_is_on(client)) {
        *why = TERN_WHY("the task is for a secure round, and this client has no secure.helper_key");
        return TERN_ERR_CONFIG;
    }
    if (!task->has_secure) {
        *why = TERN_WHY("the task has no mask, and secure.helper_key allows masked updates only");
        return TERN_ERR_CONFIG;
    }
    if (TERN_STATISTICS && client->scaling != 0) {
        *why = TERN_WHY("this client's columns have a scaling of the federation, which "
                        "secure.helper_key forbids; enrol the client again");
        return TERN_ERR_CONFIG;
    }
    if (client->unsettled.len > 0) {
        *why = TERN_WHY(
            "the aggregator has not reported what became of this client's last masked update");
        return TERN_ERR_STATE;
    }
    if (!tern_masked_supports(client->work.model)) {
        *why =
            TERN_WHY("the model has dense or local tensors, or too many tensors for secure rounds");
        return TERN_ERR_MODEL_MISMATCH;
    }
    TERN_TRY(check_equal_work(client, task, why));
    const struct tern_secure_round round = read_round(client, task, scales);
    TERN_TRY(check_round(client, &round, why));
    TERN_TRY(check_log(client, &task->secure, why));
    const size_t size = tern_secure_update_size(client, task);
    const size_t encoding = TERN_WIRE_OVERHEAD + 2 * size;
    const size_t sending = tern_client_pending_bound(client, TERN_WIRE_OVERHEAD + size);
    if (encoding > client->work.blob_size || sending > client->work.blob_size) {
        *why = TERN_WHY("a masked update does not fit into this client's memory");
        return TERN_ERR_TOO_LARGE;
    }
    return TERN_OK;
}

void tern_secure_note_refusal(struct tern_client *client, const tern_Task *task)
{
    const struct tern_client_masked *last = &client->masked;
    const tern_SecureRound *round = &task->secure;
    if (!tern_secure_is_on(client) || !task->has_secure || last->round == 0) {
        return;
    }
    if (task->round <= last->round) {
        client->failed_round = last->round;
        client->failure = tern_TrainingFailure_FAILURE_REPLAYED;
    } else if (round->log_count < last->log_count ||
               (round->log_count == last->log_count &&
                memcmp(round->log_head.bytes, last->log_head, sizeof last->log_head) != 0)) {
        client->failed_round = task->round;
        client->failure = tern_TrainingFailure_FAILURE_HELPER_LOG;
    }
}

enum tern_result tern_secure_check_scales(const struct tern_client *client, const char **why)
{
    float scales[TERN_MASKED_TENSORS_MAX];
    float first[TERN_MASKED_TENSORS_MAX];
    const struct tern_secure_round round = read_round(client, &client->task, scales);
    const float *before = client->masked.scales;
    if (client->masked.round == 0) {
        tern_masked_first_scales(client->work.model, &round, client->work.weights, first);
        before = first;
    }
    if (tern_masked_scales_are_near(&round, before, client->masked.round)) {
        return TERN_OK;
    }
    *why = TERN_WHY(
        "a public scale moved by more than a factor of 4 since this client's last masked update");
    return TERN_ERR_ARGUMENT;
}

// --- Masked updates

// Returns the facts of *masked that a packed vector's layout and values depend on.
static struct tern_secure_round layout_of(const struct tern_client_masked *masked)
{
    return (struct tern_secure_round){
        .share = masked->share,
        .bits = masked->bits,
        .places_seed = masked->places_seed,
        .scale_count = masked->scale_count,
        .scales = masked->scales,
    };
}

size_t tern_secure_packed_size(const struct tern_client *client,
                               const struct tern_client_masked *masked)
{
    const struct tern_secure_round round = layout_of(masked);
    const struct tern_masked_shape shape = tern_masked_shape_of(client->work.model, &round);
    return tern_masked_size(&shape);
}

size_t tern_secure_update_size(const struct tern_client *client, const tern_Task *task)
{
    const struct tern_secure_round round = {.share = task->secure.share, .bits = task->secure.bits};
    const struct tern_masked_shape shape = tern_masked_shape_of(client->work.model, &round);
    return tern_masked_size(&shape);
}

void tern_secure_weigh(const struct tern_client *client, float *change)
{
    const tern_SecureRound *secure = &client->task.secure;
    const struct tern_secure_round round = {.share = secure->share,
                                            .places_seed = secure->places_seed,
                                            .examples_max = secure->examples_max};
    tern_masked_weigh(client->work.model, &round, client->train_result.num_examples, change);
}

static enum tern_result derive_key(const struct tern_client *client,
                                   const struct tern_secure_round *round, uint64_t nonce,
                                   uint8_t key[TERN_SECRET_SIZE])
{
    struct tern_masked_key masked = {.nonce = nonce};
    tern_secure_round_hash(round, masked.descriptor);
    return tern_mask_key(client->ticket.secret, &masked, key);
}

enum tern_result tern_secure_encode(struct tern_client *client, uint64_t nonce, uint8_t *dst,
                                    struct tern_client_masked *masked)
{
    const struct tern_model *model = client->work.model;
    const struct tern_masked_training training = {client->train_result.num_examples,
                                                  client->train_result.loss};
    struct tern_secure_round round = read_round(client, &client->task, masked->scales);
    const struct tern_masked_shape shape = tern_masked_shape_of(model, &round);
    if (client->train_result.local_steps != round.local_steps) {
        return TERN_ERR_TRAINER; // fewer steps than others would single this client's change out
    }
    masked->round = round.round;
    masked->share = round.share;
    masked->bits = round.bits;
    masked->scale_count = round.scale_count;
    masked->places_seed = round.places_seed;
    masked->log_count = client->task.secure.log_count;
    memcpy(masked->log_head, client->task.secure.log_head.bytes, sizeof masked->log_head);
    // The aggregator chooses the id of a snapshot's replica, so the weights themselves are compared.
    tern_masked_weights_hash(model, client->work.weights, round.replica);
    TERN_TRY(derive_key(client, &round, nonce, masked->key));
    TERN_TRY(tern_masked_quantise(model, &round, &training, client->trained, dst));
    return tern_masked_add_mask(&shape, masked->key, dst);
}

enum tern_result tern_secure_give_back(const struct tern_client *client,
                                       const struct tern_client_masked *masked, uint8_t *packed,
                                       size_t size, struct tern_error_buffer *buffer)
{
    const struct tern_secure_round round = layout_of(masked);
    const struct tern_masked_shape shape = tern_masked_shape_of(client->work.model, &round);
    TERN_TRY(tern_masked_check(&shape, packed, size));
    TERN_TRY(tern_masked_remove_mask(&shape, masked->key, packed));
    tern_masked_give_back(client->work.model, &round, packed, buffer);
    return TERN_OK;
}

enum tern_result tern_secure_give_back_pending(struct tern_client *client)
{
    struct tern_error_buffer buffer = tern_client_error_buffer(client);
    tern_Update message;
    struct tern_span container;
    TERN_TRY(tern_wire_decode_update(tern_client_update(client), client->pending.len, &message,
                                     &container));
    memmove(client->work.blob, container.data, container.len);
    return tern_secure_give_back(client, &client->masked, client->work.blob, container.len,
                                 &buffer);
}

// --- Settlements

static enum tern_result settle(struct tern_client *client, bool counted)
{
    const struct tern_client_pending unsettled = client->unsettled;
    if (counted) {
        TERN_TRY(tern_record_save_settled(client, unsettled.sequence, true));
    } else {
        client->pending = unsettled;
        TERN_TRY(tern_record_reload_pending(client));
        TERN_TRY(tern_secure_give_back_pending(client));
        client->pending.len = 0;
        TERN_TRY(tern_record_save_upload(client));
        client->error_reported = false;
    }
    client->unsettled.len = 0;
    const struct tern_client_event event = {
        .kind = TERN_EVENT_SETTLED,
        .round = unsettled.round,
        .sequence = unsettled.sequence,
        .counted = counted,
    };
    tern_client_emit(client, &event);
    return TERN_OK;
}

enum tern_result tern_secure_handle_reply(struct tern_client *client,
                                          const tern_CheckinReply *reply)
{
    if (!reply->has_helper) {
        TERN_TRY(set_ticket_due(client, false));
    }
    if (client->unsettled.len > 0 && reply->has_settled &&
        reply->settled.round == client->unsettled.round) {
        TERN_TRY(settle(client, reply->settled.counted));
        // Giving back has overwritten the answer, with the downloads of a task, in the blob. The client asks for the task again.
        if (!reply->settled.counted && reply->has_task) {
            return TERN_AGAIN;
        }
    }
    return reply->has_helper ? handle_helper_key(client, reply) : TERN_OK;
}

#endif
