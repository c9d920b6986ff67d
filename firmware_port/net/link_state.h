// The memory of a link, for who owns it: fields are private to link.c.
#ifndef TERN_FIRMWARE_LINK_STATE_H
#define TERN_FIRMWARE_LINK_STATE_H

#include "net/link.h"

#include <lwip/netif.h>

struct tern_link {
    struct netif interface;
    const struct tern_board_settings *settings;
    struct tern_link_bytes bytes;
    // On its way in or out; never both, since lwIP has a copy of what came in before it sends.
    uint8_t frame[BOARD_FRAME_MAX];
};

#endif
