#include "federation/clients.h"

#include "util/bytes.h"
#include <stdio.h>
#include <string.h>

// Most metric names of one client, over all versions. The number of the client's worst class counts as a metric.
#define CLIENT_METRICS 64

static enum tern_result put_metric(struct tern_federation *federation, struct tern_db_metric *row,
                                   const char *name, float value)
{
    memset(row->name, 0, sizeof row->name);
    strncpy(row->name, name, sizeof row->name - 1);
    row->value = value;
    return tern_db_metric_put(federation->db, row);
}

// Whether a metric's name can be a JSON key and a table's column: it has only lower-case letters, digits and
// underscores, and is none of the tables' own column names.
static bool is_plain(const char *name)
{
    static const char *const taken[] = {"client", "clients", "invited", "model", "reported"};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        if (strcmp(name, taken[i]) == 0) {
            return false;
        }
    }
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

struct names {
    char list[CLIENT_METRICS][TERN_DB_METRIC_MAX];
    uint32_t count;
};

static bool is_known(const struct names *names, const char *name)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (strcmp(names->list[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static bool take_name(struct names *names, const char *name)
{
    if (is_known(names, name)) {
        return true;
    }
    if (names->count == CLIENT_METRICS) {
        return false;
    }
    snprintf(names->list[names->count++], TERN_DB_METRIC_MAX, "%s", name);
    return true;
}

static void note_dropped(struct client *client, const char *name)
{
    client->metrics_dropped++;
    if (is_power_of_two(client->metrics_dropped)) {
        tern_log(TERN_LOG_WARN, "metric-dropped", "client=%llu name=%s names=%d count=%u",
                 (unsigned long long)client->row.id, TERN_LOG_TEXT(name), CLIENT_METRICS,
                 client->metrics_dropped);
    }
}

// Returns a digest of the evaluation's metric names. Clients repeat the same names, so comparing digests saves database
// queries.
static uint64_t digest_of(const tern_Evaluation *evaluation)
{
    struct tern_sha256 hash;
    uint8_t digest[TERN_SHA256_SIZE];
    tern_sha256_init(&hash);
    for (pb_size_t i = 0; i < evaluation->metrics_count; i++) {
        const char *name = evaluation->metrics[i].name;
        tern_sha256_update(&hash, name, strlen(name) + 1);
    }
    tern_sha256_final(&hash, digest);
    return tern_get_le64(digest);
}

// Sets *names to the client's stored metric names and those names of the evaluation that fit in the limit. If the
// evaluation has the same names as the last one, *names has only the evaluation's names.
static enum tern_result take_names(struct tern_federation *federation, struct client *client,
                                   const tern_Evaluation *evaluation, struct names *names)
{
    const uint64_t digest = digest_of(evaluation);
    bool all = true;
    names->count = 0;
    if (digest != client->metric_names) {
        TERN_TRY(tern_db_metric_names(federation->db, client->row.id, names->list, CLIENT_METRICS,
                                      &names->count));
    }
    for (pb_size_t i = 0; i < evaluation->metrics_count; i++) {
        const char *name = evaluation->metrics[i].name;
        if (is_plain(name) && !take_name(names, name)) {
            note_dropped(client, name);
            all = false;
        }
    }
    client->metric_names = all ? digest : 0;
    return TERN_OK;
}

enum tern_result tern_metrics_store(struct tern_federation *federation,
                                    const struct tern_db_metric *to,
                                    const tern_Evaluation *evaluation)
{
    struct tern_db_metric row = *to;
    struct names names;
    TERN_TRY(tern_db_metrics_drop(federation->db, row.version, row.client));
    TERN_TRY(take_names(federation, client_of(federation, row.client), evaluation, &names));
    for (pb_size_t i = 0; i < evaluation->metrics_count; i++) {
        const char *name = evaluation->metrics[i].name;
        if (is_plain(name) && is_known(&names, name)) {
            TERN_TRY(put_metric(federation, &row, name, evaluation->metrics[i].value));
        }
    }
    if (row.of_evaluator) {
        return TERN_OK;
    }
    TERN_TRY(
        // Replaces a metric that the client named "loss".
        put_metric(federation, &row, "loss", evaluation->loss));
    return evaluation->no_accuracy ? TERN_OK
                                   : put_metric(federation, &row, "accuracy", evaluation->accuracy);
}
