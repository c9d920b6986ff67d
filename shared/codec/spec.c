// Spec strings, "3lc:s=1.5", read and written by the parameters of the table.
#include "codec/codec.h"

#include "util/prefix.h"
#include <stdbool.h>
#include <string.h>

// Numbers have six decimals at most, so that one is a whole number over 10^6 and its one division
// rounds as a decimal conversion does.
enum { MAX_DECIMALS = 6, DENOMINATOR = 1000000 };

// --- Fields of a codec by their parameter

static uint32_t get_whole(const struct tern_codec *codec,
                          const struct tern_codec_parameter *parameter)
{
    uint32_t value = 0;
    memcpy(&value, (const char *)codec + parameter->offset, sizeof value);
    return value;
}

static uint32_t get_field(const struct tern_codec *codec,
                          const struct tern_codec_parameter *parameter)
{
    if (parameter->kind == TERN_PARAMETER_NUMBER) {
        float number = 0;
        memcpy(&number, (const char *)codec + parameter->offset, sizeof number);
        return (uint32_t)((double)number * DENOMINATOR + 0.5);
    }
    return get_whole(codec, parameter);
}

static void set_field(struct tern_codec *codec, const struct tern_codec_parameter *parameter,
                      uint32_t value)
{
    char *field = (char *)codec + parameter->offset;
    if (parameter->kind == TERN_PARAMETER_NUMBER) {
        float number = (float)((double)value / DENOMINATOR);
        memcpy(field, &number, sizeof number);
        return;
    }
    memcpy(field, &value, sizeof value);
}

// --- Reading

// Where a value ends: at a comma or the end of the text.
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

static bool is_built(const struct tern_codec_parameter *parameter, uint32_t value)
{
    return parameter->kind != TERN_PARAMETER_CHOICE || (parameter->left_out >> value & 1) == 0;
}

static bool read_value(const char **text, const struct tern_codec_parameter *parameter,
                       uint32_t *value)
{
    bool read = false;
    switch (parameter->kind) {
    case TERN_PARAMETER_NUMBER:
        read = read_number(text, value);
        break;
    case TERN_PARAMETER_WHOLE:
        read = read_digits(text, 10, value);
        break;
    case TERN_PARAMETER_CHOICE:
        read = read_choice(text, parameter->choices, value);
        break;
    }
    return read && ends_here(*text) && *value >= parameter->least && *value <= parameter->most &&
           is_built(parameter, *value);
}

// The parameter whose key and "=" stand at *text, which is moved behind them; NULL when there is
// none. *index: which it is.
static const struct tern_codec_parameter *
read_key(const char **text, const struct tern_codec_entry *entry, unsigned *index)
{
    for (*index = 0; entry->parameters[*index].key != NULL; (*index)++) {
        const struct tern_codec_parameter *parameter = &entry->parameters[*index];
        const char *rest = *text;
        if (tern_skip_prefix(&rest, parameter->key) && *rest == '=') {
            *text = rest + 1;
            return parameter;
        }
    }
    return NULL;
}

// Reads "key=value,key=value" up to the end of the text.
static enum tern_result read_parameters(const char *text, struct tern_codec *codec,
                                        struct tern_codec_refusal *refusal)
{
    uint32_t seen = 0;
    do {
        unsigned index = 0;
        refusal->at = text;
        refusal->parameter = NULL;
        const struct tern_codec_parameter *parameter = read_key(&text, refusal->entry, &index);
        if (parameter == NULL || (seen & 1u << index) != 0) {
            return TERN_ERR_ARGUMENT;
        }
        seen |= 1u << index;
        refusal->at = text;
        refusal->parameter = parameter;
        uint32_t value = 0;
        if (!read_value(&text, parameter, &value)) {
            return TERN_ERR_ARGUMENT;
        }
        set_field(codec, parameter, value);
    } while (*text++ == ',');
    return TERN_OK;
}

// The entry whose name stands at *spec, followed by ":" or the end; *rest: what follows the name.
static const struct tern_codec_entry *read_name(const char *spec, const char **rest)
{
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        *rest = spec;
        if (tern_skip_prefix(rest, entry->name) && (**rest == '\0' || **rest == ':')) {
            return entry;
        }
    }
    return NULL;
}

static struct tern_codec preset_of(const struct tern_codec_entry *entry)
{
    struct tern_codec codec = {.id = entry->id};
    for (const struct tern_codec_parameter *p = entry->parameters; p->key != NULL; p++) {
        set_field(&codec, p, p->preset);
    }
    return codec;
}

struct tern_codec tern_codec_preset(const struct tern_codec_entry *entry)
{
    struct tern_codec codec = preset_of(entry);
    for (const struct tern_codec_parameter *p = entry->parameters; p->key != NULL; p++) {
        if (!is_built(p, p->preset)) {
            set_field(&codec, p, (uint32_t)__builtin_ctz(~p->left_out));
        }
    }
    return codec;
}

// The parameter whose preset is not built in and that the spec string left at it; NULL: none.
static const struct tern_codec_parameter *lacking(const struct tern_codec_entry *entry,
                                                  const struct tern_codec *codec)
{
    for (const struct tern_codec_parameter *p = entry->parameters; p->key != NULL; p++) {
        if (!is_built(p, get_whole(codec, p))) {
            return p;
        }
    }
    return NULL;
}

enum tern_result tern_codec_parse(const char *spec, struct tern_codec *codec,
                                  struct tern_codec_refusal *refusal)
{
    const char *rest = spec;
    struct tern_codec_refusal why = {.at = spec, .entry = read_name(spec, &rest)};
    enum tern_result result = TERN_ERR_UNKNOWN;
    struct tern_codec parsed = {.id = 0};
    if (why.entry != NULL) {
        parsed = preset_of(why.entry);
        result = *rest == '\0' ? TERN_OK : read_parameters(rest + 1, &parsed, &why);
    }
    if (result == TERN_OK && (why.parameter = lacking(why.entry, &parsed)) != NULL) {
        result = TERN_ERR_ARGUMENT;
    }
    if (result == TERN_OK) {
        *codec = parsed;
    } else if (refusal != NULL) {
        *refusal = why;
    }
    return result;
}

// --- Writing

// Text that ends at `limit` at the latest, NUL included.
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

// In the fewest decimals.
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

static void append_value(struct text *text, const struct tern_codec_parameter *parameter,
                         uint32_t value)
{
    switch (parameter->kind) {
    case TERN_PARAMETER_NUMBER:
        append_number(text, value);
        break;
    case TERN_PARAMETER_WHOLE:
        append_whole(text, value);
        break;
    case TERN_PARAMETER_CHOICE:
        append(text, parameter->choices[value]);
        break;
    }
}

void tern_codec_format(const struct tern_codec *codec, char spec[TERN_CODEC_SPEC_MAX])
{
    const struct tern_codec_entry *entry = tern_codec_entry(codec->id);
    struct text text = {.at = spec, .limit = spec + TERN_CODEC_SPEC_MAX};
    append(&text, entry != NULL ? entry->name : "?");
    const char *separator = ":";
    for (size_t i = 0; entry != NULL && entry->parameters[i].key != NULL; i++) {
        const struct tern_codec_parameter *parameter = &entry->parameters[i];
        uint32_t value = get_field(codec, parameter);
        if (i > 0 && value == parameter->preset) {
            continue;
        }
        append(&text, separator);
        append(&text, parameter->key);
        append(&text, "=");
        append_value(&text, parameter, value);
        separator = ",";
    }
}

static void append_names(struct text *text)
{
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        append(text, i > 0 ? ", " : "");
        append(text, entry->name);
    }
}

// The refused text, up to the next comma for a value.
static void append_quoted(struct text *text, const char *at, bool value)
{
    char quoted[TERN_CODEC_SPEC_MAX];
    size_t len = 0;
    while (at[len] != '\0' && len + 1 < sizeof quoted && !(value && at[len] == ',')) {
        quoted[len] = at[len];
        len++;
    }
    quoted[len] = '\0';
    append(text, "\"");
    append(text, quoted);
    append(text, "\"");
}

static void append_keys(struct text *text, const struct tern_codec_entry *entry)
{
    append(text, entry->parameters[0].key != NULL ? "; it has " : "; it has no parameters");
    for (size_t i = 0; entry->parameters[i].key != NULL; i++) {
        append(text, i > 0 ? ", " : "");
        append(text, entry->parameters[i].key);
    }
}

// The codec whose name stands at the beginning, with something else behind it than ":" or the end.
static const struct tern_codec_entry *name_before_no_colon(const char *spec, const char **rest)
{
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        *rest = spec;
        if (tern_skip_prefix(rest, entry->name) && (**rest == ',' || **rest == '=')) {
            return entry;
        }
    }
    return NULL;
}

static void append_codecs(struct text *text, const char *spec)
{
    const char *rest = NULL;
    const struct tern_codec_entry *meant = name_before_no_colon(spec, &rest);
    if (meant == NULL) {
        append(text, "; there are ");
        append_names(text);
        return;
    }
    append(text, "; a \":\" stands between a codec and its parameters: \"");
    append(text, meant->name);
    append(text, ":");
    append(text, rest + 1);
    append(text, "\"");
}

void tern_codec_explain(const struct tern_codec_refusal *refusal,
                        char sentence[TERN_CODEC_SENTENCE_MAX])
{
    struct text text = {.at = sentence, .limit = sentence + TERN_CODEC_SENTENCE_MAX};
    const struct tern_codec_entry *entry = refusal->entry;
    sentence[0] = '\0';
    if (entry == NULL) {
        append(&text, "there is no codec ");
        append_quoted(&text, refusal->at, false);
        append_codecs(&text, refusal->at);
        return;
    }
    append(&text, entry->name);
    append(&text, ": ");
    if (refusal->parameter == NULL) {
        append(&text, "unknown or repeated parameter ");
        append_quoted(&text, refusal->at, false);
        append_keys(&text, entry);
        return;
    }
    append(&text, refusal->parameter->key);
    append(&text, " is ");
    append(&text, refusal->parameter->range);
    append(&text, ", not ");
    append_quoted(&text, refusal->at, true);
}
