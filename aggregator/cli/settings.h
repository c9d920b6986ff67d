// The settings of tern-aggregator: one struct made from settings.def, and its table for hosted/settings.h. Fields are named
// section_key. Read-only after loading.
#ifndef TERN_AGGREGATOR_SETTINGS_H
#define TERN_AGGREGATOR_SETTINGS_H

#include "hosted/settings.h"

// The value of round.min_interval = auto in a federation without end, as text or in milliseconds.
#define TERN_ENDLESS_INTERVAL(as) as(1)
#define TERN_HOURS_AS_TEXT(hours) #hours "h"
#define TERN_HOURS_AS_MS(hours) (hours * UINT64_C(3600000))

struct tern_aggregator_settings {
#include "hosted/setting_fields.def"

#include "cli/settings.def"

#include "hosted/setting_rows_end.def"
};

extern const struct tern_settings tern_aggregator_settings_table;

// Numbers that are a fixed share of limits.memory or limits.disk: field = limit / divisor. `what` documents the number.
//   X(field, limit, divisor, what)
#define TERN_DERIVED_LIMITS(X)                                                                     \
    X(model_memory, memory, 2,                                                                     \
      "vectors of the model's size (merging, replicas, strategy); further ones are files")         \
    X(body_memory, memory, 8, "bodies of requests that arrive or wait; beyond it, status 503")     \
    X(strategy_memory, memory, 8,                                                                  \
      "sums of a round's updates, or all their values (fedmedian, fedtrimmedavg, krum, "           \
      "multikrum)")                                                                                \
    X(download_cache, memory, 32, "cache of downloads that several clients fetch")                 \
    X(replica_cache, memory, 64,                                                                   \
      "cache of the replicas that clients hold, and 8 bytes a value for sums")                     \
    X(body_disk, disk, 2,                                                                          \
      "bodies above 64KiB, in files of the state directory; beyond it, status 503")                \
    X(replica_bytes, disk, 4,                                                                      \
      "downloads and replicas in the database; beyond it, the least recently used are dropped")    \
    X(replica_files, disk, 8,                                                                      \
      "files with further replicas that clients hold, until the end of the run")

struct tern_derived_limits {
#define X(field, limit, divisor, what) uint64_t field;
    TERN_DERIVED_LIMITS(X)
#undef X
};

struct tern_derived_limits tern_derived_limits(const struct tern_aggregator_settings *settings);

// Names of the files in the state directory (federation.state).
#define TERN_STATE_DATABASE "tern.db"
#define TERN_STATE_ADMIN_TOKEN "admin.token" // bearer token of the admin listener, mode 0600
#define TERN_STATE_TICKET_KEYS "ticket.keys"
#define TERN_STATE_TICKET_CLIENTS "ticket.clients"
#define TERN_STATE_LOCK "lock"              // locked by `serve`, `relay`, `restore` and `copy`
#define TERN_STATE_UPLOADS "uploads"        // folder for long request bodies as they arrive
#define TERN_STATE_CERTIFICATE "server.crt" // unless server.certificate is set
#define TERN_STATE_PRIVATE_KEY "server.key"
#define TERN_STATE_HELPER_TOKEN "helper.token" // unless secure.token is set
#define TERN_STATE_UPSTREAM "upstream"         // folder with the records of a gateway's client

#endif
