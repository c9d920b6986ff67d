// Explains to a person why a request to the aggregator failed. Called by client/cli and aggregator/relay. Reentrant.
#ifndef TERN_POSIX_FAILURE_H
#define TERN_POSIX_FAILURE_H

#include "client.h"
#include "posix/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_FAILURE_MAX 384

// Writes the aggregator's answer to the client's last request ("it answered HTTP 429: Too many enrolments ..."), or
// what the client waited for in vain. result: the request's result. Returns text.
const char *tern_failure_text(const struct tern_client *client, const struct tern_curl *curl,
                              enum tern_result result, char text[TERN_FAILURE_MAX]);

#ifdef __cplusplus
}
#endif

#endif
