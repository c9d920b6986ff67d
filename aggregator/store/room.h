// Room on the disk: how much a database may yet take there, and how work that writes much is cut into transactions that
// fit. For retention, checkpoints of the model, the verbs that give bytes back, and advice. Thread rule and errors: as
// store.h.
#ifndef TERN_STORE_ROOM_H
#define TERN_STORE_ROOM_H

#include "result.h"
#include <stdbool.h>
#include <stdint.h>

struct tern_db;

// UINT64_MAX, and a log and a reserve of 0: a server has the database, or the disk does not tell.
struct tern_db_room {
    uint64_t disk; // bytes of the file system
    uint64_t free; // bytes that the database may take beside its file, those of its log among them
    uint64_t log;  // bytes of the log beside the file
    uint64_t reserve; // of the reserve file
};

TERN_MUST_USE enum tern_result tern_db_room(struct tern_db *db, struct tern_db_room *room);

// Bytes that one transaction should write at most: `most`, and less where the disk has little room.
TERN_MUST_USE enum tern_result tern_db_step_bytes(struct tern_db *db, uint64_t most,
                                                  uint64_t *bytes);

// Outside of transactions, on a disk that is full: writes the log back and gives up the reserve file, so that a few
// transactions that drop rows can be written. The service makes the reserve again once there is room. False: there was
// room already, or no reserve.
bool tern_db_make_room(struct tern_db *db);

#endif
