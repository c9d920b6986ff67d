// The one table of codecs, their parameters, and the modes of their payloads. A new codec is a row
// here, a file in quantizers/ or coders/, and a section of docs/FORMAT.md: spec strings, tasks,
// capabilities, command lines and --help follow from the row.
#include "codec/modes.h"

#include <string.h>

// --- Mode zero: the mode byte alone, every value is +0
// ----------------------------------------------

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

// --- Parameters
// ----------------------------------------------------------------------------------------

#define FIELD(name) offsetof(struct tern_codec, name)
#define END                                                                                        \
    {                                                                                              \
        .key = NULL                                                                                \
    }

enum { MILLION = 1000000 };

static const char *const coder_names[] = {"zero-run", "packed", "long-runs", "consecutive",
                                          "gaps",     "range",  "auto",      NULL};

#define CODER(default_coder)                                                                       \
    {                                                                                              \
        .key = "coder", .meaning = "how the ternary symbols become bytes",                         \
        .range = "zero-run, packed, long-runs, consecutive, gaps, range or auto (the smallest)",   \
        .kind = TERN_PARAMETER_CHOICE, .offset = FIELD(coder), .most = TERN_CODER_AUTO,            \
        .preset = (default_coder), .choices = coder_names                                          \
    }

static const struct tern_codec_parameter no_parameters[] = {END};

static const struct tern_codec_parameter of_3lc[] = {
    {.key = "s",
     .meaning = "sparsity multiplier: a larger one sends fewer values",
     .range = "1 to 1.999999",
     .kind = TERN_PARAMETER_NUMBER,
     .offset = FIELD(sparsity),
     .least = MILLION,
     .most = 2 * MILLION - 1,
     .preset = MILLION},
    CODER(TERN_CODER_ZERO_RUN),
    END,
};

static bool always(const struct tern_codec *codec)
{
    (void)codec;
    return true;
}

// --- Codecs
// --------------------------------------------------------------------------------------------

struct row {
    struct tern_codec_entry entry;
    const struct tern_encoder *encoder;
};

static const struct row rows[] = {
    {{.id = TERN_CODEC_FLOAT32,
      .name = "float32",
      .summary = "the values as they are",
      .source = "IEEE 754 binary32",
      .feedback = TERN_FEEDBACK_ERROR,
      .parameters = no_parameters,
      .downloads = always},
     &tern_float32_encoder},
    {{.id = TERN_CODEC_FLOAT16,
      .name = "float16",
      .summary = "half precision",
      .source = "IEEE 754 binary16",
      .feedback = TERN_FEEDBACK_ERROR,
      .parameters = no_parameters,
      .downloads = always},
     &tern_float16_encoder},
    {{.id = TERN_CODEC_3LC,
      .name = "3lc",
      .summary = "ternary, scaled by the largest magnitude",
      .source = "Lim, Andersen, Kaminsky: 3LC, MLSys 2019, section 3",
      .feedback = TERN_FEEDBACK_ERROR,
      .parameters = of_3lc,
      .downloads = always},
     &tern_3lc_encoder},
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static const struct row *row_of(enum tern_codec_id id)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (rows[i].entry.id == id) {
            return &rows[i];
        }
    }
    return NULL;
}

const struct tern_codec_entry *tern_codec_entry(enum tern_codec_id id)
{
    const struct row *row = row_of(id);
    return row != NULL ? &row->entry : NULL;
}

const struct tern_codec_entry *tern_codec_entry_at(size_t index)
{
    return index < ROW_COUNT ? &rows[index].entry : NULL;
}

const struct tern_encoder *tern_encoder_of(const struct tern_codec *codec)
{
    const struct row *row = row_of(codec->id);
    return row != NULL ? row->encoder : NULL;
}

// --- Modes
// ---------------------------------------------------------------------------------------------

static const struct tern_mode *const modes[] = {
    &zero_mode,
    &tern_float32_mode,
    &tern_float16_mode,
    &tern_ternary_zero_run_mode,
    &tern_ternary_packed_mode,
    &tern_ternary_gaps_mode,
};

const struct tern_mode *tern_mode_of(uint8_t byte)
{
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (modes[i]->byte == byte) {
            return modes[i];
        }
    }
    return NULL;
}
