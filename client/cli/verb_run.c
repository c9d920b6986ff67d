// `tern-client run` and `tern-client once`: take part until the end or for one round. Logs the client's events and shows
// its progress.
#include "cli/client_data.h"
#include "cli/external_trainer.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "client.h"
#include "hosted/cli.h"
#include "hosted/host.h"
#include "hosted/log.h"
#include "hosted/system.h"
#include "hosted/terminal.h"
#include "posix/transport.h"
#include "util/bytes.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// --- The progress line below the log of `run` on a terminal

struct progress {
    bool shown; // show the line, since stderr is a terminal
    enum tern_client_phase phase;
    uint32_t round;       // round of the last task
    uint32_t local_steps; // steps of the last task
    uint32_t steps;       // completed steps
    uint64_t shown_ms;    // time of the last output
};

#define PROGRESS_TEXT_MAX 160

#define INTERVAL_MS 100
#define NOTED_WAIT_MS 1000 // shorter waits occur within an exchange and are not shown

static void progress_start(struct progress *progress)
{
    *progress = (struct progress){.shown = tern_terminal_width(STDERR_FILENO) > 0};
}

static void progress_on_event(struct progress *progress, const struct tern_client_event *event)
{
    if (event->kind == TERN_EVENT_TASK && event->round != 0) {
        progress->round = event->round;
        progress->local_steps = event->local_steps;
        progress->steps = 0;
    }
}

static void write_work(const struct progress *progress, char text[PROGRESS_TEXT_MAX])
{
    static const char *const work[] = {
        [TERN_PHASE_DOWNLOAD] = "downloading the model",
        [TERN_PHASE_TRAIN] = "training",
        [TERN_PHASE_ENCODE] = "compressing the update",
        [TERN_PHASE_UPLOAD] = "sending the update",
    };
    if (progress->phase == TERN_PHASE_TRAIN && progress->steps > 0) {
        snprintf(text, PROGRESS_TEXT_MAX,
                 "round %" PRIu32 ": training, step %" PRIu32 " of %" PRIu32, progress->round,
                 progress->steps, progress->local_steps);
    } else {
        snprintf(text, PROGRESS_TEXT_MAX, "round %" PRIu32 ": %s", progress->round,
                 work[progress->phase]);
    }
}

// Writes the progress line. wait_ms: time until the next step; 0: the client is working.
static void progress_text(const struct progress *progress, uint32_t wait_ms, uint64_t rounds,
                          char text[PROGRESS_TEXT_MAX])
{
    const char *doing = progress->phase == TERN_PHASE_EVALUATE ? "evaluating" : "checking in";
    if (wait_ms >= NOTED_WAIT_MS) {
        snprintf(text, PROGRESS_TEXT_MAX, "waiting, %" PRIu32 " s to go; rounds done: %" PRIu64,
                 wait_ms / 1000, rounds);
    } else if (progress->phase >= TERN_PHASE_DOWNLOAD && progress->phase <= TERN_PHASE_UPLOAD) {
        write_work(progress, text);
    } else {
        snprintf(text, PROGRESS_TEXT_MAX, "%s; rounds done: %" PRIu64, doing, rounds);
    }
}

// Updates the progress line after tern_client_step() has returned `result`.
static void progress_step(struct progress *progress, const struct tern_client *client,
                          enum tern_result result)
{
    char text[PROGRESS_TEXT_MAX];
    if (!progress->shown) {
        return;
    }
    const enum tern_client_phase phase = tern_client_phase(client);
    const bool stepped = phase == TERN_PHASE_TRAIN && progress->phase == phase &&
                         progress->steps < progress->local_steps;
    const uint64_t now_ms = tern_monotonic_ms();
    progress->steps += result == TERN_OK && stepped;
    if (phase == progress->phase && now_ms < progress->shown_ms + INTERVAL_MS) {
        return; // many steps are shorter than INTERVAL_MS, and terminals on serial lines are slow
    }
    progress->shown_ms = now_ms;
    progress->phase = phase;
    progress_text(progress, result == TERN_AGAIN ? tern_client_next_ms(client) : 0,
                  tern_client_budget(client)->rounds, text);
    tern_log_progress(text);
}

static void progress_end(struct progress *progress)
{
    if (progress->shown) {
        tern_log_progress("");
    }
}

// --- The log

struct event_logger {
    bool once;                               // `once`: stop after one round
    int exit_code;                           // `once`: exit code that the round's result determines
    bool ended;                              // `once`: the round is over
    const struct tern_curl *curl;            // explains network errors; may be NULL
    const struct external_trainer *external; // explains evaluation errors; may be NULL
    struct watched_trainer *watched;         // explains training errors; may be NULL
    const char *state_dir;                   // receives the saved training failure
    uint64_t expiry_warned_s; // time of the last warning about a certificate; 0 = none
    struct progress *progress;
    // the device started with this version's global model; 0 = with a replica
    uint32_t global_version;
    bool evaluated;
    // `once`: the event that ended the round, or the last failure; its `why` is copied below
    struct tern_client_event last;
    char why[256];
};

// After a failure the log shows this many of the last lines of the trainer's output.
#define OUTPUT_LINES 5

static const char *last_lines(const char *output, int lines)
{
    const char *from = output + strlen(output);
    for (; from > output; from--) {
        if (from[-1] == '\n' && *from != '\0' && --lines == 0) {
            return from;
        }
    }
    return from;
}

static void log_output(const char *output)
{
    const char *from = last_lines(output, OUTPUT_LINES);
    while (*from != '\0') {
        char line[TERN_LOG_TEXT_MAX];
        const size_t len = strcspn(from, "\n");
        snprintf(line, sizeof line, "%.*s", (int)len, from);
        tern_log(TERN_LOG_WARN, "trainer-output", "line=%s", TERN_LOG_TEXT(line));
        from += from[len] == '\n' ? len + 1 : len;
    }
}

#define ROUND_MAX 24

// Returns "round=7 ", or "" if the event belongs to no round, like the events of evaluators.
static const char *round_of(const struct tern_client_event *event, char text[ROUND_MAX])
{
    text[0] = '\0';
    if (event->round != 0) {
        snprintf(text, ROUND_MAX, "round=%u ", event->round);
    }
    return text;
}

static void log_metrics(const struct event_logger *logger, const struct tern_client_event *event)
{
    const char *metrics = logger->external != NULL ? tern_external_metrics(logger->external) : "";
    if (metrics[0] == '\0') {
        return;
    }
    char round[ROUND_MAX];
    tern_log(TERN_LOG_INFO, "trainer-metrics", "%sversion=%u metrics=%s", round_of(event, round),
             event->version, TERN_LOG_TEXT(metrics));
}

static bool has_failed(const struct event_logger *logger)
{
    return logger->watched != NULL && logger->watched->failed;
}

// Returns the explanation of the trainer or transport that has failed, which the log adds to the event's reason.
static const char *detail_of(const struct event_logger *logger, enum tern_result result)
{
    if (has_failed(logger)) {
        return logger->watched->failure.why;
    }
    if (result == TERN_ERR_NETWORK || result == TERN_ERR_TLS) {
        return logger->curl != NULL ? tern_curl_why(logger->curl) : "";
    }
    const bool trained = result == TERN_ERR_TRAINER || result == TERN_ERR_IO ||
                         result == TERN_ERR_NO_SPACE || result == TERN_ERR_NO_MEMORY;
    return trained && logger->external != NULL ? tern_external_why(logger->external) : "";
}

// Logs the accuracy, or the first metric of a model without classes.
static void log_evaluated(const char *name, const struct tern_client_event *event,
                          const char *model)
{
    const struct tern_evaluate_result *found = event->evaluation;
    const bool metric = found->no_accuracy && found->metric_count > 0;
    char figure[TERN_METRIC_NAME_MAX + 32] = "";
    if (metric || !found->no_accuracy) {
        snprintf(figure, sizeof figure, " %s=%.4f", metric ? found->metrics[0].name : "accuracy",
                 metric ? (double)found->metrics[0].value : (double)event->accuracy);
    }
    char round[ROUND_MAX];
    tern_log(TERN_LOG_INFO, name, "%sversion=%u model=%s%s loss=%.4f num_examples=%u",
             round_of(event, round), event->version, model, figure, (double)event->loss,
             event->num_examples);
}

// Returns whether the evaluated model is a global model, which this process or an earlier one has downloaded.
static bool is_global(const struct event_logger *logger, const struct tern_client_event *event)
{
    return event->global || (event->version != 0 && event->version == logger->global_version);
}

static void log_progress(const struct event_logger *logger, const struct tern_client_event *event)
{
    const char *name = tern_client_event_name(event->kind);
    char round[ROUND_MAX];
    switch ((int)event->kind) {
    case TERN_EVENT_TASK:
        tern_log(TERN_LOG_INFO, name, "round=%u version=%u local_steps=%u download_bytes=%" PRIu64,
                 event->round, event->version, event->local_steps, event->bytes);
        break;
    case TERN_EVENT_DOWNLOADED:
        tern_log(TERN_LOG_INFO, name, "%sversion=%u bytes=%" PRIu64, round_of(event, round),
                 event->version, event->bytes);
        break;
    case TERN_EVENT_TRAINED:
        tern_log(TERN_LOG_INFO, name, "round=%u loss=%.4f local_steps=%u num_examples=%u",
                 event->round, (double)event->loss, event->local_steps, event->num_examples);
        break;
    case TERN_EVENT_ENCODED:
        tern_log(TERN_LOG_INFO, name, "round=%u sequence=%u bytes=%" PRIu64, event->round,
                 event->sequence, event->bytes);
        break;
    case TERN_EVENT_TICKET:
        tern_log(TERN_LOG_INFO, name, "epoch=%u", event->epoch);
        break;
    case TERN_EVENT_SETTLED:
        tern_log(TERN_LOG_INFO, name, "round=%u sequence=%u result=%s", event->round,
                 event->sequence, event->counted ? "counted" : "given-back");
        break;
    case TERN_EVENT_STATISTICS:
        tern_log(TERN_LOG_INFO, name, "num_examples=%u bytes=%" PRIu64, event->num_examples,
                 event->bytes);
        break;
    case TERN_EVENT_SCALED:
        tern_log(TERN_LOG_INFO, name, "bytes=%" PRIu64, event->bytes);
        break;
    case TERN_EVENT_OTHER_COLUMNS:
        tern_log(TERN_LOG_WARN, name, "why=%s", TERN_LOG_TEXT(CLIENT_OTHER_COLUMNS));
        break;
    case TERN_EVENT_EVALUATED:
        log_evaluated(name, event, is_global(logger, event) ? "global" : "replica");
        break;
    default:
        break;
    }
}

// Logs advice about failed training and about updates that are too large.
static void log_advice(const struct event_logger *logger, enum tern_result result)
{
    const char *hint = has_failed(logger) ? logger->watched->failure.hint : "";
    if (hint[0] != '\0') {
        tern_log(TERN_LOG_WARN, "hint", "why=%s", TERN_LOG_TEXT(hint));
    } else if (result == TERN_ERR_NORM_LIMIT) {
        tern_log(
            TERN_LOG_WARN, "hint", "why=%s",
            TERN_LOG_TEXT("the update's norm is above limits.norm: unscaled columns (tern-client "
                          "check), a high train.learning_rate or local_steps, an error buffer "
                          "after missed rounds, or a limit too low for this model"));
    } else if (result == TERN_ERR_NON_FINITE) {
        tern_log(
            TERN_LOG_WARN, "hint", "why=%s",
            TERN_LOG_TEXT("a value of the update is not finite: columns are not scaled "
                          "(tern-client check names them), or train.learning_rate is too high"));
    }
}

static void log_uploaded(const struct tern_client_event *event)
{
    const bool applied = event->result == TERN_OK;
    const char *answer = applied ? "accepted" : tern_result_name(event->result);
    tern_log(applied || event->result == TERN_ERR_LATE ? TERN_LOG_INFO : TERN_LOG_WARN,
             tern_client_event_name(event->kind),
             "round=%u sequence=%u answer=%s bytes=%" PRIu64 " round_wire_bytes=%" PRIu64,
             event->round, event->sequence, event->duplicate ? "duplicate" : answer, event->bytes,
             event->round_bytes);
}

static void log_pause(const struct event_logger *logger, const struct tern_client_event *event)
{
    const char *name = tern_client_event_name(event->kind);
    switch ((int)event->kind) {
    case TERN_EVENT_WAITING:
        tern_log(TERN_LOG_INFO, name, "wait_ms=%u why=%s", event->wait_ms,
                 TERN_LOG_TEXT(event->why));
        break;
    case TERN_EVENT_PAUSED:
        tern_log(TERN_LOG_INFO, name, "round=%u sequence=%u look_again_ms=%u why=%s", event->round,
                 event->sequence, event->wait_ms, TERN_LOG_TEXT(event->why));
        break;
    case TERN_EVENT_RESUMED:
        tern_log(TERN_LOG_INFO, name, "round=%u sequence=%u paused_ms=%u", event->round,
                 event->sequence, event->wait_ms);
        break;
    case TERN_EVENT_FAILURE: {
        const char *detail = detail_of(logger, event->result);
        tern_log(TERN_LOG_WARN, name, "result=%s status=%d wait_ms=%u why=%s%s%s",
                 tern_result_name(event->result), event->status, event->wait_ms,
                 TERN_LOG_TEXT(event->why), detail[0] != '\0' ? " detail=" : "",
                 detail[0] != '\0' ? TERN_LOG_TEXT(detail) : "");
        log_advice(logger, event->result);
        if (event->result == TERN_ERR_TRAINER && logger->external != NULL) {
            log_output(tern_external_output(logger->external));
        }
        break;
    }
    case TERN_EVENT_BUDGET:
        tern_log(TERN_LOG_WARN, name,
                 "expected_bytes=%" PRIu64 " budget_left=%" PRIu64 " wait_ms=%u why=%s",
                 event->bytes, event->budget_left, event->wait_ms, TERN_LOG_TEXT(event->why));
        break;
    case TERN_EVENT_STARTED_OVER:
        tern_log(TERN_LOG_WARN, name, "result=%s why=%s", tern_result_name(event->result),
                 TERN_LOG_TEXT(event->why));
        break;
    default:
        break;
    }
}

static void log_finished(const struct tern_client_event *event)
{
    char hash[2 * TERN_SHA256_SIZE + 1] = "";
    if (event->final_model_hash != NULL) {
        tern_hex_encode(event->final_model_hash, TERN_SHA256_SIZE, hash);
    }
    tern_log(TERN_LOG_INFO, tern_client_event_name(event->kind),
             "held_version=%u final_model_hash=%s", event->version, hash);
}

// --- One round

static void keep_last(struct event_logger *logger, const struct tern_client_event *event)
{
    if (!logger->ended) {
        logger->last = *event;
        snprintf(logger->why, sizeof logger->why, "%s", event->why != NULL ? event->why : "");
    }
}

static void end_round(struct event_logger *logger, const struct tern_client_event *event,
                      int exit_code)
{
    if (!logger->ended) {
        keep_last(logger, event);
        logger->ended = true;
        logger->exit_code = exit_code;
    }
}

static int code_of_answer(enum tern_result answer)
{
    return answer == TERN_OK || answer == TERN_ERR_LATE ? TERN_EXIT_OK : TERN_EXIT_REFUSED;
}

// Returns whether `once` may end at this pause. In the middle of training it waits, since ending would discard the training.
static bool may_end_while_paused(const struct tern_client_event *paused)
{
    return paused->round == 0 || paused->sequence != 0;
}

// Detects the event that ends the round of `once`. The round of an evaluator ends when the aggregator has answered the check-in
// that reports the evaluation.
static void detect_end(struct event_logger *logger, const struct tern_client_event *event)
{
    switch ((int)event->kind) {
    case TERN_EVENT_UPLOADED:
        end_round(logger, event, code_of_answer(event->result));
        break;
    case TERN_EVENT_EVALUATED:
        logger->evaluated = event->round == 0;
        break;
    case TERN_EVENT_TASK:
        if (logger->evaluated) {
            end_round(logger, event, TERN_EXIT_OK);
        }
        break;
    case TERN_EVENT_PAUSED:
        if (may_end_while_paused(event)) {
            end_round(logger, event, TERN_EXIT_NOTHING);
        }
        break;
    case TERN_EVENT_WAITING:
    case TERN_EVENT_FINISHED:
        end_round(logger, event, logger->evaluated ? TERN_EXIT_OK : TERN_EXIT_NOTHING);
        break;
    case TERN_EVENT_BUDGET:
        end_round(logger, event, TERN_EXIT_NOTHING);
        break;
    case TERN_EVENT_FAILURE:
        keep_last(logger, event);
        break;
    default:
        break;
    }
}

// Warns once a day while a certificate expires soon.
static void warn_about_expiry(struct event_logger *logger)
{
    const uint64_t now_s = (uint64_t)time(NULL);
    char sentence[EXPIRY_MAX];
    if (logger->curl != NULL && now_s >= logger->expiry_warned_s + 86400 &&
        tern_expiry_describe(logger->curl, now_s, sentence)) {
        logger->expiry_warned_s = now_s;
        tern_log(TERN_LOG_WARN, "certificate-expires", "why=%s", TERN_LOG_TEXT(sentence));
    }
}

// Saves a failure of training for `tern-client status`, and deletes it when training works again.
static void save_training_failure(struct event_logger *logger,
                                  const struct tern_client_event *event)
{
    if (event->kind == TERN_EVENT_TRAINED) {
        tern_training_failure_save(logger->state_dir, NULL);
    } else if (event->kind == TERN_EVENT_FAILURE && has_failed(logger)) {
        tern_training_failure_save(logger->state_dir, &logger->watched->failure);
        logger->watched->failed = false;
    }
}

// Logs an event of the client (tern_client_config.on_event). ctx: the struct event_logger.
static void on_event(void *ctx, const struct tern_client_event *event)
{
    struct event_logger *logger = ctx;
    switch ((int)event->kind) {
    case TERN_EVENT_UPLOADED:
        log_uploaded(event);
        break;
    case TERN_EVENT_FINISHED:
        log_finished(event);
        break;
    case TERN_EVENT_WAITING:
    case TERN_EVENT_PAUSED:
    case TERN_EVENT_RESUMED:
    case TERN_EVENT_FAILURE:
    case TERN_EVENT_BUDGET:
    case TERN_EVENT_STARTED_OVER:
        log_pause(logger, event);
        break;
    default:
        log_progress(logger, event);
        break;
    }
    if (event->kind == TERN_EVENT_TRAINED || event->kind == TERN_EVENT_EVALUATED) {
        log_metrics(logger, event);
    }
    save_training_failure(logger, event);
    warn_about_expiry(logger);
    if (logger->progress != NULL) {
        progress_on_event(logger->progress, event);
    }
    if (logger->once) {
        detect_end(logger, event);
    }
}

// --- Run

#define COUNT_DOWN_MS 1000

// --- Starting

// Logs the numbers of examples, so that users see how many are held out for evaluation by default.
static void log_data(const struct session *session)
{
    if (session->external.kind == EXTERNAL_NONE) {
        tern_log(TERN_LOG_INFO, "data", "source=%s examples=%u held_out=%u",
                 TERN_LOG_TEXT(session->settings->data_source), session->data.train.count,
                 session->data.test.count);
    }
}

static enum tern_result start_client(struct session *session, struct event_logger *logger)
{
    const struct session_listener listener = {.on_event = on_event,
                                              .ctx = logger,
                                              .abort = &tern_interrupted,
                                              .patient = !logger->once,
                                              .leaves = logger->once};
    TERN_TRY(tern_session_open(session, &tern_client_settings, &listener));
    logger->curl = session->curl;
    logger->external = &session->external;
    logger->watched = &session->watched;
    logger->state_dir = session->settings->client_state_dir;
    TERN_TRY(tern_session_identify(session));
    TERN_TRY(tern_session_restore(session));
    const struct tern_client_identity *identity = tern_client_identity(&session->client);
    if (identity->evaluator && tern_stored_model_is_global(session)) {
        logger->global_version = tern_client_version(&session->client);
    }
    log_data(session);
    tern_log(TERN_LOG_INFO, "started", "client=%llu model=%s version=%u phase=%s",
             (unsigned long long)identity->client_id, TERN_LOG_TEXT(identity->model_spec),
             tern_client_version(&session->client),
             tern_client_phase_name(tern_client_phase(&session->client)));
    if (!tern_curl_is_counted()) {
        tern_log(TERN_LOG_WARN, "meter-estimated",
                 "why=\"this kernel does not count the bytes of connections\" "
                 "advice=\"budgets hold, but do not include retransmitted bytes\"");
    }
    return TERN_OK;
}

static int explain_end(const struct tern_cli *cli, const struct session *session,
                       enum tern_result result)
{
    const char *dir = session->settings->client_state_dir;
    if (result == TERN_ERR_UNAUTHORIZED) {
        return tern_cli_fail(cli, result,
                             "the aggregator no longer accepts this client (revoked?); unsent data "
                             "stays in %s",
                             dir);
    }
    if (result == TERN_ERR_NO_SPACE || result == TERN_ERR_IO) {
        return tern_cli_fail(cli, result,
                             "a record in %s could not be saved (%s); nothing was sent after it",
                             dir, tern_result_name(result));
    }
    return tern_cli_fail(cli, result, "the client stopped: %s",
                         session->why[0] != '\0'   ? session->why
                         : session->watched.failed ? session->watched.failure.why
                                                   : tern_result_sentence(result));
}

// Prints the result of `once` as JSON, from the event that ended the round.
static void print_once(const struct tern_cli *cli, const struct event_logger *logger)
{
    const struct tern_client_event *last = &logger->last;
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "ended_by",
                            logger->ended ? tern_client_event_name(last->kind) : "signal");
    cJSON_AddNumberToObject(root, "exit_code", logger->exit_code);
    cJSON_AddBoolToObject(root, "evaluated", logger->evaluated);
    if (logger->ended && last->kind == TERN_EVENT_UPLOADED) {
        cJSON_AddNumberToObject(root, "round", last->round);
        cJSON_AddNumberToObject(root, "sequence", last->sequence);
        cJSON_AddStringToObject(root, "answer",
                                last->duplicate           ? "duplicate"
                                : last->result == TERN_OK ? "accepted"
                                                          : tern_result_name(last->result));
        cJSON_AddNumberToObject(root, "bytes", (double)last->bytes);
        cJSON_AddNumberToObject(root, "round_wire_bytes", (double)last->round_bytes);
    }
    if (logger->ended && last->kind == TERN_EVENT_FAILURE) {
        cJSON_AddStringToObject(root, "result", tern_result_name(last->result));
        cJSON_AddNumberToObject(root, "status", last->status);
    }
    if (logger->ended && last->wait_ms > 0) {
        cJSON_AddNumberToObject(root, "wait_ms", last->wait_ms);
    }
    if (logger->why[0] != '\0') {
        cJSON_AddStringToObject(root, "why", logger->why);
    }
    (void)tern_json_print(cli, root);
}

// --- The loop

// Returns how long to sleep. On a terminal that is at most COUNT_DOWN_MS, so that the progress line counts down.
static uint32_t pause_ms(const struct tern_client *client, const struct progress *progress)
{
    const uint32_t ms = tern_client_next_ms(client);
    return progress->shown && ms > COUNT_DOWN_MS ? COUNT_DOWN_MS : ms;
}

// Steps the client until the round or the federation ends, an error occurs, or a signal arrives.
static enum tern_result run_loop(struct session *session, struct event_logger *logger)
{
    struct tern_client *client = &session->client;
    progress_step(logger->progress, client, TERN_OK);
    while (!tern_interrupted && !logger->ended &&
           tern_client_phase(client) != TERN_PHASE_FINISHED) {
        const enum tern_result result = tern_client_step(client);
        progress_step(logger->progress, client, result);
        if (result != TERN_OK && result != TERN_AGAIN && result != TERN_ERR_CANCELLED) {
            if (tern_client_phase(client) == TERN_PHASE_STOPPED) {
                return result;
            }
            end_round(logger, &logger->last, TERN_EXIT_FAILED);
        }
        if (result == TERN_AGAIN && !logger->ended) {
            tern_interrupts_sleep(pause_ms(client, logger->progress));
        }
    }
    return TERN_OK;
}

static int finish_run(const struct tern_cli *cli, struct session *session,
                      struct event_logger *logger, enum tern_result result)
{
    if (tern_client_end(&session->client) != TERN_OK) {
        tern_log(TERN_LOG_WARN, "meter-not-saved", NULL);
    }
    if (result != TERN_OK) {
        return explain_end(cli, session, result);
    }
    if (tern_interrupted) {
        tern_log(TERN_LOG_INFO, "interrupted", NULL);
        logger->exit_code = TERN_EXIT_INTERRUPTED;
    }
    if (cli->json) {
        print_once(cli, logger);
    }
    return logger->exit_code;
}

static struct session session;

// Called by the handler of signals.
static void cancel_client(void)
{
    tern_client_cancel(&session.client);
}

static int run_client(struct tern_cli *cli, struct event_logger *logger)
{
    tern_log_set_level(tern_log_level_named(tern_client_settings.client_log));
    tern_log_set_format(tern_log_format_named(tern_client_settings.client_log_format));
    tern_interrupts_call(cancel_client);
    tern_interrupts_catch();
    enum tern_result result = start_client(&session, logger);
    int code = TERN_EXIT_FAILED;
    if (result == TERN_ERR_CANCELLED) {
        tern_log(TERN_LOG_INFO, "interrupted", NULL);
        code = TERN_EXIT_INTERRUPTED;
    } else if (result != TERN_OK) {
        code = tern_cli_fail(cli, result, "%s", session.why);
    } else {
        result = run_loop(&session, logger);
        progress_end(logger->progress);
        code = finish_run(cli, &session, logger, result);
    }
    tern_session_close(&session);
    return code;
}

int tern_verb_run(struct tern_cli *cli)
{
    struct progress progress;
    struct event_logger logger = {.progress = &progress};
    progress_start(&progress);
    if (cli->json) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "run prints no result, so --json does not apply: its log is on "
                             "stderr, and tern-client status --json shows its state");
    }
    return run_client(cli, &logger);
}

int tern_verb_once(struct tern_cli *cli)
{
    struct progress none = {.shown = false};
    struct event_logger logger = {.once = true, .progress = &none, .exit_code = TERN_EXIT_NOTHING};
    return run_client(cli, &logger);
}
