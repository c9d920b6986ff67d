// The verbs of tern-client; each returns an exit code. Called by main.c from the main thread.
#ifndef TERN_CLIENT_VERBS_H
#define TERN_CLIENT_VERBS_H

#include "cli/client_settings.h"
#include "hosted/cli.h"
#include "hosted/csv_profile.h"
#include "tensor/model.h"
#include "wire/wire.h"

int tern_verb_enroll(struct tern_cli *cli);
int tern_verb_run(struct tern_cli *cli);
int tern_verb_once(struct tern_cli *cli);
int tern_verb_status(struct tern_cli *cli);
int tern_verb_meter(struct tern_cli *cli);
int tern_verb_conditions(struct tern_cli *cli);
int tern_verb_check(struct tern_cli *cli);
int tern_verb_export(struct tern_cli *cli);
int tern_verb_predict(struct tern_cli *cli);
int tern_verb_compare_alone(struct tern_cli *cli);
int tern_verb_train_check(struct tern_cli *cli);

// --- The part of `tern-client check` that reads the data (check_data.c): fields, labels, scales and the fit to the model

#define CHECK_SENTENCE_MAX 640

// The facts about the federation that the data must suit.
struct check_federation {
    const char *spec; // the federation's built-in model; NULL: unknown
    enum {
        CHECK_SCALING_UNKNOWN, // the client is not enrolled
        CHECK_SCALING_NONE,    // clients share no statistics of columns
        CHECK_SCALING_DUE,     // clients share statistics; the scaling does not exist yet
        CHECK_SCALING_MADE,    // the scaling exists; this client has not fetched it
        CHECK_SCALING_HELD,    // this client holds the scaling
    } shared;
    // the aggregator reports column names that differ from those of most clients
    bool other_columns;
    struct tern_span scaling; // CHECK_SCALING_HELD: the columns' means and deviations
};

// Where the table of a CSV file's columns goes.
struct check_table {
    cJSON *columns; // receives one object a column; NULL: the table is printed
};

// Checks [data] as a client would read it, and every line of a CSV file. table: NULL shows no table.
void tern_check_data(const struct tern_client_settings *settings,
                     const struct check_federation *federation, struct tern_findings *findings,
                     struct check_table *table);

#endif
