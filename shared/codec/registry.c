// Finds the built-in codecs and coders (build.h), their spec strings, and the modes of their payloads.
#include "codec/coders/ternary.h"

#include <string.h>

#define SAME_ID(codec, symbol, id)                                                                 \
    _Static_assert(TERN_CODEC_##symbol == (id), "TERN_CODECS gives a codec the id of another");
TERN_CODECS(SAME_ID)

// --- Mode zero: a payload without a body, all of whose values are +0

static enum tern_result zero_check(const uint8_t *body, size_t len, size_t count)
{
    (void)body;
    (void)count;
    return len == 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

static void zero_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    (void)body;
    (void)len;
    if (count > 0) {
        memset(dst, 0, count * sizeof *dst);
    }
}

static void zero_accumulate(const uint8_t *body, size_t len, float weight, float *acc, size_t count)
{
    (void)body;
    (void)len;
    (void)weight;
    (void)acc;
    (void)count;
}

static void zero_describe(const uint8_t *body, size_t len, size_t count,
                          struct tern_codec_info *info)
{
    (void)body;
    (void)len;
    (void)count;
    (void)info;
}

static const struct tern_mode zero_mode = {
    .byte = TERN_MODE_ZERO,
    .ternary = true,
    .name = "zero",
    .check = zero_check,
    .decode = zero_decode,
    .accumulate = zero_accumulate,
    .describe = zero_describe,
};

// --- Codecs

#define ROW_OF(codec, symbol, id) &tern_##codec##_codec,
static const struct tern_codec_row *const rows[] = {TERN_CODECS(ROW_OF)};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

const struct tern_codec_row *tern_codec_row(enum tern_codec_id id)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (rows[i]->entry.id == id) {
            return rows[i];
        }
    }
    return NULL;
}

const struct tern_codec_entry *tern_codec_entry(enum tern_codec_id id)
{
    const struct tern_codec_row *row = tern_codec_row(id);
    return row != NULL ? &row->entry : NULL;
}

const struct tern_codec_entry *tern_codec_entry_at(size_t index)
{
    return index < ROW_COUNT ? &rows[index]->entry : NULL;
}

bool tern_codec_is_ternary(const struct tern_codec *codec)
{
    return tern_codec_row(codec->id)->entry.ternary;
}

uint32_t tern_codec_coders(void)
{
    return TERN_CODERS_BUILT;
}

// --- Spec strings

static struct tern_spec_entry spec_entry(const struct tern_codec_entry *entry)
{
    return (struct tern_spec_entry){entry->name, entry->parameters, TERN_SPEC_ALL};
}

static bool spec_at(size_t index, struct tern_spec_entry *entry)
{
    if (index >= ROW_COUNT) {
        return false;
    }
    *entry = spec_entry(&rows[index]->entry);
    return true;
}

const struct tern_spec_list tern_codec_specs = {.what = "codec", .at = spec_at};

enum tern_result tern_codec_parse(const char *spec, struct tern_codec *codec,
                                  struct tern_spec_refusal *refusal)
{
    struct tern_spec_refusal why;
    struct tern_codec parsed = {.id = 0};
    size_t index = 0;
    const enum tern_result result = tern_spec_parse(&tern_codec_specs, spec, &parsed, &index, &why);
    if (result == TERN_OK) {
        parsed.id = rows[index]->entry.id;
        *codec = parsed;
    } else if (refusal != NULL) {
        *refusal = why;
    }
    return result;
}

struct tern_codec tern_codec_preset(const struct tern_codec_entry *entry)
{
    struct tern_codec codec = {.id = entry->id};
    const struct tern_spec_entry spec = spec_entry(entry);
    tern_spec_presets(&spec, &codec);
    for (const struct tern_spec_parameter *p = entry->parameters; p->key != NULL; p++) {
        if (p->kind == TERN_SPEC_CHOICE && (p->left_out >> p->preset & 1) != 0) {
            const uint32_t first = (uint32_t)__builtin_ctz(~p->left_out);
            memcpy((char *)&codec + p->offset, &first, sizeof first);
        }
    }
    return codec;
}

void tern_codec_format(const struct tern_codec *codec, char spec[TERN_CODEC_SPEC_MAX])
{
    const struct tern_codec_entry *entry = tern_codec_entry(codec->id);
    if (entry == NULL) {
        memcpy(spec, "?", 2);
        return;
    }
    const struct tern_spec_entry known = spec_entry(entry);
    tern_spec_format(&known, codec, spec, TERN_CODEC_SPEC_MAX);
}

// --- Modes

#define MODE_OF_CODER(coder, symbol) &tern_ternary_##coder##_mode,
static const struct tern_mode *const shared_modes[] = {&zero_mode, TERN_CODERS(MODE_OF_CODER)};

const struct tern_mode *tern_mode_of(uint8_t byte)
{
    for (size_t i = 0; i < sizeof shared_modes / sizeof shared_modes[0]; i++) {
        if (shared_modes[i]->byte == byte) {
            return shared_modes[i];
        }
    }
    for (size_t i = 0; i < ROW_COUNT; i++) {
        for (const struct tern_mode *const *mode = rows[i]->modes; *mode != NULL; mode++) {
            if ((*mode)->byte == byte) {
                return *mode;
            }
        }
    }
    return NULL;
}
