#include "cli/service_config.h"

#include "admin/admin.h"
#include "cli/derived.h"
#include "cli/state.h"
#include "cli/tls_files.h"
#include "codec/codec.h"
#include "codec/plan.h"
#include "http/proxy.h"

#include <string.h>

// --- Downloads

// [downloads] of the settings.

static int fill_final_model(struct tern_cli *cli, const char *name, enum tern_final_model *who)
{
    static const char *const names[] = {[TERN_FINAL_MODEL_NONE] = "none",
                                        [TERN_FINAL_MODEL_EVALUATORS] = "evaluators",
                                        [TERN_FINAL_MODEL_ALL] = "all"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *who = (enum tern_final_model)i;
            return TERN_EXIT_OK;
        }
    }
    return tern_cli_fail(
        cli, TERN_ERR_CONFIG,
        "downloads.final_model = %s is not known; allowed: evaluators | all | none", name);
}

// Fills in the section [downloads], and the limits of downloads.
static int fill_downloads(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                          struct tern_federation_config *federation)
{
    struct tern_catchup_config *config = &federation->downloads;
    const struct tern_derived_limits derived = tern_derived_limits(s);
    const bool cheapest = strcmp(s->downloads_plan, "cheapest") == 0;
    config->plan = cheapest ? TERN_DOWNLOADS_CHEAPEST : TERN_DOWNLOADS_TRUNK;
    config->keep_versions = s->limits_keep_versions;
    config->replica_bytes = derived.replica_bytes;
    config->replica_cache = derived.replica_cache;
    config->download_cache = derived.download_cache;
    config->spool_folder = s->federation_state;
    return fill_final_model(cli, s->downloads_final_model, &federation->final_model);
}

// --- All sections

struct filling {
    struct tern_cli *cli;
    const struct tern_aggregator_settings *settings;
    struct tern_service_config *config;
};

static void fill_round(const struct tern_aggregator_settings *s, struct tern_round_policy *round)
{
    round->cohort = s->round_cohort;
    round->fraction = s->round_fraction;
    round->quorum = s->round_quorum;
    round->over_selection = s->round_over_selection;
    round->deadline_ms = s->round_deadline;
    round->min_interval_ms = tern_cli_interval_ms(s);
    round->interval_is_auto = s->round_min_interval == TERN_AUTO_MS;
    round->come_back_min_ms = s->round_come_back_min;
    round->come_back_max_ms = s->round_come_back_max;
    round->rounds = s->round_rounds;
    round->ending.divergence_rounds = s->round_divergence_rounds;
    round->ending.patience = s->round_patience;
}

static void fill_limits(const struct tern_aggregator_settings *s,
                        struct tern_service_limits *limits)
{
    limits->requests_per_minute = s->limits_requests_per_minute;
    limits->enrollments_per_minute = s->limits_enrollments_per_minute;
    limits->queue = s->limits_queue;
    limits->long_poll_ms = s->limits_long_poll;
}

static void fill_bounds(const struct tern_aggregator_settings *s,
                        struct tern_federation_limits *limits)
{
    limits->clients = s->limits_clients;
    limits->num_examples = s->limits_num_examples;
    limits->history = s->limits_history_bytes;
    limits->norm = s->limits_norm;
}

static void fill_train(const struct tern_aggregator_settings *s,
                       struct tern_federation_train *train)
{
    train->batch_size = s->train_batch_size;
    train->momentum = (float)s->train_momentum;
    train->weight_decay = (float)s->train_weight_decay;
    train->evaluate = s->train_evaluate;
}

static int refuse(const struct filling *filling, const char *key, const char *value,
                  const char *allowed)
{
    return tern_cli_fail(filling->cli, TERN_ERR_CONFIG, "%s = %s is not known; allowed: %s", key,
                         value, allowed);
}

static int fill_selection(const struct filling *filling)
{
    const char *name = filling->settings->round_selection;
    struct tern_federation_config *config = &filling->config->federation;
    char why[TERN_TAG_WHY_MAX];
    const enum tern_result tags = tern_tags_wanted_parse(name, &config->tags, why);
    config->selection = TERN_SELECTION_RANDOM;
    if (tags == TERN_ERR_CONFIG) {
        return tern_cli_fail(filling->cli, tags, "round.selection = %.48s: %s", name, why);
    }
    if (tags == TERN_ERR_UNKNOWN && tern_selection_from_name(name, &config->selection) != TERN_OK) {
        return refuse(filling, "round.selection", name, tern_selection_names());
    }
    return TERN_EXIT_OK;
}

// The settings that are names.
static int fill_names(const struct filling *filling)
{
    const struct tern_aggregator_settings *s = filling->settings;
    TERN_CLI_TRY(fill_selection(filling));
    filling->config->psk = s->tls_psk;
    char why[256] = "";
    const enum tern_result result = tern_cli_check_client_certificate(s, why);
    return tern_cli_check(filling->cli, result, "%s", why);
}

// The spec strings, which were checked as they were read.
static int fill_specs(const struct filling *filling)
{
    const struct tern_aggregator_settings *s = filling->settings;
    struct tern_federation_config *config = &filling->config->federation;
    const struct tern_derived_limits derived = tern_derived_limits(s);
    struct tern_strategy_choice choice = {.strategy = NULL};
    char why[TERN_SPEC_SENTENCE_MAX] = "";
    config->steps.local_steps = s->train_local_steps;
    enum tern_result result = tern_strategy_parse(s->round_strategy, &choice, why);
    if (result == TERN_OK) {
        result = tern_rate_parse(s->train_learning_rate, &config->train.rate, why);
    }
    if (result == TERN_OK) {
        result = tern_steps_parse(s->train_schedule, &config->steps, why);
    }
    if (result == TERN_OK) {
        result = tern_error_policy_parse(s->codec_error_feedback, &config->error, why);
    }
    if (result != TERN_OK) {
        return tern_cli_fail(filling->cli, TERN_ERR_CONFIG, "%s", why);
    }
    config->strategy = choice.strategy;
    config->server_learning_rate = choice.server_learning_rate;
    config->average_versions = choice.average_versions;
    memcpy(config->strategy_parameters, choice.parameters, sizeof choice.parameters);
    config->strategy_memory = derived.strategy_memory;
    config->vectors =
        (struct tern_merge_room){.folder = s->federation_state, .memory = derived.model_memory};
    return TERN_EXIT_OK;
}

static int check_rate(const struct filling *filling)
{
    const struct tern_aggregator_settings *s = filling->settings;
    const struct tern_rate_policy *rate = &filling->config->federation.train.rate;
    const bool decays = rate->schedule == TERN_RATE_STEP || rate->schedule == TERN_RATE_PLATEAU;
    if (rate->schedule == TERN_RATE_COSINE && s->round_rounds == 0) {
        return tern_cli_fail(
            filling->cli, TERN_ERR_CONFIG,
            "train.learning_rate = %s needs round.rounds: a cosine ends with the last round",
            s->train_learning_rate);
    }
    if (decays && rate->last > rate->first) {
        return tern_cli_fail(
            filling->cli, TERN_ERR_CONFIG,
            "train.learning_rate = %s: final is above rate, and is the lowest rate",
            s->train_learning_rate);
    }
    if (s->round_rounds != 0 && rate->warmup_rounds >= s->round_rounds) {
        return tern_cli_fail(
            filling->cli, TERN_ERR_CONFIG,
            "train.learning_rate = %s: warmup leaves none of round.rounds = %u to the course",
            s->train_learning_rate, s->round_rounds);
    }
    return TERN_EXIT_OK;
}

static void fill_statistics(const struct filling *filling)
{
    const struct tern_aggregator_settings *s = filling->settings;
    struct tern_federation_statistics *statistics = &filling->config->federation.statistics;
    statistics->wanted = strcmp(s->statistics_columns, "clients") == 0;
    statistics->min_clients = s->statistics_min_clients;
    statistics->wait_ms = s->statistics_wait;
}

// What single settings cannot say.
static int check_together(const struct filling *filling)
{
    const struct tern_aggregator_settings *s = filling->settings;
    if (s->round_come_back_min > s->round_come_back_max) {
        return tern_cli_fail(filling->cli, TERN_ERR_CONFIG,
                             "round.come_back_min is above round.come_back_max");
    }
    return check_rate(filling);
}

static int check_networks(struct tern_cli *cli, const char *name, const char *text)
{
    struct tern_networks ignored;
    char why[256] = "";
    const enum tern_result result = tern_networks_parse(text, &ignored, why);
    return tern_cli_check(cli, result, "server.%s: %s", name, why);
}

static int check_admin(struct tern_cli *cli, const char *address)
{
    return address[0] == '\0' || tern_admin_may_listen_on(address)
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_CONFIG,
                               "admin.address %s is not loopback (127.0.0.1, ::1) or unix:/path",
                               address);
}

int tern_cli_fill_service(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                          struct tern_service_config *config)
{
    const struct filling filling = {cli, s, config};
    struct tern_federation_config *federation = &config->federation;
    TERN_CLI_TRY(tern_state_check_scheme(cli, "store.url: ", s->store_url));
    fill_limits(s, &config->limits);
    fill_bounds(s, &federation->limits);
    fill_round(s, &federation->round);
    fill_train(s, &federation->train);
    federation->min_clients = s->round_min_clients;
    federation->eligible_within_ms = s->round_eligible_within;
    TERN_CLI_TRY(fill_specs(&filling));
    TERN_CLI_TRY(fill_downloads(cli, s, federation));
    TERN_CLI_TRY(fill_names(&filling));
    fill_statistics(&filling);
    TERN_CLI_TRY(check_networks(cli, "proxy_from", s->server_proxy_from));
    TERN_CLI_TRY(check_networks(cli, "cache_from", s->server_cache_from));
    TERN_CLI_TRY(check_admin(cli, s->admin_address));
    return check_together(&filling);
}

uint64_t tern_cli_interval_ms(const struct tern_aggregator_settings *s)
{
    if (s->round_min_interval != TERN_AUTO_MS) {
        return s->round_min_interval;
    }
    return s->round_rounds == 0 ? TERN_ENDLESS_INTERVAL(TERN_HOURS_AS_MS) : 0;
}
