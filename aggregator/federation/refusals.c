// Refusals are delayed and logged ever less often, so that one client cannot waste bytes or fill the log. When all
// clients are refused for their values, round after round, the federation has diverged, and the operator is warned.
#include "federation/refusals.h"

#include <math.h>
#include <stdio.h>

// Consecutive draws of members without an accepted update after which the operator is warned.
#define DRAWS_TOLD 2

// The wait doubles from 1 s this many times, to 256 s.
#define WAIT_DOUBLINGS 8

static const char advice[] =
    "The federation has diverged, clients' columns are not scaled (tern-client check), or "
    "limits.norm is below the usual norm of updates. If updates of this size are sound, raise "
    "limits.norm and send SIGHUP; else begin anew from an older version (export --version, "
    "init --model) with scaled columns, or a lower train.learning_rate or train.local_steps.";

void tern_refusal_set(struct tern_refusal *refusal, enum tern_result result, const char *sentence)
{
    refusal->result = result;
    snprintf(refusal->sentence, sizeof refusal->sentence, "%s",
             sentence != NULL ? sentence : tern_result_sentence(result));
}

// The delay begins at one second and doubles with each refusal, so that the client trains in vain at most every four
// minutes.
void tern_refusals_delay_retry(struct client *client, struct tern_refusal *refusal)
{
    refusal->retry_after_s = 1u << client->refusals;
    client->refusals += client->refusals < WAIT_DOUBLINGS;
}

bool tern_refusals_is_about_values(enum tern_result result)
{
    return result == TERN_ERR_NORM_LIMIT || result == TERN_ERR_NON_FINITE;
}

void tern_refusals_update_accepted(struct tern_federation *federation, struct client *client)
{
    federation->refused.accepted++;
    client->refusals = 0;
}

static void note_refused(struct tern_federation *federation,
                         const struct tern_incoming_update *update, enum tern_result result)
{
    struct client *client = client_of(federation, update->client);
    struct refused *refused = &federation->refused;
    federation->counts.updates_rejected++;
    client->refused++;
    if (is_power_of_two(client->refused)) {
        tern_log(TERN_LOG_WARN, "update-rejected",
                 "round=%u client=%llu reason=%s count=%u norm=%.4g limit=%.4g", update->round,
                 (unsigned long long)update->client, tern_result_name(result), client->refused,
                 sqrt(update->sum_square), federation->config.limits.norm);
    }
    if (!tern_refusals_is_about_values(result)) {
        return;
    }
    refused->updates++;
    if (client->refused_in != refused->draw + 1) {
        client->refused_in = refused->draw + 1;
        refused->clients++;
    }
}

// Writes a sentence about the update's invalid field, with its value. Checks fields in the order of
// tern_check_update(). False: no field is outside its own range.
static bool name_field(const struct tern_federation *federation, const tern_Update *message,
                       char sentence[sizeof((struct tern_refusal){0}.sentence)])
{
    const size_t size = sizeof((struct tern_refusal){0}.sentence);
    const uint32_t most = federation->config.limits.num_examples;
    if (message->num_examples == 0 || message->num_examples > most) {
        return snprintf(sentence, size,
                        "num_examples is %u. It must be from 1 to %u (limits.num_examples).",
                        message->num_examples, most) > 0;
    }
    if (message->local_steps == 0 || message->local_steps > TERN_WIRE_LOCAL_STEPS_MAX) {
        return snprintf(sentence, size,
                        "local_steps is %u. It must be from 1 to %u, and no more than the task's.",
                        message->local_steps, TERN_WIRE_LOCAL_STEPS_MAX) > 0;
    }
    if (!isfinite(message->loss)) {
        return snprintf(sentence, size, "loss is %g. It must be a finite number.",
                        (double)message->loss) > 0;
    }
    if (message->has_decay && !(message->decay >= 0.0F && message->decay <= 1.0F)) {
        return snprintf(sentence, size,
                        "decay is %g. It is the fraction of the error buffer that was kept, and "
                        "must be from 0 to 1.",
                        (double)message->decay) > 0;
    }
    if (message->has_evaluation &&
        (message->evaluation.num_examples == 0 || !isfinite(message->evaluation.loss) ||
         !(message->evaluation.accuracy >= 0.0F && message->evaluation.accuracy <= 1.0F))) {
        return snprintf(sentence, size,
                        "evaluation has num_examples %u, loss %g, accuracy %g. They must be at "
                        "least 1, finite, and from 0 to 1.",
                        message->evaluation.num_examples, (double)message->evaluation.loss,
                        (double)message->evaluation.accuracy) > 0;
    }
    if (message->has_error &&
        !(message->error.norm >= 0.0F && isfinite(message->error.norm) &&
          message->error.maximum >= 0.0F && isfinite(message->error.maximum))) {
        return snprintf(sentence, size,
                        "error has norm %g and maximum %g. Both must be finite and not negative.",
                        (double)message->error.norm, (double)message->error.maximum) > 0;
    }
    return false;
}

static const char *sentence_of(const struct tern_federation *federation, const tern_Update *message,
                               enum tern_result result,
                               char sentence[sizeof((struct tern_refusal){0}.sentence)])
{
    const bool is_of_a_field = result == TERN_ERR_ARGUMENT || result == TERN_ERR_NON_FINITE;
    if (is_of_a_field && name_field(federation, message, sentence)) {
        return sentence;
    }
    if (result == TERN_ERR_ARGUMENT) {
        return "local_steps exceeds the task's number, or another value is outside its range.";
    }
    if (result == TERN_ERR_STATE) {
        return "The update contains no indices, and its round shares none. Send it with indices.";
    }
    return tern_result_sentence(result);
}

void tern_refusals_refuse_update(struct tern_federation *federation,
                                 const struct tern_incoming_update *update, enum tern_result result,
                                 struct tern_refusal *refusal)
{
    char sentence[sizeof refusal->sentence];
    tern_refusal_set(refusal, result, sentence_of(federation, &update->message, result, sentence));
    if (result == TERN_ERR_LATE) {
        federation->counts.updates_late++;
        return;
    }
    note_refused(federation, update, result);
    tern_refusals_delay_retry(client_of(federation, update->client), refusal);
}

// --- Draws

static void next_draw(struct refused *refused)
{
    refused->draw++;
    refused->accepted = 0;
    refused->updates = 0;
    refused->clients = 0;
}

void tern_refusals_end_cohort(struct tern_federation *federation, bool committed)
{
    struct refused *refused = &federation->refused;
    const bool all = !committed && refused->accepted == 0 && refused->updates > 0;
    refused->draws = all ? refused->draws + 1 : 0;
    if (refused->draws >= DRAWS_TOLD && is_power_of_two(refused->draws)) {
        tern_log(TERN_LOG_WARN, "all-updates-refused",
                 "round=%u draws=%u updates=%u clients=%u advice=%s", federation->machine.round,
                 refused->draws, refused->updates, refused->clients, TERN_LOG_TEXT(advice));
    }
    next_draw(refused);
}

const char *tern_refusals_advice(const struct tern_federation *federation, uint32_t *draws)
{
    *draws = federation->refused.draws;
    return federation->refused.draws >= DRAWS_TOLD ? advice : NULL;
}
