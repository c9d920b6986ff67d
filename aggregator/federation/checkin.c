// What check-ins tell, and whom the federation cannot serve.
#include "federation/internal.h"
#include "federation/ledger.h"

#include <stdio.h>
#include <string.h>

// --- What the client tells

static struct tern_abilities abilities_of(const tern_CheckinRequest *message)
{
    return (struct tern_abilities){.codecs = message->codecs,
                                   .coders = message->coders,
                                   .downloads_max = message->downloads_max,
                                   .from_seed = message->from_seed,
                                   .others = message->abilities};
}

// The name of the held replica is told in full by what the store knows.
static enum tern_result take_replica(struct tern_federation *federation,
                                     const tern_CheckinRequest *message, struct tern_db_client *row)
{
    row->version = message->version;
    if (message->replica.size == 0) {
        memset(row->replica, 0, TERN_SHA256_SIZE);
        return TERN_OK;
    }
    return tern_catchup_named(federation->catchup, message->replica.bytes, row->replica);
}

// A client that names the same columns as before logs nothing; the store keeps them.
static void take_column_names(struct tern_federation *federation, struct client *client,
                              uint32_t tag)
{
    struct tern_column_names *names = &federation->clients.column_names;
    if (tag == 0 || tag == client->row.column_names) {
        return;
    }
    tern_column_names_move(names, client->row.column_names, tag);
    client->row.column_names = tag;
    if (!tern_column_names_differ(names, tag)) {
        return;
    }
    client->other_columns++;
    if (is_power_of_two(client->other_columns)) {
        tern_log(TERN_LOG_WARN, "other-columns", "client=%llu count=%u why=%s",
                 (unsigned long long)client->row.id, client->other_columns,
                 TERN_LOG_TEXT("the columns of its table have other names, or another order, than "
                               "those of most clients: `tern-aggregator doctor` names them"));
    }
}

// What a client is able to is stored at once: the reply to an update, whatever happens between,
// must not bring more than that. All else may wait for the next writing of what is dirty.
static enum tern_result take_facts(struct tern_federation *federation, uint64_t id,
                                   const tern_CheckinRequest *message, uint64_t now)
{
    struct client *client = client_of(federation, id);
    struct tern_db_client *row = &client->row;
    const struct tern_abilities before = tern_abilities_of(row);
    const struct tern_abilities able = abilities_of(message);
    client->dirty = true;
    if (row->last_seen_ms == 0) {
        tern_round_joined(&federation->machine, now);
    }
    tern_budgets_told(client, message, now);
    tern_clients_seen(client, now);
    row->codecs = message->codecs;
    row->coders = message->coders;
    row->downloads_max = message->downloads_max;
    row->from_seed = message->from_seed;
    row->abilities = message->abilities;
    row->scaling = message->scaling;
    take_column_names(federation, client, message->column_names);
    TERN_TRY(take_replica(federation, message, row));
    TERN_TRY(tern_epoch_hold(federation, id, message->anchor, message->anchor_step));
    return tern_abilities_equal(&before, &able) ? TERN_OK : tern_clients_store(federation, id);
}

// What was evaluated is the replica that this check-in names.
static enum tern_result find_model(struct tern_federation *federation, const struct client *client,
                                   struct tern_db_evaluation *row)
{
    bool global = false;
    if (row->version == client->row.version) {
        TERN_TRY(tern_catchup_is_global(federation->catchup, client->row.replica, &global));
    }
    row->model = global ? TERN_EVALUATED_GLOBAL : TERN_EVALUATED_REPLICA;
    return TERN_OK;
}

// Whether the evaluator joined after the version was made, whose figure it must not change any more.
static enum tern_result is_late(struct tern_federation *federation, const struct client *client,
                                bool *late, uint32_t version)
{
    struct tern_db_version made;
    enum tern_result found = tern_db_version_get(federation->db, version, &made);
    *late = found != TERN_OK || client->row.created_ms > made.created_ms;
    return tern_db_may_miss(found);
}

// Of a model that tells no classes, its first metric stands in the place of an accuracy.
static void log_evaluation(const struct tern_db_evaluation *row, const tern_Evaluation *evaluation)
{
    const bool metric = row->no_accuracy && evaluation->metrics_count > 0;
    char figure[2 * TERN_DB_METRIC_MAX + 32] = "";
    if (metric || !row->no_accuracy) {
        snprintf(figure, sizeof figure, " %.16s=%.4f",
                 metric ? evaluation->metrics[0].name : "accuracy",
                 metric ? (double)evaluation->metrics[0].value : (double)row->accuracy);
    }
    tern_log(TERN_LOG_INFO, "evaluation", "version=%u model=%s client=%llu%s loss=%.4f examples=%u",
             row->version, tern_evaluated_name(row->model), (unsigned long long)row->client, figure,
             (double)row->loss, row->num_examples);
}

static enum tern_result take_evaluation(struct tern_federation *federation, uint64_t id,
                                        const tern_Evaluation *evaluation)
{
    struct client *client = client_of(federation, id);
    // Only an evaluator's figure is the federation's accuracy; anybody may send one.
    if (!client->row.evaluator || evaluation->version > federation->merge.version) {
        return TERN_OK;
    }
    struct tern_db_evaluation row = {.version = evaluation->version,
                                     .client = id,
                                     .num_examples = evaluation->num_examples,
                                     .loss = evaluation->loss,
                                     .no_accuracy = evaluation->no_accuracy,
                                     .accuracy = evaluation->accuracy};
    TERN_TRY(find_model(federation, client, &row));
    TERN_TRY(is_late(federation, client, &row.late, row.version));
    TERN_TRY(tern_db_evaluation_put(federation->db, &row));
    TERN_TRY(tern_evaluation_metrics_take(federation, &row, evaluation));
    federation->kept.evaluated_is_known = false;
    if (row.version > client->evaluated[row.model]) {
        client->evaluated[row.model] = row.version;
        log_evaluation(&row, evaluation);
    }
    return TERN_OK;
}

// Returns a codec that a client needs in this round or a later one and does not have, or NULL. *of: what it encodes.
static const struct tern_codec *missing_codec(const struct tern_federation *federation,
                                              const tern_CheckinRequest *message, const char **of)
{
    const struct tern_federation_config *config = &federation->config;
    const struct tern_abilities able = abilities_of(message);
    const bool early = federation->machine.committed < config->early.rounds;
    const struct tern_codec *up[] = {&config->codec_up, early ? &config->early.up : NULL};
    const struct tern_codec *down[] = {&config->downloads.codec,
                                       early ? &config->early.down : NULL};
    *of = "updates";
    for (size_t i = 0; i < sizeof up / sizeof up[0]; i++) {
        if (up[i] != NULL && !tern_abilities_encode(&able, up[i])) {
            return up[i];
        }
    }
    *of = "downloads";
    for (size_t i = 0; i < sizeof down / sizeof down[0]; i++) {
        if (down[i] != NULL && !tern_abilities_decode(&able, down[i])) {
            return down[i];
        }
    }
    return NULL;
}

static void refuse_codec(const tern_CheckinRequest *message, const char *of,
                         const struct tern_codec *codec, struct tern_refusal *refusal)
{
    char spec[TERN_CODEC_SPEC_MAX];
    tern_codec_format(codec, spec);
    const struct tern_abilities able = abilities_of(message);
    bool lacks_coder = tern_abilities_know(&able, codec->id);
    refusal->result = TERN_ERR_UNKNOWN;
    snprintf(refusal->sentence, sizeof refusal->sentence,
             "This federation's %s are encoded with %s, which this client does not know; it needs "
             "a version of Tern that does.",
             of, lacks_coder ? spec : tern_codec_entry(codec->id)->name);
}

// Such a client would come back for ever and never get a task.
static enum tern_result refuse_stranded(struct tern_federation *federation,
                                        const struct client *client, struct tern_refusal *refusal)
{
    bool stranded = false;
    if (tern_round_finished(&federation->machine)) {
        return TERN_OK;
    }
    TERN_TRY(tern_catchup_is_stranded(federation->catchup, &client->row, &stranded));
    if (stranded) {
        tern_refuse(refusal, TERN_ERR_UNKNOWN,
                    "No deltas that this client can take lead from its replica to the present "
                    "one, and it takes no snapshots (float32).");
    }
    return TERN_OK;
}

static bool claims_too_much(const struct tern_federation *federation,
                            const tern_CheckinRequest *message, struct tern_refusal *refusal)
{
    const uint32_t most = federation->config.limits.num_examples;
    if (!message->has_evaluation || message->evaluation.num_examples <= most) {
        return false;
    }
    refusal->result = TERN_ERR_ARGUMENT;
    snprintf(refusal->sentence, sizeof refusal->sentence,
             "The evaluation claims %u examples, and limits.num_examples is %u.",
             message->evaluation.num_examples, most);
    return true;
}

static enum tern_result take_checkin(struct tern_federation *federation, uint64_t id,
                                     const tern_CheckinRequest *message, uint64_t now,
                                     struct tern_refusal *refusal)
{
    struct client *client = client_of(federation, id);
    if (!is_of_our_model(federation, message->model_hash.bytes, message->model_hash.size)) {
        tern_refuse(refusal, TERN_ERR_MODEL_MISMATCH, NULL);
        return TERN_OK;
    }
    const char *of;
    const struct tern_codec *missing = missing_codec(federation, message, &of);
    if (missing != NULL) {
        refuse_codec(message, of, missing, refusal);
        return TERN_OK;
    }
    if ((message->abilities & TERN_WIRE_REDUCES) == 0 && federation->config.strategy->has_epochs &&
        !client->row.evaluator) {
        tern_refuse(refusal, TERN_ERR_UNKNOWN,
                    "This federation's strategy builds on full gradients, which this client does "
                    "not know or has no memory for; it needs a version of Tern that does.");
        return TERN_OK;
    }
    if (claims_too_much(federation, message, refusal)) {
        return TERN_OK;
    }
    federation->counts.checkins++;
    TERN_TRY(take_facts(federation, id, message, now));
    if (message->failed_round != 0) {
        TERN_TRY(tern_reliability_failed(federation, id, message->failed_round, message->failure));
    }
    if (message->has_error && !client->row.evaluator) {
        TERN_TRY(tern_ledger_checkin(federation, id, &message->error, now));
    }
    if (message->has_evaluation) {
        TERN_TRY(take_evaluation(federation, id, &message->evaluation));
    }
    return refuse_stranded(federation, client, refusal);
}

enum tern_result tern_federation_checkin(struct tern_federation *federation, uint64_t id,
                                         enum tern_result parsed,
                                         const tern_CheckinRequest *message, uint64_t now,
                                         struct tern_refusal *refusal)
{
    if (parsed == TERN_OK) {
        TERN_TRY(take_checkin(federation, id, message, now, refusal));
    } else {
        tern_refuse(refusal, parsed, NULL);
    }
    if (refusal->result != TERN_OK) {
        tern_refusals_ask_later(client_of(federation, id), refusal);
    }
    return TERN_OK;
}
