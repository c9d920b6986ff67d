// How much a member trains in the open round and how it encodes its update, decided once and kept
// with the reason.
#include "service/internal.h"

#include "rounds/cohort.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UPLOAD_OTHER 600 // headers and records of an upload and its answer on an open connection

// --- Budgets

bool minds_budgets(const struct tern_service *service)
{
    return (service->config.steps.policy & TERN_STEPS_BUDGET) != 0 ||
           service->config.selection == TERN_SELECTION_BUDGET;
}

// Until the federation has done its rounds, or until the month ends, when budgets are renewed.
static double rounds_to_go(const struct tern_service *service, uint64_t now)
{
    const struct tern_round_machine *machine = &service->machine;
    const struct tern_round_policy *policy = &machine->policy;
    uint64_t length = machine->usual_ms != 0 ? machine->usual_ms : policy->deadline_ms;
    length = length > policy->min_interval_ms ? length : policy->min_interval_ms;
    double rounds = (double)tern_budget_month_left_ms(now) / (double)(length > 0 ? length : 1);
    if (policy->rounds != 0) {
        double left = (double)policy->rounds - (double)machine->committed;
        rounds = left < rounds ? left : rounds;
    }
    return rounds;
}

struct budgets {
    const struct tern_service *service;
    uint64_t now;
    double rounds;
};

static double affords(const void *ctx, uint32_t place)
{
    const struct budgets *budgets = ctx;
    const struct client *client = &budgets->service->clients[place];
    const struct tern_budget budget = budget_of(client, &(struct to_go){budgets->rounds, 1.0});
    return may_train(budgets->service, client, budgets->now)
               ? tern_budget_affords(&budget, client->least_bytes)
               : 0.0;
}

struct to_go rounds_to_come(const struct tern_service *service, uint64_t now)
{
    if (!minds_budgets(service)) {
        return (struct to_go){1.0, 1.0};
    }
    const struct tern_round_policy *policy = &service->machine.policy;
    const struct budgets budgets = {service, now, rounds_to_go(service, now)};
    uint32_t invited = tern_cohort_size(policy->cohort, policy->over_selection, UINT32_MAX);
    double share = tern_budget_share(invited, service->client_count, affords, &budgets);
    return (struct to_go){budgets.rounds, share};
}

struct tern_budget budget_of(const struct client *client, const struct to_go *to_go)
{
    uint64_t spent = client->budget_spent;
    uint64_t left = client->budget_left > spent ? client->budget_left - spent : 0;
    return (struct tern_budget){.budgeted = client->budgeted,
                                .left = left,
                                .renewed = client->budget_renewed,
                                .rounds = to_go->rounds,
                                .share = to_go->share};
}

// The codec of the update that a client made in that round.
static enum tern_result codec_then(struct tern_service *service, uint64_t client, uint32_t round,
                                   struct tern_codec *codec)
{
    struct tern_db_assignment assignment;
    struct tern_db_round row;
    TERN_TRY(tern_db_assignment_get(service->db, round, client, &assignment));
    if (assignment.codec[0] != '\0') {
        return tern_codec_parse(assignment.codec, codec, NULL);
    }
    TERN_TRY(tern_db_round_get(service->db, round, &row));
    return tern_codec_parse(row.codec_up, codec, NULL);
}

// All but the update; 0 when nothing was counted. The upload itself is counted once its answer is
// sent, and that answer may bring the task that this is for.
static uint64_t other_bytes(const struct tern_db_meter *meter, uint64_t update)
{
    uint64_t wire = meter->up.wire + meter->down.wire;
    bool upload = meter->up.payload > 0;
    if (wire == 0 || (upload && wire <= update)) {
        return 0;
    }
    return upload ? wire - update : wire + UPLOAD_OTHER;
}

// What its last round took on the wire.
static enum tern_result add_measured(struct tern_service *service, uint64_t client,
                                     struct tern_budget *budget)
{
    struct tern_db_ledger ledger;
    struct tern_db_meter meter;
    enum tern_result found = tern_db_ledger_get(service->db, client, &ledger);
    if (found == TERN_ERR_NOT_FOUND || (found == TERN_OK && ledger.round == 0)) {
        return TERN_OK;
    }
    TERN_TRY(found);
    TERN_TRY(tern_db_meter_of(service->db, client, ledger.round, &meter));
    tern_metering_of(service->metering, client, ledger.round, &meter);
    found = codec_then(service, client, ledger.round, &budget->update_codec);
    if (found == TERN_OK) {
        budget->update = ledger.update_bytes;
        budget->other = other_bytes(&meter, ledger.update_bytes);
    }
    return found == TERN_ERR_IO ? found : TERN_OK;
}

// --- The plan

static bool knows_density(const struct client *client, const struct tern_codec *codec)
{
    const struct tern_codec density = {.id = TERN_CODEC_DENSITY, .coder = codec->coder};
    return abilities_encode(&client->able, &density);
}

static enum tern_result facts_of(struct tern_service *service, uint64_t id,
                                 const struct client *client, uint64_t now,
                                 struct tern_steps_facts *facts)
{
    uint64_t deadline = service->machine.deadline_ms;
    *facts = (struct tern_steps_facts){.steps_per_second = client->steps_per_second,
                                       .window_ms = deadline > now ? deadline - now : 0,
                                       .rounds = service->config.round.rounds,
                                       .values = service->merge.model.count};
    TERN_TRY(tern_codec_parse(service->row.codec_up, &facts->codec, NULL));
    facts->density = knows_density(client, &facts->codec);
    const struct to_go to_go = rounds_to_come(service, now);
    facts->budget = budget_of(client, &to_go);
    return minds_budgets(service) ? add_measured(service, id, &facts->budget) : TERN_OK;
}

// The selection goes by the bytes of rounds also where the policy does not.
static uint64_t or_measured(uint64_t bytes, const struct tern_steps_facts *facts)
{
    return bytes != 0 ? bytes : facts->budget.update + facts->budget.other;
}

enum tern_result assign_steps(struct tern_service *service, struct tern_member *member,
                              struct client *client, uint64_t now)
{
    if (member->state == TERN_MEMBER_TASKED) {
        return TERN_OK;
    }
    struct tern_steps_facts facts;
    struct tern_steps_plan plan;
    TERN_TRY(facts_of(service, member->client, client, now, &facts));
    tern_steps_for(&service->config.steps, &service->course, &facts, &plan);
    struct tern_db_schedule row = {.client = member->client,
                                   .local_steps = plan.local_steps,
                                   .updated_ms = now,
                                   .bytes = or_measured(plan.bytes, &facts),
                                   .least_bytes = or_measured(plan.least_bytes, &facts)};
    memcpy(row.reason, plan.reason.text, sizeof plan.reason.text);
    tern_steps_policy_name(service->config.steps.policy, row.policy);
    memset(member->codec, 0, sizeof member->codec);
    if (plan.own_codec && abilities_encode(&client->able, &plan.codec)) {
        tern_codec_format(&plan.codec, member->codec);
        memcpy(row.codec, member->codec, sizeof member->codec);
    }
    client->least_bytes = row.least_bytes;
    client->round_bytes = row.bytes;
    tern_round_tasked(member, row.local_steps, now);
    TERN_TRY(tern_db_schedule_put(service->db, &row));
    return store_member(service, member);
}

static bool load_row(void *ctx, const struct tern_db_schedule *row)
{
    struct client *client = client_of(ctx, row->client);
    if (client != NULL) {
        client->least_bytes = row->least_bytes;
        client->round_bytes = row->bytes;
    }
    return true;
}

enum tern_result load_schedule(struct tern_service *service)
{
    return tern_db_schedule_each(service->db, load_row, service);
}

// --- What clients tell

void take_conditions(struct client *client, const tern_CheckinRequest *message, uint64_t now)
{
    uint64_t left = message->budgeted ? message->budget_left : 0;
    // A budget of each round is as large again after one; but so is a month's when the month turns,
    // and must not be spent in one round for it.
    if (client->budget_spent > 0 && !tern_budget_month_turned(client->last_seen_ms, now)) {
        client->budget_renewed = left >= client->budget_left;
    }
    client->metered = message->metered;
    client->budgeted = message->budgeted;
    client->budget_left = left;
    client->budget_spent = 0;
    client->power = (uint32_t)message->power;
}

// Until its next check-in says exactly.
void spend_budget(struct client *client)
{
    client->budget_spent += client->round_bytes;
}

// --- What rounds came to

void follow_round(struct tern_service *service, const struct tern_db_round *row)
{
    const struct tern_steps_round done = {
        .loss = row->median_loss, .variance = row->variance, .local_steps = row->local_steps};
    tern_steps_course_add(&service->course, &service->config.steps, &done);
}

void note_drift(struct client *client, const tern_Update *message, double sum_square)
{
    client->drift = (struct drift){.square = sum_square,
                                   .loss = message->loss,
                                   .num_examples = message->num_examples,
                                   .local_steps = message->local_steps};
}

// Norm of the mean update, from the step that it made; NaN when that tells nothing of it: the
// server has momentum, takes another mean, or adds late updates.
static double norm_of_mean(const struct tern_strategy_rule *rule,
                           const struct tern_strategy_report *report)
{
    const struct tern_strategy *strategy = rule->strategy;
    bool plain =
        strategy->states[0].name == NULL && !strategy->per_coordinate && !strategy->takes_late;
    return plain ? (double)report->step_norm / (double)rule->server_learning_rate : (double)NAN;
}

static int compare_floats(const void *a, const void *b)
{
    const float *one = a;
    const float *other = b;
    return (*one > *other) - (*one < *other);
}

// Of the members that reported; of an even number, the lower of the middle two. Each has one vote,
// whatever it says of its examples. 0 when all updates came late from other rounds.
static enum tern_result measure_loss(struct tern_service *service)
{
    const struct tern_round_machine *machine = &service->machine;
    uint32_t count = 0;
    float *losses = malloc(((size_t)machine->member_count + 1) * sizeof losses[0]);
    if (losses == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        if (member->state == TERN_MEMBER_REPORTED) {
            losses[count++] = client_of(service, member->client)->drift.loss;
        }
    }
    qsort(losses, count, sizeof losses[0], compare_floats);
    service->row.median_loss = count > 0 ? losses[(count - 1) / 2] : 0.0F;
    free(losses);
    return TERN_OK;
}

// In client order, so that the sum has the same bits whenever the updates came. Each counts as the
// mean takes it: scaled for its local steps, weighted by its examples.
static void measure_variance(struct tern_service *service,
                             const struct tern_strategy_report *report)
{
    const struct tern_round_machine *machine = &service->machine;
    const struct tern_strategy_totals *totals = &service->totals;
    double square = 0.0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        if (member->state != TERN_MEMBER_REPORTED) {
            continue;
        }
        const struct drift *drift = &client_of(service, member->client)->drift;
        double factor = tern_strategy_steps_factor(totals, drift->local_steps);
        double share = (double)drift->num_examples / (double)totals->num_examples;
        square += share * factor * factor * drift->square;
    }
    service->row.local_steps = report->effective_steps;
    service->row.variance =
        tern_steps_variance(square, norm_of_mean(&totals->rule, report), report->updates);
}

enum tern_result measure_drift(struct tern_service *service,
                               const struct tern_strategy_report *report)
{
    measure_variance(service, report);
    return measure_loss(service);
}

static enum tern_result remeasure(void *ctx, const struct tern_db_update *update)
{
    struct tern_service *service = ctx;
    struct client *client = client_of(service, update->client);
    struct tern_codec_info info;
    struct tern_span container;
    tern_Update message;
    if (client == NULL || update->body == NULL || update->round != service->machine.round) {
        return TERN_OK;
    }
    TERN_TRY(tern_wire_decode_update(update->body, update->body_len, &message, &container));
    TERN_TRY(tern_container_inspect(&service->merge.model, container.data, container.len, &info));
    note_drift(client, &message, info.sum_square);
    return TERN_OK;
}

enum tern_result load_drift(struct tern_service *service)
{
    return service->machine.open
               ? tern_db_update_each(service->db, service->machine.round, remeasure, service)
               : TERN_OK;
}
