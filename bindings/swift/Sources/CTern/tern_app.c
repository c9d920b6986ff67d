#include "tern_app.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tern/client.h>
#include <tern/posix/file_store.h>
#include <tern/posix/system.h>
#include <tern/posix/transport.h>
#include <tern/trainer/trainer.h>

#define WHY_MAX 512
#define SLICE_MS 200 // a cancelled wait ends within this time

struct tern_app {
    struct tern_client client;
    struct tern_model model;
    struct tern_builtin_trainer trainer;
    struct tern_dataset data;
    struct tern_curl *curl;
    struct tern_file_store *store;
    void *arena;
    float *weights;
    void *error_buffer;
    uint8_t *blob;
    bool restored;
    tern_app_listener listener;
    void *ctx;
    tern_app_conditions conditions; // NULL: the client may always work
    void *conditions_ctx;
    enum tern_app_outcome outcome;
    bool ended;              // the round is over
    bool waits;              // the aggregator or a budget has given a time to wait
    enum tern_result result; // of the last call
    uint32_t wait_ms;        // from the last call to the next one
    char why[WHY_MAX];
};

static void end_round(struct tern_app *app, enum tern_app_outcome outcome)
{
    if (!app->ended) {
        app->ended = true;
        app->outcome = outcome;
    }
}

static enum tern_app_outcome answer_of(enum tern_result result)
{
    return result == TERN_OK         ? TERN_APP_DONE
           : result == TERN_ERR_LATE ? TERN_APP_LATE
                                     : TERN_APP_REFUSED;
}

static void on_event(void *ctx, const struct tern_client_event *event)
{
    struct tern_app *app = ctx;
    switch ((int)event->kind) {
    case TERN_EVENT_UPLOADED:
        end_round(app, answer_of(event->result));
        break;
    case TERN_EVENT_WAITING:
    case TERN_EVENT_BUDGET:
        app->waits = !app->ended;
        end_round(app, TERN_APP_WAITING);
        break;
    case TERN_EVENT_PAUSED:
        end_round(app, TERN_APP_WAITING);
        break;
    case TERN_EVENT_FINISHED:
        end_round(app, TERN_APP_FINISHED);
        break;
    default:
        break;
    }
    if (app->listener != NULL) {
        app->listener(app->ctx, tern_client_event_name(event->kind), event->round, event->bytes);
    }
}

static bool may_work(void *ctx, struct tern_conditions *now, const char **why)
{
    struct tern_app *app = ctx;
    const bool allowed = app->conditions == NULL || app->conditions(app->conditions_ctx);
    *now = (struct tern_conditions){.metered = false};
    *why = "the app's conditions do not allow work";
    if (!allowed) {
        end_round(app, TERN_APP_WAITING); // no event comes where an earlier call began the pause
    }
    return allowed;
}

static enum tern_result open_client(struct tern_app *app, const char *server, const char *ca_file,
                                    const char *folder)
{
    const struct tern_curl_config link = {.section = "app", .server = server, .ca_file = ca_file};
    TERN_TRY(tern_curl_global());
    TERN_TRY(tern_curl_open(&app->curl, &link, app->why));
    TERN_TRY(tern_file_store_open(&app->store, folder, app->why));
    struct tern_client_config config = {.platform = "swift",
                                        .leaves = true,
                                        .look_again_ms = 1000,
                                        .on_event = on_event,
                                        .ctx = app};
    config.ports.transport = tern_curl_port(app->curl);
    config.ports.store = tern_file_store_port(app->store);
    config.ports.clock = tern_posix_clock();
    config.ports.entropy = tern_posix_entropy();
    config.ports.conditions = (struct tern_condition_port){.ctx = app, .may_work = may_work};
    TERN_TRY(tern_client_init(&app->client, &config));
    const enum tern_result result = tern_client_identify(&app->client);
    return result == TERN_ERR_NOT_FOUND ? TERN_OK : result;
}

tern_app *tern_app_open(const char *server, const char *ca_file, const char *folder,
                        const float *rows, const uint16_t *labels, uint32_t count, uint32_t columns,
                        uint32_t classes, tern_app_listener listener, void *ctx, char *why,
                        uint32_t why_size)
{
    struct tern_app *app = calloc(1, sizeof *app);
    if (app == NULL) {
        snprintf(why, why_size, "%s", tern_result_sentence(TERN_ERR_NO_MEMORY));
        return NULL;
    }
    app->data = (struct tern_dataset){.count = count,
                                      .feature_count = columns,
                                      .class_count = classes,
                                      .height = 1,
                                      .width = columns,
                                      .channels = 1,
                                      .values = rows,
                                      .labels = labels};
    app->listener = listener;
    app->ctx = ctx;
    const enum tern_result result = open_client(app, server, ca_file, folder);
    if (result != TERN_OK) {
        snprintf(why, why_size, "%s",
                 app->why[0] != '\0' ? app->why : tern_result_sentence(result));
        tern_app_close(app);
        return NULL;
    }
    return app;
}

void tern_app_set_conditions(tern_app *app, tern_app_conditions conditions, void *ctx)
{
    app->conditions = conditions;
    app->conditions_ctx = ctx;
}

bool tern_app_is_enrolled(const tern_app *app)
{
    return tern_client_identity(&app->client) != NULL;
}

// Returns the outcome of a call that has ended with this result.
static enum tern_app_outcome finish(struct tern_app *app, enum tern_result result,
                                    enum tern_app_outcome outcome, uint32_t wait_ms)
{
    char text[TERN_FAILURE_MAX];
    app->result = result;
    app->wait_ms = wait_ms;
    if (result == TERN_OK || result == TERN_ERR_CANCELLED) {
        return result == TERN_OK ? outcome : TERN_APP_CANCELLED;
    }
    if (app->why[0] == '\0') {
        snprintf(app->why, sizeof app->why, "%s",
                 tern_failure_text(&app->client, app->curl, result, text));
    }
    return TERN_APP_FAILED;
}

enum tern_app_outcome tern_app_enroll(tern_app *app, const char *code)
{
    app->why[0] = '\0';
    app->restored = false;
    const enum tern_result result = tern_client_enroll(&app->client, code);
    const bool at_once = result == TERN_OK || result == TERN_ERR_CANCELLED;
    if (result == TERN_ERR_ARGUMENT) {
        snprintf(app->why, sizeof app->why, "the join code is longer than any: check the code");
    }
    return finish(app, result, TERN_APP_DONE,
                  at_once ? 0 : tern_client_again_ms(&app->client, result));
}

static void free_memory(struct tern_app *app)
{
    free(app->arena);
    free(app->weights);
    free(app->error_buffer);
    free(app->blob);
    app->arena = app->weights = app->error_buffer = NULL;
    app->blob = NULL;
}

static enum tern_result restore(struct tern_app *app)
{
    const struct tern_builtin_config training = {
        .model = &app->model, .train = tern_view_all(&app->data), .max_batch = 32};
    if (!tern_app_is_enrolled(app)) {
        snprintf(app->why, sizeof app->why, "the client has not enrolled: use a join code first");
        return TERN_ERR_STATE;
    }
    TERN_TRY(tern_model_from_spec(&app->model, tern_client_identity(&app->client)->model_spec));
    const size_t arena = tern_builtin_trainer_bound(&training);
    if (arena == 0) {
        snprintf(app->why, sizeof app->why, "the model \"%s\" does not take these rows",
                 tern_client_identity(&app->client)->model_spec);
        return TERN_ERR_MODEL_MISMATCH;
    }
    free_memory(app);
    struct tern_client_workspace memory = {.model = &app->model,
                                           .blob_size = tern_client_blob_bound(&app->model)};
    app->arena = malloc(arena);
    memory.weights = app->weights = malloc(app->model.count * sizeof(float));
    memory.error_buffer = app->error_buffer = malloc(app->model.count * sizeof(float));
    memory.blob = app->blob = malloc(memory.blob_size);
    if (app->arena == NULL || app->weights == NULL || app->error_buffer == NULL ||
        app->blob == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(tern_builtin_trainer_init(&app->trainer, &training, app->arena, arena));
    memory.trainer = tern_builtin_trainer_port(&app->trainer);
    return tern_client_restore(&app->client, &memory);
}

static enum tern_result run(struct tern_app *app)
{
    enum tern_result result = TERN_OK;
    while (!app->ended && (result == TERN_OK || result == TERN_AGAIN)) {
        result = tern_client_step(&app->client);
        const uint32_t ms = tern_client_next_ms(&app->client);
        if (tern_client_phase(&app->client) == TERN_PHASE_FINISHED) {
            end_round(app, TERN_APP_FINISHED);
        } else if (!app->ended && result == TERN_AGAIN && ms > 0) {
            (void)poll(NULL, 0, ms < SLICE_MS ? (int)ms : SLICE_MS);
        }
    }
    const enum tern_result saved = tern_client_end(&app->client);
    return app->ended ? saved : result;
}

enum tern_app_outcome tern_app_run_round(tern_app *app)
{
    enum tern_result result = TERN_OK;
    const uint32_t left = tern_client_next_ms(&app->client);
    if (app->restored && app->waits && left > 0) {
        return finish(app, TERN_OK, TERN_APP_WAITING, left);
    }
    app->why[0] = '\0';
    app->ended = app->waits = false;
    if (!app->restored) {
        result = restore(app);
        app->restored = result == TERN_OK;
    }
    if (result == TERN_OK) {
        result = run(app);
        app->restored = tern_client_phase(&app->client) != TERN_PHASE_STOPPED;
    }
    const bool may_pass =
        result == TERN_OK || tern_client_again_ms(&app->client, result) != UINT32_MAX;
    return finish(app, result, app->outcome,
                  app->restored && may_pass ? tern_client_next_ms(&app->client) : UINT32_MAX);
}

void tern_app_cancel(tern_app *app)
{
    tern_client_cancel(&app->client);
}

const char *tern_app_why(const tern_app *app)
{
    return app->why;
}

const char *tern_app_result(const tern_app *app)
{
    return tern_result_name(app->result);
}

uint32_t tern_app_wait_ms(const tern_app *app)
{
    return app->wait_ms;
}

uint64_t tern_app_wire_bytes(const tern_app *app)
{
    const struct tern_meter *meter = tern_client_meter_all(&app->client);
    return tern_meter_total(meter, TERN_UP).wire + tern_meter_total(meter, TERN_DOWN).wire;
}

void tern_app_close(tern_app *app)
{
    tern_curl_close(app->curl);
    tern_file_store_close(app->store);
    free_memory(app);
    free(app);
}
