// The data that [data] of the settings names, for the verbs that work on it or look at it.
#ifndef TERN_CLIENT_DATA_H
#define TERN_CLIENT_DATA_H

#include "cli/client_settings.h"
#include "data/source.h"
#include "hosted/csv_names.h"

// Of a federation with statistics.columns = clients.
#define CLIENT_SCALED_TWICE                                                                        \
    "the federation scales columns by statistics that its clients share (statistics.columns), "    \
    "and "                                                                                         \
    "scale= would scale this client's once more: remove scale=... from data.source"

// The warning for a client whose column names differ from those of most clients.
#define CLIENT_OTHER_COLUMNS                                                                       \
    "the columns of this client's table have other names, or another order, than those of most "   \
    "clients of the federation, whose model takes each by its place: give all tables the same "    \
    "header line"

#define CLIENT_DATA_WHY_MAX 512

// Holds what this client works on and no more: its shard, and with `test` the test part. On error
// *data is empty and why says which setting is wrong, and how.
// TERN_ERR_CONFIG, and the errors of tern_dataset_open_part()
TERN_MUST_USE enum tern_result tern_client_data_open(const struct tern_client_settings *settings,
                                                     bool test, struct tern_data *data,
                                                     char why[CLIENT_DATA_WHY_MAX]);

// Writes the spec of a place: a file or folder, which is read as data.source is, or a spec of its own.
void tern_client_data_spec(const struct tern_client_settings *settings, const char *place,
                           char spec[TERN_DATA_SPEC_MAX]);

// Holds new data as it comes: every row of a file in its order, or the test part of data that has one.
// place: a file or folder, which is read as data.source is, or a spec of its own ("csv:FILE,..."). Labels
// may be missing. Errors as above.
TERN_MUST_USE enum tern_result
tern_client_data_open_new(const struct tern_client_settings *settings, const char *place,
                          struct tern_data *data, char why[CLIENT_DATA_WHY_MAX]);

// The names of the columns of data.source, the table that the model is trained on, to be freed with
// tern_csv_names_free(); none where it is no table, has no header line, or cannot be read, which is logged.
TERN_MUST_USE enum tern_result tern_client_data_names(const struct tern_client_settings *settings,
                                                      struct tern_csv_names *names);

// Logs each note that reading a table left, as a warning.
void tern_client_data_notes(const struct tern_data *data);

// Whether data.source has examples to evaluate on without another file: a share of one file of this client's own, or
// some that are drawn on the spot (the option test).
bool tern_client_data_holds_out(const struct tern_client_settings *settings);

#endif
