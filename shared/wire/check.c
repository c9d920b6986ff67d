#include "wire/check.h"
#include "util/bytes.h"
#include "util/sha256.h"
#include "util/text.h"
#include "wire/wire.h"
#include <float.h>
#include <string.h>

// These checks are macros because nanopb declares a separate struct type for every bytes field.
#define CHECK_HASH(field) TERN_TRY((field).size == TERN_SHA256_SIZE ? TERN_OK : TERN_ERR_CORRUPT)
#define CHECK_HASH_OR_NONE(field)                                                                  \
    TERN_TRY((field).size == 0 || (field).size == TERN_SHA256_SIZE ? TERN_OK : TERN_ERR_CORRUPT)
#define CHECK_REPLICA(field)                                                                       \
    TERN_TRY((field).size == TERN_WIRE_REPLICA_BYTES ? TERN_OK : TERN_ERR_CORRUPT)
#define CHECK_NONE(field) TERN_TRY((field).size == 0 ? TERN_OK : TERN_ERR_CORRUPT)
#define CHECK_TEXT(field, least) TERN_TRY(check_text((field), sizeof(field), (least)))
#define CHECK_ENUM(value, most)                                                                    \
    TERN_TRY((unsigned)(value) <= (unsigned)(most) ? TERN_OK : TERN_ERR_ARGUMENT)

static enum tern_result check_text(const char *text, size_t size, size_t least)
{
    const char *end = memchr(text, '\0', size);
    if (end == NULL) {
        return TERN_ERR_CORRUPT;
    }
    size_t len = (size_t)(end - text);
    return len >= least && tern_utf8_is_text(text, len) ? TERN_OK : TERN_ERR_CORRUPT;
}

static enum tern_result check_count(uint64_t value, uint64_t least, uint64_t most)
{
    return value >= least && value <= most ? TERN_OK : TERN_ERR_ARGUMENT;
}

static enum tern_result check_finite(float value)
{
    return value >= -FLT_MAX && value <= FLT_MAX ? TERN_OK : TERN_ERR_NON_FINITE;
}

static enum tern_result check_range(float value, float least, float most)
{
    TERN_TRY(check_finite(value));
    return value >= least && value <= most ? TERN_OK : TERN_ERR_ARGUMENT;
}

static enum tern_result check_not_negative(float value)
{
    return check_range(value, 0.0f, FLT_MAX);
}

enum tern_result tern_check_enroll_request(const tern_EnrollRequest *message)
{
    CHECK_TEXT(message->join_code, 1);
    CHECK_TEXT(message->name, 0);
    CHECK_TEXT(message->platform, 0);
    return TERN_OK;
}

static enum tern_result check_model(const tern_Model *model)
{
    CHECK_TEXT(model->spec, 1);
    CHECK_HASH(model->hash);
    return TERN_OK;
}

enum tern_result tern_check_enroll_reply(const tern_EnrollReply *message)
{
    uint8_t token[TERN_WIRE_TOKEN_BYTES];
    TERN_TRY(check_count(message->client_id, 1, UINT64_MAX));
    CHECK_TEXT(message->token, 1);
    TERN_TRY(tern_base64url_decode(message->token, strlen(message->token), token, sizeof(token)));
    return message->has_model ? check_model(&message->model) : TERN_ERR_CORRUPT;
}

static enum tern_result check_error_facts(const tern_ErrorFacts *facts)
{
    TERN_TRY(check_not_negative(facts->norm));
    return check_not_negative(facts->maximum);
}

#if TERN_HELD_OUT
static enum tern_result check_metrics(const tern_Evaluation *evaluation)
{
    for (pb_size_t i = 0; i < evaluation->metrics_count; i++) {
        CHECK_TEXT(evaluation->metrics[i].name, 1);
        TERN_TRY(check_finite(evaluation->metrics[i].value));
    }
    return TERN_OK;
}
#else
static enum tern_result check_metrics(const tern_Evaluation *evaluation)
{
    (void)evaluation;
    return TERN_OK;
}
#endif

static enum tern_result check_evaluation(const tern_Evaluation *evaluation)
{
    TERN_TRY(check_count(evaluation->num_examples, 1, UINT32_MAX));
    TERN_TRY(check_finite(evaluation->loss));
    TERN_TRY(check_metrics(evaluation));
    return check_range(evaluation->accuracy, 0.0f, 1.0f);
}

#if TERN_SECURE
static enum tern_result check_ticket(const tern_CheckinRequest *message)
{
    return message->ticket.size != 0 ? check_count(message->ticket_epoch, 1, UINT32_MAX) : TERN_OK;
}

static enum tern_result check_scales(const uint8_t *scales, size_t len)
{
    if (len == 0 || len % sizeof(float) != 0) {
        return TERN_ERR_CORRUPT;
    }
    for (size_t i = 0; i < len; i += sizeof(float)) {
        TERN_TRY(check_range(tern_get_f32(scales + i), FLT_MIN, FLT_MAX));
    }
    return TERN_OK;
}

static enum tern_result check_secure_round(const tern_Task *task)
{
    const tern_SecureRound *round = &task->secure;
    if (!task->has_secure) {
        return TERN_OK;
    }
    TERN_TRY(check_count(task->kind, tern_TaskKind_TASK_TRAIN, tern_TaskKind_TASK_TRAIN));
    TERN_TRY(check_count(round->bits, 2, TERN_WIRE_MASKED_BITS_MAX));
    TERN_TRY(check_count(round->level, 1, TERN_WIRE_MASKED_LEVEL_MAX));
    TERN_TRY(check_count(round->min_clients, 2, UINT32_MAX));
    TERN_TRY(check_count(round->cohort, round->min_clients, UINT32_MAX));
    TERN_TRY(check_count(round->epoch, 1, UINT32_MAX));
    TERN_TRY(round->share == 1 || round->share == 2 || round->share == 10 ? TERN_OK
                                                                          : TERN_ERR_ARGUMENT);
    CHECK_HASH(round->log_head);
    TERN_TRY(round->log_signature.size == TERN_WIRE_SIGNATURE_BYTES ? TERN_OK : TERN_ERR_CORRUPT);
    TERN_TRY(round->log_count >= 1 ? TERN_OK : TERN_ERR_ARGUMENT);
    return check_scales(round->scales.bytes, round->scales.size);
}

static enum tern_result check_helper_reply(const tern_CheckinReply *message)
{
    if (message->has_helper) {
        TERN_TRY(check_count(message->helper.epoch, 1, UINT32_MAX));
        CHECK_HASH(message->helper.public_key);
        TERN_TRY(message->helper.signature.size == TERN_WIRE_SIGNATURE_BYTES ? TERN_OK
                                                                             : TERN_ERR_CORRUPT);
    }
    return message->has_settled ? check_count(message->settled.round, 1, UINT32_MAX) : TERN_OK;
}

// Checks that the facts about one client that a masked update hides are not beside the mask.
static enum tern_result check_masked(const tern_Update *message)
{
    if (!message->masked) {
        return message->nonce == 0 ? TERN_OK : TERN_ERR_ARGUMENT;
    }
    const bool reveals = message->num_examples != 1 || message->loss != 0.0f ||
                         message->has_evaluation || message->shared_indices ||
                         message->error.norm != 0.0f || message->error.maximum != 0.0f;
    return reveals || !message->has_error || message->nonce == 0 ? TERN_ERR_ARGUMENT : TERN_OK;
}
#else
#define check_ticket(message) TERN_OK
#define check_secure_round(task) TERN_OK
#define check_helper_reply(message) TERN_OK
#define check_masked(message) TERN_OK
#endif

enum tern_result tern_check_checkin_request(const tern_CheckinRequest *message)
{
    if (message->replica.size != 0) {
        CHECK_REPLICA(message->replica);
    }
    TERN_TRY(check_count(message->wait_ms, 0, TERN_WIRE_WAIT_MS_MAX));
    TERN_TRY(message->budget_left <= TERN_WIRE_BUDGET_MAX ? TERN_OK : TERN_ERR_ARGUMENT);
    CHECK_ENUM(message->power, _tern_Power_MAX);
    CHECK_ENUM(message->failure, _tern_TrainingFailure_MAX);
    CHECK_HASH_OR_NONE(message->model_hash);
    TERN_TRY(check_count(message->downloads_max, 0, TERN_WIRE_DOWNLOADS_LIMIT));
    TERN_TRY(check_ticket(message));
    if (message->has_error) {
        TERN_TRY(check_error_facts(&message->error));
    }
    return message->has_evaluation ? check_evaluation(&message->evaluation) : TERN_OK;
}

// Checks that the anchor is an earlier round, and that tasks with variance reduction have one local
// step.
static enum tern_result check_gradient(const tern_Task *task)
{
    if (!TERN_VARIANCE_REDUCTION) {
        return TERN_OK;
    }
    CHECK_ENUM(task->gradient, _tern_Gradient_MAX);
    if (task->gradient != tern_Gradient_GRADIENT_BATCH) {
        TERN_TRY(check_count(task->local_steps, 1, 1));
    }
    return task->gradient == tern_Gradient_GRADIENT_REDUCED
               ? check_count(task->anchor, 1, (uint64_t)task->round - 1)
               : check_count(task->anchor, 0, 0);
}

static enum tern_result check_training(const tern_Task *task)
{
    TERN_TRY(check_count(task->round, 1, UINT32_MAX));
    TERN_TRY(check_gradient(task));
    TERN_TRY(check_count(task->local_steps, 1, TERN_WIRE_LOCAL_STEPS_MAX));
    TERN_TRY(check_count(task->batch_size, 1, TERN_WIRE_BATCH_SIZE_MAX));
    CHECK_TEXT(task->codec, 1);
    return TERN_OK;
}

static enum tern_result check_download_ref(const tern_DownloadRef *ref)
{
    CHECK_HASH(ref->sha256);
    return check_count(ref->size, 1, UINT32_MAX);
}

// Checks the downloads of a task. With inline_len 0 each has a name; else none has, and their sizes
// add up to inline_len.
static enum tern_result check_downloads(const tern_Task *task, size_t inline_len)
{
    size_t left = inline_len;
    TERN_TRY(check_count(task->downloads_count, 0, TERN_WIRE_DOWNLOADS_MAX));
    for (pb_size_t i = 0; i < task->downloads_count; i++) {
        const tern_DownloadRef *ref = &task->downloads[i];
        if (inline_len == 0) {
            TERN_TRY(check_download_ref(ref));
            continue;
        }
        if (ref->sha256.size != 0 || ref->size == 0 || ref->size > left) {
            return TERN_ERR_CORRUPT;
        }
        left -= ref->size;
    }
    TERN_TRY(left == 0 ? TERN_OK : TERN_ERR_CORRUPT);
    return task->has_indices ? check_download_ref(&task->indices) : TERN_OK;
}

static enum tern_result check_task(const tern_Task *task, size_t inline_len)
{
    CHECK_ENUM(task->kind, _tern_TaskKind_MAX);
    CHECK_ENUM(task->error_directive, _tern_ErrorDirective_MAX);
    CHECK_REPLICA(task->base);
    CHECK_TEXT(task->codec, 0);
    TERN_TRY(check_count(task->local_steps, 0, TERN_WIRE_LOCAL_STEPS_MAX));
    TERN_TRY(check_count(task->batch_size, 0, TERN_WIRE_BATCH_SIZE_MAX));
    TERN_TRY(check_downloads(task, inline_len));
    TERN_TRY(check_not_negative(task->learning_rate));
    TERN_TRY(check_range(task->momentum, 0.0f, 1.0f));
    if (task->momentum >= 1.0f) {
        return TERN_ERR_ARGUMENT;
    }
    TERN_TRY(check_not_negative(task->weight_decay));
    TERN_TRY(check_not_negative(task->prox_mu));
    TERN_TRY(check_range(task->decay, 0.0f, 1.0f));
    TERN_TRY(check_range(task->step_ahead, 0.0f, 1.0f));
    TERN_TRY(check_not_negative(task->error_limit));
    TERN_TRY(check_secure_round(task));
    return task->kind == tern_TaskKind_TASK_TRAIN ? check_training(task) : TERN_OK;
}

static enum tern_result check_scaling_ref(const tern_CheckinReply *message)
{
    CHECK_ENUM(message->statistics, _tern_StatisticsState_MAX);
    if (message->has_scaling) {
        TERN_TRY(check_download_ref(&message->scaling));
    }
    const bool scales =
        message->has_scaling || message->statistics != tern_StatisticsState_STATISTICS_NONE;
    return message->has_task && scales ? TERN_ERR_ARGUMENT : TERN_OK;
}

enum tern_result tern_check_checkin_reply(const tern_CheckinReply *message, size_t inline_len)
{
    CHECK_HASH_OR_NONE(message->final_model_hash);
    if (message->has_task) {
        TERN_TRY(check_task(&message->task, inline_len));
    } else if (inline_len > 0) {
        return TERN_ERR_CORRUPT;
    }
    if (TERN_FINAL_MODEL && message->has_final_model) {
        TERN_TRY(message->finished ? check_download_ref(&message->final_model) : TERN_ERR_ARGUMENT);
    }
    if (TERN_STATISTICS) {
        TERN_TRY(check_scaling_ref(message));
    }
    TERN_TRY(check_helper_reply(message));
    return message->has_task && (message->finished || message->too_few_clients) ? TERN_ERR_ARGUMENT
                                                                                : TERN_OK;
}

enum tern_result tern_check_update(const tern_Update *message)
{
    CHECK_REPLICA(message->base);
    TERN_TRY(check_count(message->num_examples, 1, UINT32_MAX));
    TERN_TRY(check_count(message->local_steps, 1, TERN_WIRE_LOCAL_STEPS_MAX));
    TERN_TRY(check_finite(message->loss));
    CHECK_HASH_OR_NONE(message->model_hash);
    TERN_TRY(check_range(message->decay, 0.0f, 1.0f));
    TERN_TRY(check_masked(message));
    if (TERN_HELD_OUT && message->has_evaluation) {
        TERN_TRY(check_evaluation(&message->evaluation));
    }
    return message->has_error ? check_error_facts(&message->error) : TERN_OK;
}

enum tern_result tern_check_update_reply(const tern_UpdateReply *message)
{
    CHECK_ENUM(message->status, _tern_UpdateStatus_MAX);
    if (message->status == tern_UpdateStatus_UPDATE_UNKNOWN) {
        return TERN_ERR_ARGUMENT;
    }
    CHECK_HASH_OR_NONE(message->sha256);
    if (message->status == tern_UpdateStatus_UPDATE_UNFINISHED) {
        CHECK_HASH(message->sha256);
        TERN_TRY(check_count(message->received, 1, UINT32_MAX));
    }
    return message->has_next ? tern_check_checkin_reply(&message->next, 0) : TERN_OK;
}

enum tern_result tern_check_download(const tern_Download *message)
{
    CHECK_ENUM(message->kind, _tern_DownloadKind_MAX);
    if (message->kind == tern_DownloadKind_DOWNLOAD_DELTA) {
        CHECK_REPLICA(message->from);
        CHECK_NONE(message->to);
        CHECK_NONE(message->model_hash);
        return check_count(message->version, 1, UINT32_MAX);
    }
    CHECK_NONE(message->from);
    CHECK_HASH(message->model_hash);
    if (message->kind == tern_DownloadKind_DOWNLOAD_INDICES) {
        CHECK_NONE(message->to);
    } else {
        CHECK_HASH(message->to);
    }
    return TERN_OK;
}

// Checks the columns; the second value of each must be at least `least`.
static enum tern_result check_columns(struct tern_span columns, float least)
{
    const size_t count = columns.len / TERN_WIRE_COLUMN_BYTES;
    if (columns.data == NULL || columns.len % TERN_WIRE_COLUMN_BYTES != 0) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(check_count(count, 1, TERN_WIRE_COLUMNS_MAX));
    for (uint32_t i = 0; i < count; i++) {
        const struct tern_column_pair pair = tern_column_get(columns, i);
        TERN_TRY(check_finite(pair.mean));
        TERN_TRY(check_range(pair.spread, least, FLT_MAX));
    }
    return TERN_OK;
}

enum tern_result tern_check_statistics(const tern_Statistics *message, struct tern_span columns)
{
    TERN_TRY(check_count(message->num_examples, 1, UINT32_MAX));
    return check_columns(columns, 0.0f);
}

enum tern_result tern_check_scaling(const tern_Scaling *message, struct tern_span columns)
{
    TERN_TRY(check_count(message->clients, 1, UINT32_MAX));
    TERN_TRY(check_count(message->num_examples, 1, UINT64_MAX));
    return check_columns(columns, TERN_WIRE_DEVIATION_MIN);
}

enum tern_result tern_check_error(const tern_Error *message)
{
    CHECK_TEXT(message->name, 1);
    CHECK_TEXT(message->sentence, 0);
    return TERN_OK;
}
