// The generated digits as a kind of data: "digits:train=6000,test=2000,size=16,seed=1".
#include "data/digits.h"
#include "data/generated.h"

enum tern_result tern_read_digits(struct tern_data_spec *spec,
                                  const struct tern_data_limits *limits, struct tern_data *data)
{
    struct tern_generated set = {.train = 6000, .test = 2000, .seed = 1};
    struct tern_generated_part parts[2];
    uint64_t size = 16;
    TERN_TRY(tern_generated_options(spec, limits, NULL, &set));
    TERN_TRY(tern_spec_number(spec, "size", 16, 64, &size));
    TERN_TRY(tern_spec_scaling(spec, data));
    TERN_TRY(tern_spec_done(spec, "train, test, size, seed, mean, std"));
    const uint32_t side = (uint32_t)size;
    const struct tern_dataset shape = {
        .height = side, .width = side, .channels = 1, .class_count = 10};
    TERN_TRY(tern_generated_take(spec, limits, &set, &shape, false, data, parts));
    for (unsigned test = 0; test < 2; test++) {
        const struct tern_generated_part *part = &parts[test];
        for (uint32_t i = 0; i < part->count; i++) {
            uint8_t *image = part->bytes + (size_t)i * side * side;
            part->labels[i] = tern_digits_draw(set.seed, test != 0, i, side, image);
        }
    }
    return TERN_OK;
}
