#include "rounds/ending.h"

#include <math.h>

static bool has_diverged(const struct tern_losses *losses, float loss)
{
    const float usual = losses->first > 1.0f ? losses->first : 1.0f;
    return !isfinite(loss) || loss > TERN_DIVERGED_FACTOR * usual;
}

void tern_losses_add(struct tern_losses *losses, const struct tern_ending_policy *policy,
                     uint32_t base_version, float loss)
{
    if (losses->rounds == 0) {
        losses->first = isfinite(loss) ? loss : 0.0f;
    }
    if (losses->rounds == 0 || loss < losses->lowest || !isfinite(losses->lowest)) {
        losses->lowest = loss;
        losses->lowest_version = base_version;
        losses->since_lowest = 0;
    } else {
        losses->since_lowest++;
    }
    losses->rounds++;
    losses->diverged = has_diverged(losses, loss) ? losses->diverged + 1 : 0;
    if (losses->ending != TERN_ENDING_NONE) {
        return;
    }
    if (policy->divergence_rounds > 0 && losses->diverged >= policy->divergence_rounds) {
        losses->ending = TERN_ENDING_DIVERGED;
    } else if (policy->patience > 0 && losses->since_lowest >= policy->patience) {
        losses->ending = TERN_ENDING_STALLED;
    }
}

const char *tern_ending_name(enum tern_ending ending)
{
    static const char *const names[] = {"none", "diverged", "stalled", "privacy-spent"};
    return names[ending];
}

const char *tern_ending_advice(enum tern_ending ending)
{
    static const char *const advice[] = {
        "",
        "The federation has diverged and was ended. Check a client's data (tern-client check names "
        "unscaled columns); start a new federation with a lower train.learning_rate, from the best "
        "version if there is one (export --best, init --model). To continue this one, set "
        "round.divergence_rounds = 0.",
        "The training loss of the last round.patience rounds was no lower than before: export "
        "--best writes the best version. To continue, raise round.patience, or set it to 0.",
        "Another round would raise the epsilon of too many clients above privacy.epsilon_max: "
        "export "
        "writes the model. More clients, a larger privacy.noise or epsilon_max, and SIGHUP "
        "continue it.",
    };
    return advice[ending];
}
