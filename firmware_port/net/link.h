// Connects lwIP to the board's link, its only interface: starts lwIP, passes frames between them, runs lwIP's timers, and
// counts the bytes of every IP packet. One thread. lwIP has static pools and timers, so an image has only one link.
// link_state.h defines struct tern_link.
#ifndef TERN_FIRMWARE_LINK_H
#define TERN_FIRMWARE_LINK_H

#include "board.h"
#include "result.h"

// Bytes of IP packets, including headers and retransmissions, without Ethernet headers.
struct tern_link_bytes {
    uint32_t sent;
    uint32_t received;
};

struct tern_link;

// Starts lwIP and the board's link. link: must be all zero; lwIP refers to it forever.
// TERN_ERR_IO  the board has no link
TERN_MUST_USE enum tern_result tern_link_start(struct tern_link *link,
                                               const struct tern_board_settings *settings);

// Passes received frames to lwIP and runs its timers.
void tern_link_poll(struct tern_link *link);

// Returns whether this device has an IP address.
bool tern_link_ready(const struct tern_link *link);

// Returns the bytes sent and received since the previous call.
struct tern_link_bytes tern_link_take_bytes(struct tern_link *link);

#endif
