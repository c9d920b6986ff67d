// Shared by source.c and the readers: scaling by a spec's options, and one function per kind of data. Hosted; reentrant.
#ifndef TERN_READERS_H
#define TERN_READERS_H

#include "data/source.h"
#include "hosted/data_spec.h"
#include <stdbool.h>

// Sets scale and offset of both parts from the options mean and std (0 and 1 when not given).
TERN_MUST_USE enum tern_result tern_spec_scaling(struct tern_data_spec *spec,
                                                 struct tern_data *data);

// The options mean and std; 0 and 1 when not given.
struct tern_scaling {
    float mean;
    float deviation;
    bool given; // either
};

// Does the same for kinds of data whose numbers may be no bytes. Those are not divided by 255, so mean and std may be of any
// size.
TERN_MUST_USE enum tern_result tern_spec_scaling_of_numbers(struct tern_data_spec *spec,
                                                            struct tern_data *data,
                                                            struct tern_scaling *scaling);

// Replaces each value by (value - mean) / std.
void tern_scale_numbers(const struct tern_scaling *scaling, float *values, size_t count);

// Frees the data set's arrays; *data is then empty.
void tern_dataset_release(struct tern_dataset *data);

// Each function reads one kind of data into *data; on error source.c frees it. tern_read_idx() reads only spec->part; from
// the other results source.c keeps that part.
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
