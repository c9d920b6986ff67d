#define _GNU_SOURCE
#include "posix/conditions.h"
#include "posix/system.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define POWER_BATTERY 1 // tern_Power of tern.proto
#define POWER_MAINS 2

#define LOAD_SECONDS 60.0 // the kernel's average that the probe reads decays with this

enum tern_result tern_metered_word_parse(const char *text, enum tern_metered_word *word)
{
    static const struct {
        const char *text;
        enum tern_metered_word word;
    } table[] = {
        {"auto", TERN_METERED_ASK}, {"yes", TERN_METERED_YES},  {"no", TERN_METERED_NO},
        {"true", TERN_METERED_YES}, {"false", TERN_METERED_NO}, {"on", TERN_METERED_YES},
        {"off", TERN_METERED_NO},   {"1", TERN_METERED_YES},    {"0", TERN_METERED_NO},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcasecmp(text, table[i].text) == 0) {
            *word = table[i].word;
            return TERN_OK;
        }
    }
    return TERN_ERR_CONFIG;
}

// --- Reading

static uint64_t now_ms(const struct tern_posix_conditions *conditions)
{
    const struct tern_clock own = tern_posix_clock();
    const struct tern_clock *clock =
        conditions->clock.monotonic_ms != NULL ? &conditions->clock : &own;
    return clock->monotonic_ms(clock->ctx);
}

static const char *root_of(const struct tern_posix_conditions *conditions)
{
    const char *root = conditions->root;
    return root == NULL || strcmp(root, "/") == 0 ? "" : root;
}

static double process_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// Averages the processor time of this process as the kernel does the load: else a client that waits
// for an idle machine would take its own training for the reason to stop.
static void follow_own_load(struct tern_posix_conditions *conditions)
{
    const double cpu =
        conditions->cpu_seconds != NULL ? conditions->cpu_seconds() : process_seconds();
    const uint64_t now = now_ms(conditions);
    const double seconds = (double)(now - conditions->own_ms) / 1000;
    if (!conditions->own_known) {
        conditions->own_load = 1 - exp(-cpu / LOAD_SECONDS); // it has worked since its start
    } else if (seconds > 0) {
        const double keep = exp(-seconds / LOAD_SECONDS);
        const double used = (cpu - conditions->own_cpu_seconds) / seconds;
        conditions->own_load = conditions->own_load * keep + used * (1 - keep);
    }
    conditions->own_known = true;
    conditions->own_cpu_seconds = cpu;
    conditions->own_ms = now;
}

static void ask_bus(struct tern_posix_conditions *conditions, struct tern_reading *reading)
{
    if (now_ms(conditions) < conditions->bus_again_ms) {
        return; // the last reading, which says why there is none
    }
    tern_probe_metered(&conditions->bus, root_of(conditions), reading);
    if (conditions->bus.connection == NULL || !conditions->when.asked[TERN_CONDITION_UNMETERED]) {
        conditions->bus_again_ms = now_ms(conditions) + TERN_CONDITIONS_BUS_AGAIN_MS;
    }
}

// The finding's value is 1 where the link is metered, as the probe's.
static void read_metered(struct tern_posix_conditions *conditions)
{
    struct tern_reading *reading = &conditions->findings[TERN_CONDITION_UNMETERED].reading;
    if (conditions->metered == TERN_METERED_ASK) {
        ask_bus(conditions, reading);
        return;
    }
    const bool yes = conditions->metered == TERN_METERED_YES;
    snprintf(reading->from, sizeof reading->from, "budget.metered");
    tern_reading_known(reading, yes, "the owner says that it is%s metered", yes ? "" : " not");
}

static void read_power(struct tern_posix_conditions *conditions)
{
    tern_probe_power(root_of(conditions), &conditions->findings[TERN_CONDITION_CHARGING].reading,
                     &conditions->findings[TERN_CONDITION_BATTERY].reading);
}

static void read_load(struct tern_posix_conditions *conditions)
{
    follow_own_load(conditions);
    tern_probe_load(root_of(conditions), conditions->own_load,
                    &conditions->findings[TERN_CONDITION_LOAD].reading);
}

static void read_temperature(struct tern_posix_conditions *conditions)
{
    tern_probe_temperature(root_of(conditions),
                           &conditions->findings[TERN_CONDITION_TEMPERATURE].reading);
}

// --- Judging

// Where a limit that was passed is met again.
static double limit_again(enum tern_condition condition, double limit)
{
    switch ((int)condition) {
    case TERN_CONDITION_LOAD:
        return limit * 0.8;
    case TERN_CONDITION_TEMPERATURE:
        return limit - 5;
    case TERN_CONDITION_BATTERY:
        return limit + 5;
    default:
        return limit;
    }
}

static bool holds(enum tern_condition condition, double value, double limit, bool again)
{
    switch (tern_condition_sign(condition)) {
    case '<':
        return again ? value <= limit : value < limit;
    case '>':
        return again ? value >= limit : value > limit;
    default:
        return condition == TERN_CONDITION_UNMETERED ? value == 0 : value != 0;
    }
}

static void explain(const struct tern_when *when, enum tern_condition condition, bool at_limit,
                    struct tern_finding *finding)
{
    char asked[64];
    const struct tern_reading *reading = &finding->reading;
    tern_when_format(when, condition, asked, sizeof asked);
    if (!reading->known) {
        snprintf(finding->why, sizeof finding->why, "%s is unknown: %s", asked, reading->said);
    } else if (at_limit) {
        snprintf(finding->why, sizeof finding->why, "%s was lost and is met again at %g: %s", asked,
                 limit_again(condition, when->limit[condition]), reading->said);
    } else {
        snprintf(finding->why, sizeof finding->why, "%s is not met: %s", asked, reading->said);
    }
}

static void judge(const struct tern_when *when, enum tern_condition condition, bool again,
                  struct tern_finding *finding)
{
    const struct tern_reading *reading = &finding->reading;
    const double limit = when->limit[condition];
    const bool within = reading->known && holds(condition, reading->value, limit, false);
    const bool lost = again && !finding->met;
    finding->met =
        within && (!lost || holds(condition, reading->value, limit_again(condition, limit), true));
    finding->why[0] = '\0';
    if (!finding->met) {
        explain(when, condition, within, finding);
    }
}

static bool decide(struct tern_posix_conditions *conditions, const char **why)
{
    for (int i = 0; i < TERN_CONDITION_COUNT; i++) {
        if (conditions->when.asked[i] && !conditions->findings[i].met) {
            *why = conditions->findings[i].why;
            return false;
        }
    }
    return true;
}

static void judge_all(struct tern_posix_conditions *conditions)
{
    for (int i = 0; i < TERN_CONDITION_COUNT; i++) {
        if (conditions->when.asked[i]) {
            judge(&conditions->when, (enum tern_condition)i, conditions->looked,
                  &conditions->findings[i]);
        }
    }
    conditions->looked = true;
    conditions->looked_ms = now_ms(conditions);
}

bool tern_posix_conditions_look(struct tern_posix_conditions *conditions, const char **why)
{
    read_metered(conditions);
    read_power(conditions);
    read_load(conditions);
    read_temperature(conditions);
    judge_all(conditions);
    return decide(conditions, why);
}

// --- The port

// What is asked for, and what a check-in tells. Sensors of heat may be slow.
static void look_where_asked(struct tern_posix_conditions *conditions)
{
    read_metered(conditions);
    read_power(conditions);
    if (conditions->when.asked[TERN_CONDITION_LOAD]) {
        read_load(conditions);
    }
    if (conditions->when.asked[TERN_CONDITION_TEMPERATURE]) {
        read_temperature(conditions);
    }
    judge_all(conditions);
}

struct tern_conditions tern_posix_conditions_facts(const struct tern_posix_conditions *conditions)
{
    const struct tern_reading *charging = &conditions->findings[TERN_CONDITION_CHARGING].reading;
    struct tern_conditions facts = {
        .metered = conditions->findings[TERN_CONDITION_UNMETERED].reading.value != 0,
    };
    if (charging->known) {
        facts.power = charging->value != 0 ? POWER_MAINS : POWER_BATTERY;
    }
    return facts;
}

static bool may_work(void *ctx, struct tern_conditions *now, const char **why)
{
    struct tern_posix_conditions *conditions = ctx;
    if (!conditions->looked ||
        now_ms(conditions) - conditions->looked_ms >= TERN_CONDITIONS_FRESH_MS) {
        look_where_asked(conditions);
    }
    *now = tern_posix_conditions_facts(conditions);
    return decide(conditions, why);
}

struct tern_condition_port tern_posix_conditions_port(struct tern_posix_conditions *conditions)
{
    return (struct tern_condition_port){.ctx = conditions, .may_work = may_work};
}

void tern_posix_conditions_close(struct tern_posix_conditions *conditions)
{
    tern_probe_metered_close(&conditions->bus);
    conditions->bus_again_ms = 0;
}
