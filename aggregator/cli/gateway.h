// A gateway: an aggregator that is one client of an upstream aggregator. Its state directory holds the records of that client.
// The verb `join` makes a gateway; `serve`, `status` and `doctor` use these functions. From the main thread.
#ifndef TERN_CLI_GATEWAY_H
#define TERN_CLI_GATEWAY_H

#include "cli/state.h"
#include "relay/relay.h"

// Refuses a gateway whose database is not a file. Returns an exit code.
int tern_gateway_check(struct tern_cli *cli);

// Refuses a state directory in which `join` was interrupted. Returns an exit code.
int tern_gateway_check_joined(const struct tern_cli *cli);

// Locks the state directory (tern_state_lock()) and opens the client of the upstream aggregator. *lock: a descriptor that
// the caller closes, or -1. Returns an exit code.
int tern_gateway_open(struct tern_cli *cli, int *lock, struct tern_relay **relay);

// Reports whether the upstream aggregator answers a running gateway; silent_ms is 0 where it does, or no gateway runs.
void tern_gateway_upstream(const struct tern_cli *cli, struct tern_service_upstream *upstream);

// Print, for `status`, the traffic on the upstream link; nothing unless this is a gateway.
void tern_gateway_print(const struct tern_cli *cli);
void tern_gateway_json(const struct tern_cli *cli, cJSON *object);

#endif
