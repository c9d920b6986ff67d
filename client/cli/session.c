#define _GNU_SOURCE
#include "cli/session.h"
#include "cli/client_data.h"
#include "cli/model_fit.h"
#include "data/columns.h"
#include "hosted/files.h"
#include "hosted/log.h"
#include "posix/transport.h"
#include "tensor/manifest.h"
#include "util/bytes.h"
#include "version.h"

#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static enum tern_result explain(struct session *session, enum tern_result result,
                                const char *format, ...) __attribute__((format(printf, 3, 4)));

static enum tern_result explain(struct session *session, enum tern_result result,
                                const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(session->why, sizeof session->why, format, arguments);
    va_end(arguments);
    return result;
}

// --- The model that the identity names: built from its spec, or from a manifest that is fetched once and stored

#define TRIES 5      // attempts to fetch a manifest, unless the listener is patient
#define SLICE_MS 250 // a signal ends a wait within this time

// Returns whether this program builds the model with this hash from its spec, without a manifest
// (tern_client_config.builds_model).
static bool builds_spec(void *ctx, const char *spec, const uint8_t *hash)
{
    (void)ctx;
    static struct tern_model model;
    return tern_model_build(&model, spec, NULL, 0, hash) == TERN_OK;
}

bool tern_session_model_is_built_in(const struct session *session)
{
    static struct tern_model model;
    return tern_model_from_spec(&model, tern_client_identity(&session->client)->model_spec) ==
           TERN_OK;
}

// --- Fetching

static bool is_aborted(const struct session *session)
{
    return session->listener.abort != NULL && *session->listener.abort != 0;
}

static void wait_ms(const struct session *session, uint64_t ms)
{
    while (ms > 0 && !is_aborted(session)) {
        const uint64_t slice = ms < SLICE_MS ? ms : SLICE_MS;
        (void)poll(NULL, 0, (int)slice);
        ms -= slice;
    }
}

static bool may_succeed_later(enum tern_result result)
{
    return result == TERN_ERR_NETWORK || result == TERN_ERR_TLS || result == TERN_ERR_BUSY ||
           result == TERN_ERR_HTTP;
}

// Returns how long to wait before the next attempt in ms, and doubles *pause. After TERN_ERR_BUDGET the wait is the one of a
// running client.
static uint64_t next_pause(const struct session *session, enum tern_result result, uint64_t *pause)
{
    const uint64_t now = *pause;
    if (result == TERN_ERR_BUDGET) {
        return session->settings->budget_look_again;
    }
    *pause = 2 * now < session->settings->client_retry_max ? 2 * now
                                                           : session->settings->client_retry_max;
    return now;
}

static enum tern_result fetch_once(struct session *session, uint8_t *manifest, size_t *len)
{
    enum tern_result result = TERN_AGAIN;
    while (result == TERN_AGAIN) {
        result = tern_client_manifest(&session->client, manifest, TERN_MANIFEST_MAX, len);
    }
    return result;
}

static enum tern_result fetch(struct session *session, uint8_t *manifest, size_t *len)
{
    uint64_t pause = session->settings->client_retry_min;
    for (unsigned tries = 1;; tries++) {
        const enum tern_result result = fetch_once(session, manifest, len);
        const bool soon = may_succeed_later(result) && tries < TRIES;
        const bool later = may_succeed_later(result) || result == TERN_ERR_BUDGET;
        if (is_aborted(session) || !(session->listener.patient ? later : soon)) {
            return result;
        }
        const uint64_t ms = next_pause(session, result, &pause);
        tern_log(TERN_LOG_WARN, "model-not-fetched", "result=%s wait_ms=%llu",
                 tern_result_name(result), (unsigned long long)ms);
        wait_ms(session, ms);
    }
}

static enum tern_result explain_no_model(struct session *session, enum tern_result result)
{
    const char *spec = tern_client_identity(&session->client)->model_spec;
    if (result == TERN_ERR_NOT_FOUND) {
        return explain(session, result,
                       "the description of the federation's model \"%s\" is not in %s yet: "
                       "tern-client run fetches it",
                       spec, session->settings->client_state_dir);
    }
    if (result == TERN_ERR_BUDGET) {
        return explain(session, result,
                       "the byte budget has no room now for the description of the federation's "
                       "model \"%s\" (budget.per_round, budget.per_month)",
                       spec);
    }
    if (may_succeed_later(result)) {
        return explain(session, result,
                       "the description of the federation's model \"%s\" could not be fetched from "
                       "%s: %s %s",
                       spec, session->settings->client_server, tern_result_sentence(result),
                       tern_curl_why(session->curl));
    }
    return explain(session, result, "this version cannot build the federation's model \"%s\": %s",
                   spec, tern_result_sentence(result));
}

static enum tern_result build_from_manifest(struct session *session, uint8_t *manifest)
{
    const struct tern_client_identity *identity = tern_client_identity(&session->client);
    size_t len = 0;
    TERN_TRY(session->curl != NULL ? fetch(session, manifest, &len)
                                   : tern_client_stored_manifest(&session->client, manifest,
                                                                 TERN_MANIFEST_MAX, &len));
    return tern_model_build(&session->model, identity->model_spec, manifest, len,
                            identity->model_hash);
}

enum tern_result tern_session_build_model(struct session *session)
{
    const struct tern_client_identity *identity = tern_client_identity(&session->client);
    if (tern_model_build(&session->model, identity->model_spec, NULL, 0, identity->model_hash) ==
        TERN_OK) {
        return TERN_OK;
    }
    uint8_t *manifest = malloc(TERN_MANIFEST_MAX);
    const enum tern_result result =
        manifest != NULL ? build_from_manifest(session, manifest) : TERN_ERR_NO_MEMORY;
    free(manifest);
    return result == TERN_OK ? TERN_OK : explain_no_model(session, result);
}

// --- A trainer that records the failures of another trainer

static void describe_builtin(const struct tern_builtin_trainer *trainer, enum tern_result result,
                             char why[TRAINING_WHY_MAX])
{
    const uint32_t steps = trainer->task.local_steps;
    const uint32_t done = trainer->steps_done;
    if (result == TERN_ERR_NON_FINITE && done < steps) {
        snprintf(why, TRAINING_WHY_MAX,
                 "the loss of local step %" PRIu32 " of %" PRIu32 " is not finite", done + 1,
                 steps);
    } else if (result == TERN_ERR_NON_FINITE) {
        snprintf(why, TRAINING_WHY_MAX,
                 "after the last of %" PRIu32 " local steps a weight is not finite", steps);
    } else if (result == TERN_ERR_NOT_FOUND) {
        snprintf(why, TRAINING_WHY_MAX, "none of the %" PRIu32 " training rows can be used%s",
                 trainer->train.count,
                 trainer->train.count > 0 ? ": none has the label of the first class, which is the "
                                            "normal one"
                                          : "");
    } else if (result == TERN_ERR_ARGUMENT) {
        snprintf(why, TRAINING_WHY_MAX,
                 "a setting of the task (steps, batch size, learning rate, momentum, weight decay, "
                 "prox_mu) is out of range");
    } else {
        snprintf(why, TRAINING_WHY_MAX, "%s", tern_result_sentence(result));
    }
}

// Returns advice about a failure; "" if its reason already contains the advice.
static const char *advice_for(const struct watched_trainer *watched, enum tern_result result)
{
    if (watched->external != NULL) {
        return "tern-client train-check tries the trainer by itself (docs/TRAINERS.md)";
    }
    return result == TERN_ERR_NON_FINITE
               ? "columns or targets are not scaled (tern-client check names them), or "
                 "train.learning_rate is too high"
           : result == TERN_ERR_NOT_FOUND ? "tern-client check counts the rows of data.source"
                                          : "";
}

static enum tern_result record_failure(struct watched_trainer *watched, enum tern_result result)
{
    struct training_failure *failure = &watched->failure;
    if (result == TERN_OK || result == TERN_AGAIN) {
        return result;
    }
    watched->failed = true;
    failure->result = result;
    failure->time_s = (uint64_t)time(NULL);
    if (watched->builtin != NULL) {
        describe_builtin(watched->builtin, result, failure->why);
    } else {
        const char *why = tern_external_why(watched->external);
        snprintf(failure->why, sizeof failure->why, "%s",
                 why[0] != '\0' ? why : tern_result_sentence(result));
    }
    failure->hint = advice_for(watched, result);
    return result;
}

static enum tern_result watched_begin(void *ctx, const struct tern_train_task *task,
                                      const float *base, uint32_t count)
{
    struct watched_trainer *watched = ctx;
    watched->failure.round = task->round;
    if (watched->on_first != NULL) {
        watched->on_first(watched->ctx);
        watched->on_first = NULL;
    }
    return record_failure(watched, watched->inner.begin(watched->inner.ctx, task, base, count));
}

static enum tern_result watched_step(void *ctx, float **weights, struct tern_train_result *result)
{
    struct watched_trainer *watched = ctx;
    return record_failure(watched, watched->inner.step(watched->inner.ctx, weights, result));
}

static enum tern_result watched_evaluate(void *ctx, const float *weights, uint32_t count,
                                         struct tern_evaluate_result *result)
{
    const struct watched_trainer *watched = ctx;
    return watched->inner.evaluate(watched->inner.ctx, weights, count, result);
}

// --- The file with the last failure of training

#define FAILURE_FILE "training-failure"
#define FAILURE_FILE_MAX 4096

static const char *path_of(const char *state_dir, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/" FAILURE_FILE, state_dir);
    return path;
}

void tern_training_failure_save(const char *state_dir, const struct training_failure *failure)
{
    char path[PATH_MAX];
    char text[FAILURE_FILE_MAX];
    if (failure == NULL) {
        (void)unlink(path_of(state_dir, path));
        return;
    }
    const int len = snprintf(text, sizeof text, "%" PRIu64 " %" PRIu32 " %d %s%s%s\n",
                             failure->time_s, failure->round, (int)failure->result, failure->why,
                             failure->hint[0] != '\0' ? ": " : "", failure->hint);
    (void)!tern_file_write(path_of(state_dir, path), text, (size_t)len, 0600);
}

bool tern_training_failure_read(const char *state_dir, struct training_failure *failure)
{
    char path[PATH_MAX];
    uint8_t *text = NULL;
    size_t len = 0;
    int result = 0;
    int at = 0;
    if (tern_file_read_regular(path_of(state_dir, path), FAILURE_FILE_MAX, &text, &len) !=
        TERN_OK) {
        return false;
    }
    const bool read = sscanf((const char *)text, "%" SCNu64 " %" SCNu32 " %d %n", &failure->time_s,
                             &failure->round, &result, &at) == 3;
    if (read) {
        failure->result = (enum tern_result)result;
        snprintf(failure->why, sizeof failure->why, "%.*s",
                 (int)strcspn((const char *)text + at, "\n"), (const char *)text + at);
    }
    free(text);
    return read;
}

// --- Opening

static const char *name_to_enrol(struct session *session)
{
    if (strcmp(session->settings->client_name, "auto") != 0) {
        return session->settings->client_name;
    }
    tern_device_name(session->settings->client_root, session->settings->client_state_dir,
                     session->device);
    return session->device;
}

// Pauses a training command when the client pauses, and continues it; then passes the event to the listener.
static void on_event(void *ctx, const struct tern_client_event *event)
{
    struct session *session = ctx;
    if (session->external.kind == EXTERNAL_COMMAND &&
        (event->kind == TERN_EVENT_PAUSED || event->kind == TERN_EVENT_RESUMED)) {
        tern_child_pause(&session->external.command.child, event->kind == TERN_EVENT_PAUSED);
    }
    if (session->listener.on_event != NULL) {
        session->listener.on_event(session->listener.ctx, event);
    }
}

// The training command of this process, for cpu_seconds(), which has no argument; NULL: none.
static const struct tern_child *training_command;

// Returns the processor seconds of this process and its training command, which the load condition of client.when subtracts.
static double cpu_seconds(void)
{
    struct timespec process;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &process);
    return (double)process.tv_sec + (double)process.tv_nsec * 1e-9 +
           (training_command != NULL ? tern_child_seconds(training_command) : 0);
}

static enum tern_result read_conditions(struct session *session)
{
    char why[CONDITIONS_WHY_MAX];
    const enum tern_result result =
        tern_conditions_from_settings(session->settings, &session->conditions, why);
    session->conditions.cpu_seconds = cpu_seconds;
    return result == TERN_OK ? TERN_OK : explain(session, result, "%s", why);
}

// Decodes secure.helper_key, and checks the settings that it needs.
static enum tern_result read_helper(struct session *session)
{
    const struct tern_client_settings *settings = session->settings;
    const char *key = settings->secure_helper_key;
    if (key[0] == '\0') {
        return settings->secure_code[0] == '\0'
                   ? TERN_OK
                   : explain(session, TERN_ERR_CONFIG,
                             "secure.code is set without secure.helper_key, so updates would not "
                             "be masked: set the "
                             "key that tern-helper status prints");
    }
    if (!TERN_SECURE) {
        return explain(session, TERN_ERR_CONFIG,
                       "secure.helper_key is set, and this program was built without secure rounds "
                       "(TERN_SECURE)");
    }
    if (tern_base64url_decode(key, strlen(key), session->helper_key, sizeof session->helper_key) !=
            TERN_OK ||
        session->helper_key[0] != 4) { // an uncompressed point
        return explain(session, TERN_ERR_CONFIG,
                       "secure.helper_key = %s is not a helper's public key: copy the 87 "
                       "characters that tern-helper "
                       "status prints",
                       key);
    }
    if (settings->secure_code[0] == '\0') {
        return explain(session, TERN_ERR_CONFIG,
                       "secure.helper_key is set without secure.code: get a join code from the "
                       "helper's operator "
                       "(tern-helper code)");
    }
    return settings->client_evaluator ? explain(session, TERN_ERR_CONFIG,
                                                "client.evaluator sends evaluations of this "
                                                "device's data, which secure.helper_key forbids: "
                                                "remove one of them")
                                      : TERN_OK;
}

// How long a program that leaves repeats what fails, so that a restart of the aggregator costs no visit of a timer.
#define LEAVES_PATIENCE_S 120

// Returns that time, or client.retry_max if it is less.
static uint8_t leaves_patience_s(const struct tern_client_settings *settings)
{
    const uint64_t s = (settings->client_retry_max + 999) / 1000;
    return s < LEAVES_PATIENCE_S ? (uint8_t)s : LEAVES_PATIENCE_S;
}

static enum tern_result init_client(struct session *session,
                                    const struct session_listener *listener)
{
    const struct tern_client_settings *settings = session->settings;
    TERN_TRY(read_conditions(session));
    TERN_TRY(read_helper(session));
    struct tern_client_config config = {
        .ports =
            {
                .transport = tern_offline_port(),
                .store = tern_file_store_port(session->store),
                .clock = tern_posix_clock(),
                .entropy = tern_posix_entropy(),
                .conditions = tern_posix_conditions_port(&session->conditions),
            },
        .name = name_to_enrol(session),
        .platform = "linux tern-client/" TERN_VERSION,
        .evaluator = settings->client_evaluator,
        .wait_ms = (uint32_t)settings->client_wait,
        .timeout_ms = (uint32_t)settings->client_timeout,
        .retry_min_ms = (uint32_t)settings->client_retry_min,
        .retry_max_ms = (uint32_t)settings->client_retry_max,
        .max_local_steps = settings->client_max_local_steps,
        .budget_per_round = settings->budget_per_round,
        .budget_per_month = settings->budget_per_month,
        .budget_wait_ms = (uint32_t)settings->budget_look_again,
        .look_again_ms = (uint32_t)settings->client_look_again,
        .builds_model = builds_spec,
        .takes_manifests = true,
        .helper_key = settings->secure_helper_key[0] != '\0' ? session->helper_key : NULL,
        .helper_code = settings->secure_code,
        .secure_min_clients = settings->secure_min_clients,
        .secure_min_noise = (uint32_t)(settings->secure_min_noise * 1000 + 0.5),
    };
    if (session->curl != NULL) {
        config.ports.transport = tern_curl_port(session->curl);
        config.ports.partial = tern_partial_file_port(session->partial);
    }
    if (listener != NULL) {
        session->listener = *listener;
        config.on_event = on_event;
        config.ctx = session;
        config.leaves = listener->leaves;
        config.leaves_patience_s = leaves_patience_s(settings);
    }
    const enum tern_result result = tern_client_init(&session->client, &config);
    if (is_aborted(session)) { // before there was a client to cancel
        tern_client_cancel(&session->client);
    }
    return result == TERN_OK ? TERN_OK
                             : explain(session, result, "the client cannot start: %s",
                                       tern_result_sentence(result));
}

static enum tern_result open_curl(struct session *session)
{
    const struct tern_client_settings *settings = session->settings;
    char session_file[PATH_MAX];
    snprintf(session_file, sizeof session_file, "%s/tls-session", settings->client_state_dir);
    const struct tern_curl_config curl = {.server = settings->client_server,
                                          .ca_file = settings->client_ca,
                                          .certificate = settings->client_certificate,
                                          .key = settings->client_key,
                                          .tls = settings->client_tls,
                                          .proxy = settings->client_proxy,
                                          .session_file = session_file};
    return tern_curl_open(&session->curl, &curl, session->why);
}

enum tern_result tern_session_open(struct session *session,
                                   const struct tern_client_settings *settings,
                                   const struct session_listener *listener)
{
    session->settings = settings;
    if (settings->client_server[0] == '\0') {
        return explain(session, TERN_ERR_CONFIG,
                       "client.server is not set: name the aggregator with --config FILE or "
                       "--set client.server=https://host:port");
    }
    if (tern_curl_global() != TERN_OK) {
        return explain(session, TERN_ERR_NO_MEMORY, "libcurl cannot start");
    }
    TERN_TRY(open_curl(session));
    enum tern_result result =
        tern_file_store_open(&session->store, settings->client_state_dir, session->why);
    if (result != TERN_OK) {
        // Another process of this machine has locked the directory. Users read TERN_ERR_CONFLICT as a conflict with the
        // aggregator.
        return result == TERN_ERR_CONFLICT ? TERN_ERR_STATE : result;
    }
    TERN_TRY(tern_partial_file_open(&session->partial, settings->client_state_dir, session->why));
    return init_client(session, listener);
}

enum tern_result tern_session_open_reader(struct session *session,
                                          const struct tern_client_settings *settings)
{
    session->settings = settings;
    TERN_TRY(
        tern_file_store_open_reader(&session->store, settings->client_state_dir, session->why));
    return init_client(session, NULL);
}

bool tern_session_open_transport(struct session *session)
{
    return session->settings->client_server[0] != '\0' && tern_curl_global() == TERN_OK &&
           open_curl(session) == TERN_OK;
}

enum tern_result tern_session_identify(struct session *session)
{
    const char *dir = session->settings->client_state_dir;
    const enum tern_result result = tern_client_identify(&session->client);
    switch ((int)result) {
    case TERN_OK:
        return result;
    case TERN_ERR_NOT_FOUND:
        return explain(session, result,
                       "%s contains no identity: enrol first with tern-client enroll CODE", dir);
    case TERN_ERR_CORRUPT:
        return explain(session, result,
                       "the identity in %s is damaged: enrol again with tern-client enroll --force "
                       "CODE",
                       dir);
    default:
        return explain(session, result, "the identity in %s cannot be read", dir);
    }
}

// --- Memory

// Returns whether data.source itself has test examples: a fraction of its rows, or generated examples (option `test`).
static bool data_holds_out(const struct tern_client_settings *settings)
{
    static const char *const kinds[] = {"csv", "npz", "npy", "digits", "sensors", "audio"};
    const char *source = settings->data_source;
    const size_t len = strcspn(source, ",:");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strlen(kinds[i]) == len && memcmp(source, kinds[i], len) == 0) {
            return strstr(source, "test_file=") == NULL;
        }
    }
    return false;
}

static enum tern_result build_trainer(struct session *session)
{
    char why[MODEL_FIT_WHY_MAX];
    struct tern_builtin_config config = {.model = &session->model,
                                         .max_batch = session->settings->client_max_batch,
                                         .anomaly_quantile =
                                             (float)session->settings->client_anomaly_quantile};
    if (!tern_session_model_is_built_in(session)) {
        return explain(session, TERN_ERR_CONFIG,
                       "the model \"%s\" is not built in: name a trainer for it with "
                       "client.trainer = command or library (docs/TRAINERS.md)",
                       tern_client_identity(&session->client)->model_spec);
    }
    TERN_TRY(tern_client_data_open(session->settings,
                                   tern_client_identity(&session->client)->evaluator ||
                                       data_holds_out(session->settings),
                                   &session->data, session->why));
    tern_client_data_notes(&session->data);
    if (!tern_model_accepts(tern_client_identity(&session->client)->model_spec, &session->model,
                            &session->data.train, why)) {
        return explain(session, TERN_ERR_CONFIG, "%s", why);
    }
    config.test = tern_view_all(&session->data.test);
    config.train = tern_view_all(&session->data.train);
    const size_t size = tern_builtin_trainer_bound(&config);
    session->arena = size > 0 ? malloc(size) : NULL;
    if (size > 0 && session->arena == NULL) {
        return explain(session, TERN_ERR_NO_MEMORY, "training needs %zu bytes of memory", size);
    }
    return tern_builtin_trainer_init(&session->trainer, &config, session->arena, size);
}

// Allocates the workspace. Velocity and anchor take no memory until a codec or task writes them, because the kernel provides
// the pages of a large allocation at the first write.
static enum tern_result allocate_memory(struct session *session,
                                        struct tern_client_workspace *workspace)
{
    const uint32_t count = session->model.count;
    const size_t values = (size_t)count * sizeof(float);
    const size_t buffer = tern_error_storage_bytes(workspace->error_storage, session->model.coded);
    workspace->model = &session->model;
    workspace->blob_size = tern_client_blob_bound(&session->model);
    workspace->weights = session->weights = malloc(values);
    workspace->error_buffer = session->error_buffer = malloc(buffer);
    workspace->velocity = session->velocity = malloc(values);
    workspace->anchor = session->anchor = malloc(2 * values);
    workspace->blob = session->blob = malloc(workspace->blob_size);
    uint32_t first = 0;
    const uint32_t local = tern_model_local(&session->model, &first);
    workspace->local = session->local = malloc((local > 0 ? local : 1) * sizeof(float));
    if (session->weights == NULL || session->local == NULL || session->error_buffer == NULL ||
        session->velocity == NULL || session->anchor == NULL || session->blob == NULL) {
        return explain(session, TERN_ERR_NO_MEMORY, "the model needs %zu bytes of memory",
                       2 * values + buffer + workspace->blob_size);
    }
    return TERN_OK;
}

static enum tern_result read_storage(struct session *session,
                                     struct tern_client_workspace *workspace)
{
    const char *name = session->settings->client_error_buffer;
    return tern_error_storage_choose(name, session->model.coded, &workspace->error_storage) ==
                   TERN_OK
               ? TERN_OK
               : explain(
                     session, TERN_ERR_CONFIG,
                     "client.error_buffer is \"%s\"; it must be auto, float32, bfloat16 or int8",
                     name);
}

static enum tern_result restore_client(struct session *session,
                                       const struct tern_client_workspace *workspace)
{
    session->why[0] = '\0'; // deletes the reason of an earlier attempt
    const enum tern_result result = tern_client_restore(&session->client, workspace);
    return result == TERN_OK || session->why[0] != '\0' // set by refuse_scaled()
               ? result
               : explain(session, result, "the state in %s cannot be used: %s",
                         session->settings->client_state_dir, tern_result_sentence(result));
}

static enum tern_result open_external(struct session *session, struct tern_trainer *trainer)
{
    char why[EXTERNAL_WHY_MAX];
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/trainer", session->settings->client_state_dir);
    const enum tern_result result =
        tern_external_open(&session->external, session->settings, &session->model,
                           tern_client_identity(&session->client)->model_spec, folder, why);
    *trainer = tern_external_port(&session->external);
    training_command =
        session->external.kind == EXTERNAL_COMMAND ? &session->external.command.child : NULL;
    return result == TERN_OK ? TERN_OK : explain(session, result, "%s", why);
}

// --- Columns

static enum tern_result refuse_scaled(struct session *session)
{
    return explain(session, TERN_ERR_CONFIG, "data.source: %s", CLIENT_SCALED_TWICE);
}

static enum tern_result measure_columns(void *ctx, uint8_t *columns, uint32_t *num_examples)
{
    struct session *session = ctx;
    const struct tern_view train = tern_view_all(&session->data.train);
    if (session->data.scaled) {
        return refuse_scaled(session);
    }
    return session->scaling != 0 ? TERN_ERR_STATE
                                 : tern_columns_measure(&train, columns, num_examples);
}

static enum tern_result scale_columns(void *ctx, uint32_t tag, const uint8_t *columns)
{
    struct session *session = ctx;
    if (session->scaling != 0) {
        return session->scaling == tag ? TERN_OK : TERN_ERR_STATE;
    }
    if (session->data.scaled) {
        return refuse_scaled(session);
    }
    TERN_TRY(tern_columns_scale(&session->data, columns, tern_data_columns(&session->data)));
    session->scaling = tag;
    return TERN_OK;
}

// Returns the port for the columns of the built-in trainer's data. Images have no columns: their bytes are scaled when a batch
// is read.
static struct tern_column_port columns_of(struct session *session)
{
    if (session->external.kind != EXTERNAL_NONE || !tern_data_has_columns(&session->data)) {
        return (struct tern_column_port){0};
    }
    return (struct tern_column_port){
        .ctx = session,
        .count = tern_model_spec_columns(tern_client_identity(&session->client)->model_spec),
        .names = session->data.column_names,
        .measure = measure_columns,
        .scale = scale_columns};
}

// Warns about unscaled columns. Called before the first training, when the client knows whether the federation has a scaling.
static void warn_about_scales(void *ctx)
{
    const struct session *session = ctx;
    char text[TERN_COLUMNS_TEXT_MAX];
    if (!session->data.scaled && session->scaling == 0 &&
        tern_columns_are_unscaled(
            &session->data.train,
            "scale=scaling.csv, which `tern-aggregator init --data` writes, in data.source, or "
            "statistics.columns = clients at the aggregator",
            text)) {
        tern_log(TERN_LOG_WARN, "unscaled", "why=%s", TERN_LOG_TEXT(text));
    }
}

// Opens the trainer that client.trainer names. Trainers of the user read their data themselves.
static enum tern_result open_inner_trainer(struct session *session, struct tern_trainer *trainer)
{
    char why[EXTERNAL_WHY_MAX];
    if (tern_external_kind_of(session->settings, &session->external.kind, why) != TERN_OK) {
        return explain(session, TERN_ERR_CONFIG, "%s", why);
    }
    if (session->external.kind != EXTERNAL_NONE) {
        session->watched.external = &session->external;
        return open_external(session, trainer);
    }
    TERN_TRY(build_trainer(session));
    session->watched.builtin = &session->trainer;
    session->watched.on_first = warn_about_scales;
    session->watched.ctx = session;
    *trainer = tern_builtin_trainer_port(&session->trainer);
    return TERN_OK;
}

static enum tern_result open_trainer(struct session *session, struct tern_trainer *trainer)
{
    TERN_TRY(open_inner_trainer(session, &session->watched.inner));
    *trainer = (struct tern_trainer){.ctx = &session->watched,
                                     .begin = watched_begin,
                                     .step = watched_step,
                                     .evaluate = watched_evaluate};
    return TERN_OK;
}

enum tern_result tern_session_restore(struct session *session)
{
    struct tern_client_workspace workspace = {0};
    const bool reads_only = session->partial == NULL;
    TERN_TRY(tern_session_build_model(session));
    TERN_TRY(read_storage(session, &workspace));
    if (!reads_only) {
        TERN_TRY(open_trainer(session, &workspace.trainer));
        workspace.columns = columns_of(session);
    }
    TERN_TRY(allocate_memory(session, &workspace));
    return restore_client(session, &workspace);
}

void tern_session_close(struct session *session)
{
    training_command = NULL;
    tern_external_close(&session->external);
    tern_posix_conditions_close(&session->conditions);
    tern_curl_close(session->curl);
    tern_partial_file_close(session->partial);
    tern_file_store_close(session->store);
    tern_data_close(&session->data);
    free(session->arena);
    free(session->weights);
    free(session->error_buffer);
    free(session->velocity);
    free(session->anchor);
    free(session->blob);
    free(session->local);
}

// --- When certificates expire

#define DAY_S 86400
#define SOON_S (14 * DAY_S)

struct clause {
    const char *whose;
    uint64_t end_s; // expiry in Unix seconds; 0: unknown
};

static void append_clause(const struct clause *clause, uint64_t now_s, char sentence[EXPIRY_MAX])
{
    const size_t len = strlen(sentence);
    char when[32] = "has expired";
    if (clause->end_s > now_s) {
        snprintf(when, sizeof when, "expires in %" PRIu64 " d", (clause->end_s - now_s) / DAY_S);
    }
    snprintf(sentence + len, EXPIRY_MAX - len, "%s%s %s", len > 0 ? ", " : "", clause->whose, when);
}

bool tern_expiry_describe(const struct tern_curl *curl, uint64_t now_s, char sentence[EXPIRY_MAX])
{
    const struct tern_curl_expiries ends = tern_curl_certificates(curl);
    const struct clause clauses[] = {
        {"the aggregator's certificate", ends.server_s},
        {"its CA's", ends.server_s != 0 ? ends.ca_s : 0},
        {"this client's certificate", ends.client_s},
    };
    bool soon = false;
    sentence[0] = '\0';
    for (size_t i = 0; i < sizeof clauses / sizeof clauses[0]; i++) {
        if (clauses[i].end_s != 0) {
            append_clause(&clauses[i], now_s, sentence);
            soon = soon || clauses[i].end_s < now_s + SOON_S;
        }
    }
    return soon;
}
