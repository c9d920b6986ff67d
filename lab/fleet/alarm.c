#include "fleet/alarm.h"
#include "fleet/figure.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOSSES_OF_GUESSING 10.0 // a larger multiple of the guessing loss is an explosion
#define NOTHING_LEARNT 0.03     // up to this skill the model is no better than guessing
#define LEARNT 0.25             // from this skill on, a collapse can be detected
#define COLLAPSE 0.45           // share of the best skill; below it the model has collapsed
#define FEW_ROUNDS 5u           // no report before this round
#define UNPLANNED_ROUNDS 20u    // first report when the number of rounds is unknown

// --- The figure of guessing

static void take_guess(struct tern_alarm *alarm, const uint32_t *counts,
                       const struct tern_dataset *test, const struct tern_name_set *names)
{
    uint32_t most = 0;
    for (uint32_t c = 1; c < test->class_count; c++) {
        most = counts[c] > counts[most] ? c : most;
    }
    alarm->chance = test->count > 0 ? (double)counts[most] / test->count : 0;
    if (most < names->count) {
        snprintf(alarm->guess, sizeof alarm->guess, "always answering '%.60s'", names->names[most]);
    } else {
        snprintf(alarm->guess, sizeof alarm->guess, "always answering class %u", most);
    }
}

void tern_alarm_of_classes(struct tern_alarm *alarm, const struct tern_dataset *test,
                           const struct tern_name_set *names, uint32_t planned_rounds)
{
    uint32_t *counts = calloc((size_t)test->class_count + 1, sizeof *counts);
    *alarm = (struct tern_alarm){
        .figure = "accuracy", .classes = test->class_count, .planned_rounds = planned_rounds};
    for (uint32_t i = 0; counts != NULL && i < test->count; i++) {
        counts[test->labels[i]]++;
    }
    if (counts != NULL) {
        take_guess(alarm, counts, test, names);
    }
    free(counts);
}

// Starts watching a model that is not a classifier. Guessing has R2 0, and AUC 0.5.
static void judge_by(struct tern_alarm *alarm, const char *figure)
{
    const bool r2 = strcmp(figure, "r2") == 0;
    alarm->figure = r2 ? "R2" : "AUC";
    alarm->chance = r2 ? 0 : 0.5;
    alarm->classes = 0;
    snprintf(alarm->guess, sizeof alarm->guess, "%s",
             r2 ? "always answering the mean" : "a random order");
}

// Scales a figure so that guessing is 0 and a perfect model is 1. Figures become comparable between two unbalanced
// classes and a hundred classes.
static double skill(const struct tern_alarm *alarm, double figure)
{
    return alarm->chance < 1 ? (figure - alarm->chance) / (1 - alarm->chance) : 1;
}

// --- Warnings

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
    return alarm->classes > 0 && loss > LOSSES_OF_GUESSING * guessing;
}

static bool is_moot(const struct tern_alarm *alarm, char text[TERN_ALARM_MAX])
{
    snprintf(text, TERN_ALARM_MAX,
             "all test examples have one class: their accuracy is meaningless");
    return alarm->chance >= 1;
}

static bool falls(const struct tern_alarm *alarm, double figure, char text[TERN_ALARM_MAX])
{
    snprintf(text, TERN_ALARM_MAX,
             "the %s has fallen to %.4f from %.4f (guessing has %.4f): training collapses",
             alarm->figure, figure, alarm->best, alarm->chance);
    const double best = skill(alarm, alarm->best);
    return alarm->measured && best >= LEARNT && skill(alarm, figure) < COLLAPSE * best;
}

// Returns how many "no better than guessing" warnings are due: one after a tenth of the rounds, one after half, one
// after all.
static uint32_t idle_due(const struct tern_alarm *alarm, uint32_t version)
{
    const uint32_t planned = alarm->planned_rounds;
    const uint32_t tenth = planned > 0 ? planned / 10 : UNPLANNED_ROUNDS;
    const uint32_t first = tenth > FEW_ROUNDS ? tenth : FEW_ROUNDS;
    if (planned > 0 && version >= planned) {
        return 3;
    }
    if (planned > 0 && version >= planned / 2 && version >= 2 * FEW_ROUNDS) {
        return 2;
    }
    return version >= first ? 1 : 0;
}

static bool idles(struct tern_alarm *alarm, uint32_t version, char text[TERN_ALARM_MAX])
{
    const uint32_t due = idle_due(alarm, version);
    char of[24] = "";
    if (due <= alarm->idle || skill(alarm, alarm->best) > NOTHING_LEARNT) {
        return false;
    }
    alarm->idle = due;
    if (alarm->planned_rounds > 0) {
        snprintf(of, sizeof of, " of %u", alarm->planned_rounds);
    }
    snprintf(text, TERN_ALARM_MAX,
             "after %u%s rounds the %s, %.4f at best, is no better than %s (%.4f)", version, of,
             alarm->figure, alarm->best, alarm->guess, alarm->chance);
    return true;
}

bool tern_alarm_rings(struct tern_alarm *alarm, uint32_t version,
                      const struct tern_evaluate_result *found, char text[TERN_ALARM_MAX])
{
    const double figure = tern_figure_value(found);
    if (found->num_examples == 0 || isnan(figure)) {
        return false;
    }
    if (found->no_accuracy) {
        judge_by(alarm, tern_figure_name(found));
    }
    if (!alarm->moot && is_moot(alarm, text)) {
        return alarm->moot = true;
    }
    if (!alarm->exploded && explodes(alarm, (double)found->loss, text)) {
        return alarm->exploded = true;
    }
    if (!alarm->fell && falls(alarm, figure, text)) {
        return alarm->fell = true;
    }
    alarm->best = alarm->measured && alarm->best > figure ? alarm->best : figure;
    alarm->measured = true;
    return !alarm->moot && idles(alarm, version, text);
}
