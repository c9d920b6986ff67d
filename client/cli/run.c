// The verbs that work: run until the end, or for one round.
#include "cli/held_model.h"
#include "cli/narrator.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "hosted/interrupts.h"
#include "hosted/json_print.h"
#include "hosted/log.h"

#include <stdio.h>

#define COUNT_DOWN_MS 1000
#define TROUBLE_LIMIT 5 // failures in a row that end `once`

// --- Starting

// What is held out of training was decided by an option that few write down.
static void say_data(const struct session *session)
{
    if (session->external.kind == EXTERNAL_NONE) {
        tern_log(TERN_LOG_INFO, "data", "source=%s examples=%u held_out=%u",
                 TERN_LOG_TEXT(session->settings->data_source), session->data.train.count,
                 session->data.test.count);
    }
}

static enum tern_result start(struct session *session, struct narrator *narrator)
{
    const struct session_listener listener = {.on_event = tern_narrator_on_event,
                                              .ctx = narrator,
                                              .abort = &tern_interrupted,
                                              .patient = !narrator->once};
    TERN_TRY(tern_session_open(session, &tern_client_settings, &listener));
    narrator->curl = session->curl;
    narrator->external = &session->external;
    narrator->watched = &session->watched;
    narrator->state_dir = session->settings->state_dir;
    TERN_TRY(tern_session_identify(session));
    TERN_TRY(tern_session_restore(session));
    const struct tern_client_identity *identity = tern_client_identity(&session->client);
    if (identity->evaluator && tern_held_is_global(session)) {
        narrator->global_version = tern_client_version(&session->client);
    }
    say_data(session);
    tern_log(TERN_LOG_INFO, "started", "client=%llu model=%s version=%u phase=%s",
             (unsigned long long)identity->client_id, TERN_LOG_TEXT(identity->model_spec),
             tern_client_version(&session->client),
             tern_client_phase_name(tern_client_phase(&session->client)));
    if (!tern_curl_is_counted()) {
        tern_log(
            TERN_LOG_WARN, "meter-estimated",
            "why=\"this kernel does not count the bytes of connections\" "
            "advice=\"budgets hold, but bytes that links lose and repeat are not among them\"");
    }
    return TERN_OK;
}

static int explain_end(const struct tern_cli *cli, const struct session *session,
                       enum tern_result result)
{
    const char *dir = session->settings->state_dir;
    if (result == TERN_ERR_UNAUTHORIZED) {
        return tern_cli_fail(cli, result,
                             "the aggregator does not know this client any more (revoked?); what "
                             "was not sent is kept in %s",
                             dir);
    }
    if (result == TERN_ERR_NO_SPACE || result == TERN_ERR_IO) {
        return tern_cli_fail(cli, result,
                             "a record in %s could not be saved (%s); nothing was sent after it",
                             dir, tern_result_name(result));
    }
    return tern_cli_fail(cli, result, "the client stopped: %s",
                         session->why[0] != '\0'   ? session->why
                         : session->watched.failed ? session->watched.trouble.why
                                                   : tern_result_sentence(result));
}

// What `once` came to, from the event that ended it.
static void say_once(const struct tern_cli *cli, const struct narrator *narrator)
{
    const struct tern_client_event *last = &narrator->last;
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "ended_by",
                            narrator->heard ? tern_client_event_name(last->kind) : "signal");
    cJSON_AddNumberToObject(root, "exit_code", narrator->exit_code);
    cJSON_AddBoolToObject(root, "evaluated", narrator->evaluated);
    if (narrator->heard && last->kind == TERN_EVENT_UPLOADED) {
        cJSON_AddNumberToObject(root, "round", last->round);
        cJSON_AddNumberToObject(root, "sequence", last->sequence);
        cJSON_AddStringToObject(root, "answer",
                                last->duplicate           ? "duplicate"
                                : last->result == TERN_OK ? "accepted"
                                                          : tern_result_name(last->result));
        cJSON_AddNumberToObject(root, "bytes", (double)last->bytes);
        cJSON_AddNumberToObject(root, "round_wire_bytes", (double)last->round_bytes);
    }
    if (narrator->why[0] != '\0') {
        cJSON_AddStringToObject(root, "why", narrator->why);
    }
    (void)tern_json_print(cli, root);
}

// --- The loop

// Where the wait is counted down, it is slept in pieces.
static uint32_t pause_ms(const struct tern_client *client, const struct progress *progress)
{
    const uint32_t ms = tern_client_next_ms(client);
    return progress->shown && ms > COUNT_DOWN_MS ? COUNT_DOWN_MS : ms;
}

// Steps until the narrator has heard what it listens for, an error, or a signal.
static enum tern_result loop(struct session *session, const struct narrator *narrator)
{
    struct tern_client *client = &session->client;
    tern_client_progress_step(narrator->progress, client, TERN_OK);
    while (!tern_interrupted && !narrator->heard &&
           tern_client_phase(client) != TERN_PHASE_FINISHED) {
        const enum tern_result result = tern_client_step(client);
        tern_client_progress_step(narrator->progress, client, result);
        if (result != TERN_OK && result != TERN_AGAIN) {
            return result;
        }
        if (result == TERN_AGAIN && !narrator->heard) {
            tern_interrupts_sleep(pause_ms(client, narrator->progress));
        }
    }
    return TERN_OK;
}

static int end(const struct tern_cli *cli, struct session *session, struct narrator *narrator,
               enum tern_result result)
{
    if (tern_client_end(&session->client) != TERN_OK) {
        tern_log(TERN_LOG_WARN, "meter-not-saved", NULL);
    }
    if (result != TERN_OK) {
        return explain_end(cli, session, result);
    }
    if (tern_interrupted) {
        tern_log(TERN_LOG_INFO, "interrupted", NULL);
        narrator->exit_code = TERN_EXIT_INTERRUPTED;
    }
    if (cli->json) {
        say_once(cli, narrator);
    }
    return narrator->exit_code;
}

static int work(struct tern_cli *cli, struct narrator *narrator)
{
    static struct session session;
    enum tern_log_level level = TERN_LOG_INFO;
    enum tern_log_format format = TERN_LOG_AS_TEXT;
    if (!tern_log_level_parse(tern_client_settings.log, &level)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "client.log is \"%s\"; it must be error, warn, info or debug",
                             tern_client_settings.log);
    }
    if (!tern_log_format_parse(tern_client_settings.log_format, &format)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "client.log_format is \"%s\"; it must be text or json",
                             tern_client_settings.log_format);
    }
    tern_log_set_level(level);
    tern_log_set_format(format);
    tern_interrupts_catch();
    enum tern_result result = start(&session, narrator);
    int code = TERN_EXIT_FAILED;
    if (result != TERN_OK) {
        code = tern_cli_fail(cli, result, "%s", session.why);
    } else {
        result = loop(&session, narrator);
        tern_client_progress_end(narrator->progress);
        code = end(cli, &session, narrator, result);
    }
    tern_session_close(&session);
    return code;
}

int tern_verb_run(struct tern_cli *cli)
{
    struct progress progress;
    struct narrator narrator = {.progress = &progress};
    tern_client_progress_start(&progress);
    if (cli->json) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "run prints no result, so --json has no meaning here: its log is on "
                             "stderr, and tern-client status --json shows where it is");
    }
    return work(cli, &narrator);
}

int tern_verb_once(struct tern_cli *cli)
{
    struct progress none = {.shown = false};
    struct narrator narrator = {.once = true,
                                .progress = &none,
                                .trouble_limit = TROUBLE_LIMIT,
                                .exit_code = TERN_EXIT_NOTHING};
    return work(cli, &narrator);
}
