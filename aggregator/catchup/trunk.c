// The trunk, one replica per version that all clients may share: where a client is on it, and the
// downloads that lead it to the newest version.
#include "catchup/internal.h"

#include <stdlib.h>
#include <string.h>

// Snapshots are large and made anew on demand; old ones serve only who is downloading them now.
#define KEEP_SNAPSHOTS 4

// Commits after which a snapshot is forgotten, and some to be sure.
#define SNAPSHOT_COMMITS 6

static const uint8_t no_replica[TERN_SHA256_SIZE];

// --- Deltas and the snapshot in memory

static enum tern_result make_delta_room(struct tern_trunk *trunk, uint32_t version)
{
    if (version <= trunk->delta_capacity) {
        return TERN_OK;
    }
    uint32_t capacity = trunk->delta_capacity == 0 ? 64 : trunk->delta_capacity;
    while (capacity < version) {
        capacity *= 2;
    }
    struct delta *deltas = realloc(trunk->deltas, capacity * sizeof deltas[0]);
    if (deltas == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    memset(deltas + trunk->delta_capacity, 0,
           (capacity - trunk->delta_capacity) * sizeof deltas[0]);
    trunk->deltas = deltas;
    trunk->delta_capacity = capacity;
    return TERN_OK;
}

static enum tern_result remember_delta(struct tern_trunk *trunk, uint32_t version,
                                       const struct tern_db_download *download)
{
    TERN_TRY(make_delta_room(trunk, version));
    struct delta *delta = &trunk->deltas[version - 1];
    memcpy(delta->sha256, download->sha256, TERN_SHA256_SIZE);
    delta->size = download->size;
    delta->codec_known = tern_codec_parse(download->codec, &delta->codec, NULL) == TERN_OK;
    return TERN_OK;
}

enum tern_result tern_trunk_load(struct tern_catchup *catchup)
{
    struct tern_trunk *trunk = &catchup->trunk;
    uint32_t keep = catchup->config.keep_versions;
    uint32_t version = catchup->merge->version;
    uint32_t first = version > keep ? version - keep + 1 : 1;
    trunk->snapshots = SNAPSHOT_COMMITS;
    // There may be none of them: a bound of bytes is kept by forgetting deltas.
    TERN_TRY(make_delta_room(trunk, version));
    if (trunk->deltas != NULL) {
        memset(trunk->deltas, 0, trunk->delta_capacity * sizeof trunk->deltas[0]);
    }
    for (uint32_t v = first; v <= version; v++) {
        struct tern_db_download download;
        enum tern_result found = tern_db_download_to(catchup->db, v, false, &download);
        if (found == TERN_OK) {
            found = remember_delta(trunk, v, &download);
        }
        if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
            return found;
        }
    }
    enum tern_result found = tern_db_download_to(catchup->db, version, true, &trunk->snapshot);
    if (found == TERN_ERR_NOT_FOUND) {
        memset(&trunk->snapshot, 0, sizeof trunk->snapshot);
        return TERN_OK;
    }
    return found;
}

enum tern_result tern_trunk_add(struct tern_catchup *catchup,
                                const struct tern_db_download *download)
{
    memset(&catchup->trunk.snapshot, 0, sizeof catchup->trunk.snapshot);
    memcpy(catchup->trunk.before, download->from_replica, TERN_SHA256_SIZE);
    return remember_delta(&catchup->trunk, download->to_version, download);
}

// Deltas go with their replicas, once nobody needs those.
enum tern_result tern_trunk_prune(struct tern_catchup *catchup)
{
    struct tern_trunk *trunk = &catchup->trunk;
    uint32_t version = catchup->merge->version;
    uint32_t keep = catchup->config.keep_versions;
    if (version > KEEP_SNAPSHOTS && trunk->snapshots > 0) {
        struct tern_replica_book *book = &catchup->own->book;
        uint64_t freed = 0;
        trunk->snapshots--;
        TERN_TRY(tern_db_snapshot_prune(catchup->db, version - KEEP_SNAPSHOTS, &freed));
        book->bytes -= freed < book->bytes ? freed : book->bytes;
    }
    if (version > keep) {
        trunk->deltas[version - keep - 1].size = 0;
    }
    return TERN_OK;
}

// Deltas are found by their version: one that is gone is in no chain.
void tern_trunk_dropped(void *ctx, uint32_t version)
{
    struct tern_catchup *catchup = ctx;
    struct tern_trunk *trunk = &catchup->trunk;
    if (version > 0 && version <= trunk->delta_capacity) {
        trunk->deltas[version - 1].size = 0;
    }
    if (version < trunk->delta_capacity) {
        trunk->deltas[version].size = 0;
    }
}

// Makes and stores the snapshot of the present version, once.
static enum tern_result make_snapshot(struct tern_catchup *catchup)
{
    struct tern_trunk *trunk = &catchup->trunk;
    struct tern_db_download row;
    struct tern_blob *blob = NULL;
    if (trunk->snapshot.size != 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_snapshot_of_trunk(catchup, &row, &blob));
    const enum tern_result result = tern_catchup_store(catchup, &row, blob);
    tern_blob_release(blob);
    TERN_TRY(result);
    trunk->snapshot = row;
    trunk->snapshots = SNAPSHOT_COMMITS;
    return TERN_OK;
}

// --- Where a client is

// A client that holds nothing yet makes the seed's replica by itself. A model without a seed must be
// given to it as a snapshot.
enum tern_result tern_trunk_position(struct tern_catchup *catchup, const struct tern_holder *holder,
                                     struct tern_plan_client *held)
{
    const struct tern_merge *merge = catchup->merge;
    *held = (struct tern_plan_client){.known = true,
                                      .chain_max = holder->able.downloads_max,
                                      .no_snapshots =
                                          !tern_abilities_know(&holder->able, TERN_CODEC_FLOAT32)};
    if (memcmp(holder->replica, no_replica, TERN_SHA256_SIZE) == 0) {
        held->known = tern_model_is_seeded(&merge->model);
        return TERN_OK;
    }
    if (memcmp(holder->replica, merge->replica_id, TERN_SHA256_SIZE) == 0) {
        held->version = merge->version;
        return TERN_OK;
    }
    if (memcmp(holder->replica, catchup->trunk.before, TERN_SHA256_SIZE) == 0) {
        held->version = merge->version - 1;
        return TERN_OK;
    }
    enum tern_result found =
        tern_db_version_of_replica(catchup->db, holder->replica, &held->version);
    if (found == TERN_ERR_NOT_FOUND) {
        held->known = false;
        return TERN_OK;
    }
    return found;
}

// Where the chain of deltas begins for a client whose replica is not on the trunk: at the seed, if the
// client can start over from there and a delta from the seed is stored.
static struct tern_plan_client start_of(const struct tern_catchup *catchup,
                                        const struct tern_holder *holder,
                                        const struct tern_plan_client *held)
{
    struct tern_plan_client start = *held;
    if (!held->known && holder->able.from_seed && catchup->merge->version > 0 &&
        tern_model_is_seeded(&catchup->merge->model)) {
        start.known = true;
        start.version = 0;
    }
    return start;
}

const struct tern_codec *tern_trunk_codec(const struct tern_catchup *catchup)
{
    const uint32_t version = catchup->merge->version;
    const struct delta *delta = version > 0 ? &catchup->trunk.deltas[version - 1] : NULL;
    return delta != NULL && delta->codec_known ? &delta->codec : &catchup->config.codec;
}

// --- Ways

struct reader {
    const struct tern_catchup *catchup;
    const struct tern_holder *holder;
};

// The bytes of the delta that makes a version. Where the row does not name its codec, the client is
// taken to be able to read it.
static uint32_t delta_bytes(void *ctx, uint32_t version)
{
    const struct reader *reader = ctx;
    const struct delta *delta = &reader->catchup->trunk.deltas[version - 1];
    bool readable =
        !delta->codec_known || tern_abilities_decode(&reader->holder->able, &delta->codec);
    return readable ? delta->size : 0;
}

// A snapshot's size before it is made: exact but for a few bytes of framing.
static uint32_t snapshot_bytes(const struct tern_catchup *catchup)
{
    uint32_t made = catchup->trunk.snapshot.size;
    return made != 0 ? made : catchup->merge->model.count * 4;
}

static enum tern_plan plan_from(const struct tern_catchup *catchup,
                                const struct tern_holder *holder,
                                const struct tern_plan_client *start)
{
    struct reader reader = {catchup, holder};
    return tern_plan_choose(start, catchup->merge->version, snapshot_bytes(catchup), delta_bytes,
                            &reader);
}

enum tern_plan tern_trunk_plan(const struct tern_catchup *catchup, const struct tern_holder *holder,
                               const struct tern_plan_client *held)
{
    const struct tern_plan_client start = start_of(catchup, holder, held);
    return plan_from(catchup, holder, &start);
}

bool tern_trunk_has_next(const struct tern_catchup *catchup, const struct tern_holder *holder,
                         const struct tern_plan_client *held)
{
    struct reader reader = {catchup, holder};
    bool behind = held->known && held->version < catchup->merge->version;
    return behind && delta_bytes(&reader, held->version + 1) != 0;
}

void tern_way_add(struct tern_way *way, const uint8_t sha256[TERN_SHA256_SIZE], uint32_t bytes)
{
    memcpy(way->sha256[way->count], sha256, TERN_SHA256_SIZE);
    way->bytes[way->count++] = bytes;
}

static void end_way(struct tern_way *way, const uint8_t base[TERN_SHA256_SIZE], uint32_t version)
{
    memcpy(way->base, base, TERN_SHA256_SIZE);
    way->base_version = version;
    way->leads = true;
}

static void add_delta(const struct tern_trunk *trunk, uint32_t version, struct tern_way *way)
{
    const struct delta *delta = &trunk->deltas[version - 1];
    tern_way_add(way, delta->sha256, delta->size);
}

uint64_t tern_trunk_chain_bytes(const struct tern_catchup *catchup,
                                const struct tern_holder *holder,
                                const struct tern_plan_client *held)
{
    struct reader reader = {catchup, holder};
    return tern_plan_chain_bytes(held, catchup->merge->version, delta_bytes, &reader);
}

void tern_trunk_chain(const struct tern_catchup *catchup, const struct tern_plan_client *held,
                      struct tern_way *way)
{
    const struct tern_merge *merge = catchup->merge;
    for (uint32_t version = held->version + 1; version <= merge->version; version++) {
        add_delta(&catchup->trunk, version, way);
    }
    end_way(way, merge->replica_id, merge->version);
}

enum tern_result tern_trunk_next(struct tern_catchup *catchup, const struct tern_plan_client *held,
                                 struct tern_way *way)
{
    struct tern_db_version next;
    TERN_TRY(tern_db_version_get(catchup->db, held->version + 1, &next));
    add_delta(&catchup->trunk, next.version, way);
    end_way(way, next.replica, next.version);
    return TERN_OK;
}

enum tern_result tern_trunk_way(struct tern_catchup *catchup, const struct tern_holder *holder,
                                const struct tern_plan_client *held, struct tern_way *way)
{
    const struct tern_merge *merge = catchup->merge;
    const struct tern_plan_client start = start_of(catchup, holder, held);
    switch (plan_from(catchup, holder, &start)) {
    case TERN_PLAN_NOTHING:
        break;
    case TERN_PLAN_CHAIN:
        tern_trunk_chain(catchup, &start, way);
        break;
    case TERN_PLAN_SNAPSHOT:
        TERN_TRY(make_snapshot(catchup));
        tern_way_add(way, catchup->trunk.snapshot.sha256, catchup->trunk.snapshot.size);
        break;
    case TERN_PLAN_NONE:
        return TERN_ERR_STATE;
    }
    end_way(way, merge->replica_id, merge->version);
    return TERN_OK;
}
