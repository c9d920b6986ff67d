// Drives the SMSC LAN9118 Ethernet controller by polling. Frames pass through two FIFOs of 32-bit words; a command and a data
// register give access to the MAC's registers. Datasheet: "LAN9118, High Performance Single-Chip 10/100 Non-PCI Ethernet
// Controller".
#include "board.h"

#include <string.h>

#define REGISTER(offset) (*(volatile uint32_t *)(0x40200000u + (offset)))
#define RX_DATA REGISTER(0x00)
#define TX_DATA REGISTER(0x20)
#define RX_STATUS REGISTER(0x40)
#define TX_STATUS REGISTER(0x48)
#define BYTE_TEST REGISTER(0x64)
#define RX_CFG REGISTER(0x6c)
#define TX_CFG REGISTER(0x70)
#define HW_CFG REGISTER(0x74)
#define RX_DP_CTL REGISTER(0x78)
#define RX_FIFO_INF REGISTER(0x7c)
#define TX_FIFO_INF REGISTER(0x80)
#define MAC_CMD REGISTER(0xa4)
#define MAC_DATA REGISTER(0xa8)

#define BYTE_ORDER_IS_RIGHT 0x87654321u
#define HW_CFG_RESET 1u
#define HW_CFG_WHOLE_FRAMES (1u << 20) // the datasheet requires it: sends complete frames only
#define HW_CFG_TX_FIFO (5u << 16)      // 5 of the 16 KiB for sending
#define TX_CFG_ON (1u << 1)
#define TX_FIRST_AND_LAST (3u << 12)
#define TX_OVERHEAD 16u // two command words, and up to a word of padding at either end
#define RX_DP_SKIP (1u << 31)
#define RX_ERROR (1u << 15)

#define MAC_BUSY (1u << 31)
#define MAC_CR 1u
#define MAC_ADDRESS_HIGH 2u
#define MAC_ADDRESS_LOW 3u
#define MAC_CR_RECEIVE (1u << 2)
#define MAC_CR_SEND (1u << 3)
#define MAC_CR_FULL_DUPLEX (1u << 20)

#define CHECKSUM 4u // bytes after every received frame

static void write_mac(uint32_t index, uint32_t value)
{
    while ((MAC_CMD & MAC_BUSY) != 0) {
    }
    MAC_DATA = value;
    MAC_CMD = MAC_BUSY | index;
    while ((MAC_CMD & MAC_BUSY) != 0) {
    }
}

bool tern_board_link_start(const uint8_t mac[6])
{
    if (BYTE_TEST != BYTE_ORDER_IS_RIGHT) {
        return false;
    }
    HW_CFG = HW_CFG_RESET;
    while ((HW_CFG & HW_CFG_RESET) != 0) {
    }
    HW_CFG = HW_CFG_WHOLE_FRAMES | HW_CFG_TX_FIFO;
    RX_CFG = 0; // frames begin at a word
    TX_CFG = TX_CFG_ON;
    write_mac(MAC_ADDRESS_LOW, (uint32_t)mac[0] | (uint32_t)mac[1] << 8 | (uint32_t)mac[2] << 16 |
                                   (uint32_t)mac[3] << 24);
    write_mac(MAC_ADDRESS_HIGH, (uint32_t)mac[4] | (uint32_t)mac[5] << 8);
    write_mac(MAC_CR, MAC_CR_RECEIVE | MAC_CR_SEND | MAC_CR_FULL_DUPLEX);
    return true;
}

static void skip_frame(size_t words)
{
    if (words >= 4) {
        RX_DP_CTL = RX_DP_SKIP;
        while ((RX_DP_CTL & RX_DP_SKIP) != 0) {
        }
        return;
    }
    for (; words > 0; words--) { // the datasheet forbids skipping fewer than four words
        (void)RX_DATA;
    }
}

size_t tern_board_link_receive(uint8_t *frame)
{
    if ((RX_FIFO_INF >> 16 & 0xff) == 0) {
        return 0;
    }
    const uint32_t status = RX_STATUS;
    const size_t len = status >> 16 & 0x3fff;
    const size_t words = (len + 3) / 4;
    if ((status & RX_ERROR) != 0 || len <= CHECKSUM || len - CHECKSUM > BOARD_FRAME_MAX) {
        skip_frame(words);
        return 0;
    }
    const size_t frame_len = len - CHECKSUM;
    for (size_t i = 0; i < words; i++) {
        const uint32_t word = RX_DATA;
        const size_t left = frame_len > i * 4 ? frame_len - i * 4 : 0;
        memcpy(frame + i * 4, &word, left < 4 ? left : 4);
    }
    return frame_len;
}

// Discards the status of sent frames, because a full status FIFO would stop sending.
static void drop_statuses(void)
{
    while ((TX_FIFO_INF >> 16 & 0xff) != 0) {
        (void)TX_STATUS;
    }
}

bool tern_board_link_send(const uint8_t *frame, size_t len)
{
    drop_statuses();
    if ((TX_FIFO_INF & 0xffff) < len + TX_OVERHEAD) {
        return false;
    }
    TX_DATA = TX_FIRST_AND_LAST | (uint32_t)len;
    TX_DATA = (uint32_t)len;
    for (size_t i = 0; i < len; i += 4) {
        uint32_t word = 0;
        memcpy(&word, frame + i, len - i < 4 ? len - i : 4);
        TX_DATA = word;
    }
    return true;
}
