// What source.c and the readers share: the parsed spec string, and one function per kind of data.
// Hosted; reentrant.
#ifndef TERN_READERS_H
#define TERN_READERS_H

#include "data/source.h"
#include <stdbool.h>

#define TERN_DATA_SPEC_OPTIONS 16

// "KIND:PATH,key=value,..." taken apart.
struct tern_data_spec {
    char text[TERN_DATA_SPEC_MAX]; // what the pointers below point into
    const char *kind;
    const char *path; // "" when there is none
    struct {
        const char *key;
        const char *value;
        bool used;
    } options[TERN_DATA_SPEC_OPTIONS];
    uint32_t option_count;
    const struct tern_data_part *part; // what is to be kept
    char *why;                         // [TERN_DATA_WHY_MAX]
};

// TERN_ERR_CONFIG  longer than TERN_DATA_SPEC_MAX, too many options, or a part without '='
TERN_MUST_USE enum tern_result tern_spec_parse(struct tern_data_spec *spec, const char *text,
                                               char *why);

// The value of an option, or NULL when it was not given.
const char *tern_spec_option(struct tern_data_spec *spec, const char *key);

// Reads an option as a number from low to high; leaves *value when it was not given.
TERN_MUST_USE enum tern_result tern_spec_number(struct tern_data_spec *spec, const char *key,
                                                uint64_t low, uint64_t high, uint64_t *value);
TERN_MUST_USE enum tern_result tern_spec_fraction(struct tern_data_spec *spec, const char *key,
                                                  float low, float high, float *value);

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

// TERN_ERR_CONFIG when an option was given that no call above asked for; known: those that exist.
TERN_MUST_USE enum tern_result tern_spec_done(const struct tern_data_spec *spec, const char *known);

// Writes "data 'KIND:PATH': sentence" to spec->why and returns `result`.
TERN_MUST_USE enum tern_result tern_spec_refuse(const struct tern_data_spec *spec,
                                                enum tern_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

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
