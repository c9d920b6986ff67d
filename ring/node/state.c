#include "node/state.h"

#include "hosted/files.h"
#include "util/bytes.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A state file: magic, hash of the shared settings, model, residual, and the SHA-256 of all these bytes.
static const char magic[8] = "tern-rg1";

#define EXPONENT_BITS 0x7f800000u // all set: the number is infinite or NaN

enum tern_result tern_ring_state_new(struct tern_ring_state *state, uint32_t count, uint32_t peers)
{
    *state = (struct tern_ring_state){.count = count, .peers = peers};
    state->weights = calloc(count, sizeof *state->weights);
    state->residual = calloc(count, sizeof *state->residual);
    if (state->weights == NULL || state->residual == NULL) {
        tern_ring_state_free(state);
        return TERN_ERR_NO_MEMORY;
    }
    return TERN_OK;
}

void tern_ring_state_free(struct tern_ring_state *state)
{
    free(state->weights);
    free(state->residual);
    state->weights = NULL;
    state->residual = NULL;
}

static void put_floats(uint8_t *dst, const float *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        tern_put_f32(dst + (size_t)4 * i, values[i]);
    }
}

static void get_floats(const uint8_t *src, float *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        values[i] = tern_get_f32(src + (size_t)4 * i);
    }
}

// --- The model

static uint32_t model_head_size(uint32_t peers)
{
    return 4 + 4 * peers;
}

uint32_t tern_ring_model_size(uint32_t count, uint32_t peers)
{
    return model_head_size(peers) + 4 * count;
}

static void write_head(const struct tern_ring_state *state, uint8_t *dst)
{
    tern_put_le32(dst, state->version);
    for (uint32_t i = 0; i < state->peers; i++) {
        tern_put_le32(dst + 4 + (size_t)4 * i, state->contributed[i]);
    }
}

void tern_ring_model_write(const struct tern_ring_state *state, uint8_t *dst)
{
    write_head(state, dst);
    put_floats(dst + model_head_size(state->peers), state->weights, state->count);
}

void tern_ring_state_hash(struct tern_ring_state *state)
{
    enum { PART = 1024 };
    uint8_t bytes[4 * PART];
    struct tern_sha256 hash;
    tern_sha256_init(&hash);
    write_head(state, bytes);
    tern_sha256_update(&hash, bytes, model_head_size(state->peers));
    for (uint32_t start = 0; start < state->count; start += PART) {
        const uint32_t count = state->count - start < PART ? state->count - start : PART;
        put_floats(bytes, state->weights + start, count);
        tern_sha256_update(&hash, bytes, (size_t)4 * count);
    }
    tern_sha256_final(&hash, state->hash);
}

enum tern_result tern_ring_model_read(struct tern_ring_state *state, const uint8_t *src,
                                      const uint8_t hash[TERN_SHA256_SIZE])
{
    uint8_t found[TERN_SHA256_SIZE];
    const uint8_t *weights = src + model_head_size(state->peers);
    tern_sha256(src, tern_ring_model_size(state->count, state->peers), found);
    if (memcmp(found, hash, sizeof found) != 0) {
        return TERN_ERR_CORRUPT;
    }
    for (uint32_t i = 0; i < state->count; i++) {
        if ((tern_get_le32(weights + (size_t)4 * i) & EXPONENT_BITS) == EXPONENT_BITS) {
            return TERN_ERR_NON_FINITE;
        }
    }
    state->version = tern_get_le32(src);
    for (uint32_t i = 0; i < state->peers; i++) {
        state->contributed[i] = tern_get_le32(src + 4 + (size_t)4 * i);
    }
    get_floats(weights, state->weights, state->count);
    memcpy(state->hash, found, sizeof found);
    return TERN_OK;
}

// --- The file

static size_t file_size(const struct tern_ring_state *state)
{
    return sizeof magic + TERN_SHA256_SIZE + tern_ring_model_size(state->count, state->peers) +
           (size_t)4 * state->count + TERN_SHA256_SIZE;
}

enum tern_result tern_ring_state_save(const struct tern_ring_state *state,
                                      const uint8_t agreement[TERN_SHA256_SIZE], const char *path)
{
    const size_t size = file_size(state);
    uint8_t *file = malloc(size);
    if (file == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    uint8_t *at = file;
    memcpy(at, magic, sizeof magic);
    at += sizeof magic;
    memcpy(at, agreement, TERN_SHA256_SIZE);
    at += TERN_SHA256_SIZE;
    tern_ring_model_write(state, at);
    at += tern_ring_model_size(state->count, state->peers);
    put_floats(at, state->residual, state->count);
    at += (size_t)4 * state->count;
    tern_sha256(file, (size_t)(at - file), at);
    const enum tern_result result = tern_file_write(path, file, size, 0600);
    free(file);
    return result;
}

static enum tern_result refuse(char *why, enum tern_result result, const char *path,
                               const char *reason)
{
    snprintf(why, TERN_RING_STATE_WHY_MAX, "%.160s %s", path, reason);
    return result;
}

static enum tern_result read_file(struct tern_ring_state *state, const uint8_t *file, size_t len,
                                  const uint8_t agreement[TERN_SHA256_SIZE], const char *path,
                                  char *why)
{
    uint8_t digest[TERN_SHA256_SIZE];
    const uint8_t *model = file + sizeof magic + TERN_SHA256_SIZE;
    const size_t model_size = tern_ring_model_size(state->count, state->peers);
    if (len < sizeof magic + 2 * TERN_SHA256_SIZE || memcmp(file, magic, sizeof magic) != 0) {
        return refuse(why, TERN_ERR_CORRUPT, path,
                      "is not a state file of tern-ring; move it away to start anew");
    }
    tern_sha256(file, len - TERN_SHA256_SIZE, digest);
    if (memcmp(digest, file + len - TERN_SHA256_SIZE, sizeof digest) != 0) {
        return refuse(why, TERN_ERR_CORRUPT, path,
                      "is damaged; move it away, and other peers send the model");
    }
    if (memcmp(file + sizeof magic, agreement, TERN_SHA256_SIZE) != 0 || len != file_size(state)) {
        return refuse(why, TERN_ERR_CONFIG, path,
                      "was saved with other peers, another model, seed, codec or learning rate; "
                      "name another ring.state_dir");
    }
    tern_sha256(model, model_size, digest);
    TERN_TRY(tern_ring_model_read(state, model, digest));
    get_floats(model + model_size, state->residual, state->count);
    return TERN_OK;
}

enum tern_result tern_ring_state_load(struct tern_ring_state *state,
                                      const uint8_t agreement[TERN_SHA256_SIZE], const char *path,
                                      char why[TERN_RING_STATE_WHY_MAX])
{
    uint8_t *file = NULL;
    size_t len = 0;
    enum tern_result result = tern_file_read_regular(path, file_size(state), &file, &len);
    if (result == TERN_ERR_NOT_FOUND) {
        return result;
    }
    if (result == TERN_ERR_TOO_LARGE) {
        return refuse(why, TERN_ERR_CONFIG, path,
                      "was saved with another model; name another ring.state_dir");
    }
    if (result != TERN_OK) {
        snprintf(why, TERN_RING_STATE_WHY_MAX, "%.160s cannot be read: %s", path,
                 result == TERN_ERR_ARGUMENT ? "it is not a file" : strerror(errno));
        return result;
    }
    result = read_file(state, file, len, agreement, path, why);
    free(file);
    return result;
}
