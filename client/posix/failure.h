// Why a request to the aggregator failed, for a person. Reentrant.
#ifndef TERN_POSIX_FAILURE_H
#define TERN_POSIX_FAILURE_H

#include "client.h"
#include "posix/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_FAILURE_MAX 384

// What the aggregator itself says of the client's last request, or what was waited for in vain: "it answered HTTP 429: Too
// many enrolments ...". result: of that request. Returns text.
const char *tern_failure_text(const struct tern_client *client, const struct tern_curl *curl,
                              enum tern_result result, char text[TERN_FAILURE_MAX]);

#ifdef __cplusplus
}
#endif

#endif
