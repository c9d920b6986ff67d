#include "secure/ask.h"

#include "codec/container.h"
#include "util/bytes.h"
#include "wire/helper/messages.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The codec of a mean update: without loss, since the values were rounded before the mask.
#define MEAN_CODEC TERN_CODEC_FLOAT32

// --- Answers

static void set_outcome(struct tern_helper_outcome *outcome, enum tern_helper_verdict verdict,
                        const char *name, const char *sentence)
{
    outcome->verdict = verdict;
    snprintf(outcome->name, sizeof outcome->name, "%s", name);
    snprintf(outcome->sentence, sizeof outcome->sentence, "%s", sentence);
}

static void set_result(struct tern_helper_outcome *outcome, enum tern_helper_verdict verdict,
                       enum tern_result result)
{
    set_outcome(outcome, verdict, tern_result_name(result), tern_result_sentence(result));
}

// Whether the helper may answer the same request otherwise later: it is busy, or its operator can give it the token.
static bool is_temporary(int status)
{
    return status >= 500 || status == 429 || status == 408 || status == 401;
}

// Sets the outcome of a reply that is not 2xx.
static void refuse(const struct tern_helper_reply *reply, struct tern_helper_outcome *outcome)
{
    tern_Error error = tern_Error_init_zero;
    const enum tern_helper_verdict verdict =
        is_temporary(reply->status) ? TERN_HELPER_SILENT : TERN_HELPER_REFUSED;
    char sentence[48];
    if (tern_wire_decode_error(reply->body, reply->body_len, &error) == TERN_OK) {
        set_outcome(outcome, verdict, error.name, error.sentence);
        return;
    }
    snprintf(sentence, sizeof sentence, "The helper answered HTTP %d.", reply->status);
    set_outcome(outcome, verdict, "unknown", sentence);
}

// Sends the request. False: there is no answer with status 200, and the outcome has the reason.
static bool exchange(const struct tern_helper_party *helper,
                     const struct tern_helper_request *request, struct tern_helper_reply *reply,
                     struct tern_helper_outcome *outcome)
{
    reply->why[0] = '\0';
    const enum tern_result result = helper->port.exchange(helper->port.ctx, request, reply);
    if (result != TERN_OK) {
        set_outcome(outcome, result == TERN_ERR_TOO_LARGE ? TERN_HELPER_WRONG : TERN_HELPER_SILENT,
                    tern_result_name(result),
                    reply->why[0] != '\0' ? reply->why : tern_result_sentence(result));
        return false;
    }
    if (reply->status != 200) {
        refuse(reply, outcome);
        return false;
    }
    set_outcome(outcome, TERN_HELPER_ANSWERED, "", "");
    return true;
}

// The decoder has checked the sizes of `head` and `signature`.
static struct tern_helper_log log_of(uint64_t count, const uint8_t *head, const uint8_t *signature)
{
    struct tern_helper_log log = {.count = count};
    memcpy(log.head, head, sizeof log.head);
    memcpy(log.signature, signature, sizeof log.signature);
    return log;
}

// Devices refuse a task whose log is not signed, so its round would train in vain.
static void check_log(const struct tern_helper_party *helper, const struct tern_helper_log *log,
                      struct tern_helper_outcome *outcome)
{
    uint8_t statement[TERN_SHA256_SIZE];
    tern_helper_log_statement(helper->federation, log, statement);
    if (outcome->verdict == TERN_HELPER_ANSWERED &&
        tern_p256_verify(helper->key, statement, log->signature) != TERN_OK) {
        set_outcome(outcome, TERN_HELPER_WRONG, "wrong-signature",
                    "The end of the helper's log is not signed with secure.helper_key.");
    }
}

// --- Epochs and tickets

static void check_epoch(const struct tern_helper_party *helper, const tern_EpochKey *message,
                        struct tern_helper_epoch *epoch, struct tern_helper_outcome *outcome)
{
    uint8_t statement[TERN_SHA256_SIZE];
    if (message->epoch == 0 || message->epoch > UINT32_MAX) {
        set_result(outcome, TERN_HELPER_WRONG, TERN_ERR_ARGUMENT);
        return;
    }
    epoch->epoch = (uint32_t)message->epoch;
    epoch->seconds_left = message->seconds_left;
    memcpy(epoch->public_key, message->public_key.bytes, sizeof epoch->public_key);
    memcpy(epoch->signature, message->signature.bytes, sizeof epoch->signature);
    epoch->log = log_of(message->log_count, message->log_head.bytes, message->log_signature.bytes);
    tern_helper_key_statement(helper->federation, message->epoch, epoch->public_key, statement);
    if (tern_p256_verify(helper->key, statement, epoch->signature) != TERN_OK) {
        set_outcome(outcome, TERN_HELPER_WRONG, "wrong-signature",
                    "The key of the epoch is not signed with secure.helper_key. Compare that "
                    "setting with `tern-helper status`.");
    }
    check_log(helper, &epoch->log, outcome);
}

void tern_helper_ask_epoch(const struct tern_helper_party *helper, struct tern_helper_epoch *epoch,
                           struct tern_helper_outcome *outcome)
{
    char path[sizeof TERN_PATH_EPOCH + TERN_BASE64URL_LENGTH(TERN_SHA256_SIZE)] = TERN_PATH_EPOCH;
    uint8_t body[TERN_HELPER_MESSAGE_MAX];
    struct tern_helper_reply reply = {.body = body, .body_size = sizeof body};
    tern_EpochKey message;
    tern_base64url_encode(helper->federation, TERN_SHA256_SIZE, path + sizeof TERN_PATH_EPOCH - 1);
    const struct tern_helper_request request = {.method = "GET", .path = path};
    if (!exchange(helper, &request, &reply, outcome)) {
        return;
    }
    const enum tern_result result =
        tern_wire_decode_epoch_key(reply.body, reply.body_len, &message);
    if (result != TERN_OK) {
        set_result(outcome, TERN_HELPER_WRONG, result);
        return;
    }
    check_epoch(helper, &message, epoch, outcome);
}

void tern_helper_ask_ticket(const struct tern_helper_party *helper, uint64_t client, uint32_t epoch,
                            struct tern_span sealed, struct tern_helper_outcome *outcome)
{
    tern_TicketRequest message = tern_TicketRequest_init_zero;
    uint8_t body[TERN_HELPER_MESSAGE_MAX];
    uint8_t answer[TERN_HELPER_MESSAGE_MAX];
    struct tern_helper_reply reply = {.body = answer, .body_size = sizeof answer};
    size_t len = 0;
    message.client = client;
    message.epoch = epoch;
    message.federation.size = TERN_SHA256_SIZE;
    memcpy(message.federation.bytes, helper->federation, TERN_SHA256_SIZE);
    if (sealed.len > sizeof message.ticket.bytes) {
        set_result(outcome, TERN_HELPER_REFUSED, TERN_ERR_TOO_LARGE);
        return;
    }
    message.ticket.size = (pb_size_t)sealed.len;
    memcpy(message.ticket.bytes, sealed.data, sealed.len);
    const enum tern_result result =
        tern_wire_encode_ticket_request(&message, body, sizeof body, &len);
    if (result != TERN_OK) {
        set_result(outcome, TERN_HELPER_REFUSED, result);
        return;
    }
    const struct tern_helper_request request = {
        .method = "POST", .path = TERN_PATH_TICKETS, .body = body, .body_len = len};
    (void)exchange(helper, &request, &reply, outcome);
}

// --- Sums

struct sum_buffers {
    uint8_t *facts;
    uint8_t *members;
    uint8_t *request;
    uint8_t *reply;
    size_t facts_len;
    size_t members_len;
    size_t request_size;
    size_t reply_size;
};

static void free_sum_buffers(struct sum_buffers *buffers)
{
    free(buffers->facts);
    free(buffers->members);
    free(buffers->request);
    free(buffers->reply);
}

static enum tern_result make_sum_buffers(const struct tern_masked_round *round, size_t sums_len,
                                         struct sum_buffers *buffers)
{
    *buffers = (struct sum_buffers){.facts_len = tern_secure_round_size(round->facts),
                                    .members_len = (size_t)round->count * TERN_HELPER_MEMBER_BYTES,
                                    .reply_size = sums_len + TERN_HELPER_MESSAGE_MAX};
    buffers->request_size = tern_sum_request_bound(buffers->facts_len, buffers->members_len);
    buffers->facts = malloc(buffers->facts_len);
    buffers->members = malloc(buffers->members_len);
    buffers->request = malloc(buffers->request_size);
    buffers->reply = malloc(buffers->reply_size);
    const bool made = buffers->facts != NULL && buffers->members != NULL &&
                      buffers->request != NULL && buffers->reply != NULL;
    return made ? TERN_OK : TERN_ERR_NO_MEMORY;
}

static enum tern_result encode_sum_request(const struct tern_masked_round *round,
                                           const struct tern_masked_shape *shape,
                                           struct sum_buffers *buffers, size_t *len)
{
    tern_secure_round_encode(round->facts, buffers->facts);
    for (uint32_t i = 0; i < round->count; i++) {
        tern_member_put(&round->members[i],
                        buffers->members + (size_t)i * TERN_HELPER_MEMBER_BYTES);
    }
    const struct tern_sum_request message = {
        .facts = {buffers->facts, buffers->facts_len},
        .values = shape->values,
        .members = {buffers->members, buffers->members_len},
    };
    return tern_wire_encode_sum_request(&message, buffers->request, buffers->request_size, len);
}

static enum tern_result hash_list(const struct tern_masked_round *round,
                                  uint8_t hash[TERN_SHA256_SIZE])
{
    uint8_t descriptor[TERN_SHA256_SIZE];
    struct tern_secure_list list;
    tern_secure_round_hash(round->facts, descriptor);
    tern_secure_list_start(&list, descriptor);
    for (uint32_t i = 0; i < round->count; i++) {
        TERN_TRY(tern_secure_list_add(&list, &round->members[i]));
    }
    tern_secure_list_finish(&list, hash);
    return TERN_OK;
}

// Checks that these bytes can be a sum of masks for each group.
static enum tern_result check_layout(const struct tern_masked_round *round,
                                     const struct tern_masked_shape *shape, struct tern_span sums)
{
    const size_t size = tern_masked_size(shape);
    if (sums.len != size * round->groups->count) {
        return TERN_ERR_CORRUPT;
    }
    for (size_t at = 0; at < sums.len; at += size) {
        TERN_TRY(tern_masked_check(shape, sums.data + at, size));
    }
    return TERN_OK;
}

// Checks that the helper has signed these sums for this list.
static void check_sums(const struct tern_helper_party *helper,
                       const struct tern_masked_round *round, const struct tern_masked_shape *shape,
                       const tern_SumReply *message, struct tern_span sums,
                       struct tern_helper_outcome *outcome)
{
    uint8_t list[TERN_SHA256_SIZE];
    uint8_t statement[TERN_SHA256_SIZE];
    enum tern_result result = hash_list(round, list);
    if (result == TERN_OK) {
        result = check_layout(round, shape, sums);
    }
    if (result != TERN_OK) {
        set_result(outcome, TERN_HELPER_WRONG, result);
        return;
    }
    tern_secure_sum_statement(list, sums.data, sums.len, statement);
    if (message->signature.size != TERN_P256_SIGNATURE_SIZE ||
        tern_p256_verify(helper->key, statement, message->signature.bytes) != TERN_OK) {
        set_outcome(outcome, TERN_HELPER_WRONG, "wrong-signature",
                    "The sum of the masks is not signed with secure.helper_key for this list of "
                    "clients.");
    }
}

static void take_sums(const struct tern_helper_party *helper, struct tern_masked_round *round,
                      const struct tern_masked_shape *shape, const struct tern_helper_reply *reply,
                      struct tern_helper_log *log, struct tern_helper_outcome *outcome)
{
    const size_t size = tern_masked_size(shape);
    tern_SumReply message;
    struct tern_span sums;
    const enum tern_result result =
        tern_wire_decode_sum_reply(reply->body, reply->body_len, &message, &sums);
    if (result != TERN_OK) {
        set_result(outcome, TERN_HELPER_WRONG, result);
        return;
    }
    check_sums(helper, round, shape, &message, sums, outcome);
    if (outcome->verdict == TERN_HELPER_ANSWERED) {
        *log = log_of(message.log_count, message.log_head.bytes, message.log_signature.bytes);
        check_log(helper, log, outcome);
    }
    if (outcome->verdict != TERN_HELPER_ANSWERED) {
        return;
    }
    for (size_t at = 0; at < sums.len; at += size) {
        tern_masked_subtract(shape, round->sums + at, sums.data + at);
    }
}

void tern_helper_ask_sum(const struct tern_helper_party *helper, struct tern_masked_round *round,
                         struct tern_helper_log *log, struct tern_helper_outcome *outcome)
{
    const struct tern_masked_shape shape = tern_masked_shape_of(round->model, round->facts);
    struct sum_buffers buffers;
    size_t len = 0;
    enum tern_result result =
        make_sum_buffers(round, tern_masked_size(&shape) * round->groups->count, &buffers);
    if (result == TERN_OK) {
        result = encode_sum_request(round, &shape, &buffers, &len);
    }
    if (result != TERN_OK) {
        set_result(outcome, TERN_HELPER_SILENT, result);
    } else {
        const struct tern_helper_request request = {
            .method = "POST", .path = TERN_PATH_SUMS, .body = buffers.request, .body_len = len};
        struct tern_helper_reply reply = {.body = buffers.reply, .body_size = buffers.reply_size};
        if (exchange(helper, &request, &reply, outcome)) {
            take_sums(helper, round, &shape, &reply, log, outcome);
        }
    }
    free_sum_buffers(&buffers);
}

// --- The mean update

// The sums of a round that can be those of its updates.
struct sound_parts {
    struct tern_masked_part parts[TERN_SECURE_GROUPS_MAX];
    double losses[TERN_SECURE_GROUPS_MAX];
    uint32_t count;
    uint64_t examples;
};

static void find_sound_parts(const struct tern_masked_round *round, struct sound_parts *sound)
{
    const struct tern_masked_shape shape = tern_masked_shape_of(round->model, round->facts);
    const size_t size = tern_masked_size(&shape);
    *sound = (struct sound_parts){.count = 0};
    for (uint32_t i = 0; i < round->groups->count; i++) {
        const uint8_t *sum = round->sums + i * size;
        const uint32_t members = round->groups->sizes[i];
        const struct tern_masked_totals totals = tern_masked_totals_of(round->facts, sum, members);
        if (totals.weight > 0.0 &&
            tern_masked_sum_is_possible(round->model, round->facts, sum, members)) {
            sound->parts[sound->count] = (struct tern_masked_part){sum, members, totals.weight};
            sound->losses[sound->count++] = totals.loss;
            sound->examples += totals.examples;
        }
    }
}

static tern_Update describe_mean(const struct tern_masked_round *round, struct sound_parts *sound)
{
    const struct tern_secure_round *facts = round->facts;
    tern_Update message = tern_Update_init_zero;
    const bool weighted = facts->examples_max != 0 && sound->examples > 0;
    const float loss = (float)tern_masked_median(sound->losses, sound->count);
    message.base.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(message.base.bytes, round->base, TERN_WIRE_REPLICA_BYTES);
    message.num_examples = !weighted                       ? round->count
                           : sound->examples <= UINT32_MAX ? (uint32_t)sound->examples
                                                           : UINT32_MAX;
    message.local_steps = facts->local_steps;
    message.loss = isfinite(loss) ? loss : 0.0F;
    message.has_error = true;
    message.error.generation = 1;
    message.error.sequence = facts->round;
    return message;
}

static double norm_of(const float *values, uint32_t count)
{
    double square = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        square += (double)values[i] * (double)values[i];
    }
    return sqrt(square);
}

// Overwrites `change`.
static enum tern_result encode_mean(const struct tern_model *model, const tern_Update *message,
                                    float *change, struct tern_mean_update *update)
{
    const struct tern_codec codec = {.id = MEAN_CODEC};
    const size_t container_size = tern_container_bound(&codec, model);
    const size_t body_size = container_size + TERN_WIRE_OVERHEAD;
    uint8_t *container = malloc(container_size);
    size_t container_len = 0;
    update->body = malloc(body_size);
    enum tern_result result = container != NULL && update->body != NULL
                                  ? tern_container_encode(&codec, NULL, model, change, container,
                                                          container_size, &container_len)
                                  : TERN_ERR_NO_MEMORY;
    if (result == TERN_OK) {
        result = tern_wire_encode_update(message, (struct tern_span){container, container_len},
                                         update->body, body_size, &update->len);
    }
    free(container);
    return result;
}

enum tern_result tern_masked_mean_update(const struct tern_masked_round *round, double norm_max,
                                         struct tern_mean_update *update)
{
    const struct tern_model *model = round->model;
    struct sound_parts sound;
    find_sound_parts(round, &sound);
    *update = (struct tern_mean_update){.left_out = round->groups->count - sound.count};
    if (update->left_out >= sound.count) {
        return TERN_ERR_NON_FINITE;
    }
    tern_masked_next_scales(model, round->facts, sound.parts, sound.count, update->next_scales);
    float *change = malloc(model->count * sizeof *change);
    if (change == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    tern_masked_decode(model, round->facts, sound.parts, sound.count, change);
    const tern_Update message = describe_mean(round, &sound);
    enum tern_result result = norm_of(change, model->count) <= norm_max
                                  ? encode_mean(model, &message, change, update)
                                  : TERN_ERR_NORM_LIMIT;
    free(change);
    if (result != TERN_OK) {
        free(update->body);
        update->body = NULL;
    }
    return result;
}
