// Spec strings: "float32", "3lc:s=1.5".
#include "codec/codec.h"

#include "util/prefix.h"
#include <stdbool.h>
#include <string.h>

// X(id, name, usage): every codec, and how its spec is written, with what separates it.
#define CODEC_LIST(X)                                                                              \
    X(TERN_CODEC_FLOAT32, "float32", "float32 ")                                                   \
    X(TERN_CODEC_FLOAT16, "float16", "float16 ")                                                   \
    X(TERN_CODEC_3LC, "3lc", "3lc[:s=1..1.999]")

static const char *const names[] = {
#define CODEC_NAME(id, name, usage) [(id)] = (name),
    CODEC_LIST(CODEC_NAME)
#undef CODEC_NAME
};

enum { NAME_COUNT = sizeof names / sizeof names[0] };

// Decimals of a number, so that it is a whole number of 24 bits over 10^6 and its one division
// rounds as a decimal conversion does.
enum { MAX_DECIMALS = 6, DENOMINATOR = 1000000 };

const char *tern_codec_names(void)
{
#define CODEC_USAGE(id, name, usage) usage
    return CODEC_LIST(CODEC_USAGE);
#undef CODEC_USAGE
}

// Reads "1", "1.5", "1.75": a number of [1, 2) up to the end of the text.
static bool parse_sparsity(const char *text, float *value)
{
    uint32_t millionths = DENOMINATOR;
    if (*text++ != '1') {
        return false;
    }
    if (*text == '.') {
        text++;
        uint32_t unit = DENOMINATOR / 10;
        if (*text == '\0') {
            return false;
        }
        for (; *text >= '0' && *text <= '9' && unit > 0; text++, unit /= 10) {
            millionths += (uint32_t)(*text - '0') * unit;
        }
    }
    *value = (float)millionths / (float)DENOMINATOR;
    return *text == '\0';
}

// Reads what follows the name: nothing, or ":s=NUMBER" where the codec has an s.
static enum tern_result parse_parameters(const char *text, struct tern_codec *codec,
                                         const char **wrong)
{
    *wrong = text;
    if (*text == '\0') {
        return TERN_OK;
    }
    const char *key = text + 1;
    *wrong = key;
    const char *number = key;
    if (codec->id != TERN_CODEC_3LC || !tern_skip_prefix(&number, "s=")) {
        return TERN_ERR_ARGUMENT;
    }
    *wrong = number;
    return parse_sparsity(number, &codec->sparsity) ? TERN_OK : TERN_ERR_ARGUMENT;
}

enum tern_result tern_codec_parse(const char *spec, struct tern_codec *codec, const char **bad)
{
    enum tern_result result = TERN_ERR_UNKNOWN;
    const char *wrong = spec;
    struct tern_codec parsed = {.sparsity = 1};
    for (size_t i = 0; i < NAME_COUNT; i++) {
        const char *rest = spec;
        if (tern_skip_prefix(&rest, names[i]) && (*rest == '\0' || *rest == ':')) {
            parsed.id = (enum tern_codec_id)i;
            result = parse_parameters(rest, &parsed, &wrong);
            break;
        }
    }
    if (result == TERN_OK) {
        *codec = parsed;
    } else if (bad != NULL) {
        *bad = wrong;
    }
    return result;
}

static char *append(char *end, const char *text)
{
    while (*text != '\0') {
        *end++ = *text++;
    }
    return end;
}

// Writes a number of [1, 2) in the fewest decimals that parse_sparsity() reads back as the same.
static char *append_sparsity(char *end, float value)
{
    uint32_t rest = (uint32_t)((double)value * DENOMINATOR + 0.5) - DENOMINATOR;
    *end++ = '1';
    if (rest > 0) {
        *end++ = '.';
    }
    while (rest > 0) {
        rest *= 10;
        *end++ = (char)('0' + rest / DENOMINATOR);
        rest %= DENOMINATOR;
    }
    return end;
}

void tern_codec_format(const struct tern_codec *codec, char spec[TERN_CODEC_SPEC_MAX])
{
    size_t id = (size_t)codec->id;
    char *end = append(spec, id < NAME_COUNT ? names[id] : "?");
    if (codec->id == TERN_CODEC_3LC) {
        end = append_sparsity(append(end, ":s="), codec->sparsity);
    }
    *end = '\0';
}
