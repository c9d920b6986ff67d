#include "data/split.h"
#include <string.h>

#define TEST_SHARE 0.2f

enum tern_result tern_split_read(struct tern_data_spec *spec, const char *test_file,
                                 struct tern_split_options *options)
{
    *options = (struct tern_split_options){.test = TEST_SHARE, .seed = 1};
    options->only = tern_spec_option(spec, "only");
    if (test_file != NULL && tern_spec_option(spec, "test") != NULL) {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG,
                                "takes test, a share of the rows, or a test file, not both");
    }
    TERN_TRY(tern_spec_fraction(spec, "test", 0.0f, 0.9f, &options->test));
    TERN_TRY(tern_spec_number(spec, "seed", 0, UINT64_MAX, &options->seed));
    options->test = test_file != NULL ? 0.0f : options->test;
    const char *scale = tern_spec_option(spec, "scale");
    options->standard = scale != NULL && strcmp(scale, "standard") == 0;
    if (options->standard && spec->part->whole) {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG,
                                "scale=standard would go by the rows of this file: only with the "
                                "statistics that the model was trained with, scale=FILE, does it "
                                "know new data");
    }
    options->scaling =
        scale != NULL && !options->standard && strcmp(scale, "none") != 0 ? scale : NULL;
    return TERN_OK;
}

enum tern_result tern_split_rows(const struct tern_data_spec *spec,
                                 const struct tern_split_options *options, struct tern_rows *train,
                                 struct tern_rows *test)
{
    if (!spec->part->whole) {
        tern_rows_shuffle(train, options->seed);
    }
    if (test->count == 0 && !spec->part->whole) {
        uint32_t share = (uint32_t)((double)train->count * (double)options->test + 0.5);
        share = share < train->count ? share : train->count - 1;
        if (tern_rows_split(train, share, test) != TERN_OK) {
            return tern_spec_refuse(spec, TERN_ERR_NO_MEMORY, "no memory for its test rows");
        }
    }
    const uint32_t classes = train->classes > test->classes ? train->classes : test->classes;
    train->classes = classes;
    test->classes = classes;
    if (options->standard) {
        tern_rows_standardise(train, test);
    }
    return TERN_OK;
}
