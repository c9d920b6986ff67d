// Budget: what a client may still send and receive is spread over the rounds it is likely to take
// part in. A round that is too dear is first made cheaper: its update at a lower density, and more
// local steps for it, so that a byte carries more of them. What even the least density does not
// bring down is made up by fewer invitations (selection.h).
//
// How many rounds a client takes part in follows from everybody's bytes: where many can afford few
// rounds, the others are asked more often, and their bytes are spread over more.
//
// Bytes come from the client's last round as metered. Another codec's are estimated from it by the
// entropy of what it sends, so that the estimate of the codec that made that update is exact.
#include "codec/plan.h"
#include "meter/price.h"
#include "rounds/policies.h"

// Of a round that was not yet measured: a check-in, a download and an update on a resumed
// connection, of which the check-in's bodies and the bits of the download are guessed.
#define USUAL_EXCHANGES 3
#define USUAL_CHECKIN 300
#define USUAL_DOWN_BITS 0.34 // of a value

#define DAY_MS UINT64_C(86400000)

// Densities that a budget is cut to.
static const double rungs[] = {0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0};

struct costs {
    double scale; // bytes measured for each byte estimated
    double other;
    double values;
};

static struct costs costs_of(const struct tern_steps_facts *facts)
{
    const struct tern_budget *budget = &facts->budget;
    struct costs costs = {.scale = 1.0, .values = (double)facts->values};
    costs.other = (double)tern_price(TERN_PRICE_RESUMED, USUAL_EXCHANGES, USUAL_CHECKIN) +
                  costs.values * USUAL_DOWN_BITS / 8.0;
    if (budget->update > 0) {
        double estimate = costs.values * tern_codec_bits(&budget->update_codec) / 8.0;
        costs.scale = estimate > 0.0 ? (double)budget->update / estimate : 1.0;
    }
    if (budget->other > 0) {
        costs.other = (double)budget->other;
    }
    return costs;
}

static double bytes_of(const struct costs *costs, const struct tern_codec *codec)
{
    return costs->other + costs->scale * costs->values * tern_codec_bits(codec) / 8.0;
}

// The codec of the highest density whose round costs at most `allowed`, or of the least.
static void cut(const struct tern_steps_settings *settings, const struct tern_steps_facts *facts,
                const struct costs *costs, double allowed, struct tern_codec *codec)
{
    struct tern_codec best = *codec;
    for (const double *p = rungs; *p > 0.0 && bytes_of(costs, &best) > allowed; p++) {
        struct tern_codec next = *codec;
        if (*p >= settings->min_density && tern_codec_thin(&next, *p, facts->density) &&
            bytes_of(costs, &next) < bytes_of(costs, &best)) {
            best = next;
        }
    }
    *codec = best;
}

static double least_bytes(const struct tern_steps_settings *settings,
                          const struct tern_steps_facts *facts, const struct costs *costs)
{
    struct tern_codec codec = facts->codec;
    cut(settings, facts, costs, 0.0, &codec);
    return bytes_of(costs, &codec);
}

static void explain(const struct tern_steps_facts *facts, double allowed, double bytes,
                    struct tern_reason *reason)
{
    tern_reason_bytes(reason, (double)facts->budget.left);
    tern_reason_text(reason, " left, ");
    tern_reason_bytes(reason, allowed);
    tern_reason_text(reason, " a round, takes ");
    tern_reason_bytes(reason, bytes);
    if (facts->budget.update == 0 || facts->budget.other == 0) {
        tern_reason_text(reason, " (estimated)");
    }
    if (bytes > allowed) {
        const double share = facts->budget.renewed ? 1.0 : facts->budget.share;
        tern_reason_text(reason, ", so 1 of ");
        tern_reason_real(reason, bytes / ((allowed > 1.0 ? allowed : 1.0) * share));
        tern_reason_text(reason, " rounds");
    }
}

// More local steps for as much as the round became cheaper.
static void raise_steps(const struct tern_steps_settings *settings, double usual, double bytes,
                        uint32_t most, struct tern_steps_plan *plan)
{
    double steps = (double)plan->local_steps * usual / bytes;
    double limit = (double)(most < settings->max_steps ? most : settings->max_steps);
    steps = steps < limit ? steps : limit;
    if (steps > (double)plan->local_steps) {
        plan->local_steps = (uint32_t)steps;
        tern_reason_text(&plan->reason, ", more steps for it");
    }
}

void tern_policy_budget(const struct tern_steps_settings *settings,
                        const struct tern_steps_facts *facts, uint32_t most,
                        struct tern_steps_plan *plan)
{
    struct costs costs = costs_of(facts);
    tern_reason_policy(&plan->reason, "budget");
    if (!facts->budget.budgeted) {
        tern_reason_text(&plan->reason, "none");
        return;
    }
    double allowed = (double)tern_budget_allowance(&facts->budget);
    double usual = bytes_of(&costs, &plan->codec);
    struct tern_codec codec = plan->codec;
    cut(settings, facts, &costs, allowed, &codec);
    double bytes = bytes_of(&costs, &codec);
    plan->bytes = (uint64_t)(bytes + 0.5);
    explain(facts, allowed, bytes, &plan->reason);
    plan->least_bytes = (uint64_t)(least_bytes(settings, facts, &costs) + 0.5);
    if (bytes < usual) {
        plan->codec = codec;
        plan->own_codec = true;
        raise_steps(settings, usual, bytes, most, plan);
    }
}

// --- What a budget allows

// Less than a byte, where a client has few for many rounds; of a client with a budget.
static double allowance(const struct tern_budget *budget)
{
    double rounds = budget->renewed ? 1.0 : budget->rounds * budget->share;
    return (double)budget->left / (rounds > 1.0 ? rounds : 1.0);
}

uint64_t tern_budget_allowance(const struct tern_budget *budget)
{
    return budget->budgeted ? (uint64_t)allowance(budget) : UINT64_MAX;
}

double tern_budget_affords(const struct tern_budget *budget, uint64_t least)
{
    struct tern_budget every = *budget;
    every.share = 1.0;
    return tern_budget_chance(&every, least);
}

// Begins with equal shares. Clients that cannot afford theirs leave a rest, which raises the share of
// the others; this is repeated until nobody else falls short.
double tern_budget_share(uint32_t invited, uint32_t count,
                         double (*affords)(const void *ctx, uint32_t index), const void *ctx)
{
    double share = 0.0;
    for (uint32_t turn = 0; turn <= count; turn++) {
        double taken = 0.0;
        uint32_t able = 0;
        for (uint32_t i = 0; i < count; i++) {
            double most = affords(ctx, i);
            able += most > 0.0 && most >= share;
            taken += most < share ? most : 0.0;
        }
        double next = able > 0 ? ((double)invited - taken) / (double)able : 1.0;
        if (next >= 1.0) {
            return 1.0;
        }
        if (next <= share) {
            break;
        }
        share = next;
    }
    return share;
}

double tern_budget_chance(const struct tern_budget *budget, uint64_t least)
{
    if (!budget->budgeted || least == 0) {
        return 1.0;
    }
    if (budget->left < least) {
        return 0.0;
    }
    double chance = allowance(budget) / (double)least;
    return chance < 1.0 ? chance : 1.0;
}

// Days from 1970-01-01 to the first of a month, proleptic Gregorian; month 1..13.
static uint64_t days_to(uint64_t year, uint64_t month)
{
    static const uint16_t before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    uint64_t past = year - 1;
    uint64_t days = past * 365 + past / 4 - past / 100 + past / 400 - 719162;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days + before[month - 1] + (leap && month > 2);
}

uint64_t tern_budget_month_left_ms(uint64_t now)
{
    uint64_t days = now / DAY_MS;
    uint64_t year = 1970 + days / 366; // not yet past it
    while (days_to(year + 1, 1) <= days) {
        year++;
    }
    uint64_t month = 1;
    while (days_to(year, month + 1) <= days) {
        month++;
    }
    return days_to(year, month + 1) * DAY_MS - now;
}

bool tern_budget_month_turned(uint64_t from_ms, uint64_t to_ms)
{
    uint64_t from = from_ms > DAY_MS ? from_ms - DAY_MS : 0;
    return to_ms + DAY_MS >= from + tern_budget_month_left_ms(from);
}
