// What is looked at of the data: fields that cannot be learnt from, labels, scales, and the model's
// inputs and classes.
#include "cli/check.h"
#include "cli/client_data.h"
#include "cli/model_fit.h"
#include "data/columns.h"
#include "data/readers.h"
#include "hosted/csv_profile.h"
#include "tensor/model.h"
#include "util/sqrt.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED 5 // columns or classes of one line; the others are counted

// Root mean square of a feature. Standardised ones have 1, bytes of images less.
#define LARGE 10.0      // learns badly at the usual learning rates
#define TOO_LARGE 100.0 // does not learn

struct looking {
    const struct tern_client_settings *settings;
    struct tern_findings *findings;
    const struct check_federation *federation;
    struct tern_data_spec spec;
    struct tern_csv_profile profile; // rows == 0: not of a CSV file
    struct tern_data data;
    bool numeric;    // the label's column holds targets
    bool unlabelled; // there is none
};

static void append(char text[CHECK_SENTENCE_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(char text[CHECK_SENTENCE_MAX], const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, CHECK_SENTENCE_MAX - used, format, arguments);
    va_end(arguments);
}

// --- Fields of a CSV file

static void say_found(struct looking *looking, const struct tern_csv_column *column,
                      const struct tern_csv_found *found, enum tern_health level, const char *what)
{
    if (found->count > 0) {
        tern_findings_say(looking->findings, level, "data", NULL,
                          "line %" PRIu64 ", column '%.60s': %s%s%s%s (%" PRIu64 " of its %" PRIu64
                          " values): mend the lines, leave them out, or drop=%s",
                          found->line, column->name, found->text[0] != '\0' ? "'" : "", found->text,
                          found->text[0] != '\0' ? "' " : "", what, found->count,
                          looking->profile.rows, column->name);
    }
}

// A label may be a text; a target may not.
static bool is_damaged(const struct looking *looking, const struct tern_csv_column *column)
{
    return (column->feature || looking->numeric) &&
           column->missing.count + column->bad.count + column->huge.count > 0;
}

static void say_damage(struct looking *looking)
{
    const struct tern_csv_profile *profile = &looking->profile;
    uint32_t count = 0;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        if (is_damaged(looking, column) && count++ < NAMED) {
            say_found(looking, column, &column->missing, TERN_HEALTH_PROBLEM,
                      "the value is missing");
            say_found(looking, column, &column->bad, TERN_HEALTH_PROBLEM, "is no finite number");
            say_found(looking, column, &column->huge, TERN_HEALTH_PROBLEM,
                      "is no measurement but a mark of a missing one");
        }
    }
    if (count > NAMED) {
        tern_findings_say(looking->findings, TERN_HEALTH_PROBLEM, "data", NULL,
                          "%" PRIu32 " columns are like that, of which %d are named here", count,
                          NAMED);
    }
}

static bool is_constant(const struct tern_csv_column *column)
{
    return column->feature && column->numbers > 1 && column->low == column->high;
}

static bool is_rising(const struct tern_csv_column *column)
{
    return column->feature && column->rises && !is_constant(column);
}

static void say_useless(struct looking *looking, bool (*is_useless)(const struct tern_csv_column *),
                        const char *why)
{
    const struct tern_csv_profile *profile = &looking->profile;
    char names[CHECK_SENTENCE_MAX] = "";
    uint32_t count = 0;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        if (is_useless(column) && count++ < NAMED) {
            append(names, "%s%.60s", count > 1 ? "|" : "", column->name);
        }
    }
    if (count > 0) {
        tern_findings_say(looking->findings, TERN_HEALTH_WARNING, "columns", NULL,
                          "%" PRIu32 " %s: drop=%s%s", count, why, names,
                          count > NAMED ? "|..." : "");
    }
}

static void say_fields(struct looking *looking)
{
    const struct tern_csv_profile *profile = &looking->profile;
    if (profile->ragged.count > 0) {
        tern_findings_say(looking->findings, TERN_HEALTH_PROBLEM, "data", NULL,
                          "line %" PRIu64 " has not %" PRIu32
                          " fields as the first line has; nor have %" PRIu64 " lines in all",
                          profile->ragged.line, profile->columns.count, profile->ragged.count);
    }
    say_damage(looking);
    say_useless(looking, is_constant, "with one value in every row, which says nothing");
    say_useless(
        looking, is_rising,
        "that rise from row to row, as a row's number or a time does, which tells nothing of "
        "new data");
}

// --- Labels of a CSV file

static bool is_listed(const char *classes, const char *label)
{
    char name[TERN_CSV_NAME_MAX];
    while (tern_csv_next_name(&classes, name)) {
        if (strcmp(name, label) == 0) {
            return true;
        }
    }
    return false;
}

static bool are_names(const struct tern_csv_profile *profile)
{
    uint32_t class;
    bool numbers = true;
    for (uint32_t i = 0; i < profile->labels.count; i++) {
        numbers =
            numbers && tern_name_is_class(profile->labels.names[i], TERN_CSV_LABELS_MAX, &class);
    }
    return !numbers;
}

static void say_names(struct looking *looking, const char *column)
{
    const struct tern_csv_profile *profile = &looking->profile;
    char list[CHECK_SENTENCE_MAX / 2];
    const bool listed = tern_csv_profile_classes(profile, list, sizeof list);
    tern_findings_say(
        looking->findings, TERN_HEALTH_PROBLEM, "classes", NULL,
        "column '%.60s' has %" PRIu32 " labels that are no class numbers from 0, as '%.40s' in "
        "line %" PRIu64 ": add classes=%s to data.source, with every label, the same on every "
        "client; or is another column the class's (label=NAME)?",
        column, profile->labels.count, profile->labels.names[0], profile->label[0].line,
        listed ? list : "A|B|C");
}

static void say_labels(struct looking *looking, const char *classes)
{
    const struct tern_csv_profile *profile = &looking->profile;
    const char *column = profile->column[profile->columns.label].name;
    if (classes == NULL && are_names(profile)) {
        say_names(looking, column);
        return;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; classes != NULL && i < profile->labels.count; i++) {
        const char *label = profile->labels.names[i];
        if (!is_listed(classes, label) && count++ < NAMED) {
            tern_findings_say(looking->findings, TERN_HEALTH_PROBLEM, "classes", NULL,
                              "line %" PRIu64 ", column '%.60s': the label '%.40s' (%" PRIu64
                              " rows) is not one of those in classes=",
                              profile->label[i].line, column, label, profile->label[i].count);
        }
    }
    if (count > NAMED) {
        tern_findings_say(looking->findings, TERN_HEALTH_PROBLEM, "classes", NULL,
                          "%" PRIu32 " labels are not, of which %d are named here", count, NAMED);
    }
}

// The name of a class, or its number.
static const char *class_name(const struct looking *looking, uint32_t number, char text[64])
{
    char name[TERN_CSV_NAME_MAX];
    const char *classes = NULL;
    for (uint32_t i = 0; i < looking->spec.option_count; i++) {
        if (strcmp(looking->spec.options[i].key, "classes") == 0) {
            classes = looking->spec.options[i].value;
        }
    }
    snprintf(text, 64, "%" PRIu32, number);
    for (uint32_t i = 0; tern_csv_next_name(&classes, name); i++) {
        if (i == number) {
            snprintf(text, 64, "%.63s", name);
        }
    }
    return text;
}

static void say_classes(struct looking *looking)
{
    const struct tern_dataset *train = &looking->data.train;
    uint32_t *counts = calloc(train->class_count, sizeof *counts);
    char seen[CHECK_SENTENCE_MAX] = "";
    char unseen[CHECK_SENTENCE_MAX] = "";
    char name[64];
    uint32_t missing = 0;
    uint32_t present = 0;
    for (uint32_t i = 0; counts != NULL && i < train->count; i++) {
        counts[train->labels[i]]++;
    }
    for (uint32_t i = 0; counts != NULL && i < train->class_count; i++) {
        if (counts[i] == 0 && missing++ < NAMED) {
            append(unseen, "%s%s", missing > 1 ? ", " : "", class_name(looking, i, name));
        } else if (counts[i] > 0 && present++ < 2 * NAMED) {
            append(seen, "%s%s %" PRIu32, present > 1 ? ", " : "", class_name(looking, i, name),
                   counts[i]);
        }
    }
    free(counts);
    tern_findings_say(looking->findings, TERN_HEALTH_GOOD, "classes", NULL,
                      "%" PRIu32 " with examples to train on: %s%s", present, seen,
                      present > 2 * NAMED ? ", ..." : "");
    if (missing > 0) {
        tern_findings_say(looking->findings, TERN_HEALTH_WARNING, "classes", NULL,
                          "%" PRIu32 " without an example to train on here (other clients may have "
                          "some): %s%s",
                          missing, unseen, missing > NAMED ? ", ..." : "");
    }
}

// --- Scales

static const char *feature_name(const struct looking *looking, uint32_t feature, char text[64])
{
    const struct tern_csv_profile *profile = &looking->profile;
    snprintf(text, 64, "feature %" PRIu32, feature);
    for (uint32_t c = 0, f = 0; profile->rows > 0 && c < profile->columns.count; c++) {
        if (profile->column[c].feature && f++ == feature) {
            snprintf(text, 64, "'%.60s'", profile->column[c].name);
        }
    }
    return text;
}

static double root_mean_square(const struct tern_dataset *data, uint32_t feature)
{
    double sum = 0;
    for (uint32_t i = 0; i < data->count; i++) {
        const double value = (double)data->values[(size_t)i * data->feature_count + feature];
        sum += value * value;
    }
    return tern_sqrt(sum / (double)data->count);
}

// Makes of the data what the federation's training sees.
static void take_scaling(struct looking *looking)
{
    const struct tern_span scaling = looking->federation->scaling;
    const uint32_t count = (uint32_t)(scaling.len / TERN_WIRE_COLUMN_BYTES);
    const enum tern_result result =
        tern_columns_scale(&looking->data, scaling.data, count); // other shapes: say_model()
    if (result == TERN_OK) {
        tern_findings_say(looking->findings, TERN_HEALTH_GOOD, "scaling", NULL,
                          "the federation's, of statistics that its clients shared");
    } else if (result == TERN_ERR_NON_FINITE) {
        tern_findings_say(looking->findings, TERN_HEALTH_PROBLEM, "scaling", NULL,
                          "a value is too far from those that the federation's clients shared "
                          "statistics of");
    }
}

// Whether the size of values as they are read says anything: not where the federation scales them.
static bool scales_itself(struct looking *looking)
{
    const bool has_columns = tern_data_has_columns(&looking->data);
    const bool scaled = looking->data.scaled;
    switch (looking->federation->shared) {
    case CHECK_SCALING_UNKNOWN:
    case CHECK_SCALING_NONE:
        return true;
    case CHECK_SCALING_DUE:
    case CHECK_SCALING_MADE:
    case CHECK_SCALING_HELD:
        break;
    }
    if (scaled || !has_columns) {
        tern_findings_say(looking->findings, TERN_HEALTH_PROBLEM, "scaling", NULL, "%s",
                          scaled ? CLIENT_SCALED_TWICE
                                 : "the federation scales columns by statistics that its clients "
                                   "share (statistics.columns), and these examples have none: "
                                   "this client will have no tasks");
        return false;
    }
    if (looking->federation->shared == CHECK_SCALING_HELD) {
        take_scaling(looking);
        return true;
    }
    tern_findings_say(looking->findings, TERN_HEALTH_GOOD, "scaling", NULL, "%s",
                      looking->federation->shared == CHECK_SCALING_DUE
                          ? "the federation's is not fixed yet: it is made of the statistics that "
                            "its clients, this one too, tell when they run; columns may be as they "
                            "are"
                          : "the federation's is fixed, of its clients' statistics, and fetched "
                            "when this client runs; columns may be as they are");
    return false;
}

// How bad values of that size are. Before a client is enrolled its federation may scale them.
static enum tern_health judge(const struct looking *looking, double size)
{
    const bool known = looking->federation->shared != CHECK_SCALING_UNKNOWN;
    return size > TOO_LARGE && known ? TERN_HEALTH_PROBLEM
           : size > LARGE            ? TERN_HEALTH_WARNING
                                     : TERN_HEALTH_GOOD;
}

static const char *unless(const struct looking *looking)
{
    return looking->federation->shared == CHECK_SCALING_UNKNOWN
               ? " (unless the federation scales by its clients' statistics, statistics.columns, "
                 "which it tells enrolled clients)"
               : "";
}

static void say_targets(struct looking *looking)
{
    const struct tern_dataset *train = &looking->data.train;
    double sum = 0;
    for (uint32_t i = 0; i < train->count; i++) {
        sum += (double)train->targets[i] * (double)train->targets[i];
    }
    const double size = tern_sqrt(sum / (double)train->count);
    if (size <= LARGE) {
        tern_findings_say(looking->findings, TERN_HEALTH_GOOD, "target", NULL,
                          "targets are of the size that training expects (%.4g)", size);
        return;
    }
    tern_findings_say(looking->findings, judge(looking, size), "target", NULL,
                      "targets are unscaled (root mean square %.4g): training is for targets of "
                      "about 1%s. scale=FILE scales them by the last line of the file, which "
                      "`tern-aggregator init --data` writes; or statistics.columns = clients at "
                      "the aggregator does, with the columns",
                      size, unless(looking));
}

static void say_scales(struct looking *looking)
{
    const struct tern_dataset *train = &looking->data.train;
    char large[CHECK_SENTENCE_MAX] = "";
    char name[64];
    double most = 0;
    uint32_t count = 0;
    for (uint32_t f = 0; train->values != NULL && f < train->feature_count; f++) {
        const double size = root_mean_square(train, f);
        most = size > most ? size : most;
        if (size > LARGE && count++ < NAMED) {
            append(large, "%s%s (%.4g)", count > 1 ? ", " : "", feature_name(looking, f, name),
                   size);
        }
    }
    if (count == 0) {
        tern_findings_say(looking->findings, TERN_HEALTH_GOOD, "scale", NULL,
                          "every column's values are of the size that training expects");
        return;
    }
    tern_findings_say(
        looking->findings, judge(looking, most), "scale", NULL,
        "%" PRIu32 " of %" PRIu32 " columns are unscaled (root mean square): %s%s. %s%s. %s", count,
        train->feature_count, large, count > NAMED ? ", ..." : "",
        most > TOO_LARGE ? "Training will not get anywhere with them"
                         : "Training learns little from the others beside them",
        unless(looking),
        looking->profile.rows > 0
            ? "`tern-aggregator init --data` writes the statistics that all clients "
              "scale by (scale=FILE in data.source), or statistics.columns = clients at the "
              "aggregator makes some of what clients tell; scale=standard goes by this client's "
              "rows alone"
            : "Set statistics.columns = clients at the aggregator before its first round, or "
              "bring them to mean 0 and deviation 1, by the same numbers on every client");
}

static void say_sizes(struct looking *looking)
{
    if (looking->data.train.targets != NULL) {
        say_targets(looking);
    }
    say_scales(looking);
}

// --- The model

static void say_model(struct looking *looking, const char *spec)
{
    static struct tern_model model;
    char why[MODEL_FIT_WHY_MAX];
    const struct tern_dataset *train = &looking->data.train;
    if (spec == NULL || tern_model_from_spec(&model, spec) != TERN_OK) {
        return;
    }
    const bool more = model.loss == TERN_LOSS_CROSS_ENTROPY &&
                      model.tensors[model.tensor_count - 1].count > train->class_count;
    if (!tern_model_takes(spec, &model, train, why)) {
        tern_findings_say(looking->findings, TERN_HEALTH_PROBLEM, "model", NULL, "%s", why);
    } else {
        tern_findings_say(looking->findings, more ? TERN_HEALTH_WARNING : TERN_HEALTH_GOOD, "model",
                          NULL, "%s fits the data%s", spec,
                          more ? ", but has more classes than it" : "");
    }
}

// --- All together

// Reads every line of a CSV file. false when what is wrong was said.
static bool look_at_file(struct looking *looking)
{
    char text[TERN_DATA_SPEC_MAX];
    char why[TERN_DATA_WHY_MAX] = "";
    struct tern_input input;
    const struct tern_client_settings *settings = looking->settings;
    tern_data_spec_join(settings->data_source, settings->data_dir, text);
    if (tern_spec_parse(&looking->spec, text, why) != TERN_OK ||
        strcmp(looking->spec.kind, "csv") != 0 ||
        tern_input_open(&input, looking->spec.path, 1ull << 32, why) != TERN_OK) {
        return true; // the reader of examples says it
    }
    const char *target = tern_spec_option(&looking->spec, "target");
    const char *label = tern_spec_option(&looking->spec, "label");
    const bool unlabelled = label != NULL && strcmp(label, "none") == 0;
    const struct tern_csv_choice choice = {.label = target != NULL ? target
                                                    : unlabelled   ? NULL
                                                                   : label,
                                           .unlabelled = unlabelled,
                                           .numeric = target != NULL,
                                           .drop = tern_spec_option(&looking->spec, "drop"),
                                           .group = tern_spec_option(&looking->spec, "group")};
    const enum tern_result result = tern_csv_profile_read(&input, &choice, &looking->profile);
    tern_input_close(&input);
    if (result != TERN_OK || looking->profile.many_labels) {
        looking->profile.rows = 0;
        return true;
    }
    looking->numeric = target != NULL;
    looking->unlabelled = unlabelled;
    const uint32_t problems = looking->findings->count[TERN_HEALTH_PROBLEM];
    say_fields(looking);
    if (target == NULL && !unlabelled) {
        say_labels(looking, tern_spec_option(&looking->spec, "classes"));
    }
    return looking->findings->count[TERN_HEALTH_PROBLEM] == problems;
}

static void look_at_examples(struct looking *looking)
{
    char why[CLIENT_DATA_WHY_MAX] = "";
    const enum tern_result result =
        tern_client_data_open(looking->settings, true, &looking->data, why);
    if (result != TERN_OK) {
        tern_findings_say(looking->findings, TERN_HEALTH_PROBLEM, "data", NULL, "%s", why);
        return;
    }
    const struct tern_dataset *train = &looking->data.train;
    tern_findings_say(looking->findings, TERN_HEALTH_GOOD, "data", NULL,
                      "%.200s: %" PRIu32 " examples to train on, %" PRIu32
                      " held out for evaluators, of %" PRIu32 " values",
                      looking->settings->data_source, train->count, looking->data.test.count,
                      train->feature_count);
    if (looking->unlabelled) {
        tern_findings_say(looking->findings, TERN_HEALTH_GOOD, "classes", NULL,
                          "no label: every row counts as normal, and none is known as an anomaly");
    } else if (train->targets == NULL) {
        say_classes(looking);
    }
    if (scales_itself(looking)) {
        say_sizes(looking);
    }
    say_model(looking, looking->federation->spec);
}

void tern_check_data(const struct tern_client_settings *settings,
                     const struct check_federation *federation, struct tern_findings *findings)
{
    struct looking *looking = calloc(1, sizeof *looking);
    if (looking == NULL) {
        tern_findings_say(findings, TERN_HEALTH_PROBLEM, "data", NULL, "no memory to look at it");
        return;
    }
    looking->settings = settings;
    looking->federation = federation;
    looking->findings = findings;
    if (look_at_file(looking)) {
        look_at_examples(looking);
    }
    tern_csv_profile_free(&looking->profile);
    tern_data_close(&looking->data);
    free(looking);
}
