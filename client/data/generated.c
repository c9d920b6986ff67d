#include "data/generated.h"
#include <stdlib.h>

enum tern_result tern_generated_options(struct tern_data_spec *spec,
                                        const struct tern_data_limits *limits, const char *groups,
                                        struct tern_generated *set)
{
    uint64_t train = set->train;
    uint64_t test = set->test;
    uint64_t group_count = set->groups;
    TERN_TRY(tern_spec_number(spec, "train", 1, limits->max_examples, &train));
    TERN_TRY(tern_spec_number(spec, "test", 1, limits->max_examples, &test));
    TERN_TRY(tern_spec_number(spec, "seed", 0, UINT64_MAX, &set->seed));
    if (groups != NULL) {
        group_count = group_count < train ? group_count : train;
        TERN_TRY(tern_spec_number(spec, groups, 1, train, &group_count));
    }
    set->train = (uint32_t)train;
    set->test = (uint32_t)test;
    set->groups = (uint32_t)group_count;
    return TERN_OK;
}

static enum tern_result allocate_examples(const struct tern_data_spec *spec, uint32_t count,
                                          bool groups, bool float_values, bool targets,
                                          struct tern_dataset *data,
                                          struct tern_generated_part *part)
{
    const size_t values = (size_t)count * data->feature_count;
    *part = (struct tern_generated_part){
        .count = count,
        .bytes = float_values ? NULL : malloc(values),
        .values = float_values ? malloc(values * sizeof *part->values) : NULL,
        .labels = malloc(count * sizeof *part->labels),
        .targets = targets ? malloc(count * sizeof *part->targets) : NULL,
        .groups = groups ? malloc(count * sizeof *part->groups) : NULL,
    };
    data->count = count;
    data->bytes = part->bytes;
    data->values = part->values;
    data->labels = part->labels;
    data->targets = part->targets;
    data->target_deviation = 1.0f;
    data->groups = part->groups;
    const bool taken = (part->bytes != NULL || part->values != NULL) && part->labels != NULL &&
                       (part->targets != NULL) == targets && (part->groups != NULL) == groups;
    return taken
               ? TERN_OK
               : tern_spec_refuse(spec, TERN_ERR_NO_MEMORY, "needs memory for %u examples", count);
}

static void set_shape(const struct tern_generated *set, const struct tern_dataset *shape,
                      struct tern_dataset *data)
{
    data->height = shape->height;
    data->width = shape->width;
    data->channels = shape->channels;
    data->feature_count = shape->height * shape->width * shape->channels;
    data->class_count = shape->class_count;
    data->group_count = set->groups;
}

enum tern_result tern_generated_allocate(const struct tern_data_spec *spec,
                                         const struct tern_data_limits *limits,
                                         const struct tern_generated *set,
                                         const struct tern_dataset *shape, bool float_values,
                                         struct tern_data *data,
                                         struct tern_generated_part parts[2])
{
    const unsigned long long features =
        (unsigned long long)shape->height * shape->width * shape->channels;
    const unsigned long long examples = (unsigned long long)set->train + set->test;
    const unsigned long long size = float_values ? sizeof(float) : 1;
    if (features > limits->max_features || shape->class_count > limits->max_classes ||
        examples * features * size > limits->max_bytes) {
        return tern_spec_refuse(spec, TERN_ERR_TOO_LARGE,
                                "%llu examples of %llu values are over the limits", examples,
                                features);
    }
    const bool groups = set->groups > 0;
    set_shape(set, shape, &data->train);
    set_shape(set, shape, &data->test);
    TERN_TRY(allocate_examples(spec, set->train, groups, float_values, set->targets, &data->train,
                               &parts[0]));
    return allocate_examples(spec, set->test, groups, float_values, set->targets, &data->test,
                             &parts[1]);
}

uint32_t tern_generated_group(struct tern_prng *rng, uint64_t seed, enum tern_data_stream stream,
                              uint32_t groups, uint32_t index)
{
    if (index < groups) {
        return index;
    }
    for (;;) {
        struct tern_prng of_group;
        const uint32_t group = tern_prng_below(rng, groups);
        tern_prng_init(&of_group, seed, TERN_PRNG_DATA, stream, group);
        const float size = tern_random_between(&of_group, 0.25f, 1.0f);
        if (tern_prng_float(rng) < size) {
            return group;
        }
    }
}

void tern_generated_group_begin(struct tern_prng *rng, uint64_t seed, enum tern_data_stream stream,
                                uint32_t group)
{
    tern_prng_init(rng, seed, TERN_PRNG_DATA, stream, group);
    tern_prng_seek(rng, 1);
}
