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

// Time between the openings of two rounds, at the least: round.min_interval, or what its auto stands for.
uint64_t tern_spending_interval_ms(const struct tern_aggregator_settings *s);

// Whether neither a number of rounds nor a pause between them bounds what clients spend.
bool tern_spending_is_unbounded(const struct tern_aggregator_settings *s);

// An estimate, by the bits that a value takes (codec/plan.h) and what exchanges were measured to cost
// (meter/price.h). config: what tern_cli_fill_service() and tern_cli_fill_for_model() made of the settings.
struct tern_spending tern_spending_of(const struct tern_aggregator_settings *s,
                                      const struct tern_federation_config *config,
                                      const struct tern_model *model);

#define TERN_SPENDING_OTHERS 256 // bytes with the terminating NUL

// Writes which codec.accuracy is set and what a client would move in a round by each: "balanced, 8.2 KB a round (thrifty
// 3.1 KB, careful 12 KB)". Empty where both codecs are set, so that it has no effect. Returns text.
const char *tern_spending_accuracies(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                                     const struct tern_federation_config *config,
                                     const struct tern_model *model,
                                     char text[TERN_SPENDING_OTHERS]);

// For people, on stdout; for scripts, as "spending" of the object; for the log.
void tern_spending_print(const struct tern_spending *spending);
void tern_spending_json(cJSON *object, const struct tern_spending *spending);
void tern_spending_log(const struct tern_spending *spending);

#endif
