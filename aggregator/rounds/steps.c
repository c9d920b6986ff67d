#include "rounds/policies.h"

#include <math.h>
#include <string.h>

// --- Names

// In the order in which they apply.
static const struct {
    const char *name;
    enum tern_steps_policy policy;
} names[] = {
    {"adaptive", TERN_STEPS_ADAPTIVE},
    {"deadline", TERN_STEPS_DEADLINE},
    {"budget", TERN_STEPS_BUDGET},
};

#define NAMES (sizeof names / sizeof names[0])

const char *tern_steps_policy_names(void)
{
    return "fixed | adaptive | deadline | budget, the last two also after a plus: "
           "adaptive+deadline+budget";
}

// *policy is that of one name; fixed has no bit.
static bool find(const char *name, size_t len, unsigned *policy)
{
    for (size_t i = 0; i < NAMES; i++) {
        if (strlen(names[i].name) == len && memcmp(names[i].name, name, len) == 0) {
            *policy = (unsigned)names[i].policy;
            return true;
        }
    }
    *policy = TERN_STEPS_FIXED;
    return len == 5 && memcmp(name, "fixed", 5) == 0;
}

enum tern_result tern_steps_policy_from_name(const char *name, unsigned *policy)
{
    unsigned sum = 0;
    unsigned starts = 0;
    for (;;) {
        unsigned one = 0;
        size_t len = strcspn(name, "+");
        if (!find(name, len, &one) || (sum & one) != 0) {
            return TERN_ERR_UNKNOWN;
        }
        starts += one == TERN_STEPS_FIXED || one == TERN_STEPS_ADAPTIVE;
        sum |= one;
        if (starts > 1) {
            return TERN_ERR_UNKNOWN;
        }
        if (name[len] == '\0') {
            break;
        }
        name += len + 1;
    }
    // "fixed+deadline" is not "deadline": its H is train.local_steps at most.
    bool fixed = starts == 1 && (sum & TERN_STEPS_ADAPTIVE) == 0;
    *policy = fixed && sum != 0 ? sum | TERN_STEPS_AT_MOST : sum;
    return TERN_OK;
}

void tern_steps_policy_name(unsigned policy, char name[TERN_STEPS_POLICY_MAX])
{
    size_t used = 0;
    name[0] = '\0';
    if ((policy & ~(unsigned)TERN_STEPS_AT_MOST) == 0 || (policy & TERN_STEPS_AT_MOST) != 0) {
        memcpy(name, "fixed", 6);
        used = 5;
    }
    for (size_t i = 0; i < NAMES; i++) {
        if ((policy & (unsigned)names[i].policy) != 0) {
            if (used > 0) {
                name[used++] = '+';
            }
            size_t len = strlen(names[i].name);
            memcpy(name + used, names[i].name, len + 1);
            used += len;
        }
    }
}

// --- The course of the training

void tern_steps_course_init(struct tern_steps_course *course,
                            const struct tern_steps_settings *settings)
{
    memset(course, 0, sizeof *course);
    course->tau = tern_adaptive_start(settings);
}

void tern_steps_course_add(struct tern_steps_course *course,
                           const struct tern_steps_settings *settings, float loss)
{
    course->rounds++;
    if (!(loss > 0.0F) || !isfinite(loss)) {
        return; // what clients report decides nothing then
    }
    if (course->first_loss == 0.0) {
        course->first_loss = (double)loss;
        return;
    }
    course->loss_sum += (double)loss;
    if (++course->losses < settings->interval) {
        return;
    }
    course->last_loss = course->loss_sum / (double)course->losses;
    tern_adaptive_interval(course, settings, course->last_loss);
    course->losses = 0;
    course->loss_sum = 0.0;
}

// --- Plans

void tern_steps_for(const struct tern_steps_settings *settings,
                    const struct tern_steps_course *course, const struct tern_steps_facts *facts,
                    struct tern_steps_plan *plan)
{
    const unsigned policy = settings->policy;
    uint32_t most = UINT32_MAX;
    memset(plan, 0, sizeof *plan);
    plan->local_steps = settings->local_steps;
    plan->codec = facts->codec;
    if ((policy & TERN_STEPS_ADAPTIVE) != 0) {
        tern_policy_adaptive(settings, course, plan);
    } else if (policy == TERN_STEPS_FIXED || (policy & TERN_STEPS_AT_MOST) != 0) {
        tern_reason_text(&plan->reason, "fixed");
    }
    if ((policy & TERN_STEPS_DEADLINE) != 0) {
        bool only = (policy & ((unsigned)TERN_STEPS_ADAPTIVE | TERN_STEPS_AT_MOST)) == 0;
        most = tern_policy_deadline(settings, facts, only, plan);
    }
    if ((policy & TERN_STEPS_BUDGET) != 0) {
        tern_policy_budget(settings, facts, most, plan);
    }
}
