// Processes check-ins: stores what the client reports, and decides what the client does next (train, evaluate, wait or
// stop).
#include "federation/clients.h"
#include "federation/ledger.h"
#include "federation/round.h"
#include "federation/secure.h"
#include "federation/statistics.h"
#include "federation/update.h"
#include "merge/merge.h"
#include "meter/meter.h"
#include "rounds/machine.h"
#include "util/crc32c.h"
#include <stdio.h>
#include <string.h>

// --- Check-ins: storing the client's report, and refusing clients that cannot take part

static struct tern_abilities abilities_of(const tern_CheckinRequest *message)
{
    return (struct tern_abilities){.codecs = message->codecs,
                                   .coders = message->coders,
                                   .downloads_max = message->downloads_max,
                                   .from_seed = message->from_seed,
                                   .others = message->abilities};
}

// Stores the version and replica that the check-in names. A check-in has only the first bytes of the replica's id, so
// this looks up the whole id.
static enum tern_result store_replica(struct tern_federation *federation,
                                      const tern_CheckinRequest *message,
                                      struct tern_db_client *row)
{
    row->version = message->version;
    if (message->replica.size == 0) {
        memset(row->replica, 0, TERN_SHA256_SIZE);
        return TERN_OK;
    }
    return tern_catchup_complete_id(federation->catchup, message->replica.bytes, row->replica);
}

// Stores the tag of the client's column names. Logs a changed tag that differs from most clients' tag.
static void store_column_names(struct tern_federation *federation, struct client *client,
                               uint32_t tag)
{
    struct tern_column_names *names = &federation->clients.column_names;
    if (tag == 0 || tag == client->row.column_names) {
        return;
    }
    tern_column_names_replace(names, client->row.column_names, tag);
    client->row.column_names = tag;
    if (!tern_column_names_differ(names, tag)) {
        return;
    }
    client->other_columns++;
    if (is_power_of_two(client->other_columns)) {
        tern_log(TERN_LOG_WARN, "other-columns", "client=%llu count=%u why=%s",
                 (unsigned long long)client->row.id, client->other_columns,
                 TERN_LOG_TEXT("the columns of its table have other names, or another order, than "
                               "those of most clients: `tern-aggregator doctor` lists them"));
    }
}

// Stores the byte budget that the check-in reports. Called before the client is marked as seen, because it compares the
// month of the last check-in.
static void store_budget(struct client *client, const tern_CheckinRequest *message, uint64_t now)
{
    uint64_t left = message->budgeted ? message->budget_left : 0;
    // A budget that has not shrunk although bytes were spent is a budget per round. When a month begins, a monthly
    // budget is renewed, too, and must not be taken for a budget per round.
    if (client->row.budget_spent > 0 && !tern_budget_month_turned(client->row.last_seen_ms, now)) {
        client->row.budget_renewed = left >= client->row.budget_left;
    }
    client->row.metered = message->metered;
    client->row.budgeted = message->budgeted;
    client->row.budget_left = left;
    client->row.budget_spent = 0;
    client->row.power = (uint32_t)message->power;
}

// Stores what the check-in reports. New abilities are written in this transaction: after a crash, a task must not
// exceed them. The other facts are written with the next tern_federation_flush().
static enum tern_result store_facts(struct tern_federation *federation, uint64_t id,
                                    const tern_CheckinRequest *message, uint64_t now)
{
    struct client *client = client_of(federation, id);
    struct tern_db_client *row = &client->row;
    const struct tern_abilities before = tern_abilities_of(row);
    const struct tern_abilities able = abilities_of(message);
    client->dirty = true;
    client->has_left = message->has_evaluation && (message->abilities & TERN_WIRE_LEAVES) != 0;
    if (row->last_seen_ms == 0) {
        tern_round_client_joined(&federation->machine, now);
    }
    store_budget(client, message, now);
    tern_clients_mark_seen(client, now);
    row->codecs = message->codecs;
    row->coders = message->coders;
    row->downloads_max = message->downloads_max;
    row->from_seed = message->from_seed;
    row->abilities = message->abilities;
    row->scaling = message->scaling;
    store_column_names(federation, client, message->column_names);
    TERN_TRY(store_replica(federation, message, row));
    TERN_TRY(tern_epoch_store_anchor(federation, id, message->anchor, message->anchor_step));
    return tern_abilities_equal(&before, &able) ? TERN_OK : tern_clients_store(federation, id);
}

// Sets row->model to the model that was evaluated: the client evaluated the replica that its check-in names, which may
// be the global model.
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

// Sets *late if the evaluator enrolled after the version was made, since a late evaluator must not change the version's
// accuracy.
static enum tern_result is_late(struct tern_federation *federation, const struct client *client,
                                bool *late, uint32_t version)
{
    struct tern_db_version made;
    enum tern_result found = tern_db_version_get(federation->db, version, &made);
    *late = found != TERN_OK || client->row.created_ms > made.created_ms;
    return tern_db_may_miss(found);
}

// Logs the accuracy, or the first metric for a model that predicts no classes.
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

// Lets closing.c compare the version with the best one.
static void note_rated(struct tern_federation *federation, uint32_t version)
{
    if (!federation->is_rated || version < federation->rated_first) {
        federation->rated_first = version;
    }
    if (!federation->is_rated || version > federation->rated_last) {
        federation->rated_last = version;
    }
    federation->is_rated = true;
}

static enum tern_result store_evaluation(struct tern_federation *federation, uint64_t id,
                                         const tern_Evaluation *evaluation)
{
    struct client *client = client_of(federation, id);
    // Any client may send an evaluation; only evaluators' evaluations are stored.
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
    const struct tern_db_metric metrics = {.version = row.version,
                                           .client = id,
                                           .of_evaluator = true,
                                           .late = row.late,
                                           .model = row.model,
                                           .num_examples = row.num_examples};
    TERN_TRY(tern_metrics_store(federation, &metrics, evaluation));
    federation->accuracy_is_known = false;
    if (row.version > client->evaluated[row.model]) {
        client->evaluated[row.model] = row.version;
        log_evaluation(&row, evaluation);
    }
    note_rated(federation, row.version);
    return TERN_OK;
}

// Returns a codec that the client lacks and needs in the open or a later round, or NULL. *of: "updates" or "downloads",
// which the codec encodes. If the federation ends before its early codecs do, only the early codecs are needed.
static const struct tern_codec *missing_codec(const struct tern_federation *federation,
                                              const tern_CheckinRequest *message, const char **of)
{
    const struct tern_federation_config *config = &federation->config;
    const struct tern_abilities able = abilities_of(message);
    const bool early = federation->machine.committed < config->early.rounds;
    const bool later = config->round.rounds == 0 || config->round.rounds > config->early.rounds;
    const struct tern_codec *up[] = {later ? &config->codec_up : NULL,
                                     early ? &config->early.up : NULL};
    const struct tern_codec *down[] = {later ? &config->downloads.codec : NULL,
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
    bool lacks_coder = tern_abilities_have(&able, codec->id);
    refusal->result = TERN_ERR_UNKNOWN;
    snprintf(refusal->sentence, sizeof refusal->sentence,
             "This federation's %s are encoded with %s, which this client does not support. "
             "Install a version of Tern that does.",
             of, lacks_coder ? spec : tern_codec_entry(codec->id)->name);
}

// Refuses a client for which no downloads lead to the newest version. Such a client would check in forever and never
// get a task.
static enum tern_result refuse_stranded(struct tern_federation *federation,
                                        const struct client *client, struct tern_refusal *refusal)
{
    bool stranded = false;
    if (tern_round_finished(&federation->machine)) {
        return TERN_OK;
    }
    TERN_TRY(tern_catchup_is_stranded(federation->catchup, &client->row, &stranded));
    if (stranded) {
        tern_refusal_set(
            refusal, TERN_ERR_UNKNOWN,
            "This client's replica is too old: no deltas that the client decodes lead to the "
            "newest version, and it decodes no snapshots (float32).");
    }
    return TERN_OK;
}

static bool claims_too_many_examples(const struct tern_federation *federation,
                                     const tern_CheckinRequest *message,
                                     struct tern_refusal *refusal)
{
    const uint32_t most = federation->config.limits.num_examples;
    if (!message->has_evaluation || message->evaluation.num_examples <= most) {
        return false;
    }
    refusal->result = TERN_ERR_ARGUMENT;
    snprintf(refusal->sentence, sizeof refusal->sentence,
             "The evaluation claims %u examples. At most %u are allowed (limits.num_examples).",
             message->evaluation.num_examples, most);
    return true;
}

static const char *const failure_names[] = {
    [tern_TrainingFailure_FAILURE_TRAINER] = "trainer",
    [tern_TrainingFailure_FAILURE_NOT_FINITE] = "not-finite",
    [tern_TrainingFailure_FAILURE_NO_DATA] = "no-data",
    [tern_TrainingFailure_FAILURE_REPLAYED] = "replayed",
    [tern_TrainingFailure_FAILURE_HELPER_LOG] = "helper-log",
};

// Logs a client's 1st, 2nd, 4th, ... failure only, so that one client cannot fill the log.
static void note_failed(struct tern_federation *federation, struct client *client, uint32_t round,
                        tern_TrainingFailure failure)
{
    federation->counts.tasks_failed++;
    client->failed++;
    if (is_power_of_two(client->failed)) {
        tern_log(TERN_LOG_WARN, "training-failed", "round=%u client=%llu failure=%s count=%u",
                 round, (unsigned long long)client->row.id, failure_names[failure], client->failed);
    }
}

// Processes a client's report that its training of `round` failed, and drops the client from the open round.
static enum tern_result process_failure(struct tern_federation *federation, uint64_t id,
                                        uint32_t round, tern_TrainingFailure failure)
{
    struct client *client = client_of(federation, id);
    tern_secure_note_refused(federation, id, &round, failure);
    if (client->row.evaluator || round > federation->machine.round ||
        round < client->row.failed_round) {
        return TERN_OK;
    }
    note_failed(federation, client, round, failure);
    return tern_reliability_drop_member(federation, id, round, failure);
}

static enum tern_result process_checkin(struct tern_federation *federation, uint64_t id,
                                        const tern_CheckinRequest *message, uint64_t now,
                                        struct tern_refusal *refusal)
{
    struct client *client = client_of(federation, id);
    if (!is_of_our_model(federation, message->model_hash.bytes, message->model_hash.size)) {
        tern_refusal_set(refusal, TERN_ERR_MODEL_MISMATCH, NULL);
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
        tern_refusal_set(
            refusal, TERN_ERR_UNKNOWN,
            "This federation's strategy needs full gradients, which this client does not "
            "support or has no memory for. Install a version of Tern that does.");
        return TERN_OK;
    }
    if (claims_too_many_examples(federation, message, refusal)) {
        return TERN_OK;
    }
    TERN_TRY(tern_secure_take_checkin(federation, id, message, refusal));
    if (refusal->result != TERN_OK) {
        return TERN_OK;
    }
    federation->counts.checkins++;
    TERN_TRY(store_facts(federation, id, message, now));
    if (message->failed_round != 0) {
        TERN_TRY(process_failure(federation, id, message->failed_round, message->failure));
    }
    if (message->has_error && !client->row.evaluator) {
        TERN_TRY(tern_ledger_record_checkin(federation, id, &message->error, now));
    }
    if (message->has_evaluation) {
        TERN_TRY(store_evaluation(federation, id, &message->evaluation));
    }
    return refuse_stranded(federation, client, refusal);
}

enum tern_result tern_federation_checkin(struct tern_federation *federation, uint64_t id,
                                         enum tern_result parsed,
                                         const tern_CheckinRequest *message, uint64_t now,
                                         struct tern_refusal *refusal)
{
    if (parsed == TERN_OK) {
        TERN_TRY(process_checkin(federation, id, message, now, refusal));
    } else {
        tern_refusal_set(refusal, parsed, NULL);
    }
    if (refusal->result != TERN_OK) {
        tern_refusals_delay_retry(client_of(federation, id), refusal);
    }
    return TERN_OK;
}

// --- How much a member trains, and with which codec

// Finds the codec of the client's update in the round.
static enum tern_result codec_of_round(struct tern_federation *federation, uint64_t client,
                                       uint32_t round, struct tern_codec *codec)
{
    struct tern_db_assignment assignment;
    struct tern_db_round row;
    TERN_TRY(tern_db_assignment_get(federation->db, round, client, &assignment));
    if (assignment.codec[0] != '\0') {
        return tern_codec_parse(assignment.codec, codec, NULL);
    }
    TERN_TRY(tern_db_round_get(federation->db, round, &row));
    return tern_codec_parse(row.codec_up, codec, NULL);
}

// Returns a round's bytes without the update's; 0 = no bytes were counted. An upload is counted when its reply is sent.
// Until then, this adds an estimate of the upload's overhead.
static uint64_t other_bytes(const struct tern_db_meter *meter, uint64_t update)
{
    uint64_t wire = meter->up.wire + meter->down.wire;
    bool upload = meter->up.payload > 0;
    if (wire == 0 || (upload && wire <= update)) {
        return 0;
    }
    return upload ? wire - update : wire + tern_price(TERN_PRICE_KEPT, 1, update) - update;
}

// Sets the measured bytes of the client's last round in its budget.
static enum tern_result set_measured_bytes(struct tern_federation *federation, uint64_t client,
                                           struct tern_budget *budget)
{
    struct tern_db_ledger ledger;
    struct tern_db_meter meter;
    TERN_TRY(tern_ledger_read(federation, client, &ledger));
    if (ledger.round == 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_meter_of(federation->db, client, ledger.round, &meter));
    federation->ports.metered(federation->ports.ctx, client, ledger.round, &meter);
    const enum tern_result found =
        codec_of_round(federation, client, ledger.round, &budget->update_codec);
    if (found == TERN_OK) {
        budget->update_bytes = ledger.update_bytes;
        budget->other_bytes = other_bytes(&meter, ledger.update_bytes);
    }
    return found == TERN_ERR_IO ? found : TERN_OK;
}

static bool encodes_density(const struct client *client, const struct tern_codec *codec)
{
    const struct tern_codec density = {.id = TERN_CODEC_DENSITY, .coder = codec->coder};
    const struct tern_abilities able = tern_abilities_of(&client->row);
    return tern_abilities_encode(&able, &density);
}

static enum tern_result fill_steps_facts(struct tern_federation *federation, uint64_t id,
                                         const struct client *client, uint64_t now,
                                         struct tern_steps_facts *facts)
{
    uint64_t deadline = federation->machine.deadline_ms;
    *facts = (struct tern_steps_facts){.steps_per_second = client->row.steps_per_second,
                                       .window_ms = deadline > now ? deadline - now : 0,
                                       .rounds = federation->config.round.rounds,
                                       .values = federation->merge.model.count};
    TERN_TRY(tern_codec_parse(federation->row.codec_up, &facts->codec, NULL));
    facts->density = encodes_density(client, &facts->codec);
    facts->budget = tern_budgets_of_client(federation, client, now);
    return tern_budgets_are_used(federation) ? set_measured_bytes(federation, id, &facts->budget)
                                             : TERN_OK;
}

// Returns the planned bytes. If the schedule plans none, returns the measured bytes, which the selection of clients
// needs.
static uint64_t planned_or_measured(uint64_t bytes, const struct tern_steps_facts *facts)
{
    return bytes != 0 ? bytes : facts->budget.update_bytes + facts->budget.other_bytes;
}

// Counts that the member fetches its task another time. Writes the number only once it counts as a missed task, so that
// most check-ins write nothing. An unreliable client's record does not get worse, so that a few reports make the client
// reliable again.
static enum tern_result count_try(struct tern_federation *federation, struct tern_member *member)
{
    const struct client *client = client_of(federation, member->client);
    member->tries += member->tries < UINT32_MAX;
    if (!tern_tries_count_as_missed(member->tries)) {
        return TERN_OK;
    }
    TERN_TRY(tern_members_store(federation, member));
    federation->member_check_ms = 0;
    if (tern_is_unreliable(client->row.unreported)) {
        return TERN_OK;
    }
    tern_log(TERN_LOG_WARN, "task-fails", "round=%u client=%llu tries=%u why=%s",
             federation->machine.round, (unsigned long long)member->client, member->tries - 1,
             TERN_LOG_TEXT("the client fetches the same task again and again and sends no "
                           "update: see its log"));
    return tern_reliability_count_missed(federation, member->client);
}

// Most tasks repeat the client's schedule. Then nothing is written, and the stored row keeps its time.
static enum tern_result store_schedule(struct tern_federation *federation, struct client *client,
                                       const struct tern_db_schedule *row)
{
    const uint64_t numbers[] = {row->local_steps, row->bytes, row->least_bytes};
    uint32_t sum = tern_crc32c(1, numbers, sizeof numbers);
    sum = tern_crc32c(sum, row->reason, strlen(row->reason) + 1);
    sum = tern_crc32c(sum, row->codec, strlen(row->codec) + 1);
    sum = tern_crc32c(sum, row->policy, strlen(row->policy) + 1);
    client->least_bytes = row->least_bytes;
    client->round_bytes = row->bytes;
    if (client->schedule == sum) {
        return TERN_OK;
    }
    client->schedule = sum;
    return tern_db_schedule_put(federation->db, row);
}

// Decides the member's local steps and codec when the member first fetches its task, and stores both with the reason. A
// repeated task has the same steps and codec, and counts as another try.
static enum tern_result assign_steps(struct tern_federation *federation, struct tern_member *member,
                                     struct client *client, uint64_t now)
{
    if (member->state == TERN_MEMBER_TASKED) {
        return count_try(federation, member);
    }
    struct tern_steps_facts facts;
    struct tern_steps_plan plan;
    TERN_TRY(fill_steps_facts(federation, member->client, client, now, &facts));
    tern_steps_make_plan(&federation->config.steps, &federation->steps_state, &facts, &plan);
    if (federation->secure.is_on) { // whatever the settings are by now
        plan.local_steps = federation->secure.facts.local_steps;
        plan.has_own_codec = false;
    }
    struct tern_db_schedule row = {.client = member->client,
                                   .local_steps = plan.local_steps,
                                   .updated_ms = now,
                                   .bytes = planned_or_measured(plan.bytes, &facts),
                                   .least_bytes = planned_or_measured(plan.least_bytes, &facts)};
    memcpy(row.reason, plan.reason.text, sizeof plan.reason.text);
    tern_steps_policy_name(federation->config.steps.policy, row.policy);
    memset(member->codec, 0, sizeof member->codec);
    const struct tern_abilities able = tern_abilities_of(&client->row);
    if (plan.has_own_codec && tern_abilities_encode(&able, &plan.codec)) {
        tern_codec_format(&plan.codec, member->codec);
        memcpy(row.codec, member->codec, sizeof member->codec);
    }
    tern_round_assign_task(member, row.local_steps, now);
    TERN_TRY(store_schedule(federation, client, &row));
    return tern_members_store(federation, member);
}

// --- Training

static void fill_epoch(const struct tern_federation *federation, tern_Task *task)
{
    const struct epoch *epoch = &federation->epoch;
    if (epoch->is_on) {
        task->gradient =
            epoch->step > 0 ? tern_Gradient_GRADIENT_REDUCED : tern_Gradient_GRADIENT_FULL;
        task->anchor = epoch->anchor;
    }
}

// Returns the policy for error buffers. In an epoch of strategy qsvrg, the policy limits the buffer to zero: the buffer
// may hold values of a late update or of another strategy's update.
static const struct tern_error_settings *error_settings(const struct tern_federation *federation)
{
    static const struct tern_error_settings nothing = {.policy = TERN_DIRECTIVE_LIMIT};
    return federation->epoch.is_on ? &nothing : &federation->config.error;
}

static void fill_error_directive(const struct tern_member *member, tern_Task *task)
{
    task->error_directive = (tern_ErrorDirective)member->directive;
    if (member->directive == TERN_DIRECTIVE_DECAY) {
        task->decay = member->factor;
    } else if (member->directive == TERN_DIRECTIVE_STEP_AHEAD) {
        task->step_ahead = member->factor;
    } else if (member->directive == TERN_DIRECTIVE_LIMIT) {
        task->error_limit = member->factor;
    }
}

static void fill_training(const struct tern_federation *federation,
                          const struct tern_member *member, tern_Task *task)
{
    const struct tern_training_settings *train = &federation->config.train;
    const struct tern_db_round *row = &federation->row;
    struct tern_strategy_rule rule;
    const bool known = tern_rule_read(row, &rule) == TERN_OK;
    task->kind = tern_TaskKind_TASK_TRAIN;
    task->round = row->round;
    task->batch_size = train->batch_size;
    task->learning_rate = row->learning_rate;
    task->momentum = train->momentum;
    task->weight_decay = train->weight_decay;
    task->prox_mu = known ? rule.parameters[TERN_STRATEGY_PROX_MU] : 0.0F;
    task->seed = federation->about.seed;
    task->evaluate = train->evaluate;
    const char *codec = member->codec[0] != '\0' ? member->codec : row->codec_up;
    memcpy(task->codec, codec, sizeof row->codec_up);
}

static uint64_t until_deadline(const struct tern_federation *federation, uint64_t now)
{
    uint64_t deadline = federation->machine.deadline_ms;
    return deadline > now ? deadline - now : 1;
}

// Whether the open round is no secure one, or the client has the ticket that the helper admitted for the round's epoch.
static bool has_ticket_of_round(const struct tern_federation *federation,
                                const struct client *client)
{
    return !federation->secure.is_on || (client->ticket_epoch == federation->secure.facts.epoch &&
                                         client->ticket_state == TERN_TICKET_ADMITTED &&
                                         client->shown_epoch == client->ticket_epoch);
}

// Sets *follows if the client supports the open round's task. The configuration may have changed between the client's
// last check-in and the round's opening.
static enum tern_result can_do_task(struct tern_federation *federation, const struct client *client,
                                    bool *follows)
{
    struct tern_codec codec;
    bool stranded = false;
    TERN_TRY(tern_codec_parse(federation->row.codec_up, &codec, NULL));
    TERN_TRY(tern_catchup_is_stranded(federation->catchup, &client->row, &stranded));
    const struct tern_abilities able = tern_abilities_of(&client->row);
    *follows = tern_abilities_encode(&able, &codec) && !stranded &&
               tern_epoch_supports(federation, &client->row) &&
               tern_epoch_allows(federation, &client->row) &&
               has_ticket_of_round(federation, client);
    return TERN_OK;
}

static void set_download(const struct tern_path *path, uint32_t i, tern_DownloadRef *ref)
{
    ref->sha256.size = TERN_SHA256_SIZE;
    memcpy(ref->sha256.bytes, path->sha256[i], TERN_SHA256_SIZE);
    ref->size = path->bytes[i];
}

static void set_downloads(const struct tern_path *path, tern_Task *task)
{
    for (uint32_t i = 0; i < path->count; i++) {
        set_download(path, i, &task->downloads[task->downloads_count++]);
    }
    task->base.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(task->base.bytes, path->base, TERN_WIRE_REPLICA_BYTES);
    task->base_version = path->base_version;
}

// Adds downloads to the member's task, and sets the task's base, the replica to train from. They depend on the replica
// that the client holds now, so a repeated task can have other downloads; the changed base is then stored. *found:
// false = no downloads lead to a base, and the task is unchanged.
static enum tern_result catch_up(struct tern_federation *federation, struct client *client,
                                 struct tern_member *member, uint64_t now,
                                 struct tern_checkin_answer *next, bool *found)
{
    struct tern_path path;
    TERN_TRY(tern_catchup_trainer(federation->catchup, &client->row, &client->searches,
                                  tern_indices_are_shared(federation) || federation->epoch.is_on ||
                                      federation->secure.is_on,
                                  now, &path));
    *found = path.exists;
    next->soon = path.pending;
    if (!*found) {
        return TERN_OK;
    }
    set_downloads(&path, &next->reply.task);
    next->has_private_downloads = path.is_private && path.count > 0;
    if (member->base_version == path.base_version &&
        memcmp(member->base, path.base, TERN_SHA256_SIZE) == 0) {
        return TERN_OK;
    }
    memcpy(member->base, path.base, TERN_SHA256_SIZE);
    member->base_version = path.base_version;
    return member->state == TERN_MEMBER_TASKED ? tern_members_store(federation, member) : TERN_OK;
}

static enum tern_result train_task(struct tern_federation *federation, uint64_t id, uint64_t now,
                                   struct tern_checkin_answer *next)
{
    tern_Task *task = &next->reply.task;
    bool *follows = &next->reply.has_task;
    struct client *client = client_of(federation, id);
    struct tern_member *member = tern_round_member(&federation->machine, id);
    TERN_TRY(can_do_task(federation, client, follows));
    if (!*follows) {
        return TERN_OK;
    }
    TERN_TRY(catch_up(federation, client, member, now, next, follows));
    if (!*follows) {
        return TERN_OK;
    }
    if (!federation->secure.is_on) { // all members of a secure round keep their error buffers
        TERN_TRY(tern_ledger_choose_directive(federation, error_settings(federation), member));
    }
    TERN_TRY(assign_steps(federation, member, client, now));
    fill_training(federation, member, task);
    fill_epoch(federation, task);
    fill_error_directive(member, task);
    tern_indices_add_to_task(federation, id, task);
    task->local_steps = member->local_steps;
    tern_secure_fill_task(federation, task);
    uint64_t window = until_deadline(federation, now);
    task->window_ms = window < UINT32_MAX ? (uint32_t)window : UINT32_MAX;
    return TERN_OK;
}

// --- Check-ins that wait

// Sets the reply's time until the next check-in to `wait` ms, at most come_back_max.
static void fill_wait(const struct tern_federation *federation, struct tern_checkin_answer *next,
                      uint64_t wait)
{
    const uint64_t longest = federation->machine.policy.come_back_max_ms;
    const uint64_t ms = wait < longest ? wait : longest;
    next->reply.come_back_ms = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
    next->idle = !next->reply.has_helper; // the client checks in again with its ticket at once
}

// Lets the check-in wait for a merge, or for downloads that are being made, which end soon.
static void fill_short_wait(const struct tern_federation *federation,
                            struct tern_checkin_answer *next)
{
    fill_wait(federation, next, federation->machine.policy.come_back_min_ms);
    next->soon = true;
}

// --- Evaluating: one version after another, so that every version has an accuracy

// Sets the task if this evaluator has a version left to evaluate. next->soon: the task's download is being made.
static enum tern_result evaluate_task(struct tern_federation *federation, struct client *client,
                                      struct tern_checkin_answer *next)
{
    tern_Task *task = &next->reply.task;
    uint32_t version = federation->merge.version;
    struct tern_path path;
    bool global = false;
    if (client->row.version == version) {
        TERN_TRY(tern_catchup_is_global(federation->catchup, client->row.replica, &global));
    }
    // Requests an evaluation that was lost once more, and never a third time: a client without data never sends one.
    bool again = client->evaluated[global] < version && client->requested[global] < version;
    TERN_TRY(tern_catchup_evaluator(federation->catchup, &client->row, again, &path));
    next->reply.has_task = path.exists;
    if (path.pending) {
        fill_short_wait(federation, next);
    }
    if (path.exists) {
        task->kind = tern_TaskKind_TASK_EVALUATE;
        task->round = federation->machine.round;
        set_downloads(&path, task);
        client->requested[global] = path.base_version;
    }
    return TERN_OK;
}

// --- The task of a check-in

// Whether the client downloads the global model when the federation has finished (setting final_model). If the last version is
// a restored one, replicas are of undone versions: no client keeps its own, unless the setting forbids the download.
static bool gets_final_model(const struct tern_federation *federation, const struct client *client)
{
    const enum tern_final_model who = federation->config.final_model;
    const bool all =
        who == TERN_FINAL_MODEL_ALL || federation->committed.mode == TERN_ROUND_RESTORED;
    return who != TERN_FINAL_MODEL_NONE && (all || client->row.evaluator);
}

static enum tern_result fill_finished(struct tern_federation *federation, struct client *client,
                                      uint64_t now, struct tern_checkin_answer *next)
{
    tern_CheckinReply *reply = &next->reply;
    struct tern_path path = {.exists = false};
    if (gets_final_model(federation, client)) {
        TERN_TRY(tern_catchup_final(federation->catchup, &client->row, now, &path));
    }
    if (path.pending) {
        fill_short_wait(federation, next);
        return TERN_OK;
    }
    // A held check-in began before the end. A later rollback counts the clients that were seen after it (cli/verb_undo.c).
    tern_clients_mark_seen(client, now);
    client->dirty = true;
    reply->finished = true;
    reply->final_model_hash.size = TERN_SHA256_SIZE;
    memcpy(reply->final_model_hash.bytes, federation->merge.model_sha256, TERN_SHA256_SIZE);
    reply->has_final_model = path.exists;
    if (path.exists) {
        set_download(&path, 0, &reply->final_model);
    }
    return TERN_OK;
}

enum tern_result tern_federation_answer_update(struct tern_federation *federation, uint64_t id,
                                               uint64_t now, struct tern_checkin_answer *next)
{
    struct client *client = client_of(federation, id);
    client->has_left = (client->row.abilities & TERN_WIRE_LEAVES) != 0;
    return tern_federation_answer_checkin(federation, id, now, next);
}

enum tern_result tern_federation_answer_checkin(struct tern_federation *federation, uint64_t id,
                                                uint64_t now, struct tern_checkin_answer *next)
{
    uint64_t wait = 0;
    memset(next, 0, sizeof *next);
    TERN_TRY(tern_secure_fill_reply(federation, id, &next->reply));
    if (tern_federation_is_merging(federation)) {
        fill_short_wait(federation, next);
        return TERN_OK;
    }
    tern_CheckinReply *reply = &next->reply;
    reply->other_column_names =
        tern_clients_has_other_columns(federation, client_of(federation, id));
    if (tern_statistics_answer_checkin(federation, client_of(federation, id), next)) {
        return TERN_OK;
    }
    enum tern_checkin_action action = tern_round_checkin(&federation->machine, id, now, &wait);
    struct client *client = client_of(federation, id);
    if (client->has_left && action != TERN_CHECKIN_FINISHED) {
        fill_wait(federation, next,
                  action == TERN_CHECKIN_WAIT ? wait : until_deadline(federation, now));
        next->idle = false; // the client does not wait for another task
        return TERN_OK;
    }
    if (client->row.evaluator && !tern_statistics_are_awaited(federation)) {
        TERN_TRY(evaluate_task(federation, client, next));
        if (reply->has_task || next->soon) {
            return TERN_OK;
        }
    }
    switch (action) {
    case TERN_CHECKIN_FINISHED:
        return fill_finished(federation, client, now, next);
    case TERN_CHECKIN_WAIT:
        fill_wait(federation, next, wait);
        reply->too_few_clients = federation->too_few && !federation->machine.open;
        reply->statistics = tern_statistics_are_awaited(federation)
                                ? tern_StatisticsState_STATISTICS_AWAITED
                                : tern_StatisticsState_STATISTICS_NONE;
        return TERN_OK;
    case TERN_CHECKIN_TASK:
        break;
    }
    if (tern_indices_delay_task(federation, id, now)) {
        fill_wait(federation, next, tern_round_leader_wait_ms(&federation->machine, now));
        return TERN_OK;
    }
    TERN_TRY(train_task(federation, id, now, next));
    if (!reply->has_task) {
        fill_wait(federation, next,
                  next->soon ? federation->machine.policy.come_back_min_ms
                             : until_deadline(federation, now));
    }
    return TERN_OK;
}
