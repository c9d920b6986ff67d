// Parses the text that names a data set, "KIND:PATH,key=value,..." (setting data.source), and the options of the kind
// csv. The readers of client/data open it; `tern-aggregator init --data` writes one. Reentrant.
#ifndef TERN_HOSTED_DATA_SPEC_H
#define TERN_HOSTED_DATA_SPEC_H

#include "hosted/csv_columns.h"
#include "hosted/input.h"
#include <stdbool.h>

#define TERN_DATA_SPEC_MAX 1024 // bytes with the terminating NUL
#define TERN_DATA_SPEC_OPTIONS 16

struct tern_data_spec {
    char text[TERN_DATA_SPEC_MAX]; // the pointers below point into it
    const char *kind;
    const char *path; // "" when there is none
    struct {
        const char *key;
        const char *value;
        bool used;
    } options[TERN_DATA_SPEC_OPTIONS];
    uint32_t option_count;
    const struct tern_data_part *part; // rows to keep, for the readers of client/data
    char *why;                         // [TERN_INPUT_WHY_MAX]
};

// TERN_ERR_CONFIG  longer than TERN_DATA_SPEC_MAX, too many options, or a part without '='
TERN_MUST_USE enum tern_result tern_data_spec_parse(struct tern_data_spec *spec, const char *text,
                                                    char *why);

// Returns the value of an option; NULL: it was not given.
const char *tern_spec_option(struct tern_data_spec *spec, const char *key);

// Read a number from low to high from an option; *value is unchanged where the option was not given.
TERN_MUST_USE enum tern_result tern_spec_number(struct tern_data_spec *spec, const char *key,
                                                uint64_t low, uint64_t high, uint64_t *value);
TERN_MUST_USE enum tern_result tern_spec_fraction(struct tern_data_spec *spec, const char *key,
                                                  float low, float high, float *value);

// TERN_ERR_CONFIG: an option was given that none of the functions above has read. known: the options, for the message.
TERN_MUST_USE enum tern_result tern_spec_done(const struct tern_data_spec *spec, const char *known);

// Writes "data 'KIND:PATH': sentence" to spec->why and returns `result`.
TERN_MUST_USE enum tern_result tern_spec_refuse(const struct tern_data_spec *spec,
                                                enum tern_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Whether text, whose first "=" is at offset `len`, starts with a path, such as /data/site=3/table.csv, and not with an
// option key=. A path that looks like an option must be in quotes.
bool tern_spec_begins_with_place(const char *text, size_t len);

// --- The options of tables

// Reads the options label, target, drop, classes, group, header, missing and scale of the kind csv. The texts of *choice
// point into the spec.
// TERN_ERR_CONFIG  an unknown option, options that exclude each other, or a word that an option does not allow
TERN_MUST_USE enum tern_result tern_csv_choose(struct tern_data_spec *spec,
                                               struct tern_csv_choice *choice);

#endif
