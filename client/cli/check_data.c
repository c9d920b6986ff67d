// What is looked at of the data: fields that cannot be learnt from, labels, scales, and the model's
// inputs and classes.
#include "cli/check.h"
#include "cli/client_data.h"
#include "cli/model_fit.h"
#include "data/columns.h"
#include "data/readers.h"
#include "hosted/csv_choice.h"
#include "hosted/csv_doubt.h"
#include "hosted/csv_judge.h"
#include "hosted/csv_task.h"
#include "tensor/model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED 5 // columns or classes of one line; the others are counted

#define TOO_LARGE 100.0 // root mean square of a column that does not learn
#define FEW 10          // different values of a column that one client may have one of
#define TOO_FLAT 1e-3   // standard deviation that statistics of something else leave

struct looking {
    const struct tern_client_settings *settings;
    struct tern_findings *findings;
    const struct check_federation *federation;
    struct check_table *table;
    struct tern_data_spec spec;
    struct tern_csv_profile profile; // rows == 0: not of a CSV file
    struct tern_data data;
    bool unlabelled; // no column has a label
    bool open;       // a file whose labels nobody chose: they are judged as init judges them
    bool as_init;    // what an open file's labels were found to be is added to the settings
    char classes[TERN_CSV_CLASSES_MAX]; // of an open one, as init lists them
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

// --- Lines, fields and labels of a CSV file

static void take_judgement(void *ctx, enum tern_csv_level level, enum tern_result result,
                           const char *area, const char *sentence)
{
    struct looking *looking = ctx;
    (void)result;
    tern_findings_say(looking->findings,
                      level == TERN_CSV_PROBLEM ? TERN_HEALTH_PROBLEM : TERN_HEALTH_WARNING, area,
                      NULL, "%s", sentence);
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
    return size > TOO_LARGE && known  ? TERN_HEALTH_PROBLEM
           : size > TERN_COLUMN_LARGE ? TERN_HEALTH_WARNING
                                      : TERN_HEALTH_GOOD;
}

static const char *unless(const struct looking *looking)
{
    return looking->federation->shared == CHECK_SCALING_UNKNOWN
               ? " (unless the federation scales by its clients' statistics, statistics.columns)"
               : "";
}

// Whether scaling has made a column almost constant whose values differ: a value far beyond all others was in the rows
// that the statistics are of, or they are of another table. A column of few values may be constant in a client's rows.
static bool is_flat(const struct looking *looking, uint32_t column, double *deviation)
{
    const struct tern_dataset *train = &looking->data.train;
    const struct tern_csv_profile *profile = &looking->profile;
    bool varies = false;
    for (uint32_t c = 0, f = 0; profile->rows > 0 && c < profile->columns.count; c++) {
        const bool target = c == profile->columns.label && column == train->feature_count;
        if (target || (profile->column[c].feature && f++ == column)) {
            varies = profile->column[c].distinct == 0 || profile->column[c].distinct > FEW;
        }
    }
    *deviation = tern_columns_deviation(train, column);
    return (looking->data.scaled || looking->federation->shared == CHECK_SCALING_HELD) &&
           *deviation < TOO_FLAT && (*deviation > 0 || varies);
}

static void say_targets(struct looking *looking)
{
    const struct tern_dataset *train = &looking->data.train;
    const double size = tern_columns_size(train, train->feature_count); // the targets stand behind
    double deviation;
    if (is_flat(looking, train->feature_count, &deviation)) {
        return; // say_flat() names it
    }
    if (size <= TERN_COLUMN_LARGE) {
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

static bool say_flat(struct looking *looking)
{
    const struct tern_dataset *train = &looking->data.train;
    const bool target = train->targets != NULL;
    char flat[CHECK_SENTENCE_MAX] = "";
    char name[64];
    uint32_t count = 0;
    for (uint32_t f = 0; train->values != NULL && f < train->feature_count + target; f++) {
        double deviation;
        if (is_flat(looking, f, &deviation) && count++ < NAMED) {
            append(flat, "%s%s (%.2g)", count > 1 ? ", " : "",
                   f == train->feature_count ? "the target" : feature_name(looking, f, name),
                   deviation);
        }
    }
    if (count > 0) {
        tern_findings_say(looking->findings, TERN_HEALTH_WARNING, "scale", NULL,
                          "%" PRIu32 " of %" PRIu32 " columns are almost constant once scaled "
                          "(standard deviation; training expects about 1): %s%s. The statistics "
                          "are of other values than these, or of a table with a value far beyond "
                          "all others: mend it and run `tern-aggregator init --data` again",
                          count, train->feature_count + target, flat, count > NAMED ? ", ..." : "");
    }
    return count > 0;
}

static void say_scales(struct looking *looking)
{
    const struct tern_dataset *train = &looking->data.train;
    struct tern_large_columns large;
    char names[CHECK_SENTENCE_MAX] = "";
    char name[64];
    tern_columns_large(train, train->values != NULL ? train->feature_count : 0, &large);
    for (uint32_t i = 0; i < large.count && i < TERN_COLUMNS_FOUND; i++) {
        append(names, "%s%s (%.4g)", i > 0 ? ", " : "", feature_name(looking, large.first[i], name),
               large.size[i]);
    }
    const bool flat = say_flat(looking);
    if (large.count == 0 && !flat) {
        tern_findings_say(looking->findings, TERN_HEALTH_GOOD, "scale", NULL,
                          "every column's values are of the size that training expects");
    }
    if (large.count == 0) {
        return;
    }
    const bool held = looking->federation->shared == CHECK_SCALING_HELD;
    const bool scaled = looking->data.scaled;
    tern_findings_say(
        looking->findings, judge(looking, large.most), "scale",
        held ? "compare their units with those of the other clients, whose statistics scale them"
        : scaled
            ? "compare their units with those of the table that the statistics of scale= are of"
        : looking->profile.rows > 0
            ? "set scale=scaling.csv, which `tern-aggregator init --data` writes, in data.source, "
              "or statistics.columns = clients at the aggregator"
            : "set statistics.columns = clients at the aggregator before its first round, or bring "
              "them to mean 0 and deviation 1, by the same numbers on every client",
        "%" PRIu32 " of %" PRIu32 " columns are %s (root mean square): %s%s%s", large.count,
        train->feature_count, held || scaled ? "large also once scaled" : "unscaled", names,
        large.count > TERN_COLUMNS_FOUND ? ", ..." : "", scaled ? "" : unless(looking));
}

static void say_sizes(struct looking *looking)
{
    if (looking->data.train.targets != NULL) {
        say_targets(looking);
    }
    say_scales(looking);
}

// --- The model

static void say_model(struct looking *looking, const char *spec, const struct tern_dataset *train)
{
    static struct tern_model model;
    char why[MODEL_FIT_WHY_MAX];
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

// --- A file alone

// Whether an option of the spec is one of `keys`, up to NULL.
static bool has_option(const struct tern_data_spec *spec, const char *const *keys)
{
    for (uint32_t i = 0; i < spec->option_count; i++) {
        for (const char *const *key = keys; *key != NULL; key++) {
            if (strcmp(spec->options[i].key, *key) == 0) {
                return true;
            }
        }
    }
    return false;
}

// Whether nothing chooses the file's labels.
static bool is_open(const struct tern_data_spec *spec)
{
    static const char *const choices[] = {"label", "target", "classes", NULL};
    return !has_option(spec, choices);
}

static uint64_t count_of(const struct tern_csv_profile *profile, const char *label)
{
    for (uint32_t i = 0; i < profile->labels.count; i++) {
        if (strcmp(profile->labels.names[i], label) == 0) {
            return profile->label[i].count;
        }
    }
    return 0;
}

static void say_proposed_classes(const struct looking *looking)
{
    const struct tern_csv_profile *profile = &looking->profile;
    const char *rest = looking->classes;
    const bool listed = rest[0] != '\0';
    char name[TERN_CSV_NAME_MAX];
    char seen[CHECK_SENTENCE_MAX] = "";
    for (uint32_t i = 0; i < profile->labels.count && i < 2 * NAMED; i++) {
        snprintf(name, sizeof name, "%" PRIu32, i);
        if (listed) {
            (void)tern_csv_next_name(&rest, name);
        }
        append(seen, "%s%.40s %" PRIu64, i > 0 ? ", " : "", name, count_of(profile, name));
    }
    tern_findings_say(looking->findings, TERN_HEALTH_GOOD, "classes",
                      "tern-aggregator init --data FILE proposes a federation that learns them",
                      "%" PRIu32 " in column '%.60s', with their rows: %s%s", profile->labels.count,
                      profile->column[profile->columns.label].name, seen,
                      profile->labels.count > 2 * NAMED ? ", ..." : "");
}

// Names what init would learn from a file without a problem.
static void say_sound(const struct looking *looking, bool numeric)
{
    const struct tern_csv_profile *profile = &looking->profile;
    uint32_t features = 0;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        features += profile->column[c].feature;
    }
    tern_findings_say(looking->findings, TERN_HEALTH_GOOD, "data", NULL,
                      "%.200s: %" PRIu64 " rows of %" PRIu32 " features", looking->spec.path,
                      profile->rows, features);
    if (!numeric) {
        say_proposed_classes(looking);
        return;
    }
    tern_findings_say(looking->findings, TERN_HEALTH_GOOD, "target",
                      "tern-aggregator init --data FILE proposes a federation that predicts it",
                      "a number, column '%.60s': its values have fractions, or more than %d "
                      "are different",
                      profile->column[profile->columns.label].name, TERN_CSV_VALUES_MAX);
}

// Leaves out what init leaves out, and returns the number of features that stay.
static uint32_t leave_out(struct tern_csv_profile *profile)
{
    uint32_t features = 0;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        struct tern_csv_column *column = &profile->column[c];
        column->feature = column->feature && tern_csv_why_useless(profile, column) == NULL;
        features += column->feature;
    }
    return features;
}

// false: init would refuse the file.
static bool say_proposal(struct looking *looking, const struct tern_csv_choice *choice)
{
    char why[TERN_CSV_TASK_WHY_MAX];
    float number = 0;
    const struct tern_csv_profile *profile = &looking->profile;
    const struct tern_csv_task task = {.profile = profile, .data = looking->spec.path, .least = 2};
    char hint[CHECK_SENTENCE_MAX];
    if (tern_csv_hint_label(profile, hint, sizeof hint)) {
        tern_findings_say(looking->findings, TERN_HEALTH_WARNING, "label", NULL, "%s", hint);
    }
    const uint32_t features = leave_out(&looking->profile);
    if (choice->numeric ? !tern_csv_check_target(&task, why)
                        : !tern_csv_list_classes(&task, looking->classes, why)) {
        tern_findings_say(looking->findings, TERN_HEALTH_PROBLEM,
                          choice->numeric ? "target" : "classes", NULL, "%s", why);
        looking->profile.columns.label = TERN_CSV_NO_COLUMN; // nothing else to judge of it
        return false;
    }
    if (features == 0) {
        tern_findings_say(looking->findings, TERN_HEALTH_PROBLEM, "data", NULL,
                          "%.200s has no column of numbers that differ, beside the label's",
                          looking->spec.path);
        return false;
    }
    const struct tern_dataset shape = {.height = 1,
                                       .width = features,
                                       .channels = 1,
                                       .feature_count = features,
                                       .class_count = profile->labels.count,
                                       .targets = choice->numeric ? &number : NULL};
    say_model(looking, looking->federation->spec, &shape);
    return true;
}

// Appends a text in quotes to data.source. false where it does not fit.
static bool append_quoted(char *source, size_t size, const char *before, const char *text)
{
    size_t used = strlen(source);
    used += (size_t)snprintf(source + used, size - used, "%s\"", before);
    for (const char *c = text; used < size && *c != '\0'; c++) {
        used += (size_t)snprintf(source + used, size - used, "%s%c", *c == '"' ? "\"" : "", *c);
    }
    used += used < size ? (size_t)snprintf(source + used, size - used, "\"") : 0;
    return used < size;
}

static bool append_option(char *source, size_t size, const char *key, const char *value)
{
    char before[64];
    snprintf(before, sizeof before, ",%.60s=", key);
    return append_quoted(source, size, before, value);
}

// Lists the columns that are no features, be it by drop or since they are of no use.
static void list_dropped(const struct looking *looking, char list[CHECK_SENTENCE_MAX])
{
    const struct tern_csv_profile *profile = &looking->profile;
    char number[16];
    list[0] = '\0';
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        if (!profile->column[c].feature && c != profile->columns.label &&
            c != profile->columns.group) {
            append(list, "%s%s", list[0] != '\0' ? "|" : "",
                   tern_csv_setting_name(profile, c, number));
        }
    }
}

// Makes *source what init would write for the file, with the other options that were given.
static bool compose(struct looking *looking, const struct tern_csv_choice *choice, char *source,
                    size_t size)
{
    char dropped[CHECK_SENTENCE_MAX];
    char number[16];
    const struct tern_csv_profile *profile = &looking->profile;
    source[0] = '\0';
    list_dropped(looking, dropped);
    bool fits = append_quoted(source, size, "csv:", looking->spec.path);
    for (uint32_t i = 0; i < looking->spec.option_count; i++) {
        const char *key = looking->spec.options[i].key;
        fits = fits && (strcmp(key, "drop") == 0 ||
                        append_option(source, size, key, looking->spec.options[i].value));
    }
    fits =
        fits && (dropped[0] == '\0' || append_option(source, size, "drop", dropped)) &&
        (looking->classes[0] == '\0' || append_option(source, size, "classes", looking->classes));
    return fits && (!choice->numeric ||
                    append_option(source, size, "target",
                                  tern_csv_setting_name(profile, profile->columns.label, number)));
}

// Options that only reading the examples can judge are judged with the labels and features that init would choose.
static bool read_as_init(struct looking *looking, const struct tern_csv_choice *choice)
{
    static const char *const judged[] = {"scale", "only", "test", "test_file", "seed", NULL};
    static struct tern_client_settings settings;
    if (!has_option(&looking->spec, judged)) {
        return false;
    }
    settings = *looking->settings;
    looking->as_init = compose(looking, choice, settings.data_source, sizeof settings.data_source);
    looking->settings = &settings;
    return looking->as_init;
}

// --- All together

static enum tern_result read_profile(struct looking *looking, const struct tern_csv_choice *choice)
{
    char why[TERN_DATA_WHY_MAX];
    struct tern_input input;
    tern_csv_profile_free(&looking->profile);
    TERN_TRY(tern_input_open(&input, looking->spec.path, 1ull << 32, why));
    const enum tern_result result = tern_csv_profile_read(&input, choice, &looking->profile);
    tern_input_close(&input);
    return result;
}

// Reads an open file once more where its labels are numbers to predict.
static enum tern_result read_table(struct looking *looking, struct tern_csv_choice *choice)
{
    TERN_TRY(read_profile(looking, choice));
    choice->numeric = choice->numeric || (looking->open && tern_csv_is_target(&looking->profile));
    if (!looking->open || !choice->numeric) {
        return TERN_OK;
    }
    choice->header = looking->profile.columns.header ? TERN_CSV_HEADER_YES : TERN_CSV_HEADER_NO;
    return read_profile(looking, choice);
}

// Reads every line of a CSV file. false when nothing is left to say.
static bool look_at_file(struct looking *looking)
{
    char text[TERN_DATA_SPEC_MAX];
    char why[TERN_DATA_WHY_MAX] = "";
    struct tern_csv_choice choice;
    const struct tern_client_settings *settings = looking->settings;
    tern_data_spec_join(settings->data_source, settings->data_dir, text);
    if (tern_spec_parse(&looking->spec, text, why) != TERN_OK ||
        strcmp(looking->spec.kind, "csv") != 0 ||
        tern_csv_choose(&looking->spec, &choice) != TERN_OK) {
        return true; // the reader of examples names it
    }
    looking->open = looking->table != NULL && is_open(&looking->spec);
    if (read_table(looking, &choice) != TERN_OK) {
        looking->profile.rows = 0;
        return true;
    }
    if (looking->table != NULL) {
        tern_check_table_show(&looking->profile, &choice, looking->table);
    }
    looking->unlabelled = choice.unlabelled;
    const uint32_t problems = looking->findings->count[TERN_HEALTH_PROBLEM];
    bool fits = true;
    if (looking->open) {
        fits = say_proposal(looking, &choice);
        choice.classes = looking->classes[0] != '\0' ? looking->classes : NULL;
    }
    const struct tern_csv_judging judging = {.profile = &looking->profile,
                                             .choice = &choice,
                                             .sample = looking->open,
                                             .fixed = looking->federation->spec != NULL &&
                                                      !looking->open,
                                             .say = take_judgement,
                                             .ctx = looking};
    const uint32_t before = looking->findings->count[TERN_HEALTH_PROBLEM];
    tern_csv_judge(&judging);
    if (looking->open && fits && looking->findings->count[TERN_HEALTH_PROBLEM] == before) {
        say_sound(looking, choice.numeric);
    }
    const bool sound = looking->findings->count[TERN_HEALTH_PROBLEM] == problems;
    return sound && (!looking->open || read_as_init(looking, &choice));
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
    if (looking->as_init) {
        if (looking->data.scaled) { // the rest is said
            say_sizes(looking);
        }
        return;
    }
    tern_findings_say(looking->findings, TERN_HEALTH_GOOD, "data", NULL,
                      "%.200s: %" PRIu32 " examples to train on, %" PRIu32
                      " held out to evaluate on, of %" PRIu32 " values",
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
    say_model(looking, looking->federation->spec, train);
}

void tern_check_data(const struct tern_client_settings *settings,
                     const struct check_federation *federation, struct tern_findings *findings,
                     struct check_table *table)
{
    struct looking *looking = calloc(1, sizeof *looking);
    if (looking == NULL) {
        tern_findings_say(findings, TERN_HEALTH_PROBLEM, "data", NULL, "no memory to look at it");
        return;
    }
    looking->settings = settings;
    looking->federation = federation;
    looking->findings = findings;
    looking->table = table;
    if (look_at_file(looking)) {
        look_at_examples(looking);
    }
    tern_csv_profile_free(&looking->profile);
    tern_data_close(&looking->data);
    free(looking);
}
