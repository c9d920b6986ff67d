#include "cli/settings.h"

#include "codec/codec.h"
#include "rounds/error_policy.h"
#include "rounds/rate.h"
#include "rounds/steps.h"
#include "strategies/strategy.h"

#include <inttypes.h>

// --- Settings that are spec strings

static enum tern_result check_strategy(const char *text, char why[TERN_SPEC_SENTENCE_MAX])
{
    struct tern_strategy_choice choice;
    return tern_strategy_parse(text, &choice, why);
}

static enum tern_result check_rate(const char *text, char why[TERN_SPEC_SENTENCE_MAX])
{
    struct tern_rate_policy policy;
    return tern_rate_parse(text, &policy, why);
}

static enum tern_result check_steps(const char *text, char why[TERN_SPEC_SENTENCE_MAX])
{
    struct tern_steps_settings settings = {.local_steps = 1};
    return tern_steps_parse(text, &settings, why);
}

static enum tern_result check_error_feedback(const char *text, char why[TERN_SPEC_SENTENCE_MAX])
{
    struct tern_error_settings settings;
    return tern_error_policy_parse(text, &settings, why);
}

static const struct tern_setting_spec strategy_setting = {.list = &tern_strategy_specs,
                                                          .check = check_strategy};
static const struct tern_setting_spec rate_setting = {.list = &tern_rate_specs,
                                                      .besides = "a number",
                                                      .number = "constant:rate=",
                                                      .check = check_rate};
static const struct tern_setting_spec steps_setting = {.list = &tern_steps_specs,
                                                       .check = check_steps};
static const struct tern_setting_spec error_setting = {.list = &tern_error_specs,
                                                       .check = check_error_feedback};

// Compares the codec settings and lists the allowed names. serve_config.c parses codecs, because their defaults depend on
// the model.
static const struct tern_setting_spec codec_setting = {.list = &tern_codec_specs,
                                                       .besides = "default"};

// --- Derived limits

struct tern_derived_limits tern_derived_limits(const struct tern_aggregator_settings *settings)
{
#define X(field, limit, divisor, what) .field = settings->limits_##limit / (divisor),
    return (struct tern_derived_limits){TERN_DERIVED_LIMITS(X)};
#undef X
}

static void print_limit(const char *limit, unsigned divisor, const char *what, uint64_t value,
                        FILE *out)
{
    const uint64_t unit = 1 << 20;
    const bool whole = value % unit == 0;
    fprintf(out, "# %6" PRIu64 "%s = limits.%s / %u: %s\n", whole ? value / unit : value,
            whole ? "MiB" : "B", limit, divisor, what);
}

// Prints the derived limits with their rules, as comments of an INI file.
static void print_derived(const void *values, FILE *out)
{
    const struct tern_derived_limits derived = tern_derived_limits(values);
    fputs("# Derived, not set:\n", out);
#define X(field, limit, divisor, what) print_limit(#limit, divisor, what, derived.field, out);
    TERN_DERIVED_LIMITS(X)
#undef X
}

// --- The table

#define TERN_SETTINGS_STRUCT struct tern_aggregator_settings
#include "hosted/setting_rows.h"

#define LIVE TERN_SETTING_LIVE
#define INIT TERN_SETTING_INIT

static const struct tern_setting table[] = {
#include "cli/settings.def"
};

const struct tern_settings tern_aggregator_settings_table = {
    .program = "tern-aggregator",
    .table = table,
    .count = sizeof table / sizeof table[0],
    .foreign_sections = tern_settings_sections,
    .print_derived = print_derived,
};
