// The client above. For the files of relay/ alone.
#ifndef TERN_RELAY_ABOVE_H
#define TERN_RELAY_ABOVE_H

#include "relay/internal.h"

// Opens records and link of relay->config, and makes the client over them.
TERN_MUST_USE enum tern_result tern_relay_above_open(struct tern_relay *relay, char why[512]);
// Takes memory, and loads what is stored.
TERN_MUST_USE enum tern_result
tern_relay_above_restore(struct tern_relay *relay, const struct tern_model *model, char why[512]);
void tern_relay_above_close(struct tern_relay *relay);

// Logs what the client tells (say.c).
void tern_relay_say(void *ctx, const struct tern_client_event *event);

#endif
