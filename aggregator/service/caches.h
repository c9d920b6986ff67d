// HTTP caches between clients and the aggregator, which ask for each download that they would send whether
// its client may have it (docs/PROTOCOL.md, "Downloads from a cache"). Any thread.
#ifndef TERN_CACHES_H
#define TERN_CACHES_H

#include "http/http.h"
#include "merge/delta.h"
#include "wire/wire.h"

#define TERN_PATH_AUTHORIZE "/v1/authorize/"

// The name of the download that a cache asks for. TERN_ERR_NOT_FOUND: the path is another one.
TERN_MUST_USE enum tern_result tern_cache_parse_path(const char *path,
                                                     uint8_t sha256[TERN_SHA256_SIZE]);

// The client's request for that download, as HTTP has it, in bytes; http: the cache's question.
uint32_t tern_cache_request_bytes(const struct tern_http_request *http,
                                  const uint8_t sha256[TERN_SHA256_SIZE]);

// Counts a download from byte `from` on for the client, with a request of that many bytes, as if it had been
// sent from here.
void tern_cache_count(const struct tern_download_facts *facts, uint64_t from,
                      uint32_t request_bytes, struct tern_http_tag *tag);

// What such an exchange has in all layers, by a model: up is the client's request.
void tern_cache_model(const struct tern_http_tag *tag, struct tern_bytes *up,
                      struct tern_bytes *down);

// The Cache-Control of a download.
const char *tern_cache_control(bool shared);

#endif
