// A list of addresses and networks, as "127.0.0.1, 10.0.0.0/8, fd00::/8".
#ifndef TERN_HTTP_NETWORKS_H
#define TERN_HTTP_NETWORKS_H

#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define TERN_NETWORKS_MAX 32u

struct tern_networks {
    size_t count;
    struct tern_network {
        uint8_t prefix[16]; // of IPv4 in its IPv6-mapped form
        uint8_t bits;
    } network[TERN_NETWORKS_MAX];
};

// Reads them; none from an empty text. TERN_ERR_CONFIG: *why says which is wrong, and how.
TERN_MUST_USE enum tern_result tern_networks_parse(const char *text, struct tern_networks *networks,
                                                   char why[256]);

bool tern_networks_have(const struct tern_networks *networks, const struct sockaddr_storage *name);

#endif
