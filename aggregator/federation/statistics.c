#include "federation/statistics.h"

#include "merge/column_scaling.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Most bytes of a Statistics or Scaling message without its columns.
#define MESSAGE_ROOM 64u

static uint32_t columns_of(const struct tern_federation *federation)
{
    const uint32_t columns = tern_model_spec_columns(federation->about.model_spec);
    return columns <= TERN_WIRE_COLUMNS_MAX ? columns : 0;
}

bool tern_federation_can_scale(const struct tern_federation_config *config, const char *spec,
                               char why[256])
{
    const uint32_t columns = tern_model_spec_columns(spec);
    if (!config->statistics.enabled || (columns > 0 && columns <= TERN_WIRE_COLUMNS_MAX)) {
        return true;
    }
    snprintf(why, 256,
             "statistics.columns = clients needs a built-in model of at most %u columns, and the "
             "trainers of %.64s scale their data themselves; set statistics.columns = none",
             TERN_WIRE_COLUMNS_MAX, spec);
    return false;
}

bool tern_statistics_are_awaited(const struct tern_federation *federation)
{
    return federation->config.statistics.enabled && federation->scaling.body == NULL &&
           federation->machine.round == 0;
}

// --- Loading from the store

static enum tern_result load_statistics(struct tern_federation *federation)
{
    struct scaling *scaling = &federation->scaling;
    struct tern_db_statistics row;
    struct tern_db_rows *rows = tern_db_statistics(federation->db);
    while (tern_db_next(rows, &row)) {
        struct client *client = client_of(federation, row.client);
        if (client != NULL) {
            client->has_statistics = true;
            scaling->first_ms = scaling->first_ms == 0 || row.received_ms < scaling->first_ms
                                    ? row.received_ms
                                    : scaling->first_ms;
        }
    }
    return tern_db_end(rows);
}

static void name_scaling(struct scaling *scaling)
{
    tern_sha256(scaling->body, scaling->len, scaling->sha256);
    scaling->tag = tern_scaling_tag(scaling->sha256);
}

enum tern_result tern_statistics_load(struct tern_federation *federation)
{
    struct scaling *scaling = &federation->scaling;
    const enum tern_result found =
        tern_db_scaling_get(federation->db, &scaling->body, &scaling->len);
    if (found == TERN_OK) {
        name_scaling(scaling);
        return TERN_OK;
    }
    TERN_TRY(tern_db_may_miss(found));
    if (federation->config.statistics.enabled && federation->machine.round > 0) {
        tern_log(
            TERN_LOG_WARN, "statistics-too-late", "round=%u advice=%s", federation->machine.round,
            TERN_LOG_TEXT("rounds began with unscaled columns and continue so: statistics.columns "
                          "applies only to a federation that has had no round"));
    }
    return load_statistics(federation);
}

// --- Receiving statistics

size_t tern_federation_statistics_max(const struct tern_federation *federation)
{
    return MESSAGE_ROOM + (size_t)columns_of(federation) * TERN_WIRE_COLUMN_BYTES;
}

__attribute__((format(printf, 3, 4))) static void
refuse(struct tern_refusal *refusal, enum tern_result result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(refusal->sentence, sizeof refusal->sentence, format, arguments);
    va_end(arguments);
    refusal->result = result;
}

static void check_statistics(const struct tern_federation *federation, const struct client *client,
                             const struct tern_incoming_statistics *statistics,
                             struct tern_refusal *refusal)
{
    const size_t columns = statistics->columns.len / TERN_WIRE_COLUMN_BYTES;
    const uint32_t most = federation->config.limits.num_examples;
    if (statistics->parsed != TERN_OK) {
        tern_refusal_set(refusal, statistics->parsed, NULL);
    } else if (client->row.evaluator) {
        tern_refusal_set(refusal, TERN_ERR_ARGUMENT,
                         "This client is an evaluator, and evaluators send no statistics.");
    } else if (columns != columns_of(federation)) {
        refuse(refusal, TERN_ERR_MODEL_MISMATCH,
               "The statistics have %zu columns. The model needs %u.", columns,
               columns_of(federation));
    } else if (statistics->message.num_examples > most) {
        refuse(refusal, TERN_ERR_ARGUMENT,
               "The statistics claim %u examples. At most %u are allowed (limits.num_examples).",
               statistics->message.num_examples, most);
    } else if (!tern_statistics_are_awaited(federation)) {
        tern_refusal_set(refusal, TERN_ERR_LATE,
                         "This federation needs no statistics, or its scaling is made already.");
    }
}

// Sets *same if the client's stored statistics equal `body`.
static enum tern_result find_same(struct tern_federation *federation, uint64_t id,
                                  struct tern_span body, bool *same)
{
    uint8_t sha256[TERN_SHA256_SIZE];
    struct tern_db_statistics row;
    struct tern_db_rows *rows = tern_db_statistics(federation->db);
    tern_sha256(body.data, body.len, sha256);
    *same = false;
    while (tern_db_next(rows, &row)) {
        *same = *same || (row.client == id && memcmp(row.sha256, sha256, sizeof sha256) == 0);
    }
    return tern_db_end(rows);
}

static uint32_t least_clients(const struct tern_federation *federation)
{
    const struct tern_federation_config *config = &federation->config;
    return config->statistics.min_clients != 0 ? config->statistics.min_clients
                                               : config->min_clients;
}

// Counts trainers that have checked in or have just enrolled, and whose statistics are not stored.
static uint32_t clients_missing_statistics(const struct tern_federation *federation, uint64_t now)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        const struct client *client = &federation->clients.list[i];
        count += tern_clients_is_trainer(federation, client) &&
                 tern_clients_has_checked_in(federation, client, now) && !client->has_statistics;
    }
    return count;
}

static uint32_t clients_with_statistics(const struct tern_federation *federation)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        const struct client *client = &federation->clients.list[i];
        count += client->has_statistics && tern_clients_is_trainer(federation, client);
    }
    return count;
}

static enum tern_result store_statistics(struct tern_federation *federation, uint64_t id,
                                         const struct tern_incoming_statistics *statistics,
                                         uint64_t now)
{
    struct scaling *scaling = &federation->scaling;
    struct tern_db_statistics row = {
        .client = id, .received_ms = now, .body = {statistics->body.data, statistics->body.len}};
    TERN_TRY(tern_db_statistics_add(federation->db, &row));
    client_of(federation, id)->has_statistics = true;
    scaling->first_ms = scaling->first_ms == 0 ? now : scaling->first_ms;
    federation->retry_open_ms = 0; // a round may open if there are enough statistics now
    tern_log(TERN_LOG_INFO, "statistics", "client=%llu examples=%u bytes=%zu have=%u needed=%u",
             (unsigned long long)id, statistics->message.num_examples, statistics->body.len,
             clients_with_statistics(federation), least_clients(federation));
    return TERN_OK;
}

enum tern_result
tern_federation_receive_statistics(struct tern_federation *federation, uint64_t id,
                                   const struct tern_incoming_statistics *statistics, uint64_t now,
                                   bool *duplicate, struct tern_refusal *refusal)
{
    struct client *client = client_of(federation, id);
    *duplicate = false;
    check_statistics(federation, client, statistics, refusal);
    if (refusal->result != TERN_OK) {
        tern_refusals_delay_retry(client, refusal);
        client->statistics_refused++;
        if (is_power_of_two(client->statistics_refused)) {
            tern_log(TERN_LOG_WARN, "statistics-refused", "client=%llu result=%s count=%u",
                     (unsigned long long)id, tern_result_name(refusal->result),
                     client->statistics_refused);
        }
        return TERN_OK;
    }
    if (!client->has_statistics) {
        return store_statistics(federation, id, statistics, now);
    }
    TERN_TRY(find_same(federation, id, statistics->body, duplicate));
    if (!*duplicate) {
        tern_refusal_set(
            refusal, TERN_ERR_CONFLICT,
            "This client has sent different statistics before, and these stay in force.");
        tern_refusals_delay_retry(client, refusal);
    }
    return TERN_OK;
}

// --- Making the scaling

// The statistics of all clients that train, in the order of client ids.
struct gathered {
    struct tern_column_part *parts;
    uint8_t *bytes; // the columns of all parts, one part after another
    uint32_t count;
    uint64_t num_examples;
};

static enum tern_result gather_row(struct tern_federation *federation,
                                   const struct tern_db_statistics *row, struct gathered *gathered)
{
    const struct client *client = client_of(federation, row->client);
    const size_t len = (size_t)columns_of(federation) * TERN_WIRE_COLUMN_BYTES;
    uint8_t sha256[TERN_SHA256_SIZE];
    tern_Statistics message;
    struct tern_span columns;
    if (client == NULL || !tern_clients_is_trainer(federation, client)) {
        return TERN_OK;
    }
    tern_sha256(row->body.data, row->body.len, sha256);
    if (memcmp(sha256, row->sha256, sizeof sha256) != 0 ||
        tern_wire_decode_statistics(row->body.data, row->body.len, &message, &columns) != TERN_OK ||
        columns.len != len) {
        return TERN_ERR_CORRUPT;
    }
    uint8_t *copy = gathered->bytes + gathered->count * len;
    memcpy(copy, columns.data, len);
    gathered->parts[gathered->count++] = (struct tern_column_part){message.num_examples, copy};
    gathered->num_examples += message.num_examples;
    return TERN_OK;
}

static enum tern_result gather(struct tern_federation *federation, struct gathered *gathered)
{
    const uint32_t most = clients_with_statistics(federation);
    gathered->parts = calloc(most, sizeof gathered->parts[0]);
    gathered->bytes = calloc(most, (size_t)columns_of(federation) * TERN_WIRE_COLUMN_BYTES);
    if (gathered->parts == NULL || gathered->bytes == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    struct tern_db_statistics row;
    struct tern_db_rows *rows = tern_db_statistics(federation->db);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, gathered->count < most ? gather_row(federation, &row, gathered)
                                                       : TERN_OK);
    }
    return tern_db_end(rows);
}

static enum tern_result compute_scaling(struct tern_federation *federation,
                                        const struct gathered *gathered,
                                        struct tern_column_scaling_report *report)
{
    struct scaling *scaling = &federation->scaling;
    const uint32_t count = columns_of(federation);
    const size_t len = (size_t)count * TERN_WIRE_COLUMN_BYTES;
    const tern_Scaling message = {.clients = gathered->count,
                                  .num_examples = gathered->num_examples};
    uint8_t *columns = malloc(len);
    uint8_t *body = malloc(MESSAGE_ROOM + len);
    enum tern_result result = columns != NULL && body != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
    if (result == TERN_OK) {
        result = tern_column_scaling_make(gathered->parts, gathered->count, count, columns, report);
    }
    if (result == TERN_OK) {
        result = tern_wire_encode_scaling(&message, (struct tern_span){columns, len}, body,
                                          MESSAGE_ROOM + len, &scaling->len);
    }
    free(columns);
    if (result != TERN_OK) {
        free(body);
        return result;
    }
    scaling->body = body;
    return TERN_OK;
}

static enum tern_result store_scaling(struct tern_federation *federation)
{
    struct scaling *scaling = &federation->scaling;
    struct gathered gathered = {0};
    struct tern_column_scaling_report report = {0};
    enum tern_result result = gather(federation, &gathered);
    if (result == TERN_OK) {
        result = compute_scaling(federation, &gathered, &report);
    }
    free(gathered.parts);
    free(gathered.bytes);
    TERN_TRY(result);
    name_scaling(scaling);
    TERN_TRY(tern_db_scaling_fix(federation->db, scaling->body, scaling->len));
    federation->progressed = true;
    tern_log(TERN_LOG_INFO, "scaling-fixed", "columns=%u clients=%u examples=%llu bytes=%zu",
             columns_of(federation), gathered.count, (unsigned long long)gathered.num_examples,
             scaling->len);
    if (report.constant > 0 || report.far > 0) {
        tern_log(
            TERN_LOG_WARN, "scaling-is-odd", "constant_columns=%u far_statistics=%u why=%s",
            report.constant, report.far,
            TERN_LOG_TEXT("a constant column has_state no information; statistics far from most "
                          "clients' were moved towards them"));
    }
    return TERN_OK;
}

static void log_awaited(const struct tern_federation *federation, uint64_t now)
{
    tern_log(TERN_LOG_INFO, "statistics-awaited", "have=%u needed=%u come_without_statistics=%u",
             clients_with_statistics(federation), least_clients(federation),
             clients_missing_statistics(federation, now));
}

enum tern_result tern_statistics_make_scaling(struct tern_federation *federation, uint64_t now,
                                              bool *settled)
{
    struct scaling *scaling = &federation->scaling;
    const bool first = !scaling->awaited;
    *settled = !tern_statistics_are_awaited(federation);
    scaling->awaited = !*settled;
    if (*settled) {
        return TERN_OK;
    }
    const bool enough = clients_with_statistics(federation) >= least_clients(federation);
    const bool waited = now >= scaling->first_ms + federation->config.statistics.wait_ms;
    if (enough && (waited || clients_missing_statistics(federation, now) == 0)) {
        TERN_TRY(store_scaling(federation));
        *settled = true;
        scaling->awaited = false;
    } else if (first) {
        log_awaited(federation, now);
    }
    return TERN_OK;
}

// --- Asking clients

// Returns the time until the next check-in of a client that was denied a task `times` times, because it lacks the
// scaling. The time doubles with each denial: a client that supports the scaling needs only one more check-in.
static uint32_t come_back_ms(const struct tern_federation *federation, uint32_t times)
{
    const struct tern_round_policy *policy = &federation->machine.policy;
    const uint64_t later = policy->come_back_min_ms << (times < 16 ? times : 16);
    const uint64_t ms = later < policy->come_back_max_ms ? later : policy->come_back_max_ms;
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

static void count_denial(struct tern_federation *federation, struct client *client,
                         struct tern_checkin_answer *next)
{
    const uint32_t times = ++client->denied_unscaled;
    next->reply.come_back_ms = come_back_ms(federation, times);
    federation->member_check_ms = times == UNSCALED_DENIALS_MAX ? 0 : federation->member_check_ms;
    if (times >= UNSCALED_DENIALS_MAX && is_power_of_two(times)) {
        tern_log(TERN_LOG_WARN, "client-without-scaling", "client=%llu times=%u why=%s",
                 (unsigned long long)client->row.id, times,
                 TERN_LOG_TEXT("the client does not scale its columns, or does not send their "
                               "statistics: see its log, or install a newer version on it"));
    }
}

static bool can_report(const struct client *client)
{
    return !client->row.evaluator && !client->has_statistics;
}

static void fill_scaling_ref(const struct scaling *scaling, tern_CheckinReply *reply)
{
    reply->has_scaling = true;
    reply->scaling.sha256.size = TERN_SHA256_SIZE;
    memcpy(reply->scaling.sha256.bytes, scaling->sha256, TERN_SHA256_SIZE);
    reply->scaling.size = (uint32_t)scaling->len;
}

void tern_federation_scaling_status(const struct tern_federation *federation, uint64_t id,
                                    tern_CheckinReply *reply)
{
    const struct scaling *scaling = &federation->scaling;
    reply->come_back_ms = 1; // an encoded reply must not be empty
    reply->other_column_names =
        tern_clients_has_other_columns(federation, client_of(federation, id));
    if (scaling->body != NULL) {
        fill_scaling_ref(scaling, reply);
    } else if (tern_statistics_are_awaited(federation)) {
        reply->statistics = can_report(client_of(federation, id))
                                ? tern_StatisticsState_STATISTICS_WANTED
                                : tern_StatisticsState_STATISTICS_AWAITED;
    }
}

bool tern_statistics_answer_checkin(struct tern_federation *federation, struct client *client,
                                    struct tern_checkin_answer *next)
{
    const struct scaling *scaling = &federation->scaling;
    tern_CheckinReply *reply = &next->reply;
    if (scaling->body != NULL && client->row.scaling != scaling->tag) {
        fill_scaling_ref(scaling, reply);
        count_denial(federation, client, next);
        return true;
    }
    if (tern_statistics_are_awaited(federation) && tern_clients_is_trainer(federation, client) &&
        !client->has_statistics) {
        reply->statistics = tern_StatisticsState_STATISTICS_WANTED;
        count_denial(federation, client, next);
        return true;
    }
    client->denied_unscaled = 0;
    return false;
}

enum tern_result tern_statistics_set_clock(struct tern_federation *federation, int64_t step)
{
    struct scaling *scaling = &federation->scaling;
    scaling->first_ms = tern_time_shifted_ms(scaling->first_ms, step);
    return tern_db_statistics_set_clock(federation->db, step);
}

enum tern_result tern_statistics_find_blob(const struct tern_federation *federation,
                                           const uint8_t sha256[TERN_SHA256_SIZE],
                                           struct tern_blob **blob)
{
    const struct scaling *scaling = &federation->scaling;
    if (scaling->body == NULL || memcmp(sha256, scaling->sha256, TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_NOT_FOUND;
    }
    *blob = tern_blob_new(scaling->len);
    if (*blob == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    memcpy((*blob)->data, scaling->body, scaling->len);
    return TERN_OK;
}
