#include "http/proxy.h"
#include "util/bytes.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

// --- Header

static const uint8_t SIGNATURE[] = "\r\n\r\n\0\r\nQUIT\n";
static const char LINE[] = "PROXY ";

#define SIGNATURE_SIZE (sizeof SIGNATURE - 1)
#define LINE_SIZE (sizeof LINE - 1)
#define HEAD_SIZE                                                                                  \
    16u // bytes of signature, version and command, family, and length, with which version 2 begins
#define LINE_MAX_SIZE 107u

static bool begins_like(const struct tern_proxy_header *header, const void *with, size_t size)
{
    const size_t len = header->len < size ? header->len : size;
    return memcmp(header->bytes, with, len) == 0;
}

static bool is_binary(const struct tern_proxy_header *header)
{
    return begins_like(header, SIGNATURE, SIGNATURE_SIZE);
}

static bool is_line(const struct tern_proxy_header *header)
{
    return begins_like(header, LINE, LINE_SIZE);
}

// Returns the length of a header of version 2 whose first HEAD_SIZE bytes have arrived.
static size_t binary_size(const struct tern_proxy_header *header)
{
    return HEAD_SIZE + ((size_t)header->bytes[14] << 8 | header->bytes[15]);
}

static bool ends_line(const struct tern_proxy_header *header)
{
    return header->len > 0 && header->bytes[header->len - 1] == '\n';
}

size_t tern_proxy_header_wants(const struct tern_proxy_header *header)
{
    if (header->len < SIGNATURE_SIZE) { // a complete header of version 1 or 2 is longer
        return is_binary(header) || is_line(header) ? SIGNATURE_SIZE - header->len : 0;
    }
    if (is_binary(header)) {
        const size_t size = header->len < HEAD_SIZE ? HEAD_SIZE : binary_size(header);
        return size <= TERN_PROXY_HEADER_MAX ? size - header->len : 0;
    }
    // Reads a version 1 header byte by byte, since the bytes after its line belong to the client.
    return is_line(header) && !ends_line(header) && header->len < LINE_MAX_SIZE ? 1 : 0;
}

static enum tern_result refuse(const char **why, const char *reason)
{
    *why = reason;
    return TERN_ERR_CORRUPT;
}

static void set_v4(struct sockaddr_storage *peer, const void *address)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)peer;
    v4->sin_family = AF_INET;
    memcpy(&v4->sin_addr, address, sizeof v4->sin_addr);
}

static void set_v6(struct sockaddr_storage *peer, const void *address)
{
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)peer;
    v6->sin6_family = AF_INET6;
    memcpy(&v6->sin6_addr, address, sizeof v6->sin6_addr);
}

static enum tern_result parse_binary(const struct tern_proxy_header *header,
                                     struct sockaddr_storage *peer, const char **why)
{
    const uint8_t *bytes = header->bytes;
    const size_t len = binary_size(header) - HEAD_SIZE;
    switch (bytes[12]) {
    case 0x20: // LOCAL: a health check of the proxy
        return TERN_OK;
    case 0x21:
        break;
    default:
        return refuse(
            why, "the PROXY header's version is not 2, or its command is neither LOCAL nor PROXY");
    }
    switch (bytes[13]) {
    case 0x00: // unspecified address
        return TERN_OK;
    case 0x11: // TCP over IPv4
        if (len < 12) {
            return refuse(why, "the PROXY header's length is too short for its addresses");
        }
        set_v4(peer, bytes + HEAD_SIZE);
        return TERN_OK;
    case 0x21: // TCP over IPv6
        if (len < 36) {
            return refuse(why, "the PROXY header's length is too short for its addresses");
        }
        set_v6(peer, bytes + HEAD_SIZE);
        return TERN_OK;
    default:
        return refuse(why, "the PROXY header's protocol is not TCP over IPv4 or IPv6");
    }
}

// "PROXY TCP4 PEER US PORT PORT" or "PROXY UNKNOWN ..."
static enum tern_result parse_line(const struct tern_proxy_header *header,
                                   struct sockaddr_storage *peer, const char **why)
{
    static const char unknown[] = "PROXY UNKNOWN";
    char line[LINE_MAX_SIZE + 1];
    char protocol[8];
    char from[INET6_ADDRSTRLEN];
    uint8_t address[16];
    int end = 0;
    if (header->len < 2 || header->bytes[header->len - 2] != '\r' ||
        memchr(header->bytes, '\0', header->len) != NULL) {
        return refuse(why, "the PROXY header's line does not end with CR LF, or contains a NUL");
    }
    memcpy(line, header->bytes, header->len - 2);
    line[header->len - 2] = '\0';
    if (strncmp(line, unknown, sizeof unknown - 1) == 0) {
        return TERN_OK;
    }
    const int fields =
        sscanf(line, "PROXY %7s %45s %*45s %*5[0-9] %*5[0-9]%n", protocol, from, &end);
    if (fields != 2 || end == 0 || line[end] != '\0') {
        return refuse(
            why, "the PROXY header's line does not have a protocol, two addresses and two ports");
    }
    if (strcmp(protocol, "TCP4") == 0 && inet_pton(AF_INET, from, address) == 1) {
        set_v4(peer, address);
        return TERN_OK;
    }
    if (strcmp(protocol, "TCP6") == 0 && inet_pton(AF_INET6, from, address) == 1) {
        set_v6(peer, address);
        return TERN_OK;
    }
    return refuse(why, "the PROXY header's protocol is not TCP4 or TCP6, or its client address has "
                       "another family");
}

enum tern_result tern_proxy_header_parse(const struct tern_proxy_header *header,
                                         struct sockaddr_storage *peer, const char **why)
{
    memset(peer, 0, sizeof *peer);
    if (!is_binary(header) && !is_line(header)) {
        return refuse(why, "the connection does not begin with a PROXY header");
    }
    if (tern_proxy_header_wants(header) > 0) {
        return TERN_AGAIN;
    }
    if (is_line(header)) {
        return ends_line(header) ? parse_line(header, peer, why)
                                 : refuse(why, "the PROXY header's line is too long");
    }
    return header->len == binary_size(header) ? parse_binary(header, peer, why)
                                              : refuse(why, "the PROXY header is too long");
}

// --- Networks

static void map_v4(const void *v4, uint8_t bytes[16])
{
    memset(bytes, 0, 10);
    memset(bytes + 10, 0xff, 2);
    memcpy(bytes + 12, v4, 4);
}

static bool parse_bits(const char *text, unsigned most, uint8_t *bits)
{
    uint64_t number = 0;
    const char *end = tern_get_decimal(text, &number);
    *bits = (uint8_t)number;
    return end != text && *end == '\0' && number <= most;
}

// Parses "ADDRESS" or "ADDRESS/BITS".
static bool parse_one(char *text, struct tern_network *network)
{
    uint8_t v4[4];
    char *slash = strchr(text, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    const bool is_v4 = inet_pton(AF_INET, text, v4) == 1;
    if (is_v4) {
        map_v4(v4, network->prefix);
    } else if (inet_pton(AF_INET6, text, network->prefix) != 1) {
        return false;
    }
    const unsigned most = is_v4 ? 32 : 128;
    network->bits = (uint8_t)most;
    const bool good = slash == NULL || parse_bits(slash + 1, most, &network->bits);
    network->bits = (uint8_t)(network->bits + (is_v4 ? 96 : 0));
    return good;
}

enum tern_result tern_networks_parse(const char *text, struct tern_networks *networks,
                                     char why[256])
{
    static const char blanks[] = ", \t";
    networks->count = 0;
    text += strspn(text, blanks);
    while (*text != '\0') {
        char one[64];
        const size_t len = strcspn(text, blanks);
        if (networks->count == TERN_NETWORKS_MAX) {
            snprintf(why, 256, "the list has more than %u networks", TERN_NETWORKS_MAX);
            return TERN_ERR_CONFIG;
        }
        snprintf(one, sizeof one, "%.*s", (int)(len < sizeof one ? len : sizeof one), text);
        if (len >= sizeof one || !parse_one(one, &networks->network[networks->count])) {
            snprintf(why, 256,
                     "\"%.*s\" is not an address or network such as 127.0.0.1, 10.0.0.0/8 or "
                     "fd00::/8",
                     (int)(len < 100 ? len : 100), text);
            return TERN_ERR_CONFIG;
        }
        networks->count++;
        text += len;
        text += strspn(text, blanks);
    }
    return TERN_OK;
}

static bool contains(const struct tern_network *network, const uint8_t bytes[16])
{
    const size_t whole = network->bits / 8u;
    const unsigned rest = network->bits % 8u;
    return memcmp(network->prefix, bytes, whole) == 0 &&
           (rest == 0 || ((network->prefix[whole] ^ bytes[whole]) >> (8u - rest)) == 0);
}

bool tern_networks_contain(const struct tern_networks *networks,
                           const struct sockaddr_storage *name)
{
    uint8_t bytes[16];
    if (name->ss_family == AF_INET) {
        map_v4(&((const struct sockaddr_in *)name)->sin_addr, bytes);
    } else if (name->ss_family == AF_INET6) {
        memcpy(bytes, &((const struct sockaddr_in6 *)name)->sin6_addr, sizeof bytes);
    } else {
        return false;
    }
    for (size_t i = 0; i < networks->count; i++) {
        if (contains(&networks->network[i], bytes)) {
            return true;
        }
    }
    return false;
}
