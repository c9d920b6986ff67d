// Bodies of requests while they arrive: a short one in memory, a longer one in a file (hosted/spool.h). A room bounds
// what all bodies use together. A long body outlives its connection and the process: its owner's next request brings the
// rest. The request reader writes bodies on its loop; the server owns the room and the uploads. A body and a writer have
// one owner at a time; the room and the uploads are thread-safe.
#ifndef TERN_HTTP_BODY_H
#define TERN_HTTP_BODY_H

#include "hosted/spool.h"
#include "http/http.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- Room

// A body up to this size is not counted, so that short requests are read even if long bodies fill the room. The number of
// connections bounds these bodies.
#define TERN_BODY_UNCOUNTED 4096u

// A longer body goes into a file.
#define TERN_BODY_SHORT 65536u

// Memory for the bodies of one owner if long ones go into files: four bodies of TERN_BODY_SHORT, so that bodies of broken
// connections do not block their owner's next request.
#define TERN_BODY_OWNER_MEMORY (4u * TERN_BODY_SHORT)

struct tern_body_share;

// Counts the memory and disk of all bodies. A body may outlive the listener, so the last reference frees the room.
struct tern_body_room {
    char *folder; // for the files; NULL = all bodies are in memory
    _Atomic uint64_t memory;
    _Atomic uint64_t disk;
    _Atomic uint64_t memory_taken;
    _Atomic uint64_t disk_taken;
    _Atomic uint32_t references; // by bodies, and by the creator
    pthread_mutex_t lock;        // guards `shares`
    void *shares;                // tree of tern_body_share, one for each owner that has bodies
};

// folder: copied, or NULL. NULL when memory is short.
struct tern_body_room *tern_body_room_new(const char *folder, uint64_t memory, uint64_t disk);
void tern_body_room_release(struct tern_body_room *room); // accepts NULL

// --- One body

struct tern_body {
    struct tern_body_room *room; // NULL = all in memory, without a bound
    size_t len;
    uint8_t *bytes; // in memory
    size_t size;    // allocated for `bytes`
    struct tern_spool spool;
    const char *name; // of its file; borrowed until the file exists. NULL = the file has no name
    uint64_t memory;  // counted in the room, and in the owner's share
    uint64_t disk;    // counted in the room
    struct tern_body_share *share; // of its owner; NULL = the body has no owner
};

void tern_body_init(struct tern_body *body, struct tern_body_room *room);
void tern_body_free(struct tern_body *body);

// Sets the owner of an empty body, whose bodies share TERN_BODY_OWNER_MEMORY; 0 = none. False: memory is short.
bool tern_body_set_owner(struct tern_body *body, uint64_t owner);

// Whether the room and the owner's share have space for a body of `len` bytes.
bool tern_body_fits(const struct tern_body *body, uint64_t len);
// most: the body's length as the peer claims; memory is allocated for arrived bytes only. False: the room or memory is
// full, or the file cannot be written; free the body then.
bool tern_body_append(struct tern_body *body, const void *data, size_t len, size_t most);
// Returns the whole body, valid until it is freed. NULL when it is empty, or its file cannot be read.
const uint8_t *tern_body_view(struct tern_body *body);
// Lets the kernel drop the pages of a body in a file; they are read again on access.
void tern_body_evict(const struct tern_body *body);

// --- Uploads: long bodies that outlive their connection

// If a connection or the process ends, the bytes of a long body are kept in a file: one body per owner, a bounded number
// of bodies, each for a bounded time. If an arriving body needs the space, the oldest kept body is dropped.

struct tern_uploads;
struct tern_upload;

// Writes the bytes of one request to a body, until another request's writer replaces it. All zero: no writer.
struct tern_upload_writer {
    struct tern_uploads *uploads;
    struct tern_upload *upload;
    uint64_t generation; // must equal the upload's; otherwise the writer was replaced
};

// The part of a body that a request brings: the bytes from `from` up to the end at `total`.
struct tern_upload_part {
    uint64_t owner;
    const char *path;
    uint64_t from;
    uint64_t total;
};

// most: the largest number of bodies kept at once. The room must outlive the uploads. NULL when memory is short.
struct tern_uploads *tern_uploads_new(struct tern_body_room *room, uint32_t most);
// Loads the bodies that an earlier process left in the room's folder, even if it was killed while writing. Drops the last
// byte of a complete body, so that its owner sends a request to complete it. Call it before the first writer begins.
// TERN_ERR_IO         the folder cannot be read; errno has the reason
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_uploads_load(struct tern_uploads *uploads);
// Frees the uploads and leaves their files on disk. Call it after the last writer ended. Accepts NULL.
void tern_uploads_free(struct tern_uploads *uploads);

// Begins a body (part->from 0) and drops the owner's kept body, or continues the kept body. Replaces an earlier writer of
// the body.
// TERN_OK         the writer is ready
// TERN_ERR_STATE  no body with `from` bytes is kept; or an earlier process wrote it and its owner has not asked for its
//                 hash (tern_uploads_find()): after a power cut the bytes may be damaged
// TERN_ERR_BUSY   bodies of other owners leave no room
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_uploads_begin(struct tern_uploads *uploads,
                                                  const struct tern_upload_part *part,
                                                  struct tern_upload_writer *writer);

// False: the room or memory is full, the file cannot be written, or the writer was replaced; call tern_upload_end() then.
bool tern_upload_append(struct tern_upload_writer *writer, const void *data, size_t len);
// Moves the complete body to `body`, whose old content is freed, and ends the writer. False: the writer was replaced.
bool tern_upload_take(struct tern_upload_writer *writer, struct tern_body *body);
// Ends the writer; keeps a body that is in a file. Does nothing for a writer that has ended.
void tern_upload_end(struct tern_upload_writer *writer);

// Returns length and hash of the kept bytes of the owner's body for this path. Replaces a writer of the body. False:
// nothing is kept.
bool tern_uploads_find(struct tern_uploads *uploads, uint64_t owner, const char *path,
                       struct tern_http_unfinished *unfinished);

// Drops bodies that have been kept for keep_ms, and bodies that handler->expects_upload rejects.
void tern_uploads_sweep(struct tern_uploads *uploads, uint64_t now_ms, uint64_t keep_ms,
                        const struct tern_http_handler *handler);

// Fills the counters of bodies: bytes in memory and in files, kept bodies, continued bodies.
void tern_uploads_count(struct tern_uploads *uploads, struct tern_http_counters *counters);

// Creates a room with this folder and these limits, and the uploads in it, and loads the bodies of an earlier process.
// folder: copied, or NULL.
// TERN_ERR_IO, TERN_ERR_NO_MEMORY  like tern_uploads_load(); `why` has the reason
TERN_MUST_USE enum tern_result tern_uploads_open(const char *folder,
                                                 const struct tern_http_limits *limits,
                                                 struct tern_uploads **uploads, char why[256]);
// Sets new limits for bytes that arrive, and for bodies that are kept, from now on. For tern_uploads_open() only.
void tern_uploads_set_limits(struct tern_uploads *uploads, const struct tern_http_limits *limits);
// Frees the uploads like tern_uploads_free(), and releases the room. Accepts NULL.
void tern_uploads_close(struct tern_uploads *uploads);

// --- Body of the request that is being read

// Becomes a tern_body at the request's end. A long body with an owner is an upload until then.
struct tern_arrival {
    struct tern_uploads *uploads;     // NULL = no body outlives its connection
    struct tern_body body;            // a short body, and every complete one
    struct tern_upload_writer upload; // an incomplete body that may outlive the connection
};

// room: NULL = the room of `uploads`; both NULL = bodies without a bound.
void tern_arrival_init(struct tern_arrival *arrival, struct tern_body_room *room,
                       struct tern_uploads *uploads);
void tern_arrival_free(struct tern_arrival *arrival);

// Continues the body of an earlier request, or begins a new one. part->owner 0: none. Returns 0, or the HTTP status of a
// refusal.
int tern_arrival_begin(struct tern_arrival *arrival, const struct tern_upload_part *part);
// total: the length of the whole body. False: refuse the request with 503.
bool tern_arrival_append(struct tern_arrival *arrival, const void *data, size_t len,
                         uint64_t total);
// Returns the complete body; *len its length. NULL with *len > 0: refuse the request with 503.
const uint8_t *tern_arrival_end(struct tern_arrival *arrival, size_t *len);

#endif
