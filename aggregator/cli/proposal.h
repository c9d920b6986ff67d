// What init --data proposes for a table: the model, its classes, what to leave out, and how columns
// are scaled, and the settings' files that say so.
#ifndef TERN_CLI_PROPOSAL_H
#define TERN_CLI_PROPOSAL_H

#include "cli/settings.h"
#include "hosted/cli.h"
#include "hosted/csv_profile.h"
#include <cjson/cJSON.h>

#define TERN_PROPOSAL_LIST_MAX 900

// What the model is to learn.
enum tern_proposal_task {
    TERN_TASK_CLASSIFICATION = 0,
    TERN_TASK_REGRESSION, // the label's column is a target
    TERN_TASK_ANOMALY, // every row's values again; the label's column, if any, says which are anomalies
};

// A proposed setting of the aggregator.
struct tern_proposed_setting {
    char assignment[400]; // "section.key=value"
    const char *why;      // static, printed before the setting as a comment; NULL: none
};

#define TERN_PROPOSAL_SETTINGS_MAX 12

struct tern_proposal {
    enum tern_proposal_task task;
    bool decided;                         // by the sample, and not by --task
    bool unlabelled;                      // anomalies, and --label names no column
    const char *data;                     // the sample
    char model[64];                       // spec
    char source[TERN_PROPOSAL_LIST_MAX];  // data.source of the clients
    char drop[TERN_PROPOSAL_LIST_MAX];    // columns that are left out, between '|'
    char classes[TERN_PROPOSAL_LIST_MAX]; // between '|'; empty: labels are class numbers
    uint32_t features;
    uint32_t class_count;
    uint64_t rows;
    struct tern_csv_profile profile;
    struct tern_proposed_setting settings[TERN_PROPOSAL_SETTINGS_MAX]; // empty if a file has them
    size_t setting_count;
    bool shares;        // statistics.columns = clients: they scale, and no scaling.csv is written
    bool writes_server; // the settings come from no file: aggregator.ini is written, too
};

// Looks at the sample that --data names, by --label, --task, --group and --drop, and says on stdout what it
// found and proposes; nothing is written. Returns an exit code. *proposal is to be freed in any case.
int tern_proposal_make(const struct tern_cli *cli, struct tern_proposal *proposal);

// Writes client.ini, scaling.csv (unless clients share statistics) and, where the settings come from no file, aggregator.ini into the
// current folder, where none of them may be yet; the settings are then read again with the last.
// Returns an exit code.
int tern_proposal_write(struct tern_cli *cli, struct tern_proposal *proposal);

// Removes what was written, when init fails after it.
void tern_proposal_take_back(const struct tern_proposal *proposal);

// What was found, proposed and written: for people; for scripts, as "data" of the object.
void tern_proposal_print(const struct tern_proposal *proposal);
void tern_proposal_json(cJSON *object, const struct tern_proposal *proposal);

void tern_proposal_free(struct tern_proposal *proposal);

#endif
