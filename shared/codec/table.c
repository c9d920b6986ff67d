// The one table of codecs, their parameters, and the modes of their payloads. A new codec is a row
// here, its name in build.h, a file in quantizers/ or coders/, and a section of docs/FORMAT.md:
// spec strings, tasks, capabilities, command lines and --help follow from the row.
#include "codec/modes.h"

#include "build.h"
#include <string.h>

// What only people read.
#if TERN_FOR_PEOPLE
#define HELP(text) text
#else
#define HELP(text) ""
#endif

// --- Mode zero: the mode byte alone, every value is +0

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

#define FIELD(name) offsetof(struct tern_codec, name)
#define END                                                                                        \
    {                                                                                              \
        .key = NULL                                                                                \
    }

enum { MILLION = 1000000 };

static const char *const coder_names[] = {"zero-run", "packed", "long-runs", "consecutive",
                                          "gaps",     "range",  "auto",      NULL};

#define CODER_BIT(coder, symbol) | 1u << TERN_CODER_##symbol
#define CODERS (0u TERN_CODERS(CODER_BIT))
#define CODERS_LEFT_OUT (TERN_CODERS_ALL & ~CODERS)

#define CODER(default_coder)                                                                       \
    {                                                                                              \
        .key = "coder", .meaning = HELP("how the ternary symbols become bytes"),                   \
        .range =                                                                                   \
            HELP("zero-run, packed, long-runs, consecutive, gaps, range or auto (the smallest)"),  \
        .kind = TERN_PARAMETER_CHOICE, .offset = FIELD(coder), .most = TERN_CODER_AUTO,            \
        .preset = (default_coder), .choices = coder_names, .left_out = CODERS_LEFT_OUT             \
    }

static const struct tern_codec_parameter no_parameters[] = {END};

static const struct tern_codec_parameter of_3lc[] = {
    {.key = "s",
     .meaning = HELP("sparsity multiplier: a larger one sends fewer values"),
     .range = HELP("1 to 1.999999"),
     .kind = TERN_PARAMETER_NUMBER,
     .offset = FIELD(sparsity),
     .least = MILLION,
     .most = 2 * MILLION - 1,
     .preset = MILLION},
    CODER(TERN_CODER_ZERO_RUN),
    END,
};

// Who lists values as they are.
#define SHARE(default_share)                                                                       \
    {                                                                                              \
        .key = "p", .meaning = HELP("share of the values that is sent"),                           \
        .range = HELP("0.000001 to 1"), .kind = TERN_PARAMETER_NUMBER, .offset = FIELD(density),   \
        .least = 1, .most = MILLION, .preset = (default_share)                                     \
    }

static const char *const index_coder_names[] = {"auto", "bitmap", "gaps", NULL};

#define INDEX_CODER                                                                                \
    {                                                                                              \
        .key = "coder", .meaning = HELP("how the places of the values become bytes"),              \
        .range = HELP("auto (the smaller), bitmap or gaps"), .kind = TERN_PARAMETER_CHOICE,        \
        .offset = FIELD(coder), .most = TERN_INDEX_GAPS, .preset = TERN_INDEX_AUTO,                \
        .choices = index_coder_names                                                               \
    }

static const struct tern_codec_parameter of_sparse[] = {SHARE(50000), INDEX_CODER, END};

static const struct tern_codec_parameter of_dgc[] = {
    SHARE(1000),
    {.key = "momentum",
     .meaning = HELP("of the velocity that updates are summed in"),
     .range = HELP("0 to 0.999999"),
     .kind = TERN_PARAMETER_NUMBER,
     .offset = FIELD(momentum),
     .most = MILLION - 1,
     .preset = 900000},
    {.key = "warmup",
     .meaning = HELP("rounds until the share is p, from 0.25 in four stages"),
     .range = HELP("0 to 100000"),
     .kind = TERN_PARAMETER_WHOLE,
     .offset = FIELD(warmup),
     .most = 100000},
    INDEX_CODER,
    END,
};

static const struct tern_codec_parameter of_scalecom[] = {
    SHARE(10000),
    {.key = "beta",
     .meaning = HELP("of the low-pass filter of the error buffer; 1 does not filter"),
     .range = HELP("0.000001 to 1"),
     .kind = TERN_PARAMETER_NUMBER,
     .offset = FIELD(filter),
     .least = 1,
     .most = MILLION,
     .preset = MILLION},
    INDEX_CODER,
    END,
};

static const struct tern_codec_parameter of_density[] = {
    {.key = "p",
     .meaning = HELP("share of the values that is sent, those of largest magnitude"),
     .range = HELP("0.000001 to 1"),
     .kind = TERN_PARAMETER_NUMBER,
     .offset = FIELD(density),
     .least = 1,
     .most = MILLION,
     .preset = MILLION / 20},
    CODER(TERN_CODER_AUTO),
    END,
};

static const struct tern_codec_parameter of_stochastic_ternary[] = {
    CODER(TERN_CODER_ZERO_RUN),
    END,
};

static const char *const qsgd_norm_names[] = {"max", "l2", NULL};
static const char *const qsgd_coder_names[] = {"dense", "elias", NULL};

static const struct tern_codec_parameter of_qsgd[] = {
    {.key = "levels",
     .meaning = HELP("magnitudes besides 0"),
     .range = HELP("1 to 32767"),
     .kind = TERN_PARAMETER_WHOLE,
     .offset = FIELD(levels),
     .least = 1,
     .most = 32767,
     .preset = 7},
    {.key = "bucket",
     .meaning = HELP("values that share a scale; the most is all of a tensor"),
     .range = HELP("32 to 268435456"),
     .kind = TERN_PARAMETER_WHOLE,
     .offset = FIELD(bucket),
     .least = 32,
     .most = 1u << 28,
     .preset = 512},
    {.key = "norm",
     .meaning = HELP("what the scale of a bucket is: the largest magnitude or the L2 norm"),
     .range = HELP("max or l2"),
     .kind = TERN_PARAMETER_CHOICE,
     .offset = FIELD(norm),
     .most = TERN_QSGD_L2,
     .preset = TERN_QSGD_MAX,
     .choices = qsgd_norm_names},
    {.key = "coder",
     .meaning = HELP("how the levels become bytes: as many bits for each, or Elias codes"),
     .range = HELP("dense or elias"),
     .kind = TERN_PARAMETER_CHOICE,
     .offset = FIELD(coder),
     .most = TERN_QSGD_ELIAS,
     .preset = TERN_QSGD_DENSE,
     .choices = qsgd_coder_names},
    END,
};

static const char *const inceptionn_variant_names[] = {"bounded", "literal", NULL};

static const struct tern_codec_parameter of_inceptionn[] = {
    {.key = "bound",
     .meaning = HELP("values are off by at most 2^-bound"),
     .range = HELP("4 to 20"),
     .kind = TERN_PARAMETER_WHOLE,
     .offset = FIELD(exponent),
     .least = 4,
     .most = 20,
     .preset = 10},
    {.key = "variant",
     .meaning = HELP("whether the bound always holds, or as the paper has it"),
     .range = HELP("bounded or literal"),
     .kind = TERN_PARAMETER_CHOICE,
     .offset = FIELD(variant),
     .most = TERN_INCEPTIONN_LITERAL,
     .preset = TERN_INCEPTIONN_BOUNDED,
     .choices = inceptionn_variant_names},
    END,
};

static bool always(const struct tern_codec *codec)
{
    (void)codec;
    return true;
}

static bool never(const struct tern_codec *codec)
{
    (void)codec;
    return false;
}

static bool inceptionn_downloads(const struct tern_codec *codec)
{
    return codec->variant == TERN_INCEPTIONN_BOUNDED;
}

// A bucket's squared error, in expectation, is below its squared norm for any values when d < 4 s^2
// with the L2 norm; with the largest magnitude when d - 1 < 8 s^2, and up to twice that for all but
// values that huddle at half a level. tests/shared/test_qsgd.c feeds both back.
static bool qsgd_downloads(const struct tern_codec *codec)
{
    uint64_t square = (uint64_t)codec->levels * codec->levels;
    return codec->norm == TERN_QSGD_MAX ? codec->bucket <= 16 * square : codec->bucket < 4 * square;
}

// --- Codecs

struct row {
    struct tern_codec_entry entry;
    const struct tern_encoder *encoder;
};

// Some are unused where TERN_CODECS is short.
#define ROW(codec) static const struct row __attribute__((unused)) row_##codec

ROW(float32) = {{.id = TERN_CODEC_FLOAT32,
                 .name = "float32",
                 .summary = HELP("the values as they are"),
                 .source = HELP("IEEE 754 binary32"),
                 .feedback = TERN_FEEDBACK_ERROR,
                 .parameters = no_parameters,
                 .downloads = always},
                &tern_float32_encoder};

ROW(float16) = {{.id = TERN_CODEC_FLOAT16,
                 .name = "float16",
                 .summary = HELP("half precision"),
                 .source = HELP("IEEE 754 binary16"),
                 .feedback = TERN_FEEDBACK_ERROR,
                 .parameters = no_parameters,
                 .downloads = always},
                &tern_float16_encoder};

ROW(bfloat16) = {{.id = TERN_CODEC_BFLOAT16,
                  .name = "bfloat16",
                  .summary = HELP("the high half of a float32"),
                  .source = HELP("bfloat16 of Google Brain"),
                  .feedback = TERN_FEEDBACK_ERROR,
                  .parameters = no_parameters,
                  .downloads = always},
                 &tern_bfloat16_encoder};

ROW(int8) = {
    {.id = TERN_CODEC_INT8,
     .name = "int8",
     .summary = HELP("multiples of the largest magnitude / 127"),
     .source = HELP("\"8-bit int\" of Lim, Andersen, Kaminsky: 3LC, MLSys 2019, section 5.1"),
     .feedback = TERN_FEEDBACK_ERROR,
     .parameters = no_parameters,
     .downloads = always},
    &tern_int8_encoder};

ROW(onebit) = {{.id = TERN_CODEC_ONEBIT,
                .name = "onebit",
                .summary = HELP("signs, and the mean of each side"),
                .source = HELP("Seide, Fu, Droppo, Li, Yu: 1-bit SGD, Interspeech 2014, section 3"),
                .feedback = TERN_FEEDBACK_ERROR,
                .parameters = no_parameters,
                .downloads = always},
               &tern_onebit_encoder};

ROW(qsgd) = {{.id = TERN_CODEC_QSGD,
              .name = "qsgd",
              .summary = HELP("few levels for each bucket of values, rounded at random"),
              .source = HELP(
                  "Alistarh, Grubic, Li, Tomioka, Vojnovic: QSGD, NeurIPS 2017, sections 3 and 4"),
              .feedback = TERN_FEEDBACK_NONE,
              .random = true,
              .parameters = of_qsgd,
              .downloads = qsgd_downloads},
             &tern_qsgd_encoder};

ROW(inceptionn) = {
    {.id = TERN_CODEC_INCEPTIONN,
     .name = "inceptionn",
     .summary = HELP("0, 8, 16 or 32 bits for each value, by an error bound"),
     .source =
         HELP("Li et al.: A Network-Centric Hardware/Algorithm Co-Design, MICRO 2018, section V"),
     .feedback = TERN_FEEDBACK_NONE,
     .parameters = of_inceptionn,
     .downloads = inceptionn_downloads},
    &tern_inceptionn_encoder};

ROW(3lc) = {{.id = TERN_CODEC_3LC,
             .name = "3lc",
             .summary = HELP("ternary, scaled by the largest magnitude"),
             .source = HELP("Lim, Andersen, Kaminsky: 3LC, MLSys 2019, section 3"),
             .feedback = TERN_FEEDBACK_ERROR,
             .parameters = of_3lc,
             .downloads = always},
            &tern_3lc_encoder};

ROW(density) = {
    {.id = TERN_CODEC_DENSITY,
     .name = "density",
     .summary = HELP("ternary: a share of the values, scaled by their mean magnitude"),
     .source = HELP("Sattler et al.: Robust and Communication-Efficient Federated Learning, 2019, "
                    "algorithm 1"),
     .feedback = TERN_FEEDBACK_ERROR,
     .parameters = of_density,
     .downloads = always},
    &tern_density_encoder};

ROW(stochastic_ternary) = {
    {.id = TERN_CODEC_STOCHASTIC_TERNARY,
     .name = "stochastic-ternary",
     .summary = HELP("ternary: each sign with the probability that keeps the mean"),
     .source = HELP("Wen et al.: TernGrad, NeurIPS 2017, section 3.1"),
     .feedback = TERN_FEEDBACK_NONE,
     .random = true,
     .parameters = of_stochastic_ternary,
     .downloads = never},
    &tern_stochastic_ternary_encoder};

ROW(sparse) = {
    {.id = TERN_CODEC_SPARSE,
     .name = "sparse",
     .summary = HELP("the values of largest magnitude as they are; p=0.001 is Sparse GD"),
     .source = HELP("Aji, Heafield: Sparse GD, EMNLP 2017, section 3; 3LC, section 5.1"),
     .feedback = TERN_FEEDBACK_ERROR,
     .parameters = of_sparse,
     .downloads = always},
    &tern_sparse_encoder};

ROW(dgc) = {
    {.id = TERN_CODEC_DGC,
     .name = "dgc",
     .summary = HELP("the largest values of a sum of velocities"),
     .source = HELP("Lin, Han, Mao, Wang, Dally: Deep Gradient Compression, ICLR 2018, section 3"),
     .feedback = TERN_FEEDBACK_MOMENTUM,
     .parameters = of_dgc,
     .downloads = never},
    &tern_dgc_encoder};

ROW(scalecom) = {{.id = TERN_CODEC_SCALECOM,
                  .name = "scalecom",
                  .summary = HELP("the values at the places that the round's leader chose"),
                  .source = HELP("Chen et al.: ScaleCom, NeurIPS 2020, section 3"),
                  .feedback = TERN_FEEDBACK_FILTERED,
                  .parameters = of_scalecom,
                  .downloads = never},
                 &tern_scalecom_encoder};

#define ROW_OF(codec, symbol) &row_##codec,
static const struct row *const rows[] = {TERN_CODECS(ROW_OF)};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static const struct row *row_of(enum tern_codec_id id)
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
    const struct row *row = row_of(id);
    return row != NULL ? &row->entry : NULL;
}

const struct tern_codec_entry *tern_codec_entry_at(size_t index)
{
    return index < ROW_COUNT ? &rows[index]->entry : NULL;
}

bool tern_codec_is_ternary(const struct tern_codec *codec)
{
    return codec->id == TERN_CODEC_3LC || codec->id == TERN_CODEC_DENSITY ||
           codec->id == TERN_CODEC_STOCHASTIC_TERNARY;
}

uint32_t tern_codec_coders(void)
{
    return CODERS;
}

const struct tern_encoder *tern_encoder_of(const struct tern_codec *codec)
{
    const struct row *row = row_of(codec->id);
    return row != NULL ? row->encoder : NULL;
}

// --- Modes

// The modes that a codec alone makes; those of ternary codecs are their coders'.
#define MODES_OF_float32 &tern_float32_mode,
#define MODES_OF_float16 &tern_float16_mode,
#define MODES_OF_bfloat16 &tern_bfloat16_mode,
#define MODES_OF_int8 &tern_int8_mode,
#define MODES_OF_onebit &tern_onebit_mode,
#define MODES_OF_qsgd &tern_qsgd_dense_mode, &tern_qsgd_elias_mode,
#define MODES_OF_inceptionn &tern_inceptionn_bounded_mode, &tern_inceptionn_literal_mode,
#define MODES_OF_3lc
#define MODES_OF_density
#define MODES_OF_stochastic_ternary
#define MODES_OF_sparse &tern_sparse_bitmap_mode, &tern_sparse_gaps_mode,
#define MODES_OF_dgc MODES_OF_sparse
#define MODES_OF_scalecom MODES_OF_sparse

#define MODES_OF(codec, symbol) MODES_OF_##codec
#define MODE_OF_CODER(coder, symbol) &tern_ternary_##coder##_mode,
static const struct tern_mode *const modes[] = {&zero_mode,
                                                TERN_CODECS(MODES_OF) TERN_CODERS(MODE_OF_CODER)};

const struct tern_mode *tern_mode_of(uint8_t byte)
{
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (modes[i]->byte == byte) {
            return modes[i];
        }
    }
    return NULL;
}
