#include "cli/session.h"

#include "codec/container.h"
#include "wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t no_replica[TERN_SHA256_SIZE];

enum tern_result tern_stored_model_open(struct session *session)
{
    TERN_TRY(tern_session_open_reader(session, &tern_client_settings));
    TERN_TRY(tern_session_identify(session));
    TERN_TRY(tern_session_restore(session));
    if (memcmp(tern_client_replica(&session->client), no_replica, TERN_SHA256_SIZE) == 0) {
        snprintf(session->why, sizeof session->why,
                 "%s contains no model yet: the first task downloads the model",
                 session->settings->client_state_dir);
        return TERN_ERR_NOT_FOUND;
    }
    return TERN_OK;
}

// Computes the replica id that a client gets when the aggregator sends these weights as a snapshot.
static enum tern_result opened_id(const struct session *session, float *weights, uint8_t *blob,
                                  size_t size, uint8_t id[TERN_SHA256_SIZE])
{
    const struct tern_codec whole = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    const struct tern_model *model = &session->model;
    uint8_t content[TERN_SHA256_SIZE];
    size_t len = 0;
    memcpy(weights, tern_client_weights(&session->client), model->count * sizeof *weights);
    TERN_TRY(tern_container_encode(&whole, NULL, model, weights, blob, size, &len));
    tern_sha256(blob, len, content);
    tern_replica_from_snapshot(model->hash, tern_client_version(&session->client), content, id);
    return TERN_OK;
}

// Version 0 is the same on all clients, so it counts as global.
bool tern_stored_model_is_global(const struct session *session)
{
    const struct tern_codec whole = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    const size_t size = tern_container_bound(&whole, &session->model);
    uint8_t id[TERN_SHA256_SIZE];
    if (tern_client_is_personal(&session->client)) {
        return false;
    }
    if (tern_client_version(&session->client) == 0) {
        return true;
    }
    float *weights = malloc(session->model.count * sizeof *weights);
    uint8_t *blob = malloc(size);
    const bool global = weights != NULL && blob != NULL &&
                        opened_id(session, weights, blob, size, id) == TERN_OK &&
                        memcmp(id, tern_client_replica(&session->client), TERN_SHA256_SIZE) == 0;
    free(weights);
    free(blob);
    return global;
}

// Loads the scaling into malloc'ed *bytes, which stays NULL if there is none.
static enum tern_result load_scaling(const struct session *session, uint8_t **bytes,
                                     struct tern_span *columns)
{
    size_t len = 0;
    tern_Scaling message;
    enum tern_result result = tern_client_stored_scaling(&session->client, NULL, 0, &len);
    if (result == TERN_ERR_NOT_FOUND || (result == TERN_OK && len == 0)) {
        return TERN_OK;
    }
    if (result != TERN_ERR_NO_SPACE) {
        return result;
    }
    *bytes = malloc(len);
    if (*bytes == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(tern_client_stored_scaling(&session->client, *bytes, len, &len));
    return tern_wire_decode_scaling(*bytes, len, &message, columns);
}

enum tern_result tern_stored_model_scaling(struct session *session, uint8_t **bytes,
                                           struct tern_span *columns)
{
    *bytes = NULL;
    *columns = (struct tern_span){NULL, 0};
    const enum tern_result result = load_scaling(session, bytes, columns);
    if (result != TERN_OK) {
        free(*bytes);
        *bytes = NULL;
        snprintf(session->why, sizeof session->why,
                 "the scaling of the columns in %s cannot be read: %s: tern-client run fetches it "
                 "again",
                 session->settings->client_state_dir, tern_result_sentence(result));
    }
    return result;
}

const char *tern_stored_model_kind(const struct session *session)
{
    if (tern_client_is_personal(&session->client)) {
        return "personal";
    }
    return tern_stored_model_is_global(session) ? "global" : "replica";
}
