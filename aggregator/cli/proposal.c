#include "cli/proposal.h"

#include "cli/state.h"
#include "hosted/csv_judge.h"
#include "hosted/csv_text.h"
#include "hosted/data_spec.h"
#include "hosted/files.h"
#include "hosted/terminal.h"
#include "tensor/model.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_OF(number) #number
#define DIGITS_OF(number) TEXT_OF(number)

#define HIDDEN 32 // units; small, because bytes on the wire grow with the number of weights
// Most units in the middle layer of an autoencoder, which has half as many units as there are features. Must be below
// HIDDEN: an autoencoder whose middle layer is not the narrowest reconstructs anomalies, too.
#define MIDDLE_MAX 16

static const char *const task_names[] = {"classification", "regression", "anomaly"};

// --- Task

// Reads --label. "none", as in data.source: the table has no label column. With --classes and without --label, the last
// column is the label column, so that rows with other labels are not taken as normal.
static int read_label(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    const bool none = strcmp(tern_cli_option(cli, "label", "none"), "none") == 0;
    const bool given = tern_cli_flag(cli, "label");
    const bool classes = tern_cli_flag(cli, "classes");
    if (none && given && proposal->task != TERN_TASK_ANOMALY) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "--label none: only --task anomaly learns without labels: add --task "
                             "anomaly. (A column "
                             "named 'none' is given by its number.)");
    }
    if (none && given && classes) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "--label none and --classes exclude each other: without a label column there "
            "are no classes. Leave out one of them");
    }
    proposal->unlabelled = none && proposal->task == TERN_TASK_ANOMALY && (given || !classes);
    return TERN_EXIT_OK;
}

// Reads --task and --label, which decide how the sample is read. Returns an exit code.
static int read_task(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    const char *name = tern_cli_option(cli, "task", task_names[TERN_TASK_CLASSIFICATION]);
    for (size_t i = 0; i < sizeof task_names / sizeof task_names[0]; i++) {
        if (strcmp(name, task_names[i]) == 0) {
            proposal->task = (enum tern_proposal_task)i;
            return read_label(cli, proposal);
        }
    }
    return tern_cli_fail(cli, TERN_ERR_CONFIG,
                         "--task is classification, regression or anomaly, not '%s'", name);
}

static const struct tern_csv_column *label_of(const struct tern_proposal *proposal)
{
    return &proposal->profile.column[proposal->profile.columns.label];
}

// Returns text for the user: how init chose the task, and what follows for evaluation; "": nothing to explain.
static const char *explain_task(const struct tern_proposal *proposal)
{
    if (proposal->unlabelled) {
        return "Without labels, evaluation reports the loss and the share of rows above the "
               "threshold "
               "(flagged).\n"
               "AUC and F1 need --label COLUMN.\n";
    }
    return proposal->task == TERN_TASK_REGRESSION && proposal->chosen_by_sample
               ? "The labels are numbers with fractions, or have more than " DIGITS_OF(
                     TERN_CSV_VALUES_MAX) " different values: the model learns to\n"
                                          "predict a number (regression). --task classification "
                                          "makes each value a class.\n"
               : "";
}

// --- Classes

static int list_classes(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    char why[TERN_CSV_TASK_WHY_MAX];
    const bool chosen = tern_cli_flag(cli, "task");
    const bool anomalies = proposal->task == TERN_TASK_ANOMALY;
    const struct tern_csv_task task = {
        .profile = &proposal->profile,
        .data = proposal->data,
        .least = anomalies ? 1 : 2, // an autoencoder learns from one class, the normal one
        .listed = tern_cli_option(cli, "classes", NULL),
        .unique = chosen,
        .mixed = chosen && !anomalies};
    proposal->class_count =
        task.listed != NULL ? tern_csv_list_count(task.listed) : proposal->profile.labels.count;
    return tern_csv_list_classes(&task, proposal->classes, why)
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_CONFIG, "%s", why);
}

// --- Anomalies

// Returns the index of the label "normal", or else of the most frequent label.
static uint32_t find_normal(const struct tern_csv_profile *profile)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < profile->labels.count; i++) {
        if (tern_csv_is_same(profile->labels.names[i], "normal")) {
            return i;
        }
    }
    for (uint32_t i = 1; i < profile->labels.count; i++) {
        most = profile->label[i].count > profile->label[most].count ? i : most;
    }
    return most;
}

// Makes the normal label class 0, and all other labels, known or not, class 1.
static int list_anomalies(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    const struct tern_csv_profile *profile = &proposal->profile;
    if (proposal->unlabelled) {
        proposal->class_count = 1;
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(list_classes(cli, proposal));
    const char *normal = profile->labels.names[find_normal(profile)];
    const bool numbers = proposal->classes[0] == '\0' && profile->labels.count > 1;
    if (tern_cli_flag(cli, "classes") || (numbers && strcmp(normal, "0") == 0)) {
        return TERN_EXIT_OK;
    }
    const int used = snprintf(proposal->classes, sizeof proposal->classes, "%s|*", normal);
    return used < TERN_CSV_CLASSES_MAX
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_CONFIG,
                               "the normal label in column '%s' is too long for a setting: write "
                               "shorter labels into the file",
                               label_of(proposal)->name);
}

// --- Regression

static int check_target(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    char why[TERN_CSV_TASK_WHY_MAX];
    const struct tern_csv_task task = {.profile = &proposal->profile, .data = proposal->data};
    return tern_csv_check_target(&task, why) ? TERN_EXIT_OK
                                             : tern_cli_fail(cli, TERN_ERR_CONFIG, "%s", why);
}

// Chooses the task from the sample unless --task is given, and lists the classes. Returns an exit code.
static int choose_task(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    const bool listed = tern_cli_flag(cli, "classes");
    if (listed && proposal->task == TERN_TASK_REGRESSION) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "--task regression and --classes exclude each other: regression has no classes. Leave "
            "out one of them");
    }
    if (!tern_cli_flag(cli, "task") && !listed && tern_csv_is_target(&proposal->profile)) {
        proposal->task = TERN_TASK_REGRESSION;
        proposal->chosen_by_sample = true;
    }
    return proposal->task == TERN_TASK_REGRESSION ? check_target(cli, proposal)
           : proposal->task == TERN_TASK_ANOMALY  ? list_anomalies(cli, proposal)
                                                  : list_classes(cli, proposal);
}

// --- The model

void tern_proposal_choose_model(struct tern_proposal *proposal)
{
    const uint32_t features = proposal->features;
    const uint32_t half = (features + 1) / 2;
    const uint32_t middle = half < MIDDLE_MAX ? half : MIDDLE_MAX;
    char *model = proposal->model;
    const size_t size = sizeof proposal->model;
    if (proposal->task == TERN_TASK_ANOMALY) {
        snprintf(model, size, "mlp:%" PRIu32 "-%d-%" PRIu32 "-%d-%" PRIu32 ",loss=reconstruction",
                 features, HIDDEN, middle, HIDDEN, features);
    } else if (proposal->task == TERN_TASK_REGRESSION) {
        snprintf(model, size, "mlp:%" PRIu32 "-%d-1,loss=mse", features, HIDDEN);
    } else {
        snprintf(model, size, "mlp:%" PRIu32 "-%d-%" PRIu32, features, HIDDEN,
                 proposal->class_count);
    }
}

bool tern_proposal_fits_model(const struct tern_proposal *proposal, const struct tern_model *model)
{
    const bool number = model->loss == TERN_LOSS_MSE || model->loss == TERN_LOSS_MAE;
    switch (proposal->task) {
    case TERN_TASK_REGRESSION:
        return number;
    case TERN_TASK_ANOMALY:
        return model->loss == TERN_LOSS_RECONSTRUCTION;
    case TERN_TASK_CLASSIFICATION:
    default:
        return model->loss == TERN_LOSS_CROSS_ENTROPY &&
               model->tensors[model->tensor_count - 1].count >= proposal->class_count;
    }
}

// Writes what the model learns for people: "3 classes in column 'state'", "a number in column 'flow'". A column that could
// be confused with another one gets its position: "'4' (number 3 from 0)". Returns text.
static const char *describe_target(const struct tern_proposal *proposal, char text[TERN_TEXT])
{
    const struct tern_csv_profile *profile = &proposal->profile;
    const char *name = proposal->unlabelled ? "" : label_of(proposal)->name;
    char position[48] = "";
    double value;
    if (!profile->columns.header) {
        snprintf(position, sizeof position, " (counted from 0: line 1 is a row)");
    } else if (tern_csv_double(name, &value)) {
        snprintf(position, sizeof position, " (number %" PRIu32 " from 0)", profile->columns.label);
    }
    if (proposal->task == TERN_TASK_REGRESSION) {
        snprintf(text, TERN_TEXT, "a number in column '%.30s'%s", name, position);
    } else if (proposal->unlabelled) {
        snprintf(text, TERN_TEXT, "no labels: all rows count as normal");
    } else if (proposal->task == TERN_TASK_ANOMALY && proposal->class_count == 1) {
        snprintf(text, TERN_TEXT, "one label in column '%.20s'%s: all rows count as normal", name,
                 position);
    } else if (proposal->task == TERN_TASK_ANOMALY) {
        snprintf(text, TERN_TEXT,
                 "anomalies marked by column '%.20s'%s, with normal as the first class", name,
                 position);
    } else {
        snprintf(text, TERN_TEXT, "%" PRIu32 " classes in column '%.30s'%s", proposal->class_count,
                 name, position);
    }
    return text;
}

#define COMMENT_WIDTH 100 // characters of a comment line in aggregator.ini

#define ROUNDS_MIN 60
#define ROUNDS_MAX 200
#define REGRESSION_ROUNDS_MAX                                                                      \
    300 // most rounds of a regression, whose learning rate is half that of a classification
// Server momentum for regression in federations of ROUNDS_MIN rounds or more. In federations of 10 rounds it worsens the
// model (docs/BENCHMARKS.md, "Rounds and rates of init").
#define REGRESSION_SERVER_MOMENTUM 0.8
#define WARMUP_SHARE 6 // warm-up takes the first 1/WARMUP_SHARE of the rounds
#define OUTLIER_DEVIATIONS                                                                         \
    12.0 // in a normal distribution, the farthest of 20,000 values is 4.5 deviations from the mean

static const struct tern_setting *setting_named(const char *assignment)
{
    return tern_settings_named(&tern_aggregator_settings_table, assignment);
}

static const struct tern_proposed_setting *find_proposed(const struct tern_proposal *proposal,
                                                         const struct tern_setting *setting)
{
    for (size_t i = 0; i < proposal->setting_count; i++) {
        if (setting_named(proposal->settings[i].assignment) == setting) {
            return &proposal->settings[i];
        }
    }
    return NULL;
}

static bool is_set(const struct tern_cli *cli, const struct tern_setting *setting)
{
    for (unsigned i = 0; i < cli->set_count; i++) {
        if (setting_named(cli->sets[i]) == setting) {
            return true;
        }
    }
    return false;
}

const char *tern_proposal_model(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    const struct tern_aggregator_settings *settings = cli->program->values;
    const char *usual = is_set(cli, setting_named("federation.model=")) ? settings->federation_model
                                                                        : proposal->model;
    return tern_cli_option(cli, "model", usual);
}

// --- Proposing

// The loss of each task, and the reason that the settings file gives for the rate.
static const struct training {
    enum tern_loss loss;
    const char *why;
} trainings[] = {
    [TERN_TASK_CLASSIFICATION] = {TERN_LOSS_CROSS_ENTROPY,
                                  "Momentum makes steps ten times as large."},
    [TERN_TASK_REGRESSION] =
        {TERN_LOSS_MSE,
         "Momentum makes steps ten times as large. Outliers dominate a squared error: if training "
         "diverges, halve the rate."},
    [TERN_TASK_ANOMALY] =
        {TERN_LOSS_RECONSTRUCTION,
         "Without the warm-up, this rate would drive the units of an autoencoder's "
         "narrow layer to zero output."},
};

// Returns the largest distance of a feature or target value from its column's mean, in standard deviations.
static double farthest_deviation(const struct tern_proposal *proposal)
{
    const struct tern_csv_profile *profile = &proposal->profile;
    double farthest = 0;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        const bool target = proposal->task == TERN_TASK_REGRESSION && c == profile->columns.label;
        if ((column->feature || target) && column->deviation > 0) {
            farthest = fmax(farthest, (column->high - column->mean) / column->deviation);
            farthest = fmax(farthest, (column->mean - column->low) / column->deviation);
        }
    }
    return farthest;
}

// Returns the number of rounds in which one client passes over its rows often enough, from ROUNDS_MIN to `most`.
// rows_a_round: rows that a client trains on in one round.
static uint32_t propose_rounds(uint64_t rows, uint64_t rows_a_round, uint32_t most)
{
    const uint64_t rounds = (TERN_USUAL_PASSES * rows + rows_a_round - 1) / rows_a_round;
    return rounds < ROUNDS_MIN ? ROUNDS_MIN : rounds > most ? most : (uint32_t)rounds;
}

static void propose(struct tern_proposal *proposal, const char *why, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void propose(struct tern_proposal *proposal, const char *why, const char *format, ...)
{
    struct tern_proposed_setting *setting = &proposal->settings[proposal->setting_count++];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(setting->assignment, sizeof setting->assignment, format, arguments);
    va_end(arguments);
    setting->why = why;
}

// Proposes statistics.min_clients explicitly, because the first round fixes the scaling for good.
static void propose_statistics(const struct tern_aggregator_settings *settings,
                               struct tern_proposal *proposal)
{
    propose(
        proposal,
        "Clients agree on one scaling before the first round, and keep it. At least min_clients "
        "clients contribute statistics (0: round.min_clients). The scaling from one client fits "
        "only that client's data.",
        "statistics.columns=clients");
    propose(proposal, NULL, "statistics.min_clients=%" PRIu32, settings->statistics_min_clients);
}

// If the user sets a learning rate, no momentum is proposed: training could diverge with both.
static void propose_rate(const struct tern_cli *cli, uint32_t rounds,
                         struct tern_proposal *proposal)
{
    const struct training *training = &trainings[proposal->task];
    const struct tern_usual_rate usual = tern_usual_rate(training->loss);
    const bool far = farthest_deviation(proposal) > OUTLIER_DEVIATIONS;
    const double rate = usual.learning_rate / (far ? 2 : 1);
    const uint32_t share = rounds / WARMUP_SHARE;
    if (!is_set(cli, setting_named("train.learning_rate="))) {
        const char *why =
            far ? "Half the usual rate, because the sample has outliers." : training->why;
        if (rounds > 0) {
            propose(proposal, why, "train.learning_rate=cosine:rate=%g,warmup=%" PRIu32, rate,
                    share < TERN_USUAL_WARMUP_MAX ? share : TERN_USUAL_WARMUP_MAX);
        } else { // a cosine needs a last round
            propose(proposal, why, "train.learning_rate=%g", rate);
        }
        if (usual.momentum > 0) {
            propose(proposal, NULL, "train.momentum=%g", usual.momentum);
        }
        if (proposal->task == TERN_TASK_REGRESSION &&
            !is_set(cli, setting_named("round.strategy=")) &&
            (rounds == 0 || rounds >= ROUNDS_MIN)) {
            propose(proposal,
                    "Updates of clients with different rows partly cancel each other; server "
                    "momentum keeps "
                    "their common direction.",
                    "round.strategy=fedavgm:server_momentum=%g", REGRESSION_SERVER_MOMENTUM);
        }
    }
}

// Writes the proposed settings to proposal->settings.
static void choose_settings(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    const struct tern_aggregator_settings *settings = tern_state_settings(cli);
    const uint64_t rows_a_round =
        (uint64_t)settings->train_local_steps * settings->train_batch_size;
    const uint32_t most =
        proposal->task == TERN_TASK_REGRESSION ? REGRESSION_ROUNDS_MAX : ROUNDS_MAX;
    const uint32_t rounds = is_set(cli, setting_named("round.rounds="))
                                ? settings->round_rounds
                                : propose_rounds(proposal->rows, rows_a_round, most);
    propose(
        proposal,
        "Rounds begin when this many clients have enrolled. Raise it to the number of devices that "
        "train together: later devices miss the rounds before. 1 is for a trial with one device, "
        "whose model learns from that device only.",
        "round.min_clients=%" PRIu32, settings->round_min_clients);
    propose(
        proposal,
        "Enough rounds for one client to pass over its rows as often as training needs. Then the "
        "federation is finished; `status` reports whether the model was still improving.",
        "round.rounds=%" PRIu32, rounds);
    if (proposal->clients_scale) {
        propose_statistics(settings, proposal);
    }
    propose_rate(cli, rounds, proposal);
    propose(
        proposal,
        "With each update, clients report how good the model is on rows that they do not train on "
        "(a fifth of their rows, or test= in data.source); `status` shows it. Costs 35 to 95 bytes "
        "per update.",
        "train.evaluate=yes");
}

// --- Writing aggregator.ini

static int set_setting(const struct tern_cli *cli, const char *assignment)
{
    char why[512];
    return tern_cli_check(
        cli, tern_settings_set(cli->program->settings, cli->program->values, assignment, why), "%s",
        why);
}

// Sets the setting `key` to the value of init's option, or else to `fallback`. fallback: NULL: without the option, the
// setting does not change.
static int set_option(const struct tern_cli *cli, const char *option, const char *key,
                      const char *fallback)
{
    char assignment
        [2 *
         TERN_SETTING_TEXT_MAX]; // longer than any setting may be, so that a longer value is refused and not cut
    const char *value = tern_cli_option(cli, option, fallback);
    if (value == NULL) {
        return TERN_EXIT_OK;
    }
    snprintf(assignment, sizeof assignment, "%s=%s", key, value);
    return set_setting(cli, assignment);
}

// Applies the proposal to the settings. --set and init's options override it.
static int apply_proposal(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    for (size_t i = 0; i < proposal->setting_count; i++) {
        const char *assignment = proposal->settings[i].assignment;
        if (!is_set(cli, setting_named(assignment))) {
            TERN_CLI_TRY(set_setting(cli, assignment));
        }
    }
    TERN_CLI_TRY(set_option(cli, "model", "federation.model", tern_proposal_model(cli, proposal)));
    TERN_CLI_TRY(set_option(cli, "seed", "federation.seed", NULL));
    return set_option(cli, "rules", "tensors.rules", NULL);
}

static void print_setting(const struct tern_cli *cli, const struct tern_proposal *proposal,
                          const struct tern_setting *setting, const char **section, FILE *out)
{
    static struct tern_aggregator_settings usual;
    char text[TERN_SETTING_TEXT_MAX];
    const void *values = cli->program->values;
    const bool set = is_set(cli, setting);
    const struct tern_proposed_setting *proposed = set ? NULL : find_proposed(proposal, setting);
    tern_settings_defaults(&tern_aggregator_settings_table, &usual);
    const bool always = strcmp(setting->section, "federation") == 0;
    if (!set && proposed == NULL && tern_setting_equal(setting, values, &usual) && !always) {
        return;
    }
    if (*section == NULL || strcmp(*section, setting->section) != 0) {
        fprintf(out, "\n[%s]\n", setting->section);
        *section = setting->section;
    }
    if (proposed != NULL && proposed->why != NULL) {
        tern_paragraph_print(proposed->why, "; ", "; ", COMMENT_WIDTH, out);
    }
    tern_setting_format(setting, values, text);
    fprintf(out, "%s = %s\n", setting->key, text);
}

static void print_file(const struct tern_cli *cli, const struct tern_proposal *proposal, FILE *out)
{
    const struct tern_settings *all = &tern_aggregator_settings_table;
    const char *section = NULL;
    fprintf(out,
            "; Proposed by tern-aggregator init --data %.300s.\n"
            "; Every other setting: tern-aggregator --settings\n",
            proposal->data);
    for (size_t i = 0; i < all->count; i++) {
        print_setting(cli, proposal, &all->table[i], &section, out);
    }
}

// Loads the settings from the file alone, and checks that they are unchanged.
static int read_settings_back(struct tern_cli *cli, const char *path)
{
    static struct tern_aggregator_settings wanted; // the settings in use, with --state
    const struct tern_settings *all = &tern_aggregator_settings_table;
    memcpy(&wanted, tern_state_settings(cli), sizeof wanted);
    cli->config = path;
    cli->set_count = 0;
    TERN_CLI_TRY(tern_cli_load_settings(cli));
    for (size_t i = 0; i < all->count; i++) {
        if (!tern_setting_equal(&all->table[i], &wanted, tern_state_settings(cli))) {
            return tern_cli_fail(cli, TERN_ERR_CONFIG,
                                 "%s does not hold the value of %s.%s that was set. Write the "
                                 "file yourself and name it with --config",
                                 path, all->table[i].section, all->table[i].key);
        }
    }
    return TERN_EXIT_OK;
}

// Writes the changed settings to a file, so that later verbs need no --set, and loads the settings from that file.
static int write_server(struct tern_cli *cli, const struct tern_proposal *proposal,
                        const char *path)
{
    char *text = NULL;
    size_t len = 0;
    TERN_CLI_TRY(apply_proposal(cli, proposal));
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for %s", path);
    }
    print_file(cli, proposal, out);
    enum tern_result result = fclose(out) == 0 ? TERN_OK : TERN_ERR_NO_MEMORY;
    errno = 0;
    result = result == TERN_OK ? tern_file_write(path, text, len, 0644) : result;
    free(text);
    TERN_CLI_TRY(tern_cli_check(cli, result, "cannot write %s: %s", path, strerror(errno)));
    return read_settings_back(cli, path);
}

// --- Reading the sample

#define SAMPLE_MAX (1ull << 32) // bytes

#define SERVER_INI "aggregator.ini"
#define CLIENT_INI "client.ini"
#define SCALING_CSV "scaling.csv"

void tern_proposal_free(struct tern_proposal *proposal)
{
    tern_csv_profile_free(&proposal->profile);
}

// Appends to a text. Returns false if the text does not fit.
static bool append(char text[TERN_PROPOSAL_LIST_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool append(char text[TERN_PROPOSAL_LIST_MAX], const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    const int len = vsnprintf(text + used, TERN_PROPOSAL_LIST_MAX - used, format, arguments);
    va_end(arguments);
    return len >= 0 && used + (size_t)len < TERN_PROPOSAL_LIST_MAX;
}

static int read_profile(const struct tern_cli *cli, const struct tern_csv_choice *choice,
                        struct tern_proposal *proposal)
{
    char why[TERN_INPUT_WHY_MAX] = "";
    struct tern_input input;
    tern_csv_profile_free(&proposal->profile);
    enum tern_result result = tern_input_open(&input, proposal->data, SAMPLE_MAX, why);
    if (result == TERN_OK) {
        result = tern_csv_profile_read(&input, choice, &proposal->profile);
        tern_input_close(&input);
    }
    return tern_cli_check(cli, result == TERN_ERR_NOT_FOUND ? TERN_ERR_CONFIG : result, "--data %s",
                          why);
}

static int read_header(const struct tern_cli *cli, enum tern_csv_header *header)
{
    const char *text = tern_cli_option(cli, "header", "");
    *header = strcmp(text, "yes") == 0  ? TERN_CSV_HEADER_YES
              : strcmp(text, "no") == 0 ? TERN_CSV_HEADER_NO
                                        : TERN_CSV_HEADER_AUTO;
    return *header != TERN_CSV_HEADER_AUTO || text[0] == '\0'
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_CONFIG, "--header must be yes or no, not '%s'", text);
}

static int read_sample(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    struct tern_csv_choice choice = {
        .label = proposal->unlabelled ? NULL : tern_cli_option(cli, "label", NULL),
        .unlabelled = proposal->unlabelled,
        .drop = tern_cli_option(cli, "drop", NULL),
        .group = tern_cli_option(cli, "group", NULL),
        .classes = tern_cli_option(cli, "classes", NULL)};
    TERN_CLI_TRY(read_header(cli, &choice.header));
    return read_profile(cli, &choice, proposal);
}

static bool append_column(char list[TERN_PROPOSAL_LIST_MAX], const struct tern_csv_profile *profile,
                          uint32_t number)
{
    char text[16];
    return append(list, "%s%s", list[0] != '\0' ? "|" : "",
                  tern_csv_setting_name(profile, number, text));
}

static int refuse_long_list(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    return tern_cli_fail(
        cli, TERN_ERR_CONFIG,
        "the names of the columns of %s to leave out are too long for one setting: write "
        "a file without these columns",
        proposal->data);
}

// Adds the columns that the user dropped (--drop) to proposal->drop.
static int list_dropped(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    const struct tern_csv_columns *columns = &proposal->profile.columns;
    for (uint32_t c = 0; c < columns->count; c++) {
        if (columns->skipped[c] && c != columns->label && c != columns->group &&
            !append_column(proposal->drop, &proposal->profile, c)) {
            return refuse_long_list(cli, proposal);
        }
    }
    return TERN_EXIT_OK;
}

static int choose_columns(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    const struct tern_csv_profile *profile = &proposal->profile;
    TERN_CLI_TRY(list_dropped(cli, proposal));
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        const char *why = column->feature ? tern_csv_why_useless(profile, column) : NULL;
        if (why == NULL) {
            proposal->features += column->feature;
            if (column->feature && tern_csv_has_flags(column) && !cli->json) {
                printf("Column '%s' ('%s', ...) is read as 1 and 0.\n", column->name,
                       column->flags.text);
            }
            continue;
        }
        if (!cli->json) {
            printf("Column '%s' is left out: %s.\n", column->name, why);
        }
        if (!append_column(proposal->drop, profile, c)) {
            return refuse_long_list(cli, proposal);
        }
    }
    if (proposal->features == 0) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "%s has no column to learn from: a feature is a column of different "
                             "numbers, and not the "
                             "label. Add such a column to the file",
                             proposal->data);
    }
    return proposal->task != TERN_TASK_ANOMALY || proposal->features > 1
               ? TERN_EXIT_OK
               : tern_cli_fail(
                     cli, TERN_ERR_CONFIG,
                     "%s has one column to learn from, and --task anomaly needs two or more: "
                     "an autoencoder learns how columns depend on each other",
                     proposal->data);
}

// Appends a key such as ",label=" and its value, in quotes where a data spec needs them.
static bool append_value(char source[TERN_PROPOSAL_LIST_MAX], const char *key, const char *value)
{
    const size_t len = strlen(value);
    const bool padded = len > 0 && (value[0] == ' ' || value[len - 1] == ' ');
    const bool plain = strpbrk(value, ",\"=") == NULL && !padded;
    bool fits = append(source, "%s%s", key, plain ? "" : "\"");
    for (const char *c = value; *c != '\0'; c++) {
        fits = append(source, "%s%c", *c == '"' ? "\"" : "", *c) && fits;
    }
    return append(source, "%s", plain ? "" : "\"") && fits;
}

// Writes the clients' data.source to proposal->source.
static int compose_source(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    const struct tern_csv_profile *profile = &proposal->profile;
    const char *group = tern_cli_option(cli, "group", NULL);
    char *source = proposal->source;
    char text[16];
    const bool regression = proposal->task == TERN_TASK_REGRESSION;
    const bool header = profile->columns.header;
    const char *label = proposal->unlabelled
                            ? "none"
                            : tern_csv_setting_name(profile, profile->columns.label, text);
    // A label that is named, and not numbered, shows clients that the first line has names. Otherwise they would have to
    // guess, so the spec has header=yes or header=no.
    const bool shown = !proposal->unlabelled && label[strspn(label, "-0123456789")] != '\0';
    const char *header_key = !header ? ",header=no" : shown ? "" : ",header=yes";
    bool fits =
        append_value(source, "csv:", proposal->data) &&
        append_value(source, regression ? ",target=" : ",label=", label) &&
        append(source, "%s", header_key) &&
        (proposal->classes[0] == '\0' || append_value(source, ",classes=", proposal->classes)) &&
        (proposal->drop[0] == '\0' || append_value(source, ",drop=", proposal->drop)) &&
        (group == NULL || append_value(source, ",group=", group)) &&
        (proposal->clients_scale || append_value(source, ",scale=", SCALING_CSV));
    if (!fits) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "the names of the classes and of the columns to leave out are too long "
            "for data.source: write a file without these columns");
    }
    return TERN_EXIT_OK;
}

// Checks that a built-in model that the user chose fits the sample.
static int check_model(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    static struct tern_model model;
    const char *spec = tern_proposal_model(cli, proposal);
    if (tern_model_from_spec(&model, spec) != TERN_OK ||
        (tern_model_spec_inputs(spec) == proposal->features &&
         tern_proposal_fits_model(proposal, &model))) {
        return TERN_EXIT_OK; // a model that fits; init checks other kinds of model when it reads their files
    }
    char found[TERN_TEXT];
    return tern_cli_fail(
        cli, TERN_ERR_CONFIG,
        "the model %s does not fit %s, which has %" PRIu32 " features and %s: use %s", spec,
        proposal->data, proposal->features, describe_target(proposal, found), proposal->model);
}

struct judgement {
    const struct tern_cli *cli;
    const struct tern_proposal *proposal;
    int code;
};

static void take_judgement(void *ctx, enum tern_csv_level level, enum tern_result result,
                           const char *area, const char *sentence)
{
    struct judgement *judgement = ctx;
    (void)area;
    if (level == TERN_CSV_WARNING) {
        fprintf(stderr, "tern-aggregator: warning: %s: %s\n", judgement->proposal->data, sentence);
    } else if (judgement->code == TERN_EXIT_OK) {
        judgement->code =
            tern_cli_fail(judgement->cli, result == TERN_ERR_NOT_FOUND ? TERN_ERR_CONFIG : result,
                          "--data %s: %s", judgement->proposal->data, sentence);
    }
}

// Reads the sample again with the data.source of the clients, and reports problems of its columns.
static int read_as_client(const struct tern_cli *cli, const char *source,
                          struct tern_proposal *proposal)
{
    char why[TERN_INPUT_WHY_MAX] = "";
    static struct tern_data_spec spec;
    struct tern_csv_choice choice;
    enum tern_result result = tern_data_spec_parse(&spec, source, why);
    result = result == TERN_OK ? tern_csv_choose(&spec, &choice) : result;
    TERN_CLI_TRY(tern_cli_check(cli, result, "%s", why));
    TERN_CLI_TRY(read_profile(cli, &choice, proposal));
    if (proposal->profile.columns.features != proposal->features) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "%s: data.source cannot hold the names of its columns; rename them",
                             proposal->data);
    }
    struct judgement judgement = {.cli = cli, .proposal = proposal};
    const struct tern_csv_judging judging = {.profile = &proposal->profile,
                                             .choice = &choice,
                                             .sample = true,
                                             .report = take_judgement,
                                             .ctx = &judgement};
    tern_csv_judge(&judging);
    return judgement.code;
}

int tern_proposal_make(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    proposal->data = tern_cli_option(cli, "data", NULL);
    proposal->clients_scale = strcmp(tern_state_settings(cli)->statistics_columns, "clients") == 0;
    TERN_CLI_TRY(read_task(cli, proposal));
    TERN_CLI_TRY(read_sample(cli, proposal));
    proposal->rows = proposal->profile.rows;
    TERN_CLI_TRY(choose_task(cli, proposal));
    char hint[TERN_CSV_SENTENCE_MAX];
    if (!tern_cli_flag(cli, "label") && !proposal->unlabelled &&
        tern_csv_hint_label(&proposal->profile, hint, sizeof hint)) {
        fprintf(stderr, "tern-aggregator: warning: %s: %s\n", proposal->data, hint);
    }
    TERN_CLI_TRY(choose_columns(cli, proposal));
    TERN_CLI_TRY(compose_source(cli, proposal));
    tern_proposal_choose_model(proposal);
    TERN_CLI_TRY(check_model(cli, proposal));
    choose_settings(cli, proposal);
    return read_as_client(cli, proposal->source, proposal);
}

// --- Writing client.ini and scaling.csv

static int write_new(const struct tern_cli *cli, const char *name, const char *text, size_t len)
{
    errno = 0;
    const enum tern_result result = tern_file_write(name, text, len, 0644);
    return tern_cli_check(cli, result,
                          "cannot write %s: %s. init --data writes its files into the current "
                          "folder: run it in a folder of your own",
                          name, strerror(errno));
}

static int refuse_old(const struct tern_cli *cli, const char *name)
{
    return access(name, F_OK) != 0
               ? TERN_EXIT_OK
               : tern_cli_fail(
                     cli, TERN_ERR_CONFIG,
                     "the file %s exists and would be overwritten: move the file away, or run init "
                     "in another folder",
                     name);
}

static void write_statistics(FILE *out, const struct tern_csv_column *column)
{
    fputc('"', out);
    for (const char *s = column->name; *s != '\0'; s++) {
        fprintf(out, "%s%c", *s == '"' ? "\"" : "", *s);
    }
    fprintf(out, "\",%.9g,%.9g\n", column->mean, column->deviation);
}

static int write_scaling(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    const struct tern_csv_profile *profile = &proposal->profile;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for %s", SCALING_CSV);
    }
    fprintf(out, "column,mean,deviation\n");
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        if (column->feature) {
            write_statistics(out, column);
        }
    }
    if (proposal->task == TERN_TASK_REGRESSION) {
        write_statistics(out, &profile->column[profile->columns.label]);
    }
    const int code = fclose(out) == 0
                         ? write_new(cli, SCALING_CSV, text, len)
                         : tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for %s", SCALING_CSV);
    free(text);
    return code;
}

static int write_client(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    char text[4096 + TERN_PROPOSAL_LIST_MAX];
    char certificate[PATH_MAX];
    char port[TERN_STATE_PORT_MAX];
    tern_state_file(cli, tern_state_settings(cli)->server_certificate, "server.crt", certificate);
    const int len = snprintf(
        text, sizeof text,
        "; For every device. Change data.source to its own file, server to the aggregator's "
        "address,\n"
        "; and ca to the CA of its certificate. %s\n"
        "; `tern-client --settings` lists all settings.\n"
        "[client]\n"
        "server = https://localhost:%s\n"
        "ca = %.300s\n"
        "state_dir = tern-client-state\n"
        "; The device's name in `tern-aggregator clients`, e.g. pump-17. auto: the host's name and "
        "six digits\n"
        "; that differ between clones of one image and between clients of one machine.\n"
        "name = auto\n"
        "\n"
        "[data]\n"
        "source = %s\n",
        proposal->clients_scale ? "Clients compute the scaling of the columns together."
                                : "Copy " SCALING_CSV " beside it: all clients scale by it.",
        tern_state_client_port(cli, port), certificate, proposal->source);
    return write_new(cli, CLIENT_INI, text, (size_t)len);
}

void tern_proposal_remove_files(const struct tern_proposal *proposal)
{
    (void)unlink(CLIENT_INI);
    if (!proposal->clients_scale) {
        (void)unlink(SCALING_CSV);
    }
    if (proposal->writes_settings) {
        (void)unlink(SERVER_INI);
    }
}

struct written {
    char source[TERN_PROPOSAL_LIST_MAX];
};

// Checks that a client reads the proposed data.source from client.ini.
static int read_client(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    static const struct tern_setting source = {.section = "data",
                                               .key = "source",
                                               .type = TERN_SETTING_TEXT,
                                               .size = TERN_PROPOSAL_LIST_MAX,
                                               .fallback = "",
                                               .words = "KIND:PATH,KEY=VALUE,...",
                                               .min = 1,
                                               .max = TERN_PROPOSAL_LIST_MAX - 1,
                                               .doc = "The data."};
    static const struct tern_settings settings = {.program = "tern-client",
                                                  .table = &source,
                                                  .count = 1,
                                                  .foreign_sections = tern_settings_sections};
    static struct written written;
    char why[512] = "";
    tern_settings_defaults(&settings, &written);
    TERN_CLI_TRY(tern_cli_check(cli, tern_settings_load(&settings, &written, CLIENT_INI, why),
                                "a client cannot read the proposed settings: %s", why));
    return strcmp(written.source, proposal->source) == 0
               ? TERN_EXIT_OK
               : tern_cli_fail(
                     cli, TERN_ERR_CONFIG,
                     "a client would read data.source = %s from %s, which is another value: "
                     "rename the column or label with unusual characters",
                     written.source, CLIENT_INI);
}

static int write_all(struct tern_cli *cli, struct tern_proposal *proposal)
{
    TERN_CLI_TRY(proposal->clients_scale ? TERN_EXIT_OK : write_scaling(cli, proposal));
    TERN_CLI_TRY(write_client(cli, proposal));
    TERN_CLI_TRY(read_client(cli, proposal));
    return proposal->writes_settings ? write_server(cli, proposal, SERVER_INI) : TERN_EXIT_OK;
}

int tern_proposal_write(struct tern_cli *cli, struct tern_proposal *proposal)
{
    proposal->writes_settings = cli->config == NULL;
    TERN_CLI_TRY(refuse_old(cli, CLIENT_INI));
    TERN_CLI_TRY(proposal->clients_scale ? TERN_EXIT_OK : refuse_old(cli, SCALING_CSV));
    TERN_CLI_TRY(proposal->writes_settings ? refuse_old(cli, SERVER_INI) : TERN_EXIT_OK);
    const int code = write_all(cli, proposal);
    if (code != TERN_EXIT_OK) {
        tern_proposal_remove_files(proposal);
    }
    return code;
}

// --- Output

void tern_proposal_print(const struct tern_proposal *proposal)
{
    char found[TERN_TEXT];
    const struct tern_csv_profile *profile = &proposal->profile;
    printf("%s: %" PRIu64 " row%s, %" PRIu32 " column%s to learn from, %s%s%s.\n"
           "%s"
           "%s\n"
           "Wrote %s%s%s.\n",
           proposal->data, proposal->rows, tern_plural(proposal->rows), proposal->features,
           tern_plural(proposal->features), describe_target(proposal, found),
           proposal->classes[0] != '\0' ? ": " : "", proposal->classes, explain_task(proposal),
           proposal->clients_scale
               ? "Clients compute the scaling of the columns together (statistics.columns)."
               : "All clients scale each column by its mean and deviation in this file.",
           !proposal->writes_settings ? ""
           : proposal->clients_scale  ? SERVER_INI " and "
                                      : SERVER_INI ", ",
           CLIENT_INI, proposal->clients_scale ? "" : " and " SCALING_CSV);
    const uint32_t label = profile->columns.label;
    if (label != TERN_CSV_NO_COLUMN && profile->column[label].missing.count > 0) {
        printf("Rows without a label or target: %" PRIu64
               ". Clients refuse such a file: fill them in, or "
               "add\n,missing=skip-unlabelled to data.source in " CLIENT_INI " to skip them.\n",
               profile->column[label].missing.count);
    }
    if (!proposal->writes_settings) {
        printf("The file of --config was not changed. Settings proposed for this table:\n");
        for (size_t i = 0; i < proposal->setting_count; i++) {
            printf("    %s\n", proposal->settings[i].assignment);
        }
    }
}

void tern_proposal_json(cJSON *object, const struct tern_proposal *proposal)
{
    cJSON *data = cJSON_AddObjectToObject(object, "data");
    cJSON_AddNumberToObject(data, "rows", (double)proposal->rows);
    cJSON_AddNumberToObject(data, "features", proposal->features);
    if (!proposal->unlabelled) {
        cJSON_AddStringToObject(data, "label", label_of(proposal)->name);
    }
    cJSON_AddStringToObject(data, "task", task_names[proposal->task]);
    cJSON_AddNumberToObject(data, "classes", proposal->class_count);
    cJSON_AddStringToObject(data, "drop", proposal->drop);
    cJSON_AddStringToObject(data, "source", proposal->source);
}
