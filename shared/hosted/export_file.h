// Writes a model to a file of raw float32 or safetensors, for the verb `export` of tern-aggregator
// and of tern-client. Both verbs have the argument FILE and the options --format and --dtype. Main
// thread only.
#ifndef TERN_EXPORT_FILE_H
#define TERN_EXPORT_FILE_H

#include "hosted/cli.h"
#include "hosted/safetensors.h"
#include "wire/wire.h"

struct tern_export_file {
    bool safetensors; // false: raw float32
    enum tern_safetensors_kind kind;
};

// Reads the verb's first argument FILE and its options --format and --dtype. FILE is "-" for the
// standard output, a regular file, which is replaced, or a file that does not exist yet. Returns
// TERN_EXIT_OK, or the exit code after a message on stderr.
int tern_export_file_check(struct tern_cli *cli, struct tern_export_file *file);

// Makes the contents of the file. kept: a safetensors file whose tensors are appended unchanged, or
// NULL. notes: metadata of a safetensors file. *data: malloc'ed, owned by the caller.
// TERN_ERR_NO_MEMORY, TERN_ERR_NON_FINITE (a value is too large for the dtype): why has the reason
TERN_MUST_USE enum tern_result
tern_export_file_make(const struct tern_export_file *file, const struct tern_model *model,
                      const float *weights, const struct tern_safetensors *kept, const cJSON *notes,
                      uint8_t **data, size_t *len, char why[TERN_SAFETENSORS_WHY_MAX]);

// Writes the contents to FILE. Returns as tern_export_file_check().
int tern_export_file_write(struct tern_cli *cli, const uint8_t *data, size_t len);

// Facts about the model that the file's metadata contain.
struct tern_export_model {
    const char *held; // "global", "replica", "averaged" or "personal" (docs/DESIGN.md)
    const struct tern_model *layout;
    const char *spec;
    const uint8_t *hash; // the model's hash, TERN_SHA256_SIZE bytes
    uint32_t version;
    struct tern_span scaling; // mean and deviation of each column; empty: unscaled columns
};

// Adds the facts to the metadata, and replaces those that an imported file brought.
void tern_export_notes(cJSON *notes, const struct tern_export_model *model);

// Describes the model's inputs and outputs for programs that use an exported file. All pointers are
// borrowed. NULL or 0: unknown.
struct tern_export_inputs {
    const char *const *columns; // [count] names of the features, in the model's order
    const double *mean;         // [count] the model's input is (value - mean) / deviation
    const double *deviation;    // [count]
    uint32_t count;
    const char *classes; // names in the order of the classes, separated by '|'
    const char *target;  // name of the target column
    double target_mean;
    double target_deviation; // 0: the target is not scaled
};

// Adds the description to the metadata under the keys columns, classes, scaling_mean,
// scaling_deviation, target, target_mean and target_deviation. Names are JSON arrays; numbers are
// separated by spaces. Keys of unknown values stay unchanged.
void tern_export_note_inputs(cJSON *notes, const struct tern_export_inputs *inputs);

// Prints whether the file contains the scaling and the classes. Prints nothing with --json or if
// FILE is the standard output.
void tern_export_report_inputs(const struct tern_cli *cli, const struct tern_export_file *file,
                               const cJSON *notes);

// Reports the written file. Without --json, prints one line and returns NULL. With --json, returns
// an object that the caller frees. Does nothing and returns NULL if FILE is the standard output.
cJSON *tern_export_file_report(const struct tern_cli *cli, const char *held, uint32_t version,
                               const uint8_t *data, size_t len);

#endif
