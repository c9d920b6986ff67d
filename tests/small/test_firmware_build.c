// What the build of a microcontroller's firmware holds, and what it says of the rest.
#include "codec/codec.h"
#include "codec/container.h"
#include "error_feedback/error_storage.h"
#include "tests/cases.h"
#include "tests/shared/check.h"
#include "util/crc32c.h"

#include <string.h>

CASE(test_codecs_that_are_left_out_are_refused)
{
    struct tern_codec codec;
    struct tern_spec_refusal why;
    assert_int_equal(tern_codec_parse("3lc:s=1,coder=range", &codec, &why), TERN_OK);
    assert_int_equal(codec.coder, TERN_CODER_RANGE);
    assert_int_equal(tern_codec_parse("density:p=0.05,coder=range", &codec, &why),
                     TERN_ERR_UNKNOWN);
    assert_int_equal(tern_codec_parse("qsgd", &codec, &why), TERN_ERR_UNKNOWN);
    assert_int_equal(tern_codec_parse("uniform:error=0.1", &codec, &why), TERN_OK);
    assert_int_equal(tern_codec_parse("3lc:s=1,coder=gaps", &codec, &why), TERN_ERR_ARGUMENT);
    assert_string_equal(why.parameter->key, "coder");
    // Its preset is zero runs, which are not built in either.
    assert_int_equal(tern_codec_parse("3lc:s=1", &codec, &why), TERN_ERR_ARGUMENT);
    assert_string_equal(why.parameter->key, "coder");
}

CASE(test_what_is_announced_is_what_is_built_in)
{
    assert_int_equal(tern_codec_coders(), 1u << TERN_CODER_RANGE);
    assert_non_null(tern_codec_entry(TERN_CODEC_FLOAT32));
    assert_null(tern_codec_entry(TERN_CODEC_DENSITY));
    const struct tern_codec preset = tern_codec_preset(tern_codec_entry(TERN_CODEC_3LC));
    assert_int_equal(preset.coder, TERN_CODER_RANGE);
    assert_true(tern_codec_bound(&preset, 100) > 0);
    assert_true(tern_error_storage_known(TERN_ERROR_FLOAT32));
    assert_false(tern_error_storage_known(TERN_ERROR_INT8));
}

// A payload of one value: mode zero-run, scale 1, and +1 in the first of five places.
CASE(test_payloads_of_coders_that_are_left_out_are_unknown)
{
    const uint8_t payload[] = {0x10, 0, 0, 0x80, 0x3f, 202};
    float value = 7;
    assert_int_equal(tern_codec_decode(payload, sizeof payload, &value, 1), TERN_ERR_UNKNOWN);
    assert_true(value == 7);
    const uint8_t qsgd[] = {0x40, 0, 0, 0x80, 0x3f, 0x80};
    assert_int_equal(tern_codec_decode(qsgd, sizeof qsgd, &value, 1), TERN_ERR_UNKNOWN);
}

// The vector uniform-short of the file payloads.txt.
CASE(test_uniform_is_decoded)
{
    const uint8_t payload[] = {0x60, 0, 0, 0, 0x3f, 0xa4};
    float values[3];
    assert_int_equal(tern_codec_decode(payload, sizeof payload, values, 3), TERN_OK);
    assert_true(values[0] == 0.5F && values[1] == 0 && values[2] == -0.5F);
}

CASE(test_models_are_limited)
{
    struct tern_model model;
    assert_int_equal(tern_model_from_spec(&model, "softmax:64-6"), TERN_OK);
    assert_int_equal(tern_model_from_spec(&model, "mlp:64-32-32-6"), TERN_OK);
    assert_int_equal(tern_model_from_spec(&model, "mlp:64-8-8-8-8-6"), TERN_ERR_TOO_LARGE);
    assert_int_equal(tern_model_from_spec(&model, "cnn:28x28x1-8-16-10"), TERN_ERR_ARGUMENT);
    assert_int_equal(tern_model_from_spec(&model, "mlp:64-8-1,loss=mse"), TERN_ERR_ARGUMENT);
}

CASE(test_checksums_are_the_same_with_a_smaller_table)
{
    assert_int_equal(tern_crc32c(0, "123456789", 9), 0xE3069283u);
}
