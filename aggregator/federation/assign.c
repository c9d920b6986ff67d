// How much a member trains in the open round and how it encodes its update, decided once and kept
// with the reason.
#include "federation/internal.h"
#include "federation/ledger.h"
#include "meter/price.h"

#include <string.h>

// --- What the last round took

// The codec of the update that a client made in that round.
static enum tern_result codec_then(struct tern_federation *federation, uint64_t client,
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

// A round's bytes without those of the update; 0 when nothing was counted. The upload is counted only
// once its answer is sent, and the task that this is for may travel in that answer.
static uint64_t other_bytes(const struct tern_db_meter *meter, uint64_t update)
{
    uint64_t wire = meter->up.wire + meter->down.wire;
    bool upload = meter->up.payload > 0;
    if (wire == 0 || (upload && wire <= update)) {
        return 0;
    }
    return upload ? wire - update : wire + tern_price(TERN_PRICE_KEPT, 1, update) - update;
}

// What its last round took on the wire.
static enum tern_result add_measured(struct tern_federation *federation, uint64_t client,
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
        codec_then(federation, client, ledger.round, &budget->update_codec);
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
    const struct tern_abilities able = tern_abilities_of(&client->row);
    return tern_abilities_encode(&able, &density);
}

static enum tern_result facts_of(struct tern_federation *federation, uint64_t id,
                                 const struct client *client, uint64_t now,
                                 struct tern_steps_facts *facts)
{
    uint64_t deadline = federation->machine.deadline_ms;
    *facts = (struct tern_steps_facts){.steps_per_second = client->row.steps_per_second,
                                       .window_ms = deadline > now ? deadline - now : 0,
                                       .rounds = federation->config.round.rounds,
                                       .values = federation->merge.model.count};
    TERN_TRY(tern_codec_parse(federation->row.codec_up, &facts->codec, NULL));
    facts->density = knows_density(client, &facts->codec);
    const struct to_go to_go = tern_budgets_to_go(federation, now);
    facts->budget = tern_budgets_of(client, &to_go);
    return tern_budgets_matter(federation) ? add_measured(federation, id, &facts->budget) : TERN_OK;
}

// The selection goes by the bytes of rounds also where the policy does not.
static uint64_t or_measured(uint64_t bytes, const struct tern_steps_facts *facts)
{
    return bytes != 0 ? bytes : facts->budget.update + facts->budget.other;
}

enum tern_result tern_assign_steps(struct tern_federation *federation, struct tern_member *member,
                                   struct client *client, uint64_t now)
{
    if (member->state == TERN_MEMBER_TASKED) {
        return tern_reliability_tries(federation, member);
    }
    struct tern_steps_facts facts;
    struct tern_steps_plan plan;
    TERN_TRY(facts_of(federation, member->client, client, now, &facts));
    tern_steps_for(&federation->config.steps, &federation->course, &facts, &plan);
    struct tern_db_schedule row = {.client = member->client,
                                   .local_steps = plan.local_steps,
                                   .updated_ms = now,
                                   .bytes = or_measured(plan.bytes, &facts),
                                   .least_bytes = or_measured(plan.least_bytes, &facts)};
    memcpy(row.reason, plan.reason.text, sizeof plan.reason.text);
    tern_steps_policy_name(federation->config.steps.policy, row.policy);
    memset(member->codec, 0, sizeof member->codec);
    const struct tern_abilities able = tern_abilities_of(&client->row);
    if (plan.own_codec && tern_abilities_encode(&able, &plan.codec)) {
        tern_codec_format(&plan.codec, member->codec);
        memcpy(row.codec, member->codec, sizeof member->codec);
    }
    client->least_bytes = row.least_bytes;
    client->round_bytes = row.bytes;
    tern_round_tasked(member, row.local_steps, now);
    TERN_TRY(tern_db_schedule_put(federation->db, &row));
    return tern_members_store(federation, member);
}

enum tern_result tern_assign_load(struct tern_federation *federation)
{
    struct tern_db_schedule row;
    struct tern_db_rows *rows = tern_db_schedules(federation->db);
    while (tern_db_next(rows, &row)) {
        struct client *client = client_of(federation, row.client);
        if (client != NULL) {
            client->least_bytes = row.least_bytes;
            client->round_bytes = row.bytes;
        }
    }
    return tern_db_end(rows);
}
