// Prints the bytes between this peer and the others, by layer, as JSON or as a table. Hosted.
#ifndef TERN_RING_TRAFFIC_H
#define TERN_RING_TRAFFIC_H

#include "mesh/mesh.h"
#include "result.h"
#include <cjson/cJSON.h>
#include <stdio.h>

// Returns an object by the peers' names: {"sent": {"payload", "frames", "tls", "wire"}, "received": {the same}}.
cJSON *ring_traffic_json(const struct tern_ring_mesh *mesh, const struct tern_ring_peers *peers,
                         uint32_t self);

// Prints a table. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result ring_traffic_print(const struct tern_ring_mesh *mesh,
                                                  const struct tern_ring_peers *peers,
                                                  uint32_t self, FILE *out);

#endif
