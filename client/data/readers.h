// Shared by source.c and the readers: scaling by a spec's options, and one function per kind of data.
// Hosted; reentrant.
#ifndef TERN_READERS_H
#define TERN_READERS_H

#include "data/source.h"
#include "hosted/data_spec.h"
#include <stdbool.h>

// Sets scale and offset of both parts from the options mean and std (0 and 1 when not given).
TERN_MUST_USE enum tern_result tern_spec_scaling(struct tern_data_spec *spec,
                                                 struct tern_data *data);

// What the options mean and std say; 0 and 1 when not given.
struct tern_scaling {
    float mean;
    float deviation;
    bool given; // either
};

// The same of kinds of data that may hold other numbers than bytes: those are not divided by 255, so mean
// and std may be of any size.
TERN_MUST_USE enum tern_result tern_spec_scaling_of_numbers(struct tern_data_spec *spec,
                                                            struct tern_data *data,
                                                            struct tern_scaling *scaling);

// Makes (value - mean) / std of numbers that are no bytes.
void tern_scale_numbers(const struct tern_scaling *scaling, float *values, size_t count);

// Gives the memory of the data set's arrays back; *data is then empty.
void tern_dataset_release(struct tern_dataset *data);

// One kind of data each. They fill *data; source.c frees it when they fail. tern_read_idx() reads
// no more than spec->part; of what the others read, source.c keeps that.
TERN_MUST_USE enum tern_result tern_read_digits(struct tern_data_spec *spec,
                                                const struct tern_data_limits *limits,
                                                struct tern_data *data);
TERN_MUST_USE enum tern_result tern_read_sensors(struct tern_data_spec *spec,
                                                 const struct tern_data_limits *limits,
                                                 struct tern_data *data);
TERN_MUST_USE enum tern_result tern_read_audio(struct tern_data_spec *spec,
                                               const struct tern_data_limits *limits,
                                               struct tern_data *data);
TERN_MUST_USE enum tern_result tern_read_idx(struct tern_data_spec *spec,
                                             const struct tern_data_limits *limits,
                                             struct tern_data *data);
TERN_MUST_USE enum tern_result tern_read_cifar10(struct tern_data_spec *spec,
                                                 const struct tern_data_limits *limits,
                                                 struct tern_data *data);
TERN_MUST_USE enum tern_result tern_read_csv(struct tern_data_spec *spec,
                                             const struct tern_data_limits *limits,
                                             struct tern_data *data);
TERN_MUST_USE enum tern_result tern_read_npy(struct tern_data_spec *spec,
                                             const struct tern_data_limits *limits,
                                             struct tern_data *data);
TERN_MUST_USE enum tern_result tern_read_npz(struct tern_data_spec *spec,
                                             const struct tern_data_limits *limits,
                                             struct tern_data *data);

#endif
