// A client over the curl transport whose uploads are ended while their bytes move: cancelled by another thread, by conditions
// that change, or by a budget that is used up. test_link_ends.py puts a slow link before it.
//
//   link_client cancel|conditions|budget SERVER CA DIR CODE TRIES
//
// Enrols, and works. Each try begins once an upload moves, and ends it a random time later: prints "change" at that moment, and
// "end MS" when the call has returned, or "end MS WHY" when the client has reported the end.
#include "client.h"
#include "hosted/system.h"
#include "posix/file_store.h"
#include "posix/system.h"
#include "posix/transport.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUDGET 4000000u  // bytes a round, more than the update
#define REST_MIN 150000u // bytes of an upload that a try needs before it

enum kind { CANCEL, CONDITIONS, BUDGET_USED };

static struct tern_client client;
static struct tern_transport wire;
static enum kind kind;
static _Atomic bool changed;        // the conditions, or the budget
static _Atomic uint64_t changed_ms; // when this try was ended; 0 = not yet
static const char *ended_why;       // the client has reported the end; NULL = not yet

static void fail(const char *what, enum tern_result result)
{
    fprintf(stderr, "link_client: %s: %s\n", what, tern_result_name(result));
    exit(1);
}

static void sleep_ms(uint32_t ms)
{
    const struct timespec time = {.tv_sec = (time_t)(ms / 1000),
                                  .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

// --- A trainer that changes every value

static float *weights;

static enum tern_result begin(void *ctx, const struct tern_train_task *task, const float *base,
                              uint32_t count)
{
    uint32_t *values = ctx;
    *values = count;
    tern_train_start(task, base, weights, count);
    return TERN_OK;
}

static enum tern_result step(void *ctx, float **trained, struct tern_train_result *result)
{
    const uint32_t *values = ctx;
    for (uint32_t i = 0; i < *values; i++) {
        weights[i] += 0.001F * (float)(i % 7);
    }
    *trained = weights;
    *result = (struct tern_train_result){.num_examples = 10, .local_steps = 1, .loss = 1.0F};
    return TERN_OK;
}

static enum tern_result evaluate(void *ctx, const float *values, uint32_t count,
                                 struct tern_evaluate_result *result)
{
    (void)ctx, (void)values, (void)count, (void)result;
    return TERN_ERR_NOT_FOUND;
}

// --- Ports that change in mid-transfer

static bool may_work(void *ctx, struct tern_conditions *now, const char **why)
{
    (void)ctx;
    *now = (struct tern_conditions){.metered = false};
    *why = "the link became metered";
    return kind != CONDITIONS || !changed;
}

// Adds bytes as if the kernel had sent segments again.
static void collect(void *ctx, struct tern_meter *meter)
{
    wire.collect(ctx, meter);
    if (kind == BUDGET_USED && changed) {
        meter->bytes[TERN_PURPOSE_UPLOAD][TERN_UP].wire += BUDGET;
        changed = false;
    }
}

static void on_event(void *ctx, const struct tern_client_event *event)
{
    (void)ctx;
    if (changed_ms != 0 && (event->kind == TERN_EVENT_PAUSED || event->kind == TERN_EVENT_BUDGET)) {
        ended_why = event->why;
    } else if (event->kind == TERN_EVENT_FAILURE) {
        fail(event->why, event->result);
    }
}

// --- Tries

static _Atomic bool waits; // the next try may begin

static bool is_uploading(void)
{
    const struct tern_client_watch *watch = &client.watch; // read by another thread: a guess
    return client.phase == TERN_PHASE_UPLOAD && watch->direction == TERN_UP && watch->done > 0 &&
           watch->done + REST_MIN < watch->total;
}

static void *end_uploads(void *ctx)
{
    unsigned seed = 1;
    (void)ctx;
    for (;;) {
        while (!waits || !is_uploading()) {
            sleep_ms(1);
        }
        sleep_ms((uint32_t)rand_r(&seed) % 100);
        waits = false;
        changed = true;
        changed_ms = tern_monotonic_ms();
        if (kind == CANCEL) {
            tern_client_cancel(&client);
        }
        printf("change\n");
        fflush(stdout);
    }
    return NULL;
}

static void end_try(const char *why)
{
    printf("end %llu %s\n", (unsigned long long)(tern_monotonic_ms() - changed_ms), why);
    fflush(stdout);
    changed = false;
    changed_ms = 0;
    ended_why = NULL;
    client.watch.done = 0; // the next try waits for the next upload
}

static void run_tries(unsigned tries)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_uploads, NULL) != 0) {
        fail("thread", TERN_ERR_NO_MEMORY);
    }
    waits = true;
    while (tries > 0) {
        const enum tern_result result = tern_client_step(&client);
        const bool cancelled = result == TERN_ERR_CANCELLED;
        if (cancelled || ended_why != NULL) {
            end_try(cancelled ? "" : ended_why);
            tries--;
            (void)getchar(); // until the test has read what arrived
            waits = true;
        } else if (result == TERN_AGAIN) {
            const uint32_t ms = tern_client_next_ms(&client);
            sleep_ms(ms < 10 ? ms : 10);
        } else if (result != TERN_OK) {
            fail("step", result);
        }
    }
}

// --- The client

static void enrol(char **argv)
{
    char why[512];
    struct tern_curl *curl = NULL;
    struct tern_file_store *store = NULL;
    const struct tern_curl_config link = {.server = argv[2], .ca_file = argv[3]};
    if (tern_curl_global() != TERN_OK || tern_curl_open(&curl, &link, why) != TERN_OK ||
        tern_file_store_open(&store, argv[4], why) != TERN_OK) {
        fail(why, TERN_ERR_IO);
    }
    wire = tern_curl_port(curl);
    struct tern_client_config config = {.wait_ms = 2000,
                                        .look_again_ms = 10,
                                        .budget_wait_ms = 10,
                                        .budget_per_round = kind == BUDGET_USED ? BUDGET : 0,
                                        .on_event = on_event};
    config.ports.transport = wire;
    config.ports.transport.collect = collect;
    config.ports.store = tern_file_store_port(store);
    config.ports.clock = tern_posix_clock();
    config.ports.entropy = tern_posix_entropy();
    config.ports.conditions.may_work = may_work;
    enum tern_result result = tern_client_init(&client, &config);
    if (result == TERN_OK) {
        result = tern_client_enroll(&client, argv[5]);
    }
    if (result != TERN_OK) {
        fail("enroll", result);
    }
}

static void restore(void)
{
    static struct tern_model model;
    static struct tern_client_workspace work;
    static uint32_t values;
    if (tern_model_from_spec(&model, tern_client_identity(&client)->model_spec) != TERN_OK) {
        fail("model", TERN_ERR_MODEL_MISMATCH);
    }
    weights = calloc(model.count, sizeof(float));
    work.model = &model;
    work.trainer =
        (struct tern_trainer){.ctx = &values, .begin = begin, .step = step, .evaluate = evaluate};
    work.weights = calloc(model.count, sizeof(float));
    work.error_buffer = calloc(model.count, sizeof(float));
    work.blob_size = tern_client_blob_bound(&model);
    work.blob = malloc(work.blob_size);
    const enum tern_result result = tern_client_restore(&client, &work);
    if (result != TERN_OK) {
        fail("restore", result);
    }
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: see the head of link_client.c\n");
        return 2;
    }
    kind = strcmp(argv[1], "cancel") == 0       ? CANCEL
           : strcmp(argv[1], "conditions") == 0 ? CONDITIONS
                                                : BUDGET_USED;
    enrol(argv);
    restore();
    run_tries((unsigned)strtoul(argv[6], NULL, 10));
    return 0;
}
