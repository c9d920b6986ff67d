// Drives the open round: selects and replaces its clients, and decides when the round is extended or closes.
#include "federation/round.h"

#include "federation/clients.h"
#include "federation/closing.h"
#include "federation/secure.h"
#include "federation/statistics.h"
#include "federation/strategy.h"
#include "federation/update.h"
#include "rounds/machine.h"
#include "rounds/selection.h"
#include "secure/masked.h"
#include "store/store.h"
#include <stdio.h>
#include <string.h>

// --- Epochs (strategy qsvrg)

// Plans the next round as the first of an epoch.
static void begin_epoch(struct tern_federation *federation)
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

void tern_rounds_load_epoch(struct tern_federation *federation)
{
    federation->epoch = epoch_of(&federation->totals.rule, federation->row.round);
}

// Plans the next round's position in its epoch from the last round's row, so that a restart continues the epoch. The
// row stores the round's step k, counted from 0; the epoch's first round is k rounds earlier.
static void plan_epoch(struct tern_federation *federation)
{
    const struct tern_db_round *last = &federation->row;
    struct tern_strategy_rule rule;
    begin_epoch(federation);
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

// Returns the codec of the open round's updates. A full gradient is sent without loss.
static const struct tern_codec *epoch_codec(const struct tern_federation *federation)
{
    static const struct tern_codec whole = {.id = TERN_CODEC_FLOAT32};
    const struct epoch *epoch = &federation->epoch;
    return epoch->is_on && epoch->step == 0 ? &whole : &federation->config.codec_up;
}

// --- The strategy of a round

static bool has_state(const struct tern_strategy *strategy)
{
    return strategy != NULL && strategy->states[0].name != NULL;
}

// Writes the strategy into the row of the round that opens, where the learning rate is set already, and resets the
// totals. previous: the name of the last round's strategy, or "".
static void open_strategy(struct tern_federation *federation, const char *previous)
{
    struct tern_strategy_rule rule;
    tern_strategy_configured_rule(&federation->config, federation->row.learning_rate, &rule);
    if (federation->epoch.is_on) {
        rule.parameters[TERN_STRATEGY_EPOCH_STEPS] = (float)federation->epoch.steps;
        rule.parameters[TERN_STRATEGY_EPOCH_STEP] = (float)federation->epoch.step;
    }
    tern_rule_write(&rule, &federation->row);
    tern_strategy_totals_init(&federation->totals, &rule);
    tern_merge_open(&federation->merge, &rule);
    federation->machine.takes_late_updates = rule.strategy->accepts_late_updates;
    bool changed = previous[0] != '\0' && strcmp(previous, rule.strategy->name) != 0;
    if (changed) {
        bool states = has_state(rule.strategy) || has_state(tern_strategy_find(previous));
        tern_log(TERN_LOG_WARN, "strategy-changed", "round=%u from=%s to=%s%s",
                 federation->row.round, previous, rule.strategy->name,
                 states ? " state=starts-anew" : "");
    }
}

// --- Clients that may be selected

static bool may_be_selected(const struct tern_federation *federation, const struct client *client,
                            uint64_t now)
{
    uint64_t within = federation->config.eligible_within_ms;
    bool recent = within == 0 || client->row.last_seen_ms + within >= now;
    return tern_clients_is_trainer(federation, client) && !tern_clients_lacks_scaling(client) &&
           tern_epoch_allows(federation, &client->row) &&
           tern_secure_allows_client(federation, client) &&
           !tern_federation_has_spent_privacy(federation, client) &&
           (client->waiting || (recent && tern_clients_has_checked_in(federation, client, now)));
}

// Keeps the clients->candidates[0..count) for which keeps() is true; returns how many there are.
static uint32_t keep_if(struct tern_federation *federation, uint32_t count, uint64_t now,
                        bool (*keeps)(const struct client *client, uint64_t now))
{
    uint64_t *ids = federation->clients.candidates;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (keeps(client_of(federation, ids[i]), now)) {
            ids[kept++] = ids[i];
        }
    }
    return kept;
}

static bool is_responsive(const struct client *client, uint64_t now)
{
    return !tern_clients_is_overdue(client, now);
}

static bool is_reliable(const struct client *client, uint64_t now)
{
    (void)now;
    return !tern_is_unreliable(client->row.unreported);
}

static bool is_unreliable(const struct client *client, uint64_t now)
{
    return !is_reliable(client, now);
}

// Limits the loss of clients that may join the open round or, if none is open, the next one.
static void limit_loss(struct tern_federation *federation)
{
    struct tern_privacy_settings settings = federation->config.privacy;
    if (federation->machine.open && federation->secure.is_on) {
        settings.noise = (double)federation->secure.facts.noise / 1000.0;
    }
    federation->loss_before = tern_privacy_loss_before(&settings, federation->clients.count);
}

static uint32_t list_selectable(struct tern_federation *federation, uint64_t now)
{
    uint32_t count = 0;
    limit_loss(federation);
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        if (may_be_selected(federation, &federation->clients.list[i], now)) {
            federation->clients.candidates[count++] = (uint64_t)i + 1;
        }
    }
    return count;
}

// Returns how many reliable clients a round needs: with fewer, the model would be that of a few clients. Only a
// configured quorum counts, because the default quorum depends on the cohort, which may exceed the federation.
static uint32_t least_reliable(const struct tern_federation *federation)
{
    const uint32_t clients = federation->config.min_clients;
    const uint32_t quorum = federation->config.round.quorum;
    return clients > quorum ? clients : quorum;
}

static uint32_t list_reliable(struct tern_federation *federation, uint64_t now)
{
    const uint32_t drawable = list_selectable(federation, now);
    if (federation->clients.unreliable == 0) {
        return drawable;
    }
    const uint32_t reliable = keep_if(federation, drawable, now, is_reliable);
    return reliable >= least_reliable(federation) ? reliable : list_selectable(federation, now);
}

static uint32_t list_responsive(struct tern_federation *federation, uint64_t now)
{
    return keep_if(federation, list_reliable(federation, now), now, is_responsive);
}

static uint32_t list_unreliable(struct tern_federation *federation, uint64_t now)
{
    const uint32_t count =
        keep_if(federation, list_selectable(federation, now), now, is_unreliable);
    return keep_if(federation, count, now, is_responsive);
}

// --- Byte budgets

bool tern_budgets_are_used(const struct tern_federation *federation)
{
    return (federation->config.steps.policy & TERN_STEPS_BUDGET) != 0 ||
           federation->config.selection == TERN_SELECTION_BUDGET;
}

// The number of rounds until budgets are renewed, and the fraction of them in which a client with bytes left takes
// part.
struct to_go {
    double rounds;
    double share;
};

static struct tern_budget budget_of(const struct client *client, const struct to_go *to_go)
{
    uint64_t spent = client->row.budget_spent;
    uint64_t left = client->row.budget_left > spent ? client->row.budget_left - spent : 0;
    return (struct tern_budget){.budgeted = client->row.budgeted,
                                .left = left,
                                .is_per_round = client->row.budget_renewed,
                                .rounds = to_go->rounds,
                                .share = to_go->share};
}

// Estimates the number of rounds until the federation ends or, if sooner, until the month ends, when budgets are
// renewed.
static double rounds_to_go(const struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    const struct tern_round_policy *policy = &machine->policy;
    uint64_t length = machine->typical_ms != 0 ? machine->typical_ms : policy->deadline_ms;
    length = length > policy->min_interval_ms ? length : policy->min_interval_ms;
    double rounds = (double)tern_budget_month_left_ms(now) / (double)(length > 0 ? length : 1);
    if (policy->rounds != 0) {
        double left = (double)policy->rounds - (double)machine->committed;
        rounds = left < rounds ? left : rounds;
    }
    return rounds;
}

struct budgets {
    const struct tern_federation *federation;
    uint64_t now;
    double rounds;
};

static double affordable_fraction(const void *ctx, uint32_t index)
{
    const struct budgets *budgets = ctx;
    const struct client *client = &budgets->federation->clients.list[index];
    const struct tern_budget budget = budget_of(client, &(struct to_go){budgets->rounds, 1.0});
    return may_be_selected(budgets->federation, client, budgets->now)
               ? tern_budget_affords(&budget, client->least_bytes)
               : 0.0;
}

static struct to_go budget_rounds(const struct tern_federation *federation, uint64_t now)
{
    if (!tern_budgets_are_used(federation)) {
        return (struct to_go){1.0, 1.0};
    }
    const struct tern_round_policy *policy = &federation->machine.policy;
    const struct budgets budgets = {federation, now, rounds_to_go(federation, now)};
    uint32_t invited = tern_cohort_size(policy->cohort, policy->over_selection, UINT32_MAX);
    double share =
        tern_budget_share(invited, federation->clients.count, affordable_fraction, &budgets);
    return (struct to_go){budgets.rounds, share};
}

struct tern_budget tern_budgets_of_client(const struct tern_federation *federation,
                                          const struct client *client, uint64_t now)
{
    const struct to_go to_go = budget_rounds(federation, now);
    return budget_of(client, &to_go);
}

// --- Selection

struct choice {
    const struct tern_federation *federation;
    uint64_t now;
    struct to_go to_go;
};

static struct tern_selection_chance chance_of(const void *ctx, uint64_t id)
{
    const struct choice *choice = ctx;
    const struct tern_federation *federation = choice->federation;
    const struct client *client = &federation->clients.list[id - 1];
    struct tern_selection_chance chance = {1.0, 1.0};
    if (federation->config.selection == TERN_SELECTION_AVAILABILITY) {
        uint64_t seen = client->row.last_seen_ms;
        const struct tern_availability facts = {
            .age_ms = !client->waiting && choice->now > seen ? choice->now - seen : 0,
            .window_ms = federation->config.round.deadline_ms,
            .unreported = client->row.unreported,
            .metered = client->row.metered,
            .battery = client->row.power == tern_Power_POWER_BATTERY};
        chance.preference = tern_selection_availability(&facts);
    }
    if (tern_budgets_are_used(federation)) {
        const struct tern_budget budget = budget_of(client, &choice->to_go);
        chance.affordable = tern_budget_chance(&budget, client->least_bytes);
    }
    return chance;
}

// Selects `wanted` of clients->candidates[0..count), evenly over the values of the tag config.tags.spread_key.
static uint32_t spread_over_tag(struct tern_federation *federation, uint32_t count, uint32_t round,
                                uint32_t attempt, uint32_t wanted)
{
    const char *key = federation->config.tags.spread_key;
    struct clients *clients = &federation->clients;
    if (key[0] == '\0' || count <= wanted) {
        return count;
    }
    for (uint32_t i = 0; i < count; i++) {
        clients->tagged[i] =
            (struct tern_tagged_client){.id = clients->candidates[i],
                                        .tags = clients->list[clients->candidates[i] - 1].row.tags};
    }
    tern_tags_select_evenly(federation->about.seed, round, attempt, key, clients->tagged, count,
                            clients->candidates, wanted);
    return wanted;
}

static uint32_t select_clients(struct tern_federation *federation, uint32_t count, uint32_t round,
                               uint32_t attempt, uint32_t wanted, uint32_t updates, uint64_t now)
{
    if (federation->config.selection == TERN_SELECTION_RANDOM &&
        !tern_budgets_are_used(federation)) {
        return spread_over_tag(federation, count, round, attempt, wanted);
    }
    const struct choice choice = {federation, now, budget_rounds(federation, now)};
    const struct tern_selection_need need = {
        .wanted = wanted,
        .least = tern_cohort_size(updates, federation->config.round.over_selection, wanted)};
    uint32_t chosen =
        tern_selection_filter(federation->about.seed, round, attempt,
                              federation->clients.candidates, count, &need, chance_of, &choice);
    // A round with fewer updates than its quorum would be the model of the few clients with large budgets.
    uint32_t enough = attempt > 1 ? 1 : updates < count ? updates : count;
    bool too_few = need.least > 0 && chosen < enough;
    if (too_few && !federation->too_few_afford_logged) {
        tern_log(TERN_LOG_WARN, "too-few-afford-a-round", "round=%u eligible=%u chosen=%u", round,
                 count, chosen);
    }
    federation->too_few_afford_logged = too_few;
    return too_few ? 0 : spread_over_tag(federation, chosen, round, attempt, wanted);
}

// --- Opening

// A client that was invited counts as late after 1/PATIENCE_SHARE of round.deadline without a check-in.
#define PATIENCE_SHARE 4

static uint64_t patience_ms(const struct tern_federation *federation)
{
    return federation->config.round.deadline_ms / PATIENCE_SHARE;
}

// Time until the next attempt to open a round, after too few clients were found.
#define RETRY_OPEN_MS 1000

// Returns when to check the members next: after the time that a newly enrolled client may take to check in, or sooner
// if members count as late sooner.
static uint64_t next_member_check(const struct tern_federation *federation, uint64_t now)
{
    const uint64_t patience = patience_ms(federation);
    const uint64_t soon =
        tern_selection_first_checkin_ms(federation->config.round.come_back_min_ms);
    return now + (soon < patience ? soon : patience);
}

// Returns N for the averaged model's next step, in which the new version has the weight 1 / N. N grows from 1 to
// average_versions, so that the first averages are plain means of the versions since averaging was configured.
static uint32_t average_divisor(const struct tern_federation *federation)
{
    uint32_t most = federation->config.average_versions;
    uint32_t next = federation->merge.averaged + 1;
    return next < most ? next : most;
}

static float learning_rate_of(const struct tern_federation *federation, uint32_t decays)
{
    const struct tern_federation_config *config = &federation->config;
    return federation->epoch.is_on
               ? federation->epoch.learning_rate
               : tern_rate_for(&config->train.rate, federation->machine.committed + 1,
                               config->round.rounds, decays);
}

static void fill_codecs(const struct tern_federation *federation, struct tern_db_round *row)
{
    const struct tern_federation_config *config = &federation->config;
    const bool early = federation->machine.committed < config->early.rounds;
    const struct tern_codec *down = early ? &config->early.down : &config->downloads.codec;
    const struct tern_codec *up = early ? &config->early.up : epoch_codec(federation);
    tern_codec_format(up, row->codec_up);
    tern_codec_format(down, row->codec_down);
}

// Sets the row of the round that opens, with its codecs, learning rate and strategy, so that a later change of the
// configuration does not affect the open round.
static void fill_row(struct tern_federation *federation)
{
    const struct tern_federation_config *config = &federation->config;
    const struct tern_round_machine *machine = &federation->machine;
    struct tern_db_round *row = &federation->row;
    char previous[TERN_DB_STRATEGY_MAX];
    memcpy(previous, row->strategy, sizeof previous);
    if (row->mode == TERN_ROUND_RESTORED) {
        previous[0] = '\0';
    }
    memset(row, 0, sizeof *row);
    row->round = machine->round;
    row->state = TERN_ROUND_OPEN;
    row->base_version = federation->merge.version;
    row->target = machine->target;
    row->quorum = machine->quorum;
    row->attempts = machine->attempts;
    row->opened_ms = machine->opened_ms;
    row->deadline_ms = machine->deadline_ms;
    row->averaged = average_divisor(federation);
    fill_codecs(federation, row);
    row->decays = tern_rate_decays(&config->train.rate, &federation->rate_state, machine->committed,
                                   machine->losses.since_lowest);
    row->learning_rate = learning_rate_of(federation, row->decays);
    tern_rate_round_opened(&federation->rate_state, row->decays);
    open_strategy(federation, previous);
}

// Returns how many updates a round wants of `count` selectable clients. With round.fraction, the strategy's memory
// and the counters of secure rounds limit the number.
static uint32_t cohort_for(const struct tern_federation *federation, uint32_t count)
{
    const struct tern_federation_config *config = &federation->config;
    uint32_t most = tern_strategy_largest_cohort(config, federation->merge.model.count);
    if (config->secure.enabled && config->secure.noise == 0) {
        const uint32_t counted =
            tern_masked_largest_cohort(&federation->merge.model, config->secure.share);
        most = counted < most ? counted : most;
    }
    uint32_t cohort = tern_cohort_target(config->round.cohort, config->round.fraction, count);
    return cohort > most && most >= config->round.cohort ? most : cohort;
}

// Writes the clients from which the next round selects to clients->candidates; returns how many. Includes overdue
// clients only if the quorum needs them.
static uint32_t list_for_selection(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_policy *policy = &federation->machine.policy;
    const uint32_t eligible = list_reliable(federation, now);
    policy->cohort = cohort_for(federation, eligible);
    const uint32_t quorum = tern_round_quorum(policy);
    const uint32_t present = list_responsive(federation, now);
    return present >= (quorum < eligible ? quorum : eligible) ? present
                                                              : list_reliable(federation, now);
}

// Keeps the clients->candidates[0..count) that are not members yet; returns how many there are.
static uint32_t keep_non_members(struct tern_federation *federation, uint32_t count)
{
    uint32_t fresh = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (tern_round_member(&federation->machine, federation->clients.candidates[i]) == NULL) {
            federation->clients.candidates[fresh++] = federation->clients.candidates[i];
        }
    }
    return fresh;
}

// Invites overdue clients until the cohort is full. The round does not wait for them.
static enum tern_result invite_absent(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    const struct tern_round_policy *policy = &machine->policy;
    const uint32_t count = list_reliable(federation, now);
    const uint32_t size = tern_cohort_size(policy->cohort, policy->over_selection, count);
    if (federation->config.selection != TERN_SELECTION_RANDOM ||
        tern_budgets_are_used(federation)) {
        return TERN_OK;
    }
    for (uint32_t i = 0; i < count && machine->member_count < size; i++) {
        const struct tern_member member = {.client = federation->clients.candidates[i],
                                           .invited_ms = now};
        if (tern_round_member(machine, member.client) == NULL) {
            TERN_TRY(tern_round_restore_member(machine, &member));
        }
    }
    return TERN_OK;
}

// Invites some unreliable clients, too; the round does not wait for them. They are invited a millisecond later than
// other members, so that no unreliable client becomes the round's leader.
static enum tern_result invite_unreliable(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    uint64_t *ids = federation->clients.candidates;
    uint32_t places = tern_unreliable_invitations(machine->target);
    if (federation->clients.unreliable == 0) {
        return TERN_OK;
    }
    uint32_t count = keep_non_members(federation, list_unreliable(federation, now));
    count = select_clients(federation, count, machine->round, 1, places, 0, now);
    places = places < count ? places : count;
    tern_cohort_sample(machine->policy.seed, machine->round, 0, ids, count, places);
    for (uint32_t i = 0; i < places; i++) {
        const struct tern_member member = {.client = ids[i], .invited_ms = now + 1};
        TERN_TRY(tern_round_restore_member(machine, &member));
    }
    return TERN_OK;
}

// Lowers the wanted number of updates to the number of reliable members, or to the quorum if that is more. Unreliable
// members were selected only because there were too few other clients.
static void lower_target_to_reliable(struct tern_federation *federation)
{
    struct tern_round_machine *machine = &federation->machine;
    uint32_t reliable = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct client *client = client_of(federation, machine->members[i].client);
        reliable += !tern_is_unreliable(client->row.unreported);
    }
    if (reliable < machine->member_count && !machine->takes_late_updates &&
        tern_round_lower_target(machine, reliable)) {
        tern_log(TERN_LOG_INFO, "round-wants-fewer", "round=%u wanted=%u unreliable=%u",
                 machine->round, machine->target, machine->member_count - reliable);
    }
}

// Selects the clients of the next round and writes them to clients->candidates; returns how many.
static uint32_t select_members(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_policy *policy = &federation->machine.policy;
    const uint32_t count = list_for_selection(federation, now);
    const uint32_t wanted = tern_cohort_size(policy->cohort, policy->over_selection, count);
    return select_clients(federation, count, federation->machine.round + 1, 1, wanted,
                          tern_round_quorum(policy), now);
}

static void log_early_end(const struct epoch *epoch, uint32_t round)
{
    tern_log(TERN_LOG_WARN, "epoch-ended-early", "round=%u began=%u rounds=%u advice=%s", round,
             epoch->anchor, epoch->step,
             TERN_LOG_TEXT("the clients that hold the epoch's full gradient do not check in"));
}

// Selects the next round's clients for the current epoch. If no client is left that can continue the epoch, a new epoch
// begins from the present model.
static uint32_t select_for_epoch(struct tern_federation *federation, uint64_t now)
{
    plan_epoch(federation);
    const uint32_t count = select_members(federation, now);
    if (count > 0 || federation->epoch.step == 0 || list_selectable(federation, now) > 0) {
        return count;
    }
    const struct epoch before = federation->epoch;
    begin_epoch(federation);
    const uint32_t others = select_members(federation, now);
    if (others > 0) {
        log_early_end(&before, federation->machine.round + 1);
    }
    return others;
}

// Counts trainers that have checked in or have just enrolled.
static uint32_t count_trainers(const struct tern_federation *federation, uint64_t now)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        const struct client *client = &federation->clients.list[i];
        count += tern_clients_is_trainer(federation, client) &&
                 tern_clients_has_checked_in(federation, client, now);
    }
    return count;
}

// Whether fewer clients than round.min_clients can take part. A secure round also needs enough clients with a ticket.
static bool has_too_few(struct tern_federation *federation, uint64_t now)
{
    const uint32_t least = federation->config.min_clients;
    const struct tern_secure_settings *secure = &federation->config.secure;
    if (count_trainers(federation, now) < least) {
        return true;
    }
    const uint32_t able = secure->enabled ? list_selectable(federation, now) : UINT32_MAX;
    return able < least || able < tern_secure_updates(secure);
}

// Ends the federation if no round is open and too few clients are left that another one may use (privacy.epsilon_max). Needs no
// helper, because the losses are stored.
static void end_by_privacy(struct tern_federation *federation, uint64_t now)
{
    const struct tern_federation_config *config = &federation->config;
    const struct tern_wait_rules rules = {.min_clients = config->min_clients,
                                          .cohort = config->round.cohort,
                                          .quorum = config->round.quorum,
                                          .secure_updates = tern_secure_updates(&config->secure)};
    struct tern_trainer_counts trainers = {.enrolled = 0};
    struct tern_losses *losses = &federation->machine.losses;
    if (config->privacy.epsilon_max <= 0 || federation->machine.open || federation->secure.is_on ||
        tern_round_finished(&federation->machine)) {
        return;
    }
    trainers.enrolled = count_trainers(federation, now);
    limit_loss(federation);
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        const struct client *client = &federation->clients.list[i];
        trainers.privacy_spent += tern_clients_is_trainer(federation, client) &&
                                  tern_clients_has_checked_in(federation, client, now) &&
                                  tern_federation_has_spent_privacy(federation, client);
    }
    if (!tern_wait_has_spent_privacy(&rules, &trainers)) {
        return;
    }
    losses->ending = TERN_ENDING_PRIVACY;
    federation->progressed = true; // held check-ins learn that the federation is finished
    tern_log(TERN_LOG_WARN, "federation-ended", "reason=%s round=%u clients=%u spent=%u advice=%s",
             tern_ending_name(losses->ending), federation->machine.round, trainers.enrolled,
             trainers.privacy_spent, TERN_LOG_TEXT(tern_ending_advice(losses->ending)));
}

static enum tern_result open_round(struct tern_federation *federation, uint64_t now)
{
    uint32_t count = 0;
    bool settled = false;
    federation->retry_open_ms = now + RETRY_OPEN_MS;
    federation->too_few = has_too_few(federation, now);
    if (!federation->too_few) {
        TERN_TRY(tern_statistics_make_scaling(federation, now, &settled));
    }
    if (settled) {
        count = select_for_epoch(federation, now);
    }
    if (count < tern_secure_updates(&federation->config.secure)) {
        return TERN_OK; // the other clients are overdue, or their budgets do not allow a round
    }
    if (count == 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_round_open(&federation->machine, federation->clients.candidates, count, now));
    lower_target_to_reliable(federation);
    TERN_TRY(invite_absent(federation, now));
    TERN_TRY(invite_unreliable(federation, now));
    return tern_rounds_store_opened(federation, now);
}

enum tern_result tern_rounds_store_opened(struct tern_federation *federation, uint64_t now)
{
    fill_row(federation);
    TERN_TRY(tern_secure_plan_round(federation));
    federation->opened_worked_us = federation->worked_us;
    federation->opened_search_ns = tern_federation_searches(federation).cpu_ns;
    TERN_TRY(tern_db_round_put(federation->db, &federation->row));
    TERN_TRY(tern_secure_store_opened(federation));
    TERN_TRY(tern_members_store_all(federation));
    federation->member_check_ms = next_member_check(federation, now);
    federation->progressed = true;
    tern_log(TERN_LOG_INFO, "round-opened", "round=%u version=%u invited=%u wanted=%u quorum=%u%s",
             federation->row.round, federation->row.base_version, federation->machine.member_count,
             federation->row.target, federation->row.quorum,
             federation->secure.is_on ? " mode=secure" : "");
    return TERN_OK;
}

// --- Replacing members, and extending rounds

// Writes clients that are not members yet to clients->candidates, to replace `need` members; returns how many. Includes
// overdue clients only if no other clients are left, and unreliable clients only if no reliable clients are left.
static uint32_t list_new_clients(struct tern_federation *federation, uint32_t need, uint64_t now)
{
    uint32_t fresh = keep_non_members(federation, list_responsive(federation, now));
    if (fresh == 0) {
        fresh = keep_non_members(federation, list_reliable(federation, now));
    }
    if (fresh == 0) {
        fresh = keep_non_members(federation, list_selectable(federation, now));
    }
    const struct tern_round_machine *machine = &federation->machine;
    uint32_t missing =
        machine->quorum > machine->reported ? machine->quorum - machine->reported : 0;
    return select_clients(federation, fresh, machine->round, machine->attempts + 1, need, missing,
                          now);
}

static enum tern_result store_replacements(struct tern_federation *federation, uint64_t now)
{
    federation->member_check_ms = next_member_check(federation, now);
    federation->row.deadline_ms = federation->machine.deadline_ms;
    federation->row.attempts = federation->machine.attempts;
    federation->progressed = true;
    TERN_TRY(tern_db_round_put(federation->db, &federation->row));
    return tern_members_store_all(federation);
}

// Logs the ids of the members that did not report by the deadline, as many as fit into the line.
static void log_silent(const struct tern_round_machine *machine)
{
    char ids[160] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < machine->member_count && used + 24 < sizeof ids; i++) {
        const struct tern_member *member = &machine->members[i];
        if (member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED) {
            used += (size_t)snprintf(ids + used, sizeof ids - used, "%s%llu", used > 0 ? "," : "",
                                     (unsigned long long)member->client);
        }
    }
    tern_log(TERN_LOG_WARN, "round-waits", "round=%u updates=%u quorum=%u silent=%s",
             machine->round, machine->reported, machine->quorum, TERN_LOG_TEXT(ids));
}

// Whether the member was invited, has not checked in since, and is late. Time before the service started does not
// count.
static bool is_silent(const struct tern_federation *federation, const struct tern_member *member,
                      uint64_t now)
{
    const struct client *client = client_of(federation, member->client);
    if (member->state != TERN_MEMBER_INVITED || client == NULL || client->waiting ||
        client->row.last_seen_ms >=
            member->invited_ms + (client->row.last_seen_ms <= client->row.created_ms)) {
        return false;
    }
    const uint64_t since =
        member->invited_ms > federation->loaded_ms ? member->invited_ms : federation->loaded_ms;
    return now >= since + patience_ms(federation) ||
           !tern_clients_has_checked_in(federation, client, now);
}

// Marks silent members as overdue, so that no round selects them before their next check-in. Returns how many there
// are.
static uint32_t mark_silent(struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    uint32_t count = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        if (is_silent(federation, &machine->members[i], now)) {
            client_of(federation, machine->members[i].client)->overdue_ms = now;
            count++;
        }
    }
    return count;
}

// Turns the open round into the first of a new epoch, if the round has no update yet, its members do not check in, and
// other clients could take part. An update for a member's earlier task is refused. Returns how many new clients are in
// clients->candidates.
static uint32_t restart_epoch(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    struct tern_db_round *row = &federation->row;
    const struct epoch before = federation->epoch;
    if (before.step == 0 || machine->reported > 0) {
        return 0;
    }
    const uint32_t hold_it = list_selectable(federation, now);
    begin_epoch(federation);
    if (list_selectable(federation, now) <= hold_it) {
        federation->epoch = before;
        return 0;
    }
    for (uint32_t i = 0; i < machine->member_count; i++) {
        tern_round_withdraw_task(&machine->members[i]);
    }
    tern_codec_format(epoch_codec(federation), row->codec_up);
    row->learning_rate = learning_rate_of(federation, row->decays);
    open_strategy(federation, row->strategy);
    log_early_end(&before, row->round);
    machine->policy.cohort = cohort_for(federation, list_selectable(federation, now));
    const uint32_t members = tern_round_count_missing(machine, NULL, NULL);
    const uint32_t fresh = list_new_clients(federation, members, now);
    tern_round_reset_target(machine, members + fresh);
    row->target = machine->target;
    row->quorum = machine->quorum;
    return fresh;
}

// Lowers the quorum to the number of updates received, at the deadline of a round that continues an epoch: no other
// client holds the full gradient, so none can replace a silent member. Returns whether the round can close with these
// updates.
static bool closes_below_quorum(struct tern_federation *federation)
{
    struct tern_round_machine *machine = &federation->machine;
    if (federation->epoch.step == 0 || machine->reported == 0) {
        return false;
    }
    tern_log(
        TERN_LOG_WARN, "round-below-quorum", "round=%u updates=%u quorum=%u advice=%s",
        machine->round, machine->reported, machine->quorum,
        TERN_LOG_TEXT("the other clients that hold the epoch's full gradient do not check in"));
    machine->quorum = machine->reported;
    federation->row.quorum = machine->quorum;
    return true;
}

static enum tern_result extend_round(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    // Log lines from here on were caused by the deadline and not by a request.
    tern_log_set_request(0);
    mark_silent(federation, now);
    TERN_TRY(tern_reliability_count_unreported(federation, now));
    uint32_t fresh =
        list_new_clients(federation, tern_round_count_missing(machine, NULL, NULL), now);
    log_silent(machine);
    if (fresh == 0 && closes_below_quorum(federation)) {
        tern_closing_decide(federation);
        return tern_db_round_put(federation->db, &federation->row);
    }
    fresh = fresh > 0 ? fresh : restart_epoch(federation, now);
    TERN_TRY(tern_round_extend(machine, federation->clients.candidates, fresh, now));
    TERN_TRY(store_replacements(federation, now));
    tern_refusals_end_cohort(federation, false);
    tern_log(TERN_LOG_WARN, "round-extended", "round=%u updates=%u quorum=%u invited=%u",
             machine->round, machine->reported, machine->quorum, machine->member_count);
    return TERN_OK;
}

// Whether the member gets no task because its client lacks the federation's scaling of columns.
static bool does_not_scale(const struct tern_federation *federation,
                           const struct tern_member *member)
{
    return member->state == TERN_MEMBER_INVITED &&
           tern_clients_lacks_scaling(client_of(federation, member->client));
}

// Whether the member gets no task because its client does not hold the epoch's full gradient.
static bool lacks_anchor(const struct tern_federation *federation, const struct tern_member *member)
{
    return (member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED) &&
           !tern_epoch_allows(federation, &client_of(federation, member->client)->row);
}

// Whether to replace the member: it is revoked, does not fetch its task, gets no task, or has had its task for several
// times as long as other members took.
static bool must_be_replaced(const struct tern_federation *federation, const struct tern_pace *pace,
                             const struct tern_member *member, uint64_t now)
{
    const struct client *client = client_of(federation, member->client);
    return client->row.revoked || does_not_scale(federation, member) ||
           lacks_anchor(federation, member) ||
           (!tern_is_unreliable(client->row.unreported) &&
            (is_silent(federation, member, now) ||
             tern_reliability_has_failed(federation, member) ||
             tern_reliability_is_overdue(federation, pace, member, now)));
}

// Marks the members to replace. Returns how many revoked members have not reported.
static uint32_t mark_replaceable(struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    struct tern_pace pace;
    uint32_t revoked = 0;
    tern_reliability_measure_pace(federation, &pace);
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        struct client *client = client_of(federation, member->client);
        client->needs_replacement = must_be_replaced(federation, &pace, member, now);
        revoked += client->row.revoked &&
                   (member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED);
    }
    return revoked;
}

static bool needs_replacement(const void *ctx, uint64_t id)
{
    const struct client *client = client_of(ctx, id);
    return client != NULL && client->needs_replacement;
}

// Counts a missed task for each member that was replaced at this check after it had fetched its task. *missed: their
// number.
static enum tern_result note_missed(struct tern_federation *federation, uint32_t *missed)
{
    const struct tern_round_machine *machine = &federation->machine;
    *missed = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        const struct client *client = client_of(federation, member->client);
        if (client->needs_replacement && member->state == TERN_MEMBER_REPLACED &&
            member->tasked_ms != 0 && !client->row.revoked) {
            TERN_TRY(
                tern_tries_are_used_up(member->tries) || client->row.failed_round == machine->round
                    // Counted when the client fetched its task too often, or reported that its training failed.
                    ? TERN_OK
                    : tern_reliability_count_missed(federation, member->client));
            (*missed)++;
        }
    }
    return TERN_OK;
}

// Whether an unreliable member has fetched its task so often that the round can end without it.
static bool has_used_up_tries(const struct tern_federation *federation,
                              const struct tern_member *member)
{
    const struct client *client = client_of(federation, member->client);
    return member->state == TERN_MEMBER_TASKED && tern_tries_are_used_up(member->tries) &&
           tern_is_unreliable(client->row.unreported);
}

// Whether the round may end without the member's update even if no other client replaces it.
static bool is_given_up(const struct tern_federation *federation, const struct tern_member *member)
{
    return has_used_up_tries(federation, member) ||
           tern_reliability_has_failed(federation, member) || does_not_scale(federation, member) ||
           lacks_anchor(federation, member);
}

// Whether the round has the member's update, or still expects it.
static bool is_counted_on(const struct tern_federation *federation,
                          const struct tern_member *member, uint64_t now)
{
    const struct client *client = client_of(federation, member->client);
    const bool awaited =
        member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED;
    return member->state == TERN_MEMBER_REPORTED ||
           (awaited && !is_given_up(federation, member) &&
            !tern_is_unreliable(client->row.unreported) && !tern_clients_is_overdue(client, now));
}

// Lowers the quorum to the number of members that hold the epoch's full gradient: no other client can replace the rest.
static void lower_quorum_in_epoch(struct tern_federation *federation)
{
    struct tern_round_machine *machine = &federation->machine;
    uint32_t able = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        able += member->state != TERN_MEMBER_REPLACED && !lacks_anchor(federation, member) &&
                (member->state == TERN_MEMBER_REPORTED ||
                 !client_of(federation, member->client)->row.revoked);
    }
    if (able > 0 && able < machine->quorum) {
        machine->quorum = able;
        federation->row.quorum = able;
    }
}

// Returns the number of updates that the round has or still expects.
static uint32_t count_others(const struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    uint32_t others = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        others += is_counted_on(federation, &machine->members[i], now);
    }
    return others;
}

// Lowers the quorum by the number of members whose training failed, if the other members are at least half of the
// cohort: the same training would most likely fail again. The round still waits for overdue members.
static void lower_quorum_by_failed(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    const uint32_t members = machine->member_count;
    const uint32_t cohort = members < machine->policy.cohort ? members : machine->policy.cohort;
    const uint32_t others = count_others(federation, now);
    uint32_t failed = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        failed += tern_reliability_has_failed(federation, &machine->members[i]);
    }
    const bool may =
        !federation->secure.is_on || others >= tern_secure_least(&federation->secure.facts);
    if (may && others < machine->quorum && others + failed >= machine->initial_quorum &&
        others >= cohort / 2 + cohort % 2) {
        tern_log(TERN_LOG_WARN, "round-needs-fewer", "round=%u quorum=%u before=%u failed=%u",
                 machine->round, others, machine->quorum, failed);
        machine->quorum = others;
        federation->row.quorum = others;
    }
}

// Withdraws the tasks of members whose training failed, if the other members meet the quorum.
static void drop_failed(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    lower_quorum_by_failed(federation, now);
    const bool spares = count_others(federation, now) >= machine->quorum;
    for (uint32_t i = 0; i < machine->member_count && spares; i++) {
        if (tern_reliability_has_failed(federation, &machine->members[i])) {
            tern_round_drop_member(&machine->members[i]);
        }
    }
}

// Lowers the wanted number of updates to the number that is still expected, if the round gave up some members and the
// others meet the quorum. A round of a strategy that buffers keeps its number, since late updates of earlier rounds
// count, too.
static enum tern_result lower_target(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    const uint32_t others = count_others(federation, now);
    uint32_t given_up = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        given_up += is_given_up(federation, &machine->members[i]);
    }
    if (federation->epoch.step > 0) {
        lower_quorum_in_epoch(federation);
    }
    if (given_up == 0 || machine->takes_late_updates || !tern_round_lower_target(machine, others)) {
        return TERN_OK;
    }
    federation->row.target = machine->target;
    tern_log(TERN_LOG_WARN, "round-wants-fewer", "round=%u wanted=%u given_up=%u", machine->round,
             machine->target, given_up);
    return tern_db_round_put(federation->db, &federation->row);
}

// Invites other clients in place of members that are not expected to report, before the deadline. While no client can
// replace a revoked member, every transaction checks again.
static enum tern_result replace_members(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    uint32_t missed = 0;
    if (!machine->open || (!federation->clients.changed && now < federation->member_check_ms)) {
        return TERN_OK;
    }
    federation->member_check_ms = next_member_check(federation, now);
    drop_failed(federation, now);
    const uint32_t silent = mark_silent(federation, now);
    const uint32_t revoked = mark_replaceable(federation, now);
    const uint32_t count = tern_round_count_missing(machine, needs_replacement, federation);
    const uint32_t fresh = count > 0 ? list_new_clients(federation, count, now) : 0;
    federation->clients.changed = revoked > 0 && count > fresh;
    if (fresh == 0) {
        return lower_target(federation, now);
    }
    TERN_TRY(tern_round_replace_members(machine, needs_replacement, federation,
                                        federation->clients.candidates, fresh, now));
    TERN_TRY(note_missed(federation, &missed));
    TERN_TRY(store_replacements(federation, now));
    tern_log(TERN_LOG_INFO, "members-replaced", "round=%u members=%u silent=%u overdue=%u",
             machine->round, count < fresh ? count : fresh, silent, missed);
    return lower_target(federation, now);
}

// --- Advancing

// An order that waits for a checkpoint or a merge comes first: its round would abandon the one that opens here.
static bool may_open(const struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    return !machine->open && !federation->order.ready && !tern_round_finished(machine) &&
           tern_federation_allows_next_round(federation) &&
           tern_secure_allows_round(federation, now) && tern_round_earliest_open_ms(machine) <= now;
}

static enum tern_result check_open_round(struct tern_federation *federation, uint64_t now)
{
    TERN_TRY(replace_members(federation, now));
    if (federation->secure.is_on && federation->machine.open) {
        TERN_TRY(tern_secure_check_refused(federation, count_others(federation, now), now));
    }
    switch (tern_round_tick(&federation->machine, now)) {
    case TERN_ROUND_CLOSE:
        if (federation->secure.is_on) {
            return tern_secure_close_round(federation, now);
        }
        tern_closing_decide(federation);
        break;
    case TERN_ROUND_EXTEND:
        return extend_round(federation, now);
    case TERN_ROUND_NOTHING:
        break;
    }
    return TERN_OK;
}

enum tern_result tern_federation_advance(struct tern_federation *federation, uint64_t now)
{
    TERN_TRY(tern_closing_advance(federation, now));
    if (!tern_federation_is_merging(federation) && !tern_federation_stores_weights(federation)) {
        TERN_TRY(check_open_round(federation, now));
    }
    TERN_TRY(tern_secure_advance(federation, now));
    if (tern_secure_awaits_merge(federation) && !tern_federation_is_merging(federation)) {
        tern_closing_decide(federation);
    }
    if (tern_federation_is_merging(federation)) {
        return TERN_OK;
    }
    end_by_privacy(federation, now);
    if (may_open(federation, now)) {
        TERN_TRY(open_round(federation, now));
    }
    tern_indices_check_leader(federation, now);
    return TERN_OK;
}

uint64_t tern_federation_next_advance(const struct tern_federation *federation)
{
    const struct tern_round_machine *machine = &federation->machine;
    if (tern_closing_has_work(federation)) {
        return 0;
    }
    if (tern_federation_is_merging(federation)) {
        return UINT64_MAX;
    }
    if (!machine->open && !tern_federation_allows_next_round(federation)) {
        return UINT64_MAX; // a gateway waits until the upstream aggregator has a task
    }
    uint64_t next = tern_round_next_tick(machine);
    if (!machine->open && next < federation->retry_open_ms) {
        next = federation->retry_open_ms;
    }
    next = tern_secure_next_advance(federation, next);
    if (machine->open && federation->member_check_ms < next) {
        next = federation->member_check_ms;
    }
    if (tern_indices_are_awaited(federation) && tern_round_leader_deadline_ms(machine) < next) {
        next = tern_round_leader_deadline_ms(machine);
    }
    return next;
}
