// Long bodies that outlive their connection, and the process: what came of one is kept when either
// ends, so that its owner's next request can bring the rest. At most one for each owner, in a file
// (body.h, upload_files.h); a bounded number of them, each for a bounded time, and the oldest goes
// when a body that comes in needs its room. Thread-safe; a writer is one reader's.
#ifndef TERN_HTTP_UPLOADS_H
#define TERN_HTTP_UPLOADS_H

#include "http/body.h"
#include "http/http.h"

struct tern_uploads;
struct tern_upload;

// What one request writes to one body, until another takes its place. All zero: none.
struct tern_upload_writer {
    struct tern_uploads *uploads;
    struct tern_upload *upload;
    uint64_t turn;
};

// Which bytes of whose body a request brings: from `from` to the end, `total` being the whole.
struct tern_upload_rest {
    uint64_t owner;
    const char *path;
    uint64_t from;
    uint64_t total;
};

// most: kept at once. NULL when memory is short. The room is borrowed, and outlives it.
struct tern_uploads *tern_uploads_new(struct tern_body_room *room, uint32_t most);
void tern_uploads_limit(struct tern_uploads *uploads, uint32_t most); // from the next that is kept
// Finds again what an earlier process kept in the room's folder, or was writing when it was killed.
// Of a body that was whole by then, its last byte is left to come again: none is whole before its
// owner says so. Before the first writer.
// TERN_ERR_IO         the folder cannot be read; errno says why
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_uploads_find_again(struct tern_uploads *uploads);
// What is kept stays on disk. After the last writer. NULL is nothing.
void tern_uploads_free(struct tern_uploads *uploads);

// Begins a body, or goes on with the one that is kept. What the owner sent before to another path, or
// would begin again, is dropped; another writer of the body gets no further.
// TERN_OK         the writer is ready
// TERN_ERR_STATE  no `from` bytes of such a body are kept, or they were found again and nobody has
//                 asked for their hash since: a power cut may have taken them apart
// TERN_ERR_BUSY   the bodies of others leave no room
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_uploads_begin(struct tern_uploads *uploads,
                                                  const struct tern_upload_rest *rest,
                                                  struct tern_upload_writer *writer);

// False: there is no room or no memory for it, its file cannot be written, or another has taken the
// writer's place; only tern_upload_leave() is left then.
bool tern_upload_append(struct tern_upload_writer *writer, const void *data, size_t len);
// The body is whole, and now the caller's, whose own is freed; the writer is none any more. False:
// another has taken the writer's place.
bool tern_upload_take(struct tern_upload_writer *writer, struct tern_body *body);
// What came is kept if it is long. A writer that is none, or has taken the body, is nothing.
void tern_upload_leave(struct tern_upload_writer *writer);

// What is kept of the owner's body for that path. Whoever still writes it gets no further. False:
// nothing.
bool tern_uploads_find(struct tern_uploads *uploads, uint64_t owner, const char *path,
                       struct tern_http_unfinished *unfinished);

// Drops what has been kept for keep_ms, and what nobody awaits (struct tern_http_handler).
void tern_uploads_sweep(struct tern_uploads *uploads, uint64_t now_ms, uint64_t keep_ms,
                        const struct tern_http_handler *handler);

uint64_t tern_uploads_kept(struct tern_uploads *uploads);      // now
uint64_t tern_uploads_continued(struct tern_uploads *uploads); // since the start

#endif
