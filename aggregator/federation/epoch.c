// Epochs: rounds that build on the full gradient of the first of them (strategy qsvrg). Of round k of an epoch,
// from 0, that first one is k rounds before; so a round's row says by its epoch_step alone what it is, also after a
// restart. Who builds on the full gradient holds the model that it was of, the anchor, and the step that the model took
// then. Clients say in check-ins whether they do, and what an accepted update implies is stored with it.
#include "federation/internal.h"

#include "merge/strategy_rule.h"
#include <stdio.h>
#include <string.h>

// --- Settings

static bool loses_nothing(const struct tern_codec *codec)
{
    return codec->id == TERN_CODEC_FLOAT32;
}

// INCEPTIONN's error is bounded, but leans to zero.
static bool is_right_on_average(const struct tern_codec *codec)
{
    const bool unbiased = tern_codec_entry(codec->id)->feedback == TERN_FEEDBACK_NONE &&
                          codec->id != TERN_CODEC_INCEPTIONN;
    return unbiased || loses_nothing(codec);
}

bool tern_epoch_check_config(const struct tern_federation_config *config, char why[256])
{
    const struct tern_federation_train *train = &config->train;
    const char *name = config->strategy->name;
    char spec[TERN_CODEC_SPEC_MAX];
    if (!config->strategy->has_epochs) {
        return true;
    }
    if (config->steps.policy != TERN_STEPS_FIXED || config->steps.local_steps != 1) {
        snprintf(
            why, 256,
            "an update of %s is one step of SGD; set train.local_steps = 1 and schedule.policy "
            "= fixed",
            name);
    } else if (train->momentum > 0.0F) {
        snprintf(why, 256, "%s has no momentum, which would be of one step; set train.momentum = 0",
                 name);
    } else if (train->rate.schedule != TERN_RATE_CONSTANT || train->rate.warmup_rounds > 0) {
        snprintf(why, 256,
                 "the learning rate of %s is the same all over an epoch; set train.schedule = "
                 "constant and train.warmup_rounds = 0",
                 name);
    } else if (config->server_learning_rate < 1.0F || config->server_learning_rate > 1.0F) {
        snprintf(why, 256,
                 "%s moves the model by the mean of its updates; set "
                 "strategy.server_learning_rate = 1",
                 name);
    } else if (!loses_nothing(&config->downloads.codec)) {
        tern_codec_format(&config->downloads.codec, spec);
        snprintf(why, 256,
                 "the downloads of %s must lose nothing, and codec.codec_down is %.64s; set "
                 "codec.codec_down = float32",
                 name, spec);
    } else if (!is_right_on_average(&config->codec_up)) {
        tern_codec_format(&config->codec_up, spec);
        snprintf(
            why, 256,
            "the updates of %s must be right on average by themselves, without an error buffer, "
            "and codec.codec is %.64s; set codec.codec = default, another qsgd, or float32",
            name, spec);
    } else {
        return true;
    }
    return false;
}

// --- Which rounds

void tern_epoch_begin(struct tern_federation *federation)
{
    const struct tern_federation_config *config = &federation->config;
    federation->epoch = (struct epoch){
        .is_on = config->strategy->has_epochs,
        .steps = (uint32_t)config->strategy_parameters[TERN_STRATEGY_EPOCH_STEPS],
        .learning_rate = config->train.rate.first,
    };
}

static struct epoch epoch_of(const struct tern_strategy_rule *rule, uint32_t round)
{
    const uint32_t step = (uint32_t)rule->parameters[TERN_STRATEGY_EPOCH_STEP];
    return (struct epoch){
        .is_on = rule->strategy->has_epochs,
        .steps = (uint32_t)rule->parameters[TERN_STRATEGY_EPOCH_STEPS],
        .step = step,
        .anchor = step > 0 ? round - step : 0,
        .learning_rate = rule->learning_rate,
    };
}

void tern_epoch_load(struct tern_federation *federation)
{
    federation->epoch = epoch_of(&federation->totals.rule, federation->row.round);
}

void tern_epoch_plan(struct tern_federation *federation)
{
    const struct tern_db_round *last = &federation->row;
    struct tern_strategy_rule rule;
    tern_epoch_begin(federation);
    if (!federation->epoch.is_on || last->round == 0 || tern_rule_read(last, &rule) != TERN_OK ||
        rule.strategy != federation->config.strategy) {
        return;
    }
    struct epoch next = epoch_of(&rule, last->round);
    next.step++;
    next.anchor = last->round + 1 - next.step;
    if (next.step + 2 <= next.steps) {
        federation->epoch = next;
    }
}

// --- With whom

bool tern_epoch_can(const struct tern_federation *federation, const struct tern_db_client *client)
{
    const bool needed = federation->config.strategy->has_epochs || federation->epoch.is_on;
    return !needed || client->evaluator || (client->abilities & TERN_WIRE_REDUCES) != 0;
}

bool tern_epoch_admits(const struct tern_federation *federation,
                       const struct tern_db_client *client)
{
    const struct epoch *epoch = &federation->epoch;
    return epoch->step == 0 ||
           (client->anchor == epoch->anchor && (client->anchor_step || epoch->step == 1));
}

// What a client holds is stored at once: a crash must not make it one that holds nothing, on which the epoch
// would end.
enum tern_result tern_epoch_hold(struct tern_federation *federation, uint64_t id, uint32_t anchor,
                                 bool step)
{
    struct tern_db_client *row = &client_of(federation, id)->row;
    if (row->anchor == anchor && row->anchor_step == step) {
        return TERN_OK;
    }
    row->anchor = anchor;
    row->anchor_step = step;
    federation->clients.changed |=
        !tern_epoch_admits(federation, row); // it may be a member that has lost it
    return tern_clients_store(federation, id);
}

enum tern_result tern_epoch_reported(struct tern_federation *federation, uint64_t id)
{
    const struct epoch *epoch = &federation->epoch;
    if (!epoch->is_on) {
        return TERN_OK;
    }
    const uint32_t anchor = epoch->step > 0 ? epoch->anchor : federation->machine.round;
    return tern_epoch_hold(federation, id, anchor, epoch->step > 0);
}

// --- What they do

void tern_epoch_fill(const struct tern_federation *federation, tern_Task *task)
{
    const struct epoch *epoch = &federation->epoch;
    if (epoch->is_on) {
        task->gradient =
            epoch->step > 0 ? tern_Gradient_GRADIENT_REDUCED : tern_Gradient_GRADIENT_FULL;
        task->anchor = epoch->anchor;
    }
}

const struct tern_codec *tern_epoch_codec(const struct tern_federation *federation)
{
    static const struct tern_codec whole = {.id = TERN_CODEC_FLOAT32};
    const struct epoch *epoch = &federation->epoch;
    return epoch->is_on && epoch->step == 0 ? &whole : &federation->config.codec_up;
}

// What an update of another strategy, or a late one, has left in an error buffer goes into none of these.
const struct tern_error_settings *tern_epoch_error(const struct tern_federation *federation)
{
    static const struct tern_error_settings nothing = {.policy = TERN_DIRECTIVE_LIMIT};
    return federation->epoch.is_on ? &nothing : &federation->config.error;
}
