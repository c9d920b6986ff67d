// The parts of a run's JSON that are lists: by round, by client, and the records of participations
// and arrivals as one list per column, so that the JSON stays flat. results.c alone calls it.
#ifndef TERN_FLEET_SERIES_H
#define TERN_FLEET_SERIES_H

#include "fleet/results.h"
#include <cjson/cJSON.h>

// Adds to an object: accuracy, round_* (rounds values, null where none was measured), replica_*
// (one per client), record_* (one per update applied, by version, then client) and arrival_*. Lists
// that the results do not have are left out.
void tern_fleet_series_add(cJSON *json, const struct tern_fleet_results *results);

#endif
