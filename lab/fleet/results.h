// The results of a fleet's run: accuracy per round, bytes per client and round, and the model's hash; as flat JSON
// and as tables. Plain data; one thread at a time.
#ifndef TERN_FLEET_RESULTS_H
#define TERN_FLEET_RESULTS_H

#include "codec/codec.h"
#include "fleet/open_sums.h"
#include "fleet/records.h"
#include "meter/meter.h"
#include "ports.h"
#include "result.h"
#include "util/sha256.h"
#include <cjson/cJSON.h>
#include <stdio.h>

struct tern_fleet_results {
    char codec[TERN_CODEC_SPEC_MAX]; // codec of updates, from the tasks
    char model[64];                  // spec of the model
    char model_hash[2 * TERN_SHA256_SIZE +
                    1]; // SHA-256 of the final global model, hex; "": unfinished
    uint64_t seed;
    uint32_t clients; // training clients
    uint32_t cohort;  // largest number of updates in a round
    uint32_t rounds;  // evaluated versions
    double seconds;
    uint32_t values;          // number of the model's values; 0: the model was read from a file
    uint64_t float32_payload; // bytes of an uncompressed update

    // Every byte of every client that trains (enrolment, handshakes and idle check-ins included,
    // the evaluator's not), and by how many updates that is divided for the means.
    struct tern_bytes up;
    struct tern_bytes down;
    uint64_t participations;

    double local_steps; // mean per update; 0: unknown
    double encode_ms;   // mean time in which an update was encoded and saved

    // rounds values each, malloc'ed. Bytes on the wire are those of the clients whose updates made
    // the version, from one update to the next; trunk, of the downloads that bring who holds the
    // version before. Accuracy is that of the replica which the evaluator holds, NaN where it
    // passed the version over. All but accuracy are NULL in results read from a file.
    double *accuracy;
    // of models that are not classifiers; num_examples 0: not measured
    struct tern_evaluate_result *found;
    double *round_up;
    double *round_down;
    double *round_trunk;

    // Figures of the clients' replicas on the test set at the end (fleet/figure.h; NaN: too old to be measured), and
    // their versions: `clients` values each. NULL: read from a file.
    double *replica_figure;
    double *replica_version;

    // With local tensors: the accuracy of each client's personal model on data like its own; NaN: the client has not
    // trained. Otherwise, or when read from a file, NULL.
    double *personal_accuracy;
    char *manifest; // hex; of a model whose tensors have rules; else NULL
    // the columns' scaling as the hex of a Scaling message (wire/tern.proto), malloc'ed; NULL: none
    char *scaling;

    struct tern_evaluate_result pooled; // pooled training; num_examples 0: not made
    uint64_t pooled_steps;

    struct tern_records records;       // empty: read from a file
    struct tern_open_mean *open_means; // open_count of them, one per secure round; malloc'ed
    uint32_t open_count;
};

void tern_fleet_results_clear(struct tern_fleet_results *results);

// Returns the accuracy of the last measured version; NaN: none.
double tern_fleet_final_accuracy(const struct tern_fleet_results *results);

// Returns the result of the last measured version, for a model that is not a classifier. NULL: none.
const struct tern_evaluate_result *
tern_fleet_final_figures(const struct tern_fleet_results *results);

// Returns the flat JSON, malloc'ed; the caller frees it. NULL: out of memory.
char *tern_fleet_results_text(const struct tern_fleet_results *results);

// Writes the JSON to a file. TERN_ERR_NO_MEMORY, errors of tern_file_write()
TERN_MUST_USE enum tern_result tern_fleet_results_write(const struct tern_fleet_results *results,
                                                        const char *path);

// Reads the JSON of tern_fleet_results_write(); the caller clears *results.
// TERN_ERR_CORRUPT  malformed; why names the key; errors of tern_file_read()
TERN_MUST_USE enum tern_result
tern_fleet_results_read(const char *path, struct tern_fleet_results *results, char why[256]);

// Prints the table of a run, compared with the payload of float32.
void tern_fleet_print_table(const struct tern_fleet_results *run, FILE *out);

// Prints two runs side by side, with ratios. The names, such as file names, are the columns' headings.
void tern_fleet_print_comparison(const struct tern_fleet_results *run, const char *name,
                                 const struct tern_fleet_results *baseline,
                                 const char *baseline_name, FILE *out);

// Formats bytes as "980 B", "3.1 KB", "12.4 MB" (powers of 1000). Returns text.
const char *tern_fleet_format_bytes(double bytes, char text[16]);

#endif
