#include "cli/proposal_settings.h"

#include "cli/state.h"
#include "hosted/csv_judge.h"
#include "hosted/files.h"
#include "hosted/terminal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 100 // width of a comment

#define ROUNDS_MIN 60
#define ROUNDS_MAX 200
#define ROUNDS_OF_NUMBERS 300 // for regression, at half the rate of classification
// Server momentum for regression in runs of ROUNDS_MIN rounds or more; in 10 rounds it does harm
// (docs/BENCHMARKS.md, "Rounds and rates of init").
#define MOMENTUM_OF_NUMBERS 0.8
#define WARMUP_SHARE 6 // one in so many rounds warms up
#define FAR_OFF 12.0   // deviations: among 20,000 normal values the furthest is at 4.5

static const struct tern_setting *named(const char *assignment)
{
    return tern_settings_named(&tern_aggregator_settings_table, assignment);
}

static const struct tern_proposed_setting *proposed_for(const struct tern_proposal *proposal,
                                                        const struct tern_setting *setting)
{
    for (size_t i = 0; i < proposal->setting_count; i++) {
        if (named(proposal->settings[i].assignment) == setting) {
            return &proposal->settings[i];
        }
    }
    return NULL;
}

static bool is_set(const struct tern_cli *cli, const struct tern_setting *setting)
{
    for (unsigned i = 0; i < cli->set_count; i++) {
        if (named(cli->sets[i]) == setting) {
            return true;
        }
    }
    return false;
}

const char *tern_proposal_model(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    const struct tern_aggregator_settings *settings = cli->program->values;
    const char *usual =
        is_set(cli, named("federation.model=")) ? settings->federation_model : proposal->model;
    return tern_cli_option(cli, "model", usual);
}

// --- Proposing

// The loss of each task, and the reason that the settings file gives for the rate.
static const struct training {
    enum tern_loss loss;
    const char *why;
} trainings[] = {
    [TERN_TASK_CLASSIFICATION] = {TERN_LOSS_CROSS_ENTROPY, "Steps grow tenfold by momentum."},
    [TERN_TASK_REGRESSION] =
        {TERN_LOSS_MSE,
         "Steps grow tenfold by momentum. Outliers weigh heavily in a squared error: "
         "where training diverges, halve the rate."},
    [TERN_TASK_ANOMALY] = {TERN_LOSS_RECONSTRUCTION,
                           "An autoencoder learns slowly at first: without the warm-up this rate "
                           "would silence its narrow layer."},
};

// Returns the largest distance of a feature or target value from its column's mean, in deviations.
static double reach_of(const struct tern_proposal *proposal)
{
    const struct tern_csv_profile *profile = &proposal->profile;
    double reach = 0;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        const bool target = proposal->task == TERN_TASK_REGRESSION && c == profile->columns.label;
        if ((column->feature || target) && column->deviation > 0) {
            reach = fmax(reach, (column->high - column->mean) / column->deviation);
            reach = fmax(reach, (column->mean - column->low) / column->deviation);
        }
    }
    return reach;
}

uint32_t tern_proposal_rounds(uint64_t rows, uint64_t rows_a_round, uint32_t most)
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

// The first round fixes the scaling for good, so the number of clients that contribute statistics
// is set before it.
static void propose_statistics(const struct tern_aggregator_settings *settings,
                               struct tern_proposal *proposal)
{
    propose(proposal,
            "Clients agree on one scaling before the first round, and keep it. min_clients clients "
            "contribute statistics to it (0: as many as rounds begin with). The scaling of one "
            "client fits only its own data.",
            "statistics.columns=clients");
    propose(proposal, NULL, "statistics.min_clients=%" PRIu32, settings->statistics_min_clients);
}

// A rate set by the user omits the proposed momentum: training could diverge with both.
static void propose_rate(const struct tern_cli *cli, uint32_t rounds,
                         struct tern_proposal *proposal)
{
    const struct training *training = &trainings[proposal->task];
    const struct tern_usual_rate usual = tern_usual_rate(training->loss);
    const bool far = reach_of(proposal) > FAR_OFF;
    const double rate = usual.learning_rate / (far ? 2 : 1);
    const uint32_t share = rounds / WARMUP_SHARE;
    if (!is_set(cli, named("train.learning_rate="))) {
        const char *why = far ? "Half the usual rate: the sample has outliers." : training->why;
        if (rounds > 0) {
            propose(proposal, why, "train.learning_rate=cosine:rate=%g,warmup=%" PRIu32, rate,
                    share < TERN_USUAL_WARMUP_MAX ? share : TERN_USUAL_WARMUP_MAX);
        } else { // without a last round the rate has no end to fall to
            propose(proposal, why, "train.learning_rate=%g", rate);
        }
        if (usual.momentum > 0) {
            propose(proposal, NULL, "train.momentum=%g", usual.momentum);
        }
        if (proposal->task == TERN_TASK_REGRESSION && !is_set(cli, named("round.strategy=")) &&
            (rounds == 0 || rounds >= ROUNDS_MIN)) {
            propose(proposal,
                    "Clients with different rows partly cancel each other's steps; momentum keeps "
                    "the direction that they share.",
                    "round.strategy=fedavgm:server_momentum=%g", MOMENTUM_OF_NUMBERS);
        }
    }
}

void tern_proposal_settings_choose(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    const struct tern_aggregator_settings *settings = tern_state_settings(cli);
    const uint64_t rows_a_round =
        (uint64_t)settings->train_local_steps * settings->train_batch_size;
    const uint32_t most = proposal->task == TERN_TASK_REGRESSION ? ROUNDS_OF_NUMBERS : ROUNDS_MAX;
    const uint32_t rounds = is_set(cli, named("round.rounds="))
                                ? settings->round_rounds
                                : tern_proposal_rounds(proposal->rows, rows_a_round, most);
    propose(
        proposal,
        "Rounds begin when so many clients have enrolled. Raise it to the number of devices that "
        "are to train together: those that come later find rounds done without them. 1 is for "
        "a trial of one device, whose model is that device's alone.",
        "round.min_clients=%" PRIu32, settings->round_min_clients);
    propose(proposal,
            "About as many passes over the rows of one client as training needs. After them the "
            "federation is finished; `status` reports whether the model still improved.",
            "round.rounds=%" PRIu32, rounds);
    if (proposal->shares) {
        propose_statistics(settings, proposal);
    }
    propose_rate(cli, rounds, proposal);
    propose(proposal,
            "Clients report with each update how good the model is on the held-out rows of their "
            "data (test in data.source, a fifth): `status` shows it. Costs 35 to 95 bytes an "
            "update.",
            "train.evaluate=yes");
}

// --- Applying the proposal

static int set(const struct tern_cli *cli, const char *assignment)
{
    char why[512];
    return tern_cli_check(
        cli, tern_settings_set(cli->program->settings, cli->program->values, assignment, why), "%s",
        why);
}

// An option of init overrides the setting of the same name.
static int set_option(const struct tern_cli *cli, const char *option, const char *key,
                      const char *fallback)
{
    char assignment[2 * TERN_SETTING_TEXT_MAX]; // a longer text is refused, not cut
    const char *value = tern_cli_option(cli, option, fallback);
    if (value == NULL) {
        return TERN_EXIT_OK;
    }
    snprintf(assignment, sizeof assignment, "%s=%s", key, value);
    return set(cli, assignment);
}

static int take(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    for (size_t i = 0; i < proposal->setting_count; i++) {
        const char *assignment = proposal->settings[i].assignment;
        if (!is_set(cli, named(assignment))) {
            TERN_CLI_TRY(set(cli, assignment));
        }
    }
    TERN_CLI_TRY(set_option(cli, "model", "federation.model", tern_proposal_model(cli, proposal)));
    TERN_CLI_TRY(set_option(cli, "seed", "federation.seed", NULL));
    return set_option(cli, "rules", "tensors.rules", NULL);
}

// --- The file

static void print_setting(const struct tern_cli *cli, const struct tern_proposal *proposal,
                          const struct tern_setting *setting, const char **section, FILE *out)
{
    static struct tern_aggregator_settings usual;
    char text[TERN_SETTING_TEXT_MAX];
    const void *values = cli->program->values;
    const bool set = is_set(cli, setting);
    const struct tern_proposed_setting *proposed = set ? NULL : proposed_for(proposal, setting);
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
        tern_paragraph_print(proposed->why, "; ", "; ", COLUMNS, out);
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

// Checks that the file alone yields the settings of the command line.
static int read_back(struct tern_cli *cli, const char *path)
{
    static struct tern_aggregator_settings wanted; // --state included
    const struct tern_settings *all = &tern_aggregator_settings_table;
    memcpy(&wanted, tern_state_settings(cli), sizeof wanted);
    cli->config = path;
    cli->set_count = 0;
    TERN_CLI_TRY(tern_cli_load_settings(cli));
    for (size_t i = 0; i < all->count; i++) {
        if (!tern_setting_equal(&all->table[i], &wanted, tern_state_settings(cli))) {
            return tern_cli_fail(cli, TERN_ERR_CONFIG,
                                 "%s reads back with another value of %s.%s than was set. Write "
                                 "the file yourself and name it with --config",
                                 path, all->table[i].section, all->table[i].key);
        }
    }
    return TERN_EXIT_OK;
}

int tern_proposal_settings_write(struct tern_cli *cli, const struct tern_proposal *proposal,
                                 const char *path)
{
    char *text = NULL;
    size_t len = 0;
    TERN_CLI_TRY(take(cli, proposal));
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
    return read_back(cli, path);
}

void tern_proposal_settings_print(const struct tern_proposal *proposal)
{
    for (size_t i = 0; i < proposal->setting_count; i++) {
        printf("    %s\n", proposal->settings[i].assignment);
    }
}
