#include "hosted/csv_judge.h"

#include "hosted/csv_profile.h"
#include "hosted/csv_text.h"
#include "util/text.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED 5      // columns or labels that are reported one by one; the others are only counted
#define COMPARED 512 // most labels or columns that are compared pair by pair
#define FEW 10       // a column with fewer different values is a scale

static void report(const struct tern_csv_judging *judging, enum tern_result result,
                   const char *area, const char *format, ...) __attribute__((format(printf, 4, 5)));

static void report(const struct tern_csv_judging *judging, enum tern_result result,
                   const char *area, const char *format, ...)
{
    char sentence[TERN_CSV_SENTENCE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    sentence[tern_utf8_malformed(sentence, strlen(sentence))] = '\0'; // cut within a character
    tern_utf8_show(sentence, strlen(sentence));
    judging->report(judging->ctx, result == TERN_OK ? TERN_CSV_WARNING : TERN_CSV_PROBLEM, result,
                    area, sentence);
}

// --- Names in settings

static bool is_nameable(const struct tern_csv_profile *profile, uint32_t number)
{
    const char *name = profile->column[number].name;
    const size_t len = strlen(name);
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        if (c != number && strcmp(profile->column[c].name, name) == 0) {
            return false;
        }
    }
    // The name must not end a list or a setting, or start or end with blanks, which settings trim.
    return profile->columns.header && len > 0 && len < TERN_CSV_NAME_MAX &&
           tern_utf8_is_text(name, len) && strchr(name, '|') == NULL &&
           strstr(name, " ;") == NULL && name[0] != ' ' && name[len - 1] != ' ';
}

static bool has_name(const struct tern_csv_profile *profile, const char *name)
{
    bool found = false;
    for (uint32_t c = 0; profile->columns.header && c < profile->columns.count; c++) {
        found = found || strcmp(profile->column[c].name, name) == 0;
    }
    return found;
}

const char *tern_csv_setting_name(const struct tern_csv_profile *profile, uint32_t column,
                                  char number[16])
{
    if (is_nameable(profile, column)) {
        return profile->column[column].name;
    }
    // Where a column has the number as its name, leading zeros make the number no name.
    int digits = 1;
    do {
        snprintf(number, 16, "%0*" PRIu32, digits++, column);
    } while (digits <= 8 && has_name(profile, number));
    return number;
}

// --- Columns

const char *tern_csv_why_useless(const struct tern_csv_profile *profile,
                                 const struct tern_csv_column *column)
{
    const uint64_t missing = column->missing.count;
    if (missing == profile->rows) {
        return "it has no value in any row";
    }
    if (tern_csv_is_left_out(column->suspect)) {
        return tern_csv_suspect_text(column->suspect);
    }
    if (!tern_csv_is_numeric(column) && 2 * column->like.count > column->bad.count) {
        return "most of its values are numbers with commas, units or marks (write 1234.5 alone)";
    }
    if (!tern_csv_is_numeric(column) && column->texts == 2 && column->numbers == 0) {
        return "its values are two different texts (write 0 and 1 to learn from it)";
    }
    if (!tern_csv_is_numeric(column)) {
        return "most of its values are texts";
    }
    if (2 * missing > profile->rows) {
        return "most of its values are missing";
    }
    if (2 * column->huge.count > profile->rows) {
        return "most of its values are 1e15 or more, which count as missing (change the unit)";
    }
    if (column->low == column->high) {
        return "it has one value in every row";
    }
    return tern_csv_is_flat(column) ? "its values differ too little for 32-bit numbers "
                                      "(subtract a constant, or change the unit)"
                                    : NULL;
}

static bool is_constant(const struct tern_csv_column *column)
{
    return column->feature && column->numbers > 1 && column->low == column->high;
}

static void report_constants(const struct tern_csv_judging *judging)
{
    const struct tern_csv_profile *profile = judging->profile;
    char names[TERN_CSV_SENTENCE_MAX / 2] = "";
    char number[16];
    uint32_t count = 0;
    size_t used = 0;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        if (is_constant(&profile->column[c]) && count++ < NAMED) {
            used +=
                (size_t)snprintf(names + used, sizeof names - used, "%s%.36s", count > 1 ? "|" : "",
                                 tern_csv_setting_name(profile, c, number));
        }
    }
    if (count > 0) {
        report(judging, TERN_OK, "columns",
               "%" PRIu32 " %s one value in every row, which predicts nothing%s: %s%s%s", count,
               count == 1 ? "column has" : "columns have",
               judging->fixed ? " unless other clients' rows differ" : "",
               judging->fixed ? "" : "drop=", names, count > NAMED ? "|..." : "");
    }
}

// What to do about a column that should not be learnt from.
static void report_drop(const struct tern_csv_judging *judging, uint32_t column)
{
    char number[16];
    const struct tern_csv_column *found = &judging->profile->column[column];
    const char *name = tern_csv_setting_name(judging->profile, column, number);
    const char *says = tern_csv_is_left_out(found->suspect) ? "predicts" : "may predict";
    const char *why = tern_csv_suspect_text(found->suspect);
    if (judging->fixed) {
        report(judging, TERN_OK, "columns",
               "column '%.60s' %s nothing about new rows, since %s; the model uses it: for a model "
               "without it run `tern-aggregator init --data FILE --drop %s`",
               found->name, says, why, name);
    } else {
        report(
            judging, TERN_OK, "columns",
            "column '%.60s' %s nothing about new rows, since %s: leave it out with drop=%s (init: "
            "--drop)",
            found->name, says, why, name);
    }
}

// Reports the first two columns of one name.
static void report_twins(const struct tern_csv_judging *judging)
{
    const struct tern_csv_profile *profile = judging->profile;
    const uint32_t count = profile->columns.count <= COMPARED ? profile->columns.count : 0;
    for (uint32_t a = 0; profile->columns.header && a < count; a++) {
        for (uint32_t b = a + 1; b < count; b++) {
            if (strcmp(profile->column[a].name, profile->column[b].name) == 0 &&
                (profile->column[a].feature || profile->column[b].feature)) {
                report(judging, TERN_OK, "columns",
                       "columns %" PRIu32 " and %" PRIu32 " (from 0) are both named '%.60s': give "
                       "them by number in settings",
                       a, b, profile->column[a].name);
                return;
            }
        }
    }
}

// Whether the number at this end spoils the column's scale: a repeated mark such as -999 far outside the other numbers,
// or a far number in few rows.
static bool is_far(const struct tern_csv_profile *profile, const struct tern_csv_column *column,
                   const struct tern_csv_edge *edge, double other_end)
{
    if (edge->count > 1 && tern_csv_is_mark(edge->value) &&
        fabs(edge->value - edge->next) > 2 * fabs(edge->next - other_end)) {
        return true;
    }
    // 0 and the values of a scale are usual in many rows: a machine that is off measures 0.
    const bool usual = edge->value == 0 || (column->distinct > 0 && column->distinct < FEW);
    return edge->far > 0 && edge->count <= (usual ? 1 + profile->rows / 50 : profile->rows / 2);
}

static void report_far(const struct tern_csv_judging *judging, const struct tern_csv_column *column,
                       const struct tern_csv_edge *edge, double other_end)
{
    char more[64] = "";
    if (!is_far(judging->profile, column, edge, other_end)) {
        return;
    }
    if (edge->far > 1) {
        snprintf(more, sizeof more, ", and so %s %" PRIu32 " more", edge->far == 2 ? "is" : "are",
                 edge->far - 1);
    }
    report(judging, TERN_OK, "data",
           "line %" PRIu64 ", column '%.60s': %.9g, in %" PRIu64 " row%s, is far from all other "
           "values%s, which spoils the column's scale: correct the value or remove the line; if it "
           "marks a missing value, leave the field empty",
           edge->line, column->name, edge->value, edge->count, edge->count == 1 ? "" : "s", more);
}

static void report_outliers(const struct tern_csv_judging *judging)
{
    const struct tern_csv_profile *profile = judging->profile;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        if ((column->feature || (c == profile->columns.label && judging->choice->numeric)) &&
            column->distinct != 2 && !tern_csv_is_left_out(column->suspect)) {
            report_far(judging, column, &column->bottom, column->high);
            report_far(judging, column, &column->top, column->low);
        }
    }
}

static void report_columns(const struct tern_csv_judging *judging)
{
    const struct tern_csv_profile *profile = judging->profile;
    uint32_t count = 0;
    report_twins(judging);
    report_constants(judging);
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        if (column->feature && column->suspect != TERN_CSV_MEASURES && count++ < NAMED) {
            report_drop(judging, c);
        }
    }
    if (count > NAMED) {
        report(judging, TERN_OK, "columns",
               "%" PRIu32 " columns predict nothing about new rows, or may; %d are listed", count,
               NAMED);
    }
}

// --- Lines

static void report_lines(const struct tern_csv_judging *judging)
{
    static const char *const kinds[] = {"the header line again", "units or names, not numbers",
                                        "without any value"};
    const struct tern_csv_profile *profile = judging->profile;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct tern_csv_found *found = &profile->skipped[i];
        if (found->count > 0) {
            report(judging, TERN_OK, "data",
                   "line %" PRIu64 " is %s, not a row, and is skipped (%" PRIu64 " such line%s)",
                   found->line, kinds[i], found->count, tern_plural(found->count));
        }
    }
    if (profile->ragged.count > 0) {
        report(judging, TERN_ERR_CORRUPT, "data",
               "line %" PRIu64 " has %" PRIu32 " field%s, the first line %" PRIu32 " (%" PRIu64
               " line%s differ%s from the first): correct such lines, or remove them",
               profile->ragged.line, profile->ragged_fields, tern_plural(profile->ragged_fields),
               profile->columns.count, profile->ragged.count, tern_plural(profile->ragged.count),
               profile->ragged.count == 1 ? "s" : "");
    }
}

// --- Values

static const char *hint(const char *text)
{
    return tern_csv_has_decimal_comma(text) ? " (decimals have points)"
           : tern_csv_has_groups(text)      ? " (write 1234.5 without blanks or marks in it)"
                                            : "";
}

static void report_values(const struct tern_csv_judging *judging, uint32_t c,
                          const struct tern_csv_found *found, const char *what)
{
    const struct tern_csv_profile *profile = judging->profile;
    char number[16];
    if (found->count == 0) {
        return;
    }
    const bool label = c == profile->columns.label;
    report(judging, TERN_ERR_CORRUPT, label ? "target" : "data",
           "line %" PRIu64 ", column '%.60s': %s'%s' %s%s (%" PRIu64 " of its %" PRIu64
           " values): correct the lines%s%s",
           found->line, profile->column[c].name, label ? "the target " : "", found->text, what,
           hint(found->text), found->count, profile->rows,
           label || judging->fixed ? ", or remove them" : ", remove them, or drop=",
           label || judging->fixed ? "" : tern_csv_setting_name(profile, c, number));
}

static void report_absent(const struct tern_csv_judging *judging, uint32_t c, const char *what)
{
    const struct tern_csv_profile *profile = judging->profile;
    const struct tern_csv_found *found = &profile->column[c].missing;
    if (found->count == 0) {
        return;
    }
    const bool label = c == profile->columns.label;
    report(judging, label && judging->sample ? TERN_OK : TERN_ERR_CORRUPT,
           !label                     ? "data"
           : judging->choice->numeric ? "target"
                                      : "classes",
           "line %" PRIu64 ", column '%.60s': %s is missing%s%s%s (%" PRIu64 " of %" PRIu64
           " rows): fill it in, or skip such rows with missing=%s in data.source",
           found->line, profile->column[c].name, what, found->text[0] != '\0' ? " ('" : "",
           found->text, found->text[0] != '\0' ? "')" : "", found->count, profile->rows,
           label ? "skip-unlabelled" : "skip");
}

// Reports a column without any value, unless a scaling file has the mean that fills it.
static void report_void(const struct tern_csv_judging *judging, uint32_t c)
{
    const struct tern_csv_profile *profile = judging->profile;
    char number[16];
    if (profile->column[c].missing.count == profile->rows && !judging->choice->scaled) {
        report(judging, TERN_ERR_CORRUPT, "data",
               "column '%.60s' has no value in any of the %" PRIu64 " rows, so no mean: drop=%s",
               profile->column[c].name, profile->rows, tern_csv_setting_name(profile, c, number));
    }
}

static void report_feature(const struct tern_csv_judging *judging, uint32_t c)
{
    const struct tern_csv_column *column = &judging->profile->column[c];
    const bool time = column->suspect == TERN_CSV_TIME;
    if (judging->choice->missing == TERN_CSV_MISSING_REFUSE) {
        report_absent(judging, c, "the value");
    } else if (tern_csv_fills_features(judging->choice->missing)) {
        report_void(judging, c);
    }
    report_values(judging, c, &column->bad, "is not a finite number");
    if (!time) {
        report_values(judging, c, &column->huge, "is a mark of a missing value, not a measurement");
    }
}

static bool is_damaged(const struct tern_csv_judging *judging, const struct tern_csv_column *column)
{
    const bool missing = judging->choice->missing == TERN_CSV_MISSING_REFUSE ||
                         column->missing.count == judging->profile->rows;
    return column->feature &&
           column->bad.count + column->huge.count + (missing ? column->missing.count : 0) > 0;
}

static void report_features(const struct tern_csv_judging *judging)
{
    const struct tern_csv_profile *profile = judging->profile;
    uint32_t count = 0;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        if (is_damaged(judging, &profile->column[c]) && count++ < NAMED) {
            report_feature(judging, c);
        }
    }
    if (count > NAMED) {
        report(judging, TERN_ERR_CORRUPT, "data",
               "%" PRIu32 " columns have such values; %d are listed", count, NAMED);
    }
}

// Counts the missing values that column means fill; *columns: the columns with such values.
static uint64_t count_filled(const struct tern_csv_profile *profile,
                             const struct tern_csv_choice *choice, uint32_t *columns)
{
    uint64_t count = 0;
    *columns = 0;
    for (uint32_t c = 0; tern_csv_fills_features(choice->missing) && c < profile->columns.count;
         c++) {
        const struct tern_csv_column *column = &profile->column[c];
        if (column->feature && column->missing.count > 0) {
            count += column->missing.count;
            (*columns)++;
        }
    }
    return count;
}

static const struct tern_csv_column *first_missing(const struct tern_csv_profile *profile)
{
    const struct tern_csv_column *first = NULL;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        if (column->feature && column->missing.count > 0 &&
            (first == NULL || column->missing.line < first->missing.line)) {
            first = column;
        }
    }
    return first;
}

static void report_unlabelled(const struct tern_csv_judging *judging)
{
    const struct tern_csv_profile *profile = judging->profile;
    const uint32_t c = profile->columns.label;
    if (c != TERN_CSV_NO_COLUMN && profile->column[c].missing.count > 0) {
        const struct tern_csv_found *found = &profile->column[c].missing;
        report(judging, found->count < profile->rows ? TERN_OK : TERN_ERR_CORRUPT, "missing",
               "%" PRIu64 " of %" PRIu64 " rows have no %s, the first in line %" PRIu64
               ": they are skipped (missing=skip-unlabelled)",
               found->count, profile->rows, judging->choice->numeric ? "target" : "label",
               found->line);
    }
}

static void report_missing(const struct tern_csv_judging *judging)
{
    const struct tern_csv_profile *profile = judging->profile;
    uint32_t columns;
    const uint64_t filled = count_filled(profile, judging->choice, &columns);
    if (filled > 0) {
        const struct tern_csv_column *first = first_missing(profile);
        report(judging, TERN_OK, "missing",
               "%" PRIu64 " value%s in %" PRIu32 " column%s %s missing, the first in line %" PRIu64
               ", column '%.60s': the column's mean fills them; missing=skip skips such rows, "
               "missing=refuse makes them an error",
               filled, filled == 1 ? "" : "s", columns, columns == 1 ? "" : "s",
               filled == 1 ? "is" : "are", first->missing.line, first->name);
    }
    if (judging->choice->missing == TERN_CSV_MISSING_SKIP && profile->incomplete.count > 0) {
        report(judging, profile->incomplete.count < profile->rows ? TERN_OK : TERN_ERR_CORRUPT,
               "missing",
               "%" PRIu64 " of %" PRIu64 " rows lack a value, the first in line %" PRIu64
               ": they are skipped (missing=skip)",
               profile->incomplete.count, profile->rows, profile->incomplete.line);
    }
    if (judging->choice->missing == TERN_CSV_MISSING_SKIP_UNLABELLED) {
        report_unlabelled(judging);
    }
}

// --- Labels

// Returns the first label that is not a class number; labels.count: all are class numbers.
static uint32_t first_name(const struct tern_csv_profile *profile)
{
    uint32_t class;
    uint32_t first = profile->labels.count;
    for (uint32_t i = 0; i < profile->labels.count; i++) {
        if (!tern_name_is_class(profile->labels.names[i], TERN_CSV_LABELS_MAX, &class) &&
            (first == profile->labels.count ||
             profile->label[i].line < profile->label[first].line)) {
            first = i;
        }
    }
    return first;
}

static void report_names(const struct tern_csv_judging *judging, const char *column, uint32_t first)
{
    const struct tern_csv_profile *profile = judging->profile;
    char list[TERN_CSV_SENTENCE_MAX / 3];
    const bool listed = tern_csv_profile_classes(profile, list, sizeof list);
    float number;
    const bool predicts = tern_csv_number(profile->labels.names[first], &number);
    report(judging, TERN_ERR_CONFIG, "classes",
           "line %" PRIu64 ", column '%.60s': the label '%.40s' is no class number from 0: add "
           "classes=%s to data.source, with all labels, equal on all clients; or give the "
           "column of the class (label=NAME)%s",
           profile->label[first].line, column, profile->labels.names[first],
           listed ? list : "A|B|C", predicts ? " or of the number to predict (target=NAME)" : "");
}

// Finds the listed class that differs from the label only in spelling.
static bool find_variant(const char *classes, const char *label, char name[TERN_CSV_NAME_MAX])
{
    while (tern_csv_list_next(&classes, name)) {
        if (tern_csv_is_variant(name, label)) {
            return true;
        }
    }
    return false;
}

static void report_unlisted(const struct tern_csv_judging *judging, const char *column)
{
    const struct tern_csv_profile *profile = judging->profile;
    const char *classes = judging->choice->classes;
    const bool open = tern_csv_list_has_others(classes);
    uint32_t count = 0;
    for (uint32_t i = 0; i < profile->labels.count; i++) {
        const char *label = profile->labels.names[i];
        char name[TERN_CSV_NAME_MAX];
        const bool listed = tern_csv_list_has(classes, label);
        const bool variant = !listed && find_variant(classes, label, name);
        if (!listed && (variant || !open) && count++ < NAMED) {
            report(judging, TERN_ERR_NOT_FOUND, "classes",
                   "line %" PRIu64 ", column '%.60s': the label '%.40s' (%" PRIu64
                   " row%s) is not one of those in classes=%.80s%s%s%.40s%s",
                   profile->label[i].line, column, label, profile->label[i].count,
                   tern_plural(profile->label[i].count), classes, strlen(classes) > 80 ? "..." : "",
                   variant ? "; write it as '" : "", variant ? name : "", variant ? "'" : "");
        }
    }
    if (count > NAMED) {
        report(judging, TERN_ERR_NOT_FOUND, "classes",
               "%" PRIu32 " labels are not in classes=; the first %d are named above", count,
               NAMED);
    }
}

static void report_variants(const struct tern_csv_judging *judging, const char *column)
{
    const struct tern_csv_profile *profile = judging->profile;
    const uint32_t count = profile->labels.count <= COMPARED ? profile->labels.count : 0;
    uint32_t named = 0;
    for (uint32_t a = 0; a < count; a++) {
        for (uint32_t b = a + 1; b < count && named < NAMED; b++) {
            if (tern_csv_is_variant(profile->labels.names[a], profile->labels.names[b])) {
                named++;
                report(
                    judging, TERN_OK, "classes",
                    "column '%.60s': the labels '%.40s' (%" PRIu64 " row%s) and '%.40s' (%" PRIu64
                    " row%s) differ only in case, blanks or spelling, but are two classes: write "
                    "them alike",
                    column, profile->labels.names[a], profile->label[a].count,
                    tern_plural(profile->label[a].count), profile->labels.names[b],
                    profile->label[b].count, tern_plural(profile->label[b].count));
            }
        }
    }
}

// Reports classes of a sample that have one row, and may be a typing error.
static void report_alone(const struct tern_csv_judging *judging, const char *column)
{
    const struct tern_csv_profile *profile = judging->profile;
    const uint32_t labels = profile->labels.count <= COMPARED ? profile->labels.count : 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < labels && judging->sample; i++) {
        if (profile->label[i].count == 1 && tern_csv_doubt_label(profile, i) != TERN_CSV_CERTAIN &&
            count++ < NAMED) {
            report(judging, TERN_OK, "classes",
                   "line %" PRIu64 ", column '%.60s': only this row has the label '%.40s': correct "
                   "the line if it is not a class",
                   profile->label[i].line, column, profile->labels.names[i]);
        }
    }
    if (count > NAMED) {
        report(judging, TERN_OK, "classes", "%" PRIu32 " classes have one row; %d are listed",
               count, NAMED);
    }
}

static void report_labels(const struct tern_csv_judging *judging)
{
    const struct tern_csv_profile *profile = judging->profile;
    const struct tern_csv_choice *choice = judging->choice;
    const uint32_t c = profile->columns.label;
    const bool required = !choice->features_only && !tern_csv_skips_unlabelled(choice->missing);
    if (c == TERN_CSV_NO_COLUMN) {
        return;
    }
    const struct tern_csv_column *column = &profile->column[c];
    if (required) {
        report_absent(judging, c, choice->numeric ? "the target" : "the label");
    }
    if (choice->numeric) {
        report_values(judging, c, &column->bad, "is not a finite number");
        report_values(judging, c, &column->huge, "is a mark of a missing value, not a measurement");
        return;
    }
    const uint32_t name = first_name(profile);
    if (choice->classes != NULL) {
        report_unlisted(judging, column->name);
    } else if (name < profile->labels.count) {
        report_names(judging, column->name, name);
    }
    report_alone(judging, column->name);
    report_variants(judging, column->name);
}

static void report_groups(const struct tern_csv_judging *judging)
{
    const struct tern_csv_profile *profile = judging->profile;
    const uint32_t c = profile->columns.group;
    if (c != TERN_CSV_NO_COLUMN && profile->column[c].missing.count > 0) {
        const struct tern_csv_found *found = &profile->column[c].missing;
        report(judging, TERN_ERR_CORRUPT, "groups",
               "line %" PRIu64 ", column '%.60s': the group is missing (%" PRIu64 " of %" PRIu64
               " rows): fill it in, or remove the lines",
               found->line, profile->column[c].name, found->count, profile->rows);
    }
}

// Reports a column that was given by a name which could also be another column's number.
static void report_number_name(const struct tern_csv_judging *judging)
{
    const struct tern_csv_profile *profile = judging->profile;
    const uint32_t column = profile->columns.named_number;
    if (column != TERN_CSV_NO_COLUMN && judging->choice->header == TERN_CSV_HEADER_AUTO) {
        report(judging, TERN_OK, "columns",
               "'%.40s' is the name of column number %" PRIu32
               ", counted from 0, and is read as this name. To take column number %.40s, give "
               "that column's name",
               profile->column[column].name, column, profile->column[column].name);
    }
}

void tern_csv_judge(const struct tern_csv_judging *judging)
{
    report_number_name(judging);
    report_lines(judging);
    report_missing(judging);
    report_features(judging);
    report_labels(judging);
    report_groups(judging);
    report_outliers(judging);
    report_columns(judging);
}

// --- Labels that may be no classes

#define TINY 20    // in a smaller sample, a label of one row is not suspect
#define SHARE 10   // among texts, a number is suspect in at most one of so many rows
#define FAR 2      // a suspect number is so many times as large as all others
#define LISTED 160 // bytes of the classes in a message

// The other labels, counted by kind.
struct others {
    uint32_t texts;
    uint32_t numbers;
    uint32_t alone; // labels of one row, this one included
    double size;    // largest magnitude of a number
    bool plus;      // one is "+", so that "-" is a class
};

static struct others look_at_others(const struct tern_csv_profile *profile, uint32_t label)
{
    struct others others = {0};
    for (uint32_t i = 0; i < profile->labels.count; i++) {
        const char *name = profile->labels.names[i];
        double number;
        others.alone += profile->label[i].count == 1;
        if (i == label) {
            continue;
        }
        if (tern_csv_double(name, &number)) {
            others.numbers++;
            others.size = fmax(others.size, fabs(number));
        } else {
            others.texts++;
            others.plus = others.plus || strcmp(name, "+") == 0;
        }
    }
    return others;
}

// Whether a number marks a missing label: rare among texts, or one such as -999 that is far from all others.
static bool is_mark(const struct tern_csv_profile *profile, uint32_t label,
                    const struct others *others, double number)
{
    if (others->numbers == 0) {
        return others->texts > 0 &&
               (tern_csv_is_mark(number) || SHARE * profile->label[label].count <= profile->rows);
    }
    return tern_csv_is_mark(number) && fabs(number) > FAR * others->size;
}

// Whether the text is the unit of a column without one.
static bool is_no_unit(const char *text)
{
    return strcmp(text, "[-]") == 0 || strcmp(text, "(-)") == 0;
}

enum tern_csv_doubt tern_csv_doubt_label(const struct tern_csv_profile *profile, uint32_t label)
{
    const struct tern_csv_label *found = &profile->label[label];
    const char *name = profile->labels.names[label];
    const struct others others = look_at_others(profile, label);
    const bool outer = found->line == profile->first_row || found->line == profile->last_row;
    double number;
    const bool is_number = tern_csv_double(name, &number);
    if (is_number ? is_mark(profile, label, &others, number)
                  : tern_csv_is_doubtful(name) && !(others.plus && strcmp(name, "-") == 0)) {
        const bool other = is_number ? !tern_csv_is_mark(number) : is_no_unit(name);
        return other && outer && found->count == 1 && profile->rows >= TINY ? TERN_CSV_NO_ROW
                                                                            : TERN_CSV_NO_LABEL;
    }
    if (tern_csv_is_total(name)) {
        return TERN_CSV_NO_ROW;
    }
    if (found->count > 1 || profile->rows < TINY || 2 * others.alone > profile->labels.count) {
        return TERN_CSV_CERTAIN;
    }
    const bool far = !is_number || fabs(number) > FAR * others.size;
    return outer && far ? TERN_CSV_NO_ROW : TERN_CSV_ALONE;
}

// Lists the labels that are certainly classes.
static void list_certain(const struct tern_csv_profile *profile, const char *listed,
                         char list[LISTED])
{
    size_t used = 0;
    list[0] = '\0';
    for (uint32_t i = 0; i < profile->labels.count && used < LISTED; i++) {
        const char *name = profile->labels.names[i];
        if (tern_csv_list_has(listed, name) ||
            tern_csv_doubt_label(profile, i) < TERN_CSV_NO_LABEL) {
            used += (size_t)snprintf(list + used, LISTED - used, "%s%s", used > 0 ? "|" : "", name);
        }
    }
    if (used >= LISTED || used == 0) {
        snprintf(list, LISTED, "A|B|C");
    }
}

static bool ask(const struct tern_csv_profile *profile, const char *data, const char *listed,
                uint32_t label, char *why, size_t size)
{
    const char *column = profile->column[profile->columns.label].name;
    const struct tern_csv_label *found = &profile->label[label];
    const char *name = profile->labels.names[label];
    char list[LISTED];
    list_certain(profile, listed, list);
    if (tern_csv_doubt_label(profile, label) == TERN_CSV_NO_LABEL) {
        snprintf(why, size,
                 "%s: line %" PRIu64 ", column '%.60s': the label '%.40s' (%" PRIu64
                 " row%s) can be a class or a missing label: list the classes with or without it, "
                 "init --classes '%s' (data.source: classes=)",
                 data, found->line, column, name, found->count, tern_plural(found->count), list);
    } else {
        snprintf(why, size,
                 "%s: line %" PRIu64 ", column '%.60s': the label '%.40s' (%" PRIu64 " of %" PRIu64
                 " rows) can be a class, or the line may not be a row (units, a total): remove the "
                 "line, or list the class: init --classes '%s|%.40s' (data.source: classes=)",
                 data, found->line, column, name, found->count, profile->rows, list, name);
    }
    return false;
}

bool tern_csv_ask_labels(const struct tern_csv_profile *profile, const char *data,
                         const char *listed, char *why, size_t size)
{
    for (uint32_t i = 0; i < profile->labels.count; i++) {
        if (!tern_csv_list_has(listed, profile->labels.names[i]) &&
            tern_csv_doubt_label(profile, i) >= TERN_CSV_NO_LABEL) {
            return ask(profile, data, listed, i, why, size);
        }
    }
    return true;
}

// Whether the column can be the label: its texts occur three times on average.
static bool is_candidate(const struct tern_csv_profile *profile, uint32_t column)
{
    const struct tern_csv_column *found = &profile->column[column];
    const bool texts = found->bad.count > 0 && !tern_csv_is_numeric(found);
    const bool flags = column == 0 && tern_csv_has_flags(found);
    return (texts || flags) && found->texts > 1 && found->texts <= TERN_CSV_TEXTS_MAX &&
           3ull * found->texts <= profile->rows;
}

// Whether the column is named like a label: "class", "target".
static bool has_label_name(const struct tern_csv_profile *profile, uint32_t column)
{
    static const char *const names[] = {"class",    "classes", "label", "labels",
                                        "category", "target",  "klasse"};
    for (size_t i = 0; profile->columns.header && i < sizeof names / sizeof names[0]; i++) {
        if (tern_csv_is_same(profile->column[column].name, names[i])) {
            return true;
        }
    }
    return false;
}

bool tern_csv_hint_label(const struct tern_csv_profile *profile, char *hint, size_t size)
{
    const uint32_t label = profile->columns.label;
    if (label == TERN_CSV_NO_COLUMN || has_label_name(profile, label)) {
        return false;
    }
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        if (c != label && profile->column[c].feature && has_label_name(profile, c)) {
            const char *name = profile->column[c].name;
            snprintf(
                hint, size,
                "the model learns to predict the last column, '%.40s'; to predict '%.40s', use "
                "--label %.40s (data.source: label=)",
                profile->column[label].name, name, name);
            return true;
        }
    }
    if (!tern_csv_is_numeric(&profile->column[label])) {
        return false;
    }
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        if (c != label && is_candidate(profile, c)) {
            const char *name = profile->column[c].name;
            snprintf(hint, size,
                     "the model learns to predict the last column, '%.40s'; to predict '%.40s' "
                     "(%" PRIu32 " texts), use --label %.40s (data.source: label=)",
                     profile->column[label].name, name, profile->column[c].texts, name);
            return true;
        }
    }
    return false;
}

// --- Classes or a number

#define CLASSES_MAX 256

static bool refuse(char why[TERN_CSV_TASK_WHY_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse(char why[TERN_CSV_TASK_WHY_MAX], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, TERN_CSV_TASK_WHY_MAX, format, arguments);
    va_end(arguments);
    return false;
}

static const struct tern_csv_column *label_of(const struct tern_csv_profile *profile)
{
    return &profile->column[profile->columns.label];
}

// Texts meant as numbers ("<0.5", "1,5") count as numbers. Numbers with fractions are never classes, even where a small
// sample has few different ones.
bool tern_csv_is_target(const struct tern_csv_profile *profile)
{
    const struct tern_csv_column *label = label_of(profile);
    const uint64_t numbers = label->numbers + label->huge.count + label->like.count;
    const uint64_t texts = label->bad.count - label->like.count + label->doubtful.count;
    const bool many = profile->many_labels || profile->labels.count > TERN_CSV_VALUES_MAX;
    const bool fractions = label->numbers > 0 && !label->order.whole;
    return numbers > texts && (many || fractions);
}

// --- Classes

// Whether the labels are class numbers, which need no list.
static bool are_numbers(const struct tern_csv_profile *profile)
{
    uint32_t class;
    bool numbers = true;
    for (uint32_t i = 0; i < profile->labels.count; i++) {
        numbers =
            numbers && tern_name_is_class(profile->labels.names[i], profile->labels.count, &class);
    }
    return numbers;
}

// Refuses texts that mostly occur once: notes, ids, times.
static bool refuse_unique(const struct tern_csv_task *task, char why[TERN_CSV_TASK_WHY_MAX])
{
    const struct tern_csv_column *label = label_of(task->profile);
    const uint32_t count = task->profile->labels.count;
    const uint64_t rows = task->profile->rows - label->missing.count;
    return task->unique || count <= TERN_CSV_VALUES_MAX || 2ull * count <= rows
               ? true
               : refuse(why,
                        "column '%s' of %s has %" PRIu32 " different values in %" PRIu64
                        " rows, probably too many for classes: if they are classes, add --task "
                        "classification; if another column has the class, name it with --label",
                        label->name, task->data, count, rows);
}

// Refuses numbers with a text among them ("<0.5", "err"), which would be a class.
static bool refuse_mixed(const struct tern_csv_task *task, char why[TERN_CSV_TASK_WHY_MAX])
{
    const struct tern_csv_column *label = label_of(task->profile);
    return task->mixed || label->bad.count == 0 ||
                   label->numbers <= label->bad.count + label->doubtful.count
               ? true
               : refuse(why,
                        "%s: line %" PRIu64 ", column '%s': '%s' is a text among numbers (%" PRIu64
                        " of %" PRIu64 " rows): correct or remove such lines, or make each "
                        "value a class with --task classification",
                        task->data, label->bad.line, label->name, label->bad.text, label->bad.count,
                        task->profile->rows);
}

// Reports the label that a list of classes cannot have, or that the list of all of them is too long.
static bool refuse_unlisted(const struct tern_csv_task *task, char why[TERN_CSV_TASK_WHY_MAX])
{
    const struct tern_csv_profile *profile = task->profile;
    const char *column = label_of(profile)->name;
    for (uint32_t i = 0; i < profile->labels.count; i++) {
        const char *name = profile->labels.names[i];
        if (!tern_csv_is_listable(name)) {
            char shown[40];
            snprintf(shown, sizeof shown, "%s", name);
            tern_utf8_show(shown, strlen(shown));
            return refuse(why,
                          "%s: line %" PRIu64 ", column '%s': a list of classes cannot have the "
                          "label '%s', which is '*', longer than %d bytes, or has '|', quotes or a "
                          "line end: write another name, or class numbers from 0",
                          task->data, profile->label[i].line, column, shown, TERN_CSV_NAME_MAX - 1);
        }
    }
    return refuse(why,
                  "the %" PRIu32 " labels in column '%s' of %s do not fit into a list of classes "
                  "of %d bytes: write shorter names, or class numbers from 0",
                  profile->labels.count, column, task->data, TERN_CSV_CLASSES_MAX - 1);
}

bool tern_csv_list_classes(const struct tern_csv_task *task, char classes[TERN_CSV_CLASSES_MAX],
                           char why[TERN_CSV_TASK_WHY_MAX])
{
    const struct tern_csv_profile *profile = task->profile;
    const char *label = label_of(profile)->name;
    const uint32_t listed = tern_csv_list_count(task->listed);
    const uint32_t count = task->listed != NULL ? listed : profile->labels.count;
    classes[0] = '\0';
    if (profile->many_labels || count < task->least || count > CLASSES_MAX) {
        return refuse(why,
                      "column '%s' of %s has %" PRIu32
                      "%s different value%s%s, but classes are 2 to %d: give the column of the "
                      "class with --label, or of a number with --task regression%s",
                      label, task->data, count, profile->many_labels ? " and more" : "",
                      tern_plural(count),
                      count > 0          ? ""
                      : label[0] == '\0' ? " and no name (do lines end with a comma?)"
                                         : ", since it is empty",
                      CLASSES_MAX, count == 1 ? ", or detect anomalies with --task anomaly" : "");
    }
    if (task->listed != NULL) { // tern_csv_judge() checks the labels against the list
        return snprintf(classes, TERN_CSV_CLASSES_MAX, "%s", task->listed) < TERN_CSV_CLASSES_MAX
                   ? true
                   : refuse(why, "the list of classes is too long for a setting: write class "
                                 "numbers from 0 into the file");
    }
    if (!refuse_mixed(task, why) || !refuse_unique(task, why) ||
        !tern_csv_ask_labels(profile, task->data, NULL, why, TERN_CSV_TASK_WHY_MAX)) {
        return false;
    }
    return are_numbers(profile) || tern_csv_profile_classes(profile, classes, TERN_CSV_CLASSES_MAX)
               ? true
               : refuse_unlisted(task, why);
}

// --- A number

bool tern_csv_check_target(const struct tern_csv_task *task, char why[TERN_CSV_TASK_WHY_MAX])
{
    const struct tern_csv_column *label = label_of(task->profile);
    const bool differ = label->deviation > 0;
    if (differ && tern_csv_is_flat(label)) {
        return refuse(why,
                      "column '%s' of %s has numbers that are equal in 32 bits: "
                      "subtract a constant, or change the unit",
                      label->name, task->data);
    }
    if (label->huge.count > label->numbers) {
        return refuse(why,
                      "%s: line %" PRIu64 ", column '%s': '%s' is 1e15 or more, which marks a "
                      "missing value (%" PRIu64 " of %" PRIu64 " rows): change the unit",
                      task->data, label->huge.line, label->name, label->huge.text,
                      label->huge.count, task->profile->rows);
    }
    return label->numbers > label->bad.count + label->huge.count && differ
               ? true
               : refuse(why,
                        "column '%s' of %s has no different numbers%s%s%s: give the column of "
                        "the number to predict with --label",
                        label->name, task->data, label->bad.count > 0 ? ", but texts such as " : "",
                        label->bad.count > 0 ? label->bad.text : "",
                        label->like.count > 0 ? " (write 1234.5 alone)" : "");
}
