// Messages arrive as they were sent; limits and ranges hold on both ends.
#include "tests/cases.h"
#include "util/bytes.h"
#include "wire/examples.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint8_t bytes[EXAMPLE_BYTES_MAX];

CASE(every_example_survives_the_trip)
{
    for (size_t i = 0; i < example_count; i++) {
        uint8_t again[EXAMPLE_BYTES_MAX];
        union example_message message;
        struct tern_span container = {NULL, 0};
        size_t len;
        size_t again_len;
        assert_int_equal(examples[i].encode(bytes, sizeof(bytes), &len), TERN_OK);
        assert_int_equal(examples[i].decode(bytes, len, &message, &container), TERN_OK);
        assert_int_equal(
            examples[i].encode_again(&message, container, again, sizeof(again), &again_len),
            TERN_OK);
        assert_int_equal(len, again_len);
        assert_memory_equal(bytes, again, len);
    }
}

CASE(fields_arrive_as_they_were_set)
{
    tern_CheckinReply sent;
    tern_CheckinReply got;
    size_t len;
    example_checkin_reply(&sent);
    struct tern_span downloads = {NULL, 0};
    assert_int_equal(tern_wire_encode_checkin_reply(&sent, downloads, bytes, sizeof(bytes), &len),
                     TERN_OK);
    assert_int_equal(tern_wire_decode_checkin_reply(bytes, len, &got, &downloads), TERN_OK);
    assert_int_equal(downloads.len, 0);
    assert_true(got.has_task);
    assert_int_equal(got.task.round, 4);
    assert_int_equal(got.task.base.size, 8);
    assert_int_equal(got.task.base.bytes[0], 0x20);
    assert_int_equal(got.task.downloads_count, 1);
    assert_int_equal(got.task.downloads[0].size, 12700);
    assert_int_equal(got.task.downloads[0].sha256.bytes[31], 0x5f);
    assert_true(got.task.learning_rate == 0.05f);
    assert_string_equal(got.task.codec, "3lc:s=1.5");
    assert_int_equal(got.task.seed, 42);
    assert_false(got.finished);
}

CASE(a_container_is_borrowed_not_copied)
{
    static uint8_t large[200000];
    uint8_t *message_bytes = malloc(sizeof(large) + TERN_WIRE_OVERHEAD);
    size_t len;
    tern_Update sent;
    tern_Update got;
    struct tern_span container;
    assert_non_null(message_bytes);
    for (size_t i = 0; i < sizeof(large); i++) {
        large[i] = (uint8_t)(i * 31);
    }
    example_update(&sent);
    memset(&sent.container, 0x5a, sizeof(sent.container)); // callers need not set it
    assert_int_equal(tern_wire_encode_update(&sent, (struct tern_span){large, sizeof(large)},
                                             message_bytes, sizeof(large) + TERN_WIRE_OVERHEAD,
                                             &len),
                     TERN_OK);
    assert_int_equal(tern_wire_decode_update(message_bytes, len, &got, &container), TERN_OK);
    assert_int_equal(container.len, sizeof(large));
    assert_ptr_equal(container.data, message_bytes + len - sizeof(large));
    assert_memory_equal(container.data, large, sizeof(large));
    assert_int_equal(got.num_examples, 1200);
    free(message_bytes);
}

CASE(the_overhead_holds_for_the_largest_update)
{
    static uint8_t large[1 << 21];
    static uint8_t room[sizeof(large) + TERN_WIRE_OVERHEAD];
    tern_Update update;
    tern_Download download;
    size_t len;
    example_update(&update);
    update.num_examples = UINT32_MAX;
    update.local_steps = TERN_WIRE_LOCAL_STEPS_MAX;
    update.train_ms = UINT32_MAX;
    update.error.sequence = UINT32_MAX;
    update.model_hash.size = TERN_SHA256_SIZE;
    struct tern_span container = {large, sizeof(large)};
    assert_int_equal(tern_wire_encode_update(&update, container, room, sizeof(room), &len),
                     TERN_OK);
    assert_true(len <= sizeof(room));
    example_download(&download);
    download.version = UINT32_MAX;
    download.kind = tern_DownloadKind_DOWNLOAD_SNAPSHOT;
    download.from.size = 0;
    download.to.size = download.model_hash.size = TERN_SHA256_SIZE;
    assert_int_equal(tern_wire_encode_download(&download, container, room, sizeof(room), &len),
                     TERN_OK);
}

CASE(the_largest_task_fits_the_message_limit)
{
    tern_UpdateReply reply;
    tern_UpdateReply got;
    size_t len;
    example_update_reply(&reply);
    example_checkin_reply(&reply.next);
    tern_Task *task = &reply.next.task;
    task->downloads_count = TERN_WIRE_DOWNLOADS_MAX;
    for (unsigned i = 0; i < TERN_WIRE_DOWNLOADS_MAX; i++) {
        task->downloads[i].sha256.size = TERN_SHA256_SIZE;
        task->downloads[i].size = UINT32_MAX;
    }
    memset(task->codec, 'c', sizeof(task->codec) - 1);
    assert_int_equal(tern_wire_encode_update_reply(&reply, bytes, TERN_WIRE_MESSAGE_MAX, &len),
                     TERN_OK);
    assert_int_equal(tern_wire_decode_update_reply(bytes, len, &got), TERN_OK);
    assert_int_equal(got.next.task.downloads_count, TERN_WIRE_DOWNLOADS_MAX);
}

// What docs/PROTOCOL.md tells small devices to set aside: every field at its longest.
CASE(tasks_of_few_downloads_are_as_short_as_documented)
{
    tern_UpdateReply reply;
    size_t len;
    example_update_reply(&reply);
    example_checkin_reply(&reply.next);
    reply.next.come_back_ms = 0;
    tern_Task *task = &reply.next.task;
    task->kind = tern_TaskKind_TASK_EVALUATE;
    task->round = task->base_version = task->window_ms = UINT32_MAX;
    task->local_steps = TERN_WIRE_LOCAL_STEPS_MAX;
    task->batch_size = TERN_WIRE_BATCH_SIZE_MAX;
    task->learning_rate = task->weight_decay = task->prox_mu = 1e30f;
    task->momentum = task->decay = task->step_ahead = 0.5f;
    task->error_directive = tern_ErrorDirective_ERROR_DECAY;
    task->seed = UINT64_MAX;
    task->has_indices = true;
    task->indices.sha256.size = TERN_SHA256_SIZE;
    task->indices.size = UINT32_MAX;
    memset(task->codec, 'c', sizeof(task->codec) - 1);
    for (unsigned i = 0; i < 8; i++) {
        task->downloads[i].sha256.size = TERN_SHA256_SIZE;
        task->downloads[i].size = UINT32_MAX;
    }
    task->downloads_count = 8;
    assert_int_equal(tern_wire_encode_update_reply(&reply, bytes, sizeof(bytes), &len), TERN_OK);
    assert_in_range(len, 500, 536);
    task->downloads_count = 4;
    assert_int_equal(tern_wire_encode_update_reply(&reply, bytes, sizeof(bytes), &len), TERN_OK);
    assert_in_range(len, 330, 368);
}

CASE(more_downloads_than_the_limit_are_not_announced)
{
    tern_CheckinRequest message;
    tern_CheckinRequest got;
    size_t len;
    example_checkin_request(&message);
    message.downloads_max = 4;
    assert_int_equal(tern_wire_encode_checkin_request(&message, bytes, sizeof(bytes), &len),
                     TERN_OK);
    assert_int_equal(tern_wire_decode_checkin_request(bytes, len, &got), TERN_OK);
    assert_int_equal(got.downloads_max, 4);
    message.downloads_max = TERN_WIRE_DOWNLOADS_LIMIT + 1;
    assert_int_equal(tern_wire_encode_checkin_request(&message, bytes, sizeof(bytes), &len),
                     TERN_ERR_ARGUMENT);
}

CASE(a_buffer_one_byte_short_is_refused)
{
    for (size_t i = 0; i < example_count; i++) {
        size_t len;
        size_t short_len;
        assert_int_equal(examples[i].encode(bytes, sizeof(bytes), &len), TERN_OK);
        for (size_t size = 0; size < len; size++) {
            bytes[size] = 0x5a;
            assert_int_equal(examples[i].encode(bytes, size, &short_len), TERN_ERR_NO_SPACE);
            assert_int_equal(bytes[size], 0x5a);
        }
        assert_int_equal(examples[i].encode(bytes, len, &short_len), TERN_OK);
    }
}

// --- Ranges: each case is the example with one field changed, and what both ends must say to it.

// Encodes without the checks, so that the decoder sees what a careless peer would send.
#include <pb_encode.h>
static size_t encode_unchecked(const pb_msgdesc_t *fields, const void *message)
{
    pb_ostream_t stream = pb_ostream_from_buffer(bytes, sizeof(bytes));
    assert_true(pb_encode(&stream, fields, message));
    return stream.bytes_written;
}

#define EXPECT(name, type, change, result)                                                         \
    do {                                                                                           \
        type message;                                                                              \
        type got;                                                                                  \
        size_t len;                                                                                \
        example_##name(&message);                                                                  \
        change;                                                                                    \
        assert_int_equal(tern_wire_encode_##name(&message, bytes, sizeof(bytes), &len), result);   \
        len = encode_unchecked(type##_fields, &message);                                           \
        assert_int_equal(tern_wire_decode_##name(bytes, len, &got), result);                       \
    } while (0)

#define EXPECT_CARRIER(name, type, change, result)                                                 \
    do {                                                                                           \
        type message;                                                                              \
        type got;                                                                                  \
        struct tern_span container;                                                                \
        size_t len;                                                                                \
        example_##name(&message);                                                                  \
        change;                                                                                    \
        assert_int_equal(                                                                          \
            tern_wire_encode_##name(&message, example_container, bytes, sizeof(bytes), &len),      \
            result);                                                                               \
        len = encode_unchecked(type##_fields, &message);                                           \
        bytes[len++] = 0x7a;                                                                       \
        bytes[len++] = 1;                                                                          \
        bytes[len++] = 0;                                                                          \
        assert_int_equal(tern_wire_decode_##name(bytes, len, &got, &container), result);           \
    } while (0)

#define EXPECT_REPLY(change, result)                                                               \
    do {                                                                                           \
        tern_CheckinReply message;                                                                 \
        tern_CheckinReply got;                                                                     \
        struct tern_span downloads = {NULL, 0};                                                    \
        size_t len;                                                                                \
        example_checkin_reply(&message);                                                           \
        change;                                                                                    \
        assert_int_equal(                                                                          \
            tern_wire_encode_checkin_reply(&message, downloads, bytes, sizeof(bytes), &len),       \
            result);                                                                               \
        len = encode_unchecked(tern_CheckinReply_fields, &message);                                \
        assert_int_equal(tern_wire_decode_checkin_reply(bytes, len, &got, &downloads), result);    \
    } while (0)

CASE(ranges_of_enrolment)
{
#define REQUEST(change, result) EXPECT(enroll_request, tern_EnrollRequest, change, result)
#define REPLY(change, result) EXPECT(enroll_reply, tern_EnrollReply, change, result)
    REQUEST(message.join_code[0] = '\0', TERN_ERR_CORRUPT);
    REQUEST(message.name[0] = '\0', TERN_OK);
    REQUEST(strcpy(message.name, "tab\there"), TERN_ERR_CORRUPT);
    REQUEST(strcpy(message.name, "\xC3\xA9t\xC3\xA9"), TERN_OK);
    REQUEST(strcpy(message.name, "\xC3("), TERN_ERR_CORRUPT);
    REQUEST(strcpy(message.platform, "\x7f"), TERN_ERR_CORRUPT);
    REQUEST(message.evaluator = true, TERN_OK);
    REPLY(message.client_id = 0, TERN_ERR_ARGUMENT);
    REPLY(message.client_id = UINT64_MAX, TERN_OK);
    REPLY(message.token[21] = '\0', TERN_ERR_CORRUPT);
    REPLY(message.token[0] = '+', TERN_ERR_CORRUPT);
    REPLY(message.has_model = false, TERN_ERR_CORRUPT);
    REPLY(message.model.spec[0] = '\0', TERN_ERR_CORRUPT);
    REPLY(message.model.hash.size = 31, TERN_ERR_CORRUPT);
    REPLY(message.model.hash.size = 0, TERN_ERR_CORRUPT);
#undef REQUEST
#undef REPLY
}

CASE(ranges_of_a_checkin)
{
#define REQUEST(change, result) EXPECT(checkin_request, tern_CheckinRequest, change, result)
    REQUEST(message.replica.size = 0, TERN_OK);
    REQUEST(message.replica.size = 7, TERN_ERR_CORRUPT);
    REQUEST(message.model_hash.size = 32, TERN_OK);
    REQUEST(message.model_hash.size = 16, TERN_ERR_CORRUPT);
    REQUEST(message.wait_ms = TERN_WIRE_WAIT_MS_MAX, TERN_OK);
    REQUEST(message.wait_ms = TERN_WIRE_WAIT_MS_MAX + 1, TERN_ERR_ARGUMENT);
    REQUEST(message.budget_left = TERN_WIRE_BUDGET_MAX, TERN_OK);
    REQUEST(message.budget_left = TERN_WIRE_BUDGET_MAX + 1, TERN_ERR_ARGUMENT);
    REQUEST((message.budgeted = false, message.budget_left = UINT64_MAX), TERN_ERR_ARGUMENT);
    REQUEST(message.power = (tern_Power)3, TERN_ERR_ARGUMENT);
    REQUEST(message.error.norm = INFINITY, TERN_ERR_NON_FINITE);
    REQUEST(message.error.norm = -0.5f, TERN_ERR_ARGUMENT);
    REQUEST(message.error.maximum = -INFINITY, TERN_ERR_NON_FINITE);
    REQUEST(message.has_error = false, TERN_OK);
#define EVALUATED(of_loss, of_accuracy)                                                            \
    (message.has_evaluation = true,                                                                \
     message.evaluation = (tern_Evaluation){                                                       \
         .version = 3, .num_examples = 10, .loss = (of_loss), .accuracy = (of_accuracy)})
    REQUEST(EVALUATED(0.5f, 1.0f), TERN_OK);
    REQUEST(EVALUATED(-0.5f, 0.0f), TERN_OK);
    REQUEST(EVALUATED(NAN, 0.5f), TERN_ERR_NON_FINITE);
    REQUEST(EVALUATED(0.5f, 1.01f), TERN_ERR_ARGUMENT);
    REQUEST((EVALUATED(0.5f, 1.0f), message.evaluation.num_examples = 0), TERN_ERR_ARGUMENT);
#undef REQUEST
}

// The example's answer with `len` bytes of downloads, as the other end would have made it.
static enum tern_result decode_inline(const tern_CheckinReply *message, size_t len,
                                      struct tern_span *downloads)
{
    tern_CheckinReply got;
    size_t head = encode_unchecked(tern_CheckinReply_fields, message);
    bytes[head] = 0x7a;
    bytes[head + 1] = (uint8_t)len;
    memset(bytes + head + 2, 0x5a, len);
    return tern_wire_decode_checkin_reply(bytes, head + 2 + len, &got, downloads);
}

CASE(downloads_come_inline_whole_and_without_names)
{
    static const uint8_t blobs[9] = {1, 2, 3};
    struct tern_span downloads = {blobs, sizeof blobs};
    tern_CheckinReply message;
    tern_CheckinReply got;
    size_t len;
    example_checkin_reply(&message);
    tern_Task *task = &message.task;
    task->downloads_count = 2;
    task->downloads[0] = (tern_DownloadRef){.size = 4};
    task->downloads[1] = (tern_DownloadRef){.size = 5};
    assert_int_equal(
        tern_wire_encode_checkin_reply(&message, downloads, bytes, sizeof(bytes), &len), TERN_OK);
    assert_int_equal(tern_wire_decode_checkin_reply(bytes, len, &got, &downloads), TERN_OK);
    assert_int_equal(downloads.len, sizeof blobs);
    assert_memory_equal(downloads.data, blobs, sizeof blobs);
    assert_int_equal(decode_inline(&message, 9, &downloads), TERN_OK);
    assert_int_equal(decode_inline(&message, 8, &downloads), TERN_ERR_CORRUPT);
    assert_int_equal(decode_inline(&message, 10, &downloads), TERN_ERR_CORRUPT);
    assert_int_equal(decode_inline(&message, 0, &downloads), TERN_ERR_CORRUPT);
    task->downloads[1].sha256.size = TERN_SHA256_SIZE; // one has a name, one has not
    assert_int_equal(decode_inline(&message, 9, &downloads), TERN_ERR_CORRUPT);
    assert_int_equal(decode_inline(&message, 4, &downloads), TERN_ERR_CORRUPT);
    task->downloads[1] = (tern_DownloadRef){.size = 0};
    assert_int_equal(decode_inline(&message, 4, &downloads), TERN_ERR_CORRUPT);
    task->downloads[1] = (tern_DownloadRef){.size = UINT32_MAX - 3}; // 0 when 32 bits wrap
    assert_int_equal(decode_inline(&message, 0, &downloads), TERN_ERR_CORRUPT);
    assert_int_equal(decode_inline(&message, 4, &downloads), TERN_ERR_CORRUPT);
    message.has_task = false;
    message.come_back_ms = 1;
    assert_int_equal(decode_inline(&message, 9, &downloads), TERN_ERR_CORRUPT);
}

// There the client has no memory for them.
CASE(downloads_do_not_come_with_the_answer_to_an_update)
{
    tern_UpdateReply message;
    size_t len;
    example_update_reply(&message);
    example_checkin_reply(&message.next);
    message.next.task.downloads[0].sha256.size = 0;
    assert_int_equal(tern_wire_encode_update_reply(&message, bytes, sizeof(bytes), &len),
                     TERN_ERR_CORRUPT);
}

CASE(ranges_of_a_task)
{
#define TASK(change, result) EXPECT_REPLY(change, result)
    TASK(message.task.kind = (tern_TaskKind)2, TERN_ERR_ARGUMENT);
    TASK(message.task.kind = tern_TaskKind_TASK_EVALUATE, TERN_OK);
    TASK(message.task.round = 0, TERN_ERR_ARGUMENT);
    TASK(message.task.base.size = 0, TERN_ERR_CORRUPT);
    TASK(message.task.base.size = 7, TERN_ERR_CORRUPT);
    TASK(message.task.downloads_count = 0, TERN_OK);
    TASK(message.task.downloads[0].sha256.size = 0, TERN_ERR_CORRUPT);
    TASK(message.task.downloads[0].size = 0, TERN_ERR_ARGUMENT);
    TASK((message.task.has_indices = true, message.task.indices = message.task.downloads[0]),
         TERN_OK);
    TASK((message.task.has_indices = true, message.task.indices.size = 5), TERN_ERR_CORRUPT);
    TASK(message.task.local_steps = 0, TERN_ERR_ARGUMENT);
    TASK(message.task.local_steps = TERN_WIRE_LOCAL_STEPS_MAX, TERN_OK);
    TASK(message.task.local_steps = TERN_WIRE_LOCAL_STEPS_MAX + 1, TERN_ERR_ARGUMENT);
    TASK(message.task.batch_size = 0, TERN_ERR_ARGUMENT);
    TASK(message.task.batch_size = TERN_WIRE_BATCH_SIZE_MAX + 1, TERN_ERR_ARGUMENT);
    TASK(message.task.learning_rate = -0.01f, TERN_ERR_ARGUMENT);
    TASK(message.task.learning_rate = 0.0f, TERN_OK);
    TASK(message.task.learning_rate = INFINITY, TERN_ERR_NON_FINITE);
    TASK(message.task.momentum = 0.99f, TERN_OK);
    TASK(message.task.momentum = 1.0f, TERN_ERR_ARGUMENT);
    TASK(message.task.momentum = -0.1f, TERN_ERR_ARGUMENT);
    TASK(message.task.momentum = NAN, TERN_ERR_NON_FINITE);
    TASK(message.task.weight_decay = -1e-9f, TERN_ERR_ARGUMENT);
    TASK(message.task.weight_decay = NAN, TERN_ERR_NON_FINITE);
    TASK(message.task.prox_mu = -1.0f, TERN_ERR_ARGUMENT);
    TASK(message.task.prox_mu = INFINITY, TERN_ERR_NON_FINITE);
    TASK(message.task.codec[0] = '\0', TERN_ERR_CORRUPT);
    TASK(message.task.codec[0] = '\n', TERN_ERR_CORRUPT);
    TASK(message.task.error_directive = tern_ErrorDirective_ERROR_STEP_AHEAD, TERN_OK);
    TASK(message.task.error_directive = (tern_ErrorDirective)5, TERN_ERR_ARGUMENT);
    TASK(message.task.decay = 1.0f, TERN_OK);
    TASK(message.task.decay = 1.001f, TERN_ERR_ARGUMENT);
    TASK(message.task.decay = -0.5f, TERN_ERR_ARGUMENT);
    TASK(message.task.error_directive = tern_ErrorDirective_ERROR_LIMIT, TERN_OK);
    TASK(message.task.error_limit = 1e6f, TERN_OK);
    TASK(message.task.error_limit = -0.5f, TERN_ERR_ARGUMENT);
    TASK(message.task.error_limit = INFINITY, TERN_ERR_NON_FINITE);
    TASK(message.task.step_ahead = 1.0f, TERN_OK);
    TASK(message.task.step_ahead = 1.001f, TERN_ERR_ARGUMENT);
    TASK(message.task.step_ahead = -0.5f, TERN_ERR_ARGUMENT);
    TASK(message.task.step_ahead = NAN, TERN_ERR_NON_FINITE);
    TASK(message.task.gradient = tern_Gradient_GRADIENT_FULL,
         TERN_ERR_ARGUMENT); // of several steps
    TASK((message.task.gradient = tern_Gradient_GRADIENT_FULL, message.task.local_steps = 1),
         TERN_OK);
    TASK(message.task.gradient = (tern_Gradient)3, TERN_ERR_ARGUMENT);
    TASK(message.task.gradient = tern_Gradient_GRADIENT_REDUCED, TERN_ERR_ARGUMENT);
    TASK((message.task.gradient = tern_Gradient_GRADIENT_REDUCED, message.task.local_steps = 1,
          message.task.anchor = message.task.round - 1),
         TERN_OK);
    TASK((message.task.gradient = tern_Gradient_GRADIENT_REDUCED, message.task.local_steps = 1,
          message.task.anchor = message.task.round),
         TERN_ERR_ARGUMENT);
    TASK((message.task.gradient = tern_Gradient_GRADIENT_FULL, message.task.local_steps = 1,
          message.task.anchor = 1),
         TERN_ERR_ARGUMENT);
    TASK(message.finished = true, TERN_ERR_ARGUMENT);
    TASK(message.too_few_clients = true, TERN_ERR_ARGUMENT);
    TASK((message.has_task = false, message.too_few_clients = true), TERN_OK);
    TASK((message.has_task = false, message.has_final_model = true), TERN_ERR_ARGUMENT);
    TASK((message.has_task = false, message.finished = true, message.has_final_model = true,
          message.final_model = message.task.downloads[0]),
         TERN_OK);
    TASK((message.has_task = false, message.finished = true, message.has_final_model = true,
          message.final_model = message.task.downloads[0], message.final_model.size = 0),
         TERN_ERR_ARGUMENT);
    TASK((message.has_task = false, message.finished = true), TERN_OK);
    TASK((message.has_task = false, message.final_model_hash.size = 5), TERN_ERR_CORRUPT);
    TASK((message.has_task = false, message.come_back_ms = UINT32_MAX), TERN_OK);
#undef TASK
}

// A task of a secure round with two scales, as in the reply to a client without a ticket.
static void make_secure(tern_CheckinReply *message)
{
    tern_SecureRound *round = &message->task.secure;
    message->task.has_secure = true;
    *round = (tern_SecureRound){.bits = 5, .level = 1, .min_clients = 8, .epoch = 2, .share = 2};
    round->cohort = 10;
    round->places_seed = UINT64_MAX;
    round->log_count = 700;
    round->log_head.size = TERN_SHA256_SIZE;
    round->log_signature.size = TERN_WIRE_SIGNATURE_BYTES;
    round->scales.size = 2 * sizeof(float);
    tern_put_f32(round->scales.bytes, 0.25f);
    tern_put_f32(round->scales.bytes + sizeof(float), FLT_MIN);
}

CASE(ranges_of_a_secure_round)
{
#define SECURE(change, result) EXPECT_REPLY((make_secure(&message), change), result)
#define ROUND message.task.secure
    SECURE(ROUND.bits = 24, TERN_OK);
    SECURE(ROUND.bits = 25, TERN_ERR_ARGUMENT);
    SECURE(ROUND.bits = 1, TERN_ERR_ARGUMENT);
    SECURE(ROUND.level = 0, TERN_ERR_ARGUMENT);
    SECURE(ROUND.level = 127, TERN_OK);
    SECURE(ROUND.level = 128, TERN_ERR_ARGUMENT);
    SECURE(ROUND.min_clients = 1, TERN_ERR_ARGUMENT);
    SECURE(ROUND.min_clients = 11, TERN_ERR_ARGUMENT);
    SECURE(ROUND.epoch = 0, TERN_ERR_ARGUMENT);
    SECURE(ROUND.share = 3, TERN_ERR_ARGUMENT);
    SECURE(ROUND.share = 10, TERN_OK);
    SECURE(ROUND.log_head.size = 31, TERN_ERR_CORRUPT);
    SECURE(ROUND.log_head.size = 0, TERN_ERR_CORRUPT);
    SECURE(ROUND.log_signature.size = 63, TERN_ERR_CORRUPT);
    SECURE(ROUND.log_count = 0, TERN_ERR_ARGUMENT);
    SECURE(ROUND.log_count = UINT64_MAX, TERN_OK);
    SECURE(ROUND.scales.size = 0, TERN_ERR_CORRUPT);
    SECURE(ROUND.scales.size = 7, TERN_ERR_CORRUPT);
    SECURE(tern_put_f32(ROUND.scales.bytes, 0.0f), TERN_ERR_ARGUMENT);
    SECURE(tern_put_f32(ROUND.scales.bytes + sizeof(float), -1.0f), TERN_ERR_ARGUMENT);
    SECURE(tern_put_f32(ROUND.scales.bytes, INFINITY), TERN_ERR_NON_FINITE);
    SECURE(message.task.kind = tern_TaskKind_TASK_EVALUATE, TERN_ERR_ARGUMENT);
    SECURE((message.has_settled = true, message.settled.round = 0), TERN_ERR_ARGUMENT);
    SECURE((message.has_settled = true, message.settled.round = 3), TERN_OK);
#define HELPER(of_epoch, key, of_signature)                                                        \
    (message.has_helper = true, message.helper.epoch = (of_epoch),                                 \
     message.helper.public_key.size = (key), message.helper.signature.size = (of_signature))
    SECURE(HELPER(1, 32, 64), TERN_OK);
    SECURE(HELPER(0, 32, 64), TERN_ERR_ARGUMENT);
    SECURE(HELPER(1, 31, 64), TERN_ERR_CORRUPT);
    SECURE(HELPER(1, 32, 63), TERN_ERR_CORRUPT);
#undef HELPER
#undef ROUND
#undef SECURE
#define REQUEST(change, result) EXPECT(checkin_request, tern_CheckinRequest, change, result)
    REQUEST(message.ticket.size = 100, TERN_ERR_ARGUMENT); // of no epoch
    REQUEST((message.ticket.size = 100, message.ticket_epoch = 1), TERN_OK);
    REQUEST(message.ticket_epoch = 1, TERN_OK);
#undef REQUEST
}

CASE(a_masked_update_reveals_nothing_beside_the_mask)
{
#define MASKED(change, result)                                                                     \
    EXPECT_CARRIER(update, tern_Update,                                                            \
                   (message.masked = true, message.nonce = 9, message.num_examples = 1,            \
                    message.loss = message.error.norm = message.error.maximum = 0.0f, change),     \
                   result)
    MASKED((void)message, TERN_OK);
    MASKED(message.nonce = 0, TERN_ERR_ARGUMENT);
    MASKED(message.masked = false, TERN_ERR_ARGUMENT);
    MASKED(message.num_examples = 2, TERN_ERR_ARGUMENT);
    MASKED(message.loss = 0.5f, TERN_ERR_ARGUMENT);
    MASKED(message.error.norm = 0.5f, TERN_ERR_ARGUMENT);
    MASKED(message.error.maximum = 0.5f, TERN_ERR_ARGUMENT);
    MASKED(message.has_error = false, TERN_ERR_ARGUMENT);
    MASKED(message.shared_indices = true, TERN_ERR_ARGUMENT);
    MASKED((message.has_evaluation = true, message.evaluation.num_examples = 9), TERN_ERR_ARGUMENT);
#undef MASKED
}

static void fill_metrics(tern_Evaluation *evaluation, float value)
{
    for (pb_size_t i = 0; i < evaluation->metrics_count; i++) {
        strcpy(evaluation->metrics[i].name, "of_fifteen_bytes" + 1);
        evaluation->metrics[i].value = value;
    }
}

CASE(ranges_of_an_update)
{
#define UPDATE(change, result) EXPECT_CARRIER(update, tern_Update, change, result)
    UPDATE(message.base.size = 0, TERN_ERR_CORRUPT);
    UPDATE(message.base.size = 7, TERN_ERR_CORRUPT);
    UPDATE(message.num_examples = 0, TERN_ERR_ARGUMENT);
    UPDATE(message.local_steps = 0, TERN_ERR_ARGUMENT);
    UPDATE(message.local_steps = TERN_WIRE_LOCAL_STEPS_MAX + 1, TERN_ERR_ARGUMENT);
    UPDATE(message.loss = NAN, TERN_ERR_NON_FINITE);
    UPDATE(message.loss = -FLT_MAX, TERN_OK);
    UPDATE(message.has_error = false, TERN_OK);
    UPDATE(message.has_evaluation = true, TERN_ERR_ARGUMENT); // of no examples
    UPDATE((message.has_evaluation = true, message.evaluation.num_examples = 9), TERN_OK);
    UPDATE((message.has_evaluation = true, message.evaluation.num_examples = 9,
            message.evaluation.accuracy = 1.5f),
           TERN_ERR_ARGUMENT);
    UPDATE((message.has_evaluation = true, message.evaluation.num_examples = 9,
            message.evaluation.metrics_count = 1),
           TERN_ERR_CORRUPT); // without a name
    UPDATE((message.has_evaluation = true, message.evaluation.num_examples = 9,
            message.evaluation.metrics_count = 4, fill_metrics(&message.evaluation, 1e30f)),
           TERN_OK);
    UPDATE((message.has_evaluation = true, message.evaluation.num_examples = 9,
            message.evaluation.metrics_count = 4, fill_metrics(&message.evaluation, NAN)),
           TERN_ERR_NON_FINITE);
    UPDATE(message.error.norm = NAN, TERN_ERR_NON_FINITE);
    UPDATE(message.decay = 0.0f, TERN_OK);
    UPDATE(message.decay = 1.001f, TERN_ERR_ARGUMENT);
    UPDATE(message.decay = -0.5f, TERN_ERR_ARGUMENT);
    UPDATE(message.decay = NAN, TERN_ERR_NON_FINITE);
    UPDATE((message.has_decay = false, message.decay = 0.0f), TERN_OK);
    UPDATE(message.model_hash.size = 32, TERN_OK);
    UPDATE(message.model_hash.size = 20, TERN_ERR_CORRUPT);
#undef UPDATE
    EXPECT(update_reply, tern_UpdateReply, message.status = (tern_UpdateStatus)4,
           TERN_ERR_ARGUMENT);
    EXPECT(update_reply, tern_UpdateReply, message.sha256.size = 32, TERN_OK);
    EXPECT(update_reply, tern_UpdateReply, message.sha256.size = 31, TERN_ERR_CORRUPT);
    EXPECT(update_reply, tern_UpdateReply,
           (message.status = tern_UpdateStatus_UPDATE_UNFINISHED, message.received = 1,
            message.sha256.size = 32),
           TERN_OK);
    EXPECT(update_reply, tern_UpdateReply,
           (message.status = tern_UpdateStatus_UPDATE_UNFINISHED, message.received = 1),
           TERN_ERR_CORRUPT);
    EXPECT(update_reply, tern_UpdateReply,
           (message.status = tern_UpdateStatus_UPDATE_UNFINISHED, message.sha256.size = 32),
           TERN_ERR_ARGUMENT);
    EXPECT(update_reply, tern_UpdateReply, message.status = tern_UpdateStatus_UPDATE_UNKNOWN,
           TERN_ERR_ARGUMENT);
    EXPECT(update_reply, tern_UpdateReply, message.has_next = false, TERN_OK);
    EXPECT(update_reply, tern_UpdateReply, message.next.final_model_hash.size = 3,
           TERN_ERR_CORRUPT);
}

CASE(ranges_of_a_download_and_an_error)
{
#define DOWNLOAD(change, result) EXPECT_CARRIER(download, tern_Download, change, result)
#define SNAPSHOT (message.kind = tern_DownloadKind_DOWNLOAD_SNAPSHOT, message.model_hash.size = 32)
    DOWNLOAD(message.kind = (tern_DownloadKind)3, TERN_ERR_ARGUMENT);
    DOWNLOAD(message.from.size = 0, TERN_ERR_CORRUPT);
    DOWNLOAD(message.from.size = 7, TERN_ERR_CORRUPT);
    DOWNLOAD(message.model_hash.size = 32, TERN_ERR_CORRUPT);
    DOWNLOAD(message.to.size = 32, TERN_ERR_CORRUPT);
    DOWNLOAD(message.version = 0, TERN_ERR_ARGUMENT);
    DOWNLOAD(SNAPSHOT, TERN_ERR_CORRUPT);
    DOWNLOAD((SNAPSHOT, message.from.size = 0), TERN_ERR_CORRUPT);
    DOWNLOAD((SNAPSHOT, message.from.size = 0, message.to.size = 32), TERN_OK);
    DOWNLOAD((SNAPSHOT, message.from.size = 0, message.to.size = 32, message.model_hash.size = 0),
             TERN_ERR_CORRUPT);
#define INDICES (message.kind = tern_DownloadKind_DOWNLOAD_INDICES, message.model_hash.size = 32)
    DOWNLOAD(INDICES, TERN_ERR_CORRUPT);
    DOWNLOAD((INDICES, message.from.size = 0), TERN_OK);
    DOWNLOAD((INDICES, message.from.size = 0, message.model_hash.size = 0), TERN_ERR_CORRUPT);
    DOWNLOAD((INDICES, message.from.size = 0, message.version = 0), TERN_OK);
    DOWNLOAD((INDICES, message.from.size = 0, message.to.size = 32), TERN_ERR_CORRUPT);
#undef INDICES
#undef DOWNLOAD
    EXPECT(error, tern_Error, message.name[0] = '\0', TERN_ERR_CORRUPT);
    EXPECT(error, tern_Error, message.sentence[0] = '\0', TERN_OK);
    EXPECT(error, tern_Error, message.sentence[3] = '\r', TERN_ERR_CORRUPT);
}

CASE(a_missing_or_empty_container_is_refused)
{
    tern_Update message;
    struct tern_span container;
    size_t len;
    example_update(&message);
    assert_int_equal(
        tern_wire_encode_update(&message, (struct tern_span){bytes, 0}, bytes, sizeof(bytes), &len),
        TERN_ERR_CORRUPT);
    len = encode_unchecked(tern_Update_fields, &message);
    assert_int_equal(tern_wire_decode_update(bytes, len, &message, &container), TERN_ERR_CORRUPT);
    bytes[len++] = 0x7a;
    bytes[len++] = 0;
    assert_int_equal(tern_wire_decode_update(bytes, len, &message, &container), TERN_ERR_CORRUPT);
}

static enum tern_result take_columns(uint32_t num_examples, const struct tern_column_pair *pairs,
                                     uint32_t count)
{
    uint8_t columns[4 * TERN_WIRE_COLUMN_BYTES];
    uint8_t dst[128];
    size_t len;
    const tern_Statistics message = {.num_examples = num_examples};
    for (uint32_t i = 0; i < count; i++) {
        tern_column_put(columns, i, pairs[i]);
    }
    return tern_wire_encode_statistics(&message,
                                       (struct tern_span){columns, count * TERN_WIRE_COLUMN_BYTES},
                                       dst, sizeof(dst), &len);
}

CASE(ranges_of_statistics)
{
    const struct tern_column_pair good[] = {{2950.0f, 0.0f}, {-FLT_MAX, FLT_MAX}};
    const struct tern_column_pair bad[] = {{NAN, 1.0f}, {INFINITY, 1.0f}, {0.0f, INFINITY}};
    const struct tern_column_pair negative = {0.0f, -1e-30f};
    assert_int_equal(take_columns(1, good, 2), TERN_OK);
    assert_int_equal(take_columns(0, good, 2), TERN_ERR_ARGUMENT);
    assert_int_equal(take_columns(1, good, 0), TERN_ERR_ARGUMENT);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(take_columns(1, &bad[i], 1), TERN_ERR_NON_FINITE);
    }
    assert_int_equal(take_columns(1, &negative, 1), TERN_ERR_ARGUMENT);
}

CASE(statistics_are_whole_columns)
{
    tern_Statistics message;
    struct tern_span columns;
    const uint8_t none[] = {0x08, 0x01};
    const uint8_t half[] = {0x08, 0x01, 0x7a, 0x04, 0, 0, 0, 0};
    assert_int_equal(tern_wire_decode_statistics(none, sizeof(none), &message, &columns),
                     TERN_ERR_CORRUPT);
    assert_int_equal(tern_wire_decode_statistics(half, sizeof(half), &message, &columns),
                     TERN_ERR_CORRUPT);
}

CASE(ranges_of_a_scaling)
{
    uint8_t columns[TERN_WIRE_COLUMN_BYTES];
    uint8_t dst[64];
    size_t len;
    const struct tern_span span = {columns, sizeof(columns)};
    tern_Scaling message = {.clients = 1, .num_examples = 1};
    tern_column_put(columns, 0, (struct tern_column_pair){0.0f, FLT_MIN});
    assert_int_equal(tern_wire_encode_scaling(&message, span, dst, sizeof(dst), &len), TERN_OK);
    tern_column_put(columns, 0, (struct tern_column_pair){0.0f, FLT_MIN / 2});
    assert_int_equal(tern_wire_encode_scaling(&message, span, dst, sizeof(dst), &len),
                     TERN_ERR_ARGUMENT);
    tern_column_put(columns, 0, (struct tern_column_pair){0.0f, 1.0f});
    message.clients = 0;
    assert_int_equal(tern_wire_encode_scaling(&message, span, dst, sizeof(dst), &len),
                     TERN_ERR_ARGUMENT);
}

CASE(a_scaling_goes_before_tasks)
{
    tern_CheckinReply reply;
    struct tern_span none = {NULL, 0};
    size_t len;
    example_checkin_reply(&reply);
    reply.statistics = tern_StatisticsState_STATISTICS_WANTED;
    assert_int_equal(tern_wire_encode_checkin_reply(&reply, none, bytes, sizeof(bytes), &len),
                     TERN_ERR_ARGUMENT);
    reply.has_task = false;
    assert_int_equal(tern_wire_encode_checkin_reply(&reply, none, bytes, sizeof(bytes), &len),
                     TERN_OK);
    reply.has_scaling = true; // without a name
    assert_int_equal(tern_wire_encode_checkin_reply(&reply, none, bytes, sizeof(bytes), &len),
                     TERN_ERR_CORRUPT);
}

CASE(the_tag_of_a_scaling_is_never_zero)
{
    uint8_t sha256[TERN_SHA256_SIZE];
    example_hash(1, sha256);
    assert_int_equal(tern_scaling_tag(sha256), 0x04030201);
    memset(sha256, 0, 4);
    assert_int_equal(tern_scaling_tag(sha256), 1);
}

CASE(names_of_columns_have_a_tag_by_their_order)
{
    static const char names[] = "a\0b";
    static const char turned[] = "b\0a";
    static const char joined[] = "ab";
    const uint32_t tag = tern_column_names_tag(names, sizeof names);
    assert_int_equal(tag, 0xf60eb28f);
    assert_int_not_equal(tag, tern_column_names_tag(turned, sizeof turned));
    assert_int_not_equal(tag, tern_column_names_tag(joined, sizeof joined));
    assert_int_equal(tern_column_names_tag(NULL, 0), 0);
}

CASE(text_that_is_not_terminated_is_refused)
{
    tern_Error message;
    size_t len;
    memset(&message, 'x', sizeof(message));
    assert_int_equal(tern_wire_encode_error(&message, bytes, sizeof(bytes), &len),
                     TERN_ERR_CORRUPT);
}

// A decay of 0, which a reset sets, is sent; an unset decay is not.
CASE(a_decay_of_zero_is_sent)
{
    static const uint8_t container[] = {2, 0, 0, 2, 0, 0};
    static const uint8_t field[] = {0x4d, 0, 0, 0, 0};
    const struct tern_span span = {container, sizeof container};
    for (int sent = 0; sent < 2; sent++) {
        uint8_t body[256];
        size_t len = 0;
        bool found = false;
        tern_Update message;
        struct tern_span read;
        example_update(&message);
        message.has_decay = sent == 1;
        message.decay = 0.0f;
        assert_int_equal(tern_wire_encode_update(&message, span, body, sizeof body, &len), TERN_OK);
        for (size_t at = 0; at + sizeof field <= len; at++) {
            found = found || memcmp(body + at, field, sizeof field) == 0;
        }
        assert_int_equal(found, sent == 1);
        assert_int_equal(tern_wire_decode_update(body, len, &message, &read), TERN_OK);
        assert_int_equal(message.has_decay, sent == 1);
    }
}
