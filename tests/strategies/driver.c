// Lets the reference talk to the strategies: one request a line on standard input, one answer a
// line on standard output. Values are decimal.
//
//   begin NAME PARAMETERS SERVER-RATE LEARNING-RATE ROOM
//            a strategy with its parameters ("-": none), from a global model of zeros; values that
//            strategies of single coordinates have room for.                ok, or refused RESULT
//   again NAME PARAMETERS SERVER-RATE LEARNING-RATE ROOM
//            the next round merges by that; model and states stay.          ok, or refused RESULT
//   update EXAMPLES STEPS STALENESS VALUE...
//            one update of the present round, after those before it.        ok, or refused RESULT
//   merge    closes the round.                                              ok VALUE...
//   state I  what the strategy carries on.                                  ok VALUE...
#include "merge/merge.h"
#include "merged.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition) ((condition) ? (void)0 : abort())
#define SPEC "softmax:4-3"
#define COUNT 15
#define UPDATES_MAX 128

struct update {
    struct tern_contribution contribution;
    uint8_t container[512];
    size_t len;
};

static struct tern_model model;
static struct tern_strategy_rule rule;
static struct tern_strategy_totals totals;
static float global[COUNT];
static float acc[COUNT];
static float decoded[COUNT];
static float states[TERN_STRATEGY_STATES][COUNT];
static float values_of_all[COUNT * UPDATES_MAX];
static double scratch[UPDATES_MAX * (4 * UPDATES_MAX + 4)]; // enough for every pair of updates
static size_t room;
static struct update updates[UPDATES_MAX];

static const char *word(void)
{
    const char *found = strtok(NULL, " \n");
    REQUIRE(found != NULL);
    return found;
}

static void refuse(enum tern_result result)
{
    printf("refused %s\n", tern_result_name(result));
}

static void print(const float *values)
{
    printf("ok");
    for (size_t i = 0; i < COUNT; i++) {
        printf(" %.9g", (double)values[i]);
    }
    printf("\n");
}

// Reads the rule of the rounds to come; false: it was refused.
static bool read_rule(void)
{
    struct tern_db_round row = {.round = 1};
    strncpy(row.strategy, word(), sizeof row.strategy - 1);
    const char *parameters = word();
    if (strcmp(parameters, "-") != 0) {
        strncpy(row.strategy_parameters, parameters, sizeof row.strategy_parameters - 1);
    }
    row.server_learning_rate = strtof(word(), NULL);
    row.learning_rate = strtof(word(), NULL);
    room = strtoul(word(), NULL, 10);
    enum tern_result result = tern_rule_read(&row, &rule);
    if (result != TERN_OK) {
        refuse(result);
        return false;
    }
    tern_strategy_totals_init(&totals, &rule);
    return true;
}

static void again(void)
{
    if (read_rule()) {
        printf("ok\n");
    }
}

static void begin(void)
{
    if (!read_rule()) {
        return;
    }
    memset(global, 0, sizeof global);
    for (size_t i = 0; i < TERN_STRATEGY_STATES; i++) {
        tern_strategy_start_state(&rule, i, states[i], COUNT);
    }
    printf("ok\n");
}

static void add(void)
{
    struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    REQUIRE(totals.updates < UPDATES_MAX);
    struct update *update = &updates[totals.updates];
    update->contribution.num_examples = (uint32_t)strtoul(word(), NULL, 10);
    update->contribution.local_steps = (uint32_t)strtoul(word(), NULL, 10);
    update->contribution.staleness = (uint32_t)strtoul(word(), NULL, 10);
    update->contribution.loss = 1.0F;
    float values[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = strtof(word(), NULL);
    }
    REQUIRE(tern_container_encode(&codec, NULL, &model, values, update->container,
                                  sizeof update->container, &update->len) == TERN_OK);
    enum tern_result result = tern_strategy_count_update(&totals, &update->contribution);
    if (result != TERN_OK) {
        refuse(result);
        return;
    }
    printf("ok\n");
}

static void merge(void)
{
    struct tern_strategy_sums sums;
    struct tern_strategy_memory memory = {
        acc, {states[0], states[1]}, decoded, values_of_all, room, scratch};
    struct tern_strategy_report report;
    struct held_update held[UPDATES_MAX];
    for (size_t i = 0; i < totals.updates; i++) {
        held[i] =
            (struct held_update){updates[i].contribution, updates[i].container, updates[i].len};
    }
    enum tern_result result = take_updates(&sums, &model, &totals, &memory, held, totals.updates);
    if (result == TERN_OK) {
        result = tern_strategy_merge(&sums, global);
    }
    if (result != TERN_OK) {
        refuse(result);
        return;
    }
    tern_strategy_fill_report(&sums, &report);
    REQUIRE(report.updates == totals.updates && report.mean_loss == 1.0F);
    tern_strategy_totals_init(&totals, &rule);
    print(global);
}

int main(void)
{
    static char line[16384];
    memset(&model, 0, sizeof model);
    REQUIRE(tern_model_from_spec(&model, SPEC) == TERN_OK && model.count == COUNT);
    while (fgets(line, sizeof line, stdin) != NULL) {
        const char *verb = strtok(line, " \n");
        if (verb == NULL) {
            return 1;
        }
        if (strcmp(verb, "begin") == 0) {
            begin();
        } else if (strcmp(verb, "again") == 0) {
            again();
        } else if (strcmp(verb, "update") == 0) {
            add();
        } else if (strcmp(verb, "merge") == 0) {
            merge();
        } else if (strcmp(verb, "state") == 0) {
            unsigned long which = strtoul(word(), NULL, 10);
            REQUIRE(which < TERN_STRATEGY_STATES);
            print(states[which]);
        } else {
            return 1;
        }
        fflush(stdout);
    }
    return 0;
}
