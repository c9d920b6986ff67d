// The proposal of `init --data` for a sample of the clients' data: the model, the classes, the columns to leave out, their
// scaling, and the settings files that follow from these. From the main thread.
#ifndef TERN_CLI_PROPOSAL_H
#define TERN_CLI_PROPOSAL_H

#include "cli/settings.h"
#include "hosted/cli.h"
#include "hosted/csv_profile.h"
#include "tensor/model.h"
#include <cjson/cJSON.h>

#define TERN_PROPOSAL_LIST_MAX 900 // bytes of a list of columns or classes

// The tasks that a model can learn.
enum tern_proposal_task {
    TERN_TASK_CLASSIFICATION = 0,
    TERN_TASK_REGRESSION, // predict the numbers of the label column
    TERN_TASK_ANOMALY,    // reconstruct a row; the label column, if there is one, marks anomalies
};

// A proposed setting of the aggregator.
struct tern_proposed_setting {
    char assignment[400]; // "section.key=value"
    const char *why;      // a static string, written as a comment above the setting; NULL: none
};

#define TERN_PROPOSAL_SETTINGS_MAX 12

struct tern_proposal {
    enum tern_proposal_task task;
    bool chosen_by_sample; // init chose the task from the sample, because --task is not given
    bool unlabelled;       // TERN_TASK_ANOMALY without a label column
    const char *data;      // path of the sample; NULL: no proposal
    char model[64];        // spec string
    char source[TERN_PROPOSAL_LIST_MAX];  // data.source of the clients
    char drop[TERN_PROPOSAL_LIST_MAX];    // names of the columns left out, separated by '|'
    char classes[TERN_PROPOSAL_LIST_MAX]; // separated by '|'; empty: labels are class numbers
    uint32_t features;
    uint32_t class_count;
    uint64_t rows;
    struct tern_csv_profile profile;
    struct tern_proposed_setting settings[TERN_PROPOSAL_SETTINGS_MAX];
    size_t setting_count;
    // statistics.columns = clients: clients compute the scaling, so that there is no scaling.csv
    bool clients_scale;
    bool writes_settings; // no --config was given, so that aggregator.ini is written
};

// Reads the sample and fills in *proposal. Writes no file. Prints the columns that are left out. The caller calls
// tern_proposal_free() in any case. Returns an exit code.
int tern_proposal_make(const struct tern_cli *cli, struct tern_proposal *proposal);

// Writes client.ini, scaling.csv (unless proposal->clients_scale) and aggregator.ini (if proposal->writes_settings) into
// the current folder, and reads aggregator.ini back into the settings. Refuses to replace a file. Returns an exit code.
int tern_proposal_write(struct tern_cli *cli, struct tern_proposal *proposal);

// Removes the written files, after a later step of init has failed.
void tern_proposal_remove_files(const struct tern_proposal *proposal);

// Print the proposal and the written files: for people, and as the member "data" of a JSON object.
void tern_proposal_print(const struct tern_proposal *proposal);
void tern_proposal_json(cJSON *object, const struct tern_proposal *proposal);

void tern_proposal_free(struct tern_proposal *proposal);

// Sets proposal->model for the features and task: one small hidden layer; for anomalies three, the middle one narrow.
void tern_proposal_choose_model(struct tern_proposal *proposal);

// Returns whether a built-in model learns the proposal's task.
bool tern_proposal_fits_model(const struct tern_proposal *proposal, const struct tern_model *model);

// Returns the model of the federation: --model, else --set federation.model, else the proposed one.
const char *tern_proposal_model(const struct tern_cli *cli, const struct tern_proposal *proposal);

#endif
