// A path is the list of downloads that one client gets. It consists of the trunk's deltas, which all clients share, or of
// downloads that search.c makes for the client's replica.
#include "downloads/catchup.h"

#include "downloads/blobs.h"
#include "downloads/replicas.h"
#include "downloads/search.h"
#include "downloads/whole.h"
#include "hosted/job.h"
#include "hosted/system.h"
#include <stdlib.h>
#include <string.h>

// The properties of a client that determine its path.
struct tern_holder {
    struct tern_abilities able;
    const uint8_t *replica; // zeros = none
};

// A version's delta.
struct delta {
    uint8_t sha256[TERN_SHA256_SIZE];
    uint32_t size; // 0 = deleted
    bool codec_known;
    struct tern_codec codec;
};

struct tern_trunk {
    struct delta *deltas; // by version - 1, up to the newest
    uint32_t delta_capacity;
    uint8_t before[TERN_SHA256_SIZE]; // replica of the version before the newest; zeros = unknown
    struct tern_db_download snapshot; // snapshot of the newest version; size 0 = not made
    uint32_t snapshots; // number of the next versions whose commit deletes old snapshots
};

// A path that a search found. Other clients with the same replica and abilities get it, too.
struct known_path {
    uint8_t held[TERN_SHA256_SIZE];
    struct tern_abilities able;
    bool used;
    struct tern_path path;
};

#define KNOWN_PATHS 64

// Most searches for one client in one version: other clients wait while a search runs. An honest client needs one search, and
// one more for each download after which it loses power.
#define SEARCHES_MAX 32

// The result that the job makes.
enum job_work {
    WORK_NONE,
    WORK_SEARCH,
    WORK_TRUNK_SNAPSHOT,  // float32 snapshot of the newest version's replica
    WORK_GLOBAL_SNAPSHOT, // float32 snapshot of the newest version's global model
};

struct tern_catchup {
    struct tern_catchup_config config;
    struct tern_db *db;
    const struct tern_merge *merge;
    struct tern_download_store store;
    struct tern_trunk trunk;
    bool collect_due; // a version was made since the last collection

    struct tern_replica_book book;
    struct tern_search search;
    struct tern_job job;
    enum job_work work; // until its result is stored
    enum tern_result job_result;
    struct tern_db_download snapshot; // row of the snapshot that the job has made
    struct tern_blob *snapshot_blob;
    // the job's connection to the store; NULL: the caller's thread does the work
    struct tern_db *reader;
    struct tern_search_cost cost;         // since this catchup was made
    uint64_t job_cpu_ns;                  // processor time of the last work
    struct known_path paths[KNOWN_PATHS]; // off the trunk, to version paths_version
    uint32_t next_path;
    uint32_t paths_version;
    // path to the global model of paths_version; exists = false: not made yet
    struct tern_path exact;
};

static const uint8_t no_replica[TERN_SHA256_SIZE];

// --- The trunk, one replica per version that all clients can share

// Snapshots of this many versions are stored. They are large and can be made again; an old one serves only clients that are
// downloading it.
#define KEEP_SNAPSHOTS 4

// The commits of the next 6 versions after a snapshot was made delete old snapshots: KEEP_SNAPSHOTS and a margin of 2.
#define SNAPSHOT_COMMITS 6

static enum tern_result reserve_deltas(struct tern_trunk *trunk, uint32_t version)
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

static enum tern_result add_delta_of(struct tern_trunk *trunk, uint32_t version,
                                     const struct tern_db_download *download)
{
    TERN_TRY(reserve_deltas(trunk, version));
    struct delta *delta = &trunk->deltas[version - 1];
    memcpy(delta->sha256, download->sha256, TERN_SHA256_SIZE);
    delta->size = download->size;
    delta->codec_known = tern_codec_parse(download->codec, &delta->codec, NULL) == TERN_OK;
    return TERN_OK;
}

static enum tern_result trunk_load(struct tern_catchup *catchup)
{
    struct tern_trunk *trunk = &catchup->trunk;
    uint32_t keep = catchup->config.keep_versions;
    uint32_t version = catchup->merge->version;
    uint32_t first = version > keep ? version - keep + 1 : 1;
    trunk->snapshots = SNAPSHOT_COMMITS;
    // Any of these deltas may be missing, because tern_replica_add() deletes downloads above the limit of bytes.
    TERN_TRY(reserve_deltas(trunk, version));
    if (trunk->deltas != NULL) {
        memset(trunk->deltas, 0, trunk->delta_capacity * sizeof trunk->deltas[0]);
    }
    for (uint32_t v = first; v <= version; v++) {
        struct tern_db_download download;
        enum tern_result found = tern_db_download_to(catchup->db, v, false, &download);
        if (found == TERN_OK) {
            found = add_delta_of(trunk, v, &download);
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

static enum tern_result trunk_add(struct tern_catchup *catchup,
                                  const struct tern_db_download *download)
{
    memset(&catchup->trunk.snapshot, 0, sizeof catchup->trunk.snapshot);
    memcpy(catchup->trunk.before, download->from_replica, TERN_SHA256_SIZE);
    return add_delta_of(&catchup->trunk, download->to_version, download);
}

// Deletes old snapshots. Marks the delta that became older than keep_versions as deleted, so that no chain uses it;
// tern_replica_collect() deletes its bytes together with its replica.
static enum tern_result trunk_prune(struct tern_catchup *catchup)
{
    struct tern_trunk *trunk = &catchup->trunk;
    uint32_t version = catchup->merge->version;
    uint32_t keep = catchup->config.keep_versions;
    if (version > KEEP_SNAPSHOTS && trunk->snapshots > 0) {
        struct tern_replica_book *book = &catchup->book;
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

// Marks the deltas to and from a version as deleted, because the version's replica was deleted.
static void forget_deltas_of(void *ctx, uint32_t version)
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

// --- The job: work that takes long, on its thread

static void do_work(void *ctx)
{
    struct tern_catchup *catchup = ctx;
    const uint64_t began_ns = tern_thread_cpu_ns();
    catchup->job_result =
        catchup->work == WORK_SEARCH
            ? tern_search_run(&catchup->search)
            : tern_snapshot_blob(catchup->merge,
                                 catchup->work == WORK_TRUNK_SNAPSHOT ? TERN_SNAPSHOT_REPLICA
                                                                      : TERN_SNAPSHOT_GLOBAL,
                                 catchup->config.spool_folder, &catchup->snapshot,
                                 &catchup->snapshot_blob);
    catchup->job_cpu_ns = tern_thread_cpu_ns() - began_ns;
}

// Starts the job and returns true. If the model is small, or no thread can start, does the work at once and returns false.
static bool start_work(struct tern_catchup *catchup, enum job_work work)
{
    catchup->work = work;
    if (catchup->reader != NULL && tern_job_start(&catchup->job) == TERN_OK) {
        return true;
    }
    do_work(catchup);
    return false;
}

// Adds the processor time of the work that has ended, and returns its result.
static enum tern_result end_work(struct tern_catchup *catchup)
{
    catchup->work = WORK_NONE;
    catchup->cost.cpu_ns += catchup->job_cpu_ns;
    return catchup->job_result;
}

// Stores up to 1 MiB of the snapshot that the job has made. *more: bytes are missing
static enum tern_result store_some_of_snapshot(struct tern_catchup *catchup, bool *more)
{
    return tern_download_store_put(&catchup->store, &catchup->snapshot, catchup->snapshot_blob,
                                   &catchup->book.bytes, more);
}

// Stores what is missing of the snapshot that the job has made.
static enum tern_result put_snapshot(struct tern_catchup *catchup)
{
    enum tern_result result = TERN_OK;
    bool more = true;
    while (more && result == TERN_OK) {
        result = store_some_of_snapshot(catchup, &more);
    }
    tern_blob_release(catchup->snapshot_blob);
    catchup->snapshot_blob = NULL;
    return result;
}

static enum tern_result store_trunk_snapshot(struct tern_catchup *catchup)
{
    TERN_TRY(put_snapshot(catchup));
    catchup->trunk.snapshot = catchup->snapshot;
    catchup->trunk.snapshots = SNAPSHOT_COMMITS;
    return TERN_OK;
}

// Makes the newest version's snapshot, unless it is stored. *pending: the job makes it, or does other work first.
static enum tern_result make_trunk_snapshot(struct tern_catchup *catchup, bool *pending)
{
    if (catchup->trunk.snapshot.size != 0) {
        return TERN_OK;
    }
    *pending = catchup->work != WORK_NONE || start_work(catchup, WORK_TRUNK_SNAPSHOT);
    if (*pending) {
        return TERN_OK;
    }
    TERN_TRY(end_work(catchup));
    return store_trunk_snapshot(catchup);
}

// --- The trunk's paths

// Finds the version whose replica the client has. A new client computes the seed's replica; if the model has no seed, the
// client needs a snapshot.
static enum tern_result trunk_position(struct tern_catchup *catchup,
                                       const struct tern_holder *holder,
                                       struct tern_plan_client *held)
{
    const struct tern_merge *merge = catchup->merge;
    *held = (struct tern_plan_client){.known = true,
                                      .chain_max = holder->able.downloads_max,
                                      .no_snapshots =
                                          !tern_abilities_have(&holder->able, TERN_CODEC_FLOAT32)};
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

// Returns the version at which the client's chain of deltas begins. A client whose replica is no version's begins at the
// seed, if it can.
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

static const struct tern_codec *trunk_codec(const struct tern_catchup *catchup)
{
    const uint32_t version = catchup->merge->version;
    const struct delta *delta = version > 0 ? &catchup->trunk.deltas[version - 1] : NULL;
    return delta != NULL && delta->codec_known ? &delta->codec : &catchup->config.codec;
}

struct reader {
    const struct tern_catchup *catchup;
    const struct tern_holder *holder;
};

// Returns the size of a version's delta; 0 if the client cannot decode it. Assumes that it can decode an unknown codec.
static uint32_t delta_bytes(void *ctx, uint32_t version)
{
    const struct reader *reader = ctx;
    const struct delta *delta = &reader->catchup->trunk.deltas[version - 1];
    bool readable =
        !delta->codec_known || tern_abilities_decode(&reader->holder->able, &delta->codec);
    return readable ? delta->size : 0;
}

// Returns the size of the newest version's snapshot, also before it is made: with an estimate, a client that has begun the
// snapshot could be offered a delta that is some bytes smaller after its restart.
static uint32_t snapshot_bytes(const struct tern_catchup *catchup)
{
    const struct tern_merge *merge = catchup->merge;
    const uint32_t made = catchup->trunk.snapshot.size;
    return made != 0 ? made
                     : (uint32_t)tern_whole_size(&merge->model, merge->replica, merge->version);
}

static enum tern_plan plan_from(const struct tern_catchup *catchup,
                                const struct tern_holder *holder,
                                const struct tern_plan_client *start)
{
    struct reader reader = {catchup, holder};
    return tern_plan_choose(start, catchup->merge->version,
                            start->no_snapshots ? 0 : snapshot_bytes(catchup), delta_bytes,
                            &reader);
}

static enum tern_plan trunk_plan(const struct tern_catchup *catchup,
                                 const struct tern_holder *holder,
                                 const struct tern_plan_client *held)
{
    const struct tern_plan_client start = start_of(catchup, holder, held);
    return plan_from(catchup, holder, &start);
}

static bool trunk_has_next(const struct tern_catchup *catchup, const struct tern_holder *holder,
                           const struct tern_plan_client *held)
{
    struct reader reader = {catchup, holder};
    bool behind = held->known && held->version < catchup->merge->version;
    return behind && delta_bytes(&reader, held->version + 1) != 0;
}

static void path_end(struct tern_path *path, const uint8_t base[TERN_SHA256_SIZE], uint32_t version)
{
    memcpy(path->base, base, TERN_SHA256_SIZE);
    path->base_version = version;
    path->exists = true;
}

static void add_delta(const struct tern_trunk *trunk, uint32_t version, struct tern_path *path)
{
    const struct delta *delta = &trunk->deltas[version - 1];
    tern_path_add(path, delta->sha256, delta->size);
}

static uint64_t trunk_chain_bytes(const struct tern_catchup *catchup,
                                  const struct tern_holder *holder,
                                  const struct tern_plan_client *held)
{
    struct reader reader = {catchup, holder};
    return tern_plan_chain_bytes(held, catchup->merge->version, delta_bytes, &reader);
}

static void trunk_chain(const struct tern_catchup *catchup, const struct tern_plan_client *held,
                        struct tern_path *path)
{
    const struct tern_merge *merge = catchup->merge;
    for (uint32_t version = held->version + 1; version <= merge->version; version++) {
        add_delta(&catchup->trunk, version, path);
    }
    path_end(path, merge->replica_id, merge->version);
}

static enum tern_result trunk_next(struct tern_catchup *catchup,
                                   const struct tern_plan_client *held, struct tern_path *path)
{
    struct tern_db_version next;
    TERN_TRY(tern_db_version_get(catchup->db, held->version + 1, &next));
    add_delta(&catchup->trunk, next.version, path);
    path_end(path, next.replica, next.version);
    return TERN_OK;
}

static enum tern_result trunk_path(struct tern_catchup *catchup, const struct tern_holder *holder,
                                   const struct tern_plan_client *held, struct tern_path *path)
{
    const struct tern_merge *merge = catchup->merge;
    const struct tern_plan_client start = start_of(catchup, holder, held);
    switch (plan_from(catchup, holder, &start)) {
    case TERN_PLAN_NOTHING:
        break;
    case TERN_PLAN_CHAIN:
        trunk_chain(catchup, &start, path);
        break;
    case TERN_PLAN_SNAPSHOT:
        TERN_TRY(make_trunk_snapshot(catchup, &path->pending));
        if (path->pending) {
            return TERN_OK;
        }
        tern_path_add(path, catchup->trunk.snapshot.sha256, catchup->trunk.snapshot.size);
        break;
    case TERN_PLAN_NONE:
        return TERN_ERR_STATE;
    }
    path_end(path, merge->replica_id, merge->version);
    return TERN_OK;
}

// --- Replicas off the trunk

// Sets the path to the newest global model: this snapshot.
static enum tern_result set_global_path(struct tern_catchup *catchup,
                                        const struct tern_db_download *snapshot, uint64_t now)
{
    const struct tern_merge *merge = catchup->merge;
    struct tern_path *path = &catchup->exact;
    memset(path, 0, sizeof *path);
    TERN_TRY(
        tern_replica_add(&catchup->book, snapshot, NULL, merge->global, 0.0F, false, now, NULL));
    tern_path_add(path, snapshot->sha256, snapshot->size);
    path_end(path, snapshot->to_replica, merge->version);
    return TERN_OK;
}

static enum tern_result store_global_snapshot(struct tern_catchup *catchup, uint64_t now)
{
    TERN_TRY(put_snapshot(catchup));
    return set_global_path(catchup, &catchup->snapshot, now);
}

// Makes the path to the newest global model. exact.pending: the job makes the snapshot, or does other work first.
static enum tern_result make_global_path(struct tern_catchup *catchup, uint64_t now)
{
    struct tern_db_download row;
    memset(&catchup->exact, 0, sizeof catchup->exact);
    const enum tern_result found =
        tern_db_snapshot_find(catchup->db, catchup->merge->version, "float32", &row);
    if (found != TERN_ERR_NOT_FOUND) {
        TERN_TRY(found);
        return set_global_path(catchup, &row, now);
    }
    catchup->exact.pending =
        catchup->work != WORK_NONE || start_work(catchup, WORK_GLOBAL_SNAPSHOT);
    if (catchup->exact.pending) {
        return TERN_OK;
    }
    TERN_TRY(end_work(catchup));
    return store_global_snapshot(catchup, now);
}

static const uint8_t unknown_replica[TERN_SHA256_SIZE] = {1}; // stands for every unknown replica

// Stores the newest version's replica with all its weights, because no stored downloads lead to it.
static enum tern_result store_root_replica(struct tern_catchup *catchup, uint64_t now)
{
    const struct tern_merge *merge = catchup->merge;
    struct tern_db_replica row = {
        .form = TERN_REPLICA_WHOLE, .trunk = true, .version = merge->version, .used_ms = now};
    memcpy(row.id, merge->replica_id, TERN_SHA256_SIZE);
    row.residual = (float)merge->residual;
    TERN_TRY(tern_db_replica_put(catchup->db, &row));
    TERN_TRY(tern_db_replica_weights_put(catchup->db, row.id, merge->replica, merge->model.count));
    catchup->book.bytes += merge->model.count * sizeof(float);
    return TERN_OK;
}

// Loads the replicas. Of a model without a seed, the first replica is stored with all its weights.
static enum tern_result load_book(struct tern_catchup *catchup, uint64_t now)
{
    struct tern_db_replica row;
    TERN_TRY(tern_replica_book_load(&catchup->book));
    enum tern_result found = tern_db_replica_get(catchup->db, catchup->merge->replica_id, &row);
    return found == TERN_ERR_NOT_FOUND ? store_root_replica(catchup, now) : found;
}

static enum tern_result load_replicas(struct tern_catchup *catchup, uint64_t now)
{
    catchup->paths_version = UINT32_MAX;
    TERN_TRY(tern_db_begin(catchup->db));
    return tern_db_conclude(catchup->db, load_book(catchup, now));
}

// Forgets the known paths if a newer version was made since.
static void forget_older_paths(struct tern_catchup *catchup)
{
    if (catchup->paths_version == catchup->merge->version) {
        return;
    }
    catchup->next_path = 0;
    memset(catchup->paths, 0, sizeof catchup->paths);
    catchup->exact.exists = false;
    catchup->paths_version = catchup->merge->version;
}

static enum tern_result add_trunk_replica(struct tern_catchup *catchup,
                                          const struct tern_db_download *download, uint64_t now)
{
    const struct tern_merge *merge = catchup->merge;
    forget_older_paths(catchup);
    return tern_replica_add(&catchup->book, download, merge->buffers.blob, merge->replica,
                            (float)merge->residual, true, now, NULL);
}

// Deletes unneeded replicas. The replica of the version that became older than keep_versions is a new candidate; earlier
// versions become candidates when the last replica that was made from theirs is deleted.
static enum tern_result collect_replicas(struct tern_catchup *catchup)
{
    const uint32_t version = catchup->merge->version;
    const uint32_t keep = catchup->config.keep_versions;
    if (version >= keep) {
        struct tern_db_version old;
        enum tern_result found = tern_db_version_get(catchup->db, version - keep, &old);
        if (found == TERN_OK) {
            found = tern_db_replica_suspect(catchup->db, old.replica, true);
        }
        if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
            return found;
        }
    }
    return tern_replica_collect(&catchup->book, version);
}

static struct known_path *find_path(struct tern_catchup *catchup, const uint8_t *held,
                                    const struct tern_abilities *able)
{
    for (uint32_t i = 0; i < KNOWN_PATHS; i++) {
        struct known_path *path = &catchup->paths[i];
        if (path->used && memcmp(path->held, held, TERN_SHA256_SIZE) == 0 &&
            tern_abilities_equal(&path->able, able)) {
            return path;
        }
    }
    return NULL;
}

// Sets *stored if the store still has all downloads of a path, and the replica that they make.
static enum tern_result is_stored(struct tern_db *db, const struct tern_path *path, bool *stored)
{
    struct tern_db_replica base;
    struct tern_db_download download;
    enum tern_result found = path->exists ? tern_db_replica_get(db, path->base, &base) : TERN_OK;
    for (uint32_t i = 0; i < path->count && found == TERN_OK; i++) {
        found = tern_db_download_get(db, path->sha256[i], &download, NULL, 0);
    }
    *stored = found == TERN_OK;
    return tern_db_may_miss(found);
}

// Sets *path to the known path of a replica if all its downloads are stored; otherwise to NULL.
static enum tern_result find_stored_path(struct tern_catchup *catchup, const uint8_t *held,
                                         const struct tern_abilities *able,
                                         struct known_path **path)
{
    bool stored = true;
    *path = find_path(catchup, held, able);
    if (*path != NULL) {
        TERN_TRY(is_stored(catchup->db, &(*path)->path, &stored));
    }
    if (!stored) {
        (*path)->used = false;
        *path = NULL;
    }
    return TERN_OK;
}

// Sets *held to the client's replica. All unknown ids become the same one, so that invented ids cause no searches.
static enum tern_result find_replica_of(const struct tern_catchup *catchup,
                                        const struct tern_holder *holder, const uint8_t **held)
{
    struct tern_db_replica row;
    bool none = memcmp(holder->replica, no_replica, TERN_SHA256_SIZE) == 0;
    *held = none ? catchup->book.seed_id : holder->replica;
    enum tern_result found = tern_db_replica_get(catchup->db, *held, &row);
    if (found == TERN_ERR_NOT_FOUND) {
        *held = unknown_replica;
        return TERN_OK;
    }
    return found;
}

static bool may_search(const struct tern_catchup *catchup, struct tern_searches *searches)
{
    if (searches->version != catchup->merge->version) {
        *searches = (struct tern_searches){.version = catchup->merge->version};
    }
    return searches->count++ < SEARCHES_MAX;
}

// Sets the largest residual of a path: config.residual times the trunk's residual, at the newest version or at the
// client's, whichever is larger. The client's version counts because rounds may change less and less, as under a
// falling learning rate: a bound by the newest residual alone would make every download denser than the one before.
// held: the replica's row, or NULL.
static enum tern_result set_bound(struct tern_catchup *catchup, const struct tern_db_replica *held)
{
    struct tern_db_version version;
    struct tern_db_replica trunk = {.residual = 0.0F};
    enum tern_result found = TERN_ERR_NOT_FOUND;
    if (held != NULL) {
        found = tern_db_version_get(catchup->db, held->version, &version);
    }
    if (found == TERN_OK) {
        found = tern_db_replica_get(catchup->db, version.replica, &trunk);
    }
    const double then = (double)trunk.residual;
    const double now = catchup->merge->residual;
    catchup->search.question.bound = catchup->config.residual * (then > now ? then : now);
    return tern_db_may_miss(found);
}

static enum tern_result ask(struct tern_catchup *catchup, const struct tern_holder *holder,
                            const uint8_t *held, bool newest_only)
{
    struct tern_search_question *question = &catchup->search.question;
    struct tern_plan_client position;
    struct tern_db_replica row;
    const enum tern_result found = tern_db_replica_get(catchup->db, held, &row);
    TERN_TRY(tern_db_may_miss(found));
    TERN_TRY(trunk_position(catchup, holder, &position));
    *question = (struct tern_search_question){
        .able = holder->able,
        .replica_is_newest = found == TERN_OK && row.version == catchup->merge->version,
        .newest_only = newest_only,
        .chain_bytes = trunk_chain_bytes(catchup, holder, &position),
        .trunk_codec = *trunk_codec(catchup)};
    memcpy(question->replica, held, TERN_SHA256_SIZE);
    question->chain = question->chain_bytes > 0 ? catchup->merge->version - position.version : 0;
    return set_bound(catchup, found == TERN_OK ? &row : NULL);
}

// Stores the downloads that the search chose, or a part of them (*more), and sets their path.
static enum tern_result store_path(struct tern_catchup *catchup, uint64_t now,
                                   struct tern_path *path, bool *more)
{
    struct tern_search *search = &catchup->search;
    const struct tern_holder holder = {search->question.able, search->question.replica};
    struct tern_plan_client position;
    struct tern_db_replica base;
    path->exists = search->choice.kind != TERN_CHOICE_NONE;
    path->is_private = path->exists;
    if (search->choice.kind == TERN_CHOICE_CHAIN) {
        TERN_TRY(trunk_position(catchup, &holder, &position));
        trunk_chain(catchup, &position, path);
    }
    TERN_TRY(tern_search_store(search, &catchup->store, &catchup->book, now, path, more));
    if (*more || !path->exists) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_replica_get(catchup->db, path->base, &base));
    path->base_version = base.version; // an older version if the client keeps its replica
    TERN_TRY(tern_db_replica_use(catchup->db, holder.replica, now));
    return tern_db_replica_use(catchup->db, path->base, now);
}

// Adds the path that the search found to the known paths, once all its bytes are stored. *more: some are missing
static enum tern_result add_path(struct tern_catchup *catchup, uint64_t now, bool *more)
{
    struct known_path found = {.able = catchup->search.question.able, .used = true};
    memcpy(found.held, catchup->search.question.replica, TERN_SHA256_SIZE);
    TERN_TRY(store_path(catchup, now, &found.path, more));
    if (!*more) {
        catchup->paths[catchup->next_path++ % KNOWN_PATHS] = found;
    }
    return TERN_OK;
}

bool tern_catchup_is_searching(const struct tern_catchup *catchup)
{
    return catchup->work != WORK_NONE;
}

bool tern_catchup_has_found(const struct tern_catchup *catchup)
{
    return catchup->work != WORK_NONE && (!catchup->job.begun || tern_job_is_done(&catchup->job));
}

void tern_catchup_wait(struct tern_catchup *catchup)
{
    if (catchup != NULL) {
        tern_job_join(&catchup->job);
        // The sums of the round need memory now, and the next search runs after them.
        free(catchup->search.buffers.blob);
        catchup->search.buffers.blob = NULL;
    }
}

enum tern_result tern_catchup_store_found(struct tern_catchup *catchup, uint64_t now, bool *found)
{
    const enum job_work work = catchup->work;
    bool more = false;
    if (!tern_catchup_has_found(catchup)) {
        return TERN_OK;
    }
    tern_job_join(&catchup->job);
    enum tern_result result = catchup->job_result;
    if (result == TERN_OK) {
        result = work == WORK_SEARCH ? add_path(catchup, now, &more)
                                     : store_some_of_snapshot(catchup, &more);
    }
    if (result == TERN_OK && more) {
        return TERN_OK;
    }
    *found = true;
    TERN_TRY(end_work(catchup));
    TERN_TRY(result);
    switch (work) {
    case WORK_TRUNK_SNAPSHOT:
        return store_trunk_snapshot(catchup);
    case WORK_GLOBAL_SNAPSHOT:
        return store_global_snapshot(catchup, now);
    case WORK_SEARCH:
    case WORK_NONE:
        break;
    }
    return TERN_OK;
}

const char *tern_catchup_damage(const struct tern_catchup *catchup)
{
    return catchup->reader != NULL && tern_db_damaged(catchup->reader)
               ? tern_db_error(catchup->reader)
               : NULL;
}

static enum tern_result search_path(struct tern_catchup *catchup, const struct tern_holder *holder,
                                    const uint8_t *held, bool newest_only, uint64_t now)
{
    catchup->cost.searches++;
    TERN_TRY(ask(catchup, holder, held, newest_only));
    if (start_work(catchup, WORK_SEARCH)) {
        return TERN_OK;
    }
    TERN_TRY(end_work(catchup));
    for (bool more = true; more;) {
        TERN_TRY(add_path(catchup, now, &more));
    }
    return TERN_OK;
}

// The job does one work at a time. The path of a client that must wait for other work is pending, too.
static enum tern_result find_private_path(struct tern_catchup *catchup,
                                          const struct tern_holder *holder,
                                          struct tern_searches *searches, bool newest_only,
                                          uint64_t now, struct tern_path *path)
{
    const uint8_t *held = NULL;
    struct known_path *found = NULL;
    TERN_TRY(find_replica_of(catchup, holder, &held));
    forget_older_paths(catchup);
    TERN_TRY(find_stored_path(catchup, held, &holder->able, &found));
    if (found == NULL && !tern_catchup_is_searching(catchup) && may_search(catchup, searches)) {
        TERN_TRY(search_path(catchup, holder, held, newest_only, now));
        found = find_path(catchup, held, &holder->able);
    }
    if (found != NULL) {
        *path = found->path;
    }
    path->pending = found == NULL && tern_catchup_is_searching(catchup);
    return TERN_OK;
}

static enum tern_result find_global_path(struct tern_catchup *catchup, uint64_t now,
                                         struct tern_path *path)
{
    forget_older_paths(catchup);
    bool stored = catchup->exact.exists;
    if (stored) {
        TERN_TRY(is_stored(catchup->db, &catchup->exact, &stored));
    }
    if (!stored) {
        TERN_TRY(make_global_path(catchup, now));
    }
    *path = catchup->exact;
    return TERN_OK;
}

static enum tern_result has_no_private_path(struct tern_catchup *catchup,
                                            const struct tern_holder *holder, bool *stranded)
{
    const bool from_seed = holder->able.from_seed && tern_model_is_seeded(&catchup->merge->model);
    const uint8_t *held = NULL;
    TERN_TRY(find_replica_of(catchup, holder, &held));
    *stranded = !tern_search_serves(&catchup->search, &holder->able,
                                    held != unknown_replica || from_seed, trunk_codec(catchup));
    return TERN_OK;
}

// Number of snapshots of the model for which the cache of blobs in files has room.
#define FILES_OF_WEIGHTS 6

// --- Life

static enum tern_result make(struct tern_catchup *catchup)
{
    const struct tern_catchup_config *config = &catchup->config;
    const struct tern_merge *merge = catchup->merge;
    char why[256];
    if (merge->model.count > config->inline_values) {
        TERN_TRY(tern_db_open(tern_db_path(catchup->db), TERN_DB_SECOND, &catchup->reader, why));
    }
    catchup->store = (struct tern_download_store){
        .db = catchup->db,
        .spool_folder = config->spool_folder,
        .memory.bytes_max = config->download_cache,
        .files.bytes_max = (uint64_t)merge->model.count * sizeof(float) * FILES_OF_WEIGHTS};
    catchup->book = (struct tern_replica_book){.db = catchup->db,
                                               .model = &merge->model,
                                               .seed = merge->seed,
                                               .keep_versions = config->keep_versions,
                                               .bytes_max = config->replica_bytes,
                                               .dropped = forget_deltas_of,
                                               .ctx = catchup};
    catchup->search =
        (struct tern_search){.merge = merge,
                             .reader = catchup->reader != NULL ? catchup->reader : catchup->db,
                             .spool_folder = config->spool_folder,
                             .codec = config->codec};
    return tern_search_init(&catchup->search, config->replica_cache, config->replica_files);
}

enum tern_result tern_catchup_new(const struct tern_catchup_config *config, struct tern_db *db,
                                  const struct tern_merge *merge, void (*wake)(void *ctx),
                                  void *wake_ctx, struct tern_catchup **out)
{
    struct tern_catchup *catchup = calloc(1, sizeof *catchup);
    *out = catchup;
    if (catchup == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    catchup->config = *config;
    catchup->db = db;
    catchup->merge = merge;
    catchup->job.work = do_work;
    catchup->job.ctx = catchup;
    catchup->job.ended = wake;
    catchup->job.ended_ctx = wake_ctx;
    const enum tern_result result = make(catchup);
    if (result != TERN_OK) {
        tern_catchup_free(catchup);
        *out = NULL;
    }
    return result;
}

void tern_catchup_free(struct tern_catchup *catchup)
{
    if (catchup == NULL) {
        return;
    }
    tern_job_join(&catchup->job);
    tern_blob_release(catchup->snapshot_blob);
    tern_db_close(catchup->reader);
    tern_download_store_forget(&catchup->store, TERN_ALL_VERSIONS);
    tern_search_free(&catchup->search);
    free(catchup->trunk.deltas);
    free(catchup);
}

enum tern_result tern_catchup_blob(struct tern_catchup *catchup,
                                   const uint8_t sha256[TERN_SHA256_SIZE], struct tern_blob **blob,
                                   struct tern_download_facts *facts)
{
    return tern_download_store_get(&catchup->store, sha256, blob, facts);
}

enum tern_result tern_catchup_load(struct tern_catchup *catchup, uint64_t now)
{
    TERN_TRY(load_replicas(catchup, now));
    return trunk_load(catchup);
}

uint64_t tern_catchup_bytes(const struct tern_catchup *catchup)
{
    return catchup->book.bytes;
}

struct tern_search_cost tern_catchup_cost(const struct tern_catchup *catchup)
{
    return catchup->cost;
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
    tern_download_store_forget(&catchup->store, merge->version);
    TERN_TRY(add_trunk_replica(catchup, &download, now));
    TERN_TRY(trunk_add(catchup, &download));
    return trunk_prune(catchup);
}

enum tern_result tern_catchup_collect(struct tern_catchup *catchup)
{
    if (!catchup->collect_due) {
        return TERN_OK;
    }
    catchup->collect_due = false;
    return collect_replicas(catchup);
}

// Also drops the known paths, because their downloads may be deleted.
enum tern_result tern_catchup_free_disk(struct tern_catchup *catchup, uint64_t most)
{
    catchup->paths_version = UINT32_MAX;
    return tern_replica_free_disk(&catchup->book, catchup->merge->version, most);
}

enum tern_result tern_catchup_drop_some(struct tern_catchup *catchup, bool *more)
{
    *more = false;
    return tern_catchup_has_found(catchup)
               ? TERN_OK
               : tern_db_parts_drop_some(catchup->db, catchup->merge->model.count, more);
}

enum tern_result tern_catchup_complete_id(struct tern_catchup *catchup,
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

// --- Paths

static struct tern_holder holder_of(const struct tern_db_client *client)
{
    return (struct tern_holder){tern_abilities_of(client), client->replica};
}

// A client that decodes float32 can always get a snapshot.
enum tern_result tern_catchup_is_stranded(struct tern_catchup *catchup,
                                          const struct tern_db_client *client, bool *stranded)
{
    const struct tern_holder holder = holder_of(client);
    struct tern_plan_client held;
    *stranded = false;
    if (tern_abilities_have(&holder.able, TERN_CODEC_FLOAT32)) {
        return TERN_OK;
    }
    TERN_TRY(trunk_position(catchup, &holder, &held));
    *stranded = trunk_plan(catchup, &holder, &held) == TERN_PLAN_NONE;
    return *stranded && !client->evaluator ? has_no_private_path(catchup, &holder, stranded)
                                           : TERN_OK;
}

// Whether no download made for one client can be smaller than the shared snapshot: with float32 every download has all
// values. With frozen tensors it can, because deltas leave them out and snapshots contain them.
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

// Whether the client gets the trunk's deltas or snapshot. With plan = cheapest it does if it missed no version, since the
// delta exists and is shared. With plan = trunk, or if nothing can be cheaper, it does whenever the trunk has a path for it.
// The trunk has none for a client that decodes no snapshots and is too far behind, or whose replica is no version's.
static bool follows_trunk(const struct tern_catchup *catchup, const struct tern_holder *holder,
                          const struct tern_plan_client *held)
{
    uint32_t version = catchup->merge->version;
    if (catchup->config.plan == TERN_DOWNLOADS_TRUNK || trunk_is_cheapest(catchup)) {
        return trunk_plan(catchup, holder, held) != TERN_PLAN_NONE;
    }
    return held->known && (held->version == version ||
                           (held->version + 1 == version && trunk_has_next(catchup, holder, held)));
}

enum tern_result tern_catchup_trainer(struct tern_catchup *catchup,
                                      const struct tern_db_client *client,
                                      struct tern_searches *searches, bool newest_only,
                                      uint64_t now, struct tern_path *path)
{
    const struct tern_holder holder = holder_of(client);
    struct tern_plan_client held;
    memset(path, 0, sizeof *path);
    TERN_TRY(trunk_position(catchup, &holder, &held));
    return follows_trunk(catchup, &holder, &held)
               ? trunk_path(catchup, &holder, &held, path)
               : find_private_path(catchup, &holder, searches, newest_only, now, path);
}

enum tern_result tern_catchup_is_global(struct tern_catchup *catchup,
                                        const uint8_t replica[TERN_SHA256_SIZE], bool *global)
{
    struct tern_db_replica row;
    enum tern_result found = tern_db_replica_get(catchup->db, replica, &row);
    *global = found == TERN_OK && row.residual == 0.0F;
    return tern_db_may_miss(found);
}

// Whether the client has the newest version's global model.
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
                                    struct tern_path *path)
{
    const struct tern_holder holder = holder_of(client);
    bool held = false;
    memset(path, 0, sizeof *path);
    TERN_TRY(holds_global(catchup, client, &held));
    return held || !tern_abilities_have(&holder.able, TERN_CODEC_FLOAT32)
               ? TERN_OK
               : find_global_path(catchup, now, path);
}

enum tern_result tern_catchup_evaluator(struct tern_catchup *catchup,
                                        const struct tern_db_client *client, bool again,
                                        struct tern_path *path)
{
    const struct tern_holder holder = holder_of(client);
    struct tern_plan_client held;
    bool stranded = false;
    bool global = false;
    memset(path, 0, sizeof *path);
    TERN_TRY(holds_global(catchup, client, &global));
    if (global) {
        memcpy(path->base, client->replica, TERN_SHA256_SIZE);
        path->base_version = catchup->merge->version;
        path->exists = again;
        return TERN_OK;
    }
    TERN_TRY(tern_catchup_is_stranded(catchup, client, &stranded));
    if (stranded) {
        return TERN_OK;
    }
    TERN_TRY(trunk_position(catchup, &holder, &held));
    if (held.known && held.version >= catchup->merge->version && !again) {
        return TERN_OK;
    }
    return trunk_has_next(catchup, &holder, &held) ? trunk_next(catchup, &held, path)
                                                   : trunk_path(catchup, &holder, &held, path);
}
