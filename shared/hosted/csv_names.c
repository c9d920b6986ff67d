#include "hosted/csv_names.h"
#include "hosted/csv_profile.h"
#include "hosted/csv_text.h"
#include <stdlib.h>
#include <string.h>

void tern_csv_names_free(struct tern_csv_names *names)
{
    tern_name_set_free(&names->features);
    free(names->label);
    free(names->twins);
    names->label = NULL;
    names->twins = NULL;
}

static enum tern_result keep_twins(const struct tern_csv_profile *profile,
                                   struct tern_csv_names *names)
{
    names->twins = malloc(profile->first_len);
    if (names->twins == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    char *next = names->twins;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        if (profile->column[c].feature) {
            const size_t len = strlen(profile->column[c].name) + 1;
            memcpy(next, profile->column[c].name, len);
            next += len;
            names->twin_count++;
        }
    }
    return TERN_OK;
}

static enum tern_result add_features(const struct tern_csv_profile *profile,
                                     struct tern_csv_names *names)
{
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const uint32_t before = names->features.count;
        uint32_t number;
        if (!profile->column[c].feature) {
            continue;
        }
        TERN_TRY(tern_name_set_find(&names->features, profile->column[c].name, true, &number));
        if (names->features.count == before) { // a name of two columns says nothing of either
            tern_name_set_free(&names->features);
            return keep_twins(profile, names);
        }
    }
    return TERN_OK;
}

enum tern_result tern_csv_names_take(const struct tern_csv_profile *profile,
                                     struct tern_csv_names *names)
{
    const uint32_t label = profile->columns.label;
    names->label = NULL;
    names->twins = NULL;
    names->twin_count = 0;
    tern_name_set_init(&names->features, TERN_CSV_FEATURES_MAX);
    if (!profile->columns.header) {
        return TERN_OK;
    }
    if (label != TERN_CSV_NO_COLUMN) {
        names->label = strdup(profile->column[label].name);
        TERN_TRY(names->label != NULL ? TERN_OK : TERN_ERR_NO_MEMORY);
    }
    return add_features(profile, names);
}

bool tern_csv_names_head(struct tern_csv_names *names, const struct tern_csv *csv)
{
    uint32_t found = 0;
    uint32_t texts = 0; // of these
    uint32_t numbers = 0;
    for (uint32_t c = 0; names->features.count > 0 && c < csv->field_count; c++) {
        const char *field = tern_csv_field(csv, c);
        float value;
        uint32_t number;
        const bool is_number = tern_csv_number(field, &value);
        const bool is_name = tern_name_set_find(&names->features, field, false, &number) == TERN_OK;
        found += is_name;
        texts += is_name && !is_number;
        numbers += is_number;
    }
    return names->features.count > 0 &&
           (found >= names->features.count || texts > 0 || numbers == 0);
}

enum tern_result tern_csv_names_place(struct tern_csv_names *names, const struct tern_csv *csv,
                                      uint32_t *place)
{
    const uint32_t count = names->features.count;
    bool *seen = calloc(count, sizeof *seen);
    if (seen == NULL) {
        return tern_input_refuse(csv->input, TERN_ERR_NO_MEMORY, "no memory for its columns");
    }
    enum tern_result result = TERN_OK;
    for (uint32_t c = 0; c < csv->field_count && result == TERN_OK; c++) {
        const char *name = tern_csv_field(csv, c);
        if (tern_name_set_find(&names->features, name, false, &place[c]) != TERN_OK) {
            place[c] = TERN_CSV_NO_COLUMN;
        } else if (seen[place[c]]) {
            result = tern_input_refuse(csv->input, TERN_ERR_CONFIG,
                                       "has two columns '%.40s', which the model takes by name: "
                                       "rename or remove one",
                                       name);
        } else {
            seen[place[c]] = true;
        }
    }
    for (uint32_t f = 0; f < count && result == TERN_OK; f++) {
        if (!seen[f]) {
            result = tern_input_refuse(csv->input, TERN_ERR_NOT_FOUND,
                                       "has no column '%.40s', which the table of data.source "
                                       "has: columns are taken by their names (its first line "
                                       "begins with '%.30s')",
                                       names->features.names[f], tern_csv_field(csv, 0));
        }
    }
    free(seen);
    return result;
}

// Whether the record names one of the features, so that it is no row.
static bool names_twin(const struct tern_csv_names *names, const struct tern_csv *csv)
{
    const char *name = names->twins;
    for (uint32_t f = 0; f < names->twin_count; f++) {
        float value;
        for (uint32_t c = 0; c < csv->field_count; c++) {
            if (strcmp(tern_csv_field(csv, c), name) == 0 && !tern_csv_number(name, &value)) {
                return true;
            }
        }
        name += strlen(name) + 1;
    }
    return false;
}

enum tern_result tern_csv_names_check_order(const struct tern_csv_names *names,
                                            const struct tern_csv *csv, const bool *skipped)
{
    if (names->twins == NULL || !names_twin(names, csv)) {
        return TERN_OK;
    }
    const char *name = names->twins;
    for (uint32_t c = 0, f = 0; c < csv->field_count && f < names->twin_count; c++) {
        if (skipped[c]) {
            continue;
        }
        if (strcmp(tern_csv_field(csv, c), name) != 0) {
            return tern_input_refuse(csv->input, TERN_ERR_CONFIG,
                                     "column %u is '%.40s', in the table of data.source '%.40s': "
                                     "names that are there twice go by their places, so write the "
                                     "columns in its order, or rename them there",
                                     c, tern_csv_field(csv, c), name);
        }
        name += strlen(name) + 1;
        f++;
    }
    return TERN_OK;
}
