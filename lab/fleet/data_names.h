// What the data set calls its classes, and which of its groups are each client's. Called by what
// measures a finished run's model; pure but for the heap; reentrant.
#ifndef TERN_FLEET_DATA_NAMES_H
#define TERN_FLEET_DATA_NAMES_H

#include "fleet/shares.h"
#include <cjson/cJSON.h>

#define TERN_CLIENT_GROUPS_TEXT 96

// A list of the classes' names in class order, as far as they have any: empty where labels are numbers.
// The caller's to delete; NULL: there is no memory.
cJSON *tern_class_names(const struct tern_data *data);

// A list of names for each client of a natural partition; of generated data, the groups' numbers. What
// people cannot see in a name is a ?. The caller's to delete; NULL: there is no memory.
cJSON *tern_client_groups(const struct tern_shares *shares);

// In few words: the first name, and how many more. groups: of tern_client_groups().
void tern_client_groups_show(const cJSON *groups, uint32_t client,
                             char text[TERN_CLIENT_GROUPS_TEXT]);

#endif
