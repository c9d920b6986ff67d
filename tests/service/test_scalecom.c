// Rounds of scalecom: a leader chooses indices, the others wait for them, and what they send without
// indices counts as if it had them.
#include "harness.h"

#include "codec/sparse_share.h"
#include "merge/replay.h"
#include "tests/cases.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 8192, CLIENTS = 3, LEADER = 2, WINDOW = 60000 };

static struct harness harness;

// How often indices were put back (the linker puts this in between).
static atomic_uint joins;

enum tern_result __real_tern_sparse_join(const struct tern_model *model, const uint8_t *indices,
                                         size_t indices_len, const uint8_t *src, size_t len,
                                         uint8_t *dst, size_t dst_size, size_t *written);
enum tern_result __wrap_tern_sparse_join(const struct tern_model *model, const uint8_t *indices,
                                         size_t indices_len, const uint8_t *src, size_t len,
                                         uint8_t *dst, size_t dst_size, size_t *written);

enum tern_result __wrap_tern_sparse_join(const struct tern_model *model, const uint8_t *indices,
                                         size_t indices_len, const uint8_t *src, size_t len,
                                         uint8_t *dst, size_t dst_size, size_t *written)
{
    atomic_fetch_add(&joins, 1);
    return __real_tern_sparse_join(model, indices, indices_len, src, len, dst, dst_size, written);
}

static int setup(void **state)
{
    (void)state;
    harness_make(&harness);
    struct tern_service_config *config = &harness.config;
    assert_int_equal(tern_codec_parse("scalecom:p=0.1", &config->federation.codec_up, NULL),
                     TERN_OK);
    config->federation.min_clients = CLIENTS;
    config->federation.round.cohort = CLIENTS;
    harness_start_with(&harness, CLIENTS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_free(&harness);
    return 0;
}

// --- What a client does

struct message {
    uint8_t body[ROOM];
    size_t len;
    float sent[1024]; // what it decodes to, with its indices
};

// The container of the indices that a task names.
static struct answer fetch_indices(uint64_t client, const tern_Task *task,
                                   struct tern_span *container)
{
    char path[TERN_PATH_MAX];
    uint8_t sha256[TERN_SHA256_SIZE];
    tern_Download download;
    tern_path_download(task->indices.sha256.bytes, path);
    struct answer answer = call(&harness, "GET", path, harness.tokens[client], NULL, 0);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body->len, task->indices.size);
    tern_sha256(answer.body->data, answer.body->len, sha256);
    assert_memory_equal(sha256, task->indices.sha256.bytes, TERN_SHA256_SIZE);
    assert_int_equal(
        tern_wire_decode_download(answer.body->data, answer.body->len, &download, container),
        TERN_OK);
    assert_int_equal(download.kind, tern_DownloadKind_DOWNLOAD_INDICES);
    assert_int_equal(download.version, task->base_version);
    assert_memory_equal(download.model_hash.bytes, harness.model.hash, TERN_SHA256_SIZE);
    return answer;
}

static void wrap(const tern_Task *task, bool shared, struct tern_span container,
                 struct message *message)
{
    tern_Update update = tern_Update_init_zero;
    update.base.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(update.base.bytes, task->base.bytes, TERN_WIRE_REPLICA_BYTES);
    update.num_examples = 10;
    update.local_steps = task->local_steps;
    update.loss = 1.0F;
    update.shared_indices = shared;
    assert_int_equal(
        tern_wire_encode_update(&update, container, message->body, ROOM, &message->len), TERN_OK);
}

// Trains something of its own, and encodes it as the task asks.
static void make_update(uint64_t client, const tern_Task *task, struct message *message)
{
    struct tern_encode_context context = {.round = task->round};
    struct answer answer = {.body = NULL};
    struct tern_codec codec;
    struct tern_span indices = {NULL, 0};
    float values[1024];
    uint8_t container[ROOM];
    struct tern_span made = {container, 0};
    assert_int_equal(tern_codec_parse(task->codec, &codec, NULL), TERN_OK);
    for (uint32_t i = 0; i < harness.model.count; i++) {
        values[i] = (float)((i * 7919 + client * 104729 + 13 * task->round) % 1009) / 1009 - 0.3F;
    }
    if (task->has_indices) {
        answer = fetch_indices(client, task, &indices);
        context.indices = indices.data;
        context.indices_len = indices.len;
    }
    assert_int_equal(
        tern_container_encode(&codec, &context, &harness.model, values, container, ROOM, &made.len),
        TERN_OK);
    assert_int_equal(tern_container_decode(&harness.model, container, made.len, message->sent),
                     TERN_OK);
    if (task->has_indices) {
        assert_int_equal(
            tern_sparse_strip(&harness.model, container, made.len, container, ROOM, &made.len),
            TERN_OK);
    }
    answer_free(&answer);
    wrap(task, task->has_indices, made, message);
}

static void expect_put(uint64_t client, uint32_t round, uint32_t sequence,
                       const struct message *message, int status, tern_UpdateStatus expected)
{
    struct answer answer =
        put_update(&harness, client, round, sequence, message->body, message->len);
    tern_UpdateReply reply;
    assert_int_equal(answer.status, status);
    if (status == 200) {
        assert_int_equal(tern_wire_decode_update_reply(answer.body->data, answer.body->len, &reply),
                         TERN_OK);
        assert_int_equal(reply.status, expected);
    }
    answer_free(&answer);
}

static void accept_update(uint64_t client, uint32_t round, const struct message *message)
{
    expect_put(client, round, round, message, 200, tern_UpdateStatus_UPDATE_ACCEPTED);
}

static tern_Task task_of(uint64_t client)
{
    tern_CheckinReply reply = checkin(&harness, client, NULL);
    assert_true(reply.has_task);
    return reply.task;
}

static void lead(struct message *message)
{
    tern_Task task = task_of(LEADER);
    assert_false(task.has_indices);
    make_update(LEADER, &task, message);
    accept_update(LEADER, 1, message);
}

// --- What the aggregator holds

struct expected {
    uint64_t client;
    const float *values;
    bool seen;
};

static enum tern_result compare_update(void *ctx, const struct tern_db_update *row)
{
    struct expected *expected = ctx;
    tern_Update message;
    struct tern_span container;
    float values[1024];
    if (row->client != expected->client) {
        return TERN_OK;
    }
    assert_int_equal(tern_wire_decode_update(row->body, row->body_len, &message, &container),
                     TERN_OK);
    assert_int_equal(tern_container_decode(&harness.model, container.data, container.len, values),
                     TERN_OK);
    assert_memory_equal(values, expected->values, harness.model.count * sizeof values[0]);
    expected->seen = true;
    return TERN_OK;
}

static void assert_stored(uint64_t client, uint32_t round, const struct message *message)
{
    struct expected expected = {.client = client, .values = message->sent};
    struct tern_db *other;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &other, why), TERN_OK);
    assert_int_equal(tern_db_update_each(other, round, compare_update, &expected), TERN_OK);
    tern_db_close(other);
    assert_true(expected.seen);
}

static void assert_replays(void)
{
    struct tern_replay_report report;
    struct tern_db *other;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &other, why), TERN_OK);
    assert_int_equal(tern_replay(other, NULL, NULL, &report, why), TERN_OK);
    tern_db_close(other);
}

// --- Tests

// Followers check in after an eighth of the leader's time, bounded by come_back_max.
CASE_WITH(test_followers_come_back_within_the_longest_time, setup, teardown)
{
    harness_stop(&harness);
    harness.config.federation.round.come_back_max_ms = 1200;
    harness_start(&harness);
    assert_true(WINDOW / 4 / 8 > 1200);
    tern_CheckinReply early = checkin(&harness, 1, NULL);
    assert_false(early.has_task);
    assert_in_range(early.come_back_ms, 1000, 1200);
}

CASE_WITH(test_followers_send_values_alone, setup, teardown)
{
    static struct message leaders, followers[CLIENTS + 1];
    tern_CheckinReply early = checkin(&harness, 1, NULL);
    assert_false(early.has_task);
    assert_in_range(early.come_back_ms, 1000, WINDOW / 4);
    lead(&leaders);
    for (uint64_t client = 1; client <= CLIENTS; client += 2) {
        tern_Task task = task_of(client);
        assert_true(task.has_indices);
        make_update(client, &task, &followers[client]);
        assert_true(followers[client].len < leaders.len);
        accept_update(client, 1, &followers[client]);
        // Its values, at the leader's indices.
        assert_stored(client, 1, &followers[client]);
        for (uint32_t i = 0; i < harness.model.count; i++) {
            assert_true(followers[client].sent[i] == 0 || leaders.sent[i] != 0);
        }
    }
    assert_replays();
    // Sent again after the round, it is known; other bytes are not.
    expect_put(1, 1, 1, &followers[1], 200, tern_UpdateStatus_UPDATE_DUPLICATE);
    expect_put(1, 1, 1, &followers[3], 409, 0);
}

CASE_WITH(test_indices_are_put_back_for_members_only, setup, teardown)
{
    static struct message leaders, follower;
    lead(&leaders);
    uint64_t outsider = enroll(&harness, false);
    tern_Task task = task_of(1);
    make_update(1, &task, &follower);
    atomic_store(&joins, 0);
    expect_put(1, 9, 1, &follower, 422, 0);
    expect_put(outsider, 1, 1, &follower, 422, 0);
    expect_put(3, 1, 1, &follower, 422, 0); // has no task yet
    assert_int_equal(atomic_load(&joins), 0);
    accept_update(1, 1, &follower);
    assert_int_equal(atomic_load(&joins), 1);
    expect_put(1, 1, 1, &follower, 200, tern_UpdateStatus_UPDATE_DUPLICATE);
}

CASE_WITH(test_held_followers_are_told_at_once, setup, teardown)
{
    static struct message leaders;
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = encode_checkin(NULL, 30000, body);
    struct tern_http_exchange *held =
        call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[3], body, len);
    lead(&leaders);
    struct answer answer = call_end(held);
    tern_CheckinReply reply;
    assert_int_equal(tern_wire_decode_checkin_reply(answer.body->data, answer.body->len, &reply,
                                                    &(struct tern_span){0}),
                     TERN_OK);
    assert_true(reply.has_task && reply.task.has_indices);
    answer_free(&answer);
}

CASE_WITH(test_without_a_leader_each_chooses, setup, teardown)
{
    static struct message leaders, followers;
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    tern_Task late = task_of(LEADER);
    make_update(LEADER, &late, &leaders);
    size_t len = encode_checkin(NULL, 30000, body);
    struct tern_http_exchange *held =
        call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[3], body, len);
    test_advance(WINDOW / 4 - 1000);
    assert_false(checkin(&harness, 1, NULL).has_task);
    test_advance(1000);
    // The service looks by itself when the wait is over.
    struct answer answer = call_end(held);
    tern_CheckinReply reply;
    assert_int_equal(tern_wire_decode_checkin_reply(answer.body->data, answer.body->len, &reply,
                                                    &(struct tern_span){0}),
                     TERN_OK);
    assert_true(reply.has_task);
    assert_false(reply.task.has_indices);
    answer_free(&answer);
    make_update(3, &reply.task, &followers);
    accept_update(3, 1, &followers);
    // The leader still counts, but leads nobody any more.
    accept_update(LEADER, 1, &leaders);
    tern_Task task = task_of(1);
    assert_false(task.has_indices);
    make_update(1, &task, &followers);
    accept_update(1, 1, &followers);
    assert_replays();
}

CASE_WITH(test_a_refused_leader_is_not_waited_for, setup, teardown)
{
    static struct message bad;
    tern_Task task = task_of(LEADER);
    assert_false(checkin(&harness, 1, NULL).has_task);
    wrap(&task, false, (struct tern_span){(const uint8_t *)"\x01\x77", 2}, &bad);
    expect_put(LEADER, 1, 1, &bad, 422, 0);
    assert_false(task_of(1).has_indices);
}

CASE_WITH(test_a_revoked_leader_is_not_waited_for, setup, teardown)
{
    struct tern_db *other;
    char why[256];
    assert_false(checkin(&harness, 1, NULL).has_task);
    assert_int_equal(tern_db_open(harness.path, 0, &other, why), TERN_OK);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    assert_int_equal(tern_db_client_revoke(other, LEADER), TERN_OK);
    assert_int_equal(tern_db_commit(other), TERN_OK);
    tern_db_close(other);
    assert_false(task_of(1).has_indices);
}

CASE_WITH(test_a_leader_whose_training_failed_is_not_waited_for, setup, teardown)
{
    tern_CheckinRequest request = request_from(NULL);
    (void)task_of(LEADER);
    assert_false(checkin(&harness, 1, NULL).has_task);
    request.failed_round = 1;
    (void)checkin_with(&harness, LEADER, &request);
    assert_false(task_of(1).has_indices);
}

// An update may be of another codec than its task asked for; this one has no indices.
CASE_WITH(test_a_dense_leader_shares_nothing, setup, teardown)
{
    static struct message dense;
    static const struct tern_codec float32 = {.id = TERN_CODEC_FLOAT32};
    float values[1024] = {1.0F};
    uint8_t container[ROOM];
    struct tern_span made = {container, 0};
    tern_Task task = task_of(LEADER);
    assert_int_equal(
        tern_container_encode(&float32, NULL, &harness.model, values, container, ROOM, &made.len),
        TERN_OK);
    wrap(&task, false, made, &dense);
    accept_update(LEADER, 1, &dense);
    assert_false(task_of(1).has_indices);
}

CASE_WITH(test_restart_in_the_middle_of_a_round, setup, teardown)
{
    static struct message leaders, followers;
    assert_false(checkin(&harness, 1, NULL).has_task);
    harness_restart(&harness);
    assert_false(checkin(&harness, 1, NULL).has_task); // still waiting
    lead(&leaders);
    tern_Task before = task_of(1);
    harness_restart(&harness);
    tern_Task after = task_of(1);
    assert_true(after.has_indices);
    assert_memory_equal(after.indices.sha256.bytes, before.indices.sha256.bytes, TERN_SHA256_SIZE);
    make_update(1, &after, &followers);
    harness_restart(&harness);
    accept_update(1, 1, &followers);
    assert_stored(1, 1, &followers);
    harness_restart(&harness);
    expect_put(1, 1, 1, &followers, 200, tern_UpdateStatus_UPDATE_DUPLICATE);

    static struct message last;
    tern_Task task = task_of(3);
    make_update(3, &task, &last);
    accept_update(3, 1, &last);
    // The round is closed and its indices are forgotten: the stored update tells.
    harness_restart(&harness);
    expect_put(1, 1, 1, &followers, 200, tern_UpdateStatus_UPDATE_DUPLICATE);
    expect_put(1, 1, 1, &last, 409, 0);
    expect_put(1, 1, 2, &followers, 409, 0);
    assert_replays();
}

CASE_WITH(test_values_that_fit_no_indices_are_refused, setup, teardown)
{
    static struct message leaders, message;
    uint8_t container[64] = {9, 0x33, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f, 1, 0x00};
    lead(&leaders);
    tern_Task task = task_of(1);
    wrap(&task, true, (struct tern_span){container, 12}, &message);
    struct answer answer = put_update(&harness, 1, 1, 1, message.body, message.len);
    assert_int_equal(answer.status, 422);
    assert_int_equal(answer_error_name(&answer), TERN_ERR_CORRUPT);
    answer_free(&answer);
    // Without the flag the modes that travel are unknown.
    wrap(&task, false, (struct tern_span){container, 12}, &message);
    answer = put_update(&harness, 1, 1, 1, message.body, message.len);
    assert_int_equal(answer_error_name(&answer), TERN_ERR_UNKNOWN);
    answer_free(&answer);
}

CASE_WITH(test_stripped_in_a_round_without_indices, setup, teardown)
{
    static struct message message;
    test_advance(WINDOW / 4);
    tern_Task task = task_of(1);
    assert_false(task.has_indices);
    wrap(&task, true, (struct tern_span){(const uint8_t *)"\x01\x00\x01\x00", 4}, &message);
    struct answer answer = put_update(&harness, 1, 1, 1, message.body, message.len);
    assert_int_equal(answer.status, 422);
    assert_int_equal(answer_error_name(&answer), TERN_ERR_STATE);
    answer_free(&answer);
}
