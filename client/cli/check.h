// What `tern-client check` finds of its data.
#ifndef TERN_CLIENT_CHECK_H
#define TERN_CLIENT_CHECK_H

#include "cli/client_settings.h"
#include "hosted/csv_profile.h"
#include "hosted/findings.h"
#include "tensor/model.h"
#include "wire/wire.h"

#define CHECK_SENTENCE_MAX 640

// What is known of the federation that the data is for.
struct check_federation {
    const char *spec; // of its built-in model, which the data must fit; NULL: not known
    enum {
        CHECK_SCALING_UNKNOWN, // whether its clients share statistics of their columns
        CHECK_SCALING_NONE,    // they do not
        CHECK_SCALING_DUE,     // the scaling is not made yet
        CHECK_SCALING_MADE,    // it is, and this client has not fetched it yet
        CHECK_SCALING_HELD,
    } shared;
    bool other_columns; // the aggregator found this client's column names unlike most clients'
    struct tern_span scaling; // held: pairs of the columns that its clients scale by
};

// The columns of a CSV file, what they hold, and what becomes of them.
struct check_table {
    cJSON *columns; // objects are added; NULL: they are printed
};

void tern_check_table_show(const struct tern_csv_profile *profile,
                           const struct tern_csv_choice *choice, struct check_table *table);

// Checks [data] as a client would read it, and every line of a CSV file. table: where its columns are shown; NULL:
// nowhere.
void tern_check_data(const struct tern_client_settings *settings,
                     const struct check_federation *federation, struct tern_findings *findings,
                     struct check_table *table);

#endif
