// What has passed between this peer and the others, by layer, as people and scripts get it. Hosted.
#ifndef TERN_RING_TRAFFIC_H
#define TERN_RING_TRAFFIC_H

#include "mesh/mesh.h"
#include "result.h"
#include <cjson/cJSON.h>
#include <stdio.h>

// An object by the peers' names: {"sent": {"payload", "frames", "tls", "wire"}, "received": likewise}.
cJSON *ring_traffic_json(const struct tern_ring_mesh *mesh, const struct tern_ring_peers *peers,
                         uint32_t self);

// A table for people. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result ring_traffic_print(const struct tern_ring_mesh *mesh,
                                                  const struct tern_ring_peers *peers,
                                                  uint32_t self, FILE *out);

#endif
