// The network below TCP: lwIP, its timers, and the board's link as its one interface. Every IP
// packet of this device is counted as it passes. One thread; static state.
#ifndef TERN_FIRMWARE_LINK_H
#define TERN_FIRMWARE_LINK_H

#include "board.h"
#include "result.h"

// IP packets with their headers, retransmissions included; no link-layer framing.
struct tern_link_bytes {
    uint32_t sent;
    uint32_t received;
};

// TERN_ERR_IO  the board has no link
TERN_MUST_USE enum tern_result tern_link_start(const struct board_settings *settings);

// Takes frames that arrived and runs lwIP's timers.
void tern_link_poll(void);

// Whether this device has an address.
bool tern_link_ready(void);

// The bytes since the last call.
struct tern_link_bytes tern_link_take_bytes(void);

#endif
