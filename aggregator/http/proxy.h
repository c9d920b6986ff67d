// Parses the header of the PROXY protocol, which a proxy sends first on a connection to name the client, and the lists of
// networks whose headers are accepted. Connections parse headers on their loop; the server and the command line parse
// lists. It uses no sockets. Any thread.
//
// Supports version 2, which is binary, and version 1, a line of text, which nginx sends
// (https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt).
#ifndef TERN_HTTP_PROXY_H
#define TERN_HTTP_PROXY_H

#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

// --- Header

// The longest header that is accepted. Without extensions (TLVs) it has 52 bytes in version 2, and at most 107 in
// version 1.
#define TERN_PROXY_HEADER_MAX 536u

// The received bytes of a header. Initialize all members with zeros.
struct tern_proxy_header {
    size_t len;
    uint8_t bytes[TERN_PROXY_HEADER_MAX];
};

// Returns how many further bytes belong to the header for certain, so that the caller reads them next. 0: the header is
// complete or malformed.
size_t tern_proxy_header_wants(const struct tern_proxy_header *header);

// Parses the header; call it after each read.
// TERN_OK           the header is complete; *peer is the client's address, or has family AF_UNSPEC if the header names
//                   none (a health check of the proxy, or another protocol)
// TERN_AGAIN        the header is incomplete
// TERN_ERR_CORRUPT  the bytes are no header; *why is the reason, a static string
TERN_MUST_USE enum tern_result tern_proxy_header_parse(const struct tern_proxy_header *header,
                                                       struct sockaddr_storage *peer,
                                                       const char **why);

// --- Networks

#define TERN_NETWORKS_MAX 32u

struct tern_networks {
    size_t count;
    struct tern_network {
        uint8_t prefix[16]; // IPv4 in its IPv6-mapped form
        uint8_t bits;
    } network[TERN_NETWORKS_MAX];
};

// Parses a list of addresses and networks, such as "127.0.0.1, 10.0.0.0/8, fd00::/8". An empty text is an empty list.
// TERN_ERR_CONFIG  why names the wrong entry and has examples
TERN_MUST_USE enum tern_result tern_networks_parse(const char *text, struct tern_networks *networks,
                                                   char why[256]);

// Whether the address is in one of the networks.
bool tern_networks_contain(const struct tern_networks *networks,
                           const struct sockaddr_storage *name);

#endif
