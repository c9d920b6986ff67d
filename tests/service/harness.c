#include "harness.h"

#include "hosted/log.h"

#include "tensor/manifest.h"
#include "tests/asserts.h"
#include "tests/postgres/place.h"
#include "util/bytes.h"
#include "util/prng.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_uint_least64_t clock_ms = 1700000000000u;

static atomic_uint_least64_t steady_ms = 5000;

static uint64_t test_monotonic(void)
{
    return atomic_load(&steady_ms);
}

uint64_t test_now(void)
{
    return atomic_load(&clock_ms);
}

void test_advance(uint64_t ms)
{
    atomic_fetch_add(&clock_ms, ms);
    atomic_fetch_add(&steady_ms, ms);
}

void test_set_back(uint64_t ms)
{
    atomic_fetch_sub(&clock_ms, ms);
}

void test_set_forth(uint64_t ms)
{
    atomic_fetch_add(&clock_ms, ms);
}

// --- A listener that is a function call

struct tern_http_exchange {
    struct tern_http_request request;
    char path[256];
    char authorization[64];
    uint8_t *body;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool done;
    void (*on_reply)(void);
    struct answer answer;
    struct tern_http_unfinished unfinished;
    void *context;
};

bool tern_http_exchange_unfinished(const struct tern_http_exchange *exchange, uint64_t owner,
                                   struct tern_http_unfinished *unfinished)
{
    assert_true(owner > 0);
    *unfinished = exchange->unfinished;
    return unfinished->len > 0;
}

const struct tern_http_request *
tern_http_exchange_request(const struct tern_http_exchange *exchange)
{
    return &exchange->request;
}

void *tern_http_exchange_context(struct tern_http_exchange *exchange)
{
    void *context = exchange->context;
    exchange->context = NULL;
    return context;
}

void tern_http_exchange_evict_body(const struct tern_http_exchange *exchange)
{
    (void)exchange;
}

void tern_http_exchange_tag(struct tern_http_exchange *exchange, const struct tern_http_tag *tag)
{
    exchange->answer.tag = *tag;
}

void tern_http_reply(struct tern_http_exchange *exchange, const struct tern_http_reply *reply)
{
    if (exchange->on_reply != NULL) {
        exchange->on_reply();
    }
    pthread_mutex_lock(&exchange->lock);
    exchange->answer.status = reply->status;
    exchange->answer.retry_after_s = reply->retry_after_s;
    exchange->answer.body_from = reply->body_from;
    exchange->answer.cache = reply->cache;
    exchange->answer.body = reply->body;
    exchange->done = true;
    pthread_cond_signal(&exchange->wake);
    pthread_mutex_unlock(&exchange->lock);
}

void answer_free(struct answer *answer)
{
    tern_blob_release(answer->body);
    answer->body = NULL;
}

void answer_expect_at(struct answer answer, int expected, const char *file, int line)
{
    _assert_int_equal((uintmax_t)answer.status, (uintmax_t)expected, file, line);
    answer_free(&answer);
}

struct tern_http_exchange *call_begin(struct harness *harness, const char *method, const char *path,
                                      const char *token, const uint8_t *body, size_t len)
{
    struct tern_http_exchange *exchange = calloc(1, sizeof *exchange);
    assert_non_null(exchange);
    exchange->on_reply = harness->on_reply;
    pthread_mutex_init(&exchange->lock, NULL);
    pthread_cond_init(&exchange->wake, NULL);
    snprintf(exchange->path, sizeof exchange->path, "%s", path);
    if (token != NULL) {
        snprintf(exchange->authorization, sizeof exchange->authorization, "Bearer %s", token);
    }
    exchange->body = malloc(len + 1);
    assert_non_null(exchange->body);
    if (len > 0) {
        memcpy(exchange->body, body, len);
    }
    exchange->request = (struct tern_http_request){.id = ++harness->request_id,
                                                   .method = method,
                                                   .path = exchange->path,
                                                   .authorization = exchange->authorization,
                                                   .host = "localhost",
                                                   .certificate = "",
                                                   .peer = "192.0.2.1",
                                                   .peer_is_cache = harness->peer_is_cache,
                                                   .range_from = harness->range_from,
                                                   .body = exchange->body,
                                                   .body_len = len};
    struct tern_http_permit permit = {.body_limit = UINT32_MAX};
    int refused =
        harness->handler.on_headers(harness->handler.ctx, &exchange->request, len, &permit);
    refused = refused == 0 && len > permit.body_limit ? 413 : refused; // as the listener does
    exchange->unfinished = harness->unfinished;
    exchange->context = permit.context;
    if (refused != 0) {
        if (permit.context != NULL) {
            harness->handler.on_dropped(harness->handler.ctx, permit.context);
        }
        exchange->answer.status = refused;
        exchange->done = true;
        return exchange;
    }
    harness->handler.on_request(harness->handler.ctx, exchange);
    return exchange;
}

bool call_is_done(struct tern_http_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    bool done = exchange->done;
    pthread_mutex_unlock(&exchange->lock);
    return done;
}

struct answer call_end(struct tern_http_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    while (!exchange->done) {
        pthread_cond_wait(&exchange->wake, &exchange->lock);
    }
    pthread_mutex_unlock(&exchange->lock);
    struct answer answer = exchange->answer;
    pthread_mutex_destroy(&exchange->lock);
    pthread_cond_destroy(&exchange->wake);
    free(exchange->body);
    free(exchange);
    return answer;
}

struct answer call(struct harness *harness, const char *method, const char *path, const char *token,
                   const uint8_t *body, size_t len)
{
    return call_end(call_begin(harness, method, path, token, body, len));
}

// --- Life

static void make_folder(struct harness *harness)
{
    memset(harness, 0, sizeof *harness);
    const char *temporary = getenv("TMPDIR");
    snprintf(harness->folder, sizeof harness->folder, "%s/tern-service-XXXXXX",
             temporary != NULL ? temporary : "/tmp");
    assert_non_null(mkdtemp(harness->folder));
    test_store_place(harness->folder, "tern.db", harness->path, sizeof harness->path);
}

static void open_and_configure(struct harness *harness);

void harness_make(struct harness *harness)
{
    harness_make_model(harness, MODEL);
}

void harness_make_model(struct harness *harness, const char *spec)
{
    char why[256];
    struct tern_db_federation federation = {.seed = 7};
    snprintf(federation.model_spec, sizeof federation.model_spec, "%s", spec);
    make_folder(harness);
    assert_int_equal(tern_model_from_spec(&harness->model, spec), TERN_OK);
    memcpy(federation.model_hash, harness->model.hash, TERN_SHA256_SIZE);
    assert_int_equal(tern_db_create(harness->path, &federation, NULL, 0, NULL, why), TERN_OK);
    open_and_configure(harness);
}

void harness_make_imported(struct harness *harness, const uint8_t *manifest, size_t len,
                           const float *weights)
{
    char why[256];
    struct tern_db_federation federation = {
        .model_spec = "tensors:test", .seed = 7, .manifest = manifest, .manifest_len = len};
    make_folder(harness);
    assert_int_equal(tern_model_from_manifest(&harness->model, manifest, len), TERN_OK);
    memcpy(federation.model_hash, harness->model.hash, TERN_SHA256_SIZE);
    assert_int_equal(
        tern_db_create(harness->path, &federation, weights, harness->model.count, NULL, why),
        TERN_OK);
    open_and_configure(harness);
}

static void open_and_configure(struct harness *harness)
{
    char why[256];
    assert_int_equal(tern_db_open(harness->path, 0, &harness->db, why), TERN_OK);
    struct tern_db_code code = {
        .evaluator = true, .uses_left = 10000, .expires_ms = UINT64_MAX / 4};
    tern_sha256(JOIN_CODE, strlen(JOIN_CODE), code.hash);
    assert_int_equal(tern_db_begin(harness->db), TERN_OK);
    assert_int_equal(tern_db_code_add(harness->db, &code), TERN_OK);
    assert_int_equal(tern_db_commit(harness->db), TERN_OK);

    struct tern_service_config *config = &harness->config;
    config->federation.round = (struct tern_round_policy){
        .cohort = 2, .deadline_ms = 60000, .come_back_min_ms = 1000, .come_back_max_ms = 3600000};
    config->federation.min_clients = 2;
    config->federation.train =
        (struct tern_training_settings){.batch_size = 8, .rate = {.first = 0.1F}};
    config->federation.steps =
        (struct tern_steps_settings){.local_steps = 5, .min_steps = 1, .max_steps = 50};
    config->federation.codec_up = (struct tern_codec){.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    config->federation.downloads.codec = config->federation.codec_up;
    config->federation.strategy = &tern_strategy_fedavg;
    config->federation.server_learning_rate = 1.0F;
    config->federation.downloads.download_cache = 1 << 20;
    config->federation.downloads.keep_versions = 100;
    config->federation.downloads.inline_values = TERN_CATCHUP_INLINE_VALUES;
    config->federation.limits =
        (struct tern_federation_limits){.clients = 1000, .num_examples = 1000000, .norm = 1e6};
    config->limits = (struct tern_service_limits){.queue = 256, .long_poll_ms = 30000};
    config->now_ms = test_now;
    config->monotonic_ms = test_monotonic;
    tern_log_set_level(TERN_LOG_ERROR);
}

void harness_start(struct harness *harness)
{
    char why[256] = "";
    if (harness->db == NULL) {
        assert_int_equal(tern_db_open(harness->path, 0, &harness->db, why), TERN_OK);
    }
    enum tern_result result =
        tern_service_start(&harness->config, harness->db, &harness->service, why);
    if (result != TERN_OK) {
        fail_msg("%s", why);
    }
    harness->handler = tern_service_handler(harness->service);
}

void harness_start_with(struct harness *harness, uint32_t count)
{
    harness_start(harness);
    for (uint32_t i = 0; i < count; i++) {
        enroll(harness, false);
    }
}

void harness_stop(struct harness *harness)
{
    tern_service_quiesce(harness->service);
    tern_service_stop(harness->service);
    tern_db_close(harness->db);
    harness->service = NULL;
    harness->db = NULL;
}

void harness_restart(struct harness *harness)
{
    harness_stop(harness);
    harness_start(harness);
}

struct tern_db *harness_look(const struct harness *harness)
{
    struct tern_db *db = NULL;
    char why[256];
    assert_int_equal(tern_db_open(harness->path, TERN_DB_SECOND, &db, why), TERN_OK);
    return db;
}

void harness_free(struct harness *harness)
{
    char command[256];
    if (harness->service != NULL) {
        harness_stop(harness);
    }
    if (harness->db != NULL) {
        tern_db_close(harness->db);
    }
    snprintf(command, sizeof command, "rm -rf %s", harness->folder);
    assert_int_equal(system(command), 0);
}

// A request makes the service try at once; by itself it tries every second.
void harness_await_store(struct harness *harness)
{
    char why[256];
    while (!tern_service_can_store(harness->service, why)) {
        struct answer answer =
            call(harness, "GET", TERN_PATH_UPDATES "1/1", harness->tokens[1], NULL, 0);
        answer_free(&answer);
    }
}

// --- What clients do

uint64_t enroll(struct harness *harness, bool evaluator)
{
    tern_EnrollRequest request = tern_EnrollRequest_init_zero;
    tern_EnrollReply reply;
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    strcpy(request.join_code, JOIN_CODE);
    strcpy(request.name, "test");
    request.evaluator = evaluator;
    assert_int_equal(tern_wire_encode_enroll_request(&request, body, sizeof body, &len), TERN_OK);
    struct answer answer = call(harness, "POST", TERN_PATH_ENROLL, NULL, body, len);
    assert_int_equal(answer.status, 200);
    assert_int_equal(tern_wire_decode_enroll_reply(answer.body->data, answer.body->len, &reply),
                     TERN_OK);
    assert_true(reply.client_id <= MAX_TEST_CLIENTS);
    strcpy(harness->tokens[reply.client_id], reply.token);
    answer_free(&answer);
    return reply.client_id;
}

tern_CheckinRequest request_from(const uint8_t *replica)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    if (replica != NULL) {
        request.replica.size = TERN_WIRE_REPLICA_BYTES;
        memcpy(request.replica.bytes, replica, TERN_WIRE_REPLICA_BYTES);
    }
    return request;
}

static size_t encode_request(const tern_CheckinRequest *request, uint8_t *body)
{
    size_t len = 0;
    assert_int_equal(tern_wire_encode_checkin_request(request, body, TERN_WIRE_MESSAGE_MAX, &len),
                     TERN_OK);
    return len;
}

size_t encode_checkin(const uint8_t *replica, uint32_t wait_ms, uint8_t *body)
{
    tern_CheckinRequest request = request_from(replica);
    request.wait_ms = wait_ms;
    return encode_request(&request, body);
}

struct answer put_checkin(struct harness *harness, uint64_t client,
                          const tern_CheckinRequest *request)
{
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = encode_request(request, body);
    return call(harness, "POST", TERN_PATH_CHECKIN, harness->tokens[client], body, len);
}

tern_CheckinReply checkin_with(struct harness *harness, uint64_t client,
                               const tern_CheckinRequest *request)
{
    tern_CheckinReply reply;
    struct answer answer = put_checkin(harness, client, request);
    assert_int_equal(answer.status, 200);
    assert_int_equal(tern_wire_decode_checkin_reply(answer.body->data, answer.body->len, &reply,
                                                    &(struct tern_span){0}),
                     TERN_OK);
    answer_free(&answer);
    return reply;
}

tern_CheckinReply checkin(struct harness *harness, uint64_t client, const uint8_t *replica)
{
    tern_CheckinRequest request = request_from(replica);
    return checkin_with(harness, client, &request);
}

size_t encode_update(struct harness *harness, const tern_Task *task, float value,
                     uint32_t num_examples, uint8_t **body)
{
    const struct tern_model *model = &harness->model;
    float *values = malloc(model->count * sizeof(float));
    assert_non_null(values);
    for (uint32_t i = 0; i < model->count; i++) {
        values[i] = value;
    }
    if (!harness->thaws) {
        tern_model_freeze(model, values);
    }
    size_t len = encode_values(harness, task, values, num_examples, body);
    free(values);
    return len;
}

size_t encode_values(struct harness *harness, const tern_Task *task, float *values,
                     uint32_t num_examples, uint8_t **body)
{
    const struct tern_model *model = &harness->model;
    struct tern_codec codec;
    assert_int_equal(tern_codec_parse(task->codec, &codec, NULL), TERN_OK);
    size_t bound = tern_container_bound(&codec, model);
    uint8_t *container = malloc(bound);
    *body = malloc(bound + TERN_WIRE_OVERHEAD);
    assert_non_null(container);
    assert_non_null(*body);
    size_t container_len = 0;
    assert_int_equal(
        tern_container_encode(&codec, NULL, model, values, container, bound, &container_len),
        TERN_OK);
    tern_Update update = tern_Update_init_zero;
    update.base.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(update.base.bytes, task->base.bytes, TERN_WIRE_REPLICA_BYTES);
    update.num_examples = num_examples;
    update.local_steps = task->local_steps;
    update.loss = 1.0F;
    update.train_ms = 100;
    size_t len = 0;
    assert_int_equal(tern_wire_encode_update(&update, (struct tern_span){container, container_len},
                                             *body, bound + TERN_WIRE_OVERHEAD, &len),
                     TERN_OK);
    free(container);
    return len;
}

bool whole_id(struct tern_db *db, const uint8_t *name, uint8_t id[TERN_SHA256_SIZE])
{
    const enum tern_result found = tern_db_replica_id(db, name, TERN_WIRE_REPLICA_BYTES, id);
    assert_true(found == TERN_OK || found == TERN_ERR_NOT_FOUND);
    return found == TERN_OK;
}

struct answer put_update(struct harness *harness, uint64_t client, uint32_t round,
                         uint32_t sequence, const uint8_t *body, size_t len)
{
    char path[TERN_PATH_MAX];
    tern_path_update(round, sequence, path);
    return call(harness, "PUT", path, harness->tokens[client], body, len);
}

int put_drawn(struct harness *harness, uint64_t client, const tern_Task *task)
{
    struct tern_prng rng;
    uint8_t *body;
    float *values = malloc(harness->model.count * sizeof *values);
    assert_non_null(values);
    tern_prng_init(&rng, 1, TERN_PRNG_TEST, (uint32_t)client, 0);
    for (uint32_t i = 0; i < harness->model.count; i++) {
        values[i] = ldexpf(tern_prng_float(&rng) - 0.5F, -3 * (int)client);
    }
    const size_t len =
        encode_values(harness, task, values, 10 + (uint32_t)(client * client) * 37, &body);
    struct answer answer = put_update(harness, client, task->round, 1, body, len);
    const int status = answer.status;
    answer_free(&answer);
    free(body);
    free(values);
    return status;
}

tern_UpdateReply do_round(struct harness *harness, uint64_t client, const uint8_t *replica,
                          float value)
{
    tern_UpdateReply reply;
    uint8_t *body;
    tern_CheckinReply next = checkin(harness, client, replica);
    assert_true(next.has_task);
    size_t len = encode_update(harness, &next.task, value, 10, &body);
    struct answer answer = put_update(harness, client, next.task.round, 1, body, len);
    assert_int_equal(answer.status, 200);
    assert_int_equal(tern_wire_decode_update_reply(answer.body->data, answer.body->len, &reply),
                     TERN_OK);
    answer_free(&answer);
    free(body);
    return reply;
}

void apply_downloads(struct harness *harness, const tern_Task *task, float *weights,
                     uint8_t replica[TERN_SHA256_SIZE], const char *token)
{
    for (pb_size_t i = 0; i < task->downloads_count; i++) {
        char path[TERN_PATH_MAX];
        uint8_t sha256[TERN_SHA256_SIZE];
        tern_Download download;
        struct tern_span container;
        tern_path_download(task->downloads[i].sha256.bytes, path);
        struct answer answer = call(harness, "GET", path, token, NULL, 0);
        assert_int_equal(answer.status, 200);
        assert_int_equal(answer.body->len, task->downloads[i].size);
        tern_sha256(answer.body->data, answer.body->len, sha256);
        assert_memory_equal(sha256, task->downloads[i].sha256.bytes, TERN_SHA256_SIZE);
        assert_int_equal(
            tern_wire_decode_download(answer.body->data, answer.body->len, &download, &container),
            TERN_OK);
        if (download.kind == tern_DownloadKind_DOWNLOAD_SNAPSHOT) {
            memset(weights, 0, harness->model.count * sizeof weights[0]);
            memcpy(replica, download.to.bytes, TERN_SHA256_SIZE);
        } else {
            uint8_t seed[TERN_SHA256_SIZE];
            tern_replica_from_seed(harness->model.hash, 7, seed);
            if (memcmp(download.from.bytes, seed, TERN_WIRE_REPLICA_BYTES) == 0) {
                seed_replica(harness, replica, weights);
            }
            assert_memory_equal(download.from.bytes, replica, TERN_WIRE_REPLICA_BYTES);
            tern_replica_step(replica, sha256, replica);
        }
        assert_int_equal(tern_container_accumulate(&harness->model, container.data, container.len,
                                                   1.0F, weights),
                         TERN_OK);
        answer_free(&answer);
    }
    assert_memory_equal(replica, task->base.bytes, TERN_WIRE_REPLICA_BYTES);
}

void seed_replica(struct harness *harness, uint8_t replica[TERN_SHA256_SIZE], float *weights)
{
    tern_model_init_weights(&harness->model, 7, weights);
    tern_replica_from_seed(harness->model.hash, 7, replica);
}

enum tern_result answer_error_name(const struct answer *answer)
{
    tern_Error error;
    if (answer->body == NULL ||
        tern_wire_decode_error(answer->body->data, answer->body->len, &error) != TERN_OK) {
        return TERN_OK;
    }
    return tern_result_from_name(error.name);
}

// --- The store as one number

struct digest {
    struct tern_sha256 sha256;
    struct tern_db *db;
};

#define DIGEST(field) tern_sha256_update(&digest->sha256, &(field), sizeof(field))

static enum tern_result digest_update(void *ctx, const struct tern_db_update *row)
{
    struct digest *digest = ctx;
    DIGEST(row->client);
    DIGEST(row->sequence);
    DIGEST(row->sha256);
    return TERN_OK;
}

static void digest_round(struct digest *digest, const struct tern_db_round *row)
{
    DIGEST(row->round);
    DIGEST(row->state);
    DIGEST(row->applied);
    DIGEST(row->deadline_ms);
    struct tern_db_assignment assignment;
    struct tern_db_rows *rows = tern_db_assignments(digest->db, row->round);
    while (tern_db_next(rows, &assignment)) {
        DIGEST(assignment.client);
        DIGEST(assignment.state);
        DIGEST(assignment.local_steps);
    }
    assert_int_equal(tern_db_end(rows), TERN_OK);
    assert_int_equal(tern_db_update_each(digest->db, row->round, digest_update, digest), TERN_OK);
}

static void digest_rounds(struct digest *digest)
{
    struct tern_db_round row;
    struct tern_db_rows *rows = tern_db_rounds(digest->db);
    while (tern_db_next(rows, &row)) {
        digest_round(digest, &row);
    }
    assert_int_equal(tern_db_end(rows), TERN_OK);
}

static void digest_versions(struct digest *digest)
{
    struct tern_db_version row;
    for (uint32_t i = 0; tern_db_version_get(digest->db, i, &row) == TERN_OK; i++) {
        DIGEST(row.version);
        DIGEST(row.model_sha256);
        DIGEST(row.replica);
    }
}

static void digest_ledgers(struct digest *digest)
{
    struct tern_db_ledger row;
    struct tern_db_rows *rows = tern_db_ledgers_after(digest->db, 0);
    while (tern_db_next(rows, &row)) {
        DIGEST(row.client);
        DIGEST(row.sequence);
        DIGEST(row.round);
    }
    assert_int_equal(tern_db_end(rows), TERN_OK);
}

static void digest_clients(struct digest *digest)
{
    struct tern_db_client row;
    struct tern_db_rows *rows = tern_db_clients(digest->db);
    while (tern_db_next(rows, &row)) {
        DIGEST(row.id);
        DIGEST(row.revoked);
        DIGEST(row.token_hash);
    }
    assert_int_equal(tern_db_end(rows), TERN_OK);
}

void store_digest(struct harness *harness, uint8_t out[TERN_SHA256_SIZE])
{
    struct digest digest;
    char why[256];
    assert_int_equal(tern_db_open(harness->path, 0, &digest.db, why), TERN_OK);
    tern_sha256_init(&digest.sha256);
    digest_rounds(&digest);
    digest_versions(&digest);
    digest_ledgers(&digest);
    digest_clients(&digest);
    tern_sha256_final(&digest.sha256, out);
    tern_db_close(digest.db);
}
