// Defines struct tern_link for its owner; the fields are private to link.c.
#ifndef TERN_FIRMWARE_LINK_STATE_H
#define TERN_FIRMWARE_LINK_STATE_H

#include "net/link.h"

#include <lwip/netif.h>

struct tern_link {
    struct netif interface;
    const struct tern_board_settings *settings;
    struct tern_link_bytes bytes;
    // Buffer of the frame that is being received or sent. One buffer is enough, because lwIP copies a received frame before it
    // sends.
    uint8_t frame[BOARD_FRAME_MAX];
};

#endif
