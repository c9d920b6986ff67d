// The body of one request as it comes in: a short one in memory, a longer one in a file without a
// name (hosted/spool.h), so that what many clients send at once need not fit into memory. What all
// bodies take together is bounded. A body has one owner at a time; the room is shared by all threads.
#ifndef TERN_HTTP_BODY_H
#define TERN_HTTP_BODY_H

#include "hosted/spool.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A body up to this size is not counted: connections bound how many of those there are, so that
// short requests are heard while long ones fill the room.
#define TERN_BODY_UNCOUNTED 4096u

// A longer one goes into a file.
#define TERN_BODY_SHORT 65536u

// What all bodies take together, from their first bytes until they are freed. It goes with the last
// of them, which may outlive the listener.
struct tern_body_room {
    char *folder; // of the files; NULL = all bodies are in memory
    uint64_t memory;
    uint64_t disk;
    _Atomic uint64_t memory_taken;
    _Atomic uint64_t disk_taken;
    _Atomic uint32_t references; // bodies, and one of whoever made it
};

// folder: NULL, or copied. NULL when memory is short.
struct tern_body_room *tern_body_room_new(const char *folder, uint64_t memory, uint64_t disk);
void tern_body_room_release(struct tern_body_room *room); // NULL is nothing

struct tern_body {
    struct tern_body_room *room; // NULL = all in memory, without a bound
    size_t len;
    uint8_t *bytes; // in memory
    size_t size;    // of bytes
    struct tern_spool spool;
    uint64_t memory; // counted in the room
    uint64_t disk;
};

void tern_body_init(struct tern_body *body, struct tern_body_room *room);
void tern_body_free(struct tern_body *body);

// Whether a body of `len` bytes has room beside all others.
bool tern_body_fits(const struct tern_body *body, uint64_t len);
// most: bytes that the body will have at most, of which no more than came is taken for granted.
// False: there is no room for it, no memory, or its file cannot be written; only tern_body_free()
// is left then.
bool tern_body_append(struct tern_body *body, const void *data, size_t len, size_t most);
// All of it, valid until it is freed. NULL when it is empty, or its file cannot be read.
const uint8_t *tern_body_view(struct tern_body *body);
// Its pages need not be in memory for now, if they are in a file.
void tern_body_rest(const struct tern_body *body);

#endif
