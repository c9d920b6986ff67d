#include "client/harness/world.h"

#include <string.h>

static enum tern_result open_partial(void *ctx, const uint8_t sha256[TERN_SHA256_SIZE], size_t size,
                                     size_t *have)
{
    struct fake_partial *partial = &((struct world *)ctx)->partial;
    if (partial->full || size > sizeof partial->data) {
        return TERN_ERR_NO_SPACE;
    }
    if (!partial->there || memcmp(partial->sha256, sha256, TERN_SHA256_SIZE) != 0) {
        memcpy(partial->sha256, sha256, TERN_SHA256_SIZE);
        partial->there = true;
        partial->have = 0;
        partial->opened++;
    }
    *have = partial->have;
    return TERN_OK;
}

static enum tern_result append(void *ctx, const uint8_t *data, size_t len)
{
    struct fake_partial *partial = &((struct world *)ctx)->partial;
    if (!partial->there || len > sizeof partial->data - partial->have) {
        return TERN_ERR_IO;
    }
    memcpy(partial->data + partial->have, data, len);
    partial->have += len;
    return TERN_OK;
}

static enum tern_result view(void *ctx, size_t offset, size_t len, const uint8_t **data)
{
    const struct fake_partial *partial = &((struct world *)ctx)->partial;
    if (!partial->there || offset > partial->have || len > partial->have - offset) {
        return TERN_ERR_CORRUPT;
    }
    *data = partial->data + offset;
    return TERN_OK;
}

static void drop(void *ctx)
{
    ((struct world *)ctx)->partial.there = false;
}

void world_keep_partials(struct world *world)
{
    world->config.ports.partial = (struct tern_partial){world, open_partial, append, view, drop};
}
