// Says what the device does, one line of board_log() each: "NAME KEY=VALUE ...", as tern-client
// logs it. An image with TERN_LOG=OFF has silent/narrator.c instead, and no texts. From the main
// loop.
#ifndef TERN_FIRMWARE_NARRATOR_H
#define TERN_FIRMWARE_NARRATOR_H

#include "client.h"

// The client knows who it is and where it left off.
void narrator_started(const struct tern_client *client);

void narrator_event(const struct tern_client_event *event);

// Enrolling did not work now.
void narrator_enrolls_again(void);

// The firmware cannot go on: what failed, and how. Stops the board.
_Noreturn void narrator_failed(const char *what, enum tern_result result);

// The end, for programs: where the model is, and what the run took.
void narrator_summary(const struct tern_client *client, uint32_t rounds, uint32_t flash_wear);

#endif
