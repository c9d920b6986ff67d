// What makes a service one of several on its database.
#ifndef TERN_NODES_SHARING_H
#define TERN_NODES_SHARING_H

#include "service/service.h"

// For tern_service_config.sharing, where tern_db_is_url() is true of its database.
extern const struct tern_service_sharing tern_nodes_sharing;

#endif
