// Secure rounds with a helper in the process: the sum under masks makes the same model as the plain sum, and every masked
// update is settled once, whatever the helper does.
#include "harness.h"

#include "federation/secure.h"
#include "merge/merge.h"
#include "merge/replay.h"
#include "secure/masked.h"
#include "wire/helper/messages.h"
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "tests/asserts.h"
#include "util/bytes.h"
#include "util/prng.h"
#include "watched_log.h"

#define DEVICES 8u // a power of two, so that the merge of one update of so many examples is exact

// --- The helper

enum mood {
    ANSWERS,
    SILENT,      // no reply
    LOSES_REPLY, // makes the answer, which is lost on the way
    REFUSES,
    REVOKED,             // refuses lists with the revoked device
    SENDS_NOISE,         // signs a sum that is not that of the masks
    SENDS_RUBBISH,       // bytes that are no message
    SIGNS_OTHERWISE,     // signs with another key
    SIGNS_LOG_OTHERWISE, // signs the sum, and with another key the end of its log
};

static _Atomic enum mood mood;
static bool refuses_tickets;
static _Atomic uint64_t revoked; // client whose ticket the helper refuses; 0: none
static uint64_t step_ms;         // by which the clock moves while a test waits
static atomic_uint sums_asked;
static atomic_bool is_held; // the answer to a request for a sum waits until this is false
static _Atomic uint64_t log_count = 1;      // entries of the helper's log
static uint8_t last_list[TERN_SHA256_SIZE]; // SHA-256 of the last request for a sum
static const uint8_t signing_key[TERN_SECRET_SIZE] = {[31] = 7};
static const uint8_t other_key[TERN_SECRET_SIZE] = {[31] = 8};
static const uint8_t epoch_key[TERN_SECRET_SIZE] = {9};
static uint8_t federation_id[TERN_SHA256_SIZE];
static uint32_t noise_setting;                         // privacy.noise in thousandths
static uint32_t groups_setting;                        // secure.groups; 0 = one sum
static struct tern_privacy_settings limits;            // [privacy]
static uint8_t *noise_of_sum;                          // of the last sums, packed; malloc'ed
static uint8_t secrets[DEVICES + 2][TERN_SECRET_SIZE]; // by client

static void sign(const uint8_t statement[TERN_SHA256_SIZE], uint8_t signature[64])
{
    assert_int_equal(
        tern_p256_sign(mood == SIGNS_OTHERWISE ? other_key : signing_key, statement, signature),
        TERN_OK);
}

// Signs the end of the log. head: its first byte is the number of entries.
static void sign_log(uint64_t *count, uint8_t *head, uint8_t *signature)
{
    const uint64_t entries = log_count;
    struct tern_helper_log log = {.count = entries, .head = {(uint8_t)entries}};
    uint8_t statement[TERN_SHA256_SIZE];
    tern_helper_log_statement(federation_id, &log, statement);
    *count = log.count;
    memcpy(head, log.head, sizeof log.head);
    assert_int_equal(
        tern_p256_sign(mood == SIGNS_LOG_OTHERWISE ? other_key : signing_key, statement, signature),
        TERN_OK);
}

static void reply_error(struct tern_helper_reply *reply, int status, const char *name)
{
    tern_Error error = tern_Error_init_zero;
    snprintf(error.name, sizeof error.name, "%s", name);
    snprintf(error.sentence, sizeof error.sentence, "The helper says no.");
    reply->status = status;
    assert_int_equal(
        tern_wire_encode_error(&error, reply->body, reply->body_size, &reply->body_len), TERN_OK);
}

static void reply_epoch(struct tern_helper_reply *reply)
{
    tern_EpochKey key = tern_EpochKey_init_zero;
    uint8_t statement[TERN_SHA256_SIZE];
    key.epoch = 1;
    key.seconds_left = 86400;
    key.public_key.size = 32;
    key.signature.size = 64;
    key.log_head.size = 32;
    key.log_signature.size = 64;
    sign_log(&key.log_count, key.log_head.bytes, key.log_signature.bytes);
    assert_int_equal(tern_x25519_public(epoch_key, key.public_key.bytes), TERN_OK);
    tern_helper_key_statement(federation_id, key.epoch, key.public_key.bytes, statement);
    assert_int_equal(tern_p256_sign(signing_key, statement, key.signature.bytes), TERN_OK);
    assert_int_equal(
        tern_wire_encode_epoch_key(&key, reply->body, reply->body_size, &reply->body_len), TERN_OK);
}

static void reply_ticket(const struct tern_helper_request *request, struct tern_helper_reply *reply)
{
    tern_TicketRequest message;
    tern_TicketReply answer = tern_TicketReply_init_zero;
    char code[TERN_SECURE_CODE_MAX + 1];
    assert_int_equal(tern_wire_decode_ticket_request(request->body, request->body_len, &message),
                     TERN_OK);
    if (refuses_tickets || message.client == revoked) {
        reply_error(reply, 403, refuses_tickets ? "unknown-code" : "revoked-client");
        return;
    }
    const struct tern_secure_ticket ticket = {federation_id, message.client, message.epoch};
    const struct tern_bytes_view sealed = {message.ticket.bytes, message.ticket.size};
    uint8_t secret[TERN_SECRET_SIZE];
    assert_int_equal(tern_secure_ticket_open(&ticket, epoch_key, sealed, secret, code), TERN_OK);
    assert_memory_equal(secret, secrets[message.client], sizeof secret);
    log_count++;
    answer.sha256.size = answer.log_head.size = 32;
    assert_int_equal(
        tern_wire_encode_ticket_reply(&answer, reply->body, reply->body_size, &reply->body_len),
        TERN_OK);
}

static void add_masks(const struct tern_sum_request *message, const struct tern_secure_round *facts,
                      const struct tern_masked_shape *shape, uint8_t *sums, uint8_t *list_hash)
{
    const uint32_t count = (uint32_t)(message->members.len / TERN_HELPER_MEMBER_BYTES);
    struct tern_secure_member members[DEVICES];
    struct tern_masked_key masked;
    struct tern_secure_list list;
    struct tern_secure_groups groups;
    uint8_t key[TERN_SECRET_SIZE];
    assert_in_range(count, 1, DEVICES);
    tern_secure_round_hash(facts, masked.descriptor);
    tern_secure_list_start(&list, masked.descriptor);
    for (uint32_t i = 0; i < count; i++) {
        tern_member_get(message->members.data + (size_t)i * TERN_HELPER_MEMBER_BYTES, &members[i]);
        assert_int_equal(tern_secure_list_add(&list, &members[i]), TERN_OK);
    }
    tern_secure_list_finish(&list, list_hash);
    tern_secure_divide(facts, members, count, &groups);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t group = tern_secure_group_of(&groups, members[i].client);
        masked.nonce = members[i].nonce;
        assert_int_equal(tern_mask_key(secrets[members[i].client], &masked, key), TERN_OK);
        assert_int_equal(tern_masked_add_mask(shape, key, sums + group * tern_masked_size(shape)),
                         TERN_OK);
    }
}

static enum tern_result fill_from_prng(void *dst, size_t size)
{
    static struct tern_prng rng;
    static bool started;
    if (!started) {
        tern_prng_init(&rng, 2, TERN_PRNG_TEST, 0, 0);
        started = true;
    }
    for (size_t i = 0; i < size; i++) {
        ((uint8_t *)dst)[i] = (uint8_t)tern_prng_below(&rng, 256);
    }
    return TERN_OK;
}

static void add_noise(const struct tern_secure_round *facts, const struct tern_masked_shape *shape,
                      uint8_t *sums)
{
    const size_t size = tern_masked_size(shape);
    struct tern_gaussian gaussian;
    free(noise_of_sum);
    noise_of_sum = malloc(size * tern_secure_sums(facts));
    assert_non_null(noise_of_sum);
    tern_gaussian_start(&gaussian, tern_secure_variance(facts), fill_from_prng);
    for (size_t at = 0; at < size * tern_secure_sums(facts); at += size) {
        assert_int_equal(tern_masked_draw_noise(shape, &gaussian, noise_of_sum + at), TERN_OK);
        tern_masked_add(shape, sums + at, noise_of_sum + at);
    }
}

static void reply_sum(const struct tern_helper_request *request, struct tern_helper_reply *reply)
{
    struct tern_sum_request message;
    struct tern_secure_round facts;
    float scales[TERN_MASKED_TENSORS_MAX];
    uint8_t statement[TERN_SHA256_SIZE];
    tern_SumReply answer = tern_SumReply_init_zero;
    assert_int_equal(tern_wire_decode_sum_request(request->body, request->body_len, &message),
                     TERN_OK);
    assert_int_equal(tern_secure_round_decode(message.facts.data, message.facts.len, scales,
                                              TERN_MASKED_TENSORS_MAX, &facts),
                     TERN_OK);
    const struct tern_masked_shape shape = tern_masked_shape_of(&harness.model, &facts);
    const size_t size = tern_masked_size(&shape) * tern_secure_sums(&facts);
    uint8_t *sum = calloc(1, size);
    assert_non_null(sum);
    add_masks(&message, &facts, &shape, sum, answer.list_hash.bytes);
    if (facts.noise > 0) {
        add_noise(&facts, &shape, sum);
    }
    if (mood == SENDS_NOISE) { // another mask
        assert_int_equal(tern_masked_add_mask(&shape, other_key, sum), TERN_OK);
    }
    answer.list_hash.size = answer.log_head.size = 32;
    answer.signature.size = answer.log_signature.size = 64;
    log_count++;
    sign_log(&answer.log_count, answer.log_head.bytes, answer.log_signature.bytes);
    tern_secure_sum_statement(answer.list_hash.bytes, sum, size, statement);
    sign(statement, answer.signature.bytes);
    assert_int_equal(tern_wire_encode_sum_reply(&answer, (struct tern_span){sum, size}, reply->body,
                                                reply->body_size, &reply->body_len),
                     TERN_OK);
    free(sum);
}

static enum tern_result exchange(void *ctx, const struct tern_helper_request *request,
                                 struct tern_helper_reply *reply)
{
    (void)ctx;
    reply->status = 200;
    if (mood == SILENT) {
        return TERN_ERR_NETWORK;
    }
    if (strncmp(request->path, TERN_PATH_EPOCH, strlen(TERN_PATH_EPOCH)) == 0) {
        reply_epoch(reply);
        return TERN_OK;
    }
    if (strcmp(request->path, TERN_PATH_TICKETS) == 0) {
        reply_ticket(request, reply);
        return TERN_OK;
    }
    tern_sha256(request->body, request->body_len, last_list);
    sums_asked++;
    while (atomic_load(&is_held)) {
        sched_yield();
    }
    if (mood == REFUSES) {
        reply_error(reply, 409, "list-too-near");
    } else if (mood == REVOKED) {
        reply_error(reply, 403, "revoked-client");
    } else if (mood == SENDS_RUBBISH) {
        assert_int_equal(fill_from_prng(reply->body, reply->body_size), TERN_OK);
        reply->body_len = reply->body_size;
    } else if (mood != SILENT) {
        reply_sum(request, reply);
    }
    return mood == SILENT || mood == LOSES_REPLY ? TERN_ERR_NETWORK : TERN_OK;
}

// --- Devices

struct device {
    uint64_t id;
    float *error;    // error buffer
    float *before;   // error buffer plus the last change, which a given-back update restores
    float *changes;  // sum of all changes
    float *counted;  // sum of all updates that count
    uint8_t *packed; // last update without its mask
    uint8_t *masked; // last update
    uint32_t sequence;
    uint32_t unsettled;
    uint8_t *body; // of the last request
    size_t body_len;
};

static struct device devices[DEVICES + 1]; // by client
static size_t packed_size;
static struct tern_secure_round facts_of_round;
static float scales_of_round[TERN_MASKED_TENSORS_MAX];

static void configure(void)
{
    struct tern_federation_config *config = &harness.config.federation;
    config->round.cohort = DEVICES;
    config->round.quorum = 3;
    config->min_clients = DEVICES;
    config->downloads.plan = TERN_DOWNLOADS_TRUNK;
    config->secure = (struct tern_secure_settings){
        .enabled = true, .min_clients = 3, .share = 1, .noise = noise_setting, .clip = 0.1};
    if (groups_setting > 0) {
        config->secure.groups = groups_setting;
        config->secure.min_clients = DEVICES / groups_setting;
        config->round.quorum = DEVICES;
    }
    config->privacy = limits;
    harness.config.helper = (struct tern_helper_port){NULL, exchange};
    assert_int_equal(tern_secret_start(), TERN_OK);
    assert_int_equal(tern_p256_public(signing_key, config->secure.helper_key), TERN_OK);
    tern_federation_id(harness.model.hash, 7, federation_id);
    mood = ANSWERS;
    refuses_tickets = false;
    revoked = 0;
    sums_asked = 0;
    is_held = false;
    log_count = 1;
    step_ms = 0;
}

static tern_CheckinRequest request_of(const struct device *device)
{
    tern_CheckinRequest request = request_from(NULL);
    request.secure = true;
    request.ticket_epoch = 1;
    request.unsettled = device->unsettled;
    return request;
}

static tern_CheckinReply checkin_device(const struct device *device)
{
    const tern_CheckinRequest request = request_of(device);
    return checkin_with(&harness, device->id, &request);
}

static tern_CheckinRequest request_with_ticket(struct device *device)
{
    static const uint8_t ephemeral[TERN_SECRET_SIZE] = {1};
    const struct tern_secure_ticket ticket = {federation_id, device->id, 1};
    uint8_t helper_key[TERN_X25519_PUBLIC_SIZE];
    tern_CheckinRequest request = request_of(device);
    memset(secrets[device->id], (int)device->id, TERN_SECRET_SIZE);
    assert_int_equal(tern_x25519_public(epoch_key, helper_key), TERN_OK);
    request.ticket.size = TERN_HPKE_OVERHEAD + TERN_SECRET_SIZE + 4;
    assert_int_equal(tern_secure_ticket_seal(&ticket, helper_key, ephemeral, secrets[device->id],
                                             (struct tern_bytes_view){"code", 4},
                                             request.ticket.bytes),
                     TERN_OK);
    return request;
}

// Waits until the thread that talks to the helper has had an effect on the client's check-in.
static tern_CheckinReply await(const struct device *device,
                               bool (*holds)(const tern_CheckinReply *reply))
{
    tern_CheckinReply reply = checkin_device(device);
    while (!holds(&reply)) {
        sched_yield();
        test_advance(step_ms);
        reply = checkin_device(device);
    }
    return reply;
}

static bool has_helper(const tern_CheckinReply *reply)
{
    return reply->has_helper;
}

static bool has_task(const tern_CheckinReply *reply)
{
    return reply->has_task;
}

static bool is_settled(const tern_CheckinReply *reply)
{
    return reply->has_settled;
}

// Starts the service with devices whose tickets the helper admits, so that the first round opens.
static void start(void)
{
    tern_CheckinRequest requests[DEVICES + 1];
    configure();
    harness_start_with(&harness, DEVICES);
    for (uint64_t id = 1; id <= DEVICES; id++) {
        devices[id] = (struct device){.id = id};
        devices[id].error = calloc(harness.model.count, sizeof(float));
        devices[id].before = calloc(harness.model.count, sizeof(float));
        devices[id].changes = calloc(harness.model.count, sizeof(float));
        devices[id].counted = calloc(harness.model.count, sizeof(float));
        requests[id] = request_with_ticket(&devices[id]);
    }
    const tern_CheckinReply reply = await(&devices[1], has_helper);
    assert_int_equal(reply.helper.epoch, 1);
    assert_false(reply.has_task);
    // A check-in that offers to wait gets the key at once: with this clock, a held one would never be answered.
    tern_CheckinRequest patient = request_of(&devices[1]);
    patient.wait_ms = 60000;
    assert_true(checkin_with(&harness, 1, &patient).has_helper);
    for (uint64_t id = 1; id <= DEVICES; id++) {
        const tern_CheckinReply admitted = checkin_with(&harness, id, &requests[id]);
        assert_false(admitted.has_helper);
    }
}

static void forget_update(struct device *device)
{
    free(device->packed);
    free(device->masked);
    free(device->body);
    device->packed = device->masked = device->body = NULL;
}

static int teardown_devices(void **state)
{
    for (uint64_t id = 1; id <= DEVICES; id++) {
        forget_update(&devices[id]);
        free(devices[id].error);
        free(devices[id].before);
        free(devices[id].changes);
        free(devices[id].counted);
    }
    memset(devices, 0, sizeof devices);
    noise_setting = 0;
    groups_setting = 0;
    limits = (struct tern_privacy_settings){.noise = 0};
    free(noise_of_sum);
    noise_of_sum = NULL;
    return teardown(state);
}

// Loads the global model, or the replica that devices have.
static void load_weights(float *weights, bool replica)
{
    struct tern_db *db = harness_look(&harness);
    struct tern_db_federation about;
    struct tern_merge merge;
    assert_int_equal(tern_db_federation(db, &about), TERN_OK);
    assert_int_equal(tern_merge_init(&merge, &about, NULL), TERN_OK);
    assert_int_equal(tern_merge_load(&merge, db), TERN_OK);
    memcpy(weights, replica ? merge.replica : merge.global, harness.model.count * sizeof(float));
    tern_merge_free(&merge);
    tern_db_close(db);
}

// Computes the facts of the round as a device does, from its task and weights.
static void take_facts(const tern_Task *task)
{
    struct tern_secure_round *facts = &facts_of_round;
    float *weights = malloc(harness.model.count * sizeof *weights);
    assert_non_null(weights);
    load_weights(weights, true);
    *facts = (struct tern_secure_round){.round = task->round,
                                        .local_steps = task->local_steps,
                                        .batch_size = task->batch_size,
                                        .learning_rate = task->learning_rate,
                                        .momentum = task->momentum,
                                        .weight_decay = task->weight_decay,
                                        .prox_mu = task->prox_mu,
                                        .directive = (uint32_t)task->error_directive,
                                        .level = task->secure.level,
                                        .bits = task->secure.bits,
                                        .cohort = task->secure.cohort,
                                        .min_clients = task->secure.min_clients,
                                        .groups = task->secure.groups,
                                        .share = task->secure.share,
                                        .places_seed = task->secure.places_seed,
                                        .places_max = task->secure.places_max,
                                        .noise = task->secure.noise,
                                        .examples_max = task->secure.examples_max,
                                        .epoch = task->secure.epoch,
                                        .scale_count = tern_masked_tensors(&harness.model),
                                        .scales = scales_of_round};
    memcpy(facts->federation, federation_id, sizeof facts->federation);
    memcpy(facts->model_hash, harness.model.hash, sizeof facts->model_hash);
    tern_masked_weights_hash(&harness.model, weights, facts->replica);
    free(weights);
    assert_int_equal(task->secure.scales.size, facts->scale_count * sizeof(float));
    for (uint32_t i = 0; i < facts->scale_count; i++) {
        scales_of_round[i] = tern_get_f32(task->secure.scales.bytes + i * sizeof(float));
    }
    assert_null(tern_secure_round_check(facts));
    assert_int_equal(facts->bits, tern_secure_bits(facts));
}

static uint64_t nonce_of(const struct device *device)
{
    return UINT64_C(0xfedcba9800000000) | device->id << 16 | device->sequence;
}

static void encode_masked(struct device *device, const tern_Task *task)
{
    tern_Update update = tern_Update_init_zero;
    update.base.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(update.base.bytes, task->base.bytes, TERN_WIRE_REPLICA_BYTES);
    update.masked = true;
    update.num_examples = 1;
    update.local_steps = task->local_steps;
    update.train_ms = 100;
    update.has_error = true;
    update.error.generation = 1;
    update.error.sequence = device->sequence;
    update.nonce = nonce_of(device);
    device->body = malloc(packed_size + TERN_WIRE_OVERHEAD);
    assert_non_null(device->body);
    assert_int_equal(
        tern_wire_encode_update(&update, (struct tern_span){device->masked, packed_size},
                                device->body, packed_size + TERN_WIRE_OVERHEAD, &device->body_len),
        TERN_OK);
}

// Masks an update, and encodes it.
static void hide(struct device *device, const tern_Task *task)
{
    const struct tern_masked_shape shape = tern_masked_shape_of(&harness.model, &facts_of_round);
    struct tern_masked_key masked = {.nonce = nonce_of(device)};
    uint8_t key[TERN_SECRET_SIZE];
    memcpy(device->masked, device->packed, packed_size);
    tern_secure_round_hash(&facts_of_round, masked.descriptor);
    assert_int_equal(tern_mask_key(secrets[device->id], &masked, key), TERN_OK);
    assert_int_equal(tern_masked_add_mask(&shape, key, device->masked), TERN_OK);
    encode_masked(device, task);
}

// Trains and masks an update.
static void train(struct device *device, const tern_Task *task)
{
    const struct tern_masked_shape shape = tern_masked_shape_of(&harness.model, &facts_of_round);
    const struct tern_masked_training training = {.examples = 10, .loss = 0.5F};
    struct tern_prng rng;
    device->sequence++;
    forget_update(device);
    packed_size = tern_masked_size(&shape);
    device->packed = malloc(packed_size);
    device->masked = malloc(packed_size);
    assert_non_null(device->packed);
    assert_non_null(device->masked);
    tern_prng_init(&rng, 1, TERN_PRNG_TEST, (uint32_t)device->id, task->round);
    for (uint32_t i = 0; i < harness.model.count; i++) {
        const float change = (tern_prng_float(&rng) - 0.5F) * 3.0F * scales_of_round[0];
        device->error[i] += change;
        device->changes[i] += change;
    }
    memcpy(device->before, device->error, harness.model.count * sizeof(float));
    assert_int_equal(tern_masked_quantise(&harness.model, &facts_of_round, &training, device->error,
                                          device->packed),
                     TERN_OK);
    hide(device, task);
}

static int put(const struct device *device, uint32_t round)
{
    struct answer answer =
        put_update(&harness, device->id, round, device->sequence, device->body, device->body_len);
    const int status = answer.status;
    answer_free(&answer);
    return status;
}

static void expect_put_refused(const struct device *device, uint32_t round, const char *name)
{
    tern_Error error;
    struct answer answer =
        put_update(&harness, device->id, round, device->sequence, device->body, device->body_len);
    assert_int_equal(answer.status, 422);
    assert_int_equal(tern_wire_decode_error(answer.body->data, answer.body->len, &error), TERN_OK);
    assert_string_equal(error.name, name);
    answer_free(&answer);
}

// Gives every device its task of the next round and trains it. Returns the round's number.
static uint32_t train_all(void)
{
    tern_Task tasks[DEVICES + 1];
    for (uint64_t id = 1; id <= DEVICES; id++) {
        tasks[id] = await(&devices[id], has_task).task;
        assert_true(tasks[id].has_secure);
    }
    take_facts(&tasks[1]);
    for (uint64_t id = 1; id <= DEVICES; id++) {
        assert_memory_equal(&tasks[id].secure, &tasks[1].secure, sizeof tasks[1].secure);
        train(&devices[id], &tasks[id]);
    }
    return tasks[1].round;
}

static void put_all(uint32_t round)
{
    for (uint64_t id = 1; id <= DEVICES; id++) {
        assert_int_equal(put(&devices[id], round), 200);
        devices[id].unsettled = round;
    }
}

// Waits for the device's settlement of its update. Returns whether it was counted.
static bool settle(struct device *device)
{
    const tern_CheckinReply reply = await(device, is_settled);
    assert_int_equal(reply.settled.round, device->unsettled);
    device->unsettled = 0;
    if (!reply.settled.counted) {
        memcpy(device->error, device->before, harness.model.count * sizeof(float));
        return false;
    }
    float *update = malloc(harness.model.count * sizeof(float));
    assert_non_null(update);
    const struct tern_masked_part part = {device->packed, 1, 1};
    tern_masked_decode(&harness.model, &facts_of_round, &part, 1, update);
    for (uint32_t i = 0; i < harness.model.count; i++) {
        device->counted[i] += update[i];
    }
    free(update);
    return true;
}

static bool settle_all(bool counted)
{
    for (uint64_t id = 1; id <= DEVICES; id++) {
        if (settle(&devices[id]) != counted) {
            return false;
        }
    }
    return true;
}

// --- What the store has

static struct tern_db_round round_row(uint32_t round)
{
    struct tern_db *db = harness_look(&harness);
    struct tern_db_round row;
    assert_int_equal(tern_db_round_get(db, round, &row), TERN_OK);
    tern_db_close(db);
    return row;
}

static void await_state(uint32_t round, enum tern_db_round_state state)
{
    while (round_row(round).state != state) {
        sched_yield();
    }
}

static void expect_reason(uint32_t round, const char *reason)
{
    const struct tern_db_round row = round_row(round);
    assert_int_equal(row.state, TERN_ROUND_ABANDONED);
    assert_int_equal(row.mode, TERN_ROUND_SECURE);
    assert_non_null(strstr(row.reason, reason));
}

static enum tern_result count_bodies(void *ctx, const struct tern_db_update *update)
{
    *(unsigned *)ctx += update->body != NULL;
    return TERN_OK;
}

static unsigned masked_bodies(uint32_t round)
{
    struct tern_db *db = harness_look(&harness);
    unsigned count = 0;
    assert_int_equal(tern_db_masked_each(db, round, count_bodies, &count), TERN_OK);
    tern_db_close(db);
    return count;
}

static void expect_replay(uint32_t rounds)
{
    struct tern_db *db = harness_look(&harness);
    struct tern_replay_report report;
    char why[256];
    if (tern_replay(db, NULL, NULL, &report, why) != TERN_OK) {
        fail_msg("%s", why);
    }
    assert_int_equal(report.rounds, rounds);
    tern_db_close(db);
}

// Adds the mean of the devices' open values to the weights.
static void add_plain_mean(float *weights)
{
    const struct tern_masked_shape shape = tern_masked_shape_of(&harness.model, &facts_of_round);
    uint8_t *sum = calloc(1, packed_size);
    float *mean = malloc(harness.model.count * sizeof(float));
    assert_non_null(sum);
    assert_non_null(mean);
    for (uint64_t id = 1; id <= DEVICES; id++) {
        tern_masked_add(&shape, sum, devices[id].packed);
    }
    if (facts_of_round.noise >
        0) { // the helper adds it, so the aggregator subtracts it with the masks
        tern_masked_subtract(&shape, sum, noise_of_sum);
    }
    const struct tern_masked_part part = {sum, DEVICES, DEVICES};
    tern_masked_decode(&harness.model, &facts_of_round, &part, 1, mean);
    for (uint32_t i = 0; i < harness.model.count; i++) {
        weights[i] += mean[i];
    }
    free(mean);
    free(sum);
}

// Asserts that each device's changes are in the updates that count or in its error buffer, and that the model has the mean of
// the updates that count, to the rounding of float32.
static void check_conservation(void)
{
    const uint32_t count = harness.model.count;
    float *weights = malloc(count * sizeof(float));
    float *first = malloc(count * sizeof(float));
    assert_true(weights != NULL && first != NULL);
    load_weights(weights, false);
    tern_model_init_weights(&harness.model, 7, first);
    for (uint32_t i = 0; i < count; i++) {
        float sum = 0;
        for (uint64_t id = 1; id <= DEVICES; id++) {
            const struct device *device = &devices[id];
            assert_float_equal(device->changes[i], device->counted[i] + device->error[i], 1e-5);
            sum += device->counted[i];
        }
        assert_float_equal(weights[i], first[i] + sum / DEVICES, 1e-5);
    }
    free(first);
    free(weights);
}

// --- Rounds

static void test_the_sum_under_masks_makes_the_model_of_the_plain_sum(void **state)
{
    (void)state;
    start();
    float *expected = malloc(harness.model.count * sizeof(float));
    float *weights = malloc(harness.model.count * sizeof(float));
    tern_model_init_weights(&harness.model, 7, expected);
    for (uint32_t i = 1; i <= 3; i++) {
        const uint32_t round = train_all();
        assert_int_equal(round, i);
        assert_int_equal(facts_of_round.bits, 5);
        put_all(round);
        await_state(round, TERN_ROUND_COMMITTED);
        assert_true(settle_all(true));
        add_plain_mean(expected);
        load_weights(weights, false);
        assert_memory_equal(weights, expected, harness.model.count * sizeof(float));
        assert_int_equal(round_row(round).applied, DEVICES);
        assert_float_equal(round_row(round).mean_loss, 0.5F, 1e-6);
        assert_int_equal(masked_bodies(round), 0);
        harness_restart(&harness);
    }
    expect_replay(3);
    free(expected);
    free(weights);
}

// --- Groups

// Adds the open values of the devices of each group. Returns the groups' parts, whose sums are malloc'ed in one block, *sums.
static void add_groups(struct tern_masked_part parts[3], uint8_t **sums)
{
    const struct tern_masked_shape shape = tern_masked_shape_of(&harness.model, &facts_of_round);
    struct tern_secure_member members[DEVICES];
    struct tern_secure_groups groups;
    for (uint64_t id = 1; id <= DEVICES; id++) {
        members[id - 1] = (struct tern_secure_member){.client = id};
    }
    tern_secure_divide(&facts_of_round, members, DEVICES, &groups);
    *sums = calloc(3, packed_size);
    assert_non_null(*sums);
    for (uint64_t id = 1; id <= DEVICES; id++) {
        uint8_t *sum = *sums + tern_secure_group_of(&groups, id) * packed_size;
        tern_masked_add(&shape, sum, devices[id].packed);
    }
    for (uint32_t i = 0; i < 3; i++) {
        parts[i] =
            (struct tern_masked_part){*sums + i * packed_size, groups.sizes[i], groups.sizes[i]};
    }
}

// Returns the index in parts of the device's group.
static uint32_t group_of_device(uint64_t id)
{
    struct tern_secure_member members[DEVICES];
    struct tern_secure_groups groups;
    for (uint64_t other = 1; other <= DEVICES; other++) {
        members[other - 1] = (struct tern_secure_member){.client = other};
    }
    tern_secure_divide(&facts_of_round, members, DEVICES, &groups);
    return tern_secure_group_of(&groups, id);
}

static void add_change(const struct tern_masked_part *parts, uint32_t count, float *weights)
{
    float *change = malloc(harness.model.count * sizeof *change);
    assert_non_null(change);
    tern_masked_decode(&harness.model, &facts_of_round, parts, count, change);
    for (uint32_t i = 0; i < harness.model.count; i++) {
        weights[i] += change[i];
    }
    free(change);
}

static void test_with_groups_the_model_moves_by_the_median(void **state)
{
    (void)state;
    groups_setting = 3;
    start();
    float *expected = malloc(harness.model.count * sizeof(float));
    float *weights = malloc(harness.model.count * sizeof(float));
    tern_model_init_weights(&harness.model, 7, expected);
    for (uint32_t i = 1; i <= 2; i++) {
        struct tern_masked_part parts[3];
        float next[TERN_MASKED_TENSORS_MAX];
        uint8_t *sums = NULL;
        const uint32_t round = train_all();
        assert_int_equal(facts_of_round.groups, 3);
        assert_int_equal(facts_of_round.bits, 3); // sums from -3 to 3
        put_all(round);
        await_state(round, TERN_ROUND_COMMITTED);
        assert_true(settle_all(true));
        add_groups(parts, &sums);
        add_change(parts, 3, expected);
        tern_masked_next_scales(&harness.model, &facts_of_round, parts, 3, next);
        free(sums);
        load_weights(weights, false);
        assert_memory_equal(weights, expected, harness.model.count * sizeof(float));
        assert_int_equal(round_row(round).applied, DEVICES);
        harness_restart(&harness);
        const tern_Task task = await(&devices[1], has_task).task;
        take_facts(&task);
        assert_memory_equal(scales_of_round, next, facts_of_round.scale_count * sizeof(float));
    }
    expect_replay(2);
    free(expected);
    free(weights);
}

// Replaces the device's update by one whose values are all 1, `times` times.
static void lie(struct device *device, const tern_Task *task, uint32_t times)
{
    const struct tern_masked_shape shape = tern_masked_shape_of(&harness.model, &facts_of_round);
    const struct tern_masked_training training = {.examples = 10, .loss = 0.5F};
    float *work = malloc(harness.model.count * sizeof *work);
    uint8_t *ones = malloc(packed_size);
    assert_true(work != NULL && ones != NULL);
    for (uint32_t i = 0; i < harness.model.count; i++) {
        work[i] = 1e6F;
    }
    assert_int_equal(tern_masked_quantise(&harness.model, &facts_of_round, &training, work, ones),
                     TERN_OK);
    memset(device->packed, 0, packed_size);
    for (uint32_t i = 0; i < times; i++) {
        tern_masked_add(&shape, device->packed, ones);
    }
    free(device->body);
    hide(device, task);
    free(ones);
    free(work);
}

// A client that sends the largest values within the range moves the model no further than the other groups do.
static void test_one_lying_client_moves_the_model_within_the_other_groups(void **state)
{
    (void)state;
    groups_setting = 3;
    start();
    const uint32_t round = train_all();
    const tern_Task task = await(&devices[1], has_task).task;
    struct tern_masked_part parts[3];
    uint8_t *sums = NULL;
    float *bounds[3]; // the model after the change of each group alone
    float *weights = malloc(harness.model.count * sizeof(float));
    lie(&devices[1], &task, 1);
    put_all(round);
    await_state(round, TERN_ROUND_COMMITTED);
    add_groups(parts, &sums);
    for (uint32_t i = 0; i < 3; i++) {
        bounds[i] = malloc(harness.model.count * sizeof(float));
        tern_model_init_weights(&harness.model, 7, bounds[i]);
        add_change(&parts[i], 1, bounds[i]);
    }
    load_weights(weights, false);
    const uint32_t liars = group_of_device(1);
    const float *a = bounds[(liars + 1) % 3];
    const float *b = bounds[(liars + 2) % 3];
    uint32_t beyond = 0;
    for (uint32_t i = 0; i < harness.model.count; i++) {
        assert_true(weights[i] >= fminf(a[i], b[i]) && weights[i] <= fmaxf(a[i], b[i]));
        beyond += bounds[liars][i] > fmaxf(a[i], b[i]);
    }
    assert_true(beyond > harness.model.count / 8); // where the lie alone would have gone further
    assert_true(settle_all(true));
    for (uint32_t i = 0; i < 3; i++) {
        free(bounds[i]);
    }
    free(sums);
    free(weights);
}

// Values beyond the range spoil the sum of one group. The median is that of the other two, and the round is not abandoned.
static void test_a_group_out_of_range_is_left_out(void **state)
{
    (void)state;
    groups_setting = 3;
    start();
    const uint32_t round = train_all();
    const tern_Task task = await(&devices[1], has_task).task;
    struct tern_masked_part parts[3];
    uint8_t *sums = NULL;
    float *expected = malloc(harness.model.count * sizeof(float));
    float *weights = malloc(harness.model.count * sizeof(float));
    tern_model_init_weights(&harness.model, 7, expected);
    lie(&devices[1], &task, 4);
    put_all(round);
    await_state(round, TERN_ROUND_COMMITTED);
    assert_true(settle_all(true));
    add_groups(parts, &sums);
    parts[group_of_device(1)] = parts[2];
    add_change(parts, 2, expected);
    load_weights(weights, false);
    assert_memory_equal(weights, expected, harness.model.count * sizeof(float));
    assert_float_equal(round_row(round).mean_loss, 0.5F, 1e-6);
    free(sums);
    free(expected);
    free(weights);
}

// There is no median if two of three groups are out of range.
static void test_most_groups_out_of_range_give_back(void **state)
{
    (void)state;
    groups_setting = 3;
    start();
    const uint32_t round = train_all();
    uint64_t other = 2;
    while (group_of_device(other) == group_of_device(1)) {
        other++;
    }
    const tern_Task task = await(&devices[1], has_task).task;
    const tern_Task task_of_other = await(&devices[other], has_task).task;
    lie(&devices[1], &task, 4);
    lie(&devices[other], &task_of_other, 4);
    put_all(round);
    await_state(round, TERN_ROUND_ABANDONED);
    expect_reason(round, "sum-out-of-range");
    assert_true(settle_all(false));
}

// --- Noise

// With noise, a version is the plain mean of the clipped updates and the noise, and nothing else about the updates is stored.
static void test_noise_is_in_the_model_and_no_loss_is_known(void **state)
{
    (void)state;
    noise_setting = 700;
    start();
    float *expected = malloc(harness.model.count * sizeof(float));
    float *weights = malloc(harness.model.count * sizeof(float));
    tern_model_init_weights(&harness.model, 7, expected);
    for (uint32_t i = 1; i <= 2; i++) {
        const uint32_t round = train_all();
        assert_int_equal(facts_of_round.noise, 700);
        assert_int_equal(facts_of_round.places_max, (harness.model.count + 9) / 10);
        put_all(round);
        await_state(round, TERN_ROUND_COMMITTED);
        assert_true(settle_all(true));
        add_plain_mean(expected);
        load_weights(weights, false);
        assert_memory_equal(weights, expected, harness.model.count * sizeof(float));
        const struct tern_db_round row = round_row(round);
        assert_int_equal(row.noise, 700);
        assert_int_equal(row.applied, DEVICES);
        assert_true(row.mean_loss == 0 && row.median_loss == 0);
        harness_restart(&harness);
    }
    expect_replay(2);
    free(expected);
    free(weights);
}

static float loss_of(uint64_t id)
{
    struct tern_db *db = harness_look(&harness);
    struct tern_db_client row;
    assert_int_equal(tern_db_client_get(db, id, &row), TERN_OK);
    tern_db_close(db);
    return row.privacy_loss;
}

// With groups and noise, the median is that of the noisy means, and a client's loss is that of one sum.
static void test_each_group_has_noise(void **state)
{
    (void)state;
    groups_setting = 3;
    noise_setting = 700;
    start();
    struct tern_masked_part parts[3];
    uint8_t *sums = NULL;
    float *expected = malloc(harness.model.count * sizeof(float));
    float *weights = malloc(harness.model.count * sizeof(float));
    tern_model_init_weights(&harness.model, 7, expected);
    const uint32_t round = train_all();
    const struct tern_masked_shape shape = tern_masked_shape_of(&harness.model, &facts_of_round);
    put_all(round);
    await_state(round, TERN_ROUND_COMMITTED);
    assert_true(settle_all(true));
    add_groups(parts, &sums);
    for (size_t at = 0; at < 3 * packed_size; at += packed_size) {
        tern_masked_subtract(&shape, sums + at, noise_of_sum + at);
    }
    add_change(parts, 3, expected);
    load_weights(weights, false);
    assert_memory_equal(weights, expected, harness.model.count * sizeof(float));
    assert_float_equal(loss_of(1), 1 / (0.7F * 0.7F), 1e-5);
    expect_replay(1);
    free(sums);
    free(expected);
    free(weights);
}

// A check-in that reports a refused task.
static tern_CheckinReply refuse(const struct device *device, uint32_t round,
                                tern_TrainingFailure failure)
{
    tern_CheckinRequest request = request_of(device);
    request.failed_round = round;
    request.failure = failure;
    return checkin_with(&harness, device->id, &request);
}

// After an older backup was restored, devices refuse rounds that they have done: the next round's number is above all of them.
static void test_replayed_rounds_are_skipped(void **state)
{
    (void)state;
    start();
    assert_int_equal(train_all(), 1);
    for (uint64_t id = 1; id <= DEVICES; id++) {
        devices[id].unsettled = 1;
    }
    refuse(&devices[1], 7, tern_TrainingFailure_FAILURE_REPLAYED);
    assert_int_equal(round_row(1).state, TERN_ROUND_OPEN); // the others are enough
    for (uint64_t id = 2; id <= DEVICES && round_row(1).state == TERN_ROUND_OPEN; id++) {
        refuse(&devices[id], 9, tern_TrainingFailure_FAILURE_REPLAYED);
    }
    expect_reason(1, "replayed: ");
    step_ms = 100;
    assert_true(settle_all(false));
    assert_int_equal(train_all(), 10);
    assert_true(round_row(10).opened_ms < round_row(1).closed_ms + 60000);
    step_ms = 0;
    put_all(10);
    await_state(10, TERN_ROUND_COMMITTED);
    assert_true(settle_all(true));
    check_conservation();
    harness_restart(&harness);
    assert_int_equal(train_all(), 11);
}

// Devices that have seen a longer log refuse the round: it ends by name, and none opens before the log has grown.
static void test_a_refused_log_of_the_helper_ends_the_round(void **state)
{
    (void)state;
    start();
    assert_int_equal(train_all(), 1);
    const uint64_t count = log_count;
    log_count = 1; // before the refusals, at which the helper is asked again
    for (uint64_t id = 1; id <= DEVICES && round_row(1).state == TERN_ROUND_OPEN; id++) {
        refuse(&devices[id], 1, tern_TrainingFailure_FAILURE_HELPER_LOG);
    }
    expect_reason(1, TERN_HELPER_LOG_REASON ": ");
    test_advance(UINT64_C(7200000));
    assert_false(checkin_device(&devices[1]).has_task);
    log_count = count + 1; // `tern-helper renew`
    step_ms = 1000;
    for (uint64_t id = 1; id <= DEVICES; id++) {
        forget_update(&devices[id]);
        memset(devices[id].error, 0, harness.model.count * sizeof(float));
        memset(devices[id].changes, 0, harness.model.count * sizeof(float));
    }
    assert_int_equal(train_all(), 2);
}

// Sets privacy.noise, and limits the loss of clients to that of `rounds` rounds.
static void limit_to_rounds(double noise, double rounds)
{
    const double loss = (rounds + 0.001) / (noise * noise);
    limits = (struct tern_privacy_settings){
        .noise = noise, .delta = 1e-5, .epsilon_max = tern_privacy_epsilon(loss, 1e-5)};
    noise_setting = (uint32_t)(noise * 1000);
}

static void train_round(void)
{
    const uint32_t round = train_all();
    put_all(round);
    await_state(round, TERN_ROUND_COMMITTED);
    assert_true(settle_all(true));
}

// Each sum that the helper is asked for adds to the loss of the clients in it, until too few may take part in another round.
static void test_a_spent_privacy_budget_ends_the_federation(void **state)
{
    (void)state;
    limit_to_rounds(2.0, 2.0);
    start();
    assert_true(loss_of(1) == 0.0F);
    train_round();
    assert_float_equal(loss_of(1), 0.25F, 1e-6);
    assert_true((double)loss_of(1) >= 0.25); // never less than it is
    harness_restart(&harness);
    train_round();
    assert_float_equal(loss_of(DEVICES), 0.5F, 1e-6);
    assert_true(checkin_device(&devices[1]).finished);
    mood = SILENT;
    harness_restart(&harness);
    assert_true(checkin_device(&devices[2]).finished); // whether or not the helper answers
    assert_float_equal(loss_of(1), 0.5F, 1e-6);
}

// A round without a sum counts if the helper was asked, since it may have answered.
static void test_a_sum_that_was_lost_counts(void **state)
{
    (void)state;
    limit_to_rounds(2.0, 1.0);
    start();
    const uint32_t round = train_all();
    mood = SIGNS_OTHERWISE;
    put_all(round);
    await_state(round, TERN_ROUND_ABANDONED);
    assert_float_equal(loss_of(1), 0.25F, 1e-6);
    assert_true(settle_all(false));
    assert_true(checkin_device(&devices[1]).finished);
}

static void limit_places(void)
{
    facts_of_round.places_max--;
}

static void change_model(void)
{
    facts_of_round.replica[31] ^= 1; // tern_masked_weights_hash() of other weights
}

static void add_step(void)
{
    facts_of_round.local_steps++;
}

static void move_scale(void)
{
    scales_of_round[0] *= 1.5F;
}

static void lower_min_clients(void)
{
    facts_of_round.min_clients--;
}

// The aggregator gives one client another fact. The helper's mask for it follows from the facts of all others, so the sum is noise.
static void test_another_fact_for_one_client_is_no_sum(void **state)
{
    void (*const change[])(void) = {limit_places, change_model, add_step, move_scale,
                                    lower_min_clients};
    for (size_t i = 0; i < sizeof change / sizeof change[0]; i++) {
        noise_setting = change[i] == limit_places ? 700 : 0;
        start();
        const uint32_t round = train_all();
        const tern_Task task = await(&devices[1], has_task).task;
        change[i]();
        memset(devices[1].changes, 0, harness.model.count * sizeof(float));
        memset(devices[1].error, 0, harness.model.count * sizeof(float));
        devices[1].sequence--;
        train(&devices[1], &task);
        put_all(round);
        await_state(round, TERN_ROUND_ABANDONED);
        expect_reason(round, "sum-out-of-range");
        assert_true(settle_all(false));
        check_conservation();
        teardown_devices(state);
        setup(state);
    }
}

// The scales of a round follow from the sum before it, also after a restart.
static void test_scales_follow_from_the_last_sum(void **state)
{
    (void)state;
    float next[TERN_MASKED_TENSORS_MAX];
    start();
    put_all(train_all());
    await_state(1, TERN_ROUND_COMMITTED);
    const struct tern_masked_shape shape = tern_masked_shape_of(&harness.model, &facts_of_round);
    uint8_t *sum = calloc(1, packed_size);
    for (uint64_t id = 1; id <= DEVICES; id++) {
        tern_masked_add(&shape, sum, devices[id].packed);
    }
    const struct tern_masked_part part = {sum, DEVICES, DEVICES};
    tern_masked_next_scales(&harness.model, &facts_of_round, &part, 1, next);
    free(sum);
    harness_restart(&harness);
    const tern_Task task = await(&devices[1], has_task).task;
    take_facts(&task);
    assert_memory_equal(scales_of_round, next, facts_of_round.scale_count * sizeof(float));
}

static void expect_log(const struct device *device, uint64_t count)
{
    const tern_SecureRound round = await(device, has_task).task.secure;
    struct tern_helper_log log = {.count = count, .head = {(uint8_t)count}};
    uint8_t statement[TERN_SHA256_SIZE];
    assert_int_equal(round.log_count, count);
    assert_memory_equal(round.log_head.bytes, log.head, sizeof log.head);
    tern_helper_log_statement(federation_id, &log, statement);
    assert_int_equal(tern_p256_verify(harness.config.federation.secure.helper_key, statement,
                                      round.log_signature.bytes),
                     TERN_OK);
}

// All tasks of a round show the end that the helper's log had when the round opened, also after a restart.
static void test_a_round_shows_one_end_of_the_log(void **state)
{
    (void)state;
    start();
    expect_log(&devices[1], 1); // the helper was asked before the tickets
    log_count = 50;
    harness_restart(&harness);
    put_all(train_all()); // which compares the facts of all tasks
    await_state(1, TERN_ROUND_COMMITTED);
    assert_true(settle_all(true));
    expect_log(&devices[1], 51);
    harness_restart(&harness);
    expect_log(&devices[2], 51);
}

// Devices refuse the tasks of a helper whose ledger was restored, so the aggregator's operator learns the reason.
static void test_a_log_that_was_rolled_back_is_logged(void **state)
{
    (void)state;
    start();
    put_all(train_all());
    await_state(1, TERN_ROUND_COMMITTED);
    assert_true(settle_all(true));
    expect_log(&devices[1], DEVICES + 2); // epoch, tickets and sum
    watch_log();
    log_count = 5;
    harness_restart(&harness); // which asks the helper
    while (lines_of("helper-log-changed", "entries=5 entries_before=10") == 0) {
        checkin_device(&devices[1]);
        sched_yield();
    }
    leave_log();
}

// A round's facts are those of its opening, whatever the settings are when a member fetches its task.
static void test_new_settings_do_not_change_an_open_round(void **state)
{
    (void)state;
    start();
    const tern_Task first = await(&devices[1], has_task).task;
    struct tern_service_config *config = &harness.config;
    config->federation.steps.local_steps--;
    config->federation.train.batch_size++;
    config->federation.secure.share = 2;
    tern_service_configure(harness.service, config);
    harness_restart(&harness);
    const uint32_t round = train_all();
    assert_int_equal(facts_of_round.local_steps, first.local_steps);
    assert_int_equal(facts_of_round.batch_size, first.batch_size);
    assert_int_equal(facts_of_round.share, 1);
    put_all(round);
    await_state(round, TERN_ROUND_COMMITTED);
    assert_true(settle_all(true));
    put_all(train_all());
    assert_int_equal(facts_of_round.share, 2);
    await_state(round + 1, TERN_ROUND_COMMITTED);
    assert_true(settle_all(true));
    expect_replay(2);
}

// --- Helpers that do not give the sum

static void expect_given_back(enum mood of_helper, const char *reason)
{
    start();
    const uint32_t round = train_all();
    mood = of_helper;
    put_all(round);
    await_state(round, TERN_ROUND_ABANDONED);
    expect_reason(round, reason);
    assert_int_equal(masked_bodies(round), 0);
    harness_restart(&harness);
    assert_true(settle_all(false));
    mood = ANSWERS;
    check_conservation();
    // What was given back is in the next round's sum. The next round opens a minute later.
    assert_false(checkin_device(&devices[1]).has_task);
    test_advance(61000);
    step_ms = 100;
    const uint32_t next = train_all();
    assert_int_equal(next, round + 1);
    put_all(next);
    await_state(next, TERN_ROUND_COMMITTED);
    assert_true(settle_all(true));
    check_conservation();
    expect_replay(1);
}

static void test_a_refusing_helper_gives_back(void **state)
{
    (void)state;
    expect_given_back(REFUSES, "list-too-near");
}

// The helper's operator revokes a device: one round is abandoned, and the next ones are without the device.
static void test_a_revoked_device_stops_one_round(void **state)
{
    (void)state;
    start();
    const uint32_t round = train_all();
    harness.config.federation.min_clients = DEVICES - 1;
    tern_service_configure(harness.service, &harness.config);
    watch_log();
    revoked = DEVICES;
    mood = REVOKED;
    put_all(round);
    await_state(round, TERN_ROUND_ABANDONED);
    expect_reason(round, "revoked-client");
    assert_true(settle_all(false));
    await(&devices[DEVICES], has_helper); // its ticket is refused
    assert_int_equal(lines_of("ticket-refused", "client=8 epoch=1 reason=revoked-client"), 1);
    assert_int_equal(lines_of("ticket-refused", ""), 1);
    leave_log();
    mood = ANSWERS;
    test_advance(61000);
    step_ms = 100;
    for (uint64_t id = 1; id < DEVICES; id++) {
        const tern_Task task = await(&devices[id], has_task).task;
        assert_int_equal(task.round, round + 1);
        if (id == 1) {
            take_facts(&task);
        }
        train(&devices[id], &task);
        assert_int_equal(put(&devices[id], task.round), 200);
        devices[id].unsettled = task.round;
    }
    await_state(round + 1, TERN_ROUND_COMMITTED);
    assert_false(checkin_device(&devices[DEVICES]).has_task);
}

static void test_noise_in_place_of_masks_gives_back(void **state)
{
    (void)state;
    expect_given_back(SENDS_NOISE, "sum-out-of-range");
}

static void test_a_wrong_signature_gives_back(void **state)
{
    (void)state;
    expect_given_back(SIGNS_OTHERWISE, "wrong-signature");
}

static void test_undecodable_bytes_give_back(void **state)
{
    (void)state;
    expect_given_back(SENDS_RUBBISH, "corrupt");
}

static void test_a_log_that_is_not_signed_gives_back(void **state)
{
    (void)state;
    expect_given_back(SIGNS_LOG_OTHERWISE, "end of the helper's log is not signed");
}

static void test_a_silent_helper_is_asked_until_the_deadline(void **state)
{
    (void)state;
    struct tern_service_facts facts;
    start();
    const uint32_t round = train_all();
    mood = SILENT;
    put_all(round);
    for (unsigned i = 0; i < 55; i++) { // seconds
        test_advance(1000);
        const tern_CheckinReply reply = checkin_device(&devices[1]);
        assert_false(reply.has_settled);
        assert_false(reply.has_task);
    }
    assert_int_equal(round_row(round).state, TERN_ROUND_OPEN);
    assert_int_equal(masked_bodies(round), DEVICES);
    tern_service_facts(harness.service, &facts);
    assert_int_equal(facts.federation.wait, TERN_WAIT_HELPER);
    test_advance(10000);
    await(&devices[1], is_settled);
    expect_reason(round, "helper-silent");
    assert_true(settle_all(false));
    // While the helper is silent no round opens.
    test_advance(120000);
    assert_false(checkin_device(&devices[1]).has_task);
    mood = ANSWERS;
    step_ms = 100;
    put_all(train_all());
    await_state(round + 1, TERN_ROUND_COMMITTED);
    assert_true(settle_all(true));
}

static void await_sums(unsigned count)
{
    while (atomic_load(&sums_asked) < count) {
        sched_yield();
    }
}

// Closes a round whose request to the helper stays without an answer, until long after the deadline.
static uint32_t ask_and_hold(void)
{
    start();
    const uint32_t round = train_all();
    is_held = true;
    put_all(round);
    await_sums(1);
    for (unsigned i = 0; i < 3; i++) {
        test_advance(60000);
        assert_false(checkin_device(&devices[1]).has_settled);
    }
    assert_int_equal(round_row(round).state, TERN_ROUND_OPEN);
    assert_int_equal(masked_bodies(round), DEVICES);
    return round;
}

static void train_round_after_abandoned(uint32_t round)
{
    mood = ANSWERS;
    step_ms = 1000;
    const uint32_t next = train_all();
    assert_int_equal(next, round + 1);
    put_all(next);
    await_state(next, TERN_ROUND_COMMITTED);
    assert_true(settle_all(true));
    check_conservation();
    expect_replay(1);
}

// The connection gives up after a minute (secure/link/link.h).
static void test_a_helper_that_never_answers_gives_back(void **state)
{
    (void)state;
    const uint32_t round = ask_and_hold();
    mood = SILENT;
    is_held = false;
    await_state(round, TERN_ROUND_ABANDONED);
    expect_reason(round, "helper-silent");
    assert_int_equal(masked_bodies(round), 0);
    assert_true(settle_all(false));
    check_conservation();
    train_round_after_abandoned(round);
}

static void test_a_late_answer_counts(void **state)
{
    (void)state;
    const uint32_t round = ask_and_hold();
    is_held = false;
    await_state(round, TERN_ROUND_COMMITTED);
    assert_true(settle_all(true));
    check_conservation();
    expect_replay(1);
}

// The helper has answered, and its answers were lost until the deadline. No later answer makes the round count.
static void test_an_answer_after_the_round_was_abandoned_changes_nothing(void **state)
{
    (void)state;
    start();
    const uint32_t round = train_all();
    mood = LOSES_REPLY;
    put_all(round);
    await_sums(1);
    test_advance(60001);
    harness_restart(&harness);
    await_state(round, TERN_ROUND_ABANDONED);
    expect_reason(round, "helper-silent");
    mood = ANSWERS;
    assert_true(settle_all(false));
    check_conservation();
    const unsigned asked = sums_asked;
    train_round_after_abandoned(round);
    assert_int_equal(sums_asked, asked + 1); // for the next round alone
    expect_reason(round, "helper-silent");
}

static uint32_t last_round(void)
{
    struct tern_db *db = harness_look(&harness);
    struct tern_db_round row;
    assert_int_equal(tern_db_round_last(db, &row), TERN_OK);
    tern_db_close(db);
    return row.round;
}

// All devices but the last one have sent their updates when the operator undoes versions. weights: of version 0, or NULL: they
// are missing.
static uint32_t order_during_a_round(const float *weights)
{
    struct tern_db_order order = {
        .strategy = "rollback", .reason = "the test undoes it", .ready = true};
    bool more = weights != NULL;
    start();
    const uint32_t round = train_all();
    for (uint64_t id = 1; id < DEVICES; id++) {
        assert_int_equal(put(&devices[id], round), 200);
        devices[id].unsettled = round;
    }
    struct tern_db *db = harness_look(&harness);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(tern_db_order_put(db, &order), TERN_OK);
    while (more) {
        assert_int_equal(tern_db_pinned_put_some(db, "", 0, weights, harness.model.count, &more),
                         TERN_OK);
    }
    assert_int_equal(tern_db_commit(db), TERN_OK);
    tern_db_close(db);
    checkin_device(&devices[1]);
    return round;
}

// The round's updates are given back, and the next round is without clients.
static void test_a_round_makes_way_for_a_restored_one(void **state)
{
    (void)state;
    float *first = malloc(harness.model.count * sizeof *first);
    assert_non_null(first);
    tern_model_init_weights(&harness.model, 7, first);
    const uint32_t round = order_during_a_round(first);
    await_state(round, TERN_ROUND_ABANDONED);
    expect_reason(round, "rollback");
    while (last_round() == round) {
        sched_yield();
    }
    await_state(round + 1, TERN_ROUND_COMMITTED);
    assert_int_equal(round_row(round + 1).mode, TERN_ROUND_RESTORED);
    for (uint64_t id = 1; id < DEVICES; id++) {
        assert_false(settle(&devices[id]));
    }
    expect_replay(1);
    free(first);
}

static void test_a_round_outlives_an_order_that_cannot_be_executed(void **state)
{
    (void)state;
    const uint32_t round = order_during_a_round(NULL);
    assert_int_equal(put(&devices[DEVICES], round), 200);
    devices[DEVICES].unsettled = round;
    assert_true(settle_all(true));
    assert_int_equal(round_row(round).state, TERN_ROUND_COMMITTED);
    check_conservation();
    expect_replay(1);
}

// The answer was lost, as when the aggregator is killed before its commit: the same list is asked for again, and no update
// that comes later is in it.
static void test_a_lost_answer_is_asked_for_again(void **state)
{
    (void)state;
    uint8_t list[TERN_SHA256_SIZE];
    start();
    const uint32_t round = train_all();
    for (uint64_t id = 1; id < DEVICES; id++) {
        assert_int_equal(put(&devices[id], round), 200);
        devices[id].unsettled = round;
    }
    mood = LOSES_REPLY;
    test_advance(60001); // the updates meet the quorum at the deadline
    checkin_device(&devices[1]);
    await_sums(1);
    memcpy(list, last_list, sizeof list);
    harness_restart(&harness);
    assert_int_equal(put(&devices[DEVICES], round), 410);
    assert_int_equal(put(&devices[1], round), 200); // a duplicate
    assert_false(checkin_device(&devices[1]).has_settled);
    mood = ANSWERS;
    test_advance(2000);
    for (uint64_t id = 1; id < DEVICES; id++) {
        assert_true(settle(&devices[id]));
    }
    assert_memory_equal(list, last_list, sizeof list);
    assert_int_equal(round_row(round).applied, DEVICES - 1);
    // Of an update that did not count the device is told so, if it asks.
    devices[DEVICES].unsettled = round;
    assert_false(settle(&devices[DEVICES]));
    expect_replay(1);
}

// --- Updates

static void test_updates_that_do_not_fit_the_round_are_refused(void **state)
{
    (void)state;
    uint8_t *body;
    start();
    const uint32_t round = train_all();
    const tern_Task task = await(&devices[1], has_task).task;
    tern_Task plain = task;
    const size_t len = encode_update(&harness, &plain, 0.1F, 10, &body);
    answer_expect(put_update(&harness, 1, round, 1, body, len), 422);
    free(body);
    packed_size -= 4;
    free(devices[1].body);
    encode_masked(&devices[1], &task);
    assert_int_equal(put(&devices[1], round), 422);
    packed_size += 4;
    free(devices[1].body);
    plain.local_steps--; // another number of steps would single the device out
    encode_masked(&devices[1], &plain);
    assert_int_equal(put(&devices[1], round), 422);
    free(devices[1].body);
    encode_masked(&devices[1], &task);
    assert_int_equal(put(&devices[1], round), 200);
}

static void test_a_plain_federation_takes_no_masked_updates(void **state)
{
    (void)state;
    harness_start_with(&harness, 2);
    tern_CheckinRequest request = request_from(NULL);
    request.secure = true;
    answer_expect(put_checkin(&harness, 1, &request), 422);
    request.secure = false;
    const tern_CheckinReply reply = checkin_with(&harness, 1, &request);
    assert_true(reply.has_task);
    struct device device = {.id = 1, .sequence = 1};
    device.masked = calloc(1, 64);
    packed_size = 64;
    encode_masked(&device, &reply.task);
    assert_int_equal(put(&device, reply.task.round), 422);
    forget_update(&device);
}

// --- Clients

// An update of an earlier round, sent again to it or to the next one, changes no model.
static void test_a_client_that_replays_changes_nothing(void **state)
{
    (void)state;
    const size_t size = harness.model.count * sizeof(float);
    start();
    const uint32_t round = train_all();
    put_all(round);
    await_state(round, TERN_ROUND_COMMITTED);
    assert_true(settle_all(true));
    float *before = malloc(size);
    float *after = malloc(size);
    load_weights(before, false);
    assert_int_equal(put(&devices[1], round), 200); // a duplicate
    assert_true(await(&devices[2], has_task).task.round == round + 1);
    assert_true(await(&devices[1], has_task).task.round == round + 1);
    expect_put_refused(&devices[1], round + 1, "wrong-replica");
    load_weights(after, false);
    assert_memory_equal(before, after, size);
    assert_int_equal(masked_bodies(round + 1), 0);
    const uint32_t next = train_all();
    put_all(next);
    await_state(next, TERN_ROUND_COMMITTED);
    assert_int_equal(round_row(next).applied, DEVICES);
    assert_true(settle_all(true));
    expect_replay(2);
    free(before);
    free(after);
}

// After an abandoned round the next one has the same replica, so the aggregator cannot know a replay by it. Its mask belongs to
// another round: the sum is noise, which is named, and the round after it counts.
static void test_a_replay_of_an_abandoned_round_gives_back(void **state)
{
    (void)state;
    start();
    const uint32_t round = train_all();
    mood = REFUSES;
    put_all(round);
    await_state(round, TERN_ROUND_ABANDONED);
    assert_true(settle_all(false));
    mood = ANSWERS;
    test_advance(61000);
    step_ms = 100;
    struct device liar = devices[1];
    liar.body = malloc(liar.body_len);
    assert_non_null(liar.body);
    memcpy(liar.body, devices[1].body, liar.body_len);
    assert_int_equal(train_all(), round + 1);
    for (uint64_t id = 1; id <= DEVICES; id++) {
        assert_int_equal(put(id == liar.id ? &liar : &devices[id], round + 1), 200);
        devices[id].unsettled = round + 1;
    }
    free(liar.body);
    await_state(round + 1, TERN_ROUND_ABANDONED);
    expect_reason(round + 1, "sum-out-of-range");
    assert_true(settle_all(false));
    check_conservation();
    train_round_after_abandoned(round + 1);
}

// A client that sends the masked update of another one under its own sequence makes the sum noise: the round is abandoned by
// name, every device gets its share back, and the model stays.
static void test_a_client_with_a_foreign_update_gives_back(void **state)
{
    (void)state;
    const size_t size = harness.model.count * sizeof(float);
    start();
    const uint32_t round = train_all();
    float *before = malloc(size);
    float *after = malloc(size);
    load_weights(before, false);
    struct device liar = devices[2];
    liar.body = devices[1].body;
    liar.body_len = devices[1].body_len;
    for (uint64_t id = 1; id <= DEVICES; id++) {
        assert_int_equal(put(id == liar.id ? &liar : &devices[id], round), 200);
        devices[id].unsettled = round;
    }
    await_state(round, TERN_ROUND_ABANDONED);
    expect_reason(round, "sum-out-of-range");
    assert_true(settle_all(false));
    load_weights(after, false);
    assert_memory_equal(before, after, size);
    free(before);
    free(after);
}

static void test_only_clients_with_an_admitted_ticket_take_part(void **state)
{
    (void)state;
    tern_CheckinRequest plain = request_from(NULL);
    configure();
    refuses_tickets = true;
    harness_start_with(&harness, DEVICES);
    answer_expect(put_checkin(&harness, 1, &plain), 422);
    devices[1] = (struct device){.id = 1};
    tern_CheckinRequest request = request_with_ticket(&devices[1]);
    await(&devices[1], has_helper);
    assert_false(checkin_with(&harness, 1, &request).has_helper);
    // The refusal shows as another request for a ticket; the same one is then refused by name, and passed on once more.
    await(&devices[1], has_helper);
    struct answer answer = put_checkin(&harness, 1, &request);
    assert_int_equal(answer.status, 422);
    tern_Error error;
    assert_int_equal(tern_wire_decode_error(answer.body->data, answer.body->len, &error), TERN_OK);
    assert_non_null(strstr(error.sentence, "unknown-code"));
    answer_free(&answer);
    refuses_tickets = false;
    assert_false(checkin_device(&devices[1]).has_task);
}

// A device that lost the record of its ticket is asked for another one, but not while the open round has its update, and gets no
// task until the helper has admitted that one.
static void test_a_lost_ticket_is_asked_for_again(void **state)
{
    (void)state;
    start();
    const uint32_t round = train_all();
    tern_CheckinRequest forgetful = request_of(&devices[1]);
    forgetful.ticket_epoch = 0;
    tern_CheckinReply reply = checkin_with(&harness, 1, &forgetful);
    assert_true(reply.has_helper);
    assert_false(reply.has_task);
    assert_false(checkin_device(&devices[1]).has_helper); // it found the record
    assert_int_equal(put(&devices[1], round), 200);
    devices[1].unsettled = round;
    assert_false(checkin_with(&harness, 1, &forgetful).has_helper);
    tern_CheckinRequest early = request_with_ticket(&devices[1]);
    early.ticket.bytes[early.ticket.size - 1] ^= 1;
    answer_expect(put_checkin(&harness, 1, &early), 422);
    for (uint64_t id = 2; id <= DEVICES; id++) {
        assert_int_equal(put(&devices[id], round), 200);
        devices[id].unsettled = round;
    }
    await_state(round, TERN_ROUND_COMMITTED);
    assert_true(settle_all(true));
    // The helper has a ticket of this device in the epoch, and refuses another one until its operator has revoked the device.
    refuses_tickets = true;
    reply = checkin_with(&harness, 1, &forgetful);
    assert_true(reply.has_helper);
    assert_false(reply.has_task);
    tern_CheckinRequest request = request_with_ticket(&devices[1]);
    request.ticket.bytes[request.ticket.size - 1] ^= 1;
    reply = checkin_with(&harness, 1, &request);
    assert_false(reply.has_helper);
    assert_false(reply.has_task);
    await(&devices[1], has_helper);
}

// --- Settings

static void expect_refused(const char *setting)
{
    char why[256] = "";
    assert_int_equal(
        tern_federation_check_config(&harness.config.federation, harness.model.count, why),
        TERN_ERR_CONFIG);
    if (strstr(why, setting) == NULL) {
        fail_msg("%s is not in: %s", setting, why);
    }
}

#define REFUSED(change, setting)                                                                   \
    do {                                                                                           \
        const struct tern_federation_config sound = *config;                                       \
        change;                                                                                    \
        expect_refused(setting);                                                                   \
        *config = sound;                                                                           \
    } while (0)

static void test_settings_that_show_single_clients_are_refused(void **state)
{
    (void)state;
    struct tern_federation_config *config = &harness.config.federation;
    char why[256];
    configure();
    assert_int_equal(tern_federation_check_config(config, harness.model.count, why), TERN_OK);
    REFUSED(config->round.cohort = 2, "round.cohort");
    REFUSED(config->round.quorum = 2, "round.quorum");
    REFUSED((config->round.cohort = 4, config->round.quorum = 0), "round.quorum");
    REFUSED(config->secure.groups = 3, "round.cohort = 8 is below secure.min_clients = 3 times "
                                       "secure.groups = 3");
    REFUSED(config->strategy = tern_strategy_find("fedmedian"), "round.strategy");
    REFUSED(config->strategy = tern_strategy_find("fedtrimmedavg"), "round.strategy");
    REFUSED(config->strategy = &tern_strategy_fedbuff, "round.strategy");
    REFUSED(config->strategy_parameters[TERN_STRATEGY_NORM_BOUND] = 3.0F, "norm_bound=0");
    REFUSED(config->downloads.plan = TERN_DOWNLOADS_CHEAPEST, "downloads.plan = trunk");
    REFUSED(config->steps.policy = TERN_STEPS_BUDGET, "train.schedule = fixed");
    REFUSED(config->error.policy = TERN_DIRECTIVE_LIMIT, "codec.error_feedback = keep");
    REFUSED(config->statistics.enabled = true, "statistics.columns = none");
    REFUSED(config->train.evaluate = true, "train.evaluate = no");
    REFUSED(config->upstream_client = 1, "gateway");
}

// The counters of sent values would wrap, and with them the scales of the next round.
static void test_a_cohort_whose_counters_wrap_is_refused(void **state)
{
    (void)state;
    struct tern_federation_config *config = &harness.config.federation;
    static struct tern_model large;
    const uint32_t count = UINT32_C(1) << 24;
    char why[256] = "";
    configure();
    tern_model_clear(&large);
    assert_int_equal(tern_model_add_by_rule(&large, "weight", &count, 1, TERN_RULE_COMPRESS),
                     TERN_OK);
    assert_int_equal(tern_model_layout(&large), TERN_OK);
    config->round.cohort = 255;
    assert_true(tern_secure_can_train(config, &large, why));
    config->round.cohort = 256;
    assert_false(tern_secure_can_train(config, &large, why));
    assert_non_null(strstr(why, "round.cohort = 256 x 16777216 values"));
    assert_non_null(strstr(why, "set round.cohort to 255 or less, or raise secure.share"));
    config->secure.share = 2;
    assert_true(tern_secure_can_train(config, &large, why));
    config->secure.share = 1;
    config->secure.noise = 1000;
    assert_true(tern_secure_can_train(config, &large, why));
}

static void test_settings_that_noise_forbids_are_refused(void **state)
{
    (void)state;
    struct tern_federation_config *config = &harness.config.federation;
    char why[256];
    noise_setting = 1000;
    configure();
    assert_int_equal(tern_federation_check_config(config, harness.model.count, why), TERN_OK);
    REFUSED(config->secure.examples_max = 100, "secure.examples_max = 0");
    REFUSED(config->round.ending.patience = 3, "round.patience = 0");
    REFUSED(config->train.rate.schedule = TERN_RATE_PLATEAU, "train.learning_rate");
    char too_large[256] = "";
    config->secure.noise = 100000;
    config->secure.clip = 1;
    assert_int_equal(tern_federation_check_config(config, 1000000, too_large), TERN_ERR_CONFIG);
    assert_non_null(strstr(too_large, "privacy.noise = 100"));
}

int main(void)
{
#define TEST_OF(name) cmocka_unit_test_setup_teardown(name, setup, teardown_devices)
    const struct CMUnitTest tests[] = {
        TEST_OF(test_the_sum_under_masks_makes_the_model_of_the_plain_sum),
        TEST_OF(test_with_groups_the_model_moves_by_the_median),
        TEST_OF(test_one_lying_client_moves_the_model_within_the_other_groups),
        TEST_OF(test_a_group_out_of_range_is_left_out),
        TEST_OF(test_most_groups_out_of_range_give_back),
        TEST_OF(test_noise_is_in_the_model_and_no_loss_is_known),
        TEST_OF(test_each_group_has_noise),
        TEST_OF(test_a_spent_privacy_budget_ends_the_federation),
        TEST_OF(test_a_sum_that_was_lost_counts),
        TEST_OF(test_another_fact_for_one_client_is_no_sum),
        TEST_OF(test_scales_follow_from_the_last_sum),
        TEST_OF(test_a_round_shows_one_end_of_the_log),
        TEST_OF(test_a_log_that_was_rolled_back_is_logged),
        TEST_OF(test_new_settings_do_not_change_an_open_round),
        TEST_OF(test_replayed_rounds_are_skipped),
        TEST_OF(test_a_refused_log_of_the_helper_ends_the_round),
        TEST_OF(test_a_refusing_helper_gives_back),
        TEST_OF(test_a_revoked_device_stops_one_round),
        TEST_OF(test_noise_in_place_of_masks_gives_back),
        TEST_OF(test_a_wrong_signature_gives_back),
        TEST_OF(test_undecodable_bytes_give_back),
        TEST_OF(test_a_log_that_is_not_signed_gives_back),
        TEST_OF(test_a_silent_helper_is_asked_until_the_deadline),
        TEST_OF(test_a_helper_that_never_answers_gives_back),
        TEST_OF(test_a_late_answer_counts),
        TEST_OF(test_an_answer_after_the_round_was_abandoned_changes_nothing),
        TEST_OF(test_a_round_makes_way_for_a_restored_one),
        TEST_OF(test_a_round_outlives_an_order_that_cannot_be_executed),
        TEST_OF(test_a_lost_answer_is_asked_for_again),
        TEST_OF(test_updates_that_do_not_fit_the_round_are_refused),
        TEST_OF(test_a_plain_federation_takes_no_masked_updates),
        TEST_OF(test_a_client_that_replays_changes_nothing),
        TEST_OF(test_a_replay_of_an_abandoned_round_gives_back),
        TEST_OF(test_a_client_with_a_foreign_update_gives_back),
        TEST_OF(test_only_clients_with_an_admitted_ticket_take_part),
        TEST_OF(test_a_lost_ticket_is_asked_for_again),
        TEST_OF(test_settings_that_show_single_clients_are_refused),
        TEST_OF(test_a_cohort_whose_counters_wrap_is_refused),
        TEST_OF(test_settings_that_noise_forbids_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
