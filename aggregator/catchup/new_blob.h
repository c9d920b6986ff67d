// A blob whose bytes come piece by piece: one above TERN_BLOB_LONG is in a file from its first byte on,
// where there is a folder for it, so that it need not fit into memory. One thread.
#ifndef TERN_CATCHUP_NEW_BLOB_H
#define TERN_CATCHUP_NEW_BLOB_H

#include "downloads/whole.h"
#include "hosted/blob.h"
#include <stdbool.h>

// One that every new client fetches must not be in memory for each of them, nor thrown out of it by each.
#define TERN_BLOB_LONG (1u << 20)

struct tern_new_blob {
    struct tern_spool spool;
    struct tern_blob *blob; // in memory; NULL = in the file
    size_t len;
    size_t most;
};

// For a blob of `most` bytes at most. folder: NULL = in memory, whatever its size.
// TERN_ERR_BUSY  too little disk, memory or descriptors for it, and the log says which
TERN_MUST_USE enum tern_result tern_new_blob_begin(struct tern_new_blob *made, const char *folder,
                                                   size_t most);
// Likewise, but in memory where the file cannot be made: of what others wait for.
TERN_MUST_USE enum tern_result tern_new_blob_begin_anyhow(struct tern_new_blob *made,
                                                          const char *folder, size_t most);
// Where its bytes go. TERN_ERR_BUSY likewise; TERN_ERR_NO_SPACE  more than there were to be
struct tern_download_sink tern_new_blob_sink(struct tern_new_blob *made);
// All are there. TERN_ERR_BUSY likewise; nothing is left of it then
TERN_MUST_USE enum tern_result tern_new_blob_end(struct tern_new_blob *made,
                                                 struct tern_blob **blob);
// It is not wanted. Also after an error of the functions above.
void tern_new_blob_drop(struct tern_new_blob *made);

// Whether a blob is in a file.
bool tern_blob_is_in_file(const struct tern_blob *blob);

#endif
