#include "wire/examples.h"
#include <string.h>

static const uint8_t container_bytes[] = {0x02, 0x00, 0x00, 0x02, 0x00, 0x00};
const struct tern_span example_container = {container_bytes, sizeof(container_bytes)};

// 2950 and 16384 (its root 128), 0.0078125 and 0.25
static const uint8_t column_bytes[] = {0x00, 0x60, 0x38, 0x45, 0x00, 0x00, 0x80, 0x46,
                                       0x00, 0x00, 0x00, 0x3c, 0x00, 0x00, 0x80, 0x3e};
const struct tern_span example_columns = {column_bytes, sizeof(column_bytes)};

void example_hash(uint8_t first, uint8_t hash[TERN_SHA256_SIZE])
{
    for (unsigned i = 0; i < TERN_SHA256_SIZE; i++) {
        hash[i] = (uint8_t)(first + i);
    }
}

#define SET_HASH(field, first) ((field).size = TERN_SHA256_SIZE, example_hash(first, (field).bytes))

#define SET_REPLICA(field, first)                                                                  \
    do {                                                                                           \
        uint8_t id[TERN_SHA256_SIZE];                                                              \
        example_hash(first, id);                                                                   \
        (field).size = TERN_WIRE_REPLICA_BYTES;                                                    \
        memcpy((field).bytes, id, TERN_WIRE_REPLICA_BYTES);                                        \
    } while (0)

void example_enroll_request(tern_EnrollRequest *message)
{
    *message = (tern_EnrollRequest)tern_EnrollRequest_init_zero;
    strcpy(message->join_code, "K7QF-2M9X-TR4C-8WNB");
    strcpy(message->name, "gateway 12");
    strcpy(message->platform, "linux-arm64 tern-client/0.1.0");
}

void example_enroll_reply(tern_EnrollReply *message)
{
    *message = (tern_EnrollReply)tern_EnrollReply_init_zero;
    message->client_id = 12;
    strcpy(message->token, "AAECAwQFBgcICQoLDA0ODw");
    message->has_model = true;
    strcpy(message->model.spec, "mlp:784-128-10");
    message->model.seed = 42;
    SET_HASH(message->model.hash, 0xa0);
}

static void set_error_facts(tern_ErrorFacts *facts)
{
    facts->generation = 0x1234abcd;
    facts->sequence = 3;
    facts->norm = 0.5f;
    facts->maximum = 0.125f;
}

void example_checkin_request(tern_CheckinRequest *message)
{
    *message = (tern_CheckinRequest)tern_CheckinRequest_init_zero;
    SET_REPLICA(message->replica, 0x00);
    message->version = 2;
    message->wait_ms = 30000;
    message->codecs = 7;
    message->inline_kib = 44;
    message->metered = true;
    message->budget_left = 5000000;
    message->budgeted = true;
    message->power = tern_Power_POWER_MAINS;
    message->has_error = true;
    set_error_facts(&message->error);
}

void example_checkin_reply(tern_CheckinReply *message)
{
    *message = (tern_CheckinReply)tern_CheckinReply_init_zero;
    message->has_task = true;
    tern_Task *task = &message->task;
    task->kind = tern_TaskKind_TASK_TRAIN;
    task->round = 4;
    SET_REPLICA(task->base, 0x20);
    task->base_version = 3;
    task->downloads_count = 1;
    SET_HASH(task->downloads[0].sha256, 0x40);
    task->downloads[0].size = 12700;
    task->local_steps = 20;
    task->batch_size = 32;
    task->learning_rate = 0.05f;
    strcpy(task->codec, "3lc:s=1.5");
    task->window_ms = 600000;
    task->seed = 42;
}

void example_update(tern_Update *message)
{
    *message = (tern_Update)tern_Update_init_zero;
    SET_REPLICA(message->base, 0x20);
    message->num_examples = 1200;
    message->local_steps = 20;
    message->loss = 0.75f;
    message->train_ms = 480;
    message->has_error = true;
    set_error_facts(&message->error);
    message->has_decay = true;
    message->decay = 0.5f;
}

void example_update_reply(tern_UpdateReply *message)
{
    *message = (tern_UpdateReply)tern_UpdateReply_init_zero;
    message->status = tern_UpdateStatus_UPDATE_DUPLICATE;
    message->has_next = true;
    message->next.come_back_ms = 90000;
}

void example_download(tern_Download *message)
{
    *message = (tern_Download)tern_Download_init_zero;
    SET_REPLICA(message->from, 0x00);
    message->version = 3;
}

void example_error(tern_Error *message)
{
    *message = (tern_Error)tern_Error_init_zero;
    strcpy(message->name, "late");
    strcpy(message->sentence, "The round is closed; the update was not applied.");
}

void example_statistics(tern_Statistics *message)
{
    *message = (tern_Statistics)tern_Statistics_init_zero;
    message->num_examples = 1200;
}

void example_scaling(tern_Scaling *message)
{
    *message = (tern_Scaling)tern_Scaling_init_zero;
    message->clients = 3;
    message->num_examples = 4000;
}

// `len` bytes: first, first + 1, ...
static void count_up(uint8_t first, uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)(first + i);
    }
}

void example_epoch_key(tern_EpochKey *message)
{
    *message = (tern_EpochKey){.epoch = 3,
                               .public_key.size = TERN_X25519_PUBLIC_SIZE,
                               .signature.size = TERN_P256_SIGNATURE_SIZE,
                               .seconds_left = 2592000,
                               .log_head.size = TERN_SHA256_SIZE,
                               .log_count = 700,
                               .log_signature.size = TERN_P256_SIGNATURE_SIZE};
    example_hash(0x20, message->public_key.bytes);
    count_up(0x40, message->signature.bytes, TERN_P256_SIGNATURE_SIZE);
    example_hash(0x80, message->log_head.bytes);
    count_up(0xa0, message->log_signature.bytes, TERN_P256_SIGNATURE_SIZE);
}

void example_ticket_request(tern_TicketRequest *message)
{
    *message = (tern_TicketRequest){
        .federation.size = TERN_SHA256_SIZE, .client = 7, .epoch = 3, .ticket.size = 99};
    example_hash(0x20, message->federation.bytes);
    count_up(0x40, message->ticket.bytes, message->ticket.size);
}

void example_ticket_reply(tern_TicketReply *message)
{
    *message =
        (tern_TicketReply){.sha256.size = TERN_SHA256_SIZE, .log_head.size = TERN_SHA256_SIZE};
    example_hash(0x20, message->sha256.bytes);
    example_hash(0x80, message->log_head.bytes);
}

void example_sum_request(struct tern_sum_request *message)
{
    static uint8_t member[TERN_HELPER_MEMBER_BYTES];
    struct tern_secure_member listed = {.client = 7, .nonce = UINT64_C(0x0123456789abcdef)};
    example_hash(0x20, listed.ticket);
    tern_member_put(&listed, member);
    *message = (struct tern_sum_request){
        .facts = example_container, .values = 100000, .members = {member, sizeof member}};
}

void example_sum_reply(tern_SumReply *message)
{
    *message = (tern_SumReply){.list_hash.size = TERN_SHA256_SIZE,
                               .log_head.size = TERN_SHA256_SIZE,
                               .signature.size = TERN_P256_SIGNATURE_SIZE,
                               .log_count = 700,
                               .log_signature.size = TERN_P256_SIGNATURE_SIZE};
    example_hash(0x20, message->list_hash.bytes);
    example_hash(0x80, message->log_head.bytes);
    count_up(0x40, message->signature.bytes, TERN_P256_SIGNATURE_SIZE);
    count_up(0xa0, message->log_signature.bytes, TERN_P256_SIGNATURE_SIZE);
}

// Adapters: one set per message that carries nothing else...
#define ADAPT(field)                                                                               \
    static enum tern_result encode_##field(uint8_t *dst, size_t dst_size, size_t *written)         \
    {                                                                                              \
        union example_message message;                                                             \
        example_##field(&message.field);                                                           \
        return tern_wire_encode_##field(&message.field, dst, dst_size, written);                   \
    }                                                                                              \
    static enum tern_result decode_##field(const uint8_t *src, size_t src_len,                     \
                                           union example_message *message,                         \
                                           struct tern_span *container)                            \
    {                                                                                              \
        (void)container;                                                                           \
        return tern_wire_decode_##field(src, src_len, &message->field);                            \
    }                                                                                              \
    static enum tern_result again_##field(const union example_message *message,                    \
                                          struct tern_span container, uint8_t *dst,                \
                                          size_t dst_size, size_t *written)                        \
    {                                                                                              \
        (void)container;                                                                           \
        return tern_wire_encode_##field(&message->field, dst, dst_size, written);                  \
    }

// ... and one per message with a container.
#define ADAPT_CARRIER(field, carried)                                                              \
    static enum tern_result encode_##field(uint8_t *dst, size_t dst_size, size_t *written)         \
    {                                                                                              \
        union example_message message;                                                             \
        example_##field(&message.field);                                                           \
        return tern_wire_encode_##field(&message.field, carried, dst, dst_size, written);          \
    }                                                                                              \
    static enum tern_result decode_##field(const uint8_t *src, size_t src_len,                     \
                                           union example_message *message,                         \
                                           struct tern_span *container)                            \
    {                                                                                              \
        return tern_wire_decode_##field(src, src_len, &message->field, container);                 \
    }                                                                                              \
    static enum tern_result again_##field(const union example_message *message,                    \
                                          struct tern_span container, uint8_t *dst,                \
                                          size_t dst_size, size_t *written)                        \
    {                                                                                              \
        return tern_wire_encode_##field(&message->field, container, dst, dst_size, written);       \
    }

ADAPT(enroll_request)
ADAPT(enroll_reply)
ADAPT(checkin_request)
ADAPT(update_reply)
ADAPT(error)
ADAPT_CARRIER(update, example_container)
ADAPT_CARRIER(download, example_container)
ADAPT_CARRIER(statistics, example_columns)
ADAPT_CARRIER(scaling, example_columns)
ADAPT(epoch_key)
ADAPT(ticket_request)
ADAPT(ticket_reply)
ADAPT(sum_request)
ADAPT_CARRIER(sum_reply, example_container)

// The answer to a check-in may carry downloads; the one that is documented names them.
static enum tern_result encode_checkin_reply(uint8_t *dst, size_t dst_size, size_t *written)
{
    const struct tern_span none = {NULL, 0};
    tern_CheckinReply message;
    example_checkin_reply(&message);
    return tern_wire_encode_checkin_reply(&message, none, dst, dst_size, written);
}
static enum tern_result decode_checkin_reply(const uint8_t *src, size_t src_len,
                                             union example_message *message,
                                             struct tern_span *downloads)
{
    return tern_wire_decode_checkin_reply(src, src_len, &message->checkin_reply, downloads);
}
static enum tern_result again_checkin_reply(const union example_message *message,
                                            struct tern_span downloads, uint8_t *dst,
                                            size_t dst_size, size_t *written)
{
    return tern_wire_encode_checkin_reply(&message->checkin_reply, downloads, dst, dst_size,
                                          written);
}

#define EXAMPLE(field, message)                                                                    \
    {                                                                                              \
#field, "tern." #message, encode_##field, decode_##field, again_##field                    \
    }

const struct example examples[] = {
    EXAMPLE(enroll_request, EnrollRequest),
    EXAMPLE(enroll_reply, EnrollReply),
    EXAMPLE(checkin_request, CheckinRequest),
    EXAMPLE(checkin_reply, CheckinReply),
    EXAMPLE(update, Update),
    EXAMPLE(update_reply, UpdateReply),
    EXAMPLE(download, Download),
    EXAMPLE(statistics, Statistics),
    EXAMPLE(scaling, Scaling),
    EXAMPLE(error, Error),
    EXAMPLE(epoch_key, EpochKey),
    EXAMPLE(ticket_request, TicketRequest),
    EXAMPLE(ticket_reply, TicketReply),
    EXAMPLE(sum_request, SumRequest),
    EXAMPLE(sum_reply, SumReply),
};
const size_t example_count = sizeof(examples) / sizeof(examples[0]);
