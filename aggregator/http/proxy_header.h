// The header of the PROXY protocol, by which a proxy says before the first byte of a connection whose it
// is: version 2, which is binary, and version 1, a line of text, which is what nginx sends
// (https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt). It knows no sockets.
#ifndef TERN_HTTP_PROXY_HEADER_H
#define TERN_HTTP_PROXY_HEADER_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

// The longest that is taken. Without extensions (TLVs) it has 52 bytes in version 2, and at most 107
// in version 1.
#define TERN_PROXY_HEADER_MAX 536u

// What came of one so far. All zero at first.
struct tern_proxy_header {
    size_t len;
    uint8_t bytes[TERN_PROXY_HEADER_MAX];
};

// How many bytes may be read next: none of them is one behind the header. 0: it is complete, or wrong.
size_t tern_proxy_header_wants(const struct tern_proxy_header *header);

// After each of these reads.
// TERN_OK           it is complete; *peer is who the proxy speaks for, or of family AF_UNSPEC where it
//                   speaks for itself or does not know
// TERN_AGAIN        more is to come
// TERN_ERR_CORRUPT  it is none; *why, a static string, says why
TERN_MUST_USE enum tern_result tern_proxy_header_parse(const struct tern_proxy_header *header,
                                                       struct sockaddr_storage *peer,
                                                       const char **why);

#endif
