#include "cli/serve_config.h"

#include "admin/sso.h"
#include "cli/state.h"
#include "codec/codec.h"
#include "codec/container.h"
#include "codec/plan.h"
#include "http/proxy.h"
#include "util/bytes.h"
#include "wire/wire.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Files of TLS

void tern_serve_tls_files(const struct tern_cli *cli, struct tern_serve_tls_files *files)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    tern_state_file(cli, s->server_certificate, TERN_STATE_CERTIFICATE, files->certificate);
    tern_state_file(cli, s->server_private_key, TERN_STATE_PRIVATE_KEY, files->private_key);
    files->names = (struct tern_http_files){
        .certificate = files->certificate,
        .private_key = files->private_key,
        .client_ca = s->tls_client_ca[0] != '\0' ? s->tls_client_ca : NULL,
        .client_certificate_optional = strcmp(s->tls_client_certificate, "optional") == 0,
    };
}

// --- Downloads

static enum tern_final_model final_model_named(const char *name)
{
    return strcmp(name, "none") == 0  ? TERN_FINAL_MODEL_NONE
           : strcmp(name, "all") == 0 ? TERN_FINAL_MODEL_ALL
                                      : TERN_FINAL_MODEL_EVALUATORS;
}

static void fill_downloads(const struct tern_aggregator_settings *s,
                           struct tern_federation_config *federation)
{
    struct tern_catchup_config *config = &federation->downloads;
    const struct tern_derived_limits derived = tern_derived_limits(s);
    const bool cheapest = strcmp(s->downloads_plan, "cheapest") == 0;
    config->plan = cheapest ? TERN_DOWNLOADS_CHEAPEST : TERN_DOWNLOADS_TRUNK;
    config->keep_versions = s->limits_keep_versions;
    config->replica_bytes = derived.replica_bytes;
    config->replica_cache = derived.replica_cache;
    config->replica_files = derived.replica_files;
    config->inline_values = TERN_CATCHUP_INLINE_VALUES;
    config->download_cache = derived.download_cache;
    config->spool_folder = s->federation_state;
    federation->final_model = final_model_named(s->downloads_final_model);
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
    round->min_interval_ms = tern_serve_config_interval_ms(s);
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
                       struct tern_training_settings *train)
{
    train->batch_size = s->train_batch_size;
    train->momentum = (float)s->train_momentum;
    train->weight_decay = (float)s->train_weight_decay;
    train->evaluate = s->train_evaluate;
}

static int fill_selection(const struct filling *filling)
{
    const char *name = filling->settings->round_selection;
    struct tern_federation_config *config = &filling->config->federation;
    char why[TERN_TAG_WHY_MAX];
    const enum tern_result tags = tern_tag_selection_parse(name, &config->tags, why);
    config->selection = TERN_SELECTION_RANDOM;
    if (tags == TERN_ERR_CONFIG) {
        return tern_cli_fail(filling->cli, tags, "round.selection = %.48s: %s", name, why);
    }
    if (tags == TERN_ERR_UNKNOWN && tern_selection_from_name(name, &config->selection) != TERN_OK) {
        return tern_cli_fail(filling->cli, TERN_ERR_CONFIG,
                             "round.selection = %.48s is not known; allowed: %s", name,
                             tern_selection_names());
    }
    return TERN_EXIT_OK;
}

// Parses the spec strings, which were already checked when the settings were read.
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
        return tern_cli_fail(filling->cli, TERN_ERR_CONFIG,
                             "train.learning_rate = %s needs round.rounds: a cosine reaches its "
                             "lowest rate in the last round",
                             s->train_learning_rate);
    }
    if (decays && rate->last > rate->first) {
        return tern_cli_fail(
            filling->cli, TERN_ERR_CONFIG,
            "train.learning_rate = %s: final is above rate, but final is the lowest rate",
            s->train_learning_rate);
    }
    if (s->round_rounds != 0 && rate->warmup_rounds >= s->round_rounds) {
        return tern_cli_fail(filling->cli, TERN_ERR_CONFIG,
                             "train.learning_rate = %s: warmup must be less than round.rounds = %u",
                             s->train_learning_rate, s->round_rounds);
    }
    return TERN_EXIT_OK;
}

static void fill_statistics(const struct filling *filling)
{
    const struct tern_aggregator_settings *s = filling->settings;
    struct tern_statistics_settings *statistics = &filling->config->federation.statistics;
    statistics->enabled = strcmp(s->statistics_columns, "clients") == 0;
    statistics->min_clients = s->statistics_min_clients;
    statistics->wait_ms = s->statistics_wait;
}

// Reads [secure]. The quorum is at least the number of updates of which the helper reveals the sum.
static int fill_secure(const struct filling *filling)
{
    const struct tern_aggregator_settings *s = filling->settings;
    struct tern_federation_config *config = &filling->config->federation;
    struct tern_secure_settings *secure = &config->secure;
    struct tern_round_policy *round = &config->round;
    if (s->privacy_noise > 0 && tern_serve_config_privacy(s).noise <= 0) {
        return tern_cli_fail(
            filling->cli, TERN_ERR_CONFIG,
            "privacy.noise = %g rounds to no noise at all, since rounds have it in "
            "thousandths: set 0.001 or more, or 0 for none",
            s->privacy_noise);
    }
    if (s->secure_helper[0] == '\0') {
        return s->privacy_noise > 0
                   ? tern_cli_fail(filling->cli, TERN_ERR_CONFIG,
                                   "privacy.noise = %g needs secure rounds, whose helper adds the "
                                   "noise: set secure.helper, or privacy.noise = 0",
                                   s->privacy_noise)
                   : TERN_EXIT_OK;
    }
    if (strncmp(s->secure_helper, "https://", strlen("https://")) != 0) {
        return tern_cli_fail(
            filling->cli, TERN_ERR_CONFIG,
            "secure.helper = %.80s is no https:// address: tickets and sums travel "
            "encrypted only; set https://HOST:PORT",
            s->secure_helper);
    }
    secure->enabled = true;
    secure->noise = (uint32_t)(s->privacy_noise * 1000 + 0.5);
    secure->clip = s->privacy_clip;
    secure->min_clients = s->secure_min_clients;
    secure->groups = strcmp(s->secure_groups, "1") == 0 ? 0 : (uint32_t)atoi(s->secure_groups);
    secure->share = (uint32_t)atoi(s->secure_share);
    secure->examples_max = s->secure_examples_max;
    if (round->quorum == 0 && tern_round_quorum(round) < tern_secure_updates(secure)) {
        round->quorum = tern_secure_updates(secure);
    }
    if (tern_base64url_decode(s->secure_helper_key, strlen(s->secure_helper_key),
                              secure->helper_key, sizeof secure->helper_key) != TERN_OK ||
        secure->helper_key[0] != 4) { // an uncompressed point
        return tern_cli_fail(
            filling->cli, TERN_ERR_CONFIG,
            "secure.helper_key = \"%.96s\" is not a helper's public key: copy the 87 "
            "characters that `tern-helper status` prints",
            s->secure_helper_key);
    }
    return TERN_EXIT_OK;
}

struct tern_privacy_settings tern_serve_config_privacy(const struct tern_aggregator_settings *s)
{
    const double thousandths = floor(s->privacy_noise * 1000.0 + 0.5); // as tasks have it
    return (struct tern_privacy_settings){.noise = thousandths / 1000.0,
                                          .delta = s->privacy_delta,
                                          .epsilon_max = s->privacy_epsilon_max};
}

static int fill_privacy(const struct filling *filling)
{
    const struct tern_aggregator_settings *s = filling->settings;
    struct tern_federation_config *config = &filling->config->federation;
    config->privacy = tern_serve_config_privacy(s);
    return s->privacy_epsilon_max > 0 && config->privacy.noise <= 0
               ? tern_cli_fail(filling->cli, TERN_ERR_CONFIG,
                               "privacy.epsilon_max = %g limits nothing without noise: set "
                               "privacy.noise, or privacy.epsilon_max = 0",
                               s->privacy_epsilon_max)
               : TERN_EXIT_OK;
}

// Checks constraints between settings.
static int check_together(const struct filling *filling)
{
    const struct tern_aggregator_settings *s = filling->settings;
    if (s->round_come_back_min > s->round_come_back_max) {
        return tern_cli_fail(
            filling->cli, TERN_ERR_CONFIG,
            "round.come_back_min is above round.come_back_max: lower round.come_back_min");
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

static int check_admin(struct tern_cli *cli, const struct tern_aggregator_settings *s)
{
    char why[256] = "";
    struct tern_sso ignored;
    const enum tern_result result =
        s->admin_address[0] == '\0' && s->admin_sso[0] == '\0'
            ? TERN_OK // no listener
            : tern_sso_read(s->admin_address, s->admin_sso, &ignored, why);
    return tern_cli_check(cli, result, "%s", why);
}

static enum tern_logged_requests logged_requests_named(const char *name)
{
    return strcmp(name, "all") == 0    ? TERN_LOG_ALL_REQUESTS
           : strcmp(name, "none") == 0 ? TERN_LOG_NO_REQUESTS
                                       : TERN_LOG_REFUSED_REQUESTS;
}

int tern_serve_config_read(struct tern_cli *cli, struct tern_service_config *config)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    const struct filling filling = {cli, s, config};
    struct tern_federation_config *federation = &config->federation;
    TERN_CLI_TRY(tern_state_check_scheme(cli, "store.url: ", s->store_url));
    config->logging.requests = logged_requests_named(s->log_requests);
    config->logging.requests_per_minute = s->log_requests_per_minute;
    config->psk = s->tls_psk;
    fill_limits(s, &config->limits);
    fill_bounds(s, &federation->limits);
    fill_round(s, &federation->round);
    fill_train(s, &federation->train);
    federation->min_clients = s->round_min_clients;
    federation->eligible_within_ms = s->round_eligible_within;
    TERN_CLI_TRY(fill_specs(&filling));
    fill_downloads(s, federation);
    TERN_CLI_TRY(fill_selection(&filling));
    fill_statistics(&filling);
    TERN_CLI_TRY(fill_secure(&filling));
    TERN_CLI_TRY(fill_privacy(&filling));
    TERN_CLI_TRY(check_networks(cli, "proxy_from", s->server_proxy_from));
    TERN_CLI_TRY(check_networks(cli, "cache_from", s->server_cache_from));
    TERN_CLI_TRY(check_admin(cli, s));
    return check_together(&filling);
}

uint64_t tern_serve_config_interval_ms(const struct tern_aggregator_settings *s)
{
    if (s->round_min_interval != TERN_AUTO_MS) {
        return s->round_min_interval;
    }
    return s->round_rounds == 0 ? TERN_ENDLESS_INTERVAL(TERN_HOURS_AS_MS) : 0;
}

// --- Settings whose defaults depend on the model

// Default codecs of models with fewer than `below` values. The fewer values a model has, the higher their density: a small
// model learns little from a few values a round, and the cost of messages does not shrink with it (docs/BENCHMARKS.md,
// "How the defaults are decided").
static const struct usual {
    uint32_t below;
    const char *up;
    const char *down;
    double residual;
    uint32_t early; // most early rounds in federations of more than ALL_EARLY rounds
} usual[] = {
    {10000, "3lc:s=1,clip=4,coder=range", "density:p=0.5,least=64,fit=yes,coder=range", 1.0, 45},
    {75000, "3lc:s=1,clip=4,coder=range", "density:p=0.1,least=64,coder=range", 1.0, 15},
    {UINT32_MAX, "3lc:s=1,clip=4.5,coder=range", "density:p=0.07,least=64,coder=range", 1.5, 15},
};

// Numbers of rounds by which codec.accuracy chooses codecs. In a federation of few rounds, the errors of the codecs do not
// average out. docs/BENCHMARKS.md, "How the defaults are decided", has the measurements.
enum { FEW_ROUNDS = 8, ALL_EARLY = 45, NONE_EARLY = 90, ENDLESS_EARLY = 20 };

#define CAREFUL "uniform:error=0.02"

static const struct accuracy {
    const char *name;
    const char *codec; // codec of updates and downloads; NULL: the codecs of usual[] in all rounds
    const char *few;   // replaces `codec` in federations of at most FEW_ROUNDS rounds
    bool always;       // used in all rounds; false: in early rounds only
} accuracies[] = {
    {.name = "thrifty"},
    {.name = "balanced", .codec = "uniform:error=0.05", .few = CAREFUL},
    {.name = "careful", .codec = CAREFUL, .always = true},
};

const char *tern_serve_config_accuracy(size_t i)
{
    return i < sizeof accuracies / sizeof accuracies[0] ? accuracies[i].name : NULL;
}

static const struct accuracy *accuracy_named(const char *name)
{
    size_t i = sizeof accuracies / sizeof accuracies[0] - 1;
    while (i > 0 && strcmp(name, accuracies[i].name) != 0) {
        i--;
    }
    return &accuracies[i];
}

static uint32_t least_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// Returns the number of early rounds, which have finer codecs under `balanced`. rounds: round.rounds; 0: without end.
static uint32_t early_rounds(const struct usual *row, uint32_t rounds)
{
    if (rounds == 0) {
        return ENDLESS_EARLY;
    }
    if (rounds <= ALL_EARLY) {
        return rounds;
    }
    return rounds < NONE_EARLY ? least_of(NONE_EARLY - rounds, row->early) : 0;
}

static const char *early_codec(const struct accuracy *accuracy, uint32_t rounds)
{
    return rounds > 0 && rounds <= FEW_ROUNDS ? accuracy->few : accuracy->codec;
}

static const struct usual *codecs_for_size(uint32_t values)
{
    const struct usual *row = usual;
    while (values >= row->below) {
        row++;
    }
    return row;
}

// Writes the qsgd spec for qsvrg: one scale for all values, and as many levels as the root of their number. The theorem
// on qsvrg assumes this dense regime of QSGD.
static void write_qsgd_spec(uint32_t values, char spec[TERN_CODEC_SPEC_MAX])
{
    const uint32_t most = 32767;
    const double root = sqrt((double)values);
    const uint32_t levels = root < most ? (uint32_t)(root + 0.5) : most;
    snprintf(spec, TERN_CODEC_SPEC_MAX, "qsgd:levels=%u,bucket=268435456,norm=l2,coder=elias",
             levels > 0 ? levels : 1);
}

static int parse_codec(struct tern_cli *cli, const char *key, const char *spec,
                       struct tern_codec *codec)
{
    struct tern_spec_refusal refusal;
    char sentence[TERN_SPEC_SENTENCE_MAX];
    if (tern_codec_parse(spec, codec, &refusal) == TERN_OK) {
        return TERN_EXIT_OK;
    }
    tern_spec_explain(&refusal, sentence);
    return tern_cli_fail(cli, TERN_ERR_CONFIG, "%s = %s: %s", key, spec, sentence);
}

// Returns why a codec with this kind of feedback cannot encode downloads.
static const char *why_no_downloads(enum tern_feedback feedback)
{
    switch (feedback) {
    case TERN_FEEDBACK_MOMENTUM:
        return "the codec needs a client's velocity";
    case TERN_FEEDBACK_FILTERED:
        return "the codec needs a round, in which one client chooses the indices for all";
    case TERN_FEEDBACK_NONE:
    case TERN_FEEDBACK_ERROR:
        break;
    }
    return "the codec's error is fed back to the replica, and would grow with each download";
}

static int check_codec_down(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                            const struct tern_codec *codec)
{
    const char *set = s->codec_codec_down;
    const struct tern_codec_entry *entry = tern_codec_entry(codec->id);
    const char *why = why_no_downloads(entry->feedback);
    if (tern_codec_downloads(codec)) {
        return TERN_EXIT_OK;
    }
    if (set[0] != '\0') {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "codec.codec_down = %s: %s cannot encode downloads: %s", set,
                             entry->name, why);
    }
    return tern_cli_fail(cli, TERN_ERR_CONFIG,
                         "codec.codec = %s: %s cannot encode downloads: %s. Set "
                         "codec.codec_down as well, e.g. codec.codec_down=default",
                         s->codec_codec, entry->name, why);
}

// Whether the settings leave the codecs of updates and of downloads at their defaults.
struct defaults {
    bool up;
    bool down;
};

static struct defaults defaults_of(const struct tern_aggregator_settings *s,
                                   const struct tern_federation_config *config)
{
    const bool up = strcmp(s->codec_codec, "default") == 0;
    const bool down = s->codec_codec_down[0] == '\0' ? up || config->strategy->has_epochs
                                                     : strcmp(s->codec_codec_down, "default") == 0;
    return (struct defaults){.up = up, .down = down};
}

// Sets the codecs of all rounds after the early rounds.
static int fill_codecs(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                       const char *usual_up, const char *usual_down,
                       struct tern_federation_config *config)
{
    const struct defaults defaults = defaults_of(s, config);
    const char *set_down = s->codec_codec_down[0] != '\0' ? s->codec_codec_down : s->codec_codec;
    const char *up = defaults.up ? usual_up : s->codec_codec;
    const char *down = defaults.down ? usual_down : set_down;
    TERN_CLI_TRY(parse_codec(cli, "codec.codec", up, &config->codec_up));
    TERN_CLI_TRY(parse_codec(cli, "codec.codec_down", down, &config->downloads.codec));
    return check_codec_down(cli, s, &config->downloads.codec);
}

static int fill_early(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                      const struct accuracy *accuracy, const struct usual *row,
                      struct tern_federation_config *config)
{
    const struct defaults defaults = defaults_of(s, config);
    const char *codec = early_codec(accuracy, s->round_rounds);
    struct tern_early_codecs *early = &config->early;
    *early = (struct tern_early_codecs){.up = config->codec_up, .down = config->downloads.codec};
    if (defaults.up) {
        TERN_CLI_TRY(parse_codec(cli, "codec.accuracy", codec, &early->up));
    }
    if (defaults.down) {
        TERN_CLI_TRY(parse_codec(cli, "codec.accuracy", codec, &early->down));
    }
    early->rounds = defaults.up || defaults.down ? early_rounds(row, s->round_rounds) : 0;
    return TERN_EXIT_OK;
}

int tern_serve_config_fill_codecs(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                                  uint32_t values, struct tern_federation_config *config)
{
    char dense[TERN_CODEC_SPEC_MAX];
    char why[256];
    const struct usual *row = codecs_for_size(values);
    const struct accuracy *accuracy = accuracy_named(s->codec_accuracy);
    config->early.rounds = 0;
    config->downloads.residual =
        s->downloads_residual > 0.0 ? s->downloads_residual : row->residual;
    if (config->strategy->has_epochs) {
        write_qsgd_spec(values, dense);
        TERN_CLI_TRY(fill_codecs(cli, s, dense, "float32", config));
    } else if (accuracy->always) {
        TERN_CLI_TRY(fill_codecs(cli, s, accuracy->codec, accuracy->codec, config));
    } else {
        TERN_CLI_TRY(fill_codecs(cli, s, row->up, row->down, config));
        if (accuracy->codec != NULL) {
            TERN_CLI_TRY(fill_early(cli, s, accuracy, row, config));
        }
    }
    return tern_cli_check(cli, tern_federation_check_config(config, values, why), "%s", why);
}

// --- Limits of the listener

uint64_t tern_serve_config_update_max(const struct tern_codec *codec,
                                      const struct tern_model *model)
{
    return tern_container_bound(codec, model) + TERN_WIRE_OVERHEAD;
}

// PostgreSQL limits a message to 1 GiB, which also holds the row's head and its other columns.
#define POSTGRES_VALUE_MAX 1000000000u

// Returns room for an update under any codec, because a round keeps the codec that it was opened with.
static uint64_t default_limit(const struct tern_model *model)
{
    uint64_t needed = tern_container_bound_any(model) + TERN_WIRE_OVERHEAD;
    needed = needed < TERN_WIRE_MESSAGE_MAX ? TERN_WIRE_MESSAGE_MAX : needed;
    return needed < UINT32_MAX ? needed : UINT32_MAX;
}

// Sets *limit to the most bytes of a request's body. Refuses a limit that an update exceeds: such a client would train in
// vain, round after round.
static int fill_body_limit(struct tern_cli *cli, const struct tern_codec *codec,
                           const struct tern_model *model, const char *spec, uint32_t *limit)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    const uint64_t needed = tern_serve_config_update_max(codec, model);
    *limit = (uint32_t)(s->limits_body_bytes != 0 ? s->limits_body_bytes : default_limit(model));
    if (tern_state_is_postgres(cli) && *limit > POSTGRES_VALUE_MAX) {
        *limit = POSTGRES_VALUE_MAX;
    }
    if (needed <= *limit) {
        return TERN_EXIT_OK;
    }
    if (*limit == POSTGRES_VALUE_MAX && tern_state_is_postgres(cli)) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "an update of %s with codec.codec = %s may take %" PRIu64
            " bytes, and PostgreSQL stores at most 1 GB in a value: choose another "
            "codec, or leave store.url empty",
            spec, s->codec_codec, needed);
    }
    return tern_cli_fail(cli, TERN_ERR_CONFIG,
                         "limits.body_bytes = %" PRIu32 " is too small for an update of %s with "
                         "codec.codec = %s; set it to %" PRIu64 " or more, or to 0",
                         *limit, spec, s->codec_codec, needed);
}

static struct tern_http_limits http_limits(const struct tern_aggregator_settings *s,
                                           uint32_t body_bytes)
{
    const struct tern_derived_limits derived = tern_derived_limits(s);
    return (struct tern_http_limits){
        .connections = s->limits_connections,
        .connections_per_address = s->limits_connections_per_address,
        .connections_per_client = s->limits_connections_per_client,
        .header_bytes = s->limits_header_bytes,
        .body_bytes = body_bytes,
        .body_memory = derived.body_memory,
        .body_disk = derived.body_disk,
        .unfinished = s->limits_unfinished,
        .unfinished_ms = (uint32_t)s->limits_unfinished_time,
        .handshake_ms = (uint32_t)s->limits_handshake,
        .handshakes_per_address = s->limits_handshakes_per_address,
        .request_ms = (uint32_t)s->limits_request,
        .min_rate = s->limits_min_rate,
        .idle_ms = (uint32_t)s->limits_idle,
        .write_ms = (uint32_t)s->limits_request,
    };
}

int tern_serve_config_fit_model(struct tern_cli *cli, const struct tern_model *model,
                                const char *spec, struct tern_federation_config *config,
                                struct tern_http_limits *limits)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    uint32_t body_bytes;
    TERN_CLI_TRY(tern_serve_config_fill_codecs(cli, s, model->count, config));
    TERN_CLI_TRY(fill_body_limit(cli, &config->codec_up, model, spec, &body_bytes));
    *limits = http_limits(s, body_bytes);
    return TERN_EXIT_OK;
}
