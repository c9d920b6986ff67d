// What clients that train tell, with their updates, of the model they began with: its figures on held-out data of
// their own. And the metrics that evaluators tell.
#include "federation/internal.h"

#include "util/bytes.h"
#include <stdio.h>
#include <string.h>

static enum tern_result put(struct tern_federation *federation, struct tern_db_metric *row,
                            const char *name, float value)
{
    memset(row->name, 0, sizeof row->name);
    strncpy(row->name, name, sizeof row->name - 1);
    row->value = value;
    return tern_db_metric_put(federation->db, row);
}

// Names are keys and columns of what is printed, beside these.
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

// --- A client's metric names, limited in number

struct names {
    char list[TERN_CLIENT_METRICS][TERN_DB_METRIC_MAX];
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
    if (names->count == TERN_CLIENT_METRICS) {
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
                 (unsigned long long)client->row.id, TERN_LOG_TEXT(name), TERN_CLIENT_METRICS,
                 client->metrics_dropped);
    }
}

// A client repeats the same names, so a digest saves the lookups. The digest is SHA-256: no client finds other names
// with the same digest.
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

// Selects the new names of an evaluation. *names: the names that fit in the limit.
static enum tern_result take_names(struct tern_federation *federation, struct client *client,
                                   const tern_Evaluation *evaluation, struct names *names)
{
    const uint64_t digest = digest_of(evaluation);
    bool all = true;
    names->count = 0;
    if (digest != client->metric_names) {
        TERN_TRY(tern_db_metric_names(federation->db, client->row.id, names->list,
                                      TERN_CLIENT_METRICS, &names->count));
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

// Replaces the client's metrics of the version.
static enum tern_result put_metrics(struct tern_federation *federation, struct tern_db_metric *row,
                                    const tern_Evaluation *evaluation)
{
    struct names names;
    TERN_TRY(tern_db_metrics_drop(federation->db, row->version, row->client));
    TERN_TRY(take_names(federation, client_of(federation, row->client), evaluation, &names));
    for (pb_size_t i = 0; i < evaluation->metrics_count; i++) {
        const char *name = evaluation->metrics[i].name;
        if (is_plain(name) && is_known(&names, name)) {
            TERN_TRY(put(federation, row, name, evaluation->metrics[i].value));
        }
    }
    return TERN_OK;
}

// --- Storing

enum tern_result tern_evaluation_metrics_take(struct tern_federation *federation,
                                              const struct tern_db_evaluation *found,
                                              const tern_Evaluation *evaluation)
{
    struct tern_db_metric row = {.version = found->version,
                                 .client = found->client,
                                 .of_evaluator = true,
                                 .late = found->late,
                                 .model = found->model,
                                 .num_examples = found->num_examples};
    return put_metrics(federation, &row, evaluation);
}

enum tern_result tern_held_out_take(struct tern_federation *federation, uint64_t client,
                                    const struct tern_member *member,
                                    const tern_Evaluation *evaluation)
{
    bool global = false;
    TERN_TRY(tern_catchup_is_global(federation->catchup, member->base, &global));
    struct tern_db_metric row = {.version = member->base_version,
                                 .client = client,
                                 .model = global ? TERN_EVALUATED_GLOBAL : TERN_EVALUATED_REPLICA,
                                 .num_examples = evaluation->num_examples};
    TERN_TRY(put_metrics(federation, &row, evaluation));
    TERN_TRY(put(federation, &row, "loss", evaluation->loss)); // whatever a metric was called
    return evaluation->no_accuracy ? TERN_OK
                                   : put(federation, &row, "accuracy", evaluation->accuracy);
}
