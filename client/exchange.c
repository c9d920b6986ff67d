#include "core.h"

#include <string.h>

#define RETRY_AFTER_MAX_S 86400

void tern_client_request(struct tern_client *client, enum tern_purpose purpose, const char *method,
                         const char *path)
{
    if (path != client->path) {
        strncpy(client->path, path, sizeof client->path - 1);
    }
    client->request = (struct tern_request){
        .purpose = purpose,
        .method = method,
        .path = client->path,
        .token = client->identified ? client->identity.token : NULL,
        .timeout_ms = client->config.timeout_ms,
    };
    client->response = (struct tern_response){
        .body = client->reply,
        .body_size = sizeof client->reply,
    };
    tern_watch_start(client);
}

// Runs the transport, or ends an incomplete exchange that was cancelled.
static enum tern_result run_transport(struct tern_client *client)
{
    const struct tern_transport *transport = &client->config.ports.transport;
    if (client->in_flight && tern_watch_is_cancelled(client)) {
        transport->close(transport->ctx);
        client->watch.stop = TERN_STOP_CANCEL;
        return TERN_ERR_CANCELLED;
    }
    return transport->exchange(transport->ctx, &client->request, &client->response);
}

enum tern_result tern_client_exchange(struct tern_client *client)
{
    const enum tern_result result = run_transport(client);
    client->in_flight = result == TERN_AGAIN;
    if (TERN_WATCH && client->watch.stop == TERN_STOP_CANCEL) {
        (void)tern_watch_take_cancel(client);
    }
    tern_budget_collect(client);
    if (client->in_flight) {
        client->due_ms = tern_client_now_ms(client) + 1;
    }
    const int status = client->response.status;
    if (result == TERN_ERR_TOO_LARGE && status >= 300) {
        return TERN_OK; // the status of an error response matters even if its body does not fit
    }
    return result;
}

// Returns the error that the response's Error message names. A name that this build does not know becomes TERN_ERR_UNKNOWN.
static enum tern_result refusal_reason(const struct tern_response *response)
{
    tern_Error error;
    if (tern_wire_decode_error(response->body, response->body_len, &error) != TERN_OK) {
        return TERN_ERR_HTTP;
    }
    const enum tern_result named = tern_result_from_name(error.name);
    return named == TERN_OK || named == TERN_AGAIN ? TERN_ERR_HTTP : named;
}

enum tern_result tern_client_answer_result(const struct tern_client *client)
{
    const struct tern_response *response = &client->response;
    if (response->status >= 200 && response->status <= 299) {
        return TERN_OK;
    }
    switch (response->status) {
    case 401:
    case 403:
        return TERN_ERR_UNAUTHORIZED;
    case 429:
    case 503:
        return TERN_ERR_BUSY;
    default:
        return response->status >= 400 && response->status <= 499 ? refusal_reason(response)
                                                                  : TERN_ERR_HTTP;
    }
}

// Returns whether time alone may end the cause of a result: the network, the load, one damaged answer, one round's training.
static bool may_pass(enum tern_result result)
{
    static const enum tern_result passing[] = {
        TERN_ERR_NETWORK,    TERN_ERR_BUSY,          TERN_ERR_HTTP,          TERN_ERR_CORRUPT,
        TERN_ERR_NON_FINITE, TERN_ERR_NORM_LIMIT,    TERN_ERR_TRAINER,       TERN_ERR_LATE,
        TERN_ERR_CANCELLED,  TERN_ERR_UNKNOWN_ROUND, TERN_ERR_WRONG_REPLICA, TERN_ERR_NOT_IN_COHORT,
    };
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++) {
        if (result == passing[i]) {
            return true;
        }
    }
    return false;
}

uint32_t tern_client_again_ms(const struct tern_client *client, enum tern_result result)
{
    const uint32_t least = client->config.retry_min_ms;
    const uint32_t asked_s = client->response.retry_after_s;
    const uint32_t asked = (asked_s < RETRY_AFTER_MAX_S ? asked_s : RETRY_AFTER_MAX_S) * 1000u;
    return !may_pass(result) ? UINT32_MAX : asked > least ? asked : least;
}
