// Whether a client follows the trunk or is led to a replica of its own, and the blobs of both.
#include "catchup/catchup.h"

#include "catchup/internal.h"
#include <stdlib.h>
#include <string.h>

// Disk space for blobs in files, in snapshots of the model: as many as are of interest at a time.
#define FILES_OF_WEIGHTS 6

// --- Life

struct tern_catchup *tern_catchup_new(const struct tern_catchup_config *config, struct tern_db *db,
                                      const struct tern_merge *merge)
{
    struct tern_catchup *catchup = calloc(1, sizeof *catchup);
    if (catchup == NULL) {
        return NULL;
    }
    catchup->config = *config;
    catchup->db = db;
    catchup->merge = merge;
    catchup->cache.bytes_max = config->download_cache;
    catchup->files.bytes_max = (uint64_t)merge->model.count * sizeof(float) * FILES_OF_WEIGHTS;
    catchup->own = tern_own_new(catchup);
    if (catchup->own == NULL) {
        tern_catchup_free(catchup);
        return NULL;
    }
    return catchup;
}

void tern_catchup_free(struct tern_catchup *catchup)
{
    if (catchup == NULL) {
        return;
    }
    tern_blob_cache_clear(&catchup->cache);
    tern_blob_cache_clear(&catchup->files);
    tern_own_free(catchup->own);
    free(catchup->trunk.deltas);
    free(catchup);
}

enum tern_result tern_catchup_load(struct tern_catchup *catchup, uint64_t now)
{
    TERN_TRY(tern_own_load(catchup, now));
    return tern_trunk_load(catchup);
}

uint64_t tern_catchup_bytes(const struct tern_catchup *catchup)
{
    return catchup->own->book.bytes;
}

uint64_t tern_catchup_searches(const struct tern_catchup *catchup)
{
    return catchup->searches;
}

// --- Versions

enum tern_result tern_catchup_version(struct tern_catchup *catchup,
                                      const struct tern_download_made *made,
                                      const uint8_t from[TERN_SHA256_SIZE], uint64_t now)
{
    const struct tern_merge *merge = catchup->merge;
    struct tern_db_download download = {.from_version = merge->version - 1,
                                        .to_version = merge->version,
                                        .size = (uint32_t)made->len,
                                        .payload = (uint32_t)made->payload};
    tern_codec_format(&made->codec, download.codec);
    memcpy(download.sha256, made->sha256, TERN_SHA256_SIZE);
    memcpy(download.from_replica, from, TERN_SHA256_SIZE);
    memcpy(download.to_replica, merge->replica_id, TERN_SHA256_SIZE);
    catchup->collect_due = true;
    TERN_TRY(tern_own_version(catchup, &download, now));
    TERN_TRY(tern_trunk_add(catchup, &download));
    return tern_trunk_prune(catchup);
}

enum tern_result tern_catchup_collect(struct tern_catchup *catchup)
{
    if (!catchup->collect_due) {
        return TERN_OK;
    }
    catchup->collect_due = false;
    return tern_own_collect(catchup);
}

// Ways that were found may lead over what is forgotten.
enum tern_result tern_catchup_give_way(struct tern_catchup *catchup, uint64_t most)
{
    catchup->own->ways_version = UINT32_MAX;
    return tern_replica_give_way(&catchup->own->book, catchup->merge->version, most);
}

enum tern_result tern_catchup_named(struct tern_catchup *catchup,
                                    const uint8_t name[TERN_WIRE_REPLICA_BYTES],
                                    uint8_t id[TERN_SHA256_SIZE])
{
    static const uint8_t unknown[TERN_SHA256_SIZE - TERN_WIRE_REPLICA_BYTES];
    const bool same = memcmp(name, id, TERN_WIRE_REPLICA_BYTES) == 0;
    if (same && memcmp(id + TERN_WIRE_REPLICA_BYTES, unknown, sizeof unknown) != 0) {
        return TERN_OK;
    }
    if (!same) {
        memset(id, 0, TERN_SHA256_SIZE);
        memcpy(id, name, TERN_WIRE_REPLICA_BYTES);
    }
    return tern_db_may_miss(tern_db_replica_id(catchup->db, name, TERN_WIRE_REPLICA_BYTES, id));
}

// --- Ways

static struct tern_holder holder_of(const struct tern_db_client *client)
{
    return (struct tern_holder){tern_abilities_of(client), client->replica};
}

// Only who takes no snapshots can be left without a way.
enum tern_result tern_catchup_is_stranded(struct tern_catchup *catchup,
                                          const struct tern_db_client *client, bool *stranded)
{
    const struct tern_holder holder = holder_of(client);
    struct tern_plan_client held;
    *stranded = false;
    if (tern_abilities_know(&holder.able, TERN_CODEC_FLOAT32)) {
        return TERN_OK;
    }
    TERN_TRY(tern_trunk_position(catchup, &holder, &held));
    *stranded = tern_trunk_plan(catchup, &holder, &held) == TERN_PLAN_NONE;
    return *stranded && !client->evaluator ? tern_own_is_stranded(catchup, &holder, stranded)
                                           : TERN_OK;
}

// Whether no way to a replica of a client's own is fewer bytes than the trunk's snapshot, which all
// share: downloads that lose nothing all lead to the global model, each with all of its values. A
// snapshot holds frozen tensors as well, which deltas leave out.
static bool trunk_is_cheapest(const struct tern_catchup *catchup)
{
    const struct tern_model *model = &catchup->merge->model;
    for (uint32_t i = 0; i < model->segment_count; i++) {
        if (tern_segment_is_skipped(&model->segments[i])) {
            return false;
        }
    }
    return catchup->config.codec.id == TERN_CODEC_FLOAT32;
}

// Under plan = cheapest a client that missed no version follows the trunk: the delta is there, and the
// same for all. Under plan = trunk every client does that the trunk has a way for, and likewise where
// nothing could be gained by another. It has none for
// clients that take no snapshots and hold an earlier replica of their own or are too far behind: they
// get downloads of their own, as under cheapest.
static bool follows_trunk(const struct tern_catchup *catchup, const struct tern_holder *holder,
                          const struct tern_plan_client *held)
{
    uint32_t version = catchup->merge->version;
    if (catchup->config.plan == TERN_DOWNLOADS_TRUNK || trunk_is_cheapest(catchup)) {
        return tern_trunk_plan(catchup, holder, held) != TERN_PLAN_NONE;
    }
    return held->known &&
           (held->version == version ||
            (held->version + 1 == version && tern_trunk_has_next(catchup, holder, held)));
}

enum tern_result tern_catchup_trainer(struct tern_catchup *catchup,
                                      const struct tern_db_client *client,
                                      struct tern_searches *searches, bool newest, uint64_t now,
                                      struct tern_way *way)
{
    const struct tern_holder holder = holder_of(client);
    struct tern_plan_client held;
    memset(way, 0, sizeof *way);
    TERN_TRY(tern_trunk_position(catchup, &holder, &held));
    return follows_trunk(catchup, &holder, &held)
               ? tern_trunk_way(catchup, &holder, &held, way)
               : tern_own_way(catchup, &holder, searches, newest, now, way);
}

enum tern_result tern_catchup_is_global(struct tern_catchup *catchup,
                                        const uint8_t replica[TERN_SHA256_SIZE], bool *global)
{
    struct tern_db_replica row;
    enum tern_result found = tern_db_replica_get(catchup->db, replica, &row);
    *global = found == TERN_OK && row.residual == 0.0F;
    return tern_db_may_miss(found);
}

// Whether it holds the newest version's global model itself.
static enum tern_result holds_global(struct tern_catchup *catchup,
                                     const struct tern_db_client *client, bool *holds)
{
    *holds = false;
    return client->version == catchup->merge->version
               ? tern_catchup_is_global(catchup, client->replica, holds)
               : TERN_OK;
}

enum tern_result tern_catchup_final(struct tern_catchup *catchup,
                                    const struct tern_db_client *client, uint64_t now,
                                    struct tern_way *way)
{
    const struct tern_holder holder = holder_of(client);
    bool held = false;
    memset(way, 0, sizeof *way);
    TERN_TRY(holds_global(catchup, client, &held));
    return held || !tern_abilities_know(&holder.able, TERN_CODEC_FLOAT32)
               ? TERN_OK
               : tern_own_exact(catchup, now, way);
}

enum tern_result tern_catchup_evaluator(struct tern_catchup *catchup,
                                        const struct tern_db_client *client, bool again,
                                        struct tern_way *way)
{
    const struct tern_holder holder = holder_of(client);
    struct tern_plan_client held;
    bool stranded = false;
    bool global = false;
    memset(way, 0, sizeof *way);
    TERN_TRY(holds_global(catchup, client, &global));
    if (global) { // which need not be on the trunk
        memcpy(way->base, client->replica, TERN_SHA256_SIZE);
        way->base_version = catchup->merge->version;
        way->leads = again;
        return TERN_OK;
    }
    TERN_TRY(tern_catchup_is_stranded(catchup, client, &stranded));
    if (stranded) {
        return TERN_OK;
    }
    TERN_TRY(tern_trunk_position(catchup, &holder, &held));
    if (held.known && held.version >= catchup->merge->version && !again) {
        return TERN_OK;
    }
    return tern_trunk_has_next(catchup, &holder, &held)
               ? tern_trunk_next(catchup, &held, way)
               : tern_trunk_way(catchup, &holder, &held, way);
}
