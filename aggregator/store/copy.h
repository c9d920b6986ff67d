// A copy of all that a database holds, as it is at one moment, in a database of the same kind or another. Thread rule and
// errors: as store.h.
#ifndef TERN_STORE_COPY_H
#define TERN_STORE_COPY_H

#include "store/store.h"

// What tern_db_copy_state() made of a table.
struct tern_db_copied_table {
    const char *name;
    uint64_t rows;
    uint64_t bytes; // of their values
    uint8_t
        sha256[TERN_SHA256_SIZE]; // of all rows in the order of their keys, in any database alike
};
struct tern_db_copying {
    // Of a table that is being copied, or compared; NULL: nobody looks
    void (*progress)(void *ctx, const char *doing, const char *table, uint64_t rows);
    // Looks at the copy, before it appears; NULL: nobody does. why: a sentence on any failure
    enum tern_result (*check)(void *ctx, struct tern_db *copy, char why[256]);
    // Once it has appeared, of each table; NULL: nobody asks
    void (*made)(void *ctx, const struct tern_db_copied_table *table);
    void *ctx;
};
// Copies all that the database holds, as it is at one moment, into a new one at `path`, of the same kind or another,
// which appears at the end: whole, and compared, or not at all. Takes the memory of one row, of a part of weights, or
// of 4 MiB of a body. `from`: outside of transactions
// TERN_ERR_CONFLICT  there is something at `path` already
// TERN_ERR_STATE     others wrote to `from` meanwhile; TERN_ERR_CORRUPT  what was written is read otherwise
// Errors of how->check()
TERN_MUST_USE enum tern_result tern_db_copy_state(struct tern_db *from, const char *path,
                                                  const struct tern_db_copying *how, char why[256]);

#endif
