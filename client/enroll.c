#include "core.h"
#include "util/bytes.h"

#include <string.h>

enum tern_result tern_client_identify(struct tern_client *client)
{
    return tern_record_load_identity(client);
}

static enum tern_result prepare(struct tern_client *client, const char *join_code)
{
    tern_EnrollRequest message;
    memset(&message, 0, sizeof message);
    // Also forgets the last response, which an error must not be explained by.
    tern_client_request(client, TERN_PURPOSE_ENROLL, "POST", TERN_PATH_ENROLL);
    if (strlen(join_code) >= sizeof message.join_code) {
        return TERN_ERR_ARGUMENT;
    }
    strncpy(message.join_code, join_code, sizeof message.join_code - 1);
    strncpy(message.name, client->config.name, sizeof message.name - 1);
    strncpy(message.platform, client->config.platform, sizeof message.platform - 1);
    message.evaluator = client->config.evaluator;
    client->request.token = NULL; // an earlier identity plays no role in enrolment
    client->request.body = client->message;
    return tern_wire_encode_enroll_request(&message, client->message, sizeof client->message,
                                           &client->request.body_len);
}

_Static_assert(sizeof((tern_EnrollReply *)NULL)->token == TERN_CLIENT_TOKEN_MAX, "token");
_Static_assert(sizeof((tern_Model *)NULL)->spec == TERN_CLIENT_SPEC_MAX, "spec");

// Returns whether this program can build the model. manifest: bytes of the model's manifest; 0: the model has none.
static bool can_build_model(const struct tern_client *client, const char *spec, const uint8_t *hash,
                            uint32_t manifest)
{
    if (TERN_MANIFESTS && client->config.takes_manifests && manifest > 0) {
        return true;
    }
    return client->config.builds_model == NULL ||
           client->config.builds_model(client->config.ctx, spec, hash);
}

// Saves *identity, and then makes it the identity in memory. After an error the former identity remains.
static enum tern_result replace_identity(struct tern_client *client,
                                         const struct tern_client_identity *identity)
{
    const struct tern_client_identity former = client->identity;
    client->identity = *identity;
    const enum tern_result saved = tern_record_save_identity(client);
    if (saved != TERN_OK) {
        client->identity = former;
        return saved;
    }
    tern_partial_drop(client);
    client->manifest_received = 0;
    client->identified = true;
    client->phase = TERN_PHASE_NEW;
    const struct tern_client_event event = {
        .kind = TERN_EVENT_ENROLLED,
        .client_id = identity->client_id,
    };
    tern_client_emit(client, &event);
    return TERN_OK;
}

static enum tern_result handle_enroll_reply(struct tern_client *client)
{
    tern_EnrollReply reply;
    TERN_TRY(
        tern_wire_decode_enroll_reply(client->response.body, client->response.body_len, &reply));
    if (reply.client_id == 0 || reply.token[0] == '\0' || !reply.has_model ||
        reply.model.hash.size != TERN_SHA256_SIZE) {
        return TERN_ERR_CORRUPT;
    }
    if (!can_build_model(client, reply.model.spec, reply.model.hash.bytes, reply.model.manifest)) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    struct tern_client_identity identity = {
        .client_id = reply.client_id,
        .model_seed = reply.model.seed,
        .evaluator = client->config.evaluator,
        .manifest = reply.model.manifest,
    };
    memcpy(identity.token, reply.token, sizeof identity.token);
    memcpy(identity.model_spec, reply.model.spec, sizeof identity.model_spec);
    memcpy(identity.model_hash, reply.model.hash.bytes, TERN_SHA256_SIZE);
    return replace_identity(client, &identity);
}

enum tern_result tern_client_enroll(struct tern_client *client, const char *join_code)
{
    if (!client->in_flight && tern_watch_take_cancel(client)) {
        return TERN_ERR_CANCELLED;
    }
    if (!client->in_flight) {
        TERN_TRY(prepare(client, join_code));
    }
    TERN_TRY(tern_client_exchange(client));
    TERN_TRY(tern_client_answer_result(client));
    client->identified = false;
    client->phase = TERN_PHASE_NEW;
    return handle_enroll_reply(client);
}

static bool is_token(const char token[TERN_CLIENT_TOKEN_MAX])
{
    uint8_t bytes[TERN_WIRE_TOKEN_BYTES];
    return memchr(token, '\0', TERN_CLIENT_TOKEN_MAX) != NULL &&
           tern_base64url_decode(token, strlen(token), bytes, sizeof bytes) == TERN_OK;
}

enum tern_result tern_client_provision(struct tern_client *client,
                                       const struct tern_client_identity *identity)
{
    if (client->in_flight) {
        return TERN_ERR_STATE;
    }
    if (identity->client_id == 0 || !is_token(identity->token) || identity->model_spec[0] == '\0' ||
        memchr(identity->model_spec, '\0', TERN_CLIENT_SPEC_MAX) == NULL) {
        return TERN_ERR_ARGUMENT;
    }
    return can_build_model(client, identity->model_spec, identity->model_hash, identity->manifest)
               ? replace_identity(client, identity)
               : TERN_ERR_MODEL_MISMATCH;
}
