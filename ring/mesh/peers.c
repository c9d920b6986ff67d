#include "mesh/peers.h"

#include "hosted/files.h"
#include "util/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((size_t)64 << 10)
#define BLANKS " \t\r"

struct reading {
    const char *path;
    unsigned line;
    char *why;
    bool has_groups;
    unsigned groups;
    char names[TERN_RING_MEMBERS_MAX][TERN_RING_NAME_SIZE]; // names of the groups
};

static enum tern_result refuse(const struct reading *reading, const char *reason)
{
    snprintf(reading->why, TERN_RING_PEERS_WHY_MAX, "%.120s, line %u: %s", reading->path,
             reading->line, reason);
    return TERN_ERR_CONFIG;
}

static bool read_port(const char *text, uint16_t *port)
{
    char *end = NULL;
    const long number = strtol(text, &end, 10);
    if (end == text || *end != '\0' || number < 1 || number > UINT16_MAX) {
        return false;
    }
    *port = (uint16_t)number;
    return true;
}

// Sets *number to the number of the group. group: the fourth word of the line, or NULL.
static enum tern_result read_group(struct reading *reading, const char *group,
                                   const struct tern_ring_peers *peers, uint8_t *number)
{
    unsigned i = 0;
    if (peers->count == 0) {
        reading->has_groups = group != NULL;
    }
    if (reading->has_groups != (group != NULL)) {
        return refuse(reading, "give every peer a group (a fourth word), or none");
    }
    *number = 0;
    if (group == NULL) {
        return TERN_OK;
    }
    if (strlen(group) >= TERN_RING_NAME_SIZE) {
        return refuse(reading, "a group's name has at most 63 bytes");
    }
    while (i < reading->groups && strcmp(reading->names[i], group) != 0) {
        i++;
    }
    if (i == reading->groups) {
        memcpy(reading->names[reading->groups++], group, strlen(group) + 1);
    }
    *number = (uint8_t)i;
    return TERN_OK;
}

static enum tern_result check_place(const struct reading *reading,
                                    const struct tern_ring_peers *peers, const char *address,
                                    uint16_t port)
{
    char reason[TERN_RING_NAME_SIZE + 80];
    for (uint32_t i = 0; i < peers->count; i++) {
        if (peers->peers[i].port == port && strcmp(peers->peers[i].address, address) == 0) {
            snprintf(reason, sizeof reason,
                     "%s already has this address and port; give each peer its own port",
                     peers->peers[i].name);
            return refuse(reading, reason);
        }
    }
    return TERN_OK;
}

static enum tern_result read_peer(struct reading *reading, char *line,
                                  struct tern_ring_peers *peers)
{
    char *rest = NULL;
    const char *name = strtok_r(line, BLANKS, &rest);
    const char *address = strtok_r(NULL, BLANKS, &rest);
    const char *port = strtok_r(NULL, BLANKS, &rest);
    const char *group = strtok_r(NULL, BLANKS, &rest);
    if (port == NULL || strtok_r(NULL, BLANKS, &rest) != NULL) {
        return refuse(reading,
                      "write NAME ADDRESS PORT, separated by spaces, and GROUP if the ring has "
                      "groups");
    }
    if (peers->count == TERN_RING_MEMBERS_MAX) {
        return refuse(reading, "a ring has at most 64 peers; remove this one");
    }
    struct tern_ring_peer *peer = &peers->peers[peers->count];
    if (strlen(name) >= sizeof peer->name || !tern_utf8_is_text(name, strlen(name))) {
        return refuse(reading, "a name is text of 1 to 63 bytes");
    }
    if (strlen(address) >= sizeof peer->address || !read_port(port, &peer->port)) {
        return refuse(reading, "an address has at most 127 bytes, and a port is 1 to 65535");
    }
    if (tern_ring_find_peer(peers, name) < peers->count) {
        return refuse(reading, "another peer already has this name");
    }
    TERN_TRY(check_place(reading, peers, address, peer->port));
    TERN_TRY(read_group(reading, group, peers, &peer->group));
    memcpy(peer->name, name, strlen(name) + 1);
    memcpy(peer->address, address, strlen(address) + 1);
    peers->count++;
    return TERN_OK;
}

static enum tern_result read_lines(struct reading *reading, char *text,
                                   struct tern_ring_peers *peers)
{
    char *next = text;
    while (next != NULL) {
        char *line = next;
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        reading->line++;
        line[strcspn(line, "#")] = '\0';
        if (line[strspn(line, BLANKS)] != '\0') {
            TERN_TRY(read_peer(reading, line, peers));
        }
    }
    return peers->count >= 2 ? TERN_OK : refuse(reading, "a ring has at least two peers; add more");
}

enum tern_result tern_ring_peers_read(const char *path, struct tern_ring_peers *peers,
                                      char why[TERN_RING_PEERS_WHY_MAX])
{
    struct reading reading = {.path = path, .why = why};
    uint8_t *text = NULL;
    size_t len = 0;
    memset(peers, 0, sizeof *peers);
    if (tern_file_read_regular(path, FILE_MAX, &text, &len) != TERN_OK) {
        snprintf(why, TERN_RING_PEERS_WHY_MAX,
                 "ring.peers: %.200s cannot be read, or is larger than 64 KiB", path);
        return TERN_ERR_CONFIG;
    }
    const enum tern_result result = read_lines(&reading, (char *)text, peers);
    free(text);
    return result;
}

uint32_t tern_ring_find_peer(const struct tern_ring_peers *peers, const char *name)
{
    uint32_t i = 0;
    while (i < peers->count && strcmp(peers->peers[i].name, name) != 0) {
        i++;
    }
    return i;
}

const char *tern_ring_peer_text(const struct tern_ring_peer *peer,
                                char text[TERN_RING_PEER_TEXT_MAX])
{
    snprintf(text, TERN_RING_PEER_TEXT_MAX, "%s (%s:%u)", peer->name, peer->address, peer->port);
    return text;
}
