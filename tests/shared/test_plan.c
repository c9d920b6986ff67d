// What a plan reckons with: every codec says all of it, and says what holds.
#include "codec/plan.h"

#include "codec/modes.h"
#include "tests/cases.h"
#include <string.h>

static const struct tern_codec_entry *each(size_t *i)
{
    return tern_codec_entry_at((*i)++);
}

CASE(test_nothing_is_left_out)
{
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = each(&i)) != NULL;) {
        const struct tern_codec_plan *plan = tern_codec_plan(entry->id);
        assert_non_null(plan);
        assert_true((plan->fixed_bits > 0) != (plan->bits != NULL));
        assert_non_null(plan->thin);
        assert_non_null(plan->downloads);
    }
}

// Bits that a value takes with a codec's presets.
CASE(test_bits)
{
    static const struct {
        const char *spec;
        double bits;
    } expected[] = {
        {"float32", 32},
        {"float16", 16},
        {"bfloat16", 16},
        {"int8", 8},
        {"onebit", 1},
        {"qsgd", 4},
        {"inceptionn", 4},
        {"uniform", 1.4685},
        {"uniform:error=0.9", 0.09225},
        {"uniform:error=0.0001", 5.32275},
        {"uniform:error=0.525", 0.51},
        {"3lc", 0.63},
        {"3lc:s=1.5", 0.315},
        {"density", 0.3364},
        {"density:p=1", 1.585},
        {"stochastic-ternary", 1},
        {"density:fit=yes", 0.3364},
        {"density:p=0.5,fit=yes", 1.3073},
        {"sparse:p=0.01", .4},
        {"dgc:p=0.01", .4},
        {"scalecom:p=0.01", .4},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct tern_codec codec;
        assert_int_equal(tern_codec_parse(expected[i].spec, &codec, NULL), TERN_OK);
        assert_float_equal(tern_codec_bits(&codec), expected[i].bits, 1e-6);
    }
}

// Bits of a value of updates by the range coder, measured: means over the tasks of docs/DESIGN.md, "Why
// 3LC has a clip". What a plan takes for them is near them, and falls with the clip as they do.
CASE(test_bits_of_a_clip)
{
    static const struct {
        const char *spec;
        double measured;
    } clips[] = {{"3lc:s=1,clip=2", 0.98},   {"3lc:s=1,clip=3", 0.81}, {"3lc:s=1,clip=4.5", 0.46},
                 {"3lc:s=1.5,clip=3", 0.45}, {"3lc:s=1,clip=6", 0.32}, {"3lc:s=1,clip=9", 0.21}};
    double last = 2;
    for (size_t i = 0; i < sizeof clips / sizeof clips[0]; i++) {
        struct tern_codec codec;
        assert_int_equal(tern_codec_parse(clips[i].spec, &codec, NULL), TERN_OK);
        const double bits = tern_codec_bits(&codec);
        assert_true(bits <= last);
        assert_true(bits > 0.7 * clips[i].measured && bits < 1.3 * clips[i].measured);
        last = bits;
    }
}

// What is made thinner takes fewer bits, and what cannot be is as it was.
CASE(test_thinner_is_cheaper)
{
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = each(&i)) != NULL;) {
        const struct tern_codec preset = tern_codec_preset(entry);
        for (unsigned density = 0; density < 2; density++) {
            struct tern_codec codec = preset;
            if (tern_codec_thin(&codec, 1e-3, density == 1)) {
                assert_true(tern_codec_bits(&codec) < tern_codec_bits(&preset));
            } else {
                assert_memory_equal(&codec, &preset, sizeof codec);
            }
        }
    }
}

CASE(test_thinning)
{
    struct tern_codec codec;
    char text[TERN_CODEC_SPEC_MAX];
    assert_int_equal(tern_codec_parse("3lc:s=1.5,coder=range", &codec, NULL), TERN_OK);
    assert_false(tern_codec_thin(&codec, 0.01, false));
    assert_true(tern_codec_thin(&codec, 0.01, true));
    tern_codec_format(&codec, text);
    assert_string_equal(text, "density:p=0.01,coder=range");
    assert_int_equal(tern_codec_parse("density:p=0.1,coder=gaps", &codec, NULL), TERN_OK);
    assert_true(tern_codec_thin(&codec, 1e-9, true)); // no further
    tern_codec_format(&codec, text);
    assert_string_equal(text, "density:p=0.000001,coder=gaps");
    assert_int_equal(tern_codec_parse("sparse", &codec, NULL), TERN_OK);
    assert_true(tern_codec_thin(&codec, 0.01, false));
    tern_codec_format(&codec, text);
    assert_string_equal(text, "sparse:p=0.01");
    assert_int_equal(tern_codec_parse("uniform", &codec, NULL), TERN_OK);
    assert_true(tern_codec_thin(&codec, 0.05, false));
    assert_float_equal(tern_codec_bits(&codec), 0.3364, 1e-3);
    assert_true(tern_codec_thin(&codec, 0.001, true)); // no further
    tern_codec_format(&codec, text);
    assert_string_equal(text, "uniform:error=0.9");
    assert_false(tern_codec_thin(&codec, 0.001, true));
}

// Two codecs whose payloads open with the same byte could not be told apart.
CASE(test_modes_differ)
{
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = each(&i)) != NULL;) {
        const struct tern_codec_row *row = tern_codec_row(entry->id);
        assert_true(entry->ternary == (row->modes[0] == NULL));
        for (const struct tern_mode *const *mode = row->modes; *mode != NULL; mode++) {
            assert_ptr_equal(tern_mode_of((*mode)->byte), *mode);
        }
    }
}
