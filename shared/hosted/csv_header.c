#include "hosted/csv_header.h"
#include "hosted/csv_text.h"
#include <stdlib.h>
#include <string.h>

#define NAMES 4u       // so many numbers that count the columns from 0 or 1 are names
#define ROWS 10        // fewer show little of a column's range
#define MANY_LABELS 20 // different numbers of which more are no classes

// What the first line shows.
bool tern_csv_has_flags(const struct tern_csv_column *column)
{
    const bool binary = column->numbers == 0 || (column->low >= 0 && column->high <= 1 &&
                                                 (column->order.count == 0 || column->order.whole));
    return column->flags.count > 0 && column->bad.count == 0 && column->huge.count == 0 && binary;
}

struct evidence {
    const char *text;   // a text in a column of numbers; NULL: there is none
    uint32_t texts;     // how many there are
    const char *number; // a number in such a column
    double last;        // the number before
    uint32_t counted;   // numbers
    bool counts;        // they are whole numbers, each one more than the one before
    bool outside;       // they are whole, and none is in the range of its column's other numbers
    bool fractions;     // one of their columns has numbers with fractions
    bool seen_label;    // its label is a text that other lines have
    bool new_label;     // no other line has its label, and labels do come again
};

bool tern_csv_is_numeric(const struct tern_csv_column *column)
{
    const bool flags = tern_csv_has_flags(column);
    const uint64_t texts = column->bad.count + column->doubtful.count;
    return column->numbers + column->huge.count + (flags ? column->flags.count : 0) >
           texts + (flags ? 0 : column->flags.count);
}

static void look_at_number(struct evidence *found, const struct tern_csv_column *column,
                           const char *text)
{
    double value;
    (void)tern_csv_double(text, &value);
    const bool numeric = tern_csv_is_numeric(column) || column->bad.count == 0;
    const bool whole = text[strspn(text, "0123456789")] == '\0';
    found->counts = found->counts && whole && (found->counted == 0 || value == found->last + 1);
    if (numeric) {
        found->outside = found->outside && whole && column->numbers >= ROWS &&
                         (value < column->low || value > column->high);
        found->fractions = found->fractions || (column->numbers >= ROWS && !column->order.whole);
        found->number = text; // above texts it may be a name
    }
    found->counted++;
    found->last = value;
}

static void look_at_field(struct evidence *found, const struct tern_csv_column *column,
                          const char *text)
{
    float value;
    if (tern_csv_has_flags(column) && tern_csv_flag(text, &value)) {
        return; // a name as good as a value
    }
    if (tern_csv_number(text, &value)) {
        look_at_number(found, column, text);
    } else if (!tern_csv_is_missing(text) && tern_csv_is_numeric(column)) {
        found->text = text;
        found->texts++;
    }
}

// Whether labels come again, as classes do.
static bool has_classes(const struct tern_csv_profile *profile)
{
    const struct tern_csv_column *column = &profile->column[profile->columns.label];
    uint64_t most = 0;
    for (uint32_t i = 0; i < profile->labels.count; i++) {
        most = profile->label[i].count > most ? profile->label[i].count : most;
    }
    return most > 1 && !profile->many_labels &&
           (!tern_csv_is_numeric(column) ||
            (profile->labels.count <= MANY_LABELS && column->order.whole));
}

static void look_at_label(struct evidence *found, struct tern_csv_profile *profile,
                          const struct tern_csv_choice *choice, const char *text)
{
    float value;
    uint32_t number;
    if (choice->numeric || tern_csv_lacks_label(choice, text)) {
        return;
    }
    const bool seen = tern_name_set_find(&profile->labels, text, false, &number) == TERN_OK;
    const bool listed = tern_csv_lists(choice->classes, text);
    found->seen_label = (seen || listed) && !tern_csv_number(text, &value);
    found->new_label = !seen && !listed && has_classes(profile);
}

static enum tern_result ask(const struct tern_input *input, const char *name, const char *value)
{
    if (strcmp(name, value) == 0) {
        return tern_input_refuse(
            input, TERN_ERR_CONFIG,
            "line 1 can be a row or the columns' names ('%.20s', ...): add "
            "header=no or header=yes to data.source (init: --header no or yes)",
            name);
    }
    return tern_input_refuse(input, TERN_ERR_CONFIG,
                             "line 1 can be a row ('%.20s') or the columns' names ('%.20s'): add "
                             "header=no or header=yes to data.source (init: --header no or yes)",
                             value, name);
}

// Whether numbers look more like names ("2019,2020,2021" above measurements) than like a row.
static bool is_odd_row(const struct evidence *found)
{
    return (found->counts && found->counted >= NAMES - 1) ||
           ((found->counts || found->outside) && found->fractions && found->counted > 1);
}

enum tern_result tern_csv_header_decide(const struct tern_input *input,
                                        struct tern_csv_profile *profile,
                                        const struct tern_csv_choice *choice,
                                        const char *const *first)
{
    const struct tern_csv_columns *columns = &profile->columns;
    struct evidence found = {.counts = true, .outside = true};
    for (uint32_t c = 0; c < columns->count; c++) {
        if (!columns->skipped[c] || c == columns->label) {
            look_at_field(&found, &profile->column[c], first[c]);
        }
    }
    const char *label = columns->label != TERN_CSV_NO_COLUMN ? first[columns->label] : "";
    look_at_label(&found, profile, choice, label);
    if (found.number == NULL && profile->rows == 0) {
        profile->columns.header = true;
        return TERN_OK;
    }
    if (found.number == NULL) {
        profile->columns.header = !(found.text == NULL && found.seen_label);
        return found.texts == 1 && found.seen_label ? ask(input, found.text, label) : TERN_OK;
    }
    if (found.counts && found.counted >= NAMES && found.last <= found.counted) {
        profile->columns.header = true;
        return TERN_OK;
    }
    if (found.text != NULL || found.new_label || is_odd_row(&found)) {
        return ask(input,
                   found.text != NULL ? found.text
                   : found.new_label  ? label
                                      : first[0],
                   found.number);
    }
    profile->columns.header = false;
    return TERN_OK;
}
