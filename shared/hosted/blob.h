// Bytes that are shared by many holders (a download that many replies send) or belong to one.
// Reference-counted; safe from any thread.
#ifndef TERN_HOSTED_BLOB_H
#define TERN_HOSTED_BLOB_H

#include <stddef.h>
#include <stdint.h>

struct tern_blob {
    _Atomic uint32_t references;
    size_t len;
    uint8_t data[];
};

// A blob with one reference and room for len bytes, or NULL.
struct tern_blob *tern_blob_new(size_t len);
struct tern_blob *tern_blob_share(struct tern_blob *blob);
void tern_blob_release(struct tern_blob *blob); // NULL is allowed

#endif
