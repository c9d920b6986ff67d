#include "hosted/csv_doubt.h"
#include "hosted/csv_header.h"
#include "hosted/csv_text.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TINY 20    // rows of a sample of which a single row says nothing
#define SHARE 10   // one row of so many at most has a number that is no class
#define FAR 2      // times as large as all others
#define LISTED 160 // bytes of the classes in a sentence

// Counts the other labels by kind.
struct others {
    uint32_t texts;
    uint32_t numbers;
    uint32_t alone; // labels of one row, this one included
    double size;    // of the largest number
    bool plus;      // one is "+", which stands beside "-"
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

// A number that stands for no label: rare among texts, or as loggers write it, far from all others.
static bool is_mark(const struct tern_csv_profile *profile, uint32_t label,
                    const struct others *others, double number)
{
    if (others->numbers == 0) {
        return others->texts > 0 &&
               (tern_csv_is_mark(number) || SHARE * profile->label[label].count <= profile->rows);
    }
    return tern_csv_is_mark(number) && fabs(number) > FAR * others->size;
}

// Whether a text is one that a row of units has in the label's column.
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

// The labels that are classes for certain, as a list.
static void list_certain(const struct tern_csv_profile *profile, const char *listed,
                         char list[LISTED])
{
    size_t used = 0;
    list[0] = '\0';
    for (uint32_t i = 0; i < profile->labels.count && used < LISTED; i++) {
        const char *name = profile->labels.names[i];
        if (tern_csv_lists(listed, name) || tern_csv_doubt_label(profile, i) < TERN_CSV_NO_LABEL) {
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
                 " row%s) can be a class or a missing label: list the classes, with it or without: "
                 "init --classes '%s' (data.source: classes=)",
                 data, found->line, column, name, found->count, tern_plural(found->count), list);
    } else {
        snprintf(why, size,
                 "%s: line %" PRIu64 ", column '%.60s': the label '%.40s' (%" PRIu64 " of %" PRIu64
                 " rows) can be a class, or the line no row (units, a total): "
                 "remove the line, or list it: init --classes '%s|%.40s' (data.source: classes=)",
                 data, found->line, column, name, found->count, profile->rows, list, name);
    }
    return false;
}

bool tern_csv_ask_labels(const struct tern_csv_profile *profile, const char *data,
                         const char *listed, char *why, size_t size)
{
    for (uint32_t i = 0; i < profile->labels.count; i++) {
        if (!tern_csv_lists(listed, profile->labels.names[i]) &&
            tern_csv_doubt_label(profile, i) >= TERN_CSV_NO_LABEL) {
            return ask(profile, data, listed, i, why, size);
        }
    }
    return true;
}

// Whether each of the column's texts comes again, three times on average, as classes do.
static bool is_candidate(const struct tern_csv_profile *profile, uint32_t column)
{
    const struct tern_csv_column *found = &profile->column[column];
    const bool texts = found->bad.count > 0 && !tern_csv_is_numeric(found);
    const bool flags = column == 0 && tern_csv_has_flags(found);
    return (texts || flags) && found->texts > 1 && found->texts <= TERN_CSV_TEXTS_MAX &&
           3ull * found->texts <= profile->rows;
}

// Whether the column is named as what is to be learnt.
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
                "the last column, '%.40s', is taken as what is to be learnt; if it is '%.40s', "
                "use --label %.40s (data.source: label=)",
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
                     "the last column, '%.40s', is taken as what is to be learnt; if it is '%.40s' "
                     "(%" PRIu32 " texts), use --label %.40s (data.source: label=)",
                     profile->column[label].name, name, profile->column[c].texts, name);
            return true;
        }
    }
    return false;
}
