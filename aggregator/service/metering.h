// Byte counts on their way from the listeners' threads into the store: added up in memory per
// (client, round, purpose), so that a batch of requests costs a few rows and not one each. Safe
// from any thread.
#ifndef TERN_METERING_H
#define TERN_METERING_H

#include "meter/meter.h"
#include "store/store.h"
#include <stdbool.h>

struct tern_metering;

struct tern_metering *tern_metering_new(void); // NULL when memory is short
void tern_metering_free(struct tern_metering *metering);

void tern_metering_add(struct tern_metering *metering, const struct tern_db_meter *row);

// Adds what has come together of a client in a round, and is not in the store yet.
void tern_metering_of(struct tern_metering *metering, uint64_t client, uint32_t round,
                      struct tern_db_meter *meter);

// Writes what has come together inside the present transaction.
TERN_MUST_USE enum tern_result tern_metering_flush(struct tern_metering *metering,
                                                   struct tern_db *db);

// Likewise, and gives them to `put` in place of a store. Its first result other than TERN_OK ends that.
TERN_MUST_USE enum tern_result
tern_metering_hand_over(struct tern_metering *metering,
                        enum tern_result (*put)(void *ctx, const struct tern_db_meter *row),
                        void *ctx);

// After the flush's transaction: forgets what was written, or keeps it for the next flush.
void tern_metering_settle(struct tern_metering *metering, bool committed);

// Everything since start.
struct tern_meter tern_metering_total(struct tern_metering *metering);

#endif
