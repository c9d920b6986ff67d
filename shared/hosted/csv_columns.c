#include "hosted/csv_columns.h"

#include "hosted/csv_profile.h"
#include "hosted/csv_text.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void tern_csv_columns_free(struct tern_csv_columns *columns)
{
    free(columns->skipped);
    free(columns->place);
    columns->skipped = NULL;
    columns->place = NULL;
}

// Reads a column number from 0, or from -1 backwards.
static bool read_index(const char *text, uint32_t columns, uint32_t *column)
{
    char *end = NULL;
    long number = strtol(text, &end, 10);
    const char *digits = text + (text[0] == '-');
    if (strlen(digits) > 8 || digits[0] < '0' || digits[0] > '9' || *end != '\0') {
        return false;
    }
    number = text[0] == '-' ? (long)columns + number : number;
    *column = number < 0 || number >= (long)columns ? columns : (uint32_t)number;
    return true;
}

// Finds the first column with this name at or after `from`; csv->field_count: there is none.
static uint32_t find_name(const struct tern_csv *csv, const char *text, uint32_t from)
{
    uint32_t column = from;
    while (column < csv->field_count && strcmp(tern_csv_field(csv, column), text) != 0) {
        column++;
    }
    return column;
}

// Refuses a name that two columns have.
static enum tern_result check_unique(const struct tern_csv *csv, const char *text, uint32_t first,
                                     bool is_number)
{
    const uint32_t second = find_name(csv, text, first + 1);
    return second >= csv->field_count
               ? TERN_OK
               : tern_input_refuse(csv->input, TERN_ERR_CONFIG,
                                   "has two columns '%.40s', number %u and %u from 0: %srename one",
                                   text, first, second,
                                   is_number ? "" : "give the number instead of the name, or ");
}

static enum tern_result refuse_column(const struct tern_csv *csv, const char *text)
{
    return tern_input_refuse(csv->input, TERN_ERR_NOT_FOUND,
                             "has no column '%.40s' among the %u of its first line ('%.30s', ...)",
                             text, csv->field_count, tern_csv_field(csv, 0));
}

// Takes a text that can be a column's number. Until the first line is known to name the columns, a name equal to the number
// is only noted in *columns; then tern_csv_profile_read() learns the columns again.
static uint32_t take_number(struct tern_csv_columns *columns, uint32_t by_number, uint32_t by_name)
{
    const uint32_t count = columns->count;
    if (by_name == count || by_name == by_number) {
        return by_number;
    }
    if (!columns->header) {
        columns->number_is_name = true;
        columns->only_named = by_number == count ? by_name : columns->only_named;
        return by_number < count ? by_number : by_name;
    }
    columns->named_number = by_number < count ? by_name : columns->named_number;
    return by_name;
}

// Finds a column by its name in the header line, or by number; a name goes before a number. TERN_CSV_NO_COLUMN: it is
// missing, which new data may be.
static enum tern_result find_column(const struct tern_csv *csv,
                                    const struct tern_csv_choice *choice,
                                    struct tern_csv_columns *columns, const char *text,
                                    uint32_t *column)
{
    const bool is_number = read_index(text, columns->count, column);
    const bool names = choice->header != TERN_CSV_HEADER_NO;
    if (!is_number && !names) {
        return tern_input_refuse(csv->input, TERN_ERR_CONFIG,
                                 "with header=no columns have no names: give a number from 0 "
                                 "instead of '%.40s'",
                                 text);
    }
    const uint32_t by_name = find_name(csv, text, names ? 0 : columns->count);
    if (!is_number || columns->header) {
        TERN_TRY(check_unique(csv, text, by_name, is_number));
    }
    *column = is_number ? take_number(columns, *column, by_name) : by_name;
    columns->header = columns->header || (!is_number && *column < columns->count);
    if (*column < columns->count) {
        return TERN_OK;
    }
    // Only the last column can be missing by number: without another one, the columns behind it would shift.
    const bool last = is_number && strtoul(text, NULL, 10) == columns->count;
    if ((!is_number || last) && choice->features_only) {
        *column = TERN_CSV_NO_COLUMN;
        return TERN_OK;
    }
    return refuse_column(csv, text);
}

bool tern_csv_list_next(const char **rest, char name[TERN_CSV_NAME_MAX])
{
    if (*rest == NULL) {
        return false;
    }
    size_t len = strcspn(*rest, "|");
    size_t kept = len < TERN_CSV_NAME_MAX - 1 ? len : TERN_CSV_NAME_MAX - 1;
    memcpy(name, *rest, kept);
    name[kept] = '\0';
    *rest = (*rest)[len] == '|' ? *rest + len + 1 : NULL;
    return true;
}

bool tern_csv_list_has(const char *names, const char *name)
{
    char listed[TERN_CSV_NAME_MAX];
    while (tern_csv_list_next(&names, listed)) {
        if (strcmp(listed, name) == 0) {
            return true;
        }
    }
    return false;
}

uint32_t tern_csv_list_count(const char *names)
{
    char name[TERN_CSV_NAME_MAX];
    uint32_t count = 0;
    while (tern_csv_list_next(&names, name)) {
        count++;
    }
    return count;
}

bool tern_csv_list_has_others(const char *classes)
{
    const size_t len = classes != NULL ? strlen(classes) : 0;
    return len > 1 && strcmp(classes + len - 2, "|*") == 0;
}

bool tern_csv_lacks_label(const struct tern_csv_choice *choice, const char *text)
{
    double number;
    const bool closed = choice->numeric || choice->classes != NULL;
    const bool mark =
        choice->classes != NULL && tern_csv_double(text, &number) && tern_csv_is_mark(number);
    return (tern_csv_is_missing(text) || mark || (closed && tern_csv_is_doubtful(text))) &&
           !tern_csv_list_has(choice->classes, text);
}

static void skip(struct tern_csv_columns *columns, uint32_t column)
{
    if (column != TERN_CSV_NO_COLUMN) {
        columns->skipped[column] = true;
    }
}

// Skips the columns of a list such as "a,b", where no column has that name.
static enum tern_result skip_comma_list(const struct tern_csv *csv,
                                        struct tern_csv_columns *columns,
                                        const struct tern_csv_choice *choice, char *names)
{
    for (char *name = names; name != NULL;) {
        char *comma = strchr(name, ',');
        uint32_t column;
        if (comma != NULL) {
            *comma = '\0';
        }
        TERN_TRY(find_column(csv, choice, columns, name, &column));
        skip(columns, column);
        name = comma != NULL ? comma + 1 : NULL;
    }
    return TERN_OK;
}

static enum tern_result skip_listed(const struct tern_csv *csv, struct tern_csv_columns *columns,
                                    const struct tern_csv_choice *choice)
{
    char name[TERN_CSV_NAME_MAX];
    const char *rest = choice->drop;
    while (tern_csv_list_next(&rest, name)) {
        uint32_t column;
        if (strchr(name, ',') != NULL && find_name(csv, name, 0) == columns->count) {
            TERN_TRY(skip_comma_list(csv, columns, choice, name));
            continue;
        }
        TERN_TRY(find_column(csv, choice, columns, name, &column));
        skip(columns, column);
    }
    return TERN_OK;
}

static enum tern_result skip_columns(const struct tern_csv *csv, struct tern_csv_columns *columns,
                                     const struct tern_csv_choice *choice)
{
    TERN_TRY(skip_listed(csv, columns, choice));
    if (columns->label != TERN_CSV_NO_COLUMN && columns->skipped[columns->label]) {
        return tern_input_refuse(csv->input, TERN_ERR_CONFIG, "drop= lists the label's column");
    }
    skip(columns, columns->label);
    if (columns->group == columns->label && columns->group != TERN_CSV_NO_COLUMN) {
        return tern_input_refuse(csv->input, TERN_ERR_CONFIG, "group names the label's column");
    }
    skip(columns, columns->group);
    for (uint32_t c = 0; c < columns->count; c++) {
        columns->features += !columns->skipped[c];
    }
    if (columns->features > 0) {
        return TERN_OK;
    }
    return columns->count > 1
               ? tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                   "has no features: every column but the label's is dropped. Drop "
                                   "fewer columns")
               : tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                   "has no features: line %llu ('%.40s') is one field. Separate "
                                   "fields by commas, outside of quotes",
                                   (unsigned long long)csv->line, tern_csv_field(csv, 0));
}

// Whether the line has two or more numbers with blanks between them: "1.5 20 3".
static bool is_row_of_blanks(const char *line)
{
    uint32_t numbers = 0;
    while (*line != '\0') {
        const size_t len = strspn(line, "0123456789+-.eE");
        if (len == 0 || (line[len] != ' ' && line[len] != '\0')) {
            return false;
        }
        numbers++;
        line += len + strspn(line + len, " ");
    }
    return numbers > 1;
}

// Whether the line has semicolons between decimals with commas: "1,5;2,5".
static bool has_decimal_commas(const struct tern_csv *csv)
{
    uint32_t semicolons = 0; // behind the digits of a fraction
    for (uint32_t c = 0; c < csv->field_count; c++) {
        const char *field = tern_csv_field(csv, c);
        const size_t digits = strspn(field, "0123456789");
        semicolons += digits > 0 && field[digits + strspn(field + digits, " \t")] == ';';
    }
    return semicolons > 0 && 2 * semicolons >= csv->field_count - 1;
}

// A separator other than the comma.
struct separator {
    const char *name;
    const char *pattern;   // in an extended regular expression of sed
    const char *character; // the separator in a list such as [^;]
};

// Finds the separator in the table's first line; NULL: the comma.
static const struct separator *other_separator(const struct tern_csv *csv, const char *line)
{
    static const struct separator semicolons = {"semicolons", ";", ";"};
    static const struct separator tabs = {"tabs", "\\t", "\\t"};
    static const struct separator bars = {"bars", "[|]", "|"};
    static const struct separator blanks = {"blanks", " +", " "};
    if (csv->field_count > 1) {
        return has_decimal_commas(csv) ? &semicolons : NULL;
    }
    return strchr(line, ';') != NULL    ? &semicolons
           : strchr(line, '\t') != NULL ? &tabs
           : strchr(line, '|') != NULL  ? &bars
           : is_row_of_blanks(line)     ? &blanks
                                        : NULL;
}

// Refuses a first line that is Excel's "sep=" hint, or has another separator than the comma.
static enum tern_result check_separator(const struct tern_csv *csv)
{
    const char *line = tern_csv_field(csv, 0);
    if (strncasecmp(line, "sep=", 4) == 0) {
        return tern_input_refuse(
            csv->input, TERN_ERR_CORRUPT,
            "line 1 is '%.10s', a hint for spreadsheets: remove it (tail -n +2 "
            "FILE > NEW)%s",
            line, line[4] == '\0' ? "" : ", and separate fields by commas");
    }
    const struct separator *found = other_separator(csv, line);
    if (found == NULL) {
        return TERN_OK;
    }
    const char *one = found->pattern;
    const char *no = found->character;
    // The command changes decimals, quotes other fields with a comma, and then replaces the separators.
    return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                             "the first line has %s between its fields ('%.30s'): write commas, "
                             "and decimals with points (sed -E ':a;s/(^|%s)([-+]?[0-9]*),"
                             "([0-9eE+-]+)(%s|\\r?$)/\\1\\2.\\3\\4/;ta;s/(^|%s)([^%s\"]*,[^%s\"]*)"
                             "/\\1\"\\2\"/g;s/%s/,/g' FILE > NEW)",
                             found->name, line, one, one, one, no, no, one);
}

// Assigns the columns of new data by the names in its header line; columns that are no features are skipped.
static enum tern_result learn_by_name(const struct tern_csv *csv, struct tern_csv_names *trained,
                                      struct tern_csv_columns *columns)
{
    columns->header = true;
    columns->label = TERN_CSV_NO_COLUMN;
    columns->features = trained->features.count;
    columns->place = malloc(columns->count * sizeof *columns->place);
    if (columns->place == NULL) {
        return tern_input_refuse(csv->input, TERN_ERR_NO_MEMORY, "no memory for its columns");
    }
    TERN_TRY(tern_csv_names_place(trained, csv, columns->place));
    for (uint32_t c = 0; c < columns->count; c++) {
        const bool is_label =
            trained->label != NULL && strcmp(tern_csv_field(csv, c), trained->label) == 0;
        columns->skipped[c] = columns->place[c] == TERN_CSV_NO_COLUMN;
        columns->label = is_label && columns->skipped[c] ? c : columns->label;
    }
    return TERN_OK;
}

static enum tern_result learn(const struct tern_csv *csv, const struct tern_csv_choice *choice,
                              bool header, struct tern_csv_columns *columns)
{
    memset(columns, 0, sizeof *columns);
    columns->count = csv->field_count;
    columns->header = header;
    columns->named_number = TERN_CSV_NO_COLUMN;
    columns->only_named = TERN_CSV_NO_COLUMN;
    columns->label = choice->unlabelled ? TERN_CSV_NO_COLUMN : columns->count - 1;
    columns->group = TERN_CSV_NO_COLUMN;
    columns->skipped = calloc(columns->count, sizeof *columns->skipped);
    if (columns->skipped == NULL) {
        return tern_input_refuse(csv->input, TERN_ERR_NO_MEMORY, "no memory for its columns");
    }
    if (choice->trained != NULL && choice->header != TERN_CSV_HEADER_NO &&
        tern_csv_names_head(choice->trained, csv)) {
        return learn_by_name(csv, choice->trained, columns);
    }
    if (choice->label != NULL) {
        TERN_TRY(find_column(csv, choice, columns, choice->label, &columns->label));
    }
    if (choice->group != NULL) {
        TERN_TRY(find_column(csv, choice, columns, choice->group, &columns->group));
    }
    TERN_TRY(skip_columns(csv, columns, choice));
    return choice->trained != NULL && choice->header != TERN_CSV_HEADER_NO
               ? tern_csv_names_check_order(choice->trained, csv, columns->skipped)
               : TERN_OK;
}

enum tern_result tern_csv_columns_learn(const struct tern_csv *csv,
                                        const struct tern_csv_choice *choice,
                                        struct tern_csv_columns *columns)
{
    memset(columns, 0, sizeof *columns);
    TERN_TRY(check_separator(csv));
    const enum tern_result result =
        learn(csv, choice, choice->header == TERN_CSV_HEADER_YES, columns);
    if (!columns->header || !columns->number_is_name) {
        return result;
    }
    tern_csv_columns_free(columns); // another column was found by name: numbers can be names, too
    return learn(csv, choice, true, columns);
}

// --- Columns by the names of the trained table

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
        if (names->features.count == before) { // two features have this name
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
    uint32_t texts = 0; // names among them that are not numbers
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
                                       "has two columns '%.40s', but the model finds its features "
                                       "by name: rename or remove one",
                                       name);
        } else {
            seen[place[c]] = true;
        }
    }
    for (uint32_t f = 0; f < count && result == TERN_OK; f++) {
        if (!seen[f]) {
            result = tern_input_refuse(csv->input, TERN_ERR_NOT_FOUND,
                                       "has no column '%.40s', which the table of data.source "
                                       "has: columns are found by name (the first line starts "
                                       "with '%.30s')",
                                       names->features.names[f], tern_csv_field(csv, 0));
        }
    }
    free(seen);
    return result;
}

// Whether the record has the name of a feature, and is a header line rather than a row.
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
