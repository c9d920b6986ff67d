// Spec strings of strategies.
#include "strategies/strategy.h"

#include <string.h>

enum { RATE = TERN_STRATEGY_PARAMETERS, AVERAGE, KEYS };

// The values of a spec string's keys, before parameters become float32.
struct fields {
    union {
        double real;
        uint32_t whole; // also the index of the chosen word
    } value[KEYS];
};

#define FIELD(i) offsetof(struct fields, value[i])
#define MILLIONTHS(number) ((uint32_t)((number)*1e6 + 0.5))

static const char *const no_or_yes[] = {"no", "yes", NULL};

// A row for each parameter, then the rows of the other keys. A row without a key ends the table, so parameters declared
// GIVEN have a key, which no strategy accepts.
#define NUMBER(symbol, name, low, high, zero, usual, sense)                                        \
    [TERN_STRATEGY_##symbol] = {.key = #name,                                                      \
                                .meaning = sense,                                                  \
                                .range = (zero) ? "0, or " #low " to " #high : #low " to " #high,  \
                                .kind = TERN_SPEC_REAL,                                            \
                                .offset = FIELD(TERN_STRATEGY_##symbol),                           \
                                .least = MILLIONTHS(low),                                          \
                                .most = MILLIONTHS(high),                                          \
                                .preset = MILLIONTHS(usual),                                       \
                                .or_zero = zero},
#define WHOLE(symbol, name, low, high, usual, sense)                                               \
    [TERN_STRATEGY_##symbol] = {.key = #name,                                                      \
                                .meaning = sense,                                                  \
                                .range = #low " to " #high,                                        \
                                .kind = TERN_SPEC_WHOLE,                                           \
                                .offset = FIELD(TERN_STRATEGY_##symbol),                           \
                                .least = low,                                                      \
                                .most = high,                                                      \
                                .preset = usual},
#define YES_NO(symbol, name, usual, sense)                                                         \
    [TERN_STRATEGY_##symbol] = {.key = #name,                                                      \
                                .meaning = sense,                                                  \
                                .range = "no or yes",                                              \
                                .kind = TERN_SPEC_CHOICE,                                          \
                                .offset = FIELD(TERN_STRATEGY_##symbol),                           \
                                .most = 1,                                                         \
                                .preset = usual,                                                   \
                                .choices = no_or_yes},
#define GIVEN(symbol, name, ...) [TERN_STRATEGY_##symbol] = {.key = #name, .kind = TERN_SPEC_REAL},
static const struct tern_spec_parameter keys[KEYS + 1] = {
    TERN_STRATEGY_PARAMETER_LIST(NUMBER, WHOLE, YES_NO, GIVEN)[RATE] =
        {.key = "server_learning_rate",
         .meaning = "factor on the change that the strategy computes; 0 = the strategy's default: "
                    "0.01 for fedadam, fedadagrad and fedyogi, 1 for the others",
         .range = "0 to 1000",
         .kind = TERN_SPEC_REAL,
         .offset = FIELD(RATE),
         .most = MILLIONTHS(1000)},
    [AVERAGE] =
        {.key = "average_versions",
         .meaning =
             "N, the number of versions in the averaged model that export --averaged writes: the "
             "plain mean of the first N versions, then a moving average in which each new version "
             "has the weight 1 / N; clients do not receive it; 0 = no averaged model",
         .range = "0 to 1000000",
         .kind = TERN_SPEC_WHOLE,
         .offset = FIELD(AVERAGE),
         .most = 1000000},
};

#define NO_BIT(symbol, ...)
#define GIVEN_BIT(symbol, ...) | TERN_PARAMETER_BIT(symbol)
static const uint32_t given = 0 TERN_STRATEGY_PARAMETER_LIST(NO_BIT, NO_BIT, NO_BIT, GIVEN_BIT);

#define ENTRY(name) &tern_strategy_##name,
static const struct tern_strategy *const all[] = {TERN_STRATEGIES(ENTRY, ENTRY)};

static bool entry_at(size_t index, struct tern_spec_entry *entry)
{
    if (index >= sizeof all / sizeof all[0]) {
        return false;
    }
    const struct tern_strategy *strategy = all[index];
    const uint32_t rate = strategy->has_epochs ? 0 : UINT32_C(1) << RATE;
    *entry = (struct tern_spec_entry){
        strategy->name, keys, (strategy->parameters & ~given) | rate | UINT32_C(1) << AVERAGE};
    return true;
}

const struct tern_spec_list tern_strategy_specs = {.what = "strategy", .at = entry_at};

const struct tern_strategy *tern_strategy_find(const char *name)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i]->name, name) == 0) {
            return all[i];
        }
    }
    return NULL;
}

enum tern_result tern_strategy_parse(const char *spec, struct tern_strategy_choice *choice,
                                     char why[TERN_SPEC_SENTENCE_MAX])
{
    struct fields fields = {.value = {{.whole = 0}}};
    size_t index = 0;
    TERN_TRY(tern_spec_read(&tern_strategy_specs, spec, &fields, &index, why));
    const float rate = (float)fields.value[RATE].real;
    *choice = (struct tern_strategy_choice){
        .strategy = all[index],
        .server_learning_rate = rate > 0.0F ? rate : all[index]->server_learning_rate,
        .average_versions = fields.value[AVERAGE].whole};
    for (int i = 0; i < TERN_STRATEGY_PARAMETERS; i++) {
        const bool number = keys[i].kind == TERN_SPEC_REAL;
        choice->parameters[i] = number ? (float)fields.value[i].real : (float)fields.value[i].whole;
    }
    return TERN_OK;
}
