// Logs what the device does, a line of tern_board_log() for each event: "NAME KEY=VALUE ...", like tern-client's log. An image
// with TERN_LOG=OFF has silent/device_log.c instead. Called from the main loop.
#ifndef TERN_FIRMWARE_DEVICE_LOG_H
#define TERN_FIRMWARE_DEVICE_LOG_H

#include "client.h"
#include "net/transport.h"

// Logs that the client's identity and state are restored.
void tern_firmware_log_started(const struct tern_client *client);

void tern_firmware_log_event(const struct tern_client_event *event);

// Logs that enrolling failed and is repeated.
void tern_firmware_log_enroll_retry(void);

// Logs a fatal error and stops the board. what: the part that failed.
_Noreturn void tern_firmware_log_failure(const char *what, enum tern_result result);

// Logs the final state of the model, and the stack, TLS memory and flash erases that the run took. Tests read this line.
void tern_firmware_log_summary(const struct tern_client *client,
                               const struct tern_firmware_transport *network, uint32_t rounds,
                               uint32_t flash_wear);

#endif
