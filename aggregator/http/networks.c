#include "http/networks.h"

#include "util/bytes.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static void map(const void *v4, uint8_t bytes[16])
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

// "ADDRESS" or "ADDRESS/BITS".
static bool parse_one(char *text, struct tern_network *network)
{
    uint8_t v4[4];
    char *slash = strchr(text, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    const bool is_v4 = inet_pton(AF_INET, text, v4) == 1;
    if (is_v4) {
        map(v4, network->prefix);
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
            snprintf(why, 256, "more than %u networks are named", TERN_NETWORKS_MAX);
            return TERN_ERR_CONFIG;
        }
        snprintf(one, sizeof one, "%.*s", (int)(len < sizeof one ? len : sizeof one), text);
        if (len >= sizeof one || !parse_one(one, &networks->network[networks->count])) {
            snprintf(why, 256,
                     "\"%.*s\" is no address or network; write 127.0.0.1, 10.0.0.0/8 or fd00::/8",
                     (int)(len < 100 ? len : 100), text);
            return TERN_ERR_CONFIG;
        }
        networks->count++;
        text += len;
        text += strspn(text, blanks);
    }
    return TERN_OK;
}

static bool is_in(const struct tern_network *network, const uint8_t bytes[16])
{
    const size_t whole = network->bits / 8u;
    const unsigned rest = network->bits % 8u;
    return memcmp(network->prefix, bytes, whole) == 0 &&
           (rest == 0 || ((network->prefix[whole] ^ bytes[whole]) >> (8u - rest)) == 0);
}

bool tern_networks_have(const struct tern_networks *networks, const struct sockaddr_storage *name)
{
    uint8_t bytes[16];
    if (name->ss_family == AF_INET) {
        map(&((const struct sockaddr_in *)name)->sin_addr, bytes);
    } else if (name->ss_family == AF_INET6) {
        memcpy(bytes, &((const struct sockaddr_in6 *)name)->sin6_addr, sizeof bytes);
    } else {
        return false;
    }
    for (size_t i = 0; i < networks->count; i++) {
        if (is_in(&networks->network[i], bytes)) {
            return true;
        }
    }
    return false;
}
