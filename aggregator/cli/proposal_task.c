#include "cli/proposal_task.h"
#include "hosted/csv_judge.h"
#include "hosted/csv_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(number) #number
#define DIGITS_OF(number) TEXT_OF(number)

// Small: bytes follow the number of weights.
#define HIDDEN 32
// An autoencoder's middle layer has half as many units as there are features, up to this. It must stay below HIDDEN:
// a middle that is not the narrowest layer lets anomalies through.
#define MIDDLE_MAX 16

static const char *const names[] = {"classification", "regression", "anomaly"};

const char *tern_proposal_task_name(enum tern_proposal_task task)
{
    return names[task];
}

// --- Which

// Reads --label. "none" means that there is no label column, as in data.source. --classes without --label lists the
// labels of the last column; dropping that column would take anomalies for normal rows.
static int read_label(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    const bool none = strcmp(tern_cli_option(cli, "label", "none"), "none") == 0;
    const bool given = tern_cli_flag(cli, "label");
    const bool classes = tern_cli_flag(cli, "classes");
    if (none && given && proposal->task != TERN_TASK_ANOMALY) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "--label none: without a label only anomalies can be learnt: add "
                             "--task anomaly (a column of that name goes by its number)");
    }
    if (none && given && classes) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "--label none: there are no labels for --classes to list: leave out "
                             "one of the two");
    }
    proposal->unlabelled = none && proposal->task == TERN_TASK_ANOMALY && (given || !classes);
    return TERN_EXIT_OK;
}

int tern_proposal_read_task(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    const char *name = tern_cli_option(cli, "task", names[TERN_TASK_CLASSIFICATION]);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
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

const char *tern_proposal_task_why(const struct tern_proposal *proposal)
{
    if (proposal->unlabelled) {
        return "Without a label nothing says which rows are anomalies: figures are the loss, and "
               "the share of rows above\n"
               "the threshold (flagged); AUC and F1 need --label COLUMN.\n";
    }
    return proposal->task == TERN_TASK_REGRESSION && proposal->decided
               ? "The labels are numbers with fractions, or of more than " DIGITS_OF(
                     TERN_CSV_VALUES_MAX) " different values, so that the model is to\n"
                                          "tell a number (regression); "
                                          "--task classification makes each value a class.\n"
               : "";
}

// --- Classes

static int list_classes(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    char why[TERN_CSV_TASK_WHY_MAX];
    const bool chosen = tern_cli_flag(cli, "task");
    const bool anomalies = proposal->task == TERN_TASK_ANOMALY;
    const struct tern_csv_task task = {.profile = &proposal->profile,
                                       .data = proposal->data,
                                       .least = anomalies ? 1 : 2, // normal rows suffice
                                       .listed = tern_cli_option(cli, "classes", NULL),
                                       .unique = chosen,
                                       .mixed = chosen && !anomalies};
    proposal->class_count =
        task.listed != NULL ? tern_csv_list_count(task.listed) : proposal->profile.labels.count;
    return tern_csv_list_classes(&task, proposal->classes, why)
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_CONFIG, "%s", why);
}

// --- Normal, and not

// The label that is called so, or else the most frequent.
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

// Lists what is normal as class 0, and every other label as one more class, whichever anomalies clients meet.
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
               : tern_cli_fail(cli, TERN_ERR_CONFIG, "the labels in column '%s' are too long",
                               label_of(proposal)->name);
}

// --- A number

static int check_target(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    char why[TERN_CSV_TASK_WHY_MAX];
    const struct tern_csv_task task = {.profile = &proposal->profile, .data = proposal->data};
    return tern_csv_check_target(&task, why) ? TERN_EXIT_OK
                                             : tern_cli_fail(cli, TERN_ERR_CONFIG, "%s", why);
}

int tern_proposal_choose_task(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    const bool listed = tern_cli_flag(cli, "classes");
    if (listed && proposal->task == TERN_TASK_REGRESSION) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "--task regression learns a number, and --classes lists classes: leave "
            "out one of the two");
    }
    if (!tern_cli_flag(cli, "task") && !listed && tern_csv_is_target(&proposal->profile)) {
        proposal->task = TERN_TASK_REGRESSION;
        proposal->decided = true;
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

bool tern_proposal_suits(const struct tern_proposal *proposal, const struct tern_model *model)
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

const char *tern_proposal_told(const struct tern_proposal *proposal, char text[TERN_TEXT])
{
    if (proposal->task == TERN_TASK_REGRESSION) {
        snprintf(text, TERN_TEXT, "a number in column '%.30s'", label_of(proposal)->name);
    } else if (proposal->unlabelled) {
        snprintf(text, TERN_TEXT, "no label: all rows are taken as normal");
    } else if (proposal->task == TERN_TASK_ANOMALY && proposal->class_count == 1) {
        snprintf(text, TERN_TEXT, "one label in column '%.20s': all rows are normal",
                 label_of(proposal)->name);
    } else if (proposal->task == TERN_TASK_ANOMALY) {
        snprintf(text, TERN_TEXT, "anomalies by column '%.20s', normal first",
                 label_of(proposal)->name);
    } else {
        snprintf(text, TERN_TEXT, "%" PRIu32 " classes", proposal->class_count);
    }
    return text;
}
