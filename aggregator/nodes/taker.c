// The leader's side: takes the requests of followers into the queue of its service, beside those of its own listener, and
// stores their answers in the transaction that decides them. The service calls it on its thread; a thread with a connection
// of its own waits for requests.
#include "nodes/sharing.h"

#include "merge/part.h"
#include "merge/reading.h"
#include "nodes/follower.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

// Interval of looks for requests, in case a notice was lost.
#define LOOK_MS 1000
// The same while the queue is full.
#define FULL_MS 20
#define SWEEP_MS 30000

#define ROWS_MAX 256u // read at once
#define BYTES_MAX                                                                                  \
    ((uint64_t)128 << 20) // bytes of bodies in the queue; further requests stay in the store

// A request is refused after so many failed transactions: it may be their cause, and delays all others.
#define TRIES_MAX 5u

struct mark {
    uint64_t node;
    uint64_t number; // of the last taken row
};

struct retry {
    uint64_t node;
    uint64_t number;
    uint32_t tries; // failed tries
};

// Nodes that sum updates of a round and have not delivered their parts yet.
struct summing {
    uint32_t round;
    uint32_t count;
    uint64_t nodes[TERN_GATHER_NODES];
};

struct tern_taker {
    struct tern_service *service;
    struct tern_db *db; // members from here to lock belong to the taker's thread
    int wake;           // eventfd: there are retries, or the thread must stop
    atomic_bool stopping;
    atomic_uint_least64_t bytes;
    pthread_t thread;
    struct mark *marks;
    size_t mark_count;
    uint64_t after; // the last node that had no room; 0 = none
    bool has_more;  // requests were announced since the last look

    pthread_mutex_t lock;
    pthread_cond_t summed; // `answers` has grown
    uint32_t wanted_round; // round whose parts to ask for; 0 = none
    uint32_t asked_round;  // the last round that was asked for
    struct timespec until; // end of the wait for its parts; CLOCK_MONOTONIC
    uint64_t answers;      // nodes that have delivered their part, or have none
    uint64_t heard;        // `answers` at the last look for parts
    struct summing summing;
    struct retry *retries; // requests to take once more
    size_t retry_count;
};

// --- A row becomes a request

static struct relayed_request *copy(struct tern_taker *taker, const struct tern_db_relayed *row)
{
    struct relayed_request *relayed = calloc(1, sizeof *relayed + row->body.len);
    if (relayed == NULL) {
        return NULL;
    }
    relayed->node = row->node;
    relayed->number = row->number;
    memcpy(relayed->path, row->path, sizeof relayed->path);
    memcpy(relayed->peer, row->peer, sizeof relayed->peer);
    memcpy(relayed->certificate, row->certificate, sizeof relayed->certificate);
    if (row->body.len > 0) {
        memcpy(relayed->body, row->body.data, row->body.len);
    }
    relayed->http = (struct tern_http_request){.method = "",
                                               .path = relayed->path,
                                               .query = "",
                                               .authorization = "",
                                               .host = "",
                                               .cookie = "",
                                               .origin = "",
                                               .peer = relayed->peer,
                                               .peer_is_cache = row->peer_is_cache,
                                               .certificate = relayed->certificate,
                                               .range_from = row->range_from,
                                               .body = relayed->body,
                                               .body_len = row->body.len};
    memcpy(relayed->http.address.bytes, row->address, sizeof relayed->http.address.bytes);
    relayed->bytes = &taker->bytes;
    atomic_fetch_add(&taker->bytes, row->body.len);
    return relayed;
}

// The node has parsed and hashed the update. Only one that may count is decoded again, because limits depend on its values.
static void take_checked(struct tern_service *service, const struct tern_db_relayed *row,
                         struct request *request)
{
    struct tern_incoming_update *update = &request->u.update;
    const struct tern_http_request *http = &request->relayed->http;
    const bool is_known = row->parsed < TERN_RESULT_COUNT;
    update->client = request->client;
    update->body = (struct tern_span){http->body, http->body_len};
    update->received = (uint32_t)http->body_len;
    update->parsed = is_known ? (enum tern_result)row->parsed : TERN_ERR_CORRUPT;
    memcpy(update->sha256, row->sha256, TERN_SHA256_SIZE);
    const enum tern_result result =
        tern_wire_decode_update(http->body, http->body_len, &update->message, &update->container);
    update->payload = result == TERN_OK ? (uint32_t)update->container.len : 0;
    tern_request_tag_round(service, update->round, &request->tag);
    update->parsed = update->parsed == TERN_OK ? result : update->parsed;
    tern_federation_read_values(service->federation, update);
    update->deferred = update->parsed == TERN_OK && !tern_reading_is_whole(update->reading);
    request->parsed = update->parsed;
}

static void parse(struct tern_service *service, const struct tern_db_relayed *row,
                  struct request *request)
{
    struct relayed_request *relayed = request->relayed;
    if (request->kind == REQUEST_METER) {
        return;
    }
    relayed->over_rate_s =
        tern_request_over_rate(service, &relayed->http, request->client, request->kind);
    request->parsed = tern_request_parse_path(relayed->path, request);
    if (request->parsed != TERN_OK) {
        if (request->kind == REQUEST_UPDATE) {
            request->u.update.parsed = request->parsed;
        }
        return;
    }
    if (request->kind == REQUEST_UPDATE && row->checked) {
        take_checked(service, row, request);
        return;
    }
    request->parsed = tern_request_parse(service, request);
    if (request->kind == REQUEST_AUTHORIZE) {
        request->u.download.request_bytes = row->request_bytes;
    }
}

// False: an aggregator of another version sent a kind that this version does not know.
static bool kind_of(const struct tern_db_relayed *row, enum request_kind *kind)
{
    if (row->kind == TERN_DB_RELAYED_METER) {
        *kind = REQUEST_METER;
        return true;
    }
    *kind = (enum request_kind)row->kind;
    return row->kind < REQUEST_JOB;
}

// Answers the request, so that it changes nothing.
static void refuse(struct request *request, enum tern_result result)
{
    request->kind = REQUEST_SCALING;
    tern_answer_error(request, 503, result);
    request->handled = true;
}

static struct request *request_of(struct tern_taker *taker, const struct tern_db_relayed *row,
                                  uint32_t tries)
{
    struct request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        return NULL;
    }
    request->relayed = copy(taker, row);
    if (request->relayed == NULL) {
        free(request);
        return NULL;
    }
    request->client = row->client;
    request->tag.client = row->client;
    request->relayed->tries = tries;
    request->tag.peer_is_cache = row->peer_is_cache;
    if (!kind_of(row, &request->kind)) {
        refuse(request, TERN_ERR_UNKNOWN);
        return request;
    }
    if (tries >= TRIES_MAX && request->kind != REQUEST_METER) {
        refuse(request, TERN_ERR_BUSY);
        return request;
    }
    parse(taker->service, row, request);
    return request;
}

// --- Taking

static struct mark *mark_of(struct tern_taker *taker, uint64_t node)
{
    for (size_t i = 0; i < taker->mark_count; i++) {
        if (taker->marks[i].node == node) {
            return &taker->marks[i];
        }
    }
    struct mark *more = realloc(taker->marks, (taker->mark_count + 1) * sizeof more[0]);
    if (more == NULL) {
        return NULL;
    }
    taker->marks = more;
    taker->marks[taker->mark_count] = (struct mark){.node = node};
    return &taker->marks[taker->mark_count++];
}

// False: there is no room for it now.
static bool take(struct tern_taker *taker, const struct tern_db_relayed *row, uint32_t tries)
{
    const uint64_t bytes = atomic_load(&taker->bytes);
    const bool fits = bytes == 0 || bytes + row->body.len <= BYTES_MAX;
    if (!fits || !tern_request_queue_has_room(&taker->service->queue)) {
        return false;
    }
    struct request *request = request_of(taker, row, tries);
    if (request == NULL) {
        return false;
    }
    if (!tern_request_queue_put(&taker->service->queue, request)) {
        tern_answer_send(request);
        return false;
    }
    return true;
}

// Returns how many rows have room if all are the longest updates. Rows that are read without room are read again.
static uint32_t rows_that_fit(const struct tern_taker *taker)
{
    const uint64_t bytes = atomic_load(&taker->bytes);
    const uint64_t longest = tern_federation_update_max(taker->service->federation) + 1;
    const uint64_t fit = bytes < BYTES_MAX ? (BYTES_MAX - bytes) / longest : 0;
    return fit == 0 ? 1 : fit < ROWS_MAX ? (uint32_t)fit : ROWS_MAX;
}

// *more: there may be further rows. *full: there is no room for more.
static enum tern_result take_rows(struct tern_taker *taker, struct mark *mark, bool *more,
                                  bool *full)
{
    struct tern_db_relayed row;
    const uint32_t most = rows_that_fit(taker);
    uint32_t count = 0;
    *full = !tern_request_queue_has_room(&taker->service->queue);
    if (*full) {
        return TERN_OK;
    }
    struct tern_db_rows *rows = tern_db_relayed(taker->db, mark->node, mark->number, most);
    while (!*full && tern_db_next(rows, &row)) {
        *full = !take(taker, &row, 0);
        if (!*full) {
            mark->number = row.number;
            count++;
        }
    }
    *more |= count == most;
    return tern_db_end(rows);
}

// Takes some rows of each node, beginning after the last node that had no room. So neither a busy node nor one with an
// unreadable row blocks the others.
static enum tern_result take_some(struct tern_taker *taker, bool *full, bool *more)
{
    enum tern_result result = TERN_OK;
    uint64_t node = 0;
    *more = taker->after != 0;
    TERN_TRY(tern_db_relaying(taker->db, taker->after, &node));
    while (node != 0 && !*full) {
        struct mark *mark = mark_of(taker, node);
        if (mark == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        const enum tern_result taken = take_rows(taker, mark, more, full);
        result = result == TERN_OK ? taken : result;
        taker->after = node;
        TERN_TRY(tern_db_relaying(taker->db, node, &node));
    }
    taker->after = *full ? taker->after : 0;
    return result;
}

static enum tern_result take_new(struct tern_taker *taker, bool *full)
{
    bool more = true;
    while (more && !*full) {
        TERN_TRY(take_some(taker, full, &more));
    }
    return TERN_OK;
}

static bool next_retry(struct tern_taker *taker, struct retry *out)
{
    pthread_mutex_lock(&taker->lock);
    const bool any = taker->retry_count > 0;
    if (any) {
        *out = taker->retries[--taker->retry_count];
    }
    pthread_mutex_unlock(&taker->lock);
    return any;
}

static void remember_retry(struct tern_taker *taker, const struct retry *retry)
{
    pthread_mutex_lock(&taker->lock);
    struct retry *more = realloc(taker->retries, (taker->retry_count + 1) * sizeof more[0]);
    if (more != NULL) { // else its node answers 503 in time, and the client sends it again
        taker->retries = more;
        taker->retries[taker->retry_count++] = *retry;
    }
    pthread_mutex_unlock(&taker->lock);
}

// Missing rows were dropped by their node.
static enum tern_result take_retries(struct tern_taker *taker, bool *full)
{
    struct retry wanted;
    while (!*full && next_retry(taker, &wanted)) {
        struct tern_db_relayed row;
        struct tern_db_rows *rows = tern_db_relayed(taker->db, wanted.node, wanted.number - 1, 1);
        if (tern_db_next(rows, &row) && row.number == wanted.number) {
            *full = !take(taker, &row, wanted.tries);
        }
        const enum tern_result result = tern_db_end(rows);
        if (result != TERN_OK || *full) {
            remember_retry(taker, &wanted);
        }
        TERN_TRY(result);
    }
    return TERN_OK;
}

static enum tern_result sweep(struct tern_taker *taker)
{
    TERN_TRY(tern_db_begin_apart(taker->db, false));
    return tern_db_conclude(taker->db, tern_db_answers_sweep(taker->db));
}

static void note_delivery(struct tern_taker *taker, const char *numbers)
{
    struct summing *summing = &taker->summing;
    char *end;
    const unsigned long round = strtoul(numbers, &end, 10);
    const unsigned long long node = strtoull(end, NULL, 10);
    pthread_mutex_lock(&taker->lock);
    for (uint32_t i = 0; i < summing->count && summing->round == round; i++) {
        if (summing->nodes[i] == node) {
            summing->nodes[i] = summing->nodes[--summing->count];
            taker->answers++;
            pthread_cond_signal(&taker->summed);
        }
    }
    pthread_mutex_unlock(&taker->lock);
}

static void hear(void *ctx, const char *message)
{
    struct tern_taker *taker = ctx;
    if (strncmp(message, TERN_NOTICE_SUMMED, sizeof TERN_NOTICE_SUMMED - 1) == 0) {
        note_delivery(taker, message + sizeof TERN_NOTICE_SUMMED - 1);
    }
    taker->has_more |= message[0] == '\0' || strcmp(message, TERN_NOTICE_RELAYED) == 0;
}

static enum tern_result ask_for_parts(struct tern_taker *taker)
{
    pthread_mutex_lock(&taker->lock);
    const uint32_t round = taker->wanted_round;
    taker->wanted_round = 0;
    pthread_mutex_unlock(&taker->lock);
    if (round == 0) {
        return TERN_OK;
    }
    char message[64];
    snprintf(message, sizeof message, TERN_NOTICE_SUM "%lu", (unsigned long)round);
    TERN_TRY(tern_db_begin_apart(taker->db, false));
    return tern_db_conclude(taker->db, tern_db_notify(taker->db, message));
}

struct times {
    uint64_t looked_ms;
    uint64_t swept_ms;
};

static enum tern_result take_once(struct tern_taker *taker, struct times *times)
{
    bool full = false;
    uint64_t woken;
    TERN_TRY(tern_db_wait_notices(taker->db, taker->wake, LOOK_MS, hear, taker));
    const bool was_woken = read(taker->wake, &woken, sizeof woken) == (ssize_t)sizeof woken;
    const uint64_t now_ms = tern_service_monotonic(taker->service);
    TERN_TRY(ask_for_parts(taker));
    if (taker->has_more || was_woken || now_ms >= times->looked_ms + LOOK_MS) {
        taker->has_more = false;
        times->looked_ms = now_ms;
        TERN_TRY(take_retries(taker, &full));
        TERN_TRY(take_new(taker, &full));
    }
    if (full) {
        taker->has_more = true;
        times->looked_ms = 0;
        nanosleep(&(struct timespec){.tv_nsec = FULL_MS * 1000000L}, NULL);
    }
    if (now_ms >= times->swept_ms + SWEEP_MS) {
        times->swept_ms = now_ms;
        TERN_TRY(sweep(taker));
    }
    return TERN_OK;
}

static void *run(void *arg)
{
    struct tern_taker *taker = arg;
    struct times times = {.swept_ms = tern_service_monotonic(taker->service)};
    bool failed = false;
    while (!atomic_load(&taker->stopping)) {
        const enum tern_result result = take_once(taker, &times);
        if (result != TERN_OK && !failed) {
            tern_log(TERN_LOG_ERROR, "take-failed", "error=%s detail=%s", tern_result_name(result),
                     TERN_LOG_TEXT(tern_db_error(taker->db)));
        }
        failed = result != TERN_OK;
        if (failed) {
            taker->has_more = true;
            nanosleep(&(struct timespec){.tv_nsec = 100000000L}, NULL);
        }
    }
    return NULL;
}

// --- Answering, on the service thread

static void fill_answer(const struct request *request, struct tern_db_answer *answer)
{
    const struct relayed_request *relayed = request->relayed;
    const struct tern_http_reply *reply = &request->reply;
    *answer =
        (struct tern_db_answer){.node = relayed->node,
                                .number = relayed->number,
                                .status = (uint32_t)reply->status,
                                .retry_after_s = reply->retry_after_s,
                                .cached = relayed->named || reply->cache != NULL,
                                .shared = relayed->named ? relayed->shared : true,
                                .named = relayed->named,
                                .body_from = relayed->named ? relayed->body_from : reply->body_from,
                                .client = request->tag.client,
                                .round = request->tag.round,
                                .payload_down = request->tag.payload_down,
                                .cache_receives = request->tag.cache_receives,
                                .cache_sends = request->tag.cache_sends};
    answer->sums = request->kind == REQUEST_UPDATE && request->u.update.deferred &&
                   reply->status == 200 && !request->duplicate;
    memcpy(answer->sha256, relayed->sha256, TERN_SHA256_SIZE);
    if (reply->body != NULL) {
        answer->body = (struct tern_blob_column){reply->body->data, reply->body->len};
    }
}

static void expect_part(struct tern_taker *taker, uint32_t round, uint64_t node)
{
    struct summing *summing = &taker->summing;
    uint32_t i = 0;
    pthread_mutex_lock(&taker->lock);
    if (summing->round != round) {
        summing->round = round;
        summing->count = 0;
    }
    while (i < summing->count && summing->nodes[i] != node) {
        i++;
    }
    if (i == summing->count && i < TERN_GATHER_NODES) {
        summing->nodes[summing->count++] = node;
    }
    pthread_mutex_unlock(&taker->lock);
}

static enum tern_result store_answer(struct tern_taker *taker, struct tern_db *db,
                                     const struct request *request)
{
    const struct relayed_request *relayed = request->relayed;
    struct tern_db_answer answer;
    bool is_awaited = relayed->claimed;
    if (!is_awaited) {
        TERN_TRY(tern_db_relayed_drop(db, relayed->node, relayed->number, &is_awaited));
    }
    if (!is_awaited || request->kind == REQUEST_METER) {
        return TERN_OK;
    }
    fill_answer(request, &answer);
    if (answer.sums) {
        expect_part(taker, request->u.update.round, relayed->node);
    }
    return tern_db_answer_put(db, &answer);
}

static bool is_first_of_node(const struct request *first, const struct request *request)
{
    while (first != request && (first->relayed == NULL || first->kind == REQUEST_METER ||
                                first->relayed->node != request->relayed->node)) {
        first = first->next;
    }
    return first == request;
}

static enum tern_result notify_nodes(struct tern_db *db, const struct request *first)
{
    for (const struct request *request = first; request != NULL; request = request->next) {
        if (request->relayed != NULL && request->kind != REQUEST_METER &&
            is_first_of_node(first, request)) {
            char message[64];
            snprintf(message, sizeof message, TERN_NOTICE_ANSWERED "%llu",
                     (unsigned long long)request->relayed->node);
            TERN_TRY(tern_db_notify(db, message));
        }
    }
    return TERN_OK;
}

static enum tern_result notify_of_clients(struct tern_service *service)
{
    const bool all = service->has_changed_clients;
    const bool any = all || service->has_enrolled;
    service->has_changed_clients = false;
    service->has_enrolled = false;
    return any ? tern_db_notify(service->db, all ? TERN_NOTICE_CLIENTS : TERN_NOTICE_ENROLLED)
               : TERN_OK;
}

static enum tern_result store_answers(struct tern_service *service)
{
    const struct request *first = service->batch.first;
    for (const struct request *request = first; request != NULL; request = request->next) {
        if (request->relayed != NULL) {
            TERN_TRY(store_answer(service->taker, service->db, request));
        }
    }
    TERN_TRY(notify_nodes(service->db, first));
    return notify_of_clients(service);
}

static void give_back(struct tern_service *service)
{
    struct tern_taker *taker = service->taker;
    struct request *request = service->batch.first;
    bool any = false;
    tern_request_list_init(&service->batch);
    while (request != NULL) {
        struct request *next = request->next;
        if (request->relayed == NULL) {
            tern_request_list_add(&service->batch, request);
        } else {
            const struct relayed_request *relayed = request->relayed;
            remember_retry(taker,
                           &(struct retry){relayed->node, relayed->number, relayed->tries + 1});
            tern_answer_send(request);
            any = true;
        }
        request = next;
    }
    if (any) {
        (void)!write(taker->wake, &(uint64_t){1}, sizeof(uint64_t));
    }
}

// --- Parts of a round's sum, on the thread that merges

#define PARTS_MS 1000

static struct timespec in_ms(uint64_t ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    const uint64_t ns = (uint64_t)at.tv_nsec + ms * 1000000;
    at.tv_sec += (time_t)(ns / 1000000000);
    at.tv_nsec = (long)(ns % 1000000000);
    return at;
}

// Asks for the parts of a round. Does not wait for nodes without updates of the round.
static void want_parts(struct tern_taker *taker, uint32_t round)
{
    taker->asked_round = round;
    taker->heard = taker->answers;
    taker->until = in_ms(PARTS_MS);
    if (taker->summing.round != round) {
        taker->summing.count = 0;
    }
    if (taker->summing.count > 0) {
        taker->wanted_round = round;
        (void)!write(taker->wake, &(uint64_t){1}, sizeof(uint64_t));
    }
}

static bool await_parts(struct tern_taker *taker, uint32_t round)
{
    int waited = 0;
    pthread_mutex_lock(&taker->lock);
    if (taker->asked_round != round) {
        want_parts(taker, round);
    }
    while (taker->answers == taker->heard && taker->summing.count > 0 && waited == 0) {
        waited = pthread_cond_timedwait(&taker->summed, &taker->lock, &taker->until);
    }
    const bool has_come = taker->answers != taker->heard;
    taker->heard = taker->answers;
    pthread_mutex_unlock(&taker->lock);
    return has_come;
}

// --- Start and stop

static void taker_free(struct tern_taker *taker)
{
    if (taker->wake >= 0) {
        close(taker->wake);
    }
    tern_db_close(taker->db);
    pthread_mutex_destroy(&taker->lock);
    pthread_cond_destroy(&taker->summed);
    free(taker->marks);
    free(taker->retries);
    free(taker);
}

// No node has this number: the connection only receives notices.
#define LEADER (TERN_DB_NODE_NUMBER_MAX + 1)

static enum tern_result begin(struct tern_taker *taker, const char *path, char why[256])
{
    TERN_TRY(tern_db_open(path, TERN_DB_SECOND, &taker->db, why));
    const enum tern_result result = tern_db_subscribe(taker->db, LEADER);
    if (result != TERN_OK) {
        snprintf(why, 256, "%s", tern_db_error(taker->db));
        return result;
    }
    taker->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return taker->wake >= 0 && pthread_create(&taker->thread, NULL, run, taker) == 0
               ? TERN_OK
               : TERN_ERR_NO_MEMORY;
}

static enum tern_result start(struct tern_service *service, struct tern_taker **out, char why[256])
{
    struct tern_taker *taker = calloc(1, sizeof *taker);
    if (taker == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    taker->service = service;
    taker->wake = -1;
    taker->has_more = true;
    pthread_mutex_init(&taker->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&taker->summed, &attributes);
    pthread_condattr_destroy(&attributes);
    const enum tern_result result = begin(taker, tern_db_path(service->db), why);
    if (result != TERN_OK) {
        taker_free(taker);
        return result;
    }
    *out = taker;
    return TERN_OK;
}

static void stop(struct tern_taker *taker)
{
    atomic_store(&taker->stopping, true);
    (void)!write(taker->wake, &(uint64_t){1}, sizeof(uint64_t));
    pthread_join(taker->thread, NULL);
    taker_free(taker);
}

// --- The interface of the service

const struct tern_service_sharing tern_nodes_sharing = {
    .follow = tern_follower_start,
    .turn = tern_follower_turn,
    .idle_ms = tern_follower_idle_ms,
    .expire = tern_follower_expire,
    .stop_following = tern_follower_stop,
    .take = start,
    .store_answers = store_answers,
    .give_back = give_back,
    .await_parts = await_parts,
    .stop_taking = stop,
};
