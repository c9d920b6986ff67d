#include "fleet/member.h"

#include "fleet/figure.h"
#include "hosted/files.h"
#include "hosted/log.h"
#include "util/bytes.h"
#include "version.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLE 200u // test examples of the short evaluation
#define CODE_MAX 64 // bytes of a join code with the NUL
#define STACK_BYTES                                                                                \
    (512u << 10) // of a client's thread; enough for TLS and a reply, no large arrays

// --- Events of the client

// Round n commits version n.
static struct tern_participation participation_of(const struct tern_member *member, uint32_t round)
{
    const struct tern_meter *meter = tern_client_meter_round(&member->client);
    return (struct tern_participation){
        .version = round,
        .client = member->number,
        .local_steps = member->work.local_steps,
        .up = tern_meter_total(meter, TERN_UP),
        .down = tern_meter_total(meter, TERN_DOWN),
        .train_ms = 1e3 * member->work.train_seconds,
        .codec_ms = 1e3 * member->work.codec_seconds,
        .device_ms = member->work.device_ms,
    };
}

// The aggregator expects a figure for each version. For versions that the fleet skips the evaluator measures only
// SAMPLE examples.
static void measure_on(struct tern_member *member, uint32_t version)
{
    member->measures = version % member->evaluate_every == 0 || version == member->planned_rounds;
    member->seat.test = member->test;
    if (!member->measures && member->test.count > SAMPLE) {
        member->seat.test.count = SAMPLE;
    }
}

static void set_busy(struct tern_member *member, bool busy)
{
    if (member->busy != busy) {
        member->busy = busy;
        tern_progress_busy(member->progress, busy);
    }
}

static void note_codec(struct tern_member *member)
{
    const tern_Task *task = &member->client.task;
    char masked[TERN_CODEC_SPEC_MAX];
    snprintf(masked, sizeof masked, "masked:bits=%u", (unsigned)task->secure.bits);
    tern_progress_codec(member->progress, task->has_secure ? masked : task->codec);
}

static void on_task(struct tern_member *member, const struct tern_client_event *event)
{
    member->work = (struct tern_member_work){0};
    tern_shares_train(member->columns.shares);
    tern_progress_task(member->progress, event->round, event->version);
    if (member->evaluator) {
        measure_on(member, event->version);
    } else {
        set_busy(member, true);
        note_codec(member);
    }
}

static void on_uploaded(struct tern_member *member, const struct tern_client_event *event)
{
    set_busy(member, false);
    if (event->result == TERN_OK) {
        const struct tern_participation participation = participation_of(member, event->round);
        tern_progress_update(member->progress, &participation);
        member->last_version = event->round - 1;
    } else {
        tern_log(TERN_LOG_WARN, "update-not-applied", "client=%s round=%u result=%s", member->name,
                 event->round, tern_result_name(event->result));
    }
}

// Multiplies the values of the masked update by fleet.attack_scale. A mask is added, so what is added to masked values is added to the
// values.
static enum tern_result multiply_masked(struct tern_client *client, uint32_t times)
{
    const struct tern_secure_round round = {.share = client->masked.share,
                                            .bits = client->masked.bits};
    const struct tern_masked_shape shape = tern_masked_shape_of(client->work.model, &round);
    tern_Update message;
    struct tern_span container;
    if (client->stored_update != NULL) {
        return TERN_ERR_STATE; // the store has it, not the workspace
    }
    TERN_TRY(tern_wire_decode_update(client->work.blob, client->pending.len, &message, &container));
    uint8_t *values = malloc(container.len);
    if (values == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    memcpy(values, container.data, container.len);
    const enum tern_result result = tern_masked_remove_mask(&shape, client->masked.key, values);
    for (uint32_t i = 1; result == TERN_OK && i < times; i++) {
        tern_masked_add(&shape, client->work.blob + (container.data - client->work.blob), values);
    }
    free(values);
    return result;
}

static enum tern_result handle_masked(struct tern_member *member)
{
    TERN_TRY(tern_open_sums_add(&member->progress->open_sums, &member->client));
    return member->attacker.kind == TERN_ATTACK_SCALED
               ? multiply_masked(&member->client, (uint32_t)member->attacker.scale)
               : TERN_OK;
}

static void on_encoded(struct tern_member *member)
{
    const struct tern_client *client = &member->client;
    const enum tern_result result = client->pending.masked ? handle_masked(member) : TERN_OK;
    if (result !=
        TERN_OK) { // the open sum then differs from the aggregator's, or the update is honest
        tern_log(TERN_LOG_ERROR, "open-sum", "client=%s round=%u result=%s", member->name,
                 client->pending.round, tern_result_name(result));
    }
    tern_pool_release(&member->seat);
}

// Divergence caused by an attacker does not count as a problem of the settings.
static bool is_divergence(const struct tern_member *member, enum tern_result result)
{
    if (member->device.attack != TERN_ATTACK_NONE) {
        return false;
    }
    return result == TERN_ERR_TRAINER || result == TERN_ERR_NON_FINITE ||
           result == TERN_ERR_NORM_LIMIT;
}

static void on_evaluated(struct tern_member *member, const struct tern_client_event *event)
{
    const bool accuracy = member->measures && !event->evaluation->no_accuracy;
    if (member->measures && event->evaluation->no_accuracy) {
        tern_progress_figures(member->progress, event->version, event->evaluation);
    }
    tern_progress_evaluation(member->progress, event->version,
                             accuracy ? (double)event->accuracy : NAN, (double)event->loss);
}

static void on_event(void *ctx, const struct tern_client_event *event)
{
    struct tern_member *member = ctx;
    switch ((int)event->kind) {
    case TERN_EVENT_TASK:
        on_task(member, event);
        break;
    case TERN_EVENT_DOWNLOADED:
        if (member->evaluator && !member->client.final) {
            tern_progress_trunk(member->progress, event->version, event->bytes);
        }
        break;
    case TERN_EVENT_TRAINED:
        member->work.local_steps = event->local_steps;
        member->work.device_ms = (double)member->client.train_ms;
        break;
    case TERN_EVENT_ENCODED:
        on_encoded(member);
        break;
    case TERN_EVENT_UPLOADED:
        on_uploaded(member, event);
        break;
    case TERN_EVENT_EVALUATED:
        if (member->evaluator &&
            !event->global) { // `tern-fleet evaluate` measures the global model
            on_evaluated(member, event);
        }
        break;
    case TERN_EVENT_FINISHED:
        tern_progress_finished(member->progress, event->final_model_hash);
        break;
    case TERN_EVENT_FAILURE:
        set_busy(member, false);
        // Log first: tern_progress_diverged() may end the process.
        tern_log(TERN_LOG_WARN, "failure",
                 "client=%s result=%s status=%d wait_ms=%u why=%s transport=%s", member->name,
                 tern_result_name(event->result), event->status, event->wait_ms,
                 TERN_LOG_TEXT(event->why), TERN_LOG_TEXT(tern_curl_why(member->transport)));
        if (is_divergence(member, event->result)) {
            tern_progress_diverged(member->progress, member->name, event->result);
        }
        break;
    default:
        break;
    }
}

// --- Opening

static enum tern_result check_storage(const struct tern_fleet_settings *settings, char why[512])
{
    const char *name = settings->fleet_error_buffer;
    enum tern_error_storage storage;
    if (tern_error_storage_choose(name, 0, &storage) == TERN_OK) {
        return TERN_OK;
    }
    snprintf(why, 512, "fleet.error_buffer '%s' is not one of auto, float32, bfloat16, int8", name);
    return TERN_ERR_CONFIG;
}

static enum tern_result check_store(const struct tern_fleet_settings *settings, char why[512])
{
    const char *store = settings->fleet_store;
    if (strcmp(store, "memory") == 0 || strcmp(store, "files") == 0) {
        return TERN_OK;
    }
    snprintf(why, 512, "fleet.store '%s' is not one of memory, files", store);
    return TERN_ERR_CONFIG;
}

static enum tern_result open_store(struct tern_member *member,
                                   const struct tern_fleet_settings *settings,
                                   struct tern_store *store, char why[512])
{
    char path[512];
    TERN_TRY(check_store(settings, why));
    if (strcmp(settings->fleet_store, "memory") == 0) {
        *store = tern_memory_store_port(&member->memory);
        return TERN_OK;
    }
    if (tern_file_make_folders(settings->fleet_state_dir, 0700) != TERN_OK) {
        snprintf(why, 512, "cannot make the directory '%s'", settings->fleet_state_dir);
        return TERN_ERR_IO;
    }
    snprintf(path, sizeof path, "%s/%s", settings->fleet_state_dir, member->name);
    TERN_TRY(tern_file_store_open(&member->files, path, why));
    *store = tern_file_store_port(member->files);
    return TERN_OK;
}

enum tern_result tern_member_check(const struct tern_fleet_settings *settings, uint32_t number,
                                   char why[512])
{
    struct tern_device device;
    TERN_TRY(tern_device_make(settings, number, &device, why));
    TERN_TRY(check_storage(settings, why));
    return check_store(settings, why);
}

// Saves what earlier runs counted, to subtract it from this run's bytes.
static void remember_meter(struct tern_member *member)
{
    if (tern_client_load_meter(&member->client) == TERN_OK) {
        member->before = *tern_client_meter_all(&member->client);
    }
}

// Copies client `number`'s join code; clients take the codes in turn. `codes` has at least one.
static void code_of(const char *codes, uint32_t number, char code[CODE_MAX])
{
    const char *at = codes + strspn(codes, " ");
    for (uint32_t i = 1; i < number; i++) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
        at = *at == '\0' ? codes + strspn(codes, " ") : at;
    }
    snprintf(code, CODE_MAX, "%.*s", (int)strcspn(at, " "), at);
}

// Enrols a client, or reads its stored identity. A client that joins late does this in its own thread. Errors of
// tern_client_identify() and tern_client_enroll()
static enum tern_result member_enroll(struct tern_member *member, char why[512])
{
    const struct tern_fleet_settings *settings = member->settings;
    char code[CODE_MAX];
    code_of(settings->fleet_join_code, member->number, code);
    remember_meter(member);
    enum tern_result result = tern_client_identify(&member->client);
    if (result == TERN_ERR_NOT_FOUND) {
        do {
            result = tern_client_enroll(&member->client, code);
        } while (result == TERN_AGAIN);
    }
    if (result != TERN_OK) {
        snprintf(why, 512, "%s could not enrol with %.100s: %s %.200s", member->name,
                 settings->fleet_server, tern_result_sentence(result),
                 tern_curl_why(member->transport));
    }
    return result;
}

// Sets the helper's key and code of a client that trains.
static enum tern_result set_helper(struct tern_member *member, struct tern_client_config *config,
                                   char why[512])
{
    const struct tern_fleet_settings *settings = member->settings;
    const char *key = settings->secure_helper_key;
    if (key[0] == '\0' || member->evaluator) {
        return TERN_OK;
    }
    if (settings->secure_code[0] == '\0' ||
        tern_base64url_decode(key, strlen(key), member->helper_key, sizeof member->helper_key) !=
            TERN_OK ||
        member->helper_key[0] != 4) { // an uncompressed point
        snprintf(why, 512,
                 "secure.helper_key = %s is not the 87 characters that tern-helper init prints, or "
                 "secure.code is not "
                 "set",
                 key);
        return TERN_ERR_CONFIG;
    }
    config->helper_key = member->helper_key;
    config->helper_code = settings->secure_code;
    config->secure_min_clients = settings->secure_min_clients;
    return TERN_OK;
}

enum tern_result tern_member_open(struct tern_member *member,
                                  const struct tern_fleet_settings *settings,
                                  struct tern_progress *progress, char why[512])
{
    struct tern_client_config config = {0};
    snprintf(member->name, sizeof member->name, "fleet-%04u", member->number);
    member->progress = progress;
    member->settings = settings;
    member->evaluate_every = settings->fleet_evaluate_every;
    member->clock.real = tern_posix_clock();
    if (!member->evaluator) {
        TERN_TRY(tern_device_make(settings, member->number, &member->device, why));
        member->clock.speed = member->device.speed;
    }
    TERN_TRY(check_storage(settings, why));
    TERN_TRY(open_store(member, settings, &config.ports.store, why));
    const struct tern_curl_config transport = {.server = settings->fleet_server,
                                               .ca_file = settings->fleet_ca};
    TERN_TRY(tern_curl_open(&member->transport, &transport, why));
    config.ports.transport = tern_curl_port(member->transport);
    config.ports.clock = tern_virtual_clock_port(&member->clock);
    config.ports.entropy = tern_posix_entropy();
    config.ports.conditions = tern_posix_conditions_port(&member->conditions);
    config.name = member->name;
    config.platform = "linux tern-fleet/" TERN_VERSION;
    config.evaluator = member->evaluator;
    config.takes_manifests = true;
    config.wait_ms = (uint32_t)settings->fleet_wait;
    config.budget_per_month = member->device.budget;
    config.on_event = on_event;
    config.ctx = member;
    TERN_TRY(set_helper(member, &config, why));
    TERN_TRY(tern_client_init(&member->client, &config));
    return member->device.joins > 0 ? TERN_OK : member_enroll(member, why);
}

// --- Running

// A member's thread steps its client until the federation finishes, and simulates its device: late joining, missed
// rounds, a slow processor.

#define GRACE_MS 500
#define LOOK_MS 20 // milliseconds between checks of a client that waits for a version or round

static void sleep_ms(uint32_t ms)
{
    const struct timespec time = {.tv_sec = (time_t)(ms / 1000),
                                  .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// --- One measured step

static enum tern_result measured_step(struct tern_member *member)
{
    const enum tern_client_phase phase = tern_client_phase(&member->client);
    const double start = processor_seconds();
    const enum tern_result result = tern_client_step(&member->client);
    const double took = processor_seconds() - start;
    if (phase == TERN_PHASE_TRAIN) {
        member->work.train_seconds += took;
    } else if (phase == TERN_PHASE_DOWNLOAD || phase == TERN_PHASE_ENCODE) {
        member->work.codec_seconds += took;
    }
    if (phase == TERN_PHASE_ENCODE) {
        tern_progress_encoded(member->progress, took);
    }
    return result;
}

// Advances the device's clock before the client core reads it.
static enum tern_result step(struct tern_member *member)
{
    if (tern_client_phase(&member->client) != TERN_PHASE_TRAIN) {
        return measured_step(member);
    }
    if (member->client.training) {
        tern_virtual_clock_step(&member->clock);
    } else {
        tern_virtual_clock_begin(&member->clock);
    }
    const enum tern_result result = measured_step(member);
    if (tern_client_phase(&member->client) != TERN_PHASE_TRAIN) {
        tern_virtual_clock_end(&member->clock);
    }
    return result;
}

// --- Late joining and missed rounds

// Waits for the version at which a late client joins, then enrols it.
static enum tern_result join(struct tern_member *member)
{
    char why[512];
    if (member->device.joins == 0) {
        return TERN_OK;
    }
    while (!tern_progress_has_version(member->progress, member->device.joins)) {
        sleep_ms(LOOK_MS);
    }
    const enum tern_result result = member_enroll(member, why);
    if (result != TERN_OK) {
        tern_log(TERN_LOG_WARN, "not-enrolled", "why=%s", TERN_LOG_TEXT(why));
        return result;
    }
    member->arriving = true;
    return tern_client_restore(&member->client, &member->workspace);
}

// A client misses a round once: if the round is extended, the client answers.
static bool misses_its_round(const struct tern_member *member)
{
    const uint32_t round = member->client.task.round;
    return tern_client_phase(&member->client) == TERN_PHASE_DOWNLOAD && !member->evaluator &&
           (tern_device_is_away(&member->device, round) ||
            (round != member->missed && tern_device_misses(&member->device, round)));
}

static void wait_until_past(const struct tern_member *member, uint32_t round, uint64_t at_most_ms)
{
    const struct tern_clock *clock = &member->clock.real;
    const uint64_t since = clock->monotonic_ms(clock->ctx);
    while (!tern_progress_is_past(member->progress, round) &&
           clock->monotonic_ms(clock->ctx) - since < at_most_ms) {
        sleep_ms(LOOK_MS);
    }
}

// Simulates a power loss during a task: after some rounds the client continues from its stored state.
static enum tern_result miss_round(struct tern_member *member)
{
    const uint32_t round = member->client.task.round;
    const bool away = tern_device_is_away(&member->device, round);
    const uint64_t window = (uint64_t)member->client.task.window_ms + GRACE_MS;
    TERN_TRY(tern_client_end(&member->client));
    wait_until_past(member, round, away ? UINT64_MAX : window);
    member->missed = round;
    member->arriving = member->arriving || away;
    return tern_client_restore(&member->client, &member->workspace);
}

// Returns whether training ended after the round's window on the device's clock. Its update is then sent after the
// round.
static bool is_late(const struct tern_member *member)
{
    const struct tern_client *client = &member->client;
    return member->clock.speed > 0 && tern_client_phase(client) == TERN_PHASE_UPLOAD &&
           client->task.window_ms > 0 && client->train_ms > client->task.window_ms &&
           !member->work.was_late;
}

// Waits at most GRACE_MS longer than the window: a round that is then open was extended.
static void be_late(struct tern_member *member)
{
    member->work.was_late = true;
    const tern_Task *task = &member->client.task;
    wait_until_past(member, task->round, (uint64_t)task->window_ms + GRACE_MS);
}

static enum tern_result arrive(struct tern_member *member)
{
    struct tern_evaluate_result found;
    struct tern_pool_seat seat = {.pool = member->seat.pool, .test = member->test};
    const struct tern_trainer port = tern_pool_port(&seat);
    const struct tern_client *client = &member->client;
    TERN_TRY(
        port.evaluate(port.ctx, tern_client_weights(client), client->work.model->count, &found));
    const uint32_t newest = client->task.round - 1;
    const struct tern_arrival arrival = {
        .client = member->number,
        .version = newest,
        .missed = newest - member->last_version,
        .down = tern_meter_total(tern_client_meter_round(client), TERN_DOWN),
        .accuracy = tern_figure_value(&found),
    };
    tern_progress_arrival(member->progress, &arrival);
    member->arriving = false;
    return TERN_OK;
}

static enum tern_result live(struct tern_member *member)
{
    if (misses_its_round(member)) {
        return miss_round(member);
    }
    if (is_late(member)) {
        be_late(member);
    }
    if (member->arriving && tern_client_phase(&member->client) == TERN_PHASE_TRAIN) {
        return arrive(member);
    }
    return TERN_OK;
}

// --- All of it

// A client without budget left would wait for hours: it ends as soon as the run is over.
static bool is_done(struct tern_member *member)
{
    return tern_client_phase(&member->client) == TERN_PHASE_FINISHED ||
           tern_progress_is_stopped(member->progress) ||
           (member->device.budget > 0 && tern_client_next_ms(&member->client) > 0 &&
            tern_progress_is_past(member->progress, UINT32_MAX));
}

// Releases the trainer of a client whose training or encoding failed: other clients wait for it.
static void give_up_worker(struct tern_member *member)
{
    const enum tern_client_phase phase = tern_client_phase(&member->client);
    if (phase != TERN_PHASE_TRAIN && phase != TERN_PHASE_ENCODE) {
        tern_pool_release(&member->seat);
    }
}

static void wait_for_client(const struct tern_member *member)
{
    const uint32_t ms = tern_client_next_ms(&member->client);
    sleep_ms(member->device.budget > 0 && ms > LOOK_MS ? LOOK_MS : ms);
}

// Body of the member's thread. argument: a struct tern_member. Returns NULL.
static void *member_main(void *argument)
{
    struct tern_member *member = argument;
    char why[256] = "";
    enum tern_result result = join(member);
    while (result == TERN_OK && !is_done(member)) {
        result = step(member);
        give_up_worker(member);
        if (result == TERN_AGAIN) {
            wait_for_client(member);
            result = TERN_OK;
        } else if (result == TERN_OK) {
            result = live(member);
        }
    }
    tern_pool_release(&member->seat);
    if (result != TERN_OK) {
        snprintf(why, sizeof why, "%s stopped: %s (%s)", member->name, tern_result_sentence(result),
                 tern_result_name(result));
    }
    tern_progress_end(member->progress, result, why);
    return NULL;
}

// --- Starting

static enum tern_result take_memory(struct tern_member *member, const struct tern_model *model)
{
    struct tern_client_workspace *workspace = &member->workspace;
    *workspace = (struct tern_client_workspace){.model = model};
    TERN_TRY(tern_error_storage_choose(member->settings->fleet_error_buffer, model->coded,
                                       &workspace->error_storage));
    workspace->blob_size = tern_client_blob_bound(model);
    member->weights = calloc(model->count, sizeof *member->weights);
    member->error_buffer =
        calloc(1, tern_error_storage_bytes(workspace->error_storage, model->coded));
    member->velocity = malloc(model->count * sizeof *member->velocity);
    member->anchor = malloc(2 * (size_t)model->count * sizeof *member->anchor);
    member->blob = malloc(workspace->blob_size);
    uint32_t first = 0;
    member->local = malloc((tern_model_local(model, &first) + 1) * sizeof *member->local);
    member->attacker = (struct tern_attacker){.kind = member->device.attack,
                                              .scale = member->settings->fleet_attack_scale,
                                              .seed = member->device.seed,
                                              .number = member->number,
                                              .trainer = tern_pool_port(&member->seat)};
    workspace->trainer = tern_attack_port(&member->attacker);
    workspace->columns = tern_shares_columns_port(&member->columns);
    workspace->weights = member->weights;
    workspace->error_buffer = member->error_buffer;
    workspace->velocity = member->velocity;
    workspace->anchor = member->anchor;
    workspace->blob = member->blob;
    workspace->local = member->local;
    return member->weights != NULL && member->error_buffer != NULL && member->velocity != NULL &&
                   member->anchor != NULL && member->blob != NULL && member->local != NULL
               ? TERN_OK
               : TERN_ERR_NO_MEMORY;
}

static enum tern_result start_thread(struct tern_member *member)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    tern_progress_start(member->progress);
    member->started = pthread_create(&member->thread, &attributes, member_main, member) == 0;
    pthread_attr_destroy(&attributes);
    return member->started ? TERN_OK : TERN_ERR_NO_MEMORY;
}

enum tern_result tern_member_restore(struct tern_member *member, const struct tern_model *model,
                                     char why[512])
{
    enum tern_result result = take_memory(member, model);
    if (result == TERN_OK && member->device.joins == 0) {
        result = tern_client_restore(&member->client, &member->workspace);
    }
    if (result != TERN_OK) {
        snprintf(why, 512, "%s cannot restore its state: %s", member->name,
                 tern_result_sentence(result));
    }
    member->last_version = tern_client_version(&member->client);
    return result;
}

enum tern_result tern_member_start(struct tern_member *member, char why[512])
{
    enum tern_result result = start_thread(member);
    if (result != TERN_OK) {
        snprintf(why, 512, "%s could not start: %s", member->name, tern_result_sentence(result));
    }
    return result;
}

// Cannot wrap around: a meter only grows.
static void subtract(struct tern_bytes *from, const struct tern_bytes *bytes)
{
    from->payload -= bytes->payload;
    from->http -= bytes->http;
    from->tls -= bytes->tls;
    from->wire -= bytes->wire;
}

struct tern_bytes tern_member_bytes(const struct tern_member *member, enum tern_direction direction)
{
    struct tern_bytes bytes = tern_meter_total(tern_client_meter_all(&member->client), direction);
    const struct tern_bytes before = tern_meter_total(&member->before, direction);
    subtract(&bytes, &before);
    return bytes;
}

void tern_member_join(struct tern_member *member)
{
    if (member->started) {
        pthread_join(member->thread, NULL);
        member->started = false;
    }
}

void tern_member_close(struct tern_member *member)
{
    tern_member_join(member);
    tern_curl_close(member->transport);
    tern_file_store_close(member->files);
    tern_memory_store_clear(&member->memory);
    free(member->weights);
    free(member->error_buffer);
    free(member->velocity);
    free(member->anchor);
    free(member->blob);
    free(member->local);
}
