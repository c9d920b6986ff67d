// The transport port over mbedTLS over lwIP's raw TCP API: one connection, never blocking (an
// exchange returns TERN_AGAIN until it is done), every IP packet counted as it passes the link.
// There is one network in a device: these functions share static state and belong to one thread.
#ifndef TERN_FIRMWARE_TRANSPORT_H
#define TERN_FIRMWARE_TRANSPORT_H

#include "board.h"
#include "ports.h"

// Starts the link, lwIP and TLS. settings are borrowed for good.
// TERN_ERR_ARGUMENT   no CA and no key, or the CA is no certificate
// TERN_ERR_IO         the board has no link, or no entropy
// TERN_ERR_NO_MEMORY  mbedTLS was given too little
TERN_MUST_USE enum tern_result tern_firmware_transport_start(const struct board_settings *settings);

// Who the device is, once it is enrolled: the identity and key of a PSK handshake. Not needed for
// certificates. token is borrowed for good.
void tern_firmware_transport_identify(uint64_t client_id, const char *token);

// Takes frames from the link and runs lwIP's timers. Call it in every turn of the main loop.
void tern_firmware_transport_poll(void);

struct tern_transport tern_firmware_transport_port(void);

// How far into its memory mbedTLS has ever reached; *given: how much that is.
size_t tern_firmware_transport_peak(size_t *given);

#endif
