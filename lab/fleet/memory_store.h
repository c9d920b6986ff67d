// Keeps a client's records in memory, for runs that are not resumed. Implements the store port of client/ports.h for
// one client, in its thread.
#ifndef TERN_FLEET_MEMORY_STORE_H
#define TERN_FLEET_MEMORY_STORE_H

#include "ports.h"

struct tern_memory_store {
    uint8_t *records[TERN_RECORD_COUNT]; // malloc'ed; NULL: never saved
    size_t lengths[TERN_RECORD_COUNT];
};

// *store is zeroed before. The port borrows it until tern_memory_store_clear().
struct tern_store tern_memory_store_port(struct tern_memory_store *store);

// Frees all records.
void tern_memory_store_clear(struct tern_memory_store *store);

#endif
