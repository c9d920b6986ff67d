// The names of the data set's classes and of each client's groups, for the results of a run. Pure except for the
// heap; reentrant.
#ifndef TERN_FLEET_DATA_NAMES_H
#define TERN_FLEET_DATA_NAMES_H

#include "fleet/shares.h"
#include <cjson/cJSON.h>

#define TERN_CLIENT_GROUPS_TEXT 96

// Returns a list of class names in class order, empty if labels are numbers. The caller deletes it. NULL: out of
// memory.
cJSON *tern_class_names(const struct tern_data *data);

// Returns a list of group names per client of a natural partition, or the groups' numbers for generated data.
// Unprintable characters become "?". The caller deletes it. NULL: out of memory.
cJSON *tern_client_groups(const struct tern_shares *shares);

// Writes the first name and how many more follow. groups: a list of tern_client_groups().
void tern_client_groups_show(const cJSON *groups, uint32_t client,
                             char text[TERN_CLIENT_GROUPS_TEXT]);

#endif
