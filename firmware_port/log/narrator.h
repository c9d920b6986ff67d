// Says what the device does, one line of tern_board_log() each: "NAME KEY=VALUE ...", as tern-client
// logs it. An image with TERN_LOG=OFF has silent/narrator.c instead, and no texts. From the main
// loop.
#ifndef TERN_FIRMWARE_NARRATOR_H
#define TERN_FIRMWARE_NARRATOR_H

#include "client.h"
#include "net/transport.h"

// The client knows who it is and where it left off.
void tern_firmware_says_started(const struct tern_client *client);

void tern_firmware_says_event(const struct tern_client_event *event);

// Enrolling did not work now.
void tern_firmware_says_enrolls_again(void);

// The firmware cannot go on: what failed, and how. Stops the board.
_Noreturn void tern_firmware_says_failed(const char *what, enum tern_result result);

// The end, for programs: where the model is, and what the run took.
void tern_firmware_says_summary(const struct tern_client *client,
                                const struct tern_firmware_transport *network, uint32_t rounds,
                                uint32_t flash_wear);

#endif
