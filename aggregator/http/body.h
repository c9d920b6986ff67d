// Bodies of requests while they arrive: a short body in memory, a longer body in a file (hosted/spool.h). A quota
// limits the memory and disk of all bodies together. A long body outlives its connection and the process: its owner's
// next request brings the rest. The request reader writes bodies on its loop; the server owns the quota and the
// uploads. One thread at a time uses a body or a writer; the quota and the uploads are thread-safe.
#ifndef TERN_HTTP_BODY_H
#define TERN_HTTP_BODY_H

#include "hosted/spool.h"
#include "http/http.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- Quota

// A body up to this size is not counted, so that short requests are read even if long bodies use up the quota. The
// limit of connections bounds the memory of uncounted bodies.
#define TERN_BODY_UNCOUNTED 4096u

// Longest body in memory, in bytes; a longer body goes into a file.
#define TERN_BODY_SHORT 65536u

// Memory for the bodies of one owner, if long bodies go into files: four bodies of TERN_BODY_SHORT, so that bodies of
// broken connections do not block their owner's next request.
#define TERN_BODY_OWNER_MEMORY (4u * TERN_BODY_SHORT)

struct tern_owner_quota;

// Limits and counts the memory and disk of all bodies. A body may outlive the listener, so the last reference frees the
// quota.
struct tern_body_quota {
    char *folder; // for the files; NULL = all bodies are in memory
    _Atomic uint64_t memory;
    _Atomic uint64_t disk;
    _Atomic uint64_t memory_taken;
    _Atomic uint64_t disk_taken;
    _Atomic uint32_t references; // by bodies, and by the creator
    pthread_mutex_t lock;        // guards `owner_quotas`
    void *owner_quotas; // tree of tern_owner_quota, with an element for each owner of a body
};

// folder: copied, or NULL. NULL when memory is short.
struct tern_body_quota *tern_body_quota_new(const char *folder, uint64_t memory, uint64_t disk);
void tern_body_quota_release(struct tern_body_quota *quota); // accepts NULL

// --- One body

struct tern_body {
    struct tern_body_quota *quota; // NULL = the body is in memory, without a limit
    size_t len;
    uint8_t *bytes; // content in memory; NULL = none
    size_t size;    // allocated for `bytes`
    struct tern_spool spool;
    // Name of the file; borrowed until the file exists. NULL = the file has no name.
    const char *name;
    uint64_t memory;                      // bytes counted in `quota` and `owner_quota`
    uint64_t disk;                        // bytes counted in `quota`
    struct tern_owner_quota *owner_quota; // NULL = the body has no owner
};

void tern_body_init(struct tern_body *body, struct tern_body_quota *quota);
void tern_body_free(struct tern_body *body);

// Sets the owner of an empty body. All bodies of an owner have TERN_BODY_OWNER_MEMORY together. 0: no owner. False:
// memory is short.
bool tern_body_set_owner(struct tern_body *body, uint64_t owner);

// Whether the quota and the owner's quota have space for a body of `len` bytes.
bool tern_body_fits(const struct tern_body *body, uint64_t len);
// Appends received bytes. limit: the body's length as the peer claims; memory is allocated for received bytes only.
// False: the quota or memory is used up, or the file cannot be written; free the body then.
bool tern_body_append(struct tern_body *body, const void *data, size_t len, size_t limit);
// Returns the content, valid until the body is freed. NULL: the body is empty, or its file cannot be read.
const uint8_t *tern_body_view(struct tern_body *body);
// Lets the kernel evict the pages of a body in a file from memory; an access reads them from the file.
void tern_body_evict(const struct tern_body *body);

// --- Uploads: long bodies that outlive their connection

// If its connection or the process ends, an upload is interrupted: its bytes stay in a file. An owner has at most one
// interrupted upload; their number and age are limited. If an arriving body needs the space, the oldest interrupted
// upload is dropped.

struct tern_uploads;
struct tern_upload;

// Writes the bytes of one request to an upload, until another request's writer replaces this writer. All zero: no
// writer.
struct tern_upload_writer {
    struct tern_uploads *uploads;
    struct tern_upload *upload;
    uint64_t generation; // differs from the upload's generation once the writer was replaced
};

// The part of a body that a request brings: the bytes from `from` up to the end at `total`.
struct tern_upload_part {
    uint64_t owner;
    const char *path;
    uint64_t from;
    uint64_t total;
};

// limit: the largest number of interrupted uploads. The quota must outlive the uploads. NULL when memory is short.
struct tern_uploads *tern_uploads_new(struct tern_body_quota *quota, uint32_t limit);
// Loads the uploads that an earlier process left in the quota's folder, even if the process was killed while writing.
// Drops the last byte of a complete body, so that its owner sends a request to complete the body. Call this function
// before the first writer begins.
// TERN_ERR_IO         the folder cannot be read; errno has the reason
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_uploads_load(struct tern_uploads *uploads);
// Frees the uploads and leaves their files on disk. All writers must have ended. Accepts NULL.
void tern_uploads_free(struct tern_uploads *uploads);

// Begins an upload and drops the owner's interrupted upload (part->from 0), or continues the interrupted upload.
// Replaces an earlier writer.
// TERN_OK         the writer is ready
// TERN_ERR_STATE  no body with `from` bytes is kept; or an earlier process wrote it and its owner has not asked for its
//                 hash (tern_uploads_find()): after a power cut the bytes may be damaged
// TERN_ERR_BUSY   bodies of other owners use up the quota
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_uploads_begin(struct tern_uploads *uploads,
                                                  const struct tern_upload_part *part,
                                                  struct tern_upload_writer *writer);

// Appends received bytes. False: the quota or memory is used up, the file cannot be written, or the writer was
// replaced; call tern_upload_end() then.
bool tern_upload_append(struct tern_upload_writer *writer, const void *data, size_t len);
// Moves the complete body to `body`, whose old content is freed, and ends the writer. False: the writer was replaced.
bool tern_upload_take(struct tern_upload_writer *writer, struct tern_body *body);
// Ends the writer; the upload is interrupted if its bytes are in a file, and dropped otherwise. Does nothing for a
// writer that has ended.
void tern_upload_end(struct tern_upload_writer *writer);

// Returns length and hash of the received bytes of the owner's upload to this path. Ends its writer. False: the owner
// has no such upload.
bool tern_uploads_find(struct tern_uploads *uploads, uint64_t owner, const char *path,
                       struct tern_http_unfinished *unfinished);

// Drops uploads whose interruption is older than retain_ms, and interrupted uploads that handler->expects_upload
// rejects.
void tern_uploads_sweep(struct tern_uploads *uploads, uint64_t now_ms, uint64_t retain_ms,
                        const struct tern_http_handler *handler);

// Fills the counters of bodies: bytes in memory and in files, interrupted uploads, continued uploads.
void tern_uploads_count(struct tern_uploads *uploads, struct tern_http_counters *counters);

// Creates a quota with the folder and limits, creates the uploads of this quota, and loads the uploads of an earlier
// process. folder: copied, or NULL. TERN_ERR_IO, TERN_ERR_NO_MEMORY  like tern_uploads_load(); `why` has the reason
TERN_MUST_USE enum tern_result tern_uploads_open(const char *folder,
                                                 const struct tern_http_limits *limits,
                                                 struct tern_uploads **uploads, char why[256]);
// Sets new limits for bytes that arrive and for uploads that are interrupted from now on. For uploads of
// tern_uploads_open().
void tern_uploads_set_limits(struct tern_uploads *uploads, const struct tern_http_limits *limits);
// Frees the uploads like tern_uploads_free(), and releases their quota. Accepts NULL.
void tern_uploads_close(struct tern_uploads *uploads);

// --- Body of the request that is being read

// The body of one request while the request arrives. A long body with an owner is an upload, any other body is a
// tern_body; at the request's end every body is a tern_body.
struct tern_arrival {
    struct tern_uploads *uploads; // NULL = bodies cannot outlive their connection
    struct tern_body body;        // a short body; at the end, any body
    // A long body that may outlive the connection; all zero = none.
    struct tern_upload_writer upload;
};

// quota: NULL = the quota of `uploads`; both NULL = bodies without a limit.
void tern_arrival_init(struct tern_arrival *arrival, struct tern_body_quota *quota,
                       struct tern_uploads *uploads);
void tern_arrival_free(struct tern_arrival *arrival);

// Continues the body of an earlier request, or begins a new body. part->owner: 0 = no owner. Returns 0, or the HTTP
// status of a refusal.
int tern_arrival_begin(struct tern_arrival *arrival, const struct tern_upload_part *part);
// Appends received bytes. total: length of the whole body. False: refuse the request with 503.
bool tern_arrival_append(struct tern_arrival *arrival, const void *data, size_t len,
                         uint64_t total);
// Returns the complete body and sets *len to its length. NULL with *len > 0: refuse the request with 503.
const uint8_t *tern_arrival_end(struct tern_arrival *arrival, size_t *len);

#endif
