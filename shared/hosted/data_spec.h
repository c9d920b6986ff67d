// The text that names a data set, "KIND:PATH,key=value,...": data.source of the settings. The readers of
// client/data open it; `tern-aggregator init --data` writes one, and reads it back. Hosted; reentrant.
#ifndef TERN_HOSTED_DATA_SPEC_H
#define TERN_HOSTED_DATA_SPEC_H

#include "hosted/csv_columns.h"
#include "hosted/input.h"
#include <stdbool.h>

#define TERN_DATA_SPEC_MAX 1024 // bytes with the terminating NUL
#define TERN_DATA_SPEC_OPTIONS 16

// "KIND:PATH,key=value,..." taken apart.
struct tern_data_spec {
    char text[TERN_DATA_SPEC_MAX]; // what the pointers below point into
    const char *kind;
    const char *path; // "" when there is none
    struct {
        const char *key;
        const char *value;
        bool used;
    } options[TERN_DATA_SPEC_OPTIONS];
    uint32_t option_count;
    const struct tern_data_part *part; // what is to be kept: the readers' (client/data)
    char *why;                         // [TERN_INPUT_WHY_MAX]
};

// TERN_ERR_CONFIG  longer than TERN_DATA_SPEC_MAX, too many options, or a part without '='
TERN_MUST_USE enum tern_result tern_data_spec_parse(struct tern_data_spec *spec, const char *text,
                                                    char *why);

// The value of an option, or NULL when it was not given.
const char *tern_spec_option(struct tern_data_spec *spec, const char *key);

// Reads an option as a number from low to high; leaves *value when it was not given.
TERN_MUST_USE enum tern_result tern_spec_number(struct tern_data_spec *spec, const char *key,
                                                uint64_t low, uint64_t high, uint64_t *value);
TERN_MUST_USE enum tern_result tern_spec_fraction(struct tern_data_spec *spec, const char *key,
                                                  float low, float high, float *value);

// TERN_ERR_CONFIG when an option was given that no call above asked for; known: those that exist.
TERN_MUST_USE enum tern_result tern_spec_done(const struct tern_data_spec *spec, const char *known);

// Writes "data 'KIND:PATH': sentence" to spec->why and returns `result`.
TERN_MUST_USE enum tern_result tern_spec_refuse(const struct tern_data_spec *spec,
                                                enum tern_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Whether text, whose first "=" is behind `len` bytes, begins with a place: a path may have one, as in
// /data/site=3/table.csv. One that begins as an option does, key=, must be in quotes.
bool tern_spec_begins_with_place(const char *text, size_t len);

// --- csv_choice

// What a data spec of the kind csv chooses of its table. Hosted; reentrant.

// Reads the options label, target, drop, classes, group, header, missing, and whether scale names a file. The texts
// of *choice are the spec's.
// TERN_ERR_CONFIG  an option that tables do not have, options that exclude each other, or a word that is none of an
// option's
TERN_MUST_USE enum tern_result tern_csv_choose(struct tern_data_spec *spec,
                                               struct tern_csv_choice *choice);

#endif
