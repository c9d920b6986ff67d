// The verb run: takes part in a ring until the last round.
#include "cli/peer.h"
#include "cli/ring_verbs.h"
#include "cli/traffic.h"
#include "cli/training.h"
#include "exchange/exchange.h"
#include "hosted/interrupts.h"
#include "hosted/json_print.h"
#include "hosted/log.h"
#include "mesh/mesh.h"
#include "node/node.h"
#include "util/bytes.h"
#include <stdio.h>
#include <string.h>

#define HANDSHAKE_MS 10000u
#define FAREWELL_MS 3000u

static void set_log(void)
{
    tern_log_set_level(tern_log_level_named(tern_ring_settings.ring_log));
    tern_log_set_format(tern_log_format_named(tern_ring_settings.ring_log_format));
}

// --- The result

static cJSON *describe(const struct ring_peer *peer, uint32_t self,
                       const struct tern_ring_outcome *outcome, const struct tern_ring_mesh *mesh)
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
    cJSON_AddItemToObject(root, "traffic", ring_traffic_json(mesh, &peer->peers, self));
    return root;
}

static int say(const struct tern_cli *cli, const struct ring_peer *peer, uint32_t self,
               const struct tern_ring_outcome *outcome, const struct tern_ring_mesh *mesh)
{
    if (!cli->json) {
        return tern_cli_check(cli, ring_traffic_print(mesh, &peer->peers, self, stdout),
                              "memory is short");
    }
    return tern_json_print(cli, describe(peer, self, outcome, mesh));
}

// --- Taking part

static int take_part(struct tern_cli *cli, struct ring_peer *peer, uint32_t self,
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
    tern_ring_mesh_end(mesh, FAREWELL_MS);
    if (result == TERN_ERR_STATE && tern_interrupted) {
        return TERN_EXIT_INTERRUPTED;
    }
    if (result != TERN_OK) {
        return tern_cli_fail(cli, result, "%s",
                             why[0] != '\0' ? why : tern_result_sentence(result));
    }
    return say(cli, peer, self, &outcome, mesh);
}

static struct tern_ring_limits limits_of(const struct ring_peer *peer)
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
        .limits = limits_of(peer),
        .listen = peer->settings->ring_listen,
        .terms = peer->terms,
        .handshake_ms = HANDSHAKE_MS,
    };
    TERN_CLI_TRY(tern_cli_check(cli, tern_ring_mesh_open(&config, &mesh, why), "%s", why));
    const int code = take_part(cli, peer, self, training, mesh);
    tern_ring_mesh_close(mesh);
    return code;
}

static int find_self(struct tern_cli *cli, const struct ring_peer *peer,
                     const struct tern_ring_tls *tls, uint32_t *self)
{
    const char *name = tern_ring_tls_own_name(tls);
    *self = tern_ring_peer_named(&peer->peers, name);
    return *self < peer->peers.count
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_CONFIG,
                               "the certificate %s is of \"%s\", whom %s does not name",
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
