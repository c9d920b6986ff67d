// Bytes that are shared by many holders (a download that many replies send) or belong to one, in
// memory or, where they are many, in a file without a name. Reference-counted; safe from any thread.
#ifndef TERN_HOSTED_BLOB_H
#define TERN_HOSTED_BLOB_H

#include "hosted/spool.h"
#include <stddef.h>
#include <stdint.h>

struct tern_blob {
    _Atomic uint32_t references;
    size_t len;
    uint8_t *data; // of a file: read-only
    struct tern_spool spool;
    uint8_t memory[];
};

// A blob with one reference and room for len bytes, or NULL.
struct tern_blob *tern_blob_new(size_t len);
// A blob of what was appended to the file, which is taken over, or NULL; then the file is closed.
struct tern_blob *tern_blob_of_file(struct tern_spool *spool);
// Bytes [from, from + len) are not read for a while: what lies in a file may leave memory.
void tern_blob_rest(const struct tern_blob *blob, size_t from, size_t len);
struct tern_blob *tern_blob_share(struct tern_blob *blob);
void tern_blob_release(struct tern_blob *blob); // NULL is allowed

#endif
