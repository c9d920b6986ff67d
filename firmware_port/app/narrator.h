// Says what the client does, one line of the log for each event: "NAME KEY=VALUE ...", as
// tern-client logs them.
#ifndef TERN_FIRMWARE_NARRATOR_H
#define TERN_FIRMWARE_NARRATOR_H

#include "client.h"

// For struct tern_client_config. ctx: uint32_t, the rounds that were answered, counted here.
void narrator_on_event(void *ctx, const struct tern_client_event *event);

#endif
