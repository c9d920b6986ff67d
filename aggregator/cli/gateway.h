// A gateway: an aggregator whose state directory has, in a folder, the records of its client of the upstream aggregator.
// The verb `join` makes one; `serve` and the verbs that describe a service use it. On the main thread only.
#ifndef TERN_CLI_GATEWAY_H
#define TERN_CLI_GATEWAY_H

#include "cli/state.h"
#include "relay/relay.h"

// Returns whether the state directory is that of a gateway.
bool tern_gateway_is_one(const struct tern_cli *cli);

// Refuses settings that no gateway can have. Returns an exit code.
int tern_gateway_check(struct tern_cli *cli);

// Refuses a state directory in which `join` was interrupted. Returns an exit code.
int tern_gateway_check_joined(const struct tern_cli *cli);

// Locks the state directory (tern_state_lock()) and opens the client of the upstream aggregator. *lock: a descriptor that
// the caller closes, or -1. Returns an exit code.
int tern_gateway_open(struct tern_cli *cli, int *lock, struct tern_relay **relay);

// Reports whether the upstream aggregator answers a running gateway; silent_ms is 0 where it does, or no gateway runs.
void tern_gateway_above(const struct tern_cli *cli, struct tern_service_upstream *above);

// Print, for `status`, the traffic on the upstream link; nothing unless this is a gateway.
void tern_gateway_print(const struct tern_cli *cli);
void tern_gateway_json(const struct tern_cli *cli, cJSON *object);

#endif
