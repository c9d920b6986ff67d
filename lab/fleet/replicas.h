// How good the weights are that the clients themselves hold when a run ends: with partial
// participation and lossy downloads, neither the global model nor each other's. Called from the
// main thread once the members' threads have ended.
#ifndef TERN_FLEET_REPLICAS_H
#define TERN_FLEET_REPLICAS_H

#include "fleet/member.h"

// Measures the members' replicas on their `test` view, as many at once as the pool has trainers,
// and each replica that several members hold once. figure (fleet/figure.h) and version: `count` values
// each, in the members' order; a member that never took part holds the seed's replica, version 0. Replicas
// from before the newest tenth of the versions held are old, not bad: they are not measured, NaN, nor
// are those of members beyond the first `most`.
// TERN_ERR_NO_MEMORY, errors of the trainer
TERN_MUST_USE enum tern_result tern_replicas_measure(const struct tern_member *members,
                                                     uint32_t count, uint32_t most, double *figure,
                                                     double *version);

#endif
