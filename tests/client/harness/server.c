#include "client/harness/world.h"
#include "codec/sparse_share.h"
#include "tests/asserts.h"

#include <string.h>

#define TOKEN "AAECAwQFBgcICQoLDA0ODw"

void fake_server_init(struct fake_server *server, const struct tern_model *model)
{
    memset(server, 0, sizeof *server);
    server->model = model;
    server->seed = 7;
    server->target = 8;
    server->codec = "3lc:s=1";
    server->local_steps = 3;
    tern_model_init_weights(model, server->seed, server->weights);
    tern_replica_from_seed(model->hash, server->seed, server->replica);
    memcpy(server->replica_of[0], server->replica, TERN_SHA256_SIZE);
}

static tern_Download describe(const struct fake_server *server, tern_DownloadKind kind)
{
    tern_Download message = tern_Download_init_zero;
    message.kind = kind;
    message.version = server->version;
    message.model_hash.size = kind == tern_DownloadKind_DOWNLOAD_DELTA ? 0 : TERN_SHA256_SIZE;
    memcpy(message.model_hash.bytes, server->model->hash, TERN_SHA256_SIZE);
    return message;
}

static void seal(struct fake_download *download, const tern_Download *message,
                 struct tern_span container)
{
    assert_int_equal(tern_wire_encode_download(message, container, download->blob,
                                               sizeof download->blob, &download->len),
                     TERN_OK);
    tern_sha256(download->blob, download->len, download->sha256);
}

void fake_server_commit(struct fake_server *server, const float *change)
{
    const struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0f};
    struct fake_download *download = &server->downloads[server->version];
    static uint8_t container[WORLD_BLOB];
    float values[WORLD_VALUES];
    size_t len = 0;
    memcpy(values, change, sizeof values);
    assert_int_equal(tern_container_encode(&codec, NULL, server->model, values, container,
                                           sizeof container, &len),
                     TERN_OK);
    server->version++;
    tern_Download message = describe(server, tern_DownloadKind_DOWNLOAD_DELTA);
    message.from.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(message.from.bytes, server->replica, TERN_WIRE_REPLICA_BYTES);
    seal(download, &message, (struct tern_span){container, len});
    tern_replica_step(server->replica, download->sha256, server->replica);
    memcpy(server->replica_of[server->version], server->replica, TERN_SHA256_SIZE);
    assert_int_equal(
        tern_container_accumulate(server->model, container, len, 1.0f, server->weights), TERN_OK);
}

void fake_server_redo_download(struct fake_server *server, uint32_t v, tern_Download *message,
                               struct tern_span container)
{
    seal(&server->downloads[v], message, container);
}

static void make_snapshot(struct fake_server *server)
{
    const struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0f};
    static uint8_t container[WORLD_BLOB];
    float values[WORLD_VALUES];
    size_t len = 0;
    memcpy(values, server->weights, sizeof values);
    assert_int_equal(tern_container_encode(&codec, NULL, server->model, values, container,
                                           sizeof container, &len),
                     TERN_OK);
    tern_Download message = describe(server, tern_DownloadKind_DOWNLOAD_SNAPSHOT);
    message.to.size = TERN_SHA256_SIZE;
    memcpy(message.to.bytes, server->replica, TERN_SHA256_SIZE);
    seal(&server->snapshot, &message, (struct tern_span){container, len});
}

// The global model itself, as the end brings it.
static void make_final(struct fake_server *server, tern_CheckinReply *reply)
{
    const struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0f};
    static uint8_t container[WORLD_BLOB];
    float values[WORLD_VALUES];
    uint8_t content[TERN_SHA256_SIZE];
    size_t len = 0;
    memcpy(values, server->weights, sizeof values);
    values[0] += server->remainder;
    tern_sha256(values, sizeof values, reply->final_model_hash.bytes);
    reply->final_model_hash.bytes[0] ^= server->final_lies;
    assert_int_equal(tern_container_encode(&codec, NULL, server->model, values, container,
                                           sizeof container, &len),
                     TERN_OK);
    tern_sha256(container, len, content);
    tern_replica_from_snapshot(server->model->hash, server->version, content,
                               server->final_replica);
    tern_Download message = describe(server, tern_DownloadKind_DOWNLOAD_SNAPSHOT);
    message.to.size = TERN_SHA256_SIZE;
    memcpy(message.to.bytes, server->final_replica, TERN_SHA256_SIZE);
    seal(&server->snapshot, &message, (struct tern_span){container, len});
    reply->has_final_model = memcmp(server->last_checkin.replica.bytes, server->final_replica,
                                    TERN_WIRE_REPLICA_BYTES) != 0;
}

bool fake_server_accepted(const struct fake_server *server, uint32_t round, uint32_t sequence)
{
    for (size_t i = 0; i < server->accepted_count; i++) {
        if (server->accepted[i].round == round && server->accepted[i].sequence == sequence) {
            return true;
        }
    }
    return false;
}

// --- Tasks

static tern_DownloadRef ref_to(const struct fake_download *download)
{
    tern_DownloadRef ref = {.size = (uint32_t)download->len};
    ref.sha256.size = TERN_SHA256_SIZE;
    memcpy(ref.sha256.bytes, download->sha256, TERN_SHA256_SIZE);
    return ref;
}

static void add_ref(tern_Task *task, const struct fake_download *download)
{
    task->downloads[task->downloads_count++] = ref_to(download);
}

// The same indices for the version that the task trains from.
static void redo_indices(struct fake_server *server)
{
    uint8_t copy[WORLD_BLOB];
    tern_Download message;
    struct tern_span container;
    memcpy(copy, server->indices.blob, server->indices.len);
    assert_int_equal(tern_wire_decode_download(copy, server->indices.len, &message, &container),
                     TERN_OK);
    message.version = server->version;
    seal(&server->indices, &message, container);
}

void fake_server_lead(struct fake_server *server, const float *values)
{
    struct tern_codec codec;
    float copy[WORLD_VALUES];
    static uint8_t container[WORLD_BLOB];
    static uint8_t indices[WORLD_BLOB];
    size_t len = 0;
    size_t indices_len = 0;
    memcpy(copy, values, sizeof copy);
    assert_int_equal(tern_codec_parse(server->codec, &codec, NULL), TERN_OK);
    assert_int_equal(
        tern_container_encode(&codec, NULL, server->model, copy, container, sizeof container, &len),
        TERN_OK);
    assert_int_equal(tern_sparse_indices(server->model, &codec, container, len, indices,
                                         sizeof indices, &indices_len),
                     TERN_OK);
    tern_Download message = describe(server, tern_DownloadKind_DOWNLOAD_INDICES);
    seal(&server->indices, &message, (struct tern_span){indices, indices_len});
}

static void plan(struct fake_server *server, tern_Task *task, uint32_t held, uint32_t goal)
{
    if (server->snapshots && held != goal) {
        make_snapshot(server);
        add_ref(task, &server->snapshot);
        return;
    }
    for (uint32_t v = held; v < goal; v++) {
        add_ref(task, &server->downloads[v]);
    }
}

static uint32_t version_of(const struct fake_server *server, const uint8_t *replica)
{
    for (uint32_t v = 0; v <= server->version; v++) {
        if (memcmp(server->replica_of[v], replica, TERN_WIRE_REPLICA_BYTES) == 0) {
            return v;
        }
    }
    if (memcmp(server->final_replica, replica, TERN_WIRE_REPLICA_BYTES) == 0) {
        return server->version;
    }
    fail_msg("the client holds a replica that never was");
    return 0;
}

static void give_task(struct fake_server *server, tern_CheckinReply *reply, uint32_t held)
{
    tern_Task *task = &reply->task;
    const uint32_t round = server->version + 1;
    const uint32_t goal = server->evaluate ? held + 1 : server->version;
    reply->has_task = true;
    task->kind = server->evaluate ? tern_TaskKind_TASK_EVALUATE : tern_TaskKind_TASK_TRAIN;
    task->round = round;
    task->base.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(task->base.bytes, server->replica_of[goal], TERN_WIRE_REPLICA_BYTES);
    task->base_version = goal;
    plan(server, task, held, goal);
    task->local_steps = server->local_steps;
    task->batch_size = 4;
    task->learning_rate = 0.5f;
    task->error_directive = server->directives[round];
    task->decay = 0.5f;
    task->step_ahead = 0.25f;
    task->error_limit = 0.5f;
    task->window_ms = server->window_ms;
    task->seed = 11;
    task->evaluate = server->asks;
    task->gradient = server->gradient;
    task->anchor = server->gradient == tern_Gradient_GRADIENT_REDUCED ? round - 1 : 0;
    strncpy(task->codec, server->codec, sizeof task->codec - 1);
    if (server->indices.len > 0) {
        redo_indices(server);
        task->has_indices = true;
        task->indices = ref_to(&server->indices);
    }
}

static void instruct(struct fake_server *server, tern_CheckinReply *reply, uint32_t held)
{
    const bool done = server->evaluate ? held >= server->target : server->version >= server->target;
    if (done) {
        reply->finished = true;
        reply->final_model_hash.size = TERN_SHA256_SIZE;
        tern_sha256(server->weights, sizeof server->weights, reply->final_model_hash.bytes);
        if (server->final_model) {
            make_final(server, reply);
            reply->final_model = ref_to(&server->snapshot);
        }
    } else if (server->no_task || (server->evaluate && held >= server->version)) {
        reply->come_back_ms = server->come_back_ms;
    } else {
        give_task(server, reply, held);
    }
    if (server->adapt != NULL) {
        server->adapt(server, reply);
    }
}

// --- Requests

static void report_error(const char *name, uint8_t *reply, size_t size, size_t *len)
{
    tern_Error error = tern_Error_init_zero;
    strncpy(error.name, name, sizeof error.name - 1);
    strncpy(error.sentence, "Said by the test.", sizeof error.sentence - 1);
    assert_int_equal(tern_wire_encode_error(&error, reply, size, len), TERN_OK);
}

static int answer_enroll(struct fake_server *server, const struct tern_request *request,
                         uint8_t *reply, size_t size, size_t *len)
{
    tern_EnrollRequest message;
    tern_EnrollReply answer = tern_EnrollReply_init_zero;
    assert_null(request->token);
    assert_int_equal(tern_wire_decode_enroll_request(request->body, request->body_len, &message),
                     TERN_OK);
    if (strcmp(message.join_code, "join-me") != 0) {
        report_error("unauthorized", reply, size, len);
        return 401;
    }
    answer.client_id = 3;
    strncpy(answer.token, TOKEN, sizeof answer.token - 1);
    answer.has_model = true;
    answer.model.seed = server->seed;
    strncpy(answer.model.spec, "test:608", sizeof answer.model.spec - 1);
    answer.model.hash.size = TERN_SHA256_SIZE;
    memcpy(answer.model.hash.bytes, server->model->hash, TERN_SHA256_SIZE);
    answer.model.manifest = (uint32_t)server->manifest.len;
    assert_int_equal(tern_wire_encode_enroll_reply(&answer, reply, size, len), TERN_OK);
    return 200;
}

static const struct fake_download *find_download(const struct fake_server *server,
                                                 const uint8_t *sha256)
{
    for (uint32_t v = 0; v < server->version; v++) {
        if (memcmp(server->downloads[v].sha256, sha256, TERN_SHA256_SIZE) == 0) {
            return &server->downloads[v];
        }
    }
    if (server->manifest.len > 0 &&
        memcmp(server->manifest.sha256, sha256, TERN_SHA256_SIZE) == 0) {
        return &server->manifest;
    }
    if (memcmp(server->indices.sha256, sha256, TERN_SHA256_SIZE) == 0) {
        return &server->indices;
    }
    if (memcmp(server->scaling.sha256, sha256, TERN_SHA256_SIZE) == 0) {
        return &server->scaling;
    }
    return memcmp(server->snapshot.sha256, sha256, TERN_SHA256_SIZE) == 0 ? &server->snapshot
                                                                          : NULL;
}

// Where it is set up to and the client takes as many bytes: the task's downloads instead of their
// names.
static struct tern_span take_inline(const struct fake_server *server, tern_Task *task, uint8_t *dst)
{
    size_t len = 0;
    for (pb_size_t i = 0; i < task->downloads_count; i++) {
        len += task->downloads[i].size;
    }
    if (!server->inlines || server->snapshots ||
        len + TERN_WIRE_OVERHEAD > server->last_checkin.inline_kib * 1024u) {
        return (struct tern_span){dst, 0};
    }
    uint8_t *at = dst;
    for (pb_size_t i = 0; i < task->downloads_count; i++) {
        const struct fake_download *download =
            find_download(server, task->downloads[i].sha256.bytes);
        memcpy(at, download->blob, download->len);
        at += download->len;
        task->downloads[i].sha256.size = 0;
    }
    return (struct tern_span){dst, len};
}

// What goes before tasks where columns are scaled by shared statistics.
static bool ask_for_columns(const struct fake_server *server, tern_CheckinReply *answer)
{
    const struct fake_download *scaling = &server->scaling;
    answer->statistics = server->statistics;
    answer->has_scaling =
        scaling->len > 0 && server->last_checkin.scaling != tern_scaling_tag(scaling->sha256);
    if (answer->has_scaling) {
        answer->scaling.sha256.size = TERN_SHA256_SIZE;
        memcpy(answer->scaling.sha256.bytes, scaling->sha256, TERN_SHA256_SIZE);
        answer->scaling.size = (uint32_t)scaling->len;
    }
    answer->come_back_ms = 60000;
    return answer->has_scaling || answer->statistics != tern_StatisticsState_STATISTICS_NONE;
}

static int answer_checkin(struct fake_server *server, const struct tern_request *request,
                          uint8_t *reply, size_t size, size_t *len)
{
    tern_CheckinReply answer = tern_CheckinReply_init_zero;
    assert_int_equal(
        tern_wire_decode_checkin_request(request->body, request->body_len, &server->last_checkin),
        TERN_OK);
    server->checkins++;
    if (server->checkin_status != 0) {
        report_error(server->checkin_status == 401   ? "unauthorized"
                     : server->checkin_status == 422 ? "unknown"
                                                     : "busy",
                     reply, size, len);
        return server->checkin_status;
    }
    answer.other_column_names = server->other_column_names;
    if (server->last_checkin.has_evaluation) {
        server->evaluations[server->evaluation_count++] = server->last_checkin.evaluation;
    }
    if (!ask_for_columns(server, &answer)) {
        instruct(server, &answer, version_of(server, server->last_checkin.replica.bytes));
    }
    static uint8_t downloads[WORLD_BLOB];
    const struct tern_span inline_ones = take_inline(server, &answer.task, downloads);
    assert_int_equal(tern_wire_encode_checkin_reply(&answer, inline_ones, reply, size, len),
                     TERN_OK);
    return 200;
}

static int answer_download(struct fake_server *server, const struct tern_request *request,
                           uint8_t *reply, size_t size, size_t *len)
{
    uint8_t sha256[TERN_SHA256_SIZE];
    assert_int_equal(tern_path_parse_download(request->path, sha256), TERN_OK);
    const struct fake_download *download = find_download(server, sha256);
    if (download == NULL) {
        report_error("not-found", reply, size, len);
        return 404;
    }
    assert_true(request->range_from < download->len);
    *len = download->len - request->range_from;
    assert_true(*len <= size);
    memcpy(reply, download->blob + request->range_from, *len);
    return request->range_from > 0 ? 206 : 200;
}

static int report_updated(struct fake_server *server, tern_UpdateStatus status, uint8_t *reply,
                          size_t size, size_t *len)
{
    tern_UpdateReply answer = tern_UpdateReply_init_zero;
    answer.status = status;
    if (server->next_in_reply) {
        answer.has_next = true;
        instruct(server, &answer.next, version_of(server, server->last_update.base.bytes));
    }
    assert_int_equal(tern_wire_encode_update_reply(&answer, reply, size, len), TERN_OK);
    return 200;
}

// Puts the indices back into an update that came without.
static struct tern_span join(const struct fake_server *server, struct tern_span container)
{
    static uint8_t joined[WORLD_BLOB];
    tern_Download message;
    struct tern_span indices;
    struct tern_span whole = {joined, 0};
    assert_int_equal(
        tern_wire_decode_download(server->indices.blob, server->indices.len, &message, &indices),
        TERN_OK);
    assert_int_equal(tern_sparse_join(server->model, indices.data, indices.len, container.data,
                                      container.len, joined, sizeof joined, &whole.len),
                     TERN_OK);
    return whole;
}

static void accept_update(struct fake_server *server, uint32_t round, uint32_t sequence,
                          const struct tern_request *request, struct tern_span container)
{
    float change[WORLD_VALUES];
    struct fake_accepted *accepted = &server->accepted[server->accepted_count++];
    accepted->round = round;
    accepted->sequence = sequence;
    tern_sha256(request->body, request->body_len, accepted->sha256);
    if (server->last_update.masked) {
        server->take_masked(server, round, container);
        return;
    }
    assert_int_equal(tern_container_accumulate(server->model, container.data, container.len, 1.0f,
                                               server->applied),
                     TERN_OK);
    assert_int_equal(tern_container_decode(server->model, container.data, container.len, change),
                     TERN_OK);
    fake_server_commit(server, change);
}

static int refuse(int status, const char *name, uint8_t *reply, size_t size, size_t *len)
{
    report_error(name, reply, size, len);
    return status;
}

static int repeated(struct fake_server *server, const struct fake_accepted *accepted,
                    const struct tern_request *request, uint8_t *reply, size_t size, size_t *len)
{
    uint8_t sha256[TERN_SHA256_SIZE];
    tern_sha256(request->body, request->body_len, sha256);
    if (memcmp(sha256, accepted->sha256, TERN_SHA256_SIZE) != 0) {
        return refuse(409, "conflict", reply, size, len);
    }
    return report_updated(server, tern_UpdateStatus_UPDATE_DUPLICATE, reply, size, len);
}

static int decide(struct fake_server *server, enum fault fault, uint8_t *reply, size_t size,
                  size_t *len)
{
    static const float other[WORLD_VALUES] = {0.5f, -0.25f};
    switch (fault) {
    case FAULT_LATE:
    case FAULT_LATE_LOST_REPLY:
        fake_server_commit(server, other);
        return refuse(410, "late", reply, size, len);
    case FAULT_REJECT:
        return refuse(422, "norm-limit", reply, size, len);
    case FAULT_CONFLICT:
        return refuse(409, "conflict", reply, size, len);
    case FAULT_BUSY:
        return refuse(503, "busy", reply, size, len);
    case FAULT_UNAUTHORIZED:
        return refuse(401, "unauthorized", reply, size, len);
    case FAULT_PROXY_PAGE:
        memcpy(reply, "<html>gone</html>", 17);
        *len = 17;
        return 410;
    case FAULT_NONE:
    case FAULT_LOSE_REQUEST:
    case FAULT_LOSE_REPLY:
    case FAULT_BAD_REPLY:
        break;
    }
    return 0;
}

static int answer_update(struct fake_server *server, const struct tern_request *request,
                         uint8_t *reply, size_t size, size_t *len, enum fault *fault)
{
    uint32_t round = 0;
    uint32_t sequence = 0;
    struct tern_span container;
    assert_int_equal(tern_path_parse_update(request->path, &round, &sequence), TERN_OK);
    *fault = server->faults[round];
    server->faults[round] = FAULT_NONE;
    if (*fault == FAULT_LOSE_REQUEST) {
        return 0;
    }
    server->puts++;
    assert_int_equal(
        tern_wire_decode_update(request->body, request->body_len, &server->last_update, &container),
        TERN_OK);
    server->strips = server->last_update.shared_indices;
    if (server->strips) {
        container = join(server, container);
    }
    for (size_t i = 0; i < server->accepted_count; i++) {
        if (server->accepted[i].round == round && server->accepted[i].sequence == sequence) {
            return repeated(server, &server->accepted[i], request, reply, size, len);
        }
    }
    if (round <= server->version) {
        return refuse(410, "late", reply, size, len);
    }
    const int refused = decide(server, *fault, reply, size, len);
    if (refused != 0) {
        return refused;
    }
    accept_update(server, round, sequence, request, container);
    return report_updated(server, tern_UpdateStatus_UPDATE_ACCEPTED, reply, size, len);
}

// --- Updates that were cut

static int answer_question(struct fake_server *server, const struct tern_request *request,
                           uint8_t *reply, size_t size, size_t *len)
{
    const struct fake_unfinished *unfinished = &server->unfinished;
    tern_UpdateReply answer = tern_UpdateReply_init_zero;
    uint32_t round = 0;
    uint32_t sequence = 0;
    assert_int_equal(tern_path_parse_update(request->path, &round, &sequence), TERN_OK);
    server->asked++;
    if (server->asked_status != 0) {
        return refuse(server->asked_status, server->asked_status == 503 ? "busy" : "http", reply,
                      size, len);
    }
    answer.sha256.size = TERN_SHA256_SIZE;
    if (unfinished->len > 0 && strcmp(unfinished->path, request->path) == 0) {
        answer.status = tern_UpdateStatus_UPDATE_UNFINISHED;
        answer.received = (uint32_t)unfinished->len;
        tern_sha256(unfinished->data, unfinished->len, answer.sha256.bytes);
    }
    for (size_t i = 0; i < server->accepted_count; i++) {
        if (server->accepted[i].round == round && server->accepted[i].sequence == sequence) {
            answer.status = tern_UpdateStatus_UPDATE_DUPLICATE;
            memcpy(answer.sha256.bytes, server->accepted[i].sha256, TERN_SHA256_SIZE);
        }
    }
    if (answer.status == tern_UpdateStatus_UPDATE_UNKNOWN) {
        return refuse(404, "not-found", reply, size, len);
    }
    assert_int_equal(tern_wire_encode_update_reply(&answer, reply, size, len), TERN_OK);
    return 200;
}

// Puts what comes behind what came before. False: the rest of it did not arrive.
static bool take_body(struct fake_server *server, const struct tern_request *request)
{
    struct fake_unfinished *unfinished = &server->unfinished;
    const bool cut = server->cut_upload_at > 0 && server->cut_upload_at < request->body_len;
    const size_t comes = cut ? server->cut_upload_at : request->body_len;
    server->cut_upload_at = cut ? 0 : server->cut_upload_at;
    server->upload_bytes += comes;
    assert_true(request->range_from + request->body_len <= sizeof unfinished->data);
    strcpy(unfinished->path, request->path);
    memcpy(unfinished->data + request->range_from, request->body, comes);
    unfinished->len = request->range_from + comes;
    return !cut;
}

static bool goes_on(const struct fake_server *server, const struct tern_request *request)
{
    return request->range_from == 0 || (request->range_from == server->unfinished.len &&
                                        strcmp(request->path, server->unfinished.path) == 0);
}

static int answer_put(struct fake_server *server, const struct tern_request *request,
                      uint8_t *reply, size_t size, size_t *len, enum fault *fault)
{
    if (!goes_on(server, request)) {
        *len = 0;
        return 416;
    }
    if (!take_body(server, request)) {
        *fault = FAULT_LOSE_REQUEST;
        return 0;
    }
    struct tern_request whole = *request;
    whole.body = server->unfinished.data;
    whole.body_len = server->unfinished.len;
    server->unfinished.len = 0;
    return answer_update(server, &whole, reply, size, len, fault);
}

static int answer_statistics(struct fake_server *server, const struct tern_request *request,
                             uint8_t *reply, size_t size, size_t *len)
{
    tern_UpdateReply answer = tern_UpdateReply_init_zero;
    assert_string_equal(request->method, "PUT");
    assert_true(request->body_len <= sizeof server->told);
    memcpy(server->told, request->body, request->body_len);
    server->told_len = request->body_len;
    server->told_times++;
    if (server->told_status != 0) {
        return refuse(server->told_status, "model-mismatch", reply, size, len);
    }
    server->statistics = tern_StatisticsState_STATISTICS_AWAITED;
    answer.status = tern_UpdateStatus_UPDATE_ACCEPTED;
    assert_int_equal(tern_wire_encode_update_reply(&answer, reply, size, len), TERN_OK);
    return 200;
}

bool fake_server_answer(struct fake_server *server, const struct tern_request *request,
                        uint8_t *reply, size_t reply_size, size_t *reply_len, int *status,
                        uint32_t *retry_after)
{
    enum fault fault = FAULT_NONE;
    *retry_after = 0;
    if (strcmp(request->path, TERN_PATH_ENROLL) == 0) {
        *status = answer_enroll(server, request, reply, reply_size, reply_len);
        return true;
    }
    assert_string_equal(request->token, TOKEN);
    if (strcmp(request->path, TERN_PATH_CHECKIN) == 0) {
        *status = answer_checkin(server, request, reply, reply_size, reply_len);
    } else if (strcmp(request->path, TERN_PATH_STATISTICS) == 0) {
        *status = answer_statistics(server, request, reply, reply_size, reply_len);
    } else if (strcmp(request->method, "GET") == 0 && request->purpose == TERN_PURPOSE_UPLOAD) {
        *status = answer_question(server, request, reply, reply_size, reply_len);
    } else if (strcmp(request->method, "GET") == 0) {
        *status = answer_download(server, request, reply, reply_size, reply_len);
    } else {
        assert_string_equal(request->method, "PUT");
        *status = answer_put(server, request, reply, reply_size, reply_len, &fault);
    }
    if (*status == 503) {
        *retry_after = 30;
    } else if (*status == 422) {
        *retry_after = server->refused_wait_s;
    }
    if (fault == FAULT_BAD_REPLY) {
        memset(reply, 0xff, 8);
        *reply_len = 8;
    }
    return fault != FAULT_LOSE_REQUEST && fault != FAULT_LOSE_REPLY &&
           fault != FAULT_LATE_LOST_REPLY;
}
