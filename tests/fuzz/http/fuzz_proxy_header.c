// The header of the PROXY protocol as anybody might send it: in pieces of any length it comes to the same,
// takes no byte behind its end, and names an address of a family that is known.
#include "http/proxy.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct outcome {
    enum tern_result result;
    size_t used;
    struct sockaddr_storage peer;
};

static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

// As a connection reads it, at most `piece` bytes at a time.
static struct outcome feed(const uint8_t *data, size_t len, size_t piece)
{
    struct tern_proxy_header header = {0};
    struct outcome outcome = {.result = TERN_AGAIN};
    const char *why = NULL;
    while (outcome.result == TERN_AGAIN && header.len < len) {
        const size_t wants = tern_proxy_header_wants(&header);
        const size_t left = len - header.len;
        size_t part = wants < piece ? wants : piece;
        part = part < left ? part : left;
        must(wants > 0 && wants <= sizeof header.bytes - header.len);
        memcpy(header.bytes + header.len, data + header.len, part);
        header.len += part;
        outcome.result = tern_proxy_header_parse(&header, &outcome.peer, &why);
        must((outcome.result == TERN_ERR_CORRUPT) == (why != NULL));
    }
    if (outcome.result != TERN_AGAIN) {
        must(tern_proxy_header_wants(&header) == 0);
    }
    outcome.used = header.len;
    return outcome;
}

static void check_peer(const struct sockaddr_storage *peer)
{
    char text[INET6_ADDRSTRLEN];
    switch (peer->ss_family) {
    case AF_INET:
        must(inet_ntop(AF_INET, &((const struct sockaddr_in *)peer)->sin_addr, text, sizeof text) !=
             NULL);
        break;
    case AF_INET6:
        must(inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)peer)->sin6_addr, text,
                       sizeof text) != NULL);
        break;
    default:
        must(peer->ss_family == AF_UNSPEC);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct outcome whole = feed(data, size, SIZE_MAX);
    const struct outcome bytes = feed(data, size, 1);
    must(whole.result == bytes.result);
    if (whole.result == TERN_OK) {
        must(whole.used == bytes.used);
        must(memcmp(&whole.peer, &bytes.peer, sizeof whole.peer) == 0);
        check_peer(&whole.peer);
    }
    return 0;
}
