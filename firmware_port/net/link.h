// The network below TCP: lwIP, its timers, and the board's link as its one interface. Every IP
// packet of this device is counted as it passes. One thread. lwIP itself keeps its pools and timers in
// static memory, so there is one link in an image; link_state.h has what is Tern's of it.
#ifndef TERN_FIRMWARE_LINK_H
#define TERN_FIRMWARE_LINK_H

#include "board.h"
#include "result.h"

// IP packets with their headers, retransmissions included; no link-layer framing.
struct tern_link_bytes {
    uint32_t sent;
    uint32_t received;
};

struct tern_link;

// link: all zero; lwIP refers to it from now on.
// TERN_ERR_IO  the board has no link
TERN_MUST_USE enum tern_result tern_link_start(struct tern_link *link,
                                               const struct tern_board_settings *settings);

// Takes frames that arrived and runs lwIP's timers.
void tern_link_poll(struct tern_link *link);

// Whether this device has an address.
bool tern_link_ready(const struct tern_link *link);

// The bytes since the last call.
struct tern_link_bytes tern_link_take_bytes(struct tern_link *link);

#endif
