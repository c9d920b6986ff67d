// HTTP caches between clients and the aggregator. A cache asks the aggregator for each download whether the client may have
// it (docs/PROTOCOL.md, "Downloads from a cache"). Any thread.
#ifndef TERN_CACHES_H
#define TERN_CACHES_H

#include "http/http.h"
#include "merge/delta.h"
#include "wire/wire.h"

#define TERN_PATH_AUTHORIZE "/v1/authorize/"

// Reads the hash of the download that a cache asks for. TERN_ERR_NOT_FOUND: the path is another one.
TERN_MUST_USE enum tern_result tern_cache_parse_path(const char *path,
                                                     uint8_t sha256[TERN_SHA256_SIZE]);

// Returns the HTTP bytes of the client's request to the cache. http: the request of the cache.
uint32_t tern_cache_request_bytes(const struct tern_http_request *http,
                                  const uint8_t sha256[TERN_SHA256_SIZE]);

// Sets the tag's bytes of a download from byte `from` on, as if this aggregator had sent it.
void tern_cache_tag(const struct tern_download_facts *facts, uint64_t from, uint32_t request_bytes,
                    struct tern_http_tag *tag);

// Estimates the bytes of the exchange between client and cache in all layers.
void tern_cache_estimate(const struct tern_http_tag *tag, struct tern_bytes *up,
                         struct tern_bytes *down);

// Returns the Cache-Control of a download.
const char *tern_cache_control(bool shared);

#endif
