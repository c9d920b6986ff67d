#include "service/credentials.h"

// Of a client with a certificate, the token must be that of a client of the same name, so that neither is of
// use to who has stolen one of them.
static enum tern_result authenticate_by_token(struct tern_service *service,
                                              const struct tern_http_request *request,
                                              uint64_t *client)
{
    TERN_TRY(tern_gate_client(service->gate, request->authorization, client));
    if (request->certificate[0] == '\0' ||
        tern_gate_is_named(service->gate, *client, request->certificate)) {
        return TERN_OK;
    }
    tern_access_log_misnamed(&service->access, request, *client, tern_service_monotonic(service));
    return TERN_ERR_UNAUTHORIZED;
}

// Whose request it is. On a connection with a pre-shared key it is the client's whom the handshake
// proved, and a token need not say so again; if one is there it must be the same client's.
enum tern_result tern_request_authenticate(struct tern_service *service,
                                           const struct tern_http_request *request,
                                           uint64_t *client)
{
    if (request->psk_client == 0) {
        return authenticate_by_token(service, request, client);
    }
    // A revoked client has no key any more.
    if (!tern_psk_keys_find(&service->psk_keys, request->psk_client, NULL)) {
        return TERN_ERR_UNAUTHORIZED;
    }
    *client = request->psk_client;
    if (request->authorization[0] == '\0') {
        return TERN_OK;
    }
    uint64_t of_token = 0;
    TERN_TRY(tern_gate_client(service->gate, request->authorization, &of_token));
    return of_token == request->psk_client ? TERN_OK : TERN_ERR_UNAUTHORIZED;
}
