// The network below TCP: lwIP, its timers, and the board's link as its only interface. Counts the bytes of every IP packet. One
// thread. lwIP has static pools and timers, so an image has only one link. link_state.h defines struct tern_link.
#ifndef TERN_FIRMWARE_LINK_H
#define TERN_FIRMWARE_LINK_H

#include "board.h"
#include "result.h"

// Bytes of IP packets with headers and retransmissions, without link-layer framing.
struct tern_link_bytes {
    uint32_t sent;
    uint32_t received;
};

struct tern_link;

// Starts lwIP and the link. link: all zero before; lwIP refers to it forever.
// TERN_ERR_IO  the board has no link
TERN_MUST_USE enum tern_result tern_link_start(struct tern_link *link,
                                               const struct tern_board_settings *settings);

// Passes received frames to lwIP and runs its timers.
void tern_link_poll(struct tern_link *link);

// Whether this device has an address.
bool tern_link_ready(const struct tern_link *link);

// Returns the bytes since the last call.
struct tern_link_bytes tern_link_take_bytes(struct tern_link *link);

#endif
