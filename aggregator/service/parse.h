// Taking requests apart, and whether they come too often: on the thread that has received them, of a listener or that
// which takes what other aggregators have received.
#ifndef TERN_SERVICE_PARSE_H
#define TERN_SERVICE_PARSE_H

#include "service/internal.h"

// The meter has a row for each round of a client: of rounds that there are, not of any number.
void tern_request_tag_round(struct tern_service *service, uint32_t round,
                            struct tern_http_tag *tag);

// Seconds that the peer has to wait before another request, 0 = none.
uint32_t tern_request_over_rate(struct tern_service *service, const struct tern_http_request *http,
                                uint64_t client, enum request_kind kind);

// Takes path and body apart, into request->u and its tag. What is wrong with them is told once the request is handled.
TERN_MUST_USE enum tern_result tern_request_parse(struct tern_service *service,
                                                  const struct tern_http_request *http,
                                                  struct request *request);

#endif
