#include "cli/traffic.h"

#include "hosted/text_table.h"
#include <inttypes.h>

static cJSON *layers(const struct tern_bytes *bytes)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "payload", (double)bytes->payload);
    cJSON_AddNumberToObject(object, "frames", (double)bytes->http);
    cJSON_AddNumberToObject(object, "tls", (double)bytes->tls);
    cJSON_AddNumberToObject(object, "wire", (double)bytes->wire);
    return object;
}

cJSON *ring_traffic_json(const struct tern_ring_mesh *mesh, const struct tern_ring_peers *peers,
                         uint32_t self)
{
    cJSON *root = cJSON_CreateObject();
    for (uint32_t i = 0; i < peers->count; i++) {
        struct tern_bytes sent;
        struct tern_bytes received;
        if (i == self) {
            continue;
        }
        tern_ring_mesh_bytes(mesh, i, &sent, &received);
        cJSON *peer = cJSON_AddObjectToObject(root, peers->peers[i].name);
        cJSON_AddItemToObject(peer, "sent", layers(&sent));
        cJSON_AddItemToObject(peer, "received", layers(&received));
    }
    return root;
}

static void add_row(struct tern_text_table *table, const char *name, const char *direction,
                    const struct tern_bytes *bytes)
{
    tern_text_cell(table, "%s", name);
    tern_text_cell(table, "%s", direction);
    tern_text_cell(table, "%" PRIu64, bytes->payload);
    tern_text_cell(table, "%" PRIu64, bytes->http);
    tern_text_cell(table, "%" PRIu64, bytes->tls);
    tern_text_cell(table, "%" PRIu64, bytes->wire);
}

enum tern_result ring_traffic_print(const struct tern_ring_mesh *mesh,
                                    const struct tern_ring_peers *peers, uint32_t self, FILE *out)
{
    static const struct tern_text_column columns[] = {
        {"PEER", TERN_TEXT_LONG},     {"", TERN_TEXT_WORD},      {"PAYLOAD", TERN_TEXT_NUMBER},
        {"FRAMES", TERN_TEXT_NUMBER}, {"TLS", TERN_TEXT_NUMBER}, {"WIRE", TERN_TEXT_NUMBER},
    };
    struct tern_text_table table = TERN_TEXT_TABLE(columns);
    for (uint32_t i = 0; i < peers->count; i++) {
        struct tern_bytes sent;
        struct tern_bytes received;
        if (i != self) {
            tern_ring_mesh_bytes(mesh, i, &sent, &received);
            add_row(&table, peers->peers[i].name, "sent", &sent);
            add_row(&table, peers->peers[i].name, "received", &received);
        }
    }
    return tern_text_table_print(&table, out);
}
