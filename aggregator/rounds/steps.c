#include "rounds/steps.h"

#include "codec/plan.h"
#include "meter/meter.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

// --- Spec strings

#define FIELD(name) offsetof(struct tern_steps_settings, name)

enum { MIN = 1 << 0, MAX = 1 << 1, START = 1 << 2, INTERVAL = 1 << 3, GAMMA = 1 << 4 };
enum { FRACTION = 1 << 5, DENSITY = 1 << 6, BOUNDS = MIN | MAX };

enum { MIN_PRESET = 1, MAX_PRESET = 1000 };

static const struct tern_spec_parameter keys[] = {
    {.key = "min",
     .meaning = "least local steps",
     .range = "1 to 1000000",
     .kind = TERN_SPEC_WHOLE,
     .offset = FIELD(min_steps),
     .least = 1,
     .most = 1000000,
     .preset = MIN_PRESET},
    {.key = "max",
     .meaning = "most local steps",
     .range = "1 to 1000000",
     .kind = TERN_SPEC_WHOLE,
     .offset = FIELD(max_steps),
     .least = 1,
     .most = 1000000,
     .preset = MAX_PRESET},
    {.key = "start",
     .meaning = "factor on train.local_steps in the first interval + 1 rounds; later rounds have "
                "fewer steps as the loss falls, at least half of train.local_steps. With start=4 "
                "and interval=5, all rounds together take 4 times the steps of fixed in 6 rounds, "
                "at least 1.2 times in up to 30 (measured: 2.9 in 24 rounds, 1.9 in 40), and 0.8 "
                "to 1.5 times in 60 to 100",
     .range = "1 to 100",
     .kind = TERN_SPEC_REAL,
     .offset = FIELD(start),
     .least = TERN_SPEC_MILLION,
     .most = 100 * TERN_SPEC_MILLION,
     .preset = 4 * TERN_SPEC_MILLION},
    {.key = "interval",
     .meaning = "rounds whose losses count together",
     .range = "1 to 1000000",
     .kind = TERN_SPEC_WHOLE,
     .offset = FIELD(interval),
     .least = 1,
     .most = 1000000,
     .preset = 5},
    {.key = "gamma",
     .meaning = "factor on the local steps when the loss has stalled",
     .range = "0.01 to 0.99",
     .kind = TERN_SPEC_REAL,
     .offset = FIELD(gamma),
     .least = 10000,
     .most = 990000,
     .preset = TERN_SPEC_MILLION / 2},
    {.key = "fraction",
     .meaning = "fraction of the time to the deadline that training may take",
     .range = "0.01 to 1",
     .kind = TERN_SPEC_REAL,
     .offset = FIELD(fraction),
     .least = 10000,
     .most = TERN_SPEC_MILLION,
     .preset = TERN_SPEC_MILLION / 2},
    {.key = "density",
     .meaning = "smallest density to which a client's update is reduced; below it, the bytes are "
                "better spent on fewer and denser updates",
     .range = "0.000001 to 1",
     .kind = TERN_SPEC_REAL,
     .offset = FIELD(min_density),
     .least = 1,
     .most = TERN_SPEC_MILLION,
     .preset = TERN_SPEC_MILLION / 20},
    {.key = NULL},
};

// The names of the policies: fixed, then the other policies in the order in which they apply.
static const struct {
    struct tern_spec_entry entry;
    enum tern_steps_policy policy;
} names[] = {
    {{"fixed", keys, 0}, TERN_STEPS_FIXED},
    {{"adaptive", keys, BOUNDS | START | INTERVAL | GAMMA}, TERN_STEPS_ADAPTIVE},
    {{"deadline", keys, BOUNDS | FRACTION}, TERN_STEPS_DEADLINE},
    {{"budget", keys, BOUNDS | DENSITY}, TERN_STEPS_BUDGET},
};

#define POLICIES (sizeof names / sizeof names[0])

static bool entry_at(size_t index, struct tern_spec_entry *entry)
{
    if (index < POLICIES) {
        *entry = names[index].entry;
    }
    return index < POLICIES;
}

const struct tern_spec_list tern_steps_specs = {.what = "schedule", .at = entry_at};

static enum tern_result refuse(const char *what, char why[TERN_SPEC_SENTENCE_MAX])
{
    memcpy(why, what, strlen(what) + 1);
    return TERN_ERR_ARGUMENT;
}

// Joins *bound with the bound of earlier parts of the spec string: a value that one part set replaces the default.
// Returns false if both set different values.
static bool join_bound(uint32_t before, uint32_t preset, uint32_t *bound)
{
    const bool both = before != preset && *bound != preset && before != *bound;
    *bound = *bound == preset ? before : *bound;
    return !both;
}

// Parses the part of the spec string that ends at `len`, and adds it to the settings of the earlier parts.
static enum tern_result read_part(const char *spec, size_t len,
                                  struct tern_steps_settings *settings, unsigned *seen,
                                  char why[TERN_SPEC_SENTENCE_MAX])
{
    char part[TERN_STEPS_SPEC_MAX];
    size_t index = 0;
    const struct tern_steps_settings before = *settings;
    if (len >= sizeof part) {
        return refuse("a part of the schedule is too long", why);
    }
    memcpy(part, spec, len);
    part[len] = '\0';
    TERN_TRY(tern_spec_read(&tern_steps_specs, part, settings, &index, why));
    if ((*seen >> index & 1) != 0) {
        return refuse("a schedule occurs twice; join different ones, e.g. adaptive+deadline+budget",
                      why);
    }
    *seen |= 1u << index;
    settings->policy |= (unsigned)names[index].policy;
    if (!join_bound(before.min_steps, MIN_PRESET, &settings->min_steps) ||
        !join_bound(before.max_steps, MAX_PRESET, &settings->max_steps)) {
        return refuse("min or max has different values in two parts; give it once", why);
    }
    return TERN_OK;
}

enum tern_result tern_steps_parse(const char *spec, struct tern_steps_settings *settings,
                                  char why[TERN_SPEC_SENTENCE_MAX])
{
    struct tern_steps_settings parsed = {.local_steps = settings->local_steps};
    unsigned seen = 0;
    for (size_t i = 0; i < POLICIES; i++) {
        tern_spec_presets(&names[i].entry, &parsed);
    }
    for (size_t len = 0;; spec += len + 1) {
        len = strcspn(spec, "+");
        TERN_TRY(read_part(spec, len, &parsed, &seen, why));
        if (spec[len] == '\0') {
            break;
        }
    }
    if ((seen & 3) == 3) {
        return refuse("fixed and adaptive both set the first number of steps; give one of them",
                      why);
    }
    if (parsed.min_steps > parsed.max_steps) {
        return refuse("min is above max", why);
    }
    // Marks "fixed+deadline", whose local steps are at most train.local_steps; "deadline" alone has no such bound.
    parsed.policy |= (seen & 1) != 0 && parsed.policy != 0 ? (unsigned)TERN_STEPS_AT_MOST : 0;
    *settings = parsed;
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
    for (size_t i = 1; i < POLICIES; i++) {
        if ((policy & (unsigned)names[i].policy) != 0) {
            if (used > 0) {
                name[used++] = '+';
            }
            size_t len = strlen(names[i].entry.name);
            memcpy(name + used, names[i].entry.name, len + 1);
            used += len;
        }
    }
}

// --- Reasons

// Adds "813 B", "12.70 KB" or "1.25 MB" (powers of 1000).
static void add_bytes(struct tern_reason *reason, double bytes)
{
    if (bytes < 1000.0) {
        tern_reason_integer(reason, (uint64_t)bytes);
        tern_reason_text(reason, " B");
        return;
    }
    static const char *const units[] = {" KB", " MB", " GB", " TB"};
    size_t unit = 0;
    bytes /= 1000.0;
    while (bytes >= 1000.0 && unit < 3) {
        bytes /= 1000.0;
        unit++;
    }
    tern_reason_real(reason, bytes);
    tern_reason_text(reason, units[unit]);
}

// Begins the reason of one policy with "deadline: ", after "; " if the text has a reason already.
static void begin_policy(struct tern_reason *reason, const char *policy)
{
    if (reason->text[0] != '\0') {
        tern_reason_text(reason, "; ");
    }
    tern_reason_text(reason, policy);
    tern_reason_text(reason, ": ");
}

// --- Bounds

// Returns the steps rounded down to a whole number within [min_steps, max_steps]. Adds the bound that applied to the
// reason.
static uint32_t bound_steps(const struct tern_steps_settings *settings, double steps,
                            struct tern_reason *reason)
{
    if (!(steps >= (double)settings->min_steps)) {
        tern_reason_text(reason, ", at least ");
        tern_reason_integer(reason, settings->min_steps);
        return settings->min_steps;
    }
    if (steps > (double)settings->max_steps) {
        tern_reason_text(reason, ", at most ");
        tern_reason_integer(reason, settings->max_steps);
        return settings->max_steps;
    }
    return (uint32_t)steps;
}

// --- Adaptive
//
// AdaComm (Wang, Joshi: Adaptive Communication Strategies to Achieve the Best
// Error-Runtime Trade-off in Local-Update SGD, SysML 2019, section 4). Many local steps are cheap
// while the loss is high; later their drift keeps the loss from falling. So
// tau = ceil(sqrt(F / F_0) tau_0), or gamma tau if that is not fewer than before.
//
// The paper's intervals are spans of time, and F is measured on the data. Here intervals are
// committed rounds. F is the mean over them of the median of the clients' training losses, which no
// single client decides; F_0 is the first round's median. tau_0 is a multiple of the usual steps,
// so that all rounds together take about as many steps as under `fixed`.

static uint32_t first_adaptive_steps(const struct tern_steps_settings *settings)
{
    return (uint32_t)((double)settings->local_steps * settings->start);
}

// Returns the fewest steps of `adaptive`: half of train.local_steps. Rounds of one or two steps cost as many bytes and
// teach little.
static uint32_t fewest_adaptive_steps(const struct tern_steps_settings *settings)
{
    uint32_t half = (settings->local_steps + 1) / 2;
    return half > settings->min_steps ? half : settings->min_steps;
}

// Sets the number of local steps, tau, at the end of an interval. loss: the interval's mean loss.
static void end_interval(struct tern_steps_state *state, const struct tern_steps_settings *settings,
                         double loss)
{
    double tau = ceil(sqrt(loss / state->first_loss) * (double)first_adaptive_steps(settings));
    if (!(tau < (double)state->tau)) {
        tau = (double)state->tau * settings->gamma;
    }
    uint32_t least = fewest_adaptive_steps(settings);
    state->tau = tau > (double)least ? (uint32_t)tau : least;
}

static void plan_adaptive(const struct tern_steps_settings *settings,
                          const struct tern_steps_state *state, struct tern_steps_plan *plan)
{
    struct tern_reason *reason = &plan->reason;
    begin_policy(reason, "adaptive");
    if (state->last_loss == 0.0) {
        tern_reason_text(reason, "no interval yet");
    } else {
        tern_reason_text(reason, "loss ");
        tern_reason_real(reason, state->last_loss);
        tern_reason_text(reason, " of ");
        tern_reason_real(reason, state->first_loss);
    }
    plan->local_steps = bound_steps(settings, (double)state->tau, reason);
}

// --- Deadline: as many local steps as a client's measured speed fits into its share of the window

// Returns how many steps fit into the window; UINT32_MAX = unknown. sets_steps: plan->local_steps becomes this number;
// otherwise the number only lowers plan->local_steps.
static uint32_t plan_deadline(const struct tern_steps_settings *settings,
                              const struct tern_steps_facts *facts, bool sets_steps,
                              struct tern_steps_plan *plan)
{
    struct tern_reason *reason = &plan->reason;
    begin_policy(reason, "deadline");
    // A speed of 0 is unknown. A client may have reported NaN.
    if (!(facts->steps_per_second > 0.0F)) {
        tern_reason_text(reason, "speed not known yet");
        return UINT32_MAX;
    }
    double seconds = (double)facts->window_ms / 1000.0;
    double fit = (double)facts->steps_per_second * seconds * settings->fraction;
    tern_reason_real(reason, (double)facts->steps_per_second);
    tern_reason_text(reason, " steps/s x ");
    tern_reason_real(reason, seconds);
    tern_reason_text(reason, " s x ");
    tern_reason_real(reason, settings->fraction);
    if (!sets_steps && fit >= (double)plan->local_steps) {
        tern_reason_text(reason, ", all fit");
        return fit < (double)settings->max_steps ? (uint32_t)fit : settings->max_steps;
    }
    plan->local_steps = bound_steps(settings, fit, reason);
    return plan->local_steps;
}

// --- Budget
//
// A client's remaining bytes are spread over the rounds in which it will probably take part. A
// round that is too expensive gets an update at a lower density and more local steps, so that each
// byte carries more of them. If even the least density is too expensive, the client is invited less
// often (selection.h).
//
// How often a client takes part depends on all clients' bytes: if many can afford few rounds, the
// others are selected more often, and their bytes are spread over more rounds.
//
// The measure is the client's last round, as metered. Other codecs are estimated from it by the
// entropy of their symbols, so the estimate of the measured codec is exact.

// Assumed for a round before the first measured one: a check-in, a download and an update on a
// resumed connection. The check-in's bytes and the download's bits per value are guesses.
#define USUAL_EXCHANGES 3
#define USUAL_CHECKIN 300
#define USUAL_DOWN_BITS 0.34 // bits of a download per value of the model

#define DAY_MS UINT64_C(86400000)

// Densities to which a small budget may lower an update.
static const double densities[] = {0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0};

struct costs {
    double scale; // ratio of measured to estimated bytes
    double other;
    double values;
};

static struct costs costs_of(const struct tern_steps_facts *facts)
{
    const struct tern_budget *budget = &facts->budget;
    struct costs costs = {.scale = 1.0, .values = (double)facts->values};
    costs.other = (double)tern_price(TERN_PRICE_RESUMED, USUAL_EXCHANGES, USUAL_CHECKIN) +
                  costs.values * USUAL_DOWN_BITS / 8.0;
    if (budget->update_bytes > 0) {
        double estimate = costs.values * tern_codec_bits(&budget->update_codec) / 8.0;
        costs.scale = estimate > 0.0 ? (double)budget->update_bytes / estimate : 1.0;
    }
    if (budget->other_bytes > 0) {
        costs.other = (double)budget->other_bytes;
    }
    return costs;
}

static double bytes_of(const struct costs *costs, const struct tern_codec *codec)
{
    return costs->other + costs->scale * costs->values * tern_codec_bits(codec) / 8.0;
}

// Sets *codec to the highest density with which a round costs at most `allowed`, or to the least density.
static void lower_density(const struct tern_steps_settings *settings,
                          const struct tern_steps_facts *facts, const struct costs *costs,
                          double allowed, struct tern_codec *codec)
{
    struct tern_codec best = *codec;
    for (const double *p = densities; *p > 0.0 && bytes_of(costs, &best) > allowed; p++) {
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
    lower_density(settings, facts, costs, 0.0, &codec);
    return bytes_of(costs, &codec);
}

static void explain_budget(const struct tern_steps_facts *facts, double allowed, double bytes,
                           struct tern_reason *reason)
{
    add_bytes(reason, (double)facts->budget.left);
    tern_reason_text(reason, " left, ");
    add_bytes(reason, allowed);
    tern_reason_text(reason, " a round, takes ");
    add_bytes(reason, bytes);
    if (facts->budget.update_bytes == 0 || facts->budget.other_bytes == 0) {
        tern_reason_text(reason, " (estimated)");
    }
    if (bytes > allowed) {
        const double share = facts->budget.is_per_round ? 1.0 : facts->budget.share;
        tern_reason_text(reason, ", so 1 of ");
        tern_reason_real(reason, bytes / ((allowed > 1.0 ? allowed : 1.0) * share));
        tern_reason_text(reason, " rounds");
    }
}

// Raises the local steps by the factor by which the round became cheaper.
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

// Plans the bytes of the round. most: the number of steps that the deadline allows.
static void plan_budget(const struct tern_steps_settings *settings,
                        const struct tern_steps_facts *facts, uint32_t most,
                        struct tern_steps_plan *plan)
{
    struct costs costs = costs_of(facts);
    begin_policy(&plan->reason, "budget");
    if (!facts->budget.budgeted) {
        tern_reason_text(&plan->reason, "none");
        return;
    }
    double allowed = (double)tern_budget_allowance(&facts->budget);
    double usual = bytes_of(&costs, &plan->codec);
    struct tern_codec codec = plan->codec;
    lower_density(settings, facts, &costs, allowed, &codec);
    double bytes = bytes_of(&costs, &codec);
    plan->bytes = (uint64_t)(bytes + 0.5);
    explain_budget(facts, allowed, bytes, &plan->reason);
    plan->least_bytes = (uint64_t)(least_bytes(settings, facts, &costs) + 0.5);
    if (bytes < usual) {
        plan->codec = codec;
        plan->has_own_codec = true;
        raise_steps(settings, usual, bytes, most, plan);
    }
}

// --- Bytes that a budget allows

// Returns the bytes per round of a client with a budget, possibly less than one.
static double allowance(const struct tern_budget *budget)
{
    double rounds = budget->is_per_round ? 1.0 : budget->rounds * budget->share;
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

// Begins with equal shares. Clients that cannot afford their share leave a rest, which raises the other clients' share.
// Repeats this until no other client falls short.
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

// Returns the days from 1970-01-01 to the first of a month, proleptic Gregorian; month 1..13.
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
    uint64_t year = 1970 + days / 366; // a lower bound of the year
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

// --- State over the rounds

void tern_steps_state_init(struct tern_steps_state *state,
                           const struct tern_steps_settings *settings)
{
    memset(state, 0, sizeof *state);
    state->tau = first_adaptive_steps(settings);
}

void tern_steps_state_add_loss(struct tern_steps_state *state,
                               const struct tern_steps_settings *settings, float loss)
{
    state->rounds++;
    if (!(loss > 0.0F) || !isfinite(loss)) {
        return; // a loss of 0, NaN or infinity tells nothing
    }
    if (state->first_loss == 0.0) {
        state->first_loss = (double)loss;
        return;
    }
    state->loss_sum += (double)loss;
    if (++state->losses < settings->interval) {
        return;
    }
    state->last_loss = state->loss_sum / (double)state->losses;
    end_interval(state, settings, state->last_loss);
    state->losses = 0;
    state->loss_sum = 0.0;
}

// --- How fast a client trains

// Sets *done as if the client had trained `steps` steps at the known speed. Returns false for a speed that cannot be
// true: NaN, infinity, or a speed at which these steps would take more than a year.
static bool set_from_known_speed(struct tern_steps_smoothed *done, float known, float steps)
{
    float ms = steps * 1000.0F / known;
    if (!(known > 0.0F) || !(ms > 0.0F && ms < 3e10F)) {
        return false;
    }
    *done = (struct tern_steps_smoothed){steps, ms};
    return true;
}

float tern_steps_speed(struct tern_steps_smoothed *done, float known, uint32_t local_steps,
                       uint32_t train_ms)
{
    float steps = (float)local_steps;
    float ms = train_ms == 0 ? 0.5F : (float)train_ms;
    if (local_steps == 0) {
        return known;
    }
    if (done->ms > 0.0F || set_from_known_speed(done, known, steps)) {
        steps = done->steps * 0.7F + steps * 0.3F;
        ms = done->ms * 0.7F + ms * 0.3F;
    }
    *done = (struct tern_steps_smoothed){steps, ms};
    return steps * 1000.0F / ms;
}

// --- Plans

void tern_steps_make_plan(const struct tern_steps_settings *settings,
                          const struct tern_steps_state *state,
                          const struct tern_steps_facts *facts, struct tern_steps_plan *plan)
{
    const unsigned policy = settings->policy;
    uint32_t most = UINT32_MAX;
    memset(plan, 0, sizeof *plan);
    plan->local_steps = settings->local_steps;
    plan->codec = facts->codec;
    if ((policy & TERN_STEPS_ADAPTIVE) != 0) {
        plan_adaptive(settings, state, plan);
    } else if (policy == TERN_STEPS_FIXED || (policy & TERN_STEPS_AT_MOST) != 0) {
        tern_reason_text(&plan->reason, "fixed");
    }
    if ((policy & TERN_STEPS_DEADLINE) != 0) {
        bool sets_steps = (policy & ((unsigned)TERN_STEPS_ADAPTIVE | TERN_STEPS_AT_MOST)) == 0;
        most = plan_deadline(settings, facts, sets_steps, plan);
    }
    if ((policy & TERN_STEPS_BUDGET) != 0) {
        plan_budget(settings, facts, most, plan);
    }
}
