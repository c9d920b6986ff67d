#include "client/harness/world.h"

#include <stdlib.h>
#include <string.h>

// As of a mapping, the last view ends with the next call.
static struct fake_partial *next_call(void *ctx)
{
    struct fake_partial *partial = &((struct world *)ctx)->partial;
    free(partial->viewed);
    partial->viewed = NULL;
    return partial;
}

static enum tern_result open_partial(void *ctx, const uint8_t sha256[TERN_SHA256_SIZE], size_t size,
                                     size_t *have)
{
    struct fake_partial *partial = next_call(ctx);
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
    struct fake_partial *partial = next_call(ctx);
    if (!partial->there || len > sizeof partial->data - partial->have) {
        return TERN_ERR_IO;
    }
    memcpy(partial->data + partial->have, data, len);
    partial->have += len;
    return TERN_OK;
}

static enum tern_result view(void *ctx, size_t offset, size_t len, const uint8_t **data)
{
    struct fake_partial *partial = next_call(ctx);
    if (!partial->there || offset > partial->have || len > partial->have - offset) {
        return TERN_ERR_CORRUPT;
    }
    partial->viewed = malloc(len);
    if (partial->viewed == NULL) {
        return TERN_ERR_IO;
    }
    memcpy(partial->viewed, partial->data + offset, len);
    *data = partial->viewed;
    return TERN_OK;
}

static void drop(void *ctx)
{
    next_call(ctx)->there = false;
}

void world_keep_partials(struct world *world)
{
    world->config.ports.partial = (struct tern_partial){world, open_partial, append, view, drop};
}
