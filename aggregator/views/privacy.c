#include "views/privacy.h"

#include "views/texts.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

// --- Why no epsilon is true

enum reason {
    REASON_NO_NOISE,
    REASON_PLAIN_ROUND,
    REASON_BARE_ROUND,
    REASON_STATISTICS,
    REASON_METRICS,
    REASON_RESTORED,
    REASON_COPIED,
    REASON_DELTA,
    REASON_COUNT
};

static const struct {
    const char *name;
    const char *advice; // the setting that makes an epsilon true
} reasons[REASON_COUNT] = {
    [REASON_NO_NOISE] = {"no-noise", "set privacy.noise and secure.helper before the first round"},
    [REASON_PLAIN_ROUND] = {"plain-round",
                            "start a new federation with secure.helper and privacy.noise from its "
                            "first round"},
    [REASON_BARE_ROUND] = {"round-without-noise",
                           "start a new federation with privacy.noise from its first round"},
    [REASON_STATISTICS] = {"statistics", "start a new federation with statistics.columns = none"},
    [REASON_METRICS] = {"metrics", "start a new federation with train.evaluate = no"},
    [REASON_RESTORED] = {"restored",
                         "no setting helps: start a new federation from the model (export, init "
                         "--model)"},
    [REASON_COPIED] = {"copied", "set store.url or federation.state to the copy"},
    [REASON_DELTA] = {"delta", "set privacy.delta = 0, or a lower value"},
};

static void explain(const struct tern_privacy_report *report, enum reason reason,
                    char text[TERN_TEXT])
{
    const struct tern_db_exposure *exposure = &report->exposure;
    char when[TERN_TEXT];
    switch (reason) {
    case REASON_NO_NOISE:
        snprintf(text, TERN_TEXT, "privacy.noise = 0: sums are released without noise");
        break;
    case REASON_PLAIN_ROUND:
        snprintf(text, TERN_TEXT,
                 "round %" PRIu64 " was plain: the aggregator received its updates without noise",
                 exposure->plain_round);
        break;
    case REASON_BARE_ROUND:
        snprintf(text, TERN_TEXT, "the sum of round %" PRIu64 " was released without noise",
                 exposure->bare_round);
        break;
    case REASON_STATISTICS:
        snprintf(text, TERN_TEXT, "%" PRIu64 " clients sent statistics of their columns",
                 exposure->statistics);
        break;
    case REASON_METRICS:
        snprintf(text, TERN_TEXT,
                 "clients that train reported metrics of their own data without noise");
        break;
    case REASON_RESTORED:
        snprintf(text, TERN_TEXT,
                 "the database is a backup, restored %s: it may lack rounds that released updates",
                 tern_text_time(report->restored_ms, when));
        break;
    case REASON_COPIED:
        snprintf(text, TERN_TEXT, "the federation continues in a copy of this database");
        break;
    case REASON_DELTA:
        snprintf(text, TERN_TEXT,
                 "privacy.delta = %g is not below 1 / %" PRIu64
                 " clients, so that it allows to reveal one of them",
                 report->delta, report->clients);
        break;
    case REASON_COUNT:
        break;
    }
}

static uint32_t find_refusals(const struct tern_privacy_report *report, bool has_scaling)
{
    const struct tern_db_exposure *exposure = &report->exposure;
    const bool holds[REASON_COUNT] = {
        [REASON_NO_NOISE] = report->settings->noise <= 0.0 && exposure->rounds == 0,
        [REASON_PLAIN_ROUND] = exposure->plain_round > 0,
        [REASON_BARE_ROUND] = exposure->bare_round > 0,
        [REASON_STATISTICS] = exposure->statistics > 0 || has_scaling,
        [REASON_METRICS] = exposure->has_metrics,
        [REASON_RESTORED] = report->restored_ms > 0,
        [REASON_COPIED] = report->copied,
        [REASON_DELTA] = report->delta * (double)report->clients >= 1.0,
    };
    uint32_t refusals = 0;
    for (uint32_t i = 0; i < REASON_COUNT; i++) {
        refusals |= (uint32_t)holds[i] << i;
    }
    return refusals;
}

// --- Figures

bool tern_privacy_is_used(const struct tern_privacy_report *report)
{
    return report->settings->noise > 0.0 || report->exposure.rounds > 0;
}

static double epsilon_so_far(const struct tern_privacy_report *report)
{
    return tern_privacy_epsilon((double)report->exposure.worst_loss, report->delta);
}

// Returns the epsilon of a client with the largest loss that also takes part in all rounds to come.
static double epsilon_at_end(const struct tern_privacy_report *report)
{
    const double further = (double)report->to_come * tern_privacy_loss(report->settings->noise);
    const double epsilon = tern_privacy_epsilon(
        (double)report->exposure.worst_loss + (report->to_come > 0 ? further : 0.0), report->delta);
    const double most = report->settings->epsilon_max;
    const double now = epsilon_so_far(report);
    return most > 0.0 && epsilon > most ? (now > most ? now : most) : epsilon;
}

// Returns the condition of epsilon_at_end(): abandoned rounds count, too, if the helper was asked for their sums, and nobody knows
// how many there will be. Only privacy.epsilon_max limits them.
static const char *condition_at_end(const struct tern_privacy_report *report)
{
    return report->settings->epsilon_max > 0.0 ? "" : " if no further round is abandoned";
}

// Returns what Poisson sampling would give, with the least noise and the largest cohort of the rounds so far.
static double epsilon_poisson(const struct tern_privacy_report *report, uint64_t rounds)
{
    const struct tern_db_exposure *exposure = &report->exposure;
    const double noise = (double)exposure->least_noise / 1000.0;
    const double set = report->settings->noise;
    const struct tern_poisson_rounds sampled = {
        .rate = report->clients > 0
                    ? fmin(1.0, (double)exposure->most_updates / (double)report->clients)
                    : 1.0,
        .noise = rounds > exposure->rounds && set < noise ? set : noise,
        .rounds = (double)rounds};
    return tern_privacy_epsilon_poisson(&sampled, report->delta, NULL);
}

#define FEW_CLIENTS 1000
#define HANDFUL 50

// Returns what so few clients mean for the protection; "" for many.
static const char *warning_of(const struct tern_privacy_report *report)
{
    return report->clients <= HANDFUL
               ? "With at most 50 clients this is decoration: noise that hides one client also "
                 "hides what all have in common."
           : report->clients < FEW_CLIENTS
               ? "With fewer than 1,000 clients this protects little: noise that hides one client "
                 "also hides much of what all have in common."
               : "";
}

static const char *const assumptions[] = {
    "What is protected is all that a client's updates contributed, against everybody who sees the "
    "sums, the model and who took part. That a client took part, its bytes and times, and "
    "failed trainings are not hidden.",
    "Noise and number of rounds are settings of the aggregator, and the helper adds the noise that "
    "a "
    "round asks for. A device protects itself by secure.min_noise, which is 0 by default.",
    "The helper adds the noise, keeps it to itself and does not conspire with the aggregator.",
    "Clients limit their updates themselves, so a client that lies weakens only its own "
    "protection.",
    "One person has one client. The epsilon of a person with several clients is larger.",
    "It counts each client's own rounds, so it needs no assumption about how rounds select "
    "clients. Error buffers are inside it: each update is limited, whatever the buffer has.",
    "It holds for clients that train. Evaluators report results on their own data without noise, "
    "so "
    "that no epsilon is true of it: evaluate on public data.",
    "Nobody copied the database past `tern-aggregator backup`, and continued both.",
};
#define ASSUMPTIONS (sizeof assumptions / sizeof assumptions[0])

static enum tern_result has_scaling(struct tern_db *db, bool *found)
{
    uint8_t *body = NULL;
    size_t len = 0;
    const enum tern_result result = tern_db_scaling_get(db, &body, &len);
    free(body);
    *found = result == TERN_OK;
    return tern_db_may_miss(result);
}

enum tern_result tern_privacy_load(struct tern_db *db, const struct tern_privacy_settings *settings,
                                   uint32_t rounds_max, struct tern_privacy_report *report)
{
    struct tern_db_federation federation;
    struct tern_db_counts counts;
    bool scaling = false;
    TERN_TRY(tern_db_federation(db, &federation));
    TERN_TRY(tern_db_counts(db, 0, &counts));
    TERN_TRY(has_scaling(db, &scaling));
    *report = (struct tern_privacy_report){.settings = settings,
                                           .restored_ms = federation.restored_ms,
                                           .copied = federation.copied_to[0] != '\0',
                                           .clients = counts.clients,
                                           .rounds_max = rounds_max};
    TERN_TRY(tern_db_exposure(db, &report->exposure));
    report->to_come =
        rounds_max > counts.rounds_committed ? rounds_max - counts.rounds_committed : 0;
    report->delta = tern_privacy_chosen_delta(settings, counts.clients);
    report->refusals = find_refusals(report, scaling);
    return TERN_OK;
}

// --- For people

static uint32_t first_refusal(const struct tern_privacy_report *report)
{
    uint32_t reason = 0;
    while ((report->refusals >> reason & 1u) == 0) {
        reason++;
    }
    return reason;
}

void tern_privacy_line(const struct tern_privacy_report *report, char line[TERN_PRIVACY_LINE])
{
    char text[TERN_TEXT];
    if (report->refusals != 0) {
        explain(report, (enum reason)first_refusal(report), text);
        snprintf(line, TERN_PRIVACY_LINE, "no epsilon is true: %.190s", text);
        return;
    }
    char end[96] = "";
    if (report->to_come > 0 && report->settings->noise > 0.0) {
        snprintf(end, sizeof end, ", at most %.3g after round %" PRIu32 "%s",
                 epsilon_at_end(report), report->rounds_max, condition_at_end(report));
    }
    snprintf(line, TERN_PRIVACY_LINE, "epsilon %.3g, delta %g for the client in most rounds%s%s",
             epsilon_so_far(report), report->delta, end,
             report->clients <= HANDFUL      ? " (decoration: at most 50 clients)"
             : report->clients < FEW_CLIENTS ? " (protects little: fewer than 1,000 clients)"
                                             : "");
}

static void print_refusals(const struct tern_privacy_report *report, FILE *out)
{
    char text[TERN_TEXT];
    fprintf(out, "No epsilon is true of this federation:\n");
    for (uint32_t i = 0; i < REASON_COUNT; i++) {
        if ((report->refusals >> i & 1u) != 0) {
            explain(report, (enum reason)i, text);
            fprintf(out, "  %s\n    %s\n", text, reasons[i].advice);
        }
    }
}

static void print_figures(const struct tern_privacy_report *report, FILE *out)
{
    const struct tern_db_exposure *exposure = &report->exposure;
    fprintf(out, "Epsilon %.4g with delta %g", epsilon_so_far(report), report->delta);
    if (exposure->worst_client != 0) {
        fprintf(out, ": of client %" PRIu64 ", whose updates are in the most or least noisy sums\n",
                exposure->worst_client);
    } else {
        fprintf(out, ": no sum has been released\n");
    }
    if (report->settings->noise <= 0.0) {
        fprintf(out, "Of another round none is true, since privacy.noise = 0\n");
    } else if (report->to_come > 0) {
        fprintf(out, "At most %.4g after round %" PRIu32 "%s, of a client in all rounds to come\n",
                epsilon_at_end(report), report->rounds_max, condition_at_end(report));
    } else if (report->rounds_max == 0) {
        fprintf(out, "Without an end: round.rounds = 0, so that only privacy.epsilon_max limits "
                     "it\n");
    }
    if (exposure->rounds > 0) {
        fprintf(out,
                "Poisson sampling of %" PRIu64 " of %" PRIu64
                " clients would give %.4g to somebody who does not see who takes part.\n  Rounds "
                "have cohorts of a fixed size, which the aggregator sees: this is no guarantee "
                "here.\n",
                exposure->most_updates, report->clients, epsilon_poisson(report, exposure->rounds));
    }
}

void tern_privacy_print(const struct tern_privacy_report *report, FILE *out)
{
    if (report->refusals != 0) {
        print_refusals(report, out);
        return;
    }
    print_figures(report, out);
    if (report->exposure.has_evaluations) {
        fprintf(out,
                "Not of evaluators, which have reported results on their own data without noise\n");
    }
    if (warning_of(report)[0] != '\0') {
        fprintf(out, "%s\n", warning_of(report));
    }
    fprintf(out, "Assumptions:\n");
    for (size_t i = 0; i < ASSUMPTIONS; i++) {
        fprintf(out, "  %s\n", assumptions[i]);
    }
}

// --- For scripts

static void add_refusals(cJSON *object, const struct tern_privacy_report *report)
{
    cJSON *list = cJSON_AddArrayToObject(object, "refusals");
    char text[TERN_TEXT];
    for (uint32_t i = 0; i < REASON_COUNT; i++) {
        if ((report->refusals >> i & 1u) != 0) {
            cJSON *one = cJSON_CreateObject();
            explain(report, (enum reason)i, text);
            tern_json_text(one, "reason", reasons[i].name);
            tern_json_text(one, "sentence", text);
            tern_json_text(one, "advice", reasons[i].advice);
            cJSON_AddItemToArray(list, one);
        }
    }
}

// Adds a number that is true only without refusals; otherwise null.
static void add_number(cJSON *object, const struct tern_privacy_report *report, const char *name,
                       bool known, double value)
{
    if (report->refusals == 0 && known) {
        cJSON_AddNumberToObject(object, name, value);
    } else {
        cJSON_AddNullToObject(object, name);
    }
}

cJSON *tern_privacy_json(const struct tern_privacy_report *report)
{
    const struct tern_db_exposure *exposure = &report->exposure;
    const bool sampled = exposure->rounds > 0;
    const bool ends = report->to_come > 0 && report->settings->noise > 0.0;
    const uint64_t all = exposure->rounds + report->to_come;
    char line[TERN_PRIVACY_LINE];
    cJSON *object = cJSON_CreateObject();
    tern_privacy_line(report, line);
    tern_json_bool(object, "used", tern_privacy_is_used(report));
    tern_json_text(object, "summary", line);
    add_number(object, report, "epsilon", true, epsilon_so_far(report));
    add_number(object, report, "epsilon_at_end",
               report->rounds_max > 0 && (ends || report->to_come == 0), epsilon_at_end(report));
    cJSON_AddNumberToObject(object, "delta", report->delta);
    tern_json_u64(object, "worst_client", exposure->worst_client);
    tern_json_u64(object, "clients", report->clients);
    tern_json_u64(object, "noisy_rounds", exposure->rounds);
    add_number(object, report, "epsilon_if_poisson", sampled,
               sampled ? epsilon_poisson(report, exposure->rounds) : 0.0);
    add_number(object, report, "epsilon_at_end_if_poisson", sampled && ends,
               sampled && ends ? epsilon_poisson(report, all) : 0.0);
    add_refusals(object, report);
    tern_json_bool(object, "evaluators_reported", exposure->has_evaluations);
    tern_json_text(object, "warning", warning_of(report));
    cJSON *list = cJSON_AddArrayToObject(object, "assumptions");
    for (size_t i = 0; i < ASSUMPTIONS; i++) {
        cJSON_AddItemToArray(list, cJSON_CreateString(assumptions[i]));
    }
    return object;
}
