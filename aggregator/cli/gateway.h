// A gateway's state directory: that of an aggregator, with the records of its client above in a folder. On the main
// thread only.
#ifndef TERN_CLI_GATEWAY_H
#define TERN_CLI_GATEWAY_H

#include "cli/state.h"
#include "relay/relay.h"

#define TERN_STATE_ABOVE "above" // that folder

// Whether the state directory is a gateway's.
bool tern_gateway_is_one(const struct tern_cli *cli);

// Refuses settings that no gateway can have. Returns the exit code.
int tern_gateway_check(struct tern_cli *cli);

// Refuses a state directory in which join has not come to its end. Returns the exit code.
int tern_gateway_check_joined(const struct tern_cli *cli);

// Takes the state directory (tern_state_lock()) and opens the client above, by the settings. *lock: the caller's to
// close, where it is not -1. Returns the exit code.
int tern_gateway_open(struct tern_cli *cli, int *lock, struct tern_relay **relay);

// Of a gateway that runs: whether the aggregator above answers; silent_ms is 0 where it does, or nothing runs.
void tern_gateway_above(const struct tern_cli *cli, struct tern_service_above *above);

// For status: what the link above has carried. Nothing, where it is no gateway.
void tern_gateway_print(const struct tern_cli *cli);
void tern_gateway_json(const struct tern_cli *cli, cJSON *object);

#endif
