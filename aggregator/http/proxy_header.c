#include "http/proxy_header.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const uint8_t SIGNATURE[] = "\r\n\r\n\0\r\nQUIT\n";
static const char LINE[] = "PROXY ";

#define SIGNATURE_SIZE (sizeof SIGNATURE - 1)
#define LINE_SIZE (sizeof LINE - 1)
#define HEAD_SIZE 16u // of version 2: signature, version and command, family, length
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

// Of version 2 once its head is there.
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
    if (header->len < SIGNATURE_SIZE) { // the shortest line is longer
        return is_binary(header) || is_line(header) ? SIGNATURE_SIZE - header->len : 0;
    }
    if (is_binary(header)) {
        const size_t size = header->len < HEAD_SIZE ? HEAD_SIZE : binary_size(header);
        return size <= TERN_PROXY_HEADER_MAX ? size - header->len : 0;
    }
    // Where a line ends is seen at its end.
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
    case 0x20: // LOCAL: the proxy looks whether we are there
        return TERN_OK;
    case 0x21:
        break;
    default:
        return refuse(why, "another version than 2, or a command that there is not");
    }
    switch (bytes[13]) {
    case 0x00: // unspecified
        return TERN_OK;
    case 0x11: // TCP over IPv4
        if (len < 12) {
            return refuse(why, "its length is too short for its addresses");
        }
        set_v4(peer, bytes + HEAD_SIZE);
        return TERN_OK;
    case 0x21: // TCP over IPv6
        if (len < 36) {
            return refuse(why, "its length is too short for its addresses");
        }
        set_v6(peer, bytes + HEAD_SIZE);
        return TERN_OK;
    default:
        return refuse(why, "it is not of TCP over IPv4 or IPv6");
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
        return refuse(why, "its line does not end as lines do");
    }
    memcpy(line, header->bytes, header->len - 2);
    line[header->len - 2] = '\0';
    if (strncmp(line, unknown, sizeof unknown - 1) == 0) {
        return TERN_OK;
    }
    const int fields =
        sscanf(line, "PROXY %7s %45s %*45s %*5[0-9] %*5[0-9]%n", protocol, from, &end);
    if (fields != 2 || end == 0 || line[end] != '\0') {
        return refuse(why, "its line has not the fields that it should have");
    }
    if (strcmp(protocol, "TCP4") == 0 && inet_pton(AF_INET, from, address) == 1) {
        set_v4(peer, address);
        return TERN_OK;
    }
    if (strcmp(protocol, "TCP6") == 0 && inet_pton(AF_INET6, from, address) == 1) {
        set_v6(peer, address);
        return TERN_OK;
    }
    return refuse(why, "its protocol and address are not TCP4 or TCP6 and one of that");
}

enum tern_result tern_proxy_header_parse(const struct tern_proxy_header *header,
                                         struct sockaddr_storage *peer, const char **why)
{
    memset(peer, 0, sizeof *peer);
    if (!is_binary(header) && !is_line(header)) {
        return refuse(why, "there is none");
    }
    if (tern_proxy_header_wants(header) > 0) {
        return TERN_AGAIN;
    }
    if (is_line(header)) {
        return ends_line(header) ? parse_line(header, peer, why)
                                 : refuse(why, "its line is too long");
    }
    return header->len == binary_size(header) ? parse_binary(header, peer, why)
                                              : refuse(why, "it is too long");
}
