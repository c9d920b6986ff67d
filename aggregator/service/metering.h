// Adds up byte counts in memory per client, round and purpose, until the service thread writes them to the store, so
// that a batch of requests costs a few rows. Listeners' threads add counts. Any thread.
#ifndef TERN_METERING_H
#define TERN_METERING_H

#include "meter/meter.h"
#include "store/store.h"
#include <stdbool.h>

struct tern_metering;

struct tern_metering *tern_metering_new(void); // NULL when memory is short
void tern_metering_free(struct tern_metering *metering);

void tern_metering_add(struct tern_metering *metering, const struct tern_db_meter *row);

// Adds to *meter the bytes of a client in a round that are not in the store yet.
void tern_metering_pending(struct tern_metering *metering, uint64_t client, uint32_t round,
                           struct tern_db_meter *meter);

// Writes all rows inside the present transaction. Call tern_metering_end_flush() after the transaction.
TERN_MUST_USE enum tern_result tern_metering_flush(struct tern_metering *metering,
                                                   struct tern_db *db);

// Drops the flushed rows after a commit; keeps them for the next flush otherwise.
void tern_metering_end_flush(struct tern_metering *metering, bool committed);

// Returns the bytes since the start.
struct tern_meter tern_metering_total(struct tern_metering *metering);

#endif
