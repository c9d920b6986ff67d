#include "client/harness/world.h"

#include "core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/manifest.h"
#include "tests/asserts.h"

#define STEPS_MAX 20000

// --- Store

// The share of the old buffer that a directive leaves.
static float share_kept(const struct world *world, tern_ErrorDirective directive)
{
    double old = 0;
    double change = 0;
    for (int i = 0; i < WORLD_VALUES; i++) {
        old += (double)world->store.saved_buffer[i] * (double)world->store.saved_buffer[i];
        change += (double)world->change[i] * (double)world->change[i];
    }
    const double most = 0.5 * (double)(float)sqrt(change);
    const double norm = (double)(float)sqrt(old);
    switch (directive) {
    case tern_ErrorDirective_ERROR_DECAY:
        return 0.5f;
    case tern_ErrorDirective_ERROR_RESET:
        return 0;
    case tern_ErrorDirective_ERROR_LIMIT:
        return norm > most ? (float)(most / norm) : 1;
    case tern_ErrorDirective_ERROR_KEEP:
    case tern_ErrorDirective_ERROR_STEP_AHEAD:
        break;
    }
    return 1;
}

// Follows what conservation speaks of: the first upload record saved after a training holds its
// change, in a pending update or in the error buffer; a directive may have thrown part of the old
// buffer away before.
static void note_upload(struct world *world)
{
    struct fake_store *store = &world->store;
    const struct tern_client *client = &world->client;
    const bool encodes = client->phase == TERN_PHASE_ENCODE;
    if (encodes && store->changes_saved < world->trainings) {
        store->changes_saved = world->trainings;
        const float share = share_kept(world, client->task.error_directive);
        float change[WORLD_VALUES];
        memcpy(change, world->change, sizeof change);
        if (TERN_SECURE && client->task.has_secure) {
            tern_secure_weigh(client, change);
        }
        for (int i = 0; i < WORLD_VALUES; i++) {
            const float old = store->saved_buffer[i];
            store->encoded[i] += change[i] - (old - share * old);
        }
    }
    tern_error_storage_get(client->work.error_storage, client->work.error_buffer, 0,
                           store->saved_buffer, world->model.coded);
}

// The buffer that note_upload() looks at is the one that the record holds.
static void check_upload(const struct world *world, const struct fake_record *record)
{
    const struct tern_client_workspace *work = &world->client.work;
    const size_t len = tern_error_storage_bytes(work->error_storage, world->model.coded);
    const size_t velocity = world->client.has_velocity ? world->model.count * sizeof(float) : 0;
    uint32_t first = 0;
    const size_t local = tern_client_is_personal(&world->client)
                             ? tern_model_local(&world->model, &first) * sizeof(float)
                             : 0;
    assert_true(record->len > len + velocity + local);
    assert_memory_equal(record->data + record->len - local - velocity - len, work->error_buffer,
                        len);
}

static void put_record(struct world *world, enum tern_record number,
                       const struct tern_store_part *parts, size_t count)
{
    struct fake_record *record = &world->store.records[number];
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        len += parts[i].len;
    }
    free(record->data);
    record->data = malloc(len);
    assert_non_null(record->data);
    record->len = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len > 0) {
            memcpy(record->data + record->len, parts[i].data, parts[i].len);
        }
        record->len += parts[i].len;
    }
    record->saved = true;
    record->damaged = false;
    if (number == TERN_RECORD_UPLOAD) {
        check_upload(world, record);
        note_upload(world);
    }
}

static enum tern_result save(void *ctx, enum tern_record number,
                             const struct tern_store_part *parts, size_t count)
{
    struct world *world = ctx;
    struct fake_store *store = &world->store;
    if (world->power_off) {
        return TERN_ERR_IO;
    }
    if (store->full) {
        return TERN_ERR_NO_SPACE;
    }
    store->writes++;
    const bool cut = store->writes == store->cut_at;
    if (!cut || store->cut_after) {
        put_record(world, number, parts, count);
    }
    world->power_off = world->power_off || cut;
    return cut ? TERN_ERR_IO : TERN_OK;
}

static enum tern_result load(void *ctx, enum tern_record number, size_t offset, void *dst,
                             size_t len, size_t *record_len)
{
    const struct world *world = ctx;
    const struct fake_record *record = &world->store.records[number];
    if (!record->saved) {
        return TERN_ERR_NOT_FOUND;
    }
    if (record->damaged || offset > record->len || len > record->len - offset) {
        return TERN_ERR_CORRUPT;
    }
    memcpy(dst, record->data + offset, len);
    *record_len = record->len;
    return TERN_OK;
}

static void drop(void *ctx)
{
    struct world *world = ctx;
    free(world->store.draft.data);
    world->store.draft = (struct fake_record){0};
}

static enum tern_result begin(void *ctx, enum tern_record number, size_t front)
{
    struct world *world = ctx;
    struct fake_store *store = &world->store;
    drop(world);
    if (world->power_off) {
        return TERN_ERR_IO;
    }
    if (store->full) {
        return TERN_ERR_NO_SPACE;
    }
    store->drafts++;
    store->draft_of = number;
    store->draft_front = front;
    store->draft.data = calloc(1, front);
    assert_non_null(store->draft.data);
    store->draft.len = front;
    return TERN_OK;
}

// What was appended moves, as what view() pointed at is not to be used any more.
static enum tern_result append(void *ctx, const void *data, size_t len)
{
    struct world *world = ctx;
    struct fake_store *store = &world->store;
    struct fake_record *draft = &store->draft;
    if (world->power_off || draft->data == NULL) {
        return TERN_ERR_IO;
    }
    if (store->full || (store->full_from != 0 && draft->len + len > store->full_from)) {
        drop(world);
        return TERN_ERR_NO_SPACE;
    }
    uint8_t *grown = malloc(draft->len + len);
    assert_non_null(grown);
    memcpy(grown, draft->data, draft->len);
    if (len > 0) {
        memcpy(grown + draft->len, data, len);
    }
    free(draft->data);
    draft->data = grown;
    draft->len += len;
    return TERN_OK;
}

static enum tern_result finish(void *ctx, const void *front)
{
    struct world *world = ctx;
    struct fake_store *store = &world->store;
    assert_non_null(store->draft.data);
    memcpy(store->draft.data, front, store->draft_front);
    const struct tern_store_part part = {store->draft.data, store->draft.len};
    const enum tern_result result = save(world, store->draft_of, &part, 1);
    drop(world);
    return result;
}

static enum tern_result view(void *ctx, enum tern_record number, size_t offset, size_t len,
                             const uint8_t **data)
{
    struct world *world = ctx;
    struct fake_store *store = &world->store;
    const bool is_draft = store->draft.data != NULL && store->draft_of == number;
    const struct fake_record *record = is_draft ? &store->draft : &store->records[number];
    if (offset > record->len || len > record->len - offset) {
        return TERN_ERR_CORRUPT;
    }
    *data = record->data + offset;
    return TERN_OK;
}

void world_save_at_once(struct world *world)
{
    struct tern_store *store = &world->config.ports.store;
    store->begin = NULL;
    store->append = NULL;
    store->finish = NULL;
    store->drop = NULL;
    store->view = NULL;
}

void world_damage_record(struct world *world, enum tern_record number)
{
    world->store.records[number].damaged = true;
}

// --- Transport

static void count_wire(struct world *world, const struct tern_request *request, size_t down)
{
    struct tern_bytes *bytes = world->uncollected.bytes[request->purpose];
    bytes[TERN_UP].wire += request->body_len + world->wire_per_exchange / 2;
    bytes[TERN_DOWN].wire += down + world->wire_per_exchange / 2;
}

// A transport that does not block is called again with the very same request.
static bool says_again(struct world *world, const struct tern_request *request)
{
    if (!world->report_again) {
        return false;
    }
    if (!world->again_said) {
        world->again_request = *request;
        world->again_said = true;
        return true;
    }
    assert_memory_equal(&world->again_request, request, sizeof *request);
    world->again_said = false;
    return false;
}

// In pieces of uneven sizes.
static enum tern_result hand_over(const struct tern_response *response, const uint8_t *reply,
                                  size_t len)
{
    for (size_t piece = 1; len > 0; piece += 96) {
        const size_t n = len < piece ? len : piece;
        TERN_TRY(response->take(response->take_ctx, reply, n));
        reply += n;
        len -= n;
    }
    return TERN_OK;
}

static enum tern_result deliver(struct world *world, const struct tern_request *request,
                                struct tern_response *response, const uint8_t *reply, size_t len)
{
    const bool download = request->purpose == TERN_PURPOSE_DOWNLOAD && response->status < 300;
    const bool cut = download && world->cut_download_at < len;
    const size_t comes = cut ? world->cut_download_at : len;
    world->cut_download_at = cut ? SIZE_MAX : world->cut_download_at;
    if (response->take != NULL && response->status < 300) {
        TERN_TRY(hand_over(response, reply, comes));
        return cut ? TERN_ERR_NETWORK : TERN_OK;
    }
    if (cut) {
        memcpy(response->body, reply, comes);
        response->body_len = comes;
        return TERN_ERR_NETWORK;
    }
    if (len > response->body_size) {
        return TERN_ERR_TOO_LARGE;
    }
    memcpy(response->body, reply, len);
    response->body_len = len;
    return TERN_OK;
}

// Returns how many bytes of a body move before the client ends the request.
static size_t move_body(struct world *world, const struct tern_request *request,
                        enum tern_direction direction, size_t len, bool *ends)
{
    const size_t scale = world->watch_scale > 0 ? world->watch_scale : 1;
    for (size_t done = 0;; done += WORLD_PIECE) {
        const size_t moved = done < len ? done : len;
        world->watches++;
        if (world->watches == world->cancel_at) {
            tern_client_cancel(&world->client);
        }
        world->may_work = world->may_work && world->watches != world->forbid_at;
        *ends = !request->watch(request->watch_ctx, direction, moved * scale, len * scale);
        if (*ends || moved == len) {
            return moved;
        }
    }
}

static bool is_update(const struct tern_request *request)
{
    return request->purpose == TERN_PURPOSE_UPLOAD && request->body_len > 0;
}

static enum tern_result exchange(void *ctx, const struct tern_request *request,
                                 struct tern_response *response)
{
    struct world *world = ctx;
    static uint8_t reply[WORLD_BLOB];
    size_t len = 0;
    world->exchanges_off += world->power_off ? 1 : 0;
    if (says_again(world, request)) {
        return TERN_AGAIN;
    }
    world->exchanges++;
    world->last_timeout_ms = request->timeout_ms;
    response->status = 0;
    response->body_len = 0;
    if (world->down || world->power_off) {
        return TERN_ERR_NETWORK;
    }
    struct tern_request seen = *request;
    if (request->purpose == TERN_PURPOSE_DOWNLOAD) {
        world->last_range = request->range_from;
        seen.range_from = world->ignore_range ? 0 : request->range_from;
    }
    bool ends = false;
    const size_t sent = move_body(world, request, TERN_UP, request->body_len, &ends);
    if (ends && sent < request->body_len) {
        if (!is_update(request) || sent == 0) {
            return TERN_ERR_CANCELLED;
        }
        world->server.cut_upload_at = sent;
    }
    const bool arrives = fake_server_answer(&world->server, &seen, reply, sizeof reply, &len,
                                            &response->status, &response->retry_after_s);
    count_wire(world, request, len);
    if (world->exchanges == world->cut_exchange_at) {
        world->power_off = true;
    }
    if (ends || !arrives || world->power_off) {
        response->status = 0;
        return ends ? TERN_ERR_CANCELLED : TERN_ERR_NETWORK;
    }
    const size_t received = move_body(world, request, TERN_DOWN, len, &ends);
    if (ends && request->purpose != TERN_PURPOSE_DOWNLOAD) {
        return TERN_ERR_CANCELLED;
    }
    if (ends) {
        world->cut_download_at = received;
        const enum tern_result cut = deliver(world, request, response, reply, len);
        return cut == TERN_ERR_NETWORK || cut == TERN_OK ? TERN_ERR_CANCELLED : cut;
    }
    const enum tern_result result = deliver(world, request, response, reply, len);
    if (world->damage != NULL) {
        world->damage(world, request, response);
    }
    return result;
}

static void close_connection(void *ctx)
{
    struct world *world = ctx;
    world->uncollected.bytes[TERN_PURPOSE_CHECKIN][TERN_UP].wire += world->wire_per_close;
}

static void collect(void *ctx, struct tern_meter *meter)
{
    struct world *world = ctx;
    tern_meter_add(meter, &world->uncollected);
    world->uncollected = (struct tern_meter){0};
}

// --- Trainer

// Changes are multiples of 1/1024 within [-1, 1], most of them 0.
static void draw_change(struct world *world)
{
    struct tern_prng rng;
    world->trainings++;
    tern_prng_init(&rng, 5, TERN_PRNG_TEST, (uint32_t)world->trainings, 0);
    for (int i = 0; i < WORLD_VALUES; i++) {
        const uint32_t draw = tern_prng_u32(&rng);
        const float value = (float)((int32_t)(draw % 2049) - 1024) / 1024.0f;
        world->change[i] = (draw >> 16) % 4 == 0 ? value : 0.0f;
    }
}

static enum tern_result train_begin(void *ctx, const struct tern_train_task *task,
                                    const float *base, uint32_t count)
{
    struct world *world = ctx;
    assert_int_equal(count, WORLD_VALUES);
    world->train_task = *task;
    if (world->ignores_ahead) {
        memcpy(world->start, base, sizeof world->start);
    } else {
        tern_train_start(task, base, world->start, count);
    }
    world->steps_left = task->local_steps;
    draw_change(world);
    return TERN_OK;
}

static enum tern_result train_step(void *ctx, float **weights, struct tern_train_result *result)
{
    struct world *world = ctx;
    world->now_ms += 10;
    if (--world->steps_left > 0) {
        return TERN_AGAIN;
    }
    if (world->train_diverges) {
        return TERN_ERR_NON_FINITE;
    }
    for (int i = 0; i < WORLD_VALUES; i++) {
        world->trained[i] = world->start[i] + world->change[i];
        // It is dyadic.
        assert_true(world->inexact || world->trained[i] - world->start[i] == world->change[i]);
    }
    *weights = world->trained;
    *result = (struct tern_train_result){
        .num_examples = 100, .local_steps = world->train_task.local_steps, .loss = 0.5f};
    return TERN_OK;
}

static enum tern_result evaluate(void *ctx, const float *weights, uint32_t count,
                                 struct tern_evaluate_result *result)
{
    struct world *world = ctx;
    (void)weights;
    (void)count;
    world->evaluations++;
    *result = (struct tern_evaluate_result){
        .num_examples = 50,
        .loss = 1.0f,
        .accuracy = 0.75f,
        .metric_count = 1,
        .metrics = {{.name = "f1_macro", .value = 0.5f}},
    };
    return world->evaluates_as;
}

// --- Clock and the rest

static uint64_t monotonic_ms(void *ctx)
{
    return ((const struct world *)ctx)->now_ms;
}

static uint64_t unix_seconds(void *ctx)
{
    return ((const struct world *)ctx)->unix_seconds;
}

static enum tern_result fill(void *ctx, void *dst, size_t len)
{
    struct world *world = ctx;
    for (size_t i = 0; i < len; i++) {
        ((uint8_t *)dst)[i] = (uint8_t)(++world->entropy * 37);
    }
    return TERN_OK;
}

static bool may_work(void *ctx, struct tern_conditions *now, const char **why)
{
    const struct world *world = ctx;
    *now = (struct tern_conditions){.metered = true, .power = 1};
    *why = "the test says no";
    return world->may_work;
}

static void on_event(void *ctx, const struct tern_client_event *event)
{
    struct world *world = ctx;
    world->events[world->event_count++ % WORLD_EVENTS] = *event;
}

// --- The world

static void make_model(struct tern_model *model)
{
    const uint32_t large[] = {20, 30};
    const uint32_t small[] = {8};
    memset(model, 0, sizeof *model);
    assert_int_equal(tern_model_add(model, "weight", large, 2, 0.0f), TERN_OK);
    assert_int_equal(tern_model_add(model, "bias", small, 1, 0.0f), TERN_OK);
    assert_int_equal(tern_model_layout(model), TERN_OK);
    assert_int_equal(model->count, WORLD_VALUES);
}

void world_init(struct world *world)
{
    memset(world, 0, sizeof *world);
    make_model(&world->model);
    fake_server_init(&world->server, &world->model);
    world->unix_seconds = 1700000000;
    world->now_ms = 1000;
    world->may_work = true;
    world->cut_download_at = SIZE_MAX;
    world->blob_size = sizeof world->blob;
    world->config = (struct tern_client_config){
        .ports =
            {
                .transport = {world, exchange, close_connection, collect},
                .store = {world, save, load, begin, append, finish, drop, view},
                .clock = {world, monotonic_ms, unix_seconds},
                .entropy = {world, fill},
                .conditions = {world, may_work},
            },
        .name = "test client",
        .platform = "test",
        .on_event = on_event,
        .ctx = world,
    };
}

static bool builds_nothing(void *ctx, const char *spec, const uint8_t *hash)
{
    (void)ctx;
    (void)spec;
    (void)hash;
    return false;
}

void world_bring_model(struct world *world, const struct tern_model *made)
{
    static uint8_t bytes[TERN_MANIFEST_MAX];
    struct fake_download *manifest = &world->server.manifest;
    const size_t len = tern_manifest_encode(made, bytes);
    assert_int_equal(tern_model_from_manifest(&world->model, bytes, len), TERN_OK);
    assert_int_equal(world->model.count, WORLD_VALUES);
    fake_server_init(&world->server, &world->model);
    memcpy(manifest->blob, bytes, len);
    manifest->len = len;
    memcpy(manifest->sha256, world->model.hash, TERN_SHA256_SIZE);
    for (int i = 0; i < WORLD_VALUES; i++) {
        world->server.weights[i] = (float)(i % 5 - 2) / 4.0F;
    }
    memset(world->server.replica_of[0], 0, TERN_SHA256_SIZE); // who holds nothing is at version 0
    const float none[WORLD_VALUES] = {0};
    fake_server_commit(&world->server, none);
    world->server.snapshots = true;
    world->config.builds_model = builds_nothing;
    world->config.takes_manifests = true;
}

void world_free(struct world *world)
{
    for (int i = 0; i < TERN_RECORD_COUNT; i++) {
        free(world->store.records[i].data);
    }
    free(world->store.draft.data);
    free(world->partial.viewed);
}

enum tern_result world_boot(struct world *world)
{
    const struct tern_client_workspace workspace = {
        .model = &world->model,
        .trainer = {world, train_begin, train_step, evaluate},
        .columns = world->columns,
        .weights = world->weights,
        .error_storage = world->error_storage,
        .error_buffer = world->error_buffer,
        .velocity = world->no_velocity ? NULL : world->velocity,
        .anchor = world->no_anchor ? NULL : world->anchor,
        .blob = world->blob,
        .blob_size = world->blob_size,
        .local = world->local,
    };
    world->power_off = false;
    drop(world);
    world->again_said = false;
    memset(&world->client, 0xa5, sizeof world->client);
    memset(world->weights, 0xa5, sizeof world->weights);
    memset(world->error_buffer, 0xa5, sizeof world->error_buffer);
    memset(world->local, 0xa5, sizeof world->local);
    memset(world->velocity, 0xa5, sizeof world->velocity);
    memset(world->anchor, 0xa5, sizeof world->anchor);
    memset(world->blob, 0xa5, sizeof world->blob);
    TERN_TRY(tern_client_init(&world->client, &world->config));
    enum tern_result result = tern_client_identify(&world->client);
    if (result == TERN_ERR_NOT_FOUND) {
        do {
            result = tern_client_enroll(&world->client, "join-me");
        } while (result == TERN_AGAIN);
    }
    TERN_TRY(result);
    return tern_client_restore(&world->client, &workspace);
}

enum tern_result world_run_until(struct world *world, enum tern_client_event_kind kind,
                                 struct tern_client_event *event)
{
    for (int i = 0; i < STEPS_MAX; i++) {
        const size_t before = world->event_count;
        const enum tern_result result = tern_client_step(&world->client);
        for (size_t e = before; e < world->event_count; e++) {
            if (world->events[e % WORLD_EVENTS].kind == kind) {
                if (event != NULL) {
                    *event = world->events[e % WORLD_EVENTS];
                }
                return result;
            }
        }
        if (world->power_off || (result != TERN_OK && result != TERN_AGAIN)) {
            return result;
        }
        if (tern_client_phase(&world->client) == TERN_PHASE_FINISHED) {
            return result;
        }
        world->now_ms += tern_client_next_ms(&world->client);
    }
    fail_msg("the client goes round in circles");
    return TERN_ERR_STATE;
}

void world_buffer(const struct world *world, float values[WORLD_VALUES])
{
    const uint32_t coded = world->model.coded;
    memset(values + coded, 0, (WORLD_VALUES - coded) * sizeof *values);
    tern_error_storage_get(world->client.work.error_storage, world->error_buffer, 0, values, coded);
}

void world_check_conservation(struct world *world)
{
    world_check_conservation_within(world, 0);
}

void world_check_conservation_within(struct world *world, double room)
{
    float buffer[WORLD_VALUES];
    world_buffer(world, buffer);
    const struct tern_client *client = &world->client;
    const struct tern_client_pending *pending = tern_client_pending(client);
    float waiting[WORLD_VALUES] = {0};
    if (pending->len > 0 &&
        !fake_server_accepted(&world->server, pending->round, pending->sequence)) {
        tern_Update message;
        struct tern_span container;
        assert_int_equal(
            tern_wire_decode_update(tern_client_update(client), pending->len, &message, &container),
            TERN_OK);
        assert_int_equal(
            tern_container_decode(&world->model, container.data, container.len, waiting), TERN_OK);
    }
    uint32_t local = 0;
    const uint32_t local_end = tern_model_local(&world->model, &local) + local;
    for (uint32_t i = 0; i < WORLD_VALUES; i++) {
        const bool is_local = i >= local && i < local_end;
        const float kept = is_local && tern_client_is_personal(client)
                               ? world->weights[i] - world->server.weights[i]
                               : 0;
        const float there = world->server.applied[i] + waiting[i] + buffer[i] + kept;
        const double off = (double)there - (double)world->store.encoded[i];
        if (!(off <= room && -off <= room)) {
            fail_msg("value %u: encoded %.10g, but applied %.10g + pending %.10g + buffer %.10g", i,
                     (double)world->store.encoded[i], (double)world->server.applied[i],
                     (double)waiting[i], (double)buffer[i]);
        }
    }
}

void world_check_replica(struct world *world)
{
    const uint32_t version = tern_client_version(&world->client);
    assert_memory_equal(tern_client_replica(&world->client), world->server.replica_of[version],
                        TERN_SHA256_SIZE);
    if (version == world->server.version) {
        uint32_t local = 0;
        const uint32_t count = tern_model_local(&world->model, &local);
        const uint32_t behind = local + count;
        assert_memory_equal(world->weights, world->server.weights,
                            (count > 0 ? local : WORLD_VALUES) * sizeof(float));
        assert_memory_equal(world->weights + behind, world->server.weights + behind,
                            (WORLD_VALUES - behind) * sizeof(float));
    }
}

size_t world_count_events(const struct world *world, enum tern_client_event_kind kind)
{
    size_t count = 0;
    assert_true(world->event_count <= WORLD_EVENTS);
    for (size_t i = 0; i < world->event_count; i++) {
        count += world->events[i].kind == kind;
    }
    return count;
}
