#include "data/scaling_file.h"
#include "hosted/csv.h"
#include "hosted/csv_text.h"
#include <stdlib.h>
#include <string.h>

#define FIELDS 3
#define FILE_MAX (1ull << 28)
#define LEAVE_OUT                                                                                  \
    " (to leave out a column run `tern-aggregator init --data` with --drop again: the model has "  \
    "it, too)"

struct scaling {
    struct tern_csv csv;
    const char *name; // of the next feature; NULL: features have none
    struct tern_rows *train;
    struct tern_rows *test;
    uint32_t feature; // the next
    const char
        *target; // the option that names its column, until its line has come; NULL: none is due
};

static bool read_number(const struct tern_csv *csv, uint32_t field, double *value)
{
    return tern_csv_double(tern_csv_field(csv, field), value);
}

// The last line. A target that is given by its number may have any name.
static enum tern_result take_target(struct scaling *scaling, double mean, double deviation)
{
    const struct tern_csv *csv = &scaling->csv;
    const char *name = tern_csv_field(csv, 0);
    const char *due = scaling->target;
    if (due[strspn(due, "-0123456789")] != '\0' && strcmp(due, name) != 0) {
        return tern_input_refuse(
            csv->input, TERN_ERR_CORRUPT,
            "line %llu: column '%.40s', where that of the target '%.40s' is due",
            (unsigned long long)csv->line, name, due);
    }
    scaling->target = NULL;
    tern_rows_scale_targets(scaling->train, mean, deviation);
    tern_rows_scale_targets(scaling->test, mean, deviation);
    return TERN_OK;
}

static enum tern_result read_row(struct scaling *scaling)
{
    const struct tern_csv *csv = &scaling->csv;
    double mean;
    double deviation;
    if (csv->field_count != FIELDS || !read_number(csv, 1, &mean) ||
        !read_number(csv, 2, &deviation) || !(deviation > 0)) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                 "line %llu is not a column's name, a mean and a deviation above 0",
                                 (unsigned long long)csv->line);
    }
    if (scaling->feature == scaling->train->features && scaling->target != NULL) {
        return take_target(scaling, mean, deviation);
    }
    if (scaling->feature == scaling->train->features) {
        return tern_input_refuse(
            csv->input, TERN_ERR_CORRUPT,
            "line %llu: column '%.40s' is one more than the %u of the table" LEAVE_OUT,
            (unsigned long long)csv->line, tern_csv_field(csv, 0), scaling->train->features);
    }
    if (scaling->name != NULL && strcmp(scaling->name, tern_csv_field(csv, 0)) != 0) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                 "line %llu: column '%.40s', where the table has '%.40s': every "
                                 "client needs the same columns in the same order" LEAVE_OUT,
                                 (unsigned long long)csv->line, tern_csv_field(csv, 0),
                                 scaling->name);
    }
    tern_rows_scale(scaling->train, scaling->feature, mean, deviation);
    tern_rows_scale(scaling->test, scaling->feature, mean, deviation);
    scaling->name = scaling->name != NULL ? scaling->name + strlen(scaling->name) + 1 : NULL;
    scaling->feature++;
    return TERN_OK;
}

static enum tern_result read_all(struct scaling *scaling)
{
    struct tern_csv *csv = &scaling->csv;
    bool more;
    TERN_TRY(tern_csv_next(csv, &more));
    if (!more || csv->field_count != FIELDS || strcmp(tern_csv_field(csv, 0), "column") != 0 ||
        strcmp(tern_csv_field(csv, 1), "mean") != 0 ||
        strcmp(tern_csv_field(csv, 2), "deviation") != 0) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                 "does not begin with the line column,mean,deviation");
    }
    TERN_TRY(tern_csv_next(csv, &more));
    while (more) {
        TERN_TRY(read_row(scaling));
        TERN_TRY(tern_csv_next(csv, &more));
    }
    if (scaling->feature == scaling->train->features && scaling->target != NULL) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                 "has no line for the target '%.40s' behind those of the columns",
                                 scaling->target);
    }
    return scaling->feature == scaling->train->features
               ? TERN_OK
               : tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                   "has %u columns, and the table %u: '%.40s' is missing",
                                   scaling->feature, scaling->train->features,
                                   scaling->name != NULL ? scaling->name : "the last");
}

enum tern_result tern_scaling_file_apply(const struct tern_data_spec *spec, const char *path,
                                         const char *names, const char *target,
                                         struct tern_rows *train, struct tern_rows *test)
{
    struct tern_input input;
    if (tern_input_open(&input, path, FILE_MAX, spec->why) != TERN_OK) {
        return tern_spec_refuse(
            spec, TERN_ERR_CONFIG,
            "scale is none, standard, or the file of the columns' statistics "
            "(tern-aggregator init --data writes one); '%.60s' cannot be opened",
            path);
    }
    struct scaling *scaling = calloc(1, sizeof *scaling);
    enum tern_result result = TERN_ERR_NO_MEMORY;
    if (scaling != NULL) {
        scaling->name = names;
        scaling->target = target;
        scaling->train = train;
        scaling->test = test;
        tern_csv_begin(&scaling->csv, &input, FIELDS + 1);
        result = read_all(scaling);
        tern_csv_end(&scaling->csv);
        free(scaling);
    }
    tern_input_close(&input);
    return result;
}
