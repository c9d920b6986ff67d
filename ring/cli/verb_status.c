// The verbs status and export, which read a peer's saved state.
#include "cli/ring.h"
#include "hosted/cli.h"
#include "hosted/export_file.h"
#include "util/bytes.h"
#include <stdio.h>
#include <stdlib.h>

// --- status

static int report_json(const struct tern_cli *cli, const struct ring_peer *peer, const char *model,
                       const char *agreement)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddNumberToObject(root, "version", peer->state.version);
    cJSON_AddStringToObject(root, "model", model);
    cJSON_AddStringToObject(root, "agreement", agreement);
    cJSON *peers = cJSON_AddArrayToObject(root, "peers");
    for (uint32_t i = 0; i < peer->peers.count; i++) {
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddStringToObject(entry, "name", peer->peers.peers[i].name);
        cJSON_AddNumberToObject(entry, "contributed", peer->state.contributed[i]);
        cJSON_AddItemToArray(peers, entry);
    }
    return tern_json_print(cli, root);
}

int ring_verb_status(struct tern_cli *cli)
{
    static struct ring_peer peer;
    char model[2 * TERN_SHA256_SIZE + 1];
    char agreement[2 * TERN_SHA256_SIZE + 1];
    int code = ring_peer_open(cli, &peer);
    code = code == TERN_EXIT_OK ? ring_peer_load(cli, &peer) : code;
    if (code == TERN_EXIT_OK) {
        tern_hex_encode(peer.state.hash, TERN_SHA256_SIZE, model);
        tern_hex_encode(peer.agreement, TERN_SHA256_SIZE, agreement);
        if (cli->json) {
            code = report_json(cli, &peer, model, agreement);
        } else {
            printf("version    %u%s\nmodel      %s\nagreement  %s\n", peer.state.version,
                   peer.is_new ? " (nothing is saved yet)" : "", model, agreement);
        }
        for (uint32_t i = 0; i < peer.peers.count && !cli->json && code == TERN_EXIT_OK; i++) {
            printf("%-10s last took part in round %u\n", peer.peers.peers[i].name,
                   peer.state.contributed[i]);
        }
    }
    ring_peer_close(&peer);
    return code;
}

// --- export

static int export_state(struct tern_cli *cli, struct ring_peer *peer,
                        const struct tern_export_file *file)
{
    char why[TERN_SAFETENSORS_WHY_MAX] = "";
    const struct tern_export_model model = {.held = "global",
                                            .layout = &peer->model,
                                            .spec = peer->settings->ring_model,
                                            .hash = peer->model.hash,
                                            .version = peer->state.version};
    uint8_t *data = NULL;
    size_t len = 0;
    cJSON *notes = cJSON_CreateObject();
    tern_export_notes(notes, &model);
    const enum tern_result result = tern_export_file_make(file, &peer->model, peer->state.weights,
                                                          NULL, notes, &data, &len, why);
    cJSON_Delete(notes);
    TERN_CLI_TRY(tern_cli_check(cli, result, "%s", why));
    const int code = tern_export_file_write(cli, data, len);
    cJSON *report = code == TERN_EXIT_OK
                        ? tern_export_file_report(cli, "global", peer->state.version, data, len)
                        : NULL;
    free(data);
    return report != NULL ? tern_json_print(cli, report) : code;
}

int ring_verb_export(struct tern_cli *cli)
{
    static struct ring_peer peer;
    struct tern_export_file file;
    TERN_CLI_TRY(tern_export_file_check(cli, &file));
    int code = ring_peer_open(cli, &peer);
    code = code == TERN_EXIT_OK ? ring_peer_load(cli, &peer) : code;
    if (code == TERN_EXIT_OK && peer.is_new) {
        code =
            tern_cli_fail(cli, TERN_ERR_NOT_FOUND, "%s has no model yet; tern-ring run makes one",
                          peer.settings->ring_state_dir);
    }
    code = code == TERN_EXIT_OK ? export_state(cli, &peer, &file) : code;
    ring_peer_close(&peer);
    return code;
}
