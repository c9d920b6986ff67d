// The settings of tern-aggregator: one struct made from settings.def, and its table for
// hosted/settings.h. A field is named section_key. Read-only after loading.
#ifndef TERN_AGGREGATOR_SETTINGS_H
#define TERN_AGGREGATOR_SETTINGS_H

#include "hosted/settings.h"

// What round.min_interval = auto stands for in a federation without end, as text or in milliseconds.
#define TERN_ENDLESS_INTERVAL(as) as(1)
#define TERN_HOURS_AS_TEXT(hours) #hours "h"
#define TERN_HOURS_AS_MS(hours) (hours * UINT64_C(3600000))

struct tern_aggregator_settings {
#include "hosted/setting_fields.def"

#include "cli/settings.def"

#include "hosted/setting_rows_end.def"
};

extern const struct tern_settings tern_aggregator_settings_table;

// Names of the files in the state directory (federation.state).
#define TERN_STATE_DATABASE "tern.db"
#define TERN_STATE_ADMIN_TOKEN "admin.token" // bearer token of the admin listener, mode 0600
#define TERN_STATE_TICKET_KEYS "ticket.keys"
#define TERN_STATE_TICKET_CLIENTS "ticket.clients"
#define TERN_STATE_LOCK "lock"              // held by the process that serves or restores
#define TERN_STATE_UPLOADS "uploads"        // folder of long updates until they are stored
#define TERN_STATE_CERTIFICATE "server.crt" // unless server.certificate says otherwise
#define TERN_STATE_PRIVATE_KEY "server.key"

#endif
