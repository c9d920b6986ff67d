// Whose request it is. Any thread.
#ifndef TERN_SERVICE_CREDENTIALS_H
#define TERN_SERVICE_CREDENTIALS_H

#include "service/internal.h"

// By its token and the handshake, as far as this aggregator knows them. TERN_ERR_UNAUTHORIZED
TERN_MUST_USE enum tern_result tern_request_authenticate(struct tern_service *service,
                                                         const struct tern_http_request *request,
                                                         uint64_t *client);

#endif
