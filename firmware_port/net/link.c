#include "net/link_state.h"

#include <lwip/dhcp.h>
#include <lwip/etharp.h>
#include <lwip/init.h>
#include <lwip/netif.h>
#include <lwip/sys.h>
#include <lwip/timeouts.h>
#include <netif/ethernet.h>
#include <string.h>

#define ETHERNET_HEADER 14u
#define IP_LENGTH_AT (ETHERNET_HEADER + 2)
#define IP_DESTINATION_AT (ETHERNET_HEADER + 16)
#define IP_HEADER 20u

// At most so many frames are received in one poll, so that a busy network does not block the main loop.
#define FRAMES_PER_POLL 8

uint32_t sys_now(void)
{
    return (uint32_t)tern_board_monotonic_ms();
}

uint32_t tern_link_random(void)
{
    uint32_t random = 0;
    if (!tern_board_entropy(&random, sizeof random)) {
        random = sys_now(); // without entropy TLS does not start anyway
    }
    return random;
}

static bool is_ip(const uint8_t *frame)
{
    return frame[12] == 0x08 && frame[13] == 0x00;
}

// Counts a received IP packet to this device; not a broadcast, nor the padding of a short frame.
static void count_received(struct tern_link *link, size_t len)
{
    const uint8_t *frame = link->frame;
    if (len < ETHERNET_HEADER + IP_HEADER || !is_ip(frame) ||
        memcmp(frame + IP_DESTINATION_AT, netif_ip4_addr(&link->interface), 4) != 0) {
        return;
    }
    const size_t said = (size_t)frame[IP_LENGTH_AT] << 8 | frame[IP_LENGTH_AT + 1];
    const size_t most = len - ETHERNET_HEADER;
    link->bytes.received += (uint32_t)(said < most ? said : most);
}

static err_t send_frame(struct netif *netif, struct pbuf *packet)
{
    struct tern_link *link = netif->state;
    const uint16_t len = pbuf_copy_partial(packet, link->frame, sizeof link->frame, 0);
    if (len < packet->tot_len || !tern_board_link_send(link->frame, len)) {
        return ERR_MEM; // TCP sends the segment again
    }
    link->bytes.sent += is_ip(link->frame) ? len - ETHERNET_HEADER : 0;
    return ERR_OK;
}

static err_t set_up_interface(struct netif *netif)
{
    const struct tern_link *link = netif->state;
    const struct tern_board_settings *settings = link->settings;
    netif->name[0] = 'e';
    netif->name[1] = '0';
    netif->hwaddr_len = sizeof settings->mac;
    memcpy(netif->hwaddr, settings->mac, sizeof settings->mac);
    netif->mtu = BOARD_FRAME_MAX - ETHERNET_HEADER;
    netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET;
    netif->output = etharp_output;
    netif->linkoutput = send_frame;
    return ERR_OK;
}

static ip4_addr_t address_of(const uint8_t octets[4])
{
    ip4_addr_t address;
    memcpy(&address.addr, octets, sizeof address.addr);
    return address;
}

enum tern_result tern_link_start(struct tern_link *link, const struct tern_board_settings *settings)
{
    if (!tern_board_link_start(settings->mac)) {
        return TERN_ERR_IO;
    }
    lwip_init();
    const ip4_addr_t address = address_of(settings->address);
    const ip4_addr_t netmask = address_of(settings->netmask);
    const ip4_addr_t gateway = address_of(settings->gateway);
    link->settings = settings;
    if (netif_add(&link->interface, &address, &netmask, &gateway, link, set_up_interface,
                  ethernet_input) == NULL) {
        return TERN_ERR_IO;
    }
    netif_set_default(&link->interface);
    netif_set_up(&link->interface);
    netif_set_link_up(&link->interface);
#ifdef TERN_DHCP
    if (ip4_addr_isany_val(address) && dhcp_start(&link->interface) != ERR_OK) {
        return TERN_ERR_IO;
    }
#endif
    return TERN_OK;
}

static void deliver_frame(struct tern_link *link, size_t len)
{
    count_received(link, len);
    struct pbuf *packet = pbuf_alloc(PBUF_RAW, (uint16_t)len, PBUF_POOL);
    if (packet == NULL) {
        return; // the pool is full; the peer sends the packet again
    }
    (void)pbuf_take(packet, link->frame, (uint16_t)len); // cannot fail: the packet has this length
    if (link->interface.input(packet, &link->interface) != ERR_OK) {
        pbuf_free(packet);
    }
}

void tern_link_poll(struct tern_link *link)
{
    for (int i = 0; i < FRAMES_PER_POLL; i++) {
        const size_t len = tern_board_link_receive(link->frame);
        if (len == 0) {
            break;
        }
        deliver_frame(link, len);
    }
    sys_check_timeouts();
}

bool tern_link_ready(const struct tern_link *link)
{
    return !ip4_addr_isany_val(*netif_ip4_addr(&link->interface));
}

struct tern_link_bytes tern_link_take_bytes(struct tern_link *link)
{
    const struct tern_link_bytes taken = link->bytes;
    link->bytes = (struct tern_link_bytes){0};
    return taken;
}
