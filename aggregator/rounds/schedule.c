#include "rounds/schedule.h"

#include <stdbool.h>
#include <string.h>

enum tern_result tern_steps_policy_from_name(const char *name, enum tern_steps_policy *policy)
{
    if (strcmp(name, "fixed") == 0) {
        *policy = TERN_STEPS_FIXED;
        return TERN_OK;
    }
    if (strcmp(name, "deadline") == 0) {
        *policy = TERN_STEPS_DEADLINE;
        return TERN_OK;
    }
    return TERN_ERR_UNKNOWN;
}

enum tern_result tern_rate_schedule_from_name(const char *name, enum tern_rate_schedule *schedule)
{
    if (strcmp(name, "constant") == 0) {
        *schedule = TERN_RATE_CONSTANT;
        return TERN_OK;
    }
    if (strcmp(name, "cosine") == 0) {
        *schedule = TERN_RATE_COSINE;
        return TERN_OK;
    }
    return TERN_ERR_UNKNOWN;
}

// --- Reasons, without stdio

static void append(char *text, const char *more)
{
    size_t used = strlen(text);
    size_t room = TERN_STEPS_REASON_MAX - 1 - used;
    size_t len = strlen(more);
    len = len < room ? len : room;
    memcpy(text + used, more, len);
    text[used + len] = '\0';
}

static void append_integer(char *text, uint64_t value)
{
    char digits[21];
    size_t at = sizeof digits;
    digits[--at] = '\0';
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    append(text, digits + at);
}

// Two decimals, rounded; values above 1e15 are shown as that.
static void append_real(char *text, double value)
{
    uint64_t hundredths = value < 1e15 ? (uint64_t)(value * 100.0 + 0.5) : (uint64_t)1e17;
    append_integer(text, hundredths / 100);
    char decimals[4] = {'.', (char)('0' + hundredths / 10 % 10), (char)('0' + hundredths % 10), 0};
    append(text, decimals);
}

// --- Local steps

uint32_t tern_steps_for(const struct tern_steps_settings *settings, float steps_per_second,
                        uint64_t window_ms, char reason[TERN_STEPS_REASON_MAX])
{
    reason[0] = '\0';
    if (settings->policy == TERN_STEPS_FIXED) {
        append(reason, "fixed");
        return settings->local_steps;
    }
    // Also false for NaN, which a client may report.
    if (!(steps_per_second > 0.0F)) {
        append(reason, "deadline: speed not known yet");
        return settings->local_steps;
    }
    double seconds = (double)window_ms / 1000.0;
    double fit = (double)steps_per_second * seconds * settings->fraction;
    append(reason, "deadline: ");
    append_real(reason, (double)steps_per_second);
    append(reason, " steps/s x ");
    append_real(reason, seconds);
    append(reason, " s x ");
    append_real(reason, settings->fraction);
    if (fit < (double)settings->min_steps) {
        append(reason, ", at least ");
        append_integer(reason, settings->min_steps);
        return settings->min_steps;
    }
    if (fit > (double)settings->max_steps) {
        append(reason, ", at most ");
        append_integer(reason, settings->max_steps);
        return settings->max_steps;
    }
    return (uint32_t)fit;
}

// A known speed counts like a round of as many steps. False for what a client may make up: NaN,
// infinity, or a speed at which this would take more than a year.
static bool start_from(struct tern_steps_done *done, float known, float steps)
{
    float ms = steps * 1000.0F / known;
    if (!(known > 0.0F) || !(ms > 0.0F && ms < 3e10F)) {
        return false;
    }
    *done = (struct tern_steps_done){steps, ms};
    return true;
}

float tern_steps_speed(struct tern_steps_done *done, float known, uint32_t local_steps,
                       uint32_t train_ms)
{
    float steps = (float)local_steps;
    float ms = train_ms == 0 ? 0.5F : (float)train_ms;
    if (local_steps == 0) {
        return known;
    }
    if (done->ms > 0.0F || start_from(done, known, steps)) {
        steps = done->steps * 0.7F + steps * 0.3F;
        ms = done->ms * 0.7F + ms * 0.3F;
    }
    *done = (struct tern_steps_done){steps, ms};
    return steps * 1000.0F / ms;
}

// --- Learning rate

// cos(pi * t) for 0 <= t <= 1 by its Taylor series, folded to t <= 1/2, where twelve
// terms reach double precision. Plain operations only, so that every machine agrees.
static double cos_pi(double t)
{
    const double pi = 3.14159265358979323846;
    if (t > 0.5) {
        return -cos_pi(1.0 - t);
    }
    double x2 = pi * t * (pi * t);
    double term = 1.0;
    double sum = 1.0;
    for (int k = 1; k <= 12; k++) {
        term = -term * x2 / (double)((2 * k - 1) * (2 * k));
        sum += term;
    }
    return sum;
}

float tern_rate_for(enum tern_rate_schedule schedule, float first, float last, uint32_t round,
                    uint32_t rounds)
{
    if (schedule == TERN_RATE_CONSTANT || rounds <= 1 || round <= 1) {
        return first;
    }
    if (round >= rounds) {
        return last;
    }
    double t = (double)(round - 1) / (double)(rounds - 1);
    double share = 0.5 * (1.0 + cos_pi(t));
    return (float)((double)last + ((double)first - (double)last) * share);
}
