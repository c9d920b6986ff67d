// Opens the data that the section [data] of the settings names. Called by the verbs and by ring/cli, from the main
// thread.
#ifndef TERN_CLIENT_DATA_H
#define TERN_CLIENT_DATA_H

#include "cli/client_settings.h"
#include "data/source.h"
#include "hosted/csv_columns.h"

// The error of a client whose data.source has scale=, in a federation with statistics.columns = clients.
#define CLIENT_SCALED_TWICE                                                                        \
    "the federation scales columns by shared statistics (statistics.columns), and scale= would "   \
    "scale this client's columns twice: remove scale=... from data.source"

// The warning of a client whose column names differ from those of most clients.
#define CLIENT_OTHER_COLUMNS                                                                       \
    "the columns of this client's table have other names, or another order, than those of most "   \
    "clients of the federation, and the model takes columns by position: give all tables the "     \
    "same header line"

#define CLIENT_DATA_WHY_MAX 512

// Opens the training examples of this client's shard and, if `test` is true, the test examples. After an error *data is empty,
// and why names the setting and the problem.
// TERN_ERR_CONFIG, and the errors of tern_dataset_open_part()
TERN_MUST_USE enum tern_result tern_client_data_open(const struct tern_client_settings *settings,
                                                     bool test, struct tern_data *data,
                                                     char why[CLIENT_DATA_WHY_MAX]);

// Writes to spec how to read `place`. place: a file or folder, which is read with the options of data.source; or a spec, which
// is copied.
void tern_client_data_spec(const struct tern_client_settings *settings, const char *place,
                           char spec[TERN_DATA_SPEC_MAX]);

// Reads the column names of data.source; free them with tern_csv_names_free(). *names is empty if data.source is not a table,
// has no header line, or cannot be read; the last case is logged. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_client_data_names(const struct tern_client_settings *settings,
                                                      struct tern_csv_names *names);

// Logs each note about a table, data->notes, as a warning.
void tern_client_data_notes(const struct tern_data *data);

#endif
