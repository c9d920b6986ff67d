// What a run of a fleet came to: accuracy per round, bytes per client and round, and the model's
// hash; as a flat JSON file and as tables. Plain data; one thread at a time.
#ifndef TERN_FLEET_RESULTS_H
#define TERN_FLEET_RESULTS_H

#include "codec/codec.h"
#include "fleet/records.h"
#include "meter/meter.h"
#include "ports.h"
#include "result.h"
#include "util/sha256.h"
#include <cjson/cJSON.h>
#include <stdio.h>

struct tern_fleet_results {
    char codec[TERN_CODEC_SPEC_MAX];           // of the updates, as the tasks named it
    char model[64];                            // spec string
    char model_hash[2 * TERN_SHA256_SIZE + 1]; // of the final global model, hex; "" when unfinished
    uint64_t seed;
    uint32_t clients; // that train
    uint32_t cohort;  // most clients whose updates one round applied
    uint32_t rounds;  // versions that were evaluated
    double seconds;
    uint32_t values;          // of the model; 0 in results read from a file
    uint64_t float32_payload; // bytes of one uncompressed update

    // Every byte of every client that trains (enrolment, handshakes and idle check-ins included,
    // the evaluator's not), and by how many updates that is divided for the means.
    struct tern_bytes up;
    struct tern_bytes down;
    uint64_t participations;

    double local_steps; // mean of an update; 0 = not known
    double encode_ms;   // mean time in which an update was encoded and saved

    // rounds values each, malloc'ed. Bytes on the wire are those of the clients whose updates made
    // the version, from one update to the next; trunk, of the downloads that bring who holds the
    // version before. Accuracy is that of the replica which the evaluator holds, NaN where it
    // passed the version over. All but accuracy are NULL in results read from a file.
    double *accuracy;
    struct tern_evaluate_result
        *found; // of models that tell no classes; num_examples 0: not measured
    double *round_up;
    double *round_down;
    double *round_trunk;

    // Figures of the replicas that clients hold at the end, `clients` values each: on the test set (fleet/figure.h; NaN: too
    // old to be measured), and the version that it came from. NULL in results read from a file.
    double *replica_figure;
    double *replica_version;

    // Where tensors are local: of each client, what it holds at the end on data like its own; NaN where it has
    // not trained. Else NULL, as in results read from a file.
    double *personal_accuracy;
    char *manifest; // of a model whose tensors have rules of their own, hex; else NULL
    char *
        scaling; // that the columns had, in hex as a Scaling has it (wire/tern.proto); NULL: none. malloc'ed

    struct tern_evaluate_result pooled; // of one client with all rows; num_examples 0: not made
    uint64_t pooled_steps;

    struct tern_records records; // empty in results read from a file
};

void tern_fleet_results_clear(struct tern_fleet_results *results);

// Accuracy of the last version that was measured; NaN when none was.
double tern_fleet_final_accuracy(const struct tern_fleet_results *results);

// What was found of the last version that was measured, of a model that tells no classes; NULL: nothing.
const struct tern_evaluate_result *
tern_fleet_final_figures(const struct tern_fleet_results *results);

// The flat JSON, malloc'ed, the caller's to free; NULL when memory is out.
char *tern_fleet_results_text(const struct tern_fleet_results *results);

// Writes it to a file. TERN_ERR_NO_MEMORY, errors of tern_file_write()
TERN_MUST_USE enum tern_result tern_fleet_results_write(const struct tern_fleet_results *results,
                                                        const char *path);

// Reads what tern_fleet_results_write() wrote; clear it afterwards.
// TERN_ERR_CORRUPT  not such a file, why names the key; errors of tern_file_read()
TERN_MUST_USE enum tern_result
tern_fleet_results_read(const char *path, struct tern_fleet_results *results, char why[256]);

// Prints the table of one run, beside what float32 would take as payload.
void tern_fleet_print_table(const struct tern_fleet_results *run, FILE *out);

// Prints a run beside another, with ratios. The names are the columns': paths of files, or other
// words.
void tern_fleet_print_comparison(const struct tern_fleet_results *run, const char *name,
                                 const struct tern_fleet_results *baseline,
                                 const char *baseline_name, FILE *out);

// "980 B", "3.1 KB", "12.4 MB" (powers of 1000). Returns text.
const char *tern_fleet_format_bytes(double bytes, char text[16]);

#endif
