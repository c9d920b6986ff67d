#include "nodes/follower.h"

#include "downloads/blobs.h"
#include "hosted/log.h"
#include "merge/part.h"
#include "service/caches.h"
#include "store/nodes.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

// How long an answer may take beyond the time that a check-in is held; more than a new leader needs to take over.
#define PATIENCE_MS 15000

// Interval of handing metered bytes over, and of expiring requests.
#define FLUSH_MS 500

// Interval of looks for answers, in case a notice was lost.
#define LOOK_MS 1000

#define BUCKETS 4096u // by number; a power of two

#define METER_ROWS 1024u // meter rows in one relayed row

// --- The sum of a round (merge/part.h)
//
// Sums the updates that this aggregator has checked and the leader has counted without their values. It only saves time: the
// leader reads other updates from the store. Only the follower's thread uses the sum.

struct node_sum {
    const struct tern_model *model;
    uint64_t memory; // bytes
    struct tern_part part;
    uint32_t refused; // round that is not summed here
};

struct tern_follower {
    struct tern_service *service;
    uint32_t node;
    struct tern_db *out; // for requests; members from here to wake belong to the service thread
    atomic_uint_least64_t number; // the last one given to a request; the follower's thread reads it
    uint64_t flushed_ms;          // by tern_service_monotonic()
    bool is_refused;              // the last transaction failed

    int wake; // eventfd that wakes the follower's thread
    atomic_bool stopping;
    pthread_t thread;
    struct tern_db *in; // for answers and notices; members from here to lock belong to that thread
    struct tern_blob_cache cache; // downloads
    atomic_uint_least64_t lost; // requests up to this number may have been lost with the connection
    bool is_answered;           // an answer was announced since the last look
    bool has_enrolled;
    bool has_changed_clients;
    bool was_cut;          // the connection was lost and made again
    uint32_t wanted_round; // round whose part the leader wants; 0 = none
    struct node_sum sum;

    pthread_mutex_t lock;
    struct request *pending[BUCKETS]; // requests without an answer, by relay_number
    pthread_mutex_t clients_lock;
    uint64_t clients; // largest client id that was loaded
};

// --- Summing

static enum tern_result begin_sum(struct node_sum *sum, struct tern_db *db, uint32_t round)
{
    struct tern_db_round row;
    struct tern_part_round of;
    TERN_TRY(tern_db_round_get(db, round, &row));
    TERN_TRY(row.state == TERN_ROUND_OPEN ? TERN_OK : TERN_ERR_STATE); // answered after its close
    TERN_TRY(tern_part_round_of(db, &row, &of));
    return tern_part_begin(&sum->part, sum->model, &of, sum->memory);
}

static enum tern_result add_to_sum(struct node_sum *sum, struct tern_db *db,
                                   const struct tern_incoming_update *update)
{
    struct tern_arrival arrival = {.client = update->client,
                                   .round = update->round,
                                   .contribution = tern_contribution_of(&update->message),
                                   .container = update->container,
                                   .reading = update->reading,
                                   .sum_square = update->sum_square};
    memcpy(arrival.sha256, update->sha256, TERN_SHA256_SIZE);
    if (sum->part.round.round != update->round) {
        TERN_TRY(begin_sum(sum, db, update->round));
    }
    return tern_part_add(&sum->part, &arrival, update->body.len);
}

static void sum_update(struct node_sum *sum, struct tern_db *db,
                       const struct tern_incoming_update *update)
{
    if (update->round == sum->refused) {
        return;
    }
    const enum tern_result result = add_to_sum(sum, db, update);
    if (result != TERN_OK) {
        sum->refused = update->round;
    }
    if (result != TERN_OK && result != TERN_ERR_STATE) {
        tern_log(TERN_LOG_WARN, "part-failed", "round=%" PRIu32 " error=%s", update->round,
                 tern_result_name(result));
    }
}

static enum tern_result notify_leader(struct tern_db *db, uint32_t node, uint32_t round)
{
    char message[64];
    snprintf(message, sizeof message, TERN_NOTICE_SUMMED "%" PRIu32 " %" PRIu32, round, node);
    TERN_TRY(tern_db_begin_apart(db, false));
    return tern_db_conclude(db, tern_db_notify(db, message));
}

// Delivers the part of that round if there is one, forgets it, and notifies the leader.
static void deliver_sum(struct node_sum *sum, struct tern_db *db, uint32_t node, uint32_t round)
{
    char name[TERN_DB_NODE_MAX];
    const uint32_t updates = sum->part.count;
    bool delivered = false;
    enum tern_result result = TERN_OK;
    snprintf(name, sizeof name, "%" PRIx32, node);
    if (sum->part.round.round == round) {
        result = tern_part_deliver(&sum->part, db, name, &delivered);
        tern_part_clear(&sum->part);
    }
    if (result == TERN_OK) {
        result = notify_leader(db, node, round);
    }
    if (result != TERN_OK) { // the leader waits a moment longer and reads the updates
        tern_log(TERN_LOG_WARN, "part-failed", "round=%" PRIu32 " error=%s detail=%s", round,
                 tern_result_name(result), TERN_LOG_TEXT(tern_db_error(db)));
    } else if (delivered) {
        tern_log(TERN_LOG_INFO, "part-delivered", "round=%" PRIu32 " node=%s updates=%" PRIu32,
                 round, name, updates);
    }
}

// --- Requests that wait

static void remember(struct tern_follower *follower, struct request *request)
{
    pthread_mutex_lock(&follower->lock);
    struct request **bucket = &follower->pending[request->relay_number % BUCKETS];
    request->next = *bucket;
    *bucket = request;
    atomic_fetch_add(&follower->service->relayed, 1);
    pthread_mutex_unlock(&follower->lock);
}

// Removes a waiting request and returns it. NULL: it was answered.
static struct request *recall(struct tern_follower *follower, uint64_t number)
{
    pthread_mutex_lock(&follower->lock);
    struct request **at = &follower->pending[number % BUCKETS];
    while (*at != NULL && (*at)->relay_number != number) {
        at = &(*at)->next;
    }
    struct request *request = *at;
    if (request != NULL) {
        *at = request->next;
        atomic_fetch_sub(&follower->service->relayed, 1);
    }
    pthread_mutex_unlock(&follower->lock);
    return request;
}

// Removes and returns the requests that have timed out, or whose rows or answers may be lost. held: returns all check-ins, too.
static struct request *recall_late(struct tern_follower *follower, uint64_t now_ms, bool held)
{
    const uint64_t lost = atomic_load(&follower->lost);
    struct request *late = NULL;
    pthread_mutex_lock(&follower->lock);
    for (uint32_t i = 0; i < BUCKETS && atomic_load(&follower->service->relayed) > 0; i++) {
        struct request **at = &follower->pending[i];
        while (*at != NULL) {
            struct request *request = *at;
            if (request->held_until_ms > now_ms && request->relay_number > lost &&
                !(held && request->kind == REQUEST_CHECKIN)) {
                at = &request->next;
                continue;
            }
            *at = request->next;
            request->next = late;
            late = request;
            atomic_fetch_sub(&follower->service->relayed, 1);
        }
    }
    pthread_mutex_unlock(&follower->lock);
    return late;
}

static void send_unavailable(struct request *request)
{
    tern_answer_refusal(
        request, 503, TERN_ERR_BUSY,
        "No aggregator is the leader now, or the database cannot be reached. Try again.");
    tern_answer_reconnect(request, true);
    tern_answer_send(request);
}

// --- Clients

static enum tern_result take_clients(struct tern_follower *follower, struct tern_db *db, bool all)
{
    struct tern_service *service = follower->service;
    struct tern_db_client row;
    struct tern_db_rows *rows = tern_db_clients_after(db, all ? 0 : follower->clients, UINT32_MAX);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, tern_gate_set_client(service->gate, row.id, row.token_hash,
                                                     row.name, row.revoked));
        follower->clients = row.id > follower->clients ? row.id : follower->clients;
    }
    TERN_TRY(tern_db_end(rows));
    if (all) {
        TERN_TRY(tern_gate_load_codes(service->gate, db));
    }
    return service->config.psk ? tern_psk_keys_load(&service->psk_keys, db) : TERN_OK;
}

static enum tern_result load_clients(struct tern_follower *follower, struct tern_db *db, bool all)
{
    pthread_mutex_lock(&follower->clients_lock);
    const enum tern_result result = take_clients(follower, db, all);
    pthread_mutex_unlock(&follower->clients_lock);
    return result;
}

static void prove_all(struct tern_follower *follower, struct request *taken)
{
    bool is_loaded = false;
    for (struct request *request = taken; request != NULL; request = request->next) {
        if (request->unauthenticated && !is_loaded) {
            (void)!load_clients(follower, follower->out, false);
            is_loaded = true;
        }
        if (request->unauthenticated) {
            tern_request_authenticate(follower->service, request);
        }
    }
}

// --- Handing over

static void describe_update(const struct tern_incoming_update *update, struct tern_db_relayed *row)
{
    // Only the leader has the indices that a round shares.
    row->checked =
        !update->container_unread && !(update->parsed != TERN_OK && update->message.shared_indices);
    row->parsed = (uint32_t)update->parsed;
    memcpy(row->sha256, update->sha256, TERN_SHA256_SIZE);
}

static enum tern_result relay(struct tern_follower *follower, const struct request *request)
{
    const struct tern_http_request *http = tern_http_exchange_request(request->exchange);
    struct tern_db_relayed row = {.node = follower->node,
                                  .number = request->relay_number,
                                  .kind = (uint32_t)request->kind,
                                  .client = request->client,
                                  .peer_is_cache = http->peer_is_cache,
                                  .range_from = http->range_from,
                                  .body = {http->body, http->body_len}};
    snprintf(row.path, sizeof row.path, "%s", http->path);
    snprintf(row.peer, sizeof row.peer, "%s", http->peer);
    snprintf(row.certificate, sizeof row.certificate, "%s", http->certificate);
    memcpy(row.address, http->address.bytes, sizeof http->address.bytes);
    if (request->kind == REQUEST_UPDATE) {
        describe_update(&request->u.update, &row);
    } else if (request->kind == REQUEST_AUTHORIZE) {
        row.request_bytes = request->u.download.request_bytes;
    }
    return tern_db_relay(follower->out, &row);
}

struct metered {
    struct tern_follower *follower;
    uint8_t *bytes; // METER_ROWS of them
    size_t len;
};

static enum tern_result relay_metered(struct metered *metered)
{
    struct tern_db_relayed row = {.node = metered->follower->node,
                                  .number = ++metered->follower->number,
                                  .kind = TERN_DB_RELAYED_METER,
                                  .body = {metered->bytes, metered->len}};
    metered->len = 0;
    return tern_db_relay(metered->follower->out, &row);
}

static enum tern_result take_metered(void *ctx, const struct tern_db_meter *row)
{
    struct metered *metered = ctx;
    tern_db_meter_pack(row, metered->bytes + metered->len);
    metered->len += TERN_DB_METER_PACKED;
    return metered->len == (size_t)METER_ROWS * TERN_DB_METER_PACKED ? relay_metered(metered)
                                                                     : TERN_OK;
}

static enum tern_result hand_over_metered(struct tern_follower *follower)
{
    struct metered metered = {.follower = follower,
                              .bytes = malloc((size_t)METER_ROWS * TERN_DB_METER_PACKED)};
    enum tern_result result = metered.bytes != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
    if (result == TERN_OK) {
        result = tern_metering_flush_to(follower->service->metering, take_metered, &metered);
    }
    if (result == TERN_OK && metered.len > 0) {
        result = relay_metered(&metered);
    }
    free(metered.bytes);
    return result;
}

static void note_result(struct tern_follower *follower, enum tern_result result)
{
    struct tern_service *service = follower->service;
    if (result != TERN_OK) {
        tern_service_snapshot_failed(service, follower->out, result);
        if (!follower->is_refused) {
            tern_log(TERN_LOG_ERROR, "relay-failed", "error=%s detail=%s", tern_result_name(result),
                     TERN_LOG_TEXT(tern_db_error(follower->out)));
        }
    } else {
        tern_service_snapshot_stored(service);
    }
    follower->is_refused = result != TERN_OK;
}

// Sets the request's number and deadline before its row is stored, because the answer may come right after.
static void expect_answer(struct tern_follower *follower, struct request *request, uint64_t now_ms)
{
    const uint64_t limit = follower->service->config.limits.long_poll_ms;
    uint64_t wait = 0;
    if (request->kind == REQUEST_CHECKIN && request->parsed == TERN_OK) {
        wait = request->u.checkin.wait_ms < limit ? request->u.checkin.wait_ms : limit;
    }
    request->relay_number = ++follower->number;
    request->held_until_ms = now_ms + wait + PATIENCE_MS;
}

static void relay_all(struct tern_follower *follower, struct request **requests, uint32_t count,
                      bool flush)
{
    const uint64_t now_ms = tern_service_monotonic(follower->service);
    const uint64_t first = follower->number + 1;
    for (uint32_t i = 0; i < count; i++) {
        expect_answer(follower, requests[i], now_ms);
    }
    // Rows are written before remember(), because another thread may free a remembered request. Metered bytes are dropped
    // here once they are handed over. A client sends a lost request again.
    enum tern_result result = tern_db_begin_apart(follower->out, flush);
    const uint64_t before = follower->number;
    for (uint32_t i = 0; i < count && result == TERN_OK; i++) {
        result = relay(follower, requests[i]);
    }
    if (result == TERN_OK && flush) {
        result = hand_over_metered(follower);
    }
    const bool any = count > 0 || follower->number > before;
    if (result == TERN_OK && any) {
        result = tern_db_notify(follower->out, TERN_NOTICE_RELAYED);
    }
    for (uint32_t i = 0; i < count; i++) {
        remember(follower, requests[i]);
    }
    result = tern_db_conclude(follower->out, result);
    note_result(follower, result);
    for (uint64_t number = first; number < first + count && result != TERN_OK; number++) {
        struct request *request = recall(follower, number);
        if (request != NULL) {
            send_unavailable(request);
        }
    }
    if (flush) {
        tern_metering_end_flush(follower->service->metering, result == TERN_OK);
    }
}

// Answers a request that needs no leader, or that no leader can answer. False: relay it.
static bool answer_here(struct tern_follower *follower, struct request *request)
{
    if (request->kind == REQUEST_JOB) {
        tern_answer_refusal(request, 503, TERN_ERR_STATE,
                            "This aggregator is a follower. Send the request to the leader, which "
                            "`tern-aggregator status` names.");
    } else if (request->unauthenticated) {
        atomic_fetch_add(&follower->service->unauthorized, 1);
        tern_answer_error(request, 401, TERN_ERR_UNAUTHORIZED);
    } else if (request->kind == REQUEST_PROGRESS && request->u.progress.kept) {
        tern_answer_unfinished(request);
    } else if (request->kind == REQUEST_CHECKIN && follower->service->quiescing) {
        send_unavailable(request);
        return true;
    } else {
        return false;
    }
    tern_answer_send(request);
    return true;
}

#define TURN_MAX 256u

static bool flush_is_due(const struct tern_follower *follower)
{
    return follower->service->quiescing ||
           tern_service_monotonic(follower->service) >= follower->flushed_ms + FLUSH_MS;
}

void tern_follower_turn(struct tern_follower *follower, struct request *taken)
{
    struct request *requests[TURN_MAX];
    uint32_t count = 0;
    const bool flush = flush_is_due(follower);
    prove_all(follower, taken);
    while (taken != NULL) {
        struct request *request = taken;
        taken = taken->next;
        if (!answer_here(follower, request)) {
            requests[count++] = request;
        }
        if (count == TURN_MAX) {
            relay_all(follower, requests, count, false);
            count = 0;
        }
    }
    if (count > 0 || flush) {
        relay_all(follower, requests, count, flush);
    }
    if (flush) {
        follower->flushed_ms = tern_service_monotonic(follower->service);
        tern_follower_expire(follower);
    }
}

uint64_t tern_follower_idle_ms(const struct tern_follower *follower)
{
    const uint64_t now_ms = tern_service_monotonic(follower->service);
    const uint64_t due_ms = follower->flushed_ms + FLUSH_MS;
    return due_ms > now_ms ? due_ms - now_ms : 0;
}

// --- Requests without an answer

static enum tern_result take_back(struct tern_follower *follower, const struct request *late)
{
    bool dropped;
    TERN_TRY(tern_db_begin_apart(follower->out, true));
    enum tern_result result = TERN_OK;
    for (; late != NULL && result == TERN_OK; late = late->next) {
        result = tern_db_relayed_drop(follower->out, follower->node, late->relay_number, &dropped);
    }
    return tern_db_conclude(follower->out, result);
}

static void give_up(struct tern_follower *follower, uint64_t now_ms, bool held)
{
    struct request *late = recall_late(follower, now_ms, held);
    if (late == NULL) {
        return;
    }
    // The next leader decides a row that stays, like a request whose client hung up.
    (void)!take_back(follower, late);
    for (struct request *next; late != NULL; late = next) {
        next = late->next;
        send_unavailable(late);
    }
}

void tern_follower_expire(struct tern_follower *follower)
{
    give_up(follower, tern_service_monotonic(follower->service), follower->service->quiescing);
}

// --- Answers

static enum tern_result read_pieces(struct tern_follower *follower,
                                    const struct tern_db_download *row, struct tern_blob **blob)
{
    const struct tern_catchup_config *config = &follower->service->config.federation.downloads;
    struct tern_new_blob fresh;
    TERN_TRY(tern_new_blob_begin(&fresh, config->spool_folder, row->size));
    const struct tern_download_sink sink = tern_new_blob_sink(&fresh);
    enum tern_result result = tern_db_download_stream(follower->in, row, sink.take, sink.ctx);
    if (result == TERN_OK) {
        result = tern_new_blob_end(&fresh, blob);
    }
    tern_new_blob_drop(&fresh);
    return result;
}

static enum tern_result read_download(struct tern_follower *follower,
                                      const struct tern_db_answer *answer, struct tern_blob **blob)
{
    struct tern_download_facts facts = {.shared = answer->shared};
    struct tern_db_download row;
    *blob = tern_blob_cache_get(&follower->cache, answer->sha256, &facts);
    if (*blob != NULL) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_download_get(follower->in, answer->sha256, &row, NULL, 0));
    TERN_TRY(read_pieces(follower, &row, blob));
    facts.size = row.size;
    facts.payload = row.payload;
    tern_blob_cache_put(&follower->cache, answer->sha256, *blob, &facts);
    return TERN_OK;
}

static enum tern_result read_body(struct tern_follower *follower,
                                  const struct tern_db_answer *answer, struct tern_blob **blob)
{
    if (answer->named) {
        return read_download(follower, answer, blob);
    }
    if (answer->body.len == 0) {
        return TERN_OK;
    }
    *blob = tern_blob_new(answer->body.len);
    if (*blob == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    memcpy((*blob)->data, answer->body.data, answer->body.len);
    return TERN_OK;
}

static void answer_as(struct request *request, const struct tern_db_answer *answer,
                      struct tern_blob *body)
{
    request->reply = (struct tern_http_reply){
        .status = (int)answer->status,
        .retry_after_s = answer->retry_after_s,
        .body = body,
        .body_from = answer->body_from < SIZE_MAX ? (size_t)answer->body_from : SIZE_MAX,
        .cache = answer->cached ? tern_cache_control(answer->shared) : NULL};
    request->tag.client = answer->client;
    request->tag.round = answer->round;
    request->tag.payload_down = answer->payload_down;
    request->tag.cache_receives = answer->cache_receives;
    request->tag.cache_sends = answer->cache_sends;
    request->answered = true;
}

static void deliver(struct tern_follower *follower, const struct tern_db_answer *answer)
{
    struct tern_blob *body = NULL;
    struct request *request = recall(follower, answer->number);
    if (request == NULL) { // it has expired
        return;
    }
    const enum tern_result result = read_body(follower, answer, &body);
    if (result != TERN_OK) { // the named download may have been dropped
        tern_answer_unavailable(request);
    } else {
        answer_as(request, answer, body);
        if (answer->sums && request->kind == REQUEST_UPDATE) {
            sum_update(&follower->sum, follower->in, &request->u.update);
        }
    }
    tern_answer_send(request);
}

static enum tern_result take_answers(struct tern_follower *follower)
{
    struct tern_db_answer answer;
    struct tern_db_rows *rows = tern_db_answers_take(follower->in, follower->node);
    while (tern_db_next(rows, &answer)) {
        deliver(follower, &answer);
    }
    return tern_db_end(rows);
}

static void hear(void *ctx, const char *message)
{
    struct tern_follower *follower = ctx;
    const size_t len = sizeof TERN_NOTICE_ANSWERED - 1;
    const bool missed = message[0] == '\0';
    follower->was_cut |= missed;
    follower->has_changed_clients |= missed || strcmp(message, TERN_NOTICE_CLIENTS) == 0;
    if (strncmp(message, TERN_NOTICE_SUM, sizeof TERN_NOTICE_SUM - 1) == 0) {
        follower->wanted_round = (uint32_t)strtoul(message + sizeof TERN_NOTICE_SUM - 1, NULL, 10);
    }
    follower->has_enrolled |= strcmp(message, TERN_NOTICE_ENROLLED) == 0;
    follower->is_answered |= missed || (strncmp(message, TERN_NOTICE_ANSWERED, len) == 0 &&
                                        strtoul(message + len, NULL, 10) == follower->node);
}

static enum tern_result follow_once(struct tern_follower *follower, uint64_t *looked_ms)
{
    TERN_TRY(tern_db_wait_notices(follower->in, follower->wake, LOOK_MS, hear, follower));
    const uint64_t now_ms = tern_service_monotonic(follower->service);
    if (follower->has_changed_clients || follower->has_enrolled) {
        TERN_TRY(load_clients(follower, follower->in, follower->has_changed_clients));
        follower->has_changed_clients = false;
        follower->has_enrolled = false;
    }
    if (follower->is_answered || now_ms >= *looked_ms + LOOK_MS) {
        follower->is_answered = false;
        *looked_ms = now_ms;
        TERN_TRY(take_answers(follower));
    }
    // PostgreSQL may have crashed. A crash undoes the newest rows, which are handed over without waiting for the disk. And an
    // answer is lost if the result of the statement that deleted it did not arrive.
    if (follower->was_cut) {
        follower->was_cut = false;
        atomic_store(&follower->lost, atomic_load(&follower->number));
    }
    if (follower->wanted_round != 0) {
        TERN_TRY(take_answers(follower)); // they may add updates to the part
        deliver_sum(&follower->sum, follower->in, follower->node, follower->wanted_round);
        follower->wanted_round = 0;
    }
    return TERN_OK;
}

static void *run(void *arg)
{
    struct tern_follower *follower = arg;
    uint64_t looked_ms = 0;
    while (!atomic_load(&follower->stopping)) {
        if (follow_once(follower, &looked_ms) != TERN_OK) {
            follower->is_answered = true;
            nanosleep(&(struct timespec){.tv_nsec = 100000000L}, NULL);
        }
    }
    return NULL;
}

// --- Life

static void follower_free(struct tern_follower *follower)
{
    if (follower->wake >= 0) {
        close(follower->wake);
    }
    tern_blob_cache_clear(&follower->cache);
    tern_part_clear(&follower->sum.part);
    tern_db_close(follower->in);
    tern_db_close(follower->out);
    pthread_mutex_destroy(&follower->lock);
    pthread_mutex_destroy(&follower->clients_lock);
    free(follower);
}

static enum tern_result begin(struct tern_follower *follower, const char *path, char why[256])
{
    TERN_TRY(tern_db_open(path, TERN_DB_HURRIED, &follower->out, why));
    TERN_TRY(tern_db_open(path, TERN_DB_HURRIED, &follower->in, why));
    enum tern_result result = tern_db_subscribe(follower->in, follower->node);
    if (result == TERN_OK) {
        result = load_clients(follower, follower->in, true);
    }
    if (result == TERN_OK) { // checks the connection before there are requests
        result = tern_db_wait_notices(follower->in, -1, 0, hear, follower);
        follower->was_cut = false;
    }
    if (result != TERN_OK) {
        snprintf(why, 256, "%s", tern_db_error(follower->in));
        return result;
    }
    follower->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return follower->wake >= 0 && pthread_create(&follower->thread, NULL, run, follower) == 0
               ? TERN_OK
               : TERN_ERR_NO_MEMORY;
}

enum tern_result tern_follower_start(struct tern_service *service, struct tern_follower **out,
                                     char why[256])
{
    struct tern_follower *follower = calloc(1, sizeof *follower);
    if (follower == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    follower->service = service;
    follower->node = service->config.node;
    follower->wake = -1;
    follower->flushed_ms = tern_service_monotonic(service);
    follower->cache.bytes_max = service->config.federation.downloads.download_cache;
    follower->sum.model = tern_federation_model(service->federation);
    follower->sum.memory = service->config.federation.strategy_memory != 0
                               ? service->config.federation.strategy_memory
                               : TERN_MERGE_MEMORY;
    pthread_mutex_init(&follower->lock, NULL);
    pthread_mutex_init(&follower->clients_lock, NULL);
    const enum tern_result result = begin(follower, tern_db_path(service->db), why);
    if (result != TERN_OK) {
        follower_free(follower);
        return result;
    }
    *out = follower;
    return TERN_OK;
}

void tern_follower_stop(struct tern_follower *follower)
{
    atomic_store(&follower->stopping, true);
    (void)!write(follower->wake, &(uint64_t){1}, sizeof(uint64_t));
    pthread_join(follower->thread, NULL);
    give_up(follower, UINT64_MAX, true);
    follower_free(follower);
}
