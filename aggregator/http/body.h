// The body of one request as it comes in: a short one in memory, a longer one in a file
// (hosted/spool.h), so that what many clients send at once need not fit into memory. What all
// bodies take together is bounded. A body has one owner at a time; the room is shared by all threads.
#ifndef TERN_HTTP_BODY_H
#define TERN_HTTP_BODY_H

#include "hosted/spool.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A body up to this size is not counted: connections bound how many of those there are, so that
// short requests are heard while long ones fill the room.
#define TERN_BODY_UNCOUNTED 4096u

// A longer one goes into a file.
#define TERN_BODY_SHORT 65536u

// What the bodies of one owner may take in memory where long ones go into files: several of the
// longest that do not, so that what an unnoticed break left behind keeps no honest client out.
#define TERN_BODY_OWNER_MEMORY (4u * TERN_BODY_SHORT)

struct tern_body_share;

// What all bodies take together, from their first bytes until they are freed. It goes with the last
// of them, which may outlive the listener.
struct tern_body_room {
    char *folder; // of the files; NULL = all bodies are in memory
    _Atomic uint64_t memory;
    _Atomic uint64_t disk;
    _Atomic uint64_t memory_taken;
    _Atomic uint64_t disk_taken;
    _Atomic uint32_t references; // bodies, and one of whoever made it
    pthread_mutex_t lock;        // guards what follows
    void *shares;                // of the owners that have bodies
};

// folder: NULL, or copied. NULL when memory is short.
struct tern_body_room *tern_body_room_new(const char *folder, uint64_t memory, uint64_t disk);
void tern_body_room_limit(struct tern_body_room *room, uint64_t memory,
                          uint64_t disk);                 // from now on
void tern_body_room_release(struct tern_body_room *room); // NULL is nothing

struct tern_body {
    struct tern_body_room *room; // NULL = all in memory, without a bound
    size_t len;
    uint8_t *bytes; // in memory
    size_t size;    // of bytes
    struct tern_spool spool;
    const char *name; // that its file gets; borrowed until it has one. NULL = none
    uint64_t memory;  // counted in the room, and for its owner
    uint64_t disk;
    struct tern_body_share *share; // of its owner; NULL = nobody's
};

void tern_body_init(struct tern_body *body, struct tern_body_room *room);
void tern_body_free(struct tern_body *body);
// Likewise, but a file with a name stays.
void tern_body_leave(struct tern_body *body);

// A body that is the first `len` bytes of a file with a name, which an earlier process left in the
// room's folder. It takes room as others do, also where there is none. False: it cannot be opened;
// the body is as tern_body_init() made it.
bool tern_body_find(struct tern_body *body, const char *path, size_t len);

// Whose it is, of a body that is empty; 0 = nobody's. What an owner's bodies take in memory is bounded.
// False: memory is short.
bool tern_body_own(struct tern_body *body, uint64_t owner);

// Whether a body of `len` bytes is one for a file.
bool tern_body_is_long(const struct tern_body_room *room, uint64_t len);
// Whether a body of `len` bytes has room beside all others, and beside its owner's.
bool tern_body_fits(const struct tern_body *body, uint64_t len);
// most: bytes that the body will have at most, of which no more than came is taken for granted.
// False: there is no room for it, no memory, or its file cannot be written; only
// tern_body_is_in_file() and tern_body_free() are left then.
bool tern_body_append(struct tern_body *body, const void *data, size_t len, size_t most);
// Whether as many bytes as it has are in a file, also after an append that failed.
bool tern_body_is_in_file(const struct tern_body *body);
// All of it, valid until it is freed. NULL when it is empty, or its file cannot be read.
const uint8_t *tern_body_view(struct tern_body *body);
// Its pages need not be in memory for now, if they are in a file.
void tern_body_rest(const struct tern_body *body);

#endif
