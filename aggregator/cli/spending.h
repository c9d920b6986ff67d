// What a client is likely to spend by settings and model, before there is a meter to read: for init,
// which prints it, for serve, which logs it, and for the advice of both. From the main thread.
#ifndef TERN_CLI_SPENDING_H
#define TERN_CLI_SPENDING_H

#include "cli/settings.h"
#include "federation/federation.h"
#include "hosted/cli.h"
#include "tensor/model.h"
#include <cjson/cJSON.h>

// Bytes are of a client that takes part in every round.
struct tern_spending {
    double up;            // of the tensors of an update, mean of all rounds
    double down;          // of the tensors of a download, mean of all rounds
    double round;         // on the wire, both ways: those, messages, TLS and headers
    double last;          // likewise, of the global model itself at the end; 0 = it is not sent
    double day;           // as of a round, at the most; 0 = nothing says how many rounds that are
    uint64_t interval_ms; // between the openings of two rounds, at the least
    uint32_t rounds;      // until the federation is finished; 0 = without end
};

// Whether neither a number of rounds nor a pause between them bounds what clients spend.
bool tern_spending_is_unbounded(const struct tern_aggregator_settings *s);

// An estimate, by the bits that a value takes (codec/plan.h) and what exchanges were measured to cost
// (meter/meter.h). config: what tern_cli_fill_service() and tern_cli_fill_for_model() made of the settings.
struct tern_spending tern_spending_of(const struct tern_aggregator_settings *s,
                                      const struct tern_federation_config *config,
                                      const struct tern_model *model);

#define TERN_SPENDING_OTHERS 256 // bytes with the terminating NUL
#define TERN_SPENDING_ACCURACIES 4

// What a client would move in a round by each value of codec.accuracy: the same estimate as above.
struct tern_spending_accuracies {
    size_t
        count; // 0 = codec.accuracy has no effect, since both codecs are set, or the settings are refused
    struct {
        const char *accuracy;
        double round; // bytes
        bool is_set;  // it is the one in force
    } of[TERN_SPENDING_ACCURACIES];
};

struct tern_spending_accuracies tern_spending_accuracies(struct tern_cli *cli,
                                                         const struct tern_model *model);

// Writes "balanced, about 8.2 KB a client and round (thrifty 3.1 KB, careful 12 KB)"; empty without any. Returns text.
const char *tern_spending_accuracies_text(const struct tern_spending_accuracies *all,
                                          char text[TERN_SPENDING_OTHERS]);
// Returns [{"accuracy": "balanced", "round": 8200, "in_force": true}, ...], which the caller deletes.
cJSON *tern_spending_accuracies_json(const struct tern_spending_accuracies *all);

// For people, on stdout; for scripts, as "spending" of the object; for the log.
void tern_spending_print(const struct tern_spending *spending);
void tern_spending_json(cJSON *object, const struct tern_spending *spending);
void tern_spending_log(const struct tern_spending *spending);

#endif
