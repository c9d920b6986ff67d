#include "fleet/alarm.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LOSSES_OF_GUESSING 10.0 // beyond, a loss has exploded
#define NOTHING_LEARNT 0.03     // skill up to which it is that of guessing
#define LEARNT 0.25             // skill from which it can be lost again
#define COLLAPSE 0.45           // of the best skill
#define FEW_ROUNDS 20u          // with fewer, half of them may not be enough to learn anything

double tern_alarm_chance(const struct tern_dataset *test)
{
    uint32_t *counts = calloc((size_t)test->class_count + 1, sizeof *counts);
    uint32_t most = 0;
    for (uint32_t i = 0; counts != NULL && i < test->count; i++) {
        const uint32_t count = ++counts[test->labels[i]];
        most = count > most ? count : most;
    }
    free(counts);
    return test->count > 0 ? (double)most / test->count : 0;
}

// How far an accuracy is from guessing (0) to perfection (1): what can be compared where one class of two
// is 95 % of the examples, and where there are a hundred classes.
static double skill(const struct tern_alarm *alarm, double accuracy)
{
    return alarm->chance < 1 ? (accuracy - alarm->chance) / (1 - alarm->chance) : 1;
}

static bool explodes(const struct tern_alarm *alarm, double loss, char text[TERN_ALARM_MAX])
{
    const double guessing = log(alarm->classes > 2 ? (double)alarm->classes : 2.0);
    if (!isfinite(loss)) {
        snprintf(text, TERN_ALARM_MAX, "the loss is no longer finite: training diverges");
        return true;
    }
    snprintf(text, TERN_ALARM_MAX,
             "the loss, %.3g, is %.0f times that of guessing: training diverges", loss,
             loss / guessing);
    return loss > LOSSES_OF_GUESSING * guessing;
}

static bool is_moot(const struct tern_alarm *alarm, char text[TERN_ALARM_MAX])
{
    snprintf(text, TERN_ALARM_MAX,
             "all test examples are of one class: an accuracy on them says nothing");
    return alarm->chance >= 1;
}

static bool falls(const struct tern_alarm *alarm, double accuracy, char text[TERN_ALARM_MAX])
{
    snprintf(text, TERN_ALARM_MAX,
             "the accuracy has fallen to %.4f from %.4f (guessing has %.4f): training collapses",
             accuracy, alarm->best, alarm->chance);
    const double best = skill(alarm, alarm->best);
    return best >= LEARNT && skill(alarm, accuracy) < COLLAPSE * best;
}

static bool idles(const struct tern_alarm *alarm, uint32_t version, char text[TERN_ALARM_MAX])
{
    snprintf(text, TERN_ALARM_MAX,
             "after %u of %u rounds the accuracy, %.4f at best, is that of guessing (%.4f)",
             version, alarm->planned_rounds, alarm->best, alarm->chance);
    return alarm->planned_rounds >= FEW_ROUNDS && version >= alarm->planned_rounds / 2 &&
           skill(alarm, alarm->best) <= NOTHING_LEARNT;
}

bool tern_alarm_rings(struct tern_alarm *alarm, uint32_t version, double accuracy, double loss,
                      char text[TERN_ALARM_MAX])
{
    if (isnan(accuracy)) {
        return false;
    }
    if (!alarm->moot && is_moot(alarm, text)) {
        return alarm->moot = true;
    }
    if (!alarm->exploded && explodes(alarm, loss, text)) {
        return alarm->exploded = true;
    }
    if (!alarm->fell && falls(alarm, accuracy, text)) {
        return alarm->fell = true;
    }
    alarm->best = accuracy > alarm->best ? accuracy : alarm->best;
    if (!alarm->idle && idles(alarm, version, text)) {
        return alarm->idle = true;
    }
    return false;
}
