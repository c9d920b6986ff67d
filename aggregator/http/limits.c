#include "http/limits.h"
#include <netinet/in.h>
#include <string.h>

static void fill(uint32_t *limit, uint32_t value)
{
    if (*limit == 0) {
        *limit = value;
    }
}

void tern_limits_fill(struct tern_http_limits *limits)
{
    fill(&limits->connections, 10000);
    fill(&limits->connections_per_address, 256);
    fill(&limits->connections_per_client, 8);
    fill(&limits->header_bytes, 4096);
    fill(&limits->body_bytes, 16u << 20);
    if (limits->body_memory == 0) {
        limits->body_memory = 256u << 20;
    }
    if (limits->body_memory < limits->body_bytes) {
        limits->body_memory = limits->body_bytes;
    }
    if (limits->body_disk == 0) {
        limits->body_disk = UINT64_C(8) << 30;
    }
    if (limits->body_disk < limits->body_bytes) {
        limits->body_disk = limits->body_bytes;
    }
    fill(&limits->unfinished, 1000);
    fill(&limits->unfinished_ms, 86400000);
    fill(&limits->handshake_ms, 10000);
    fill(&limits->handshakes_per_address, 8);
    fill(&limits->request_ms, 60000);
    fill(&limits->min_rate, 500);
    fill(&limits->idle_ms, 300000);
    fill(&limits->write_ms, 60000);
}

struct tern_address tern_address_of(const struct sockaddr_storage *name)
{
    struct tern_address address = {{0}};
    if (name->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)name;
        memset(address.bytes + 10, 0xff, 2);
        memcpy(address.bytes + 12, &v4->sin_addr, 4);
    } else if (name->ss_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)name)->sin6_addr;
        memcpy(address.bytes, v6, IN6_IS_ADDR_V4MAPPED(v6) ? 16 : 8);
    }
    return address;
}

void tern_address_text(const struct sockaddr_storage *name, char text[INET6_ADDRSTRLEN])
{
    if (name->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)name;
        inet_ntop(AF_INET, &v4->sin_addr, text, INET6_ADDRSTRLEN);
    } else if (name->ss_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)name)->sin6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(v6);
        inet_ntop(mapped ? AF_INET : AF_INET6, v6->s6_addr + (mapped ? 12 : 0), text,
                  INET6_ADDRSTRLEN);
    } else {
        memcpy(text, "unix", 5);
    }
}
