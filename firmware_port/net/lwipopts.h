// Configures lwIP for one TCP connection at a time: IPv4, no threads, no UDP, memory from fixed pools.
#ifndef TERN_LWIPOPTS_H
#define TERN_LWIPOPTS_H

#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_NETCONN 0
#define LWIP_SOCKET 0
#define LWIP_STATS 0
#define LWIP_NOASSERT 1

// --- Protocols

#define LWIP_IPV4 1
#define LWIP_IPV6 0
#define LWIP_ICMP 0
#define LWIP_RAW 0
#define LWIP_DNS 0
#define LWIP_IGMP 0
#define LWIP_AUTOIP 0
#define IP_REASSEMBLY 0
#define IP_FRAG 0
#define IP_OPTIONS_ALLOWED 0
#define LWIP_TCP 1
#define LWIP_ARP 1
#define ARP_TABLE_SIZE 4
#define ARP_QUEUEING 0
#define ETHARP_SUPPORT_STATIC_ENTRIES 0
#ifdef TERN_DHCP
#define LWIP_UDP 1
#define LWIP_DHCP 1
#define DHCP_DOES_ARP_CHECK 0
#define MEMP_NUM_UDP_PCB 1
#else
#define LWIP_UDP 0
#define LWIP_DHCP 0
#endif

// --- TCP. Timestamps would take 12 bytes in every segment. There is no queue for segments that arrive out of order, so the peer
// sends the segments after a lost one again; the window of two segments allows for only one.

#ifndef TERN_TCP_MSS
#define TERN_TCP_MSS 1460
#endif
#define TCP_MSS TERN_TCP_MSS
#define TCP_WND (2 * TCP_MSS)
#define TCP_SND_BUF (2 * TCP_MSS)
#define TCP_SND_QUEUELEN 8
#define TCP_OVERSIZE 0 // a TLS record is one write; nothing is appended
#define TCP_QUEUE_OOSEQ 0
#define LWIP_TCP_TIMESTAMPS 0
#define LWIP_TCP_KEEPALIVE 0
#define TCP_LISTEN_BACKLOG 0
#define LWIP_RANDOMIZE_INITIAL_LOCAL_PORTS 1

// Sends a window update, which takes a segment, only when half of the window is free again.
#define TCP_WND_UPDATE_THRESHOLD TCP_MSS

// Closed connections occupy memory for so many milliseconds. Random local ports make an early reuse unlikely.
#define TCP_MSL 2000
#define TCP_FIN_WAIT_TIMEOUT 5000

// --- Memory

#define MEM_ALIGNMENT 4
#define MEM_LIBC_MALLOC 0
#define MEMP_MEM_MALLOC 0
#define MEM_SIZE 2560 // bytes sent and not acknowledged yet: two full TLS records
#define MEMP_NUM_PBUF 2
#define MEMP_NUM_TCP_PCB 3
#define MEMP_NUM_TCP_PCB_LISTEN 1
#define MEMP_NUM_TCP_SEG TCP_SND_QUEUELEN

// Memory for received bytes that are not read yet: a full window, or several small segments.
#define PBUF_POOL_BUFSIZE 256
#define PBUF_POOL_SIZE (TCP_WND / PBUF_POOL_BUFSIZE + 4)

#endif
