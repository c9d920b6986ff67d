#include "cli/narrator.h"
#include "cli/client_data.h"
#include "cli/expiry.h"
#include "hosted/cli.h"
#include "hosted/interrupts.h"
#include "hosted/log.h"
#include "util/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// --- Log lines

// Lines of a trainer's output that are logged when it failed, the last ones.
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

// "round=7 "; "" where the event is of no round, as those of evaluators.
static const char *round_of(const struct tern_client_event *event, char text[ROUND_MAX])
{
    text[0] = '\0';
    if (event->round != 0) {
        snprintf(text, ROUND_MAX, "round=%u ", event->round);
    }
    return text;
}

static void log_metrics(const struct narrator *narrator, const struct tern_client_event *event)
{
    const char *metrics =
        narrator->external != NULL ? tern_external_metrics(narrator->external) : "";
    if (metrics[0] == '\0') {
        return;
    }
    char round[ROUND_MAX];
    tern_log(TERN_LOG_INFO, "trainer-metrics", "%sversion=%u metrics=%s", round_of(event, round),
             event->version, TERN_LOG_TEXT(metrics));
}

static bool has_failed(const struct narrator *narrator)
{
    return narrator->watched != NULL && narrator->watched->failed;
}

// What the port that failed says beyond the event's sentence.
static const char *detail_of(const struct narrator *narrator, enum tern_result result)
{
    if (has_failed(narrator)) {
        return narrator->watched->trouble.why;
    }
    if (result == TERN_ERR_NETWORK || result == TERN_ERR_TLS) {
        return narrator->curl != NULL ? tern_curl_why(narrator->curl) : "";
    }
    const bool trained = result == TERN_ERR_TRAINER || result == TERN_ERR_IO ||
                         result == TERN_ERR_NO_SPACE || result == TERN_ERR_NO_MEMORY;
    return trained && narrator->external != NULL ? tern_external_why(narrator->external) : "";
}

// Without classes there is no accuracy; the first metric stands in its place.
static void log_evaluated(const char *name, const struct tern_client_event *event,
                          const char *model)
{
    const struct tern_evaluate_result *found = event->found;
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

// What is evaluated is of the last download, also where an earlier process made it.
static bool is_global(const struct narrator *narrator, const struct tern_client_event *event)
{
    return event->global || (event->version != 0 && event->version == narrator->global_version);
}

static void log_progress(const struct narrator *narrator, const struct tern_client_event *event)
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
        log_evaluated(name, event, is_global(narrator, event) ? "global" : "replica");
        break;
    default:
        break;
    }
}

// What to do about training that failed, and what values that are too large most likely come from.
static void log_hint(const struct narrator *narrator, enum tern_result result)
{
    const char *hint = has_failed(narrator) ? tern_training_hint(narrator->watched) : "";
    if (hint[0] != '\0') {
        tern_log(TERN_LOG_WARN, "hint", "why=%s", TERN_LOG_TEXT(hint));
    } else if (result == TERN_ERR_NORM_LIMIT || result == TERN_ERR_NON_FINITE) {
        tern_log(
            TERN_LOG_WARN, "hint", "why=%s",
            TERN_LOG_TEXT("what was learnt is too large to be sent: columns are not scaled "
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

static void log_pause(const struct narrator *narrator, const struct tern_client_event *event)
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
    case TERN_EVENT_TROUBLE: {
        if (tern_interrupted && event->result == TERN_ERR_NETWORK) {
            break; // the exchange was given up because the program is to end
        }
        const char *detail = detail_of(narrator, event->result);
        tern_log(TERN_LOG_WARN, name, "result=%s status=%d wait_ms=%u why=%s%s%s",
                 tern_result_name(event->result), event->status, event->wait_ms,
                 TERN_LOG_TEXT(event->why), detail[0] != '\0' ? " detail=" : "",
                 detail[0] != '\0' ? TERN_LOG_TEXT(detail) : "");
        log_hint(narrator, event->result);
        if (event->result == TERN_ERR_TRAINER && narrator->external != NULL) {
            log_output(tern_external_output(narrator->external));
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

static void round_over(struct narrator *narrator, const struct tern_client_event *event,
                       int exit_code)
{
    if (narrator->heard) {
        return;
    }
    narrator->heard = true;
    narrator->exit_code = exit_code;
    narrator->last = *event;
    snprintf(narrator->why, sizeof narrator->why, "%s", event->why != NULL ? event->why : "");
}

static int code_of_answer(enum tern_result answer)
{
    return answer == TERN_OK || answer == TERN_ERR_LATE ? TERN_EXIT_OK : TERN_EXIT_REFUSED;
}

// A pause in the middle of a round is waited out: ending would throw away what was trained.
static bool may_end_at(const struct tern_client_event *paused)
{
    return paused->round == 0 || paused->sequence != 0;
}

// An evaluation is over when the check-in that reports it was answered.
static void listen_for_end(struct narrator *narrator, const struct tern_client_event *event)
{
    const bool trouble = event->kind == TERN_EVENT_TROUBLE;
    narrator->troubles = trouble ? narrator->troubles + 1 : narrator->troubles;
    switch ((int)event->kind) {
    case TERN_EVENT_UPLOADED:
        round_over(narrator, event, code_of_answer(event->result));
        break;
    case TERN_EVENT_EVALUATED:
        narrator->evaluated = event->round == 0;
        break;
    case TERN_EVENT_TASK:
        if (narrator->evaluated) {
            round_over(narrator, event, TERN_EXIT_OK);
        }
        break;
    case TERN_EVENT_PAUSED:
        if (may_end_at(event)) {
            round_over(narrator, event, TERN_EXIT_NOTHING);
        }
        break;
    case TERN_EVENT_WAITING:
    case TERN_EVENT_FINISHED:
        round_over(narrator, event, narrator->evaluated ? TERN_EXIT_OK : TERN_EXIT_NOTHING);
        break;
    case TERN_EVENT_BUDGET:
        round_over(narrator, event, TERN_EXIT_NOTHING);
        break;
    case TERN_EVENT_TROUBLE:
        if (event->result == TERN_ERR_TLS || narrator->troubles >= narrator->trouble_limit) {
            round_over(narrator, event, TERN_EXIT_FAILED);
        }
        break;
    default:
        break;
    }
}

// Once a day, as long as it is so.
static void warn_of_expiry(struct narrator *narrator)
{
    const uint64_t now_s = (uint64_t)time(NULL);
    char sentence[EXPIRY_MAX];
    if (narrator->curl != NULL && now_s >= narrator->expiry_said_s + 86400 &&
        tern_expiry_say(narrator->curl, now_s, sentence)) {
        narrator->expiry_said_s = now_s;
        tern_log(TERN_LOG_WARN, "certificate-expires", "why=%s", TERN_LOG_TEXT(sentence));
    }
}

// For `tern-client status`, until training works again.
static void keep_trouble(struct narrator *narrator, const struct tern_client_event *event)
{
    if (event->kind == TERN_EVENT_TRAINED) {
        tern_training_trouble_forget(narrator->state_dir);
    } else if (event->kind == TERN_EVENT_TROUBLE && has_failed(narrator)) {
        tern_training_trouble_keep(narrator->state_dir, narrator->watched);
        narrator->watched->failed = false;
    }
}

void tern_narrator_on_event(void *ctx, const struct tern_client_event *event)
{
    struct narrator *narrator = ctx;
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
    case TERN_EVENT_TROUBLE:
    case TERN_EVENT_BUDGET:
    case TERN_EVENT_STARTED_OVER:
        log_pause(narrator, event);
        break;
    default:
        log_progress(narrator, event);
        break;
    }
    if (event->kind == TERN_EVENT_TRAINED || event->kind == TERN_EVENT_EVALUATED) {
        log_metrics(narrator, event);
    }
    keep_trouble(narrator, event);
    warn_of_expiry(narrator);
    if (narrator->progress != NULL) {
        tern_client_progress_on_event(narrator->progress, event);
    }
    if (narrator->once) {
        listen_for_end(narrator, event);
    }
}
