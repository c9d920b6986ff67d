// Logs what the device does, by one line of tern_board_log() for each event: "NAME KEY=VALUE ...", as in tern-client's log.
// Images with TERN_LOG=OFF contain silent/device_log.c instead, which logs only the reason of a stop. Called from the main
// loop.
#ifndef TERN_FIRMWARE_DEVICE_LOG_H
#define TERN_FIRMWARE_DEVICE_LOG_H

#include "client.h"
#include "net/transport.h"

// Logs that the client's identity and state are restored.
void tern_firmware_log_started(const struct tern_client *client);

// Logs an event of the client.
void tern_firmware_log_event(const struct tern_client_event *event);

// Logs that enrolling failed and is repeated.
void tern_firmware_log_enroll_retry(void);

// Logs a fatal error and stops the board. what: a word for the step that failed, e.g. "store".
_Noreturn void tern_firmware_log_failure(const char *what, enum tern_result result);

// Logs the final state of the model, the peak use of the stack and of TLS memory, and flash_wear, the number of erasures of the
// most erased block. Tests parse this line.
void tern_firmware_log_summary(const struct tern_client *client,
                               const struct tern_firmware_transport *network, uint32_t rounds,
                               uint32_t flash_wear);

#endif
