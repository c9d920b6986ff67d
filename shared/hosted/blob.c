// Reference-counted bytes: one stored download serves any number of replies at once without copies.
#include "hosted/blob.h"

#include <stdatomic.h>
#include <stdlib.h>

static struct tern_blob *make(size_t len, size_t in_memory)
{
    struct tern_blob *blob = malloc(sizeof *blob + in_memory);
    if (blob != NULL) {
        atomic_init(&blob->references, 1);
        blob->len = len;
        blob->data = blob->memory;
        blob->spool = (struct tern_spool)TERN_SPOOL_CLOSED;
    }
    return blob;
}

struct tern_blob *tern_blob_new(size_t len)
{
    return len > SIZE_MAX - sizeof(struct tern_blob) ? NULL : make(len, len);
}

struct tern_blob *tern_blob_of_file(struct tern_spool *spool)
{
    const bool readable = tern_spool_view(spool) != NULL;
    struct tern_blob *blob = readable ? make(spool->len, 0) : NULL;
    if (blob == NULL) {
        tern_spool_close(spool);
        return NULL;
    }
    blob->data = spool->mapped;
    blob->spool = *spool;
    *spool = (struct tern_spool)TERN_SPOOL_CLOSED;
    return blob;
}

void tern_blob_rest(const struct tern_blob *blob, size_t from, size_t len)
{
    tern_spool_rest(&blob->spool, from, len);
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
        tern_spool_close(&blob->spool);
        free(blob);
    }
}
