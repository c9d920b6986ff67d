// Writes a model to a file, raw float32 or safetensors, as `export` of tern-aggregator and of tern-client
// do: the options FILE, --format and --dtype of both. From the main thread.
#ifndef TERN_EXPORT_FILE_H
#define TERN_EXPORT_FILE_H

#include "hosted/cli.h"
#include "hosted/safetensors.h"
#include "wire/wire.h"

struct tern_export_file {
    bool safetensors; // else raw float32
    enum tern_safetensors_kind kind;
};

// Reads FILE, the verb's first argument, --format and --dtype. FILE must be a regular file, or none yet:
// it is replaced by renaming. "-" is the standard output. Returns TERN_EXIT_OK, or the exit code after it
// has said what is wrong.
int tern_export_file_check(struct tern_cli *cli, struct tern_export_file *file);

// The file's bytes. kept: a file whose tensors follow, or NULL. notes: metadata of safetensors. *data:
// malloc'ed, the caller's.
// TERN_ERR_NO_MEMORY, or TERN_ERR_NON_FINITE for values beyond the dtype, with `why`
TERN_MUST_USE enum tern_result
tern_export_file_make(const struct tern_export_file *file, const struct tern_model *model,
                      const float *weights, const struct tern_safetensors *kept, const cJSON *notes,
                      uint8_t **data, size_t *len, char why[TERN_SAFETENSORS_WHY_MAX]);

// Writes them to FILE. Returns as tern_export_file_check().
int tern_export_file_write(struct tern_cli *cli, const uint8_t *data, size_t len);

// What a file says of the model in it.
struct tern_export_model {
    const char *held; // "global", "replica", "averaged" or "personal" (docs/DESIGN.md)
    const struct tern_model *layout;
    const char *spec;
    const uint8_t *hash; // TERN_SHA256_SIZE bytes, of the model
    uint32_t version;
    struct tern_span scaling; // pairs of the columns that it takes; none: they are not scaled
};

// Puts that into metadata, in the place of what a file that came in may have had there.
void tern_export_notes(cJSON *notes, const struct tern_export_model *model);

// Describes the model's inputs and outputs to programs that use an exported file. Borrowed; NULL or 0: not known.
struct tern_export_inputs {
    const char *const *columns; // [count] names of the features, in the model's order
    const double *mean;         // [count] what a feature is scaled by, (value - mean) / deviation
    const double *deviation;    // [count]
    uint32_t count;
    const char *classes; // names between '|', in class order
    const char *target;  // name
    double target_mean;
    double target_deviation; // 0: the target is not scaled
};

// Puts that into metadata, keys as above: columns and classes as JSON arrays, numbers with blanks between them. Keys that
// are not known stay as they are.
void tern_export_note_inputs(cJSON *notes, const struct tern_export_inputs *inputs);

// Tells people whether the file has these notes, where it is not the standard output.
void tern_export_report_inputs(const struct tern_cli *cli, const struct tern_export_file *file,
                               const cJSON *notes);

// Tells people that it is written; with --json, returns the object for scripts, the caller's. Neither where
// it went to the standard output, nor where memory is short: NULL.
cJSON *tern_export_file_say(const struct tern_cli *cli, const char *held, uint32_t version,
                            const uint8_t *data, size_t len);

#endif
