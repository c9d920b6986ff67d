// The generated set as a kind of data: "digits:train=6000,test=2000,size=16,seed=1".
#include "data/digits.h"
#include "data/readers.h"
#include <stdlib.h>

static enum tern_result draw_part(struct tern_data_spec *spec, enum tern_digits_part part,
                                  uint64_t seed, uint32_t size, uint32_t count,
                                  struct tern_dataset *data)
{
    size_t pixels = (size_t)size * size;
    uint8_t *bytes = malloc(count * pixels + 1);
    uint16_t *labels = malloc(count * sizeof *labels + 1);
    data->bytes = bytes;
    data->labels = labels;
    if (bytes == NULL || labels == NULL) {
        return tern_spec_refuse(spec, TERN_ERR_NO_MEMORY, "needs %zu bytes of memory",
                                count * pixels);
    }
    for (uint32_t i = 0; i < count; i++) {
        labels[i] = tern_digits_draw(seed, part, i, size, bytes + i * pixels);
    }
    data->count = count;
    data->height = size;
    data->width = size;
    data->channels = 1;
    data->feature_count = (uint32_t)pixels;
    data->class_count = 10;
    return TERN_OK;
}

enum tern_result tern_read_digits(struct tern_data_spec *spec,
                                  const struct tern_data_limits *limits, struct tern_data *data)
{
    uint64_t train = 6000;
    uint64_t test = 2000;
    uint64_t size = 16;
    uint64_t seed = 1;
    TERN_TRY(tern_spec_number(spec, "train", 1, limits->max_examples, &train));
    TERN_TRY(tern_spec_number(spec, "test", 1, limits->max_examples, &test));
    TERN_TRY(tern_spec_number(spec, "size", 16, 64, &size));
    TERN_TRY(tern_spec_number(spec, "seed", 0, UINT64_MAX, &seed));
    TERN_TRY(tern_spec_scaling(spec, data));
    TERN_TRY(tern_spec_done(spec, "train, test, size, seed, mean, std"));
    unsigned long long features = size * size;
    unsigned long long examples = train + test;
    if (features > limits->max_features || examples * features > limits->max_bytes) {
        return tern_spec_refuse(spec, TERN_ERR_TOO_LARGE,
                                "%llu examples of %llu values are over the limits", examples,
                                features);
    }
    TERN_TRY(
        draw_part(spec, TERN_DIGITS_TRAIN, seed, (uint32_t)size, (uint32_t)train, &data->train));
    return draw_part(spec, TERN_DIGITS_TEST, seed, (uint32_t)size, (uint32_t)test, &data->test);
}
