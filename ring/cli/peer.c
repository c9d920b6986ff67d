#include "cli/ring.h"

#include "exchange/exchange.h"
#include "hosted/files.h"
#include "hosted/terminal.h"
#include "node/agree.h"
#include "util/bytes.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static void hash_text(struct tern_sha256 *hash, const char *text)
{
    tern_sha256_update(hash, text, strlen(text) + 1);
}

// Computes the hash of all settings that the peers must share (docs/RING.md).
static void make_agreement(struct ring_peer *peer)
{
    char codec[TERN_CODEC_SPEC_MAX];
    uint8_t numbers[12];
    struct tern_sha256 hash;
    tern_codec_format(&peer->codec, codec);
    tern_put_f32(numbers, (float)peer->settings->ring_learning_rate);
    tern_put_le64(numbers + 4, peer->settings->ring_seed);
    tern_sha256_init(&hash);
    hash_text(&hash, "tern ring 1");
    tern_sha256_update(&hash, peer->model.hash, TERN_SHA256_SIZE);
    tern_sha256_update(&hash, numbers, sizeof numbers);
    hash_text(&hash, codec);
    for (uint32_t i = 0; i < peer->peers.count; i++) {
        hash_text(&hash, peer->peers.peers[i].name);
        tern_sha256_update(&hash, &peer->peers.peers[i].group, 1);
    }
    tern_sha256_final(&hash, peer->agreement);
}

// Writes the same settings as text, so that another peer can report which one differs.
static void make_terms(struct ring_peer *peer)
{
    const struct tern_ring_settings *settings = peer->settings;
    char hash[2 * TERN_SHA256_SIZE + 1];
    char codec[TERN_CODEC_SPEC_MAX];
    char text[TERN_RING_TERMS_MAX / 2 + TERN_RING_MEMBERS_MAX * 4];
    size_t len = 0;
    bool has_groups = false;
    tern_hex_encode(peer->model.hash, TERN_SHA256_SIZE, hash);
    tern_codec_format(&peer->codec, codec);
    snprintf(text, sizeof text, "%s %s", settings->ring_model, hash);
    size_t at = tern_ring_terms_add(peer->terms, 0, "model", text);
    at = tern_ring_terms_add(peer->terms, at, "codec", codec);
    snprintf(text, sizeof text, "%" PRIu64, settings->ring_seed);
    at = tern_ring_terms_add(peer->terms, at, "seed", text);
    at = tern_ring_terms_add(peer->terms, at, "learning_rate",
                             tern_float_text((float)settings->ring_learning_rate, text));
    for (uint32_t i = 0; i < peer->peers.count; i++) {
        has_groups |= peer->peers.peers[i].group != 0;
    }
    for (uint32_t i = 0; i < peer->peers.count; i++) {
        const struct tern_ring_peer *one = &peer->peers.peers[i];
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", i > 0 ? " " : "", one->name);
        if (has_groups) {
            len += (size_t)snprintf(text + len, sizeof text - len, "/%u", one->group);
        }
    }
    (void)tern_ring_terms_add(peer->terms, at, "peers", text);
}

static int read_codec(struct tern_cli *cli, struct ring_peer *peer)
{
    struct tern_spec_refusal refusal;
    char sentence[TERN_SPEC_SENTENCE_MAX];
    if (tern_codec_parse(peer->settings->ring_codec, &peer->codec, &refusal) != TERN_OK) {
        tern_spec_explain(&refusal, sentence);
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "ring.codec: %s", sentence);
    }
    if (!tern_ring_codec_is_usable(&peer->codec)) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "ring.codec: a ring cannot use %s, because its encoder needs more than the values; "
            "use inceptionn, int8, 3lc or another of `tern-codec codecs`",
            peer->settings->ring_codec);
    }
    return TERN_EXIT_OK;
}

int ring_peer_lock(struct tern_cli *cli, struct ring_peer *peer)
{
    const char *folder = peer->settings->ring_state_dir;
    char path[sizeof peer->state_path];
    if (tern_file_make_folders(folder, 0700) != TERN_OK) {
        return tern_cli_fail(cli, TERN_ERR_IO, "ring.state_dir: %s cannot be made: %s", folder,
                             strerror(errno));
    }
    snprintf(path, sizeof path, "%s/lock", folder);
    peer->lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (peer->lock < 0) {
        return tern_cli_fail(cli, TERN_ERR_IO, "%s: %s", path, strerror(errno));
    }
    if (flock(peer->lock, LOCK_EX | LOCK_NB) == 0) {
        return TERN_EXIT_OK;
    }
    return errno == EWOULDBLOCK
               ? tern_cli_fail(cli, TERN_ERR_STATE,
                               "%s is in use by another tern-ring; give each peer its own "
                               "ring.state_dir",
                               folder)
               : tern_cli_fail(cli, TERN_ERR_IO, "%s cannot be locked: %s", path, strerror(errno));
}

int ring_peer_load(struct tern_cli *cli, struct ring_peer *peer)
{
    char why[TERN_RING_STATE_WHY_MAX] = "";
    const struct tern_ring_settings *settings = peer->settings;
    TERN_CLI_TRY(
        tern_cli_check(cli, tern_ring_state_new(&peer->state, peer->model.count, peer->peers.count),
                       "memory is short"));
    snprintf(peer->state_path, sizeof peer->state_path, "%s/state", settings->ring_state_dir);
    const enum tern_result result =
        tern_ring_state_load(&peer->state, peer->agreement, peer->state_path, why);
    if (result == TERN_ERR_NOT_FOUND) {
        peer->is_new = true;
        tern_model_init_weights(&peer->model, settings->ring_seed, peer->state.weights);
        tern_ring_state_hash(&peer->state);
        return TERN_EXIT_OK;
    }
    return tern_cli_check(cli, result, "%s", why);
}

int ring_peer_open(struct tern_cli *cli, struct ring_peer *peer)
{
    char why[TERN_RING_PEERS_WHY_MAX] = "";
    memset(peer, 0, sizeof *peer);
    peer->lock = -1;
    peer->settings = &tern_ring_settings;
    TERN_CLI_TRY(tern_cli_check(
        cli, tern_ring_peers_read(peer->settings->ring_peers, &peer->peers, why), "%s", why));
    TERN_CLI_TRY(read_codec(cli, peer));
    if (tern_model_from_spec(&peer->model, peer->settings->ring_model) != TERN_OK) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "ring.model: \"%s\" is not a built-in model; write softmax:64-6, mlp:784-64-10, "
            "cnn:28x28x1-8-16-10 or mlp:24-32-1,loss=mse",
            peer->settings->ring_model);
    }
    make_agreement(peer);
    make_terms(peer);
    return TERN_EXIT_OK;
}

void ring_peer_close(struct ring_peer *peer)
{
    tern_ring_state_free(&peer->state);
    if (peer->lock >= 0) {
        close(peer->lock);
    }
}
