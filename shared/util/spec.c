#include "util/spec.h"

#include "build.h"
#include "util/text.h"
#include <string.h>

// A number has at most six decimals: a whole number divided by 10^6. This one division rounds like
// a decimal conversion.
enum { MAX_DECIMALS = 6, DENOMINATOR = TERN_SPEC_MILLION };

// Limits of a real number: its digits fit into 64 bits, and float64 represents the power of ten
// exactly.
enum { MAX_DIGITS = 18, MAX_POWER = 22 };

// --- Access to the fields of parameters

static uint32_t get_whole(const void *values, const struct tern_spec_parameter *parameter)
{
    uint32_t value = 0;
    memcpy(&value, (const char *)values + parameter->offset, sizeof value);
    return value;
}

// Reads a field. Not for TERN_SPEC_REAL, since entries with reals are never written.
static uint32_t get_field(const void *values, const struct tern_spec_parameter *parameter)
{
    if (parameter->kind == TERN_SPEC_NUMBER) {
        float number = 0;
        memcpy(&number, (const char *)values + parameter->offset, sizeof number);
        return (uint32_t)((double)number * DENOMINATOR + 0.5);
    }
    return get_whole(values, parameter);
}

static void set_real(void *values, const struct tern_spec_parameter *parameter, double real)
{
    memcpy((char *)values + parameter->offset, &real, sizeof real);
}

static void set_field(void *values, const struct tern_spec_parameter *parameter, uint32_t value)
{
    char *field = (char *)values + parameter->offset;
    const double real = (double)value / DENOMINATOR;
    const float number = (float)real;
    if (TERN_FOR_PEOPLE && parameter->kind == TERN_SPEC_REAL) {
        set_real(values, parameter, real);
    } else if (parameter->kind == TERN_SPEC_NUMBER) {
        memcpy(field, &number, sizeof number);
    } else {
        memcpy(field, &value, sizeof value);
    }
}

// Returns the entry's first parameter from `at` on; its key is NULL if there is none.
static const struct tern_spec_parameter *next_used(const struct tern_spec_entry *entry,
                                                   const struct tern_spec_parameter *at)
{
    while (at->key != NULL && (entry->used >> (at - entry->parameters) & 1) == 0) {
        at++;
    }
    return at;
}

#define FOR_EACH_PARAMETER(p, entry)                                                               \
    for (const struct tern_spec_parameter *p = next_used(entry, (entry)->parameters);              \
         p->key != NULL; p = next_used(entry, p + 1))

// --- Reading

// Returns where a value ends: at a comma or at the end of the text.
static bool ends_here(const char *text)
{
    return *text == '\0' || *text == ',';
}

// Reads at least one and at most `digits` decimal digits; stops where `value` would leave 32 bits.
static bool read_digits(const char **text, unsigned digits, uint32_t *value)
{
    unsigned have = 0;
    uint64_t sum = 0;
    for (; **text >= '0' && **text <= '9' && have < digits; (*text)++, have++) {
        sum = sum * 10 + (uint64_t)(**text - '0');
        if (sum > UINT32_MAX) {
            return false;
        }
    }
    *value = (uint32_t)sum;
    return have > 0;
}

// Reads "0.05", "1", "1.75" as millionths.
static bool read_number(const char **text, uint32_t *millionths)
{
    uint32_t whole = 0;
    if (!read_digits(text, 4, &whole)) {
        return false;
    }
    uint32_t decimals = 0;
    if (**text == '.') {
        (*text)++;
        const char *start = *text;
        if (!read_digits(text, MAX_DECIMALS, &decimals)) {
            return false;
        }
        for (size_t have = (size_t)(*text - start); have < MAX_DECIMALS; have++) {
            decimals *= 10;
        }
    }
    uint64_t sum = (uint64_t)whole * DENOMINATOR + decimals;
    *millionths = (uint32_t)sum;
    return sum <= UINT32_MAX;
}

static bool read_choice(const char **text, const char *const *choices, uint32_t *index)
{
    for (uint32_t i = 0; choices[i] != NULL; i++) {
        const char *rest = *text;
        if (tern_skip_prefix(&rest, choices[i]) && ends_here(rest)) {
            *text = rest;
            *index = i;
            return true;
        }
    }
    return false;
}

static bool is_built(const struct tern_spec_parameter *parameter, uint32_t value)
{
    return parameter->kind != TERN_SPEC_CHOICE || (parameter->left_out >> value & 1) == 0;
}

// Reads "0.05", "2.5e-4", "17".
static bool read_real(const char **text, double *real)
{
    uint64_t digits = 0;
    uint32_t exponent = 0;
    int count = 0;
    int decimals = -1; // digits after the point; -1: no point yet
    const char *at = *text;
    for (; (*at >= '0' && *at <= '9') || (*at == '.' && decimals < 0); at++) {
        if (*at == '.') {
            decimals = 0;
            continue;
        }
        digits = digits * 10 + (uint64_t)(*at - '0');
        count += digits > 0; // leading zeros do not count
        if (count > MAX_DIGITS) {
            return false;
        }
        decimals += decimals >= 0;
    }
    if (at == *text || at[-1] == '.' || **text == '.') {
        return false;
    }
    const bool negative = *at == 'e' && at[1] == '-';
    if (*at == 'e') {
        at += negative ? 2 : 1;
        if (!read_digits(&at, 2, &exponent)) {
            return false;
        }
    }
    int power = (negative ? -(int)exponent : (int)exponent) - (decimals > 0 ? decimals : 0);
    double scale = 1.0;
    for (int i = 0; i < power || i < -power; i++) {
        scale *= 10.0;
    }
    *real = power < 0 ? (double)digits / scale : (double)digits * scale;
    *text = at;
    return power >= -MAX_POWER && power <= MAX_POWER;
}

static bool is_real_in_range(const struct tern_spec_parameter *parameter, double real)
{
    return real <= (double)parameter->most / DENOMINATOR &&
           (real >= (double)parameter->least / DENOMINATOR ||
            (parameter->or_zero && !(real > 0.0)));
}

static bool is_in_range(const struct tern_spec_parameter *parameter, uint32_t value)
{
    return value <= parameter->most &&
           (value >= parameter->least || (parameter->or_zero && value == 0));
}

static bool read_whole_value(const char **text, const struct tern_spec_parameter *parameter,
                             void *values)
{
    uint32_t value = 0;
    const bool read = parameter->kind == TERN_SPEC_NUMBER ? read_number(text, &value)
                      : parameter->kind == TERN_SPEC_WHOLE
                          ? read_digits(text, 10, &value)
                          : read_choice(text, parameter->choices, &value);
    if (!read || !is_in_range(parameter, value) || !is_built(parameter, value)) {
        return false;
    }
    set_field(values, parameter, value);
    return true;
}

static bool read_real_value(const char **text, const struct tern_spec_parameter *parameter,
                            void *values)
{
    double real = 0.0;
    if (!read_real(text, &real) || !is_real_in_range(parameter, real)) {
        return false;
    }
    set_real(values, parameter, real);
    return true;
}

static bool read_value(const char **text, const struct tern_spec_parameter *parameter, void *values)
{
    const bool real = TERN_FOR_PEOPLE && parameter->kind == TERN_SPEC_REAL;
    const bool read =
        real ? read_real_value(text, parameter, values) : read_whole_value(text, parameter, values);
    return read && ends_here(*text);
}

// Finds the parameter whose key and "=" are at *text, and advances *text behind them; NULL: none.
static const struct tern_spec_parameter *read_key(const char **text,
                                                  const struct tern_spec_entry *entry)
{
    FOR_EACH_PARAMETER(parameter, entry)
    {
        const char *rest = *text;
        if (tern_skip_prefix(&rest, parameter->key) && *rest == '=') {
            *text = rest + 1;
            return parameter;
        }
    }
    return NULL;
}

// Reads "key=value,key=value" up to the end of the text.
static enum tern_result read_parameters(const char *text, void *values,
                                        struct tern_spec_refusal *refusal)
{
    uint32_t seen = 0;
    do {
        refusal->at = text;
        refusal->parameter = NULL;
        const struct tern_spec_parameter *parameter = read_key(&text, &refusal->entry);
        if (parameter == NULL || (seen >> (parameter - refusal->entry.parameters) & 1) != 0) {
            return TERN_ERR_ARGUMENT;
        }
        seen |= UINT32_C(1) << (parameter - refusal->entry.parameters);
        refusal->at = text;
        refusal->parameter = parameter;
        if (!read_value(&text, parameter, values)) {
            return TERN_ERR_ARGUMENT;
        }
    } while (*text++ == ',');
    return TERN_OK;
}

// Finds the entry whose name is at *text, followed by ":" or the end, and advances *text behind the
// name.
static bool read_name(const struct tern_spec_list *list, const char **text, size_t *index,
                      struct tern_spec_entry *entry)
{
    for (*index = 0; list->at(*index, entry); (*index)++) {
        const char *rest = *text;
        if (tern_skip_prefix(&rest, entry->name) && (*rest == '\0' || *rest == ':')) {
            *text = rest;
            return true;
        }
    }
    entry->name = NULL;
    return false;
}

void tern_spec_presets(const struct tern_spec_entry *entry, void *values)
{
    FOR_EACH_PARAMETER(parameter, entry)
    {
        set_field(values, parameter, parameter->preset);
    }
}

// Returns a parameter that has its preset, a choice that is not built in; NULL: none.
static const struct tern_spec_parameter *missing_choice(const struct tern_spec_entry *entry,
                                                        const void *values)
{
    FOR_EACH_PARAMETER(parameter, entry)
    {
        if (!is_built(parameter, get_whole(values, parameter))) {
            return parameter;
        }
    }
    return NULL;
}

enum tern_result tern_spec_parse(const struct tern_spec_list *list, const char *spec, void *values,
                                 size_t *index, struct tern_spec_refusal *refusal)
{
    const char *rest = spec;
    *refusal = (struct tern_spec_refusal){.list = list, .at = spec};
    if (!read_name(list, &rest, index, &refusal->entry)) {
        return TERN_ERR_UNKNOWN;
    }
    tern_spec_presets(&refusal->entry, values);
    if (*rest == ':') {
        TERN_TRY(read_parameters(rest + 1, values, refusal));
    }
    refusal->parameter = missing_choice(&refusal->entry, values);
    return refusal->parameter == NULL ? TERN_OK : TERN_ERR_ARGUMENT;
}

// --- Writing

// A text under construction that ends before `limit`, NUL included.
struct text {
    char *at;
    char *limit;
};

static void append(struct text *text, const char *more)
{
    while (*more != '\0' && text->at + 1 < text->limit) {
        *text->at++ = *more++;
    }
    *text->at = '\0';
}

static void append_whole(struct text *text, uint32_t value)
{
    char digits[11];
    char *at = digits + sizeof digits - 1;
    *at = '\0';
    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    append(text, at);
}

// Appends the number with as few decimals as possible.
static void append_number(struct text *text, uint32_t millionths)
{
    append_whole(text, millionths / DENOMINATOR);
    uint32_t rest = millionths % DENOMINATOR;
    char decimals[MAX_DECIMALS + 2] = ".";
    for (size_t i = 1; rest > 0; i++, rest %= DENOMINATOR) {
        rest *= 10;
        decimals[i] = (char)('0' + rest / DENOMINATOR);
    }
    append(text, decimals[1] != '\0' ? decimals : "");
}

static void append_value(struct text *text, const struct tern_spec_parameter *parameter,
                         uint32_t value)
{
    switch (parameter->kind) {
    case TERN_SPEC_NUMBER:
    case TERN_SPEC_REAL:
        append_number(text, value);
        break;
    case TERN_SPEC_WHOLE:
        append_whole(text, value);
        break;
    case TERN_SPEC_CHOICE:
        append(text, parameter->choices[value]);
        break;
    }
}

void tern_spec_format_preset(const struct tern_spec_parameter *parameter,
                             char text[TERN_SPEC_VALUE_MAX])
{
    struct text out = {.at = text, .limit = text + TERN_SPEC_VALUE_MAX};
    append_value(&out, parameter, parameter->preset);
}

void tern_spec_format(const struct tern_spec_entry *entry, const void *values, char *spec,
                      size_t size)
{
    struct text text = {.at = spec, .limit = spec + size};
    append(&text, entry->name);
    const char *separator = ":";
    FOR_EACH_PARAMETER(parameter, entry)
    {
        uint32_t value = get_field(values, parameter);
        if (parameter != entry->parameters && value == parameter->preset) {
            continue;
        }
        append(&text, separator);
        append(&text, parameter->key);
        append(&text, "=");
        append_value(&text, parameter, value);
        separator = ",";
    }
}

// --- Sentences

#define WORD_MAX 64

// Copies the text at `at` up to the first character that is in `ends`.
static void copy_word(const char *at, const char *ends, char word[WORD_MAX])
{
    size_t len = 0;
    while (at[len] != '\0' && len + 1 < WORD_MAX && memchr(ends, at[len], strlen(ends)) == NULL) {
        word[len] = at[len];
        len++;
    }
    word[len] = '\0';
}

static void append_quoted(struct text *text, const char *at, const char *ends)
{
    char word[WORD_MAX];
    copy_word(at, ends, word);
    append(text, "\"");
    append(text, word);
    append(text, "\"");
}

static void append_nearest(struct text *text, const struct tern_near_name *search)
{
    if (search->best != NULL) {
        append(text, "; did you mean \"");
        append(text, search->best);
        append(text, "\"?");
    }
}

static void append_names(struct text *text, const struct tern_spec_list *list)
{
    struct tern_spec_entry entry;
    for (size_t i = 0; list->at(i, &entry); i++) {
        append(text, i > 0 ? ", " : "");
        append(text, entry.name);
    }
}

static void append_keys(struct text *text, const struct tern_spec_entry *entry)
{
    const char *separator = "";
    FOR_EACH_PARAMETER(parameter, entry)
    {
        append(text, separator);
        append(text, parameter->key);
        separator = ", ";
    }
}

// Returns the name that `spec` starts with if "," or "=" follows it instead of ":"; NULL: none.
// *rest: the text after the name.
static const char *name_before_no_colon(const struct tern_spec_list *list, const char *spec,
                                        const char **rest)
{
    struct tern_spec_entry entry;
    for (size_t i = 0; list->at(i, &entry); i++) {
        *rest = spec;
        if (tern_skip_prefix(rest, entry.name) && (**rest == ',' || **rest == '=')) {
            return entry.name;
        }
    }
    return NULL;
}

static void explain_name(struct text *text, const struct tern_spec_list *list, const char *spec)
{
    char word[WORD_MAX];
    struct tern_spec_entry entry;
    const char *rest = NULL;
    const char *meant = name_before_no_colon(list, spec, &rest);
    append(text, "there is no ");
    append(text, list->what);
    append(text, " ");
    append_quoted(text, spec, meant != NULL ? "" : ":");
    if (meant != NULL) {
        append(text, "; a \":\" stands between a ");
        append(text, list->what);
        append(text, " and its parameters: \"");
        append(text, meant);
        append(text, ":");
        append(text, rest + 1);
        append(text, "\"");
        return;
    }
    copy_word(spec, ":,=", word);
    struct tern_near_name search = {.written = word, .limit = tern_near_limit(word)};
    for (size_t i = 0; list->at(i, &entry); i++) {
        tern_near_offer(&search, entry.name);
    }
    append_nearest(text, &search);
    append(text, search.best != NULL ? " There are " : "; there are ");
    append_names(text, list);
}

static void explain_key(struct text *text, const struct tern_spec_entry *entry, const char *at)
{
    char word[WORD_MAX];
    copy_word(at, ",=", word);
    struct tern_near_name search = {.written = word, .limit = tern_near_limit(word)};
    FOR_EACH_PARAMETER(parameter, entry)
    {
        tern_near_offer(&search, parameter->key);
    }
    const bool repeated = search.best != NULL && search.limit == 0 && at[strlen(word)] == '=';
    append(text, repeated ? "repeated key " : "unknown key ");
    append_quoted(text, at, ",");
    if (!repeated) {
        append_nearest(text, &search);
    }
    append(text, !repeated && search.best != NULL ? " It has " : "; it has ");
    if (next_used(entry, entry->parameters)->key == NULL) {
        append(text, "no parameters");
    }
    append_keys(text, entry);
}

void tern_spec_explain(const struct tern_spec_refusal *refusal,
                       char sentence[TERN_SPEC_SENTENCE_MAX])
{
    struct text text = {.at = sentence, .limit = sentence + TERN_SPEC_SENTENCE_MAX};
    sentence[0] = '\0';
    if (refusal->entry.name == NULL) {
        explain_name(&text, refusal->list, refusal->at);
        return;
    }
    append(&text, refusal->entry.name);
    append(&text, ": ");
    if (refusal->parameter == NULL) {
        explain_key(&text, &refusal->entry, refusal->at);
        return;
    }
    append(&text, refusal->parameter->key);
    append(&text, " is ");
    append(&text, refusal->parameter->range);
    append(&text, ", not ");
    append_quoted(&text, refusal->at, ",");
}

enum tern_result tern_spec_read(const struct tern_spec_list *list, const char *spec, void *values,
                                size_t *index, char why[TERN_SPEC_SENTENCE_MAX])
{
    struct tern_spec_refusal refusal;
    const enum tern_result result = tern_spec_parse(list, spec, values, index, &refusal);
    if (result != TERN_OK) {
        tern_spec_explain(&refusal, why);
    }
    return result;
}
