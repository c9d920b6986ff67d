// How far the updates of a round are apart, and their loss: what policies go on from.
#include "federation/internal.h"
#include "rounds/variance.h"

#include <math.h>
#include <stdlib.h>

void tern_drift_follow(struct tern_federation *federation, const struct tern_db_round *row)
{
    tern_steps_course_add(&federation->course, &federation->config.steps, row->median_loss);
    tern_rate_committed(&federation->rate);
}

void tern_drift_note(struct client *client, const tern_Update *message, double sum_square)
{
    client->drift = (struct drift){.square = sum_square,
                                   .loss = message->loss,
                                   .num_examples = message->num_examples,
                                   .local_steps = message->local_steps};
}

// Norm of the mean of the round's updates, before what the server makes of it (momentum, say).
static double norm_of_mean(const struct tern_strategy *strategy,
                           const struct tern_strategy_report *report)
{
    return tern_strategy_tells_mean(strategy) ? (double)report->mean_norm : (double)NAN;
}

static int compare_floats(const void *a, const void *b)
{
    const float *one = a;
    const float *other = b;
    return (*one > *other) - (*one < *other);
}

// Of the members that reported; of an even number, the lower of the middle two. Each has one vote,
// whatever it says of its examples. 0 when all updates came late from other rounds.
static enum tern_result measure_loss(struct tern_federation *federation)
{
    const struct tern_round_machine *machine = &federation->machine;
    uint32_t count = 0;
    float *losses = malloc(((size_t)machine->member_count + 1) * sizeof losses[0]);
    if (losses == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        if (member->state == TERN_MEMBER_REPORTED) {
            losses[count++] = client_of(federation, member->client)->drift.loss;
        }
    }
    qsort(losses, count, sizeof losses[0], compare_floats);
    federation->row.median_loss = count > 0 ? losses[(count - 1) / 2] : 0.0F;
    free(losses);
    return TERN_OK;
}

// In client order, so that the sum has the same bits whenever the updates came. Each counts as the
// mean takes it: scaled for its local steps, weighted by its examples.
static void measure_variance(struct tern_federation *federation,
                             const struct tern_strategy_report *report)
{
    const struct tern_round_machine *machine = &federation->machine;
    const struct tern_strategy_totals *totals = &federation->totals;
    double square = 0.0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        if (member->state != TERN_MEMBER_REPORTED) {
            continue;
        }
        const struct drift *drift = &client_of(federation, member->client)->drift;
        double factor = tern_strategy_steps_factor(totals, drift->local_steps);
        double share = (double)drift->num_examples / (double)totals->num_examples;
        square += share * factor * factor * drift->square;
    }
    federation->row.local_steps = report->effective_steps;
    federation->row.variance =
        tern_round_variance(square, norm_of_mean(totals->rule.strategy, report), report->updates);
}

enum tern_result tern_drift_measure(struct tern_federation *federation,
                                    const struct tern_strategy_report *report)
{
    measure_variance(federation, report);
    return measure_loss(federation);
}

// Measures the update as if it had just arrived. The close reads its values (tern_merge_resume()), where another node's
// part may cover them.
static enum tern_result remeasure(void *ctx, const struct tern_db_update *update)
{
    struct tern_federation *federation = ctx;
    struct client *client = client_of(federation, update->client);
    struct tern_codec_info info;
    struct tern_span container;
    tern_Update message;
    if (client == NULL || update->body == NULL || update->round != federation->machine.round) {
        return TERN_OK;
    }
    TERN_TRY(tern_wire_decode_update(update->body, update->body_len, &message, &container));
    TERN_TRY(
        tern_container_inspect(&federation->merge.model, container.data, container.len, &info));
    tern_drift_note(client, &message, info.sum_square);
    return TERN_OK;
}

enum tern_result tern_drift_load(struct tern_federation *federation)
{
    return federation->machine.open ? tern_db_update_each(federation->db, federation->machine.round,
                                                          remeasure, federation)
                                    : TERN_OK;
}
