// Checks the settings of `serve` and turns them into the configuration of the service and of its clients' listener. Called
// at the start, on SIGHUP, and by `doctor` and `init`; from the main thread.
//
// A function that returns an exit code has printed which settings cannot be used, and why, unless it returns TERN_EXIT_OK.
#ifndef TERN_CLI_SERVE_CONFIG_H
#define TERN_CLI_SERVE_CONFIG_H

#include "cli/state.h"
#include "codec/codec.h"
#include "http/http.h"
#include "service/service.h"
#include "tensor/model.h"

// Sets the fields of *config that do not depend on the model. The caller has set *config to zeros. Returns an exit code.
int tern_serve_config_read(struct tern_cli *cli, struct tern_service_config *config);

// Sets the fields of *config that depend on the model, and the limits of the clients' listener. spec: for messages.
// Returns an exit code.
int tern_serve_config_fit_model(struct tern_cli *cli, const struct tern_model *model,
                                const char *spec, struct tern_federation_config *config,
                                struct tern_http_limits *limits);

// Sets the codecs and downloads.residual for a model of `values` values; the defaults depend on that number. `s` may
// differ from the settings of the command line. Returns an exit code.
int tern_serve_config_fill_codecs(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                                  uint32_t values, struct tern_federation_config *config);

// Returns the i-th value of codec.accuracy, ordered by bytes, fewest first; NULL after the last.
const char *tern_serve_config_accuracy(size_t i);

// Returns the settings of [privacy].
struct tern_privacy_settings
tern_serve_config_privacy(const struct tern_aggregator_settings *settings);

// Returns the least time between the openings of two rounds: round.min_interval, or the value that its `auto` stands for.
uint64_t tern_serve_config_interval_ms(const struct tern_aggregator_settings *s);

// Returns the most bytes that an update of `model` takes with `codec`.
uint64_t tern_serve_config_update_max(const struct tern_codec *codec,
                                      const struct tern_model *model);

// The TLS files that the settings name.
struct tern_serve_tls_files {
    char certificate[PATH_MAX];
    char private_key[PATH_MAX];
    struct tern_http_files names; // borrows the two paths and the settings
};

void tern_serve_tls_files(const struct tern_cli *cli, struct tern_serve_tls_files *files);

#endif
