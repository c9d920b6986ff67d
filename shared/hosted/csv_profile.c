#include "hosted/csv_profile.h"

#include "hosted/csv_text.h"
#include "util/math.h"
#include "util/text.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Far values

// Far numbers are so far beyond all others of a column that they spoil its mean and deviation: a slipped decimal point,
// an overflowed counter, a mark of a missing value. Many distant numbers are another kind of rows, and not far.

#define RANGES 100.0 // least distance of a far number from the median, in interquartile ranges
#define MOST 2       // far numbers of a column
#define MOST_OF 200  // one more far number is allowed for each 200 different numbers
#define BEYOND                                                                                     \
    10.0 // a far number is so many times as distant as the most distant number of another kind of rows

// A column's different numbers, ascending, and which end of them is examined.
struct ends {
    const double *number;
    uint32_t count;
    bool top; // the highest numbers are examined; false: the lowest
};

// Returns a number by its rank, counted from the other end.
static double at(const struct ends *ends, uint32_t rank)
{
    return ends->number[ends->top ? rank : ends->count - 1 - rank];
}

// Returns the distance from the median beyond which a number is far. The quartiles exclude the outermost number. The long
// side of a skewed column, such as a lognormal one, spreads by factors: there, the ratio of the outer to the inner
// quartile of the distances, to the power of four, limits the ratio to the typical distance.
static double find_limit(const struct ends *ends)
{
    const uint32_t others = ends->count - 1;
    const uint32_t quarter = (others - 1) / 4;
    const uint32_t middle = others / 2;
    const double range = fabs(at(ends, others - 1 - quarter) - at(ends, quarter));
    const uint32_t side = others - 1 - middle;
    double limit = RANGES * range;
    if (side > 0) {
        const double median = at(ends, middle);
        const uint32_t first = (side - 1) / 4;
        const double near = fabs(at(ends, middle + 1 + first) - median);
        const double typical = fabs(at(ends, middle + 1 + side / 2) - median);
        const double distant = fabs(at(ends, others - 1 - first) - median);
        limit = fmax(limit, typical * pow(distant / near, 4.0));
    }
    const uint32_t most = MOST + ends->count / MOST_OF;
    if (others > most) {
        limit = fmax(limit, BEYOND * fabs(at(ends, others - most) - at(ends, middle)));
    }
    return limit;
}

// Counts the far numbers at one end. number[0..count): the column's different numbers, ascending.
static uint32_t count_far(const double *number, uint32_t count, bool top)
{
    const struct ends ends = {.number = number, .count = count, .top = top};
    if (count < 3) {
        return 0;
    }
    const double limit = find_limit(&ends);
    const double median = at(&ends, (count - 1) / 2);
    uint32_t far = 0;
    while (far < count && fabs(at(&ends, count - 1 - far) - median) > limit) {
        far++;
    }
    return far;
}

// --- The profile

#define NUMBER_MAX 11              // bytes of a column's number, with the NUL
#define DISTINCT_BYTES (64u << 20) // memory for the different numbers of all columns
#define DISTINCT_MOST 65536u       // slots of one column, a power of two
#define DISTINCT_FIRST 64u         // slots at first
#define CUT 32                     // bytes of a quoted text, with the NUL

// --- Different numbers of a column

// A hash table with open addressing, at most half full.
struct tern_csv_distinct {
    double *slots;
    uint32_t room; // slots
    uint32_t count;
    bool has_zero;   // 0 is among the numbers; a slot of 0 is free
    bool full;       // there were more numbers than slots; the slots keep a sample
    uint64_t *texts; // [TERN_CSV_TEXTS_MAX] hashes of the different texts; NULL: none yet
};

static void free_distinct(struct tern_csv_distinct *seen)
{
    free(seen->slots);
    free(seen->texts);
    seen->slots = NULL;
    seen->texts = NULL;
}

static double *find_slot(double *slots, uint32_t room, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits ^ bits >> 32) * 0x9E3779B97F4A7C15u;
    uint32_t at = (uint32_t)(bits >> 40) & (room - 1);
    while (slots[at] != 0 && slots[at] != value) {
        at = (at + 1) & (room - 1);
    }
    return &slots[at];
}

// Doubles the table; false: it may not grow, or there is no memory.
static bool grow_distinct(struct tern_csv_distinct *seen, uint32_t most)
{
    const uint32_t room = seen->room == 0 ? DISTINCT_FIRST : seen->room * 2;
    double *slots = room <= most ? calloc(room, sizeof *slots) : NULL;
    if (slots == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < seen->room; i++) {
        if (seen->slots[i] != 0) {
            *find_slot(slots, room, seen->slots[i]) = seen->slots[i];
        }
    }
    free(seen->slots);
    seen->slots = slots;
    seen->room = room;
    return true;
}

static void add_distinct(struct tern_csv_distinct *seen, uint32_t most, double value)
{
    if (seen->full) {
        return;
    }
    if (value == 0) {
        seen->has_zero = true;
        return;
    }
    if (2 * seen->count >= seen->room && !grow_distinct(seen, most)) {
        seen->full = true;
        return;
    }
    double *slot = find_slot(seen->slots, seen->room, value);
    seen->count += *slot == 0;
    *slot = value;
}

static int compare_numbers(const void *a, const void *b)
{
    const double first = *(const double *)a;
    const double second = *(const double *)b;
    return (first > second) - (first < second);
}

// Replaces the table by its numbers below TERN_CSV_HUGE in ascending order, and returns their count.
static uint32_t sort_distinct(struct tern_csv_distinct *seen)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < seen->room; i++) {
        if (seen->slots[i] != 0 && seen->slots[i] < TERN_CSV_HUGE &&
            seen->slots[i] > -TERN_CSV_HUGE) {
            seen->slots[count++] = seen->slots[i];
        }
    }
    if (seen->has_zero && count < seen->room) {
        seen->slots[count++] = 0;
    }
    if (count > 0) {
        qsort(seen->slots, count, sizeof *seen->slots, compare_numbers);
    }
    return count;
}

// --- Columns

void tern_csv_profile_free(struct tern_csv_profile *profile)
{
    for (uint32_t c = 0; profile->distinct != NULL && c < profile->columns.count; c++) {
        free_distinct(&profile->distinct[c]);
    }
    tern_csv_columns_free(&profile->columns);
    tern_name_set_free(&profile->labels);
    free(profile->distinct);
    free(profile->column);
    free(profile->label);
    free(profile->names);
    free(profile->first);
    profile->distinct = NULL;
    profile->first = NULL;
    profile->names = NULL;
    profile->column = NULL;
    profile->label = NULL;
}

// A line that is kept until the other lines show its kind.
struct held_line {
    char *text;          // its fields, each with a NUL; malloc'ed
    const char **fields; // malloc'ed
    size_t len;
    uint64_t line;
    bool named; // no field is a number
};

struct profiling {
    struct tern_csv csv;
    const struct tern_csv_choice *choice;
    struct tern_csv_profile *profile;
    struct held_line first;
    struct held_line second; // the first line behind it with as many fields; text == NULL: none
    uint64_t repeats;        // lines equal to the first
    uint64_t repeat;         // line number of the first of them
    const char **fields;     // of the current line; malloc'ed
    uint32_t most_distinct;  // slots for the different numbers of one column
    bool alike;              // all ragged lines have the same number of fields
    bool ends_empty;         // the last field of every ragged line is empty
};

static enum tern_result refuse_memory(const struct tern_csv *csv)
{
    return tern_input_refuse(csv->input, TERN_ERR_NO_MEMORY, "no memory to read it");
}

static void release(struct held_line *held)
{
    free(held->text);
    free(held->fields);
    *held = (struct held_line){0};
}

static enum tern_result hold(const struct tern_csv *csv, struct held_line *held)
{
    held->text = malloc(csv->text_len);
    held->fields = malloc(csv->field_count * sizeof *held->fields);
    if (held->text == NULL || held->fields == NULL) {
        return refuse_memory(csv);
    }
    memcpy(held->text, csv->text, csv->text_len);
    held->named = true;
    for (uint32_t c = 0; c < csv->field_count; c++) {
        float number;
        held->fields[c] = held->text + csv->starts[c];
        held->named = held->named && !tern_csv_number(held->fields[c], &number);
    }
    held->len = csv->text_len;
    held->line = csv->line;
    return TERN_OK;
}

static void cut(char found[CUT], const char *text)
{
    snprintf(found, CUT, "%s", text);
    tern_utf8_show(found, tern_utf8_malformed(found, strlen(found)));
    found[tern_utf8_malformed(found, strlen(found))] = '\0'; // the cut may split a character
}

static void note(struct tern_csv_found *found, uint64_t line, const char *text)
{
    if (found->count++ == 0 || line < found->line) {
        found->line = line;
        cut(found->text, text);
    }
}

static enum tern_result begin(struct profiling *profiling)
{
    const struct tern_csv *csv = &profiling->csv;
    struct tern_csv_profile *profile = profiling->profile;
    struct tern_csv_columns *columns = &profile->columns;
    TERN_TRY(tern_csv_columns_learn(csv, profiling->choice, columns));
    TERN_TRY(hold(csv, &profiling->first));
    profile->column = calloc(columns->count, sizeof *profile->column);
    profile->distinct = calloc(columns->count, sizeof *profile->distinct);
    profiling->fields = malloc(columns->count * sizeof *profiling->fields);
    if (profile->column == NULL || profile->distinct == NULL || profiling->fields == NULL) {
        return refuse_memory(csv);
    }
    for (uint32_t c = 0; c < columns->count; c++) {
        profile->column[c].feature = !columns->skipped[c];
        profile->column[c].seen = &profile->distinct[c];
    }
    const size_t each = DISTINCT_BYTES / sizeof(double) / columns->count;
    profiling->most_distinct = each < DISTINCT_MOST ? (uint32_t)each : DISTINCT_MOST;
    return TERN_OK;
}

static enum tern_result name_columns(struct profiling *profiling)
{
    struct tern_csv_profile *profile = profiling->profile;
    const bool header = profile->columns.header;
    const size_t size = (size_t)profile->columns.count * NUMBER_MAX;
    profile->names = malloc(header ? profiling->first.len : size);
    if (profile->names == NULL) {
        return refuse_memory(&profiling->csv);
    }
    char *next = profile->names;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        profile->column[c].name = next;
        next +=
            header ? sprintf(next, "%s", profiling->first.fields[c]) : sprintf(next, "%" PRIu32, c);
        next++;
    }
    return TERN_OK;
}

// --- Rows

// Where a row goes among those added before. The held lines are added last, in front of all others.
enum place {
    BEHIND,
    BEFORE,
};

// sign: 1 for the highest number, -1 for the lowest.
static void add_edge(struct tern_csv_edge *edge, double value, uint64_t line, double sign)
{
    if (edge->count == 0 || sign * value > sign * edge->value) {
        edge->next = edge->count == 0 ? value : edge->value;
        edge->value = value;
        edge->count = 1;
        edge->line = line;
    } else if (value == edge->value) {
        edge->count++;
        edge->line = line < edge->line ? line : edge->line;
    } else if (edge->next == edge->value || sign * value > sign * edge->next) {
        edge->next = value;
    }
}

// Welford's update: mean and sum of squared deviations in one pass, without cancellation. finish_column() turns the sum
// in `deviation` into the deviation.
static void add_number(struct tern_csv_column *column, double value, uint64_t line)
{
    add_edge(&column->bottom, value, line, -1.0);
    add_edge(&column->top, value, line, 1.0);
    column->low = column->bottom.value;
    column->high = column->top.value;
    column->numbers++;
    const double off = value - column->mean;
    column->mean += off / (double)column->numbers;
    column->deviation += off * (value - column->mean);
}

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 0xCBF29CE484222325u; // FNV-1a
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * 0x100000001B3u;
    }
    return hash;
}

static void add_distinct_text(struct tern_csv_column *column, const char *text)
{
    struct tern_csv_distinct *seen = column->seen;
    const uint64_t hash = hash_text(text);
    if (seen->texts == NULL) {
        seen->texts = malloc(TERN_CSV_TEXTS_MAX * sizeof *seen->texts);
        column->texts = seen->texts != NULL ? 0 : TERN_CSV_TEXTS_MAX + 1;
    }
    if (column->texts > TERN_CSV_TEXTS_MAX) {
        return;
    }
    for (uint32_t i = 0; i < column->texts; i++) {
        if (seen->texts[i] == hash) {
            return;
        }
    }
    if (column->texts < TERN_CSV_TEXTS_MAX) {
        seen->texts[column->texts] = hash;
    }
    column->texts++;
}

static void add_text(struct tern_csv_column *column, uint64_t line, const char *text)
{
    note(&column->bad, line, text);
    if (column->feature) {
        add_distinct_text(column, text);
    }
    if (tern_csv_is_like_number(text)) {
        note(&column->like, line, text);
    }
}

static void add_value(const struct profiling *profiling, struct tern_csv_column *column,
                      uint64_t line, const char *text, enum place place)
{
    double value; // float32 would round times
    if (!tern_csv_double(text, &value)) {
        return;
    }
    if (place == BEHIND) {
        tern_csv_order_add(&column->order, value);
    } else {
        tern_csv_order_prepend(&column->order, value);
    }
    add_distinct(column->seen, profiling->most_distinct, value);
    if (value < TERN_CSV_HUGE && value > -TERN_CSV_HUGE) {
        add_number(column, value, line);
    }
}

static void add_number_text(const struct profiling *profiling, struct tern_csv_column *column,
                            uint64_t line, const char *text, float value, enum place place)
{
    add_value(profiling, column, line, text, place);
    if ((double)value >= TERN_CSV_HUGE || (double)value <= -TERN_CSV_HUGE) {
        note(&column->huge, line, text);
    }
}

// Adds a field to its column's statistics. Returns false for a missing value.
static bool add_field(const struct profiling *profiling, uint32_t c, uint64_t line,
                      const char *text, enum place place)
{
    struct tern_csv_column *column = &profiling->profile->column[c];
    const bool label = c == profiling->profile->columns.label;
    float value;
    if (column->feature && tern_csv_number(text, &value)) {
        add_number_text(profiling, column, line, text, value, place);
        return true;
    }
    if (column->feature && tern_csv_flag(text, &value)) {
        note(&column->flags, line, text);
        column->yes += value > 0;
        add_distinct_text(column, text);
        return true;
    }
    if (label ? tern_csv_lacks_label(profiling->choice, text)
              : tern_csv_is_missing(text) || tern_csv_is_doubtful(text)) {
        note(&column->missing, line, text);
        return false;
    }
    if (tern_csv_is_doubtful(text)) {
        note(&column->doubtful, line, text);
    } else if (!tern_csv_number(text, &value)) {
        add_text(column, line, text);
    } else {
        add_number_text(profiling, column, line, text, value, place);
    }
    return true;
}

static enum tern_result add_label(const struct profiling *profiling, uint64_t line,
                                  const char *text)
{
    uint32_t number;
    struct tern_csv_profile *profile = profiling->profile;
    const uint32_t known = profile->labels.count;
    const enum tern_result result = tern_name_set_find(&profile->labels, text, true, &number);
    if (result == TERN_ERR_TOO_LARGE) {
        profile->many_labels = true;
        return TERN_OK;
    }
    if (result != TERN_OK) {
        return refuse_memory(&profiling->csv);
    }
    if (number == known || line < profile->label[number].line) {
        profile->label[number].line = line;
    }
    profile->label[number].count++;
    return TERN_OK;
}

static enum tern_result add_row(const struct profiling *profiling, const char *const *fields,
                                uint64_t line, enum place place)
{
    struct tern_csv_profile *profile = profiling->profile;
    const struct tern_csv_columns *columns = &profile->columns;
    const char *lacks = NULL;
    bool labelled = columns->label != TERN_CSV_NO_COLUMN && !profiling->choice->numeric;
    for (uint32_t c = 0; c < columns->count; c++) {
        if ((profile->column[c].feature || c == columns->label) &&
            !add_field(profiling, c, line, fields[c], place)) {
            labelled = labelled && c != columns->label;
            lacks = lacks != NULL ? lacks : fields[c];
        }
    }
    if (columns->group != TERN_CSV_NO_COLUMN && fields[columns->group][0] == '\0') {
        note(&profile->column[columns->group].missing, line, "");
    }
    if (lacks != NULL) {
        note(&profile->incomplete, line, lacks);
    }
    profile->first_row =
        profile->rows == 0 || line < profile->first_row ? line : profile->first_row;
    profile->last_row = line > profile->last_row ? line : profile->last_row;
    profile->rows++;
    return labelled ? add_label(profiling, line, fields[columns->label]) : TERN_OK;
}

static bool is_empty(const struct tern_csv *csv)
{
    return csv->text_len == csv->field_count; // only the NUL of each field
}

// Whether the record repeats the first line; ignoring case where that line has no numbers (named).
static bool is_repeated(const struct tern_csv *csv, const char *first, size_t first_len, bool named)
{
    if (csv->text_len == first_len && memcmp(csv->text, first, first_len) == 0) {
        return true;
    }
    for (uint32_t c = 0; named && c < csv->field_count; c++) {
        if (!tern_csv_is_same(tern_csv_field(csv, c), first)) {
            return false;
        }
        first += strlen(first) + 1;
    }
    return named;
}

static void add_ragged(struct profiling *profiling)
{
    const struct tern_csv *csv = &profiling->csv;
    struct tern_csv_profile *profile = profiling->profile;
    const bool first = profile->ragged.count == 0;
    note(&profile->ragged, csv->line, tern_csv_field(csv, 0));
    profiling->alike =
        (first || profiling->alike) && (first || csv->field_count == profile->ragged_fields);
    profiling->ends_empty =
        (first || profiling->ends_empty) && tern_csv_field(csv, csv->field_count - 1)[0] == '\0';
    profile->ragged_fields = first ? csv->field_count : profile->ragged_fields;
}

static enum tern_result add_line(struct profiling *profiling)
{
    const struct tern_csv *csv = &profiling->csv;
    struct tern_csv_profile *profile = profiling->profile;
    const struct held_line *first = &profiling->first;
    if (is_empty(csv)) {
        note(&profile->skipped[TERN_CSV_EMPTY - 1], csv->line, "");
        return TERN_OK;
    }
    if (csv->field_count != profile->columns.count) {
        add_ragged(profiling);
        return TERN_OK;
    }
    if (is_repeated(csv, first->text, first->len, first->named)) {
        profiling->repeat = profiling->repeats == 0 ? csv->line : profiling->repeat;
        profiling->repeats++;
        return TERN_OK;
    }
    if (profiling->second.text == NULL && profile->rows == 0) {
        return hold(csv, &profiling->second);
    }
    for (uint32_t c = 0; c < csv->field_count; c++) {
        profiling->fields[c] = tern_csv_field(csv, c);
    }
    return add_row(profiling, profiling->fields, csv->line, BEHIND);
}

// --- Whether the first line names the columns

#define NAMES 4u       // fewest numbers 0, 1, 2, ... or 1, 2, 3, ... of a first line that are names
#define ROWS 10        // fewest rows that show a column's range
#define MANY_LABELS 20 // most different numbers that can be classes

bool tern_csv_has_flags(const struct tern_csv_column *column)
{
    const bool binary = column->numbers == 0 || (column->low >= 0 && column->high <= 1 &&
                                                 (column->order.count == 0 || column->order.whole));
    return column->flags.count > 0 && column->bad.count == 0 && column->huge.count == 0 && binary;
}

// Facts about the first line.
struct evidence {
    const char *text;   // its last text in a column of numbers; NULL: there is none
    uint32_t texts;     // its texts in columns of numbers
    const char *number; // its last number in a column of numbers; NULL: there is none
    double last;        // its last number
    uint32_t counted;   // its numbers
    bool counts;        // its numbers are whole, each one more than the one before
    bool outside;       // its numbers are whole, and outside the range of their columns
    bool fractions;     // a column of one of its numbers has fractions
    bool seen_label;    // its label is a text that other lines have
    bool new_label;     // only this line has its label, while other labels repeat
};

bool tern_csv_is_numeric(const struct tern_csv_column *column)
{
    const bool flags = tern_csv_has_flags(column);
    const uint64_t texts = column->bad.count + column->doubtful.count;
    return column->numbers + column->huge.count + (flags ? column->flags.count : 0) >
           texts + (flags ? 0 : column->flags.count);
}

static void gather_number(struct evidence *found, const struct tern_csv_column *column,
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
        found->number = text; // a number above texts may be a name
    }
    found->counted++;
    found->last = value;
}

static void gather_field(struct evidence *found, const struct tern_csv_column *column,
                         const char *text)
{
    float value;
    if (tern_csv_has_flags(column) && tern_csv_flag(text, &value)) {
        return; // can be a name or a value
    }
    if (tern_csv_number(text, &value)) {
        gather_number(found, column, text);
    } else if (!tern_csv_is_missing(text) && tern_csv_is_numeric(column)) {
        found->text = text;
        found->texts++;
    }
}

// Whether labels repeat, as classes do.
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

static void gather_label(struct evidence *found, struct tern_csv_profile *profile,
                         const struct tern_csv_choice *choice, const char *text)
{
    float value;
    uint32_t number;
    if (choice->numeric || tern_csv_lacks_label(choice, text)) {
        return;
    }
    const bool seen = tern_name_set_find(&profile->labels, text, false, &number) == TERN_OK;
    const bool listed = tern_csv_list_has(choice->classes, text);
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

// Whether a line of numbers is more likely a line of names ("2019,2020,2021" above measurements) than a row.
static bool is_odd_row(const struct evidence *found)
{
    return (found->counts && found->counted >= NAMES - 1) ||
           ((found->counts || found->outside) && found->fractions && found->counted > 1);
}

// Decides whether the first line names the columns or is a row, where the user did not choose. first: its fields; the
// profile has all other lines. TERN_ERR_CONFIG: it can be either
static enum tern_result decide_header(const struct tern_input *input,
                                      struct tern_csv_profile *profile,
                                      const struct tern_csv_choice *choice,
                                      const char *const *first)
{
    const struct tern_csv_columns *columns = &profile->columns;
    struct evidence found = {.counts = true, .outside = true};
    for (uint32_t c = 0; c < columns->count; c++) {
        if (!columns->skipped[c] || c == columns->label) {
            gather_field(&found, &profile->column[c], first[c]);
        }
    }
    const char *label = columns->label != TERN_CSV_NO_COLUMN ? first[columns->label] : "";
    gather_label(&found, profile, choice, label);
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

// --- The first lines

// Whether the second line has texts in all columns of numbers, at least two, and the first line has names there.
static bool has_units(const struct profiling *profiling)
{
    const struct tern_csv_profile *profile = profiling->profile;
    uint32_t texts = 0;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        const char *text = profiling->second.fields[c];
        float value;
        if (column->numbers == 0 || !tern_csv_is_numeric(column)) {
            continue;
        }
        if (tern_csv_number(text, &value) || tern_csv_number(profiling->first.fields[c], &value)) {
            return false;
        }
        texts += !tern_csv_is_missing(text);
    }
    return texts > 1;
}

static enum tern_result add_second(struct profiling *profiling)
{
    const struct held_line *second = &profiling->second;
    if (second->text == NULL) {
        return TERN_OK;
    }
    if (profiling->choice->header != TERN_CSV_HEADER_NO && has_units(profiling)) {
        note(&profiling->profile->skipped[TERN_CSV_UNITS - 1], second->line, second->fields[0]);
        return TERN_OK;
    }
    return add_row(profiling, second->fields, second->line, BEFORE);
}

// Adds the first line as a row, and with it the lines that repeat it.
static enum tern_result add_first(struct profiling *profiling)
{
    const struct held_line *first = &profiling->first;
    for (uint64_t i = 0; i < profiling->repeats; i++) {
        TERN_TRY(add_row(profiling, first->fields, first->line, BEHIND));
    }
    return add_row(profiling, first->fields, first->line, BEFORE);
}

static enum tern_result refuse_unnamed(const struct profiling *profiling)
{
    return tern_input_refuse(profiling->csv.input, TERN_ERR_CONFIG,
                             "the first line is a row of numbers, so that there is no column "
                             "'%.40s': add a line with the columns' names above it, or give the "
                             "column's number from 0",
                             profiling->choice->label);
}

// Decides from all other lines whether the first line is a header, then names the columns or adds the row.
static enum tern_result take_first(struct profiling *profiling)
{
    struct tern_csv_profile *profile = profiling->profile;
    const struct tern_csv_choice *choice = profiling->choice;
    const bool only_named = profile->columns.only_named != TERN_CSV_NO_COLUMN;
    if (choice->header == TERN_CSV_HEADER_AUTO && !profile->columns.header) {
        const enum tern_result decided =
            decide_header(profiling->csv.input, profile, choice, profiling->first.fields);
        // A choice that is no column's number, and that the first line has, answers the question.
        profile->columns.header =
            profile->columns.header || (decided == TERN_ERR_CONFIG && only_named);
        TERN_TRY(profile->columns.header ? TERN_OK : decided);
    }
    TERN_TRY(name_columns(profiling));
    if (!profile->columns.header && only_named) {
        return tern_input_refuse(profiling->csv.input, TERN_ERR_NOT_FOUND,
                                 "has no column '%.40s': line 1 is a row, and the %" PRIu32
                                 " columns are numbered from 0. If line 1 has their names, add "
                                 "header=yes to data.source (init: --header yes)",
                                 profiling->first.fields[profile->columns.only_named],
                                 profile->columns.count);
    }
    if (!profile->columns.header) {
        if (choice->features_only && choice->label != NULL &&
            choice->header != TERN_CSV_HEADER_NO && profile->columns.label == TERN_CSV_NO_COLUMN) {
            return refuse_unnamed(profiling);
        }
        return add_first(profiling);
    }
    profile->first = profiling->first.text;
    profile->first_len = profiling->first.len;
    profile->first_named = profiling->first.named;
    profiling->first.text = NULL;
    if (profiling->repeats > 0) {
        profile->skipped[TERN_CSV_REPEATED - 1] =
            (struct tern_csv_found){.count = profiling->repeats, .line = profiling->repeat};
    }
    return TERN_OK;
}

// --- The end

// Explains why no line has as many fields as the first.
static enum tern_result refuse_ragged(const struct profiling *profiling)
{
    const struct tern_csv_profile *profile = profiling->profile;
    const uint32_t first = profile->columns.count;
    const uint32_t others = profile->ragged_fields;
    const char *why = "";
    if (profiling->alike && others == first + 1) {
        why = profiling->ends_empty
                  ? ": lines end with a comma; remove it (sed 's/,$//' FILE > NEW)"
                  : ": the header lacks a name for the row names, as R's write.table writes it; "
                    "write with row.names=FALSE, or add a name";
    } else if (profiling->alike && others + 1 == first) {
        why = ": does the first line end with a comma?";
    } else if (profiling->alike && others > first + 1 && first > 1) {
        why = ": are decimals written with commas (2,22)? Write points (2.22)";
    } else if (first == 1) {
        why = ": is the first line a title? Remove it (tail -n +2 FILE > NEW)";
    }
    return tern_input_refuse(
        profiling->csv.input, TERN_ERR_CORRUPT, "line %llu has %u field%s, the first line %u%s",
        (unsigned long long)profile->ragged.line, others, tern_plural(others), first, why);
}

bool tern_csv_is_flat(const struct tern_csv_column *column)
{
    const double size = fabs(column->mean) > FLT_MIN ? fabs(column->mean) : FLT_MIN;
    return column->deviation < size * FLT_EPSILON;
}

bool tern_csv_read_value(const struct tern_csv_column *column, const char *text, float *value)
{
    return tern_csv_number(text, value) ||
           (tern_csv_has_flags(column) && tern_csv_flag(text, value));
}

// Counts a column's flags as numbers, or as bad texts.
static void settle_flags(struct tern_csv_column *column)
{
    const struct tern_csv_found flags = column->flags;
    if (!tern_csv_has_flags(column)) {
        column->bad.count += flags.count;
        if (column->bad.count == flags.count && flags.count > 0) {
            column->bad = flags;
        }
        column->flags.count = 0;
        return;
    }
    const double ones = column->mean * (double)column->numbers + (double)column->yes;
    const bool has_zero = column->yes < flags.count || (column->numbers > 0 && column->low < 1);
    column->numbers += flags.count;
    column->mean = ones / (double)column->numbers;
    column->deviation = column->mean * (1 - column->mean);
    column->low = has_zero ? 0 : 1;
    column->high = ones > 0 ? 1 : 0;
}

static void finish_flags(struct tern_csv_column *column)
{
    column->deviation = tern_sqrt(column->deviation);
    column->distinct = 1 + (column->low < column->high);
    column->suspect = TERN_CSV_MEASURES;
    free_distinct(column->seen);
}

static void finish_column(const struct tern_csv_profile *profile, struct tern_csv_column *column)
{
    settle_flags(column);
    if (column->flags.count > 0) {
        finish_flags(column);
        return;
    }
    const double n = (double)column->numbers;
    column->deviation = column->numbers > 0 ? tern_sqrt(column->deviation / n) : 0;
    column->distinct = column->seen->full ? 0 : column->seen->count + column->seen->has_zero;
    const struct tern_csv_spread spread = {.numbers = column->numbers,
                                           .low = column->low,
                                           .high = column->high,
                                           .mean = column->mean,
                                           .deviation = column->deviation,
                                           .distinct = column->distinct};
    column->suspect = tern_csv_order_judge(&column->order, &spread,
                                           profile->columns.header ? column->name : NULL);
    const uint32_t count = sort_distinct(column->seen);
    column->bottom.far = count_far(column->seen->slots, count, false);
    column->top.far = count_far(column->seen->slots, count, true);
    free_distinct(column->seen);
}

static enum tern_result finish(struct profiling *profiling)
{
    struct tern_csv_profile *profile = profiling->profile;
    const bool ragged = profile->ragged.count > profile->rows;
    if (ragged && profiling->second.text == NULL) {
        return refuse_ragged(profiling);
    }
    TERN_TRY(add_second(profiling));
    TERN_TRY(take_first(profiling));
    if (profile->rows == 0) {
        return tern_input_refuse(profiling->csv.input, TERN_ERR_CORRUPT, "has no rows of data");
    }
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        finish_column(profile, &profile->column[c]);
    }
    return TERN_OK;
}

// Replaces the error about the columns of a first line that has one field: it is probably a title above the table.
static enum tern_result refuse_title(struct tern_csv *csv, enum tern_result result)
{
    const uint64_t line = csv->line;
    char title[32];
    bool more;
    if (csv->field_count > 1 || strpbrk(tern_csv_field(csv, 0), "=;|\t") != NULL) {
        return result;
    }
    snprintf(title, sizeof title, "%s", tern_csv_field(csv, 0));
    do {
        if (tern_csv_next(csv, &more) != TERN_OK || !more) {
            return result;
        }
    } while (csv->field_count == 1);
    const unsigned long long head = csv->line;
    return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                             "line %llu ('%s') has 1 field, line %llu has %u. Remove titles and "
                             "remarks above the table (tail -n +%llu FILE > NEW)",
                             (unsigned long long)line, title, head, csv->field_count, head);
}

static enum tern_result read_all(struct profiling *profiling)
{
    struct tern_csv *csv = &profiling->csv;
    bool more;
    TERN_TRY(tern_csv_next(csv, &more));
    while (more && is_empty(csv)) {
        note(&profiling->profile->skipped[TERN_CSV_EMPTY - 1], csv->line, "");
        TERN_TRY(tern_csv_next(csv, &more));
    }
    if (!more) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT, "has no rows of data");
    }
    const enum tern_result result = begin(profiling);
    if (result != TERN_OK) {
        return refuse_title(csv, result);
    }
    TERN_TRY(tern_csv_next(csv, &more));
    while (more) {
        for (uint64_t before = csv->empty_lines; before > 0; before--) {
            note(&profiling->profile->skipped[TERN_CSV_EMPTY - 1], csv->line - before, "");
        }
        TERN_TRY(add_line(profiling));
        TERN_TRY(tern_csv_next(csv, &more));
    }
    return finish(profiling);
}

enum tern_csv_line tern_csv_profile_line(const struct tern_csv_profile *profile,
                                         const struct tern_csv *csv)
{
    if (is_empty(csv)) {
        return TERN_CSV_EMPTY;
    }
    if (profile->skipped[TERN_CSV_UNITS - 1].count > 0 &&
        profile->skipped[TERN_CSV_UNITS - 1].line == csv->line) {
        return TERN_CSV_UNITS;
    }
    return profile->first != NULL && csv->field_count == profile->columns.count &&
                   is_repeated(csv, profile->first, profile->first_len, profile->first_named)
               ? TERN_CSV_REPEATED
               : TERN_CSV_ROW;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool tern_csv_is_listable(const char *name)
{
    return strpbrk(name, "|\"\r\n") == NULL && strcmp(name, "*") != 0 &&
           tern_utf8_is_text(name, strlen(name)) && strlen(name) < TERN_CSV_NAME_MAX;
}

bool tern_csv_profile_classes(const struct tern_csv_profile *profile, char *text, size_t size)
{
    const uint32_t count = profile->labels.count;
    text[0] = '\0';
    if (count == 0) { // a table with a target, or without labels
        return true;
    }
    char **names = malloc(count * sizeof *names);
    size_t used = 0;
    if (names == NULL) {
        return false;
    }
    memcpy(names, profile->labels.names, count * sizeof *names);
    qsort(names, count, sizeof *names, compare_names);
    bool fits = true;
    for (uint32_t i = 0; fits && i < count; i++) {
        fits = tern_csv_is_listable(names[i]) && used + strlen(names[i]) + 2 <= size;
        used += fits
                    ? (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? "|" : "", names[i])
                    : 0;
    }
    free(names);
    return fits;
}

static enum tern_result read_profile(struct tern_input *input, const struct tern_csv_choice *choice,
                                     struct tern_csv_profile *profile)
{
    memset(profile, 0, sizeof *profile);
    tern_name_set_init(&profile->labels, TERN_CSV_LABELS_MAX);
    struct profiling *profiling = calloc(1, sizeof *profiling);
    profile->label = calloc(TERN_CSV_LABELS_MAX, sizeof *profile->label);
    if (profiling == NULL || profile->label == NULL) {
        free(profiling);
        return tern_input_refuse(input, TERN_ERR_NO_MEMORY, "no memory to read it");
    }
    profiling->choice = choice;
    profiling->profile = profile;
    tern_csv_begin(&profiling->csv, input, TERN_CSV_FEATURES_MAX + 64);
    const enum tern_result result = read_all(profiling);
    tern_csv_end(&profiling->csv);
    release(&profiling->first);
    release(&profiling->second);
    free(profiling->fields);
    free(profiling);
    return result;
}

enum tern_result tern_csv_profile_read(struct tern_input *input,
                                       const struct tern_csv_choice *choice,
                                       struct tern_csv_profile *profile)
{
    TERN_TRY(read_profile(input, choice, profile));
    if (!profile->columns.header || !profile->columns.number_is_name) {
        return TERN_OK;
    }
    // The first line turned out to name the columns, and the choice has a number that is one of these names.
    struct tern_csv_choice by_name = *choice;
    by_name.header = TERN_CSV_HEADER_YES;
    tern_csv_profile_free(profile);
    TERN_TRY(tern_input_rewind(input));
    return read_profile(input, &by_name, profile);
}
