// Bodies of requests while they arrive: a short one in memory, a longer one in a file (hosted/spool.h), so that the
// bodies of many clients need not fit into memory. All bodies together are bounded by a room. A long body outlives its
// connection and the process: its owner's next request brings the rest. The request reader writes bodies on its loop;
// the server owns the room and the uploads. A body and a writer have one owner at a time; the room and the uploads are
// thread-safe.
#ifndef TERN_HTTP_BODY_H
#define TERN_HTTP_BODY_H

#include "hosted/spool.h"
#include "http/http.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- Room

// A body up to this size is not counted: the number of connections bounds these bodies, so that short requests are
// read while long ones fill the room.
#define TERN_BODY_UNCOUNTED 4096u

// A longer body goes into a file.
#define TERN_BODY_SHORT 65536u

// Memory for the bodies of one owner, where long ones go into files. It holds several of the longest bodies in memory,
// so that bodies of broken connections do not exclude an honest client.
#define TERN_BODY_OWNER_MEMORY (4u * TERN_BODY_SHORT)

struct tern_body_share;

// Counts what all bodies use, from their first bytes until they are freed. The last body frees the room, since a body
// may outlive the listener.
struct tern_body_room {
    char *folder; // for the files; NULL = all bodies are in memory
    _Atomic uint64_t memory;
    _Atomic uint64_t disk;
    _Atomic uint64_t memory_taken;
    _Atomic uint64_t disk_taken;
    _Atomic uint32_t references; // by bodies, and by the creator
    pthread_mutex_t lock;        // guards what follows
    void *shares;                // of the owners that have bodies
};

// folder: copied, or NULL. NULL when memory is short.
struct tern_body_room *tern_body_room_new(const char *folder, uint64_t memory, uint64_t disk);
// Sets new limits for what arrives from now on.
void tern_body_room_limit(struct tern_body_room *room, uint64_t memory, uint64_t disk);
void tern_body_room_release(struct tern_body_room *room); // accepts NULL

// --- One body

struct tern_body {
    struct tern_body_room *room; // NULL = all in memory, without a bound
    size_t len;
    uint8_t *bytes; // in memory
    size_t size;    // allocated for `bytes`
    struct tern_spool spool;
    const char *name; // for its file; borrowed until the file exists. NULL = the file has no name
    uint64_t memory;  // counted in the room, and for its owner
    uint64_t disk;
    struct tern_body_share *share; // of its owner; NULL = the body has no owner
};

void tern_body_init(struct tern_body *body, struct tern_body_room *room);
void tern_body_free(struct tern_body *body);

// Sets the owner of an empty body; 0 = none. The memory of an owner's bodies is bounded. False: memory is short.
bool tern_body_own(struct tern_body *body, uint64_t owner);

// Whether a body of `len` bytes goes into a file.
bool tern_body_is_long(const struct tern_body_room *room, uint64_t len);
// Whether the room and the owner's share have space for a body of `len` bytes.
bool tern_body_fits(const struct tern_body *body, uint64_t len);
// most: bytes that the body will have at most, as the peer claims; memory is taken only for bytes that have arrived.
// False: there is no room or no memory, or the file cannot be written; free the body then.
bool tern_body_append(struct tern_body *body, const void *data, size_t len, size_t most);
// Returns the whole body, valid until it is freed. NULL when it is empty, or its file cannot be read.
const uint8_t *tern_body_view(struct tern_body *body);
// Lets the kernel drop the pages of a body in a file until they are read again.
void tern_body_rest(const struct tern_body *body);

// --- Uploads: long bodies that outlive their connection

// When the connection or the process ends, the bytes of a long body are kept: at most one body for each owner, in a
// file; a bounded number of them, each for a bounded time. The oldest is dropped when an arriving body needs its room.

struct tern_uploads;
struct tern_upload;

// Writes the bytes of one request to one body, until another writer replaces it. All zero: no writer.
struct tern_upload_writer {
    struct tern_uploads *uploads;
    struct tern_upload *upload;
    uint64_t turn;
};

// Which part of a body a request brings: the bytes from `from` to the end, at `total`.
struct tern_upload_rest {
    uint64_t owner;
    const char *path;
    uint64_t from;
    uint64_t total;
};

// most: kept at once. The room is borrowed and must outlive the uploads. NULL when memory is short.
struct tern_uploads *tern_uploads_new(struct tern_body_room *room, uint32_t most);
// Sets a new limit, which applies when the next body is kept.
void tern_uploads_limit(struct tern_uploads *uploads, uint32_t most);
// Loads the bodies that an earlier process left in the room's folder, also those that it was writing when it was
// killed. Drops the last byte of a body that was complete, so that its owner completes it. Call it before the first
// writer begins.
// TERN_ERR_IO         the folder cannot be read; errno tells the reason
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_uploads_load(struct tern_uploads *uploads);
// Frees the uploads and leaves their files on disk. Call it after the last writer ended. Accepts NULL.
void tern_uploads_free(struct tern_uploads *uploads);

// Begins a body, or continues the one that is kept. Drops the owner's body of another path, and one that begins again;
// an earlier writer of the body can append no more.
// TERN_OK         the writer is ready
// TERN_ERR_STATE  no body with `from` bytes is kept; or an earlier process wrote them, and nobody has asked for their
//                 hash since: after a power cut they may be damaged
// TERN_ERR_BUSY   the bodies of others leave no room
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_uploads_begin(struct tern_uploads *uploads,
                                                  const struct tern_upload_rest *rest,
                                                  struct tern_upload_writer *writer);

// False: there is no room or no memory, the file cannot be written, or another writer has replaced this one; call
// tern_upload_leave() then.
bool tern_upload_append(struct tern_upload_writer *writer, const void *data, size_t len);
// Moves the complete body to `body`, whose old content is freed, and ends the writer. False: another writer has
// replaced this one.
bool tern_upload_take(struct tern_upload_writer *writer, struct tern_body *body);
// Ends the writer; keeps the bytes if they are many. Does nothing for a writer that has ended.
void tern_upload_leave(struct tern_upload_writer *writer);

// Returns length and hash of the bytes that are kept of the owner's body for that path. A writer of the body can append
// no more. False: nothing is kept.
bool tern_uploads_find(struct tern_uploads *uploads, uint64_t owner, const char *path,
                       struct tern_http_unfinished *unfinished);

// Drops bodies that have been kept for keep_ms, and those that handler->awaits rejects.
void tern_uploads_sweep(struct tern_uploads *uploads, uint64_t now_ms, uint64_t keep_ms,
                        const struct tern_http_handler *handler);

uint64_t tern_uploads_kept(struct tern_uploads *uploads);      // now
uint64_t tern_uploads_continued(struct tern_uploads *uploads); // since the start

#endif
