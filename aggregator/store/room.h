// Room on the disk: how much space the database may still use, and how large work is cut into transactions that fit.
// For retention, checkpoints of the model, the verbs that free space, and advice. Thread rule and errors: as store.h.
#ifndef TERN_STORE_ROOM_H
#define TERN_STORE_ROOM_H

#include "result.h"
#include <stdbool.h>
#include <stdint.h>

struct tern_db;

// `disk` and `free` are UINT64_MAX, `log` and `reserve` 0, for a database server or where the disk
// reports no size.
struct tern_db_room {
    uint64_t disk;    // bytes of the file system
    uint64_t free;    // bytes that the database may take besides its file, including its log
    uint64_t log;     // bytes of the log beside the file
    uint64_t reserve; // bytes of the reserve file
};

// Whether less than 1/share of a disk is free, or, on a large one, less than 64 MiB.
static inline bool tern_disk_is_low(uint64_t free, uint64_t disk, uint64_t share)
{
    const uint64_t most = UINT64_C(64) << 20;
    return free < (disk / share < most ? disk / share : most);
}

TERN_MUST_USE enum tern_result tern_db_room(struct tern_db *db, struct tern_db_room *room);

// Limits the bytes that one transaction writes: `most`, or less where the disk has little room.
TERN_MUST_USE enum tern_result tern_db_step_bytes(struct tern_db *db, uint64_t most,
                                                  uint64_t *bytes);

// For a full disk, outside of transactions: writes the log back and removes the reserve file, so that a few
// transactions can drop rows. The service makes the reserve again once there is room. False: there was already room,
// or no reserve.
bool tern_db_make_room(struct tern_db *db);

#endif
