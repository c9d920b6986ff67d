// The verb run: takes part in a ring until the last round.
#include "cli/ring.h"
#include "exchange/exchange.h"
#include "hosted/cli.h"
#include "hosted/host.h"
#include "hosted/log.h"
#include "hosted/terminal.h"
#include "mesh/mesh.h"
#include "node/node.h"
#include "util/bytes.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HANDSHAKE_MS 10000u
#define FAREWELL_MS 3000u

static void set_log(void)
{
    tern_log_set_level(tern_log_level_named(tern_ring_settings.ring_log));
    tern_log_set_format(tern_log_format_named(tern_ring_settings.ring_log_format));
}

// --- Bytes exchanged with each peer

static cJSON *layers(const struct tern_bytes *bytes)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "payload", (double)bytes->payload);
    cJSON_AddNumberToObject(object, "frames", (double)bytes->http);
    cJSON_AddNumberToObject(object, "tls", (double)bytes->tls);
    cJSON_AddNumberToObject(object, "wire", (double)bytes->wire);
    return object;
}

// Returns {PEER: {"sent": {"payload", "frames", "tls", "wire"}, "received": {the same}}}.
static cJSON *traffic_json(const struct tern_ring_mesh *mesh, const struct tern_ring_peers *peers,
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

static enum tern_result print_traffic(const struct tern_ring_mesh *mesh,
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

// --- The result

static cJSON *result_json(const struct ring_peer *peer, uint32_t self,
                          const struct tern_ring_outcome *outcome,
                          const struct tern_ring_mesh *mesh)
{
    char hash[2 * TERN_SHA256_SIZE + 1];
    cJSON *root = cJSON_CreateObject();
    tern_hex_encode(peer->state.hash, TERN_SHA256_SIZE, hash);
    cJSON_AddStringToObject(root, "peer", peer->peers.peers[self].name);
    cJSON_AddNumberToObject(root, "version", peer->state.version);
    cJSON_AddStringToObject(root, "model", hash);
    cJSON_AddNumberToObject(root, "rounds", outcome->rounds);
    cJSON_AddNumberToObject(root, "repeated", outcome->repeated);
    cJSON_AddNumberToObject(root, "fetched", outcome->fetched);
    cJSON_AddNumberToObject(root, "values", peer->state.count);
    cJSON_AddNumberToObject(root, "blocks_sent", (double)outcome->payload_sent);
    if (outcome->has_accuracy) {
        cJSON_AddNumberToObject(root, "accuracy", (double)outcome->accuracy);
    }
    cJSON_AddItemToObject(root, "traffic", traffic_json(mesh, &peer->peers, self));
    return root;
}

static int report(const struct tern_cli *cli, const struct ring_peer *peer, uint32_t self,
                  const struct tern_ring_outcome *outcome, const struct tern_ring_mesh *mesh)
{
    if (!cli->json) {
        return tern_cli_check(cli, print_traffic(mesh, &peer->peers, self, stdout),
                              "memory is short");
    }
    return tern_json_print(cli, result_json(peer, self, outcome, mesh));
}

// --- Taking part

static int run_node(struct tern_cli *cli, struct ring_peer *peer, uint32_t self,
                    struct tern_ring_training *training, struct tern_ring_mesh *mesh)
{
    const struct tern_ring_settings *settings = peer->settings;
    char why[TERN_RING_NODE_WHY_MAX] = "";
    struct tern_ring_outcome outcome;
    struct tern_ring_node_config config = {
        .peers = &peer->peers,
        .self = self,
        .mesh = mesh,
        .model = &peer->model,
        .codec = &peer->codec,
        .learner = tern_ring_training_learner(training),
        .terms = peer->terms,
        .state_path = peer->state_path,
        .seed = settings->ring_seed,
        .rounds = settings->ring_rounds,
        .evaluate_every = settings->ring_evaluate_every,
        .learning_rate = (float)settings->ring_learning_rate,
        .timeout_ms = settings->ring_timeout,
        .start_ms = settings->ring_start_wait,
        .abort = &tern_interrupted,
    };
    memcpy(config.agreement, peer->agreement, sizeof config.agreement);
    tern_log(TERN_LOG_INFO, "started", "peer=%s peers=%u model=%s codec=%s version=%u",
             TERN_LOG_TEXT(peer->peers.peers[self].name), peer->peers.count,
             TERN_LOG_TEXT(settings->ring_model), TERN_LOG_TEXT(settings->ring_codec),
             peer->state.version);
    const enum tern_result result = tern_ring_node_run(&config, &peer->state, &outcome, why);
    tern_ring_mesh_shut_down(mesh, FAREWELL_MS);
    if (result == TERN_ERR_STATE && tern_interrupted) {
        return TERN_EXIT_INTERRUPTED;
    }
    if (result != TERN_OK) {
        return tern_cli_fail(cli, result, "%s",
                             why[0] != '\0' ? why : tern_result_sentence(result));
    }
    return report(cli, peer, self, &outcome, mesh);
}

static struct tern_ring_limits frame_limits(const struct ring_peer *peer)
{
    return (struct tern_ring_limits){
        .block = (uint32_t)(TERN_RING_BLOCK_HEAD_SIZE +
                            tern_ring_block_bound(&peer->codec, &peer->model, 2)),
        .model = tern_ring_model_size(peer->state.count, peer->peers.count),
    };
}

static int open_mesh(struct tern_cli *cli, struct ring_peer *peer, struct tern_ring_tls *tls,
                     uint32_t self, struct tern_ring_training *training)
{
    char why[TERN_RING_MESH_WHY_MAX] = "";
    struct tern_ring_mesh *mesh = NULL;
    const struct tern_ring_mesh_config config = {
        .peers = &peer->peers,
        .self = self,
        .tls = tls,
        .limits = frame_limits(peer),
        .listen = peer->settings->ring_listen,
        .terms = peer->terms,
        .handshake_ms = HANDSHAKE_MS,
    };
    TERN_CLI_TRY(tern_cli_check(cli, tern_ring_mesh_open(&config, &mesh, why), "%s", why));
    const int code = run_node(cli, peer, self, training, mesh);
    tern_ring_mesh_close(mesh);
    return code;
}

static int find_self(struct tern_cli *cli, const struct ring_peer *peer,
                     const struct tern_ring_tls *tls, uint32_t *self)
{
    const char *name = tern_ring_tls_own_name(tls);
    *self = tern_ring_find_peer(&peer->peers, name);
    return *self < peer->peers.count
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_CONFIG,
                               "the certificate %s names \"%s\", which is not a peer in %s",
                               peer->settings->ring_certificate, name, peer->settings->ring_peers);
}

static int start(struct tern_cli *cli, struct ring_peer *peer, struct tern_ring_tls *tls)
{
    static struct tern_ring_training training;
    char why[TERN_RING_TRAINING_WHY_MAX] = "";
    uint32_t self = 0;
    TERN_CLI_TRY(find_self(cli, peer, tls, &self));
    TERN_CLI_TRY(ring_peer_lock(cli, peer));
    TERN_CLI_TRY(ring_peer_load(cli, peer));
    TERN_CLI_TRY(tern_cli_check(
        cli, tern_ring_training_open(&training, peer->settings, &peer->model, self, why), "%s",
        why));
    const int code = open_mesh(cli, peer, tls, self, &training);
    tern_ring_training_close(&training);
    return code;
}

int ring_verb_run(struct tern_cli *cli)
{
    static struct ring_peer peer;
    char why[TERN_RING_TLS_WHY_MAX] = "memory is short";
    struct tern_ring_tls *tls = NULL;
    set_log();
    tern_interrupts_catch();
    int code = ring_peer_open(cli, &peer);
    if (code == TERN_EXIT_OK) {
        const struct tern_ring_settings *settings = peer.settings;
        code = tern_cli_check(cli,
                              tern_ring_tls_new(settings->ring_ca, settings->ring_certificate,
                                                settings->ring_key, &tls, why),
                              "%s", why);
    }
    if (code == TERN_EXIT_OK) {
        code = start(cli, &peer, tls);
    }
    tern_ring_tls_free(tls);
    ring_peer_close(&peer);
    return code;
}
