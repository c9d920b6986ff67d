// Joint: H together with what an update sends, from coarse to fine. While the model is far off, a
// few of the largest changes of many local steps say enough; towards the end the round's codec and
// train.local_steps are in force.
#include "codec/plan.h"
#include "rounds/policies.h"

void tern_joint_interval(struct tern_steps_course *course,
                         const struct tern_steps_settings *settings, double loss)
{
    double fallen = 1.0 - loss / course->first_loss;
    double stage = fallen * (double)settings->stages;
    uint32_t last = settings->stages - 1;
    uint32_t reached = stage <= 0.0 ? 0 : (uint32_t)stage;
    reached = reached < last ? reached : last;
    course->stage = reached > course->stage ? reached : course->stage;
}

static uint32_t stage_of(const struct tern_steps_settings *settings,
                         const struct tern_steps_course *course, uint32_t rounds)
{
    if (rounds == 0) {
        return course->stage;
    }
    uint64_t stage = (uint64_t)course->rounds * settings->stages / rounds;
    return stage < settings->stages ? (uint32_t)stage : settings->stages - 1;
}

void tern_policy_joint(const struct tern_steps_settings *settings,
                       const struct tern_steps_course *course, const struct tern_steps_facts *facts,
                       struct tern_steps_plan *plan)
{
    struct tern_reason *reason = &plan->reason;
    uint32_t stage = stage_of(settings, course, facts->rounds);
    double left = (double)(settings->stages - 1 - stage) / (double)(settings->stages - 1);
    double factor = 1.0 + (settings->coarse - 1.0) * left;
    tern_reason_policy(reason, "joint");
    tern_reason_text(reason, "stage ");
    tern_reason_integer(reason, (uint64_t)stage + 1);
    tern_reason_text(reason, " of ");
    tern_reason_integer(reason, settings->stages);
    tern_reason_text(reason, ", ");
    tern_reason_real(reason, factor);
    tern_reason_text(reason, " x ");
    tern_reason_integer(reason, settings->local_steps);
    tern_reason_text(reason, " steps");
    plan->local_steps =
        tern_policy_bound(settings, (double)settings->local_steps * factor + 0.5, reason);
    plan->own_codec = factor > 1.0 && tern_codec_coarsen(&plan->codec, 1.0 / factor);
}
