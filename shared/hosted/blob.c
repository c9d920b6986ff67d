// Reference-counted bytes: one stored download serves any number of replies at once without copies.
#include "hosted/blob.h"

#include <stdatomic.h>
#include <stdlib.h>

struct tern_blob *tern_blob_new(size_t len)
{
    if (len > SIZE_MAX - sizeof(struct tern_blob)) {
        return NULL;
    }
    struct tern_blob *blob = malloc(sizeof *blob + len);
    if (blob != NULL) {
        atomic_init(&blob->references, 1);
        blob->len = len;
    }
    return blob;
}

struct tern_blob *tern_blob_share(struct tern_blob *blob)
{
    atomic_fetch_add_explicit(&blob->references, 1, memory_order_relaxed);
    return blob;
}

void tern_blob_release(struct tern_blob *blob)
{
    if (blob == NULL) {
        return;
    }
    // The last holder must see every write of the others before it frees.
    if (atomic_fetch_sub_explicit(&blob->references, 1, memory_order_acq_rel) == 1) {
        free(blob);
    }
}
