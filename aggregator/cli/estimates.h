// Estimates of what a federation needs, from its settings and model: the bytes that a client moves, before a meter has
// measured them, and the disk space of the aggregator. For `init`, `serve`, `status` and `doctor`; from the main thread.
#ifndef TERN_CLI_ESTIMATES_H
#define TERN_CLI_ESTIMATES_H

#include "cli/settings.h"
#include "federation/federation.h"
#include "hosted/cli.h"
#include "store/store.h"
#include "tensor/model.h"
#include <cjson/cJSON.h>

// Estimated bytes of a client that takes part in every round.
struct tern_spending {
    double update_bytes;   // tensors of an update, mean of all rounds
    double download_bytes; // tensors of a download, mean of all rounds
    // on the wire in both directions, with messages, TLS and headers
    double round_bytes;
    // on the wire, for the global model after the last round; 0: clients do not download it
    double final_model_bytes;
    double day_bytes;     // most bytes per day; 0: nothing limits the number of rounds per day
    uint64_t interval_ms; // least time between the openings of two rounds
    uint32_t rounds;      // number of rounds; 0: without end
};

// Estimates from the bits of a value (codec/plan.h) and the measured costs of an exchange (meter/meter.h). config: after
// tern_serve_config_read() and tern_serve_config_fill_codecs().
struct tern_spending tern_spending_estimate(const struct tern_aggregator_settings *s,
                                            const struct tern_federation_config *config,
                                            const struct tern_model *model);

// Returns whether updates and downloads are sent as float32, so that compression costs no accuracy.
bool tern_codecs_are_exact(const struct tern_aggregator_settings *s);

#define TERN_SPENDING_OTHERS 256 // bytes, with the terminating NUL
#define TERN_SPENDING_ACCURACIES 4

// Bytes of a round for each value of codec.accuracy.
struct tern_spending_accuracies {
    size_t count; // 0: codec.accuracy has no effect, or the settings are refused
    struct {
        const char *accuracy;
        double round_bytes;
        bool is_set; // the settings have this value of codec.accuracy
    } list[TERN_SPENDING_ACCURACIES];
};

struct tern_spending_accuracies tern_spending_accuracies(struct tern_cli *cli,
                                                         const struct tern_model *model);

// Writes "balanced, about 8.2 KB a client and round (thrifty 3.1 KB, careful 12 KB)"; "" if count is 0. Returns text.
const char *tern_spending_accuracies_text(const struct tern_spending_accuracies *all,
                                          char text[TERN_SPENDING_OTHERS]);
// Returns [{"accuracy": "balanced", "round": 8200, "in_force": true}, ...], which the caller deletes.
cJSON *tern_spending_accuracies_json(const struct tern_spending_accuracies *all);

// Rounds that open at shorter intervals count as rounds without a pause, because clients take about as long to train.
#define TERN_PAUSE_MS 60000

void tern_spending_log(const struct tern_spending *spending);

// How long the downloads of one round keep the aggregator busy.
struct tern_round_time {
    double seconds;
    bool measured; // the last committed round's searches took these seconds; false: an estimate
    // The estimate: clients x values x nanoseconds
    uint32_t clients; // of a round
    uint32_t values;
    double ns;
    bool has_own_replicas; // clients miss rounds, so that a search makes each client's downloads
    uint64_t limit_ms;     // a round should take less
    const char *limit;     // the setting with this limit: round.min_interval or round.deadline
};

// enrolled: 0 = unknown. committed: the last committed round; NULL, or its number is 0: none
struct tern_round_time tern_round_time(const struct tern_federation_config *config,
                                       const struct tern_model *model, uint64_t enrolled,
                                       const struct tern_db_round *committed);

#define TERN_ROUND_TIME_MAX 400 // bytes of a warning

// Returns whether the downloads take longer than a round may; writes a sentence with both times and what to do.
bool tern_round_time_is_long(const struct tern_round_time *time, char text[TERN_ROUND_TIME_MAX]);

// Adds "round_time": seconds, measured, limit_ms and whether the downloads take longer.
void tern_round_time_json(cJSON *object, const struct tern_round_time *time);

#define TERN_DISK_NEED_MAX 200 // bytes of a sentence
#define TERN_DISK_NEED_ADVICE                                                                      \
    "use a larger disk, or lower limits.history_bytes, limits.keep_versions and limits.disk; "     \
    "until then, fewer rounds can be replayed, and fewer downloads are kept for late clients"

struct tern_disk_need {
    uint64_t needed;    // estimate in bytes
    uint64_t available; // bytes of the database file and of free space; UINT64_MAX: unknown
};

// Returns the estimate for a number of enrolled clients. config: as for tern_spending_estimate().
uint64_t tern_disk_need_bytes(const struct tern_aggregator_settings *s,
                              const struct tern_federation_config *config,
                              const struct tern_model *model, uint64_t enrolled);

// Estimates for the clients in the database, and measures the disk. Returns errors of the store.
TERN_MUST_USE enum tern_result tern_disk_need_measure(const struct tern_aggregator_settings *s,
                                                      const struct tern_federation_config *config,
                                                      const struct tern_model *model,
                                                      struct tern_db *db,
                                                      struct tern_disk_need *need);

// Returns whether the federation needs more space than the disk has; writes a sentence with both numbers.
bool tern_disk_need_is_short(const struct tern_disk_need *need, char text[TERN_DISK_NEED_MAX]);

#endif
