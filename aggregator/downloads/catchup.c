#include "downloads/catchup.h"

#include "codec/plan.h"
#include "downloads/blobs.h"
#include "downloads/fit.h"
#include "downloads/replicas.h"
#include "wire/wire.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The properties of a client that determine its path, the downloads that bring it up to date.
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
    struct tern_db_download snapshot; // of the newest version; size 0 = not made
    uint32_t snapshots;               // versions whose commit still looks for old snapshots
};

// A path that was found. Other clients with the same replica use it, too.
struct known_path {
    uint8_t held[TERN_SHA256_SIZE];
    struct tern_abilities able;
    bool used;
    struct tern_path path;
};

// A download that a search made or read; the chosen ones are stored.
struct draft {
    struct tern_db_download row;
    struct tern_blob *blob;
    double residual;
};

#define OWN_PATHS 64
#define OWN_DRAFTS (TERN_PLAN_STARTS * (TERN_PLAN_PASSES_MAX + 1)) // in one search

// Limits the searches for one client in one version. Every request waits while a search encodes. An honest client needs
// one search, and one more for each download after which it loses power.
#define OWN_SEARCHES 32

struct tern_own_replicas {
    struct tern_replica_book book;
    float *slot_memory;
    struct tern_codec snapshots[TERN_PLAN_STARTS];

    struct known_path paths[OWN_PATHS]; // to version paths_version
    uint32_t next_path;
    uint32_t paths_version;
    struct tern_path exact; // to that version's global model; does not exist: not made yet
    double trunk_residual;  // of that version
    double global_norm;     // of that version; negative: not computed yet

    // The current search.
    float *weights;                    // weights after the search's passes so far; NULL: no search
    struct tern_download_buffers made; // for encoding; the scratch is the merge's
    uint8_t at[TERN_SHA256_SIZE];      // the replica of `weights`
    struct draft drafts[OWN_DRAFTS];
    uint32_t draft_count;
};

struct tern_catchup {
    struct tern_catchup_config config;
    struct tern_db *db;
    const struct tern_merge *merge;
    struct tern_trunk trunk;
    struct tern_own_replicas *own;
    struct tern_blob_cache cache; // of blobs in memory
    struct tern_blob_cache files; // of blobs in files
    bool collect_due;             // a version was made since the last collection
    uint64_t searches;
};

static const uint8_t no_replica[TERN_SHA256_SIZE];

// --- Blobs

static enum tern_result read_pieces(struct tern_catchup *catchup,
                                    const struct tern_db_download *row, struct tern_new_blob *fresh,
                                    struct tern_blob **blob)
{
    const struct tern_download_sink sink = tern_new_blob_sink(fresh);
    TERN_TRY(tern_db_download_stream(catchup->db, row, sink.take, sink.ctx));
    return tern_new_blob_end(fresh, blob);
}

static enum tern_result read_download(struct tern_catchup *catchup,
                                      const struct tern_db_download *row, struct tern_blob **blob)
{
    struct tern_new_blob fresh;
    TERN_TRY(tern_new_blob_begin(&fresh, catchup->config.spool_folder, row->size));
    const enum tern_result result = read_pieces(catchup, row, &fresh, blob);
    tern_new_blob_drop(&fresh);
    return result;
}

// Returns a view of a piece of a blob, and releases the memory pages of earlier pieces.
static enum tern_result view(void *ctx, size_t at, size_t len, const uint8_t **data)
{
    const struct tern_blob *blob = ctx;
    if (len > blob->len || at > blob->len - len) {
        return TERN_ERR_ARGUMENT;
    }
    tern_blob_drop_pages(blob, 0, at);
    *data = blob->data + at;
    return TERN_OK;
}

// A delta is shared if it begins at a version's replica, and a snapshot always; other deltas begin at a client's
// replica off the trunk.
static enum tern_result facts_of(struct tern_catchup *catchup, const struct tern_db_download *row,
                                 struct tern_download_facts *facts)
{
    struct tern_db_replica from = {.trunk = false};
    enum tern_result found = TERN_OK;
    if (!row->snapshot) {
        found = tern_db_replica_get(catchup->db, row->from_replica, &from);
    }
    *facts = (struct tern_download_facts){
        .size = row->size, .payload = row->payload, .shared = row->snapshot || from.trunk};
    return tern_db_may_miss(found);
}

static void keep_for_others(struct tern_catchup *catchup, const struct tern_db_download *row,
                            struct tern_blob *blob, const struct tern_download_facts *facts)
{
    tern_blob_cache_put(tern_blob_is_in_file(blob) ? &catchup->files : &catchup->cache, row->sha256,
                        blob, facts);
}

static enum tern_result store_download(struct tern_catchup *catchup,
                                       const struct tern_db_download *row, struct tern_blob *blob)
{
    struct tern_db_download there;
    struct tern_download_facts facts;
    TERN_TRY(facts_of(catchup, row, &facts));
    const enum tern_result found = tern_db_download_get(catchup->db, row->sha256, &there, NULL, 0);
    if (found == TERN_ERR_NOT_FOUND) {
        TERN_TRY(tern_blob_is_in_file(blob)
                     ? tern_db_download_put_pieces(catchup->db, row, view, blob)
                     : tern_db_download_put(catchup->db, row, blob->data));
        catchup->own->book.bytes += row->size;
    } else {
        TERN_TRY(found);
    }
    tern_blob_drop_pages(blob, 0, blob->len);
    keep_for_others(catchup, row, blob, &facts);
    return TERN_OK;
}

static enum tern_result read_blob(struct tern_catchup *catchup,
                                  const uint8_t sha256[TERN_SHA256_SIZE], struct tern_blob **blob,
                                  struct tern_download_facts *facts)
{
    struct tern_db_download row;
    TERN_TRY(tern_db_download_get(catchup->db, sha256, &row, NULL, 0));
    TERN_TRY(facts_of(catchup, &row, facts));
    TERN_TRY(read_download(catchup, &row, blob));
    keep_for_others(catchup, &row, *blob, facts);
    return TERN_OK;
}

enum tern_result tern_catchup_blob(struct tern_catchup *catchup,
                                   const uint8_t sha256[TERN_SHA256_SIZE], struct tern_blob **blob,
                                   struct tern_download_facts *facts)
{
    *blob = tern_blob_cache_get(&catchup->cache, sha256, facts);
    if (*blob == NULL) {
        *blob = tern_blob_cache_get(&catchup->files, sha256, facts);
    }
    return *blob != NULL ? TERN_OK : read_blob(catchup, sha256, blob, facts);
}

enum tern_result tern_catchup_facts(struct tern_catchup *catchup,
                                    const uint8_t sha256[TERN_SHA256_SIZE],
                                    struct tern_download_facts *facts)
{
    struct tern_db_download row;
    if (tern_blob_cache_facts(&catchup->cache, sha256, facts) ||
        tern_blob_cache_facts(&catchup->files, sha256, facts)) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_download_get(catchup->db, sha256, &row, NULL, 0));
    return facts_of(catchup, &row, facts);
}

// --- Snapshots in float32, written piece by piece; large ones into a file

typedef enum tern_result (*maker)(const struct tern_merge *merge,
                                  const struct tern_download_sink *sink,
                                  struct tern_download_made *made);

static enum tern_result make_trunk(const struct tern_merge *merge,
                                   const struct tern_download_sink *sink,
                                   struct tern_download_made *made)
{
    return tern_whole_snapshot(&merge->model, merge->replica, merge->replica_id, merge->version,
                               sink, made);
}

static enum tern_result make_global(const struct tern_merge *merge,
                                    const struct tern_download_sink *sink,
                                    struct tern_download_made *made)
{
    return tern_whole_opening(&merge->model, merge->global, merge->version, sink, made);
}

static enum tern_result write_into(const struct tern_merge *merge, maker make,
                                   struct tern_new_blob *fresh, struct tern_db_download *row,
                                   struct tern_blob **blob)
{
    const struct tern_download_sink sink = tern_new_blob_sink(fresh);
    struct tern_download_made made;
    TERN_TRY(make(merge, &sink, &made));
    *row = (struct tern_db_download){.snapshot = true,
                                     .to_version = merge->version,
                                     .size = (uint32_t)made.len,
                                     .payload = (uint32_t)made.payload};
    tern_codec_format(&made.codec, row->codec);
    memcpy(row->sha256, made.sha256, TERN_SHA256_SIZE);
    memcpy(row->to_replica, made.replica, TERN_SHA256_SIZE);
    return tern_new_blob_end(fresh, blob);
}

static enum tern_result write_whole(const struct tern_catchup *catchup, maker make,
                                    struct tern_db_download *row, struct tern_blob **blob)
{
    struct tern_new_blob fresh;
    TERN_TRY(tern_new_blob_begin_or_memory(&fresh, catchup->config.spool_folder,
                                           tern_whole_bound(&catchup->merge->model)));
    const enum tern_result result = write_into(catchup->merge, make, &fresh, row, blob);
    tern_new_blob_drop(&fresh);
    return result;
}

static enum tern_result snapshot_of_trunk(const struct tern_catchup *catchup,
                                          struct tern_db_download *row, struct tern_blob **blob)
{
    return write_whole(catchup, make_trunk, row, blob);
}

static enum tern_result snapshot_of_global(const struct tern_catchup *catchup,
                                           struct tern_db_download *row, struct tern_blob **blob)
{
    return write_whole(catchup, make_global, row, blob);
}

// --- The trunk, one replica per version that all clients can share

// Snapshots are large and can be made again; old ones serve only clients that are downloading them.
#define KEEP_SNAPSHOTS 4

// After a snapshot is made, the commits of this many versions delete old snapshots: KEEP_SNAPSHOTS and a margin.
#define SNAPSHOT_COMMITS 6

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

static enum tern_result trunk_load(struct tern_catchup *catchup)
{
    struct tern_trunk *trunk = &catchup->trunk;
    uint32_t keep = catchup->config.keep_versions;
    uint32_t version = catchup->merge->version;
    uint32_t first = version > keep ? version - keep + 1 : 1;
    trunk->snapshots = SNAPSHOT_COMMITS;
    // Any of these deltas may be missing: the limit of bytes may have deleted it.
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

static enum tern_result trunk_add(struct tern_catchup *catchup,
                                  const struct tern_db_download *download)
{
    memset(&catchup->trunk.snapshot, 0, sizeof catchup->trunk.snapshot);
    memcpy(catchup->trunk.before, download->from_replica, TERN_SHA256_SIZE);
    return remember_delta(&catchup->trunk, download->to_version, download);
}

// Deletes old snapshots, and removes the delta that became too old from chains. tern_replica_collect() deletes the
// delta itself together with its replica.
static enum tern_result trunk_prune(struct tern_catchup *catchup)
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

// Removes the deltas to and from a deleted version's replica from chains.
static void trunk_dropped(void *ctx, uint32_t version)
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

// Makes and stores the newest version's snapshot, once.
static enum tern_result make_snapshot(struct tern_catchup *catchup)
{
    struct tern_trunk *trunk = &catchup->trunk;
    struct tern_db_download row;
    struct tern_blob *blob = NULL;
    if (trunk->snapshot.size != 0) {
        return TERN_OK;
    }
    TERN_TRY(snapshot_of_trunk(catchup, &row, &blob));
    const enum tern_result result = store_download(catchup, &row, blob);
    tern_blob_release(blob);
    TERN_TRY(result);
    trunk->snapshot = row;
    trunk->snapshots = SNAPSHOT_COMMITS;
    return TERN_OK;
}

// Finds the client's position on the trunk. A new client computes the seed's replica; a model without a seed it must
// download as a snapshot.
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

// Returns where the chain of deltas begins. For a client whose replica is off the trunk this is the seed, if the client
// can start over from there.
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

// Returns the snapshot's size; before it is made, an estimate without a few bytes of framing.
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

static void path_add(struct tern_path *path, const uint8_t sha256[TERN_SHA256_SIZE], uint32_t bytes)
{
    memcpy(path->sha256[path->count], sha256, TERN_SHA256_SIZE);
    path->bytes[path->count++] = bytes;
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
    path_add(path, delta->sha256, delta->size);
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
        TERN_TRY(make_snapshot(catchup));
        path_add(path, catchup->trunk.snapshot.sha256, catchup->trunk.snapshot.size);
        break;
    case TERN_PLAN_NONE:
        return TERN_ERR_STATE;
    }
    path_end(path, merge->replica_id, merge->version);
    return TERN_OK;
}

// --- Replicas off the trunk: the search for the cheapest path to weights near enough to the global model

// Float32 arithmetic rounds: after lossless downloads a replica still differs from the global model by up to this
// fraction.
#define ROUNDING 1e-6

// Values of each segment that a ternary pass sends at least: those of small tensors matter more than their number.
#define LEAST_VALUES 64

// The largest share of values, in millionths, that a ternary pass sends where the client decodes uniform, which then
// takes fewer bytes.
#define TERNARY_MOST 250000u

// A pass is not made where it is estimated to take this many times the bytes of the chain; estimates are some percent
// off.
#define CHAIN_MARGIN 1.2

struct search {
    struct tern_catchup *catchup;
    struct tern_own_replicas *own;
    const struct tern_holder *holder;
    const uint8_t *held;              // the client's replica
    struct tern_plan_client position; // of that replica on the trunk
    bool newest;                      // a replica of an older version is never near enough
    double bound;
    uint64_t chain_bytes; // of the trunk's chain; 0 = no chain
};

// Returns the Euclidean norm of a - b, or of a where b is NULL. Four sums, because each addition to one waits for the
// last.
static double distance(const float *a, const float *b, uint32_t count)
{
    double sums[4] = {0.0};
    uint32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        for (uint32_t lane = 0; lane < 4; lane++) {
            const double difference = (double)a[i + lane] - (b != NULL ? (double)b[i + lane] : 0.0);
            sums[lane] += difference * difference;
        }
    }
    for (; i < count; i++) {
        const double difference = (double)a[i] - (b != NULL ? (double)b[i] : 0.0);
        sums[0] += difference * difference;
    }
    return sqrt(sums[0] + sums[1] + (sums[2] + sums[3]));
}

static double residual_now(const struct search *search)
{
    const struct tern_merge *merge = search->catchup->merge;
    return distance(merge->global, search->own->weights, merge->model.count);
}

// Allocates the search's weights and blob. Encoding shares the merge's scratch memory.
static enum tern_result begin_search(const struct tern_catchup *catchup)
{
    struct tern_own_replicas *own = catchup->own;
    const struct tern_merge *merge = catchup->merge;
    own->made = merge->buffers;
    own->made.blob = malloc(own->made.blob_size);
    own->weights = malloc(merge->model.count * sizeof *own->weights);
    return own->made.blob != NULL && own->weights != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}

// Frees the search's memory, which has the size of the model.
static void end_search(struct tern_own_replicas *own)
{
    free(own->weights);
    free(own->made.blob);
    own->weights = NULL;
    own->made.blob = NULL;
    for (uint32_t i = 0; i < own->draft_count; i++) {
        tern_blob_release(own->drafts[i].blob);
    }
    own->draft_count = 0;
}

// Returns this search's download from a replica, or its snapshot with this codec, or NULL. codec: NULL for any.
static struct draft *find_draft(struct tern_own_replicas *own, const uint8_t from[TERN_SHA256_SIZE],
                                const char *codec)
{
    for (uint32_t i = 0; i < own->draft_count; i++) {
        struct draft *draft = &own->drafts[i];
        if (memcmp(draft->row.from_replica, from, TERN_SHA256_SIZE) == 0 &&
            (codec == NULL || strcmp(draft->row.codec, codec) == 0)) {
            return draft;
        }
    }
    return NULL;
}

static enum tern_result apply(const struct search *search, const struct draft *draft)
{
    struct tern_own_replicas *own = search->own;
    const struct tern_model *model = &search->catchup->merge->model;
    tern_Download message;
    struct tern_span container;
    TERN_TRY(tern_wire_decode_download(draft->blob->data, draft->blob->len, &message, &container));
    memcpy(own->at, draft->row.to_replica, TERN_SHA256_SIZE);
    const enum tern_result result =
        draft->row.snapshot
            ? tern_container_decode(model, container.data, container.len, own->weights)
            : tern_container_add(model, container.data, container.len, 1.0F, own->weights);
    tern_blob_drop_pages(draft->blob, 0, draft->blob->len);
    return result;
}

// Adds a draft, and takes ownership of the blob.
static struct draft *new_draft(struct tern_own_replicas *own, const struct tern_db_download *row,
                               struct tern_blob *blob)
{
    struct draft *draft = &own->drafts[own->draft_count++];
    *draft = (struct draft){.row = *row, .blob = blob};
    return draft;
}

// Adds a draft, which is a download that is not chosen yet, and applies its blob to the search's weights.
static enum tern_result take_draft(const struct search *search, const struct tern_db_download *row,
                                   struct tern_blob *blob)
{
    struct draft *draft = new_draft(search->own, row, blob);
    TERN_TRY(apply(search, draft));
    draft->residual = residual_now(search);
    return TERN_OK;
}

// Reads a draft that is in the store, instead of encoding it.
static enum tern_result read_draft(const struct search *search, const struct tern_db_download *row)
{
    struct tern_blob *blob = NULL;
    TERN_TRY(read_download(search->catchup, row, &blob));
    return take_draft(search, row, blob);
}

// Copies bytes in memory to a new blob.
static enum tern_result copy_blob(const struct tern_catchup *catchup, const uint8_t *bytes,
                                  size_t len, struct tern_blob **blob)
{
    struct tern_new_blob fresh;
    TERN_TRY(tern_new_blob_begin_or_memory(&fresh, catchup->config.spool_folder, len));
    const struct tern_download_sink sink = tern_new_blob_sink(&fresh);
    enum tern_result result = sink.take(sink.ctx, bytes, len);
    if (result == TERN_OK) {
        result = tern_new_blob_end(&fresh, blob);
    }
    tern_new_blob_drop(&fresh);
    return result;
}

// Adds a draft of the download that was just encoded.
static enum tern_result keep_draft(const struct search *search, const struct tern_codec *codec,
                                   const struct tern_download_made *made, bool snapshot)
{
    const struct tern_merge *merge = search->catchup->merge;
    struct tern_own_replicas *own = search->own;
    struct tern_db_download row = {.snapshot = snapshot,
                                   .to_version = merge->version,
                                   .size = (uint32_t)made->len,
                                   .payload = (uint32_t)made->payload};
    struct tern_blob *blob = NULL;
    memcpy(row.sha256, made->sha256, TERN_SHA256_SIZE);
    memcpy(row.to_replica, made->replica, TERN_SHA256_SIZE);
    tern_codec_format(codec, row.codec);
    if (!snapshot) {
        memcpy(row.from_replica, own->at, TERN_SHA256_SIZE);
    }
    TERN_TRY(copy_blob(search->catchup, own->made.blob, made->len, &blob));
    memcpy(own->at, made->replica, TERN_SHA256_SIZE);
    new_draft(own, &row, blob)->residual = residual_now(search);
    return TERN_OK;
}

static struct tern_encode_context context_of(const struct tern_merge *merge)
{
    return (struct tern_encode_context){.seed = merge->seed, .round = merge->version};
}

static enum tern_result begin_snapshot(const struct search *search, enum tern_plan_start start)
{
    struct tern_own_replicas *own = search->own;
    const struct tern_merge *merge = search->catchup->merge;
    const struct tern_codec *codec = &own->snapshots[start];
    char spec[TERN_CODEC_SPEC_MAX];
    struct tern_db_download row;
    struct tern_download_made made;
    tern_codec_format(codec, spec);
    const struct draft *draft = find_draft(own, no_replica, spec);
    if (draft != NULL) {
        return apply(search, draft);
    }
    enum tern_result found = tern_db_snapshot_find(search->catchup->db, merge->version, spec, &row);
    if (found != TERN_ERR_NOT_FOUND) {
        TERN_TRY(found);
        return read_draft(search, &row);
    }
    if (codec->id == TERN_CODEC_FLOAT32) {
        struct tern_blob *blob = NULL;
        TERN_TRY(snapshot_of_global(search->catchup, &row, &blob));
        return take_draft(search, &row, blob);
    }
    const struct tern_encode_context context = context_of(merge);
    TERN_TRY(tern_download_opening(&merge->model, codec, &context, merge->global, own->weights,
                                   &own->made, &made));
    return keep_draft(search, codec, &made, true);
}

static enum tern_result begin(void *ctx, enum tern_plan_start start, double *residual)
{
    struct search *search = ctx;
    struct tern_own_replicas *own = search->own;
    if (start == TERN_PLAN_HELD || start == TERN_PLAN_SEED) {
        const uint8_t *from = start == TERN_PLAN_HELD ? search->held : own->book.seed_id;
        memcpy(own->at, from, TERN_SHA256_SIZE);
        TERN_TRY(tern_replica_weights(&own->book, from, own->weights));
    } else {
        TERN_TRY(begin_snapshot(search, start));
    }
    *residual = residual_now(search);
    return TERN_OK;
}

// The aim is this part of the bound, because a codec leaves what it is asked for within some percent. A pass leaves at
// most this part of the difference, however near the replica is: differences that stay would add up over versions.
#define AIM 0.995
#define MOST_LEFT 0.95

// Sets *codec to density with a coder that the client decodes, and returns whether there is one.
static bool density_for(const struct tern_catchup *catchup, const struct tern_abilities *able,
                        struct tern_codec *codec)
{
    const struct tern_codec *config = &catchup->config.codec;
    *codec = (struct tern_codec){.id = TERN_CODEC_DENSITY,
                                 .least = LEAST_VALUES,
                                 .coder = tern_codec_is_ternary(config) ? config->coder
                                                                        : TERN_CODER_RANGE};
    if (!tern_abilities_decode(able, codec)) {
        codec->coder = TERN_CODER_ZERO_RUN;
    }
    return tern_abilities_decode(able, codec);
}

// Sets *codec to uniform with the error that leaves this share of the squared norm, or with its least error if that leaves
// more. Its error is of the least-squares scale; the scale that it sends keeps the sum of the magnitudes, and leaves
// e / (1 - e) where that leaves e (quantizers/uniform.c). Returns whether the client decodes it.
static bool uniform_for(const struct tern_abilities *able, double share, struct tern_codec *codec)
{
    const double wanted = floor(share / (1.0 + share) * 1e6);
    const double least = TERN_UNIFORM_ERROR_LEAST;
    *codec = (struct tern_codec){.id = TERN_CODEC_UNIFORM,
                                 .error = (float)((wanted > least ? wanted : least) / 1e6)};
    return tern_abilities_decode(able, codec);
}

static struct tern_codec with_share(struct tern_codec ternary, uint32_t millionths)
{
    ternary.density = (float)millionths / 1e6F;
    return ternary;
}

// Sets *codec to the cheapest codec whose pass leaves the bound of a difference with this norm: density with as small a
// share of the values as will do, or uniform. Without one it sets the finest that the client decodes, and further
// passes follow. NON_FINITE: the client decodes none.
static enum tern_result codec_for(const struct search *search, const float *difference, double norm,
                                  struct tern_codec *codec)
{
    const struct tern_catchup *catchup = search->catchup;
    const struct tern_abilities *able = &search->holder->able;
    const double bound =
        AIM * (search->bound < MOST_LEFT * norm ? search->bound : MOST_LEFT * norm);
    const double left = bound * bound;
    struct tern_codec ternary;
    struct tern_codec uniform;
    struct tern_fit fit = {0};
    if (density_for(catchup, able, &ternary)) {
        TERN_TRY(tern_fit_share(&catchup->merge->model, difference, left, LEAST_VALUES, &fit));
    }
    const bool reads_uniform = uniform_for(able, left / (norm * norm), &uniform);
    *codec = *trunk_codec(catchup);
    const bool reads_trunk = tern_abilities_decode(able, codec);
    if (fit.share > 0 && (fit.share <= TERNARY_MOST || !reads_uniform)) {
        *codec = with_share(ternary, fit.share);
    } else if (reads_uniform) {
        *codec = uniform;
    } else if (fit.best > 0 && (tern_codec_is_ternary(codec) || !reads_trunk)) {
        *codec = with_share(ternary, fit.best);
    } else if (!reads_trunk) {
        return TERN_ERR_NON_FINITE;
    }
    return TERN_OK;
}

// Whether a pass is likely to take more bytes than the trunk's chain.
static bool costs_too_much(const struct search *search, const struct tern_codec *codec)
{
    const double bytes = tern_codec_bits(codec) * search->catchup->merge->model.coded / 8.0;
    return search->chain_bytes > 0 && bytes > CHAIN_MARGIN * (double)search->chain_bytes;
}

static enum tern_result make_pass(const struct search *search, const struct tern_codec *codec,
                                  const char *spec)
{
    struct tern_own_replicas *own = search->own;
    const struct tern_merge *merge = search->catchup->merge;
    struct tern_db_download row;
    struct tern_download_made made;
    enum tern_result found =
        tern_db_edge_find(search->catchup->db, own->at, merge->version, spec, &row);
    if (found != TERN_ERR_NOT_FOUND) {
        TERN_TRY(found);
        return read_draft(search, &row);
    }
    const struct tern_encode_context context = context_of(merge);
    TERN_TRY(tern_download_delta(&merge->model, codec, &context, merge->global, own->weights,
                                 own->at, &own->made, &made));
    return keep_draft(search, codec, &made, false);
}

static enum tern_result pass(void *ctx, uint32_t *bytes, double *residual)
{
    const struct search *search = ctx;
    const struct tern_merge *merge = search->catchup->merge;
    struct tern_own_replicas *own = search->own;
    struct tern_codec codec;
    char spec[TERN_CODEC_SPEC_MAX];
    for (uint32_t i = 0; i < merge->model.count; i++) {
        own->made.scratch[i] = merge->global[i] - own->weights[i];
    }
    // Dense values arrive exactly, so they have no part in what a codec may leave.
    const double norm = distance(own->made.scratch, NULL, merge->model.coded);
    TERN_TRY(codec_for(search, own->made.scratch, norm, &codec));
    // Version 0 has no delta. A search for it occurs only for models without a seed.
    if (merge->version == 0 || costs_too_much(search, &codec)) {
        return TERN_ERR_NON_FINITE;
    }
    tern_codec_format(&codec, spec);
    TERN_TRY(make_pass(search, &codec, spec));
    const struct draft *draft = &own->drafts[own->draft_count - 1];
    *bytes = draft->row.size;
    *residual = draft->residual;
    return TERN_OK;
}

// Stores a draft of the chosen path, and the replica that it makes, whose weights the search has.
static enum tern_result commit_draft(const struct search *search, const struct draft *draft,
                                     uint64_t now, struct tern_path *path)
{
    struct tern_own_replicas *own = search->own;
    path_add(path, draft->row.sha256, draft->row.size);
    TERN_TRY(store_download(search->catchup, &draft->row, draft->blob));
    return tern_replica_add(&own->book, &draft->row, draft->blob->data, own->weights,
                            (float)draft->residual, false, now);
}

// Resets the weights to the start of the chosen passes, then applies and commits their drafts in order.
static enum tern_result commit_from_start(struct search *search,
                                          const struct tern_plan_choice *plan, uint64_t now,
                                          struct tern_path *path)
{
    struct tern_own_replicas *own = search->own;
    double residual = 0.0;
    TERN_TRY(begin(search, plan->start, &residual));
    if (plan->start >= TERN_PLAN_INT8) {
        char spec[TERN_CODEC_SPEC_MAX];
        tern_codec_format(&own->snapshots[plan->start], spec);
        const struct draft *draft = find_draft(own, no_replica, spec);
        TERN_TRY(draft == NULL ? TERN_ERR_STATE : commit_draft(search, draft, now, path));
    }
    for (uint32_t i = 0; i < plan->passes; i++) {
        const struct draft *draft = find_draft(own, own->at, NULL);
        TERN_TRY(draft == NULL ? TERN_ERR_STATE : apply(search, draft));
        TERN_TRY(commit_draft(search, draft, now, path));
    }
    return TERN_OK;
}

// Commits the drafts of the chosen passes. If a single pass was chosen, and no other was tried, the search's weights are its
// result already; otherwise the passes are applied again from their start.
static enum tern_result commit_passes(struct search *search, const struct tern_plan_choice *plan,
                                      uint64_t now, struct tern_path *path)
{
    struct tern_own_replicas *own = search->own;
    const struct draft *last = own->draft_count > 0 ? &own->drafts[own->draft_count - 1] : NULL;
    const bool made_last = plan->passes == 1 && plan->start < TERN_PLAN_INT8 && last != NULL &&
                           memcmp(last->row.to_replica, own->at, TERN_SHA256_SIZE) == 0 &&
                           own->draft_count == 1;
    TERN_TRY(made_last ? commit_draft(search, last, now, path)
                       : commit_from_start(search, plan, now, path));
    memcpy(path->base, own->at, TERN_SHA256_SIZE);
    tern_replica_remember(&own->book, own->at, search->held, own->weights);
    return TERN_OK;
}

static enum tern_result commit_path(struct search *search, const struct tern_plan_choice *plan,
                                    uint64_t now, struct tern_path *path)
{
    struct tern_own_replicas *own = search->own;
    path->exists = plan->kind != TERN_CHOICE_NONE;
    if (!path->exists) {
        return TERN_OK;
    }
    if (plan->kind == TERN_CHOICE_CHAIN) {
        trunk_chain(search->catchup, &search->position, path);
    } else {
        TERN_TRY(commit_passes(search, plan, now, path));
    }
    struct tern_db_replica base;
    TERN_TRY(tern_db_replica_get(search->catchup->db, path->base, &base));
    path->base_version = base.version; // an older version if the client's replica is near enough
    TERN_TRY(tern_db_replica_use(search->catchup->db, search->held, now));
    TERN_TRY(tern_db_replica_use(search->catchup->db, path->base, now));
    return tern_replica_evict(&own->book, search->catchup->merge->version);
}

static double at_least_rounding(const struct search *search, double residual)
{
    const struct tern_merge *merge = search->catchup->merge;
    struct tern_own_replicas *own = search->own;
    if (own->global_norm < 0.0) {
        own->global_norm = distance(merge->global, NULL, merge->model.count);
    }
    const double rounding = ROUNDING * own->global_norm;
    return residual > rounding ? residual : rounding;
}

// Sets *residual to the trunk's residual at the version of the client's replica; 0 = unknown.
static enum tern_result trunk_residual_at_held(const struct search *search, double *residual)
{
    struct tern_db *db = search->catchup->db;
    struct tern_db_replica held;
    struct tern_db_version version;
    struct tern_db_replica trunk = {.residual = 0.0F};
    enum tern_result found = tern_db_replica_get(db, search->held, &held);
    if (found == TERN_OK) {
        found = tern_db_version_get(db, held.version, &version);
    }
    if (found == TERN_OK) {
        found = tern_db_replica_get(db, version.replica, &trunk);
    }
    *residual = (double)trunk.residual;
    return tern_db_may_miss(found);
}

// Sets the largest residual of a path: config.residual times the trunk's residual, at the newest version or at the
// client's, whichever is larger. The client's version counts because rounds may change less and less, as under a
// falling learning rate: a bound by the newest residual alone would make every download denser than the one before.
static enum tern_result set_bound(struct search *search)
{
    const struct tern_own_replicas *own = search->own;
    double then = 0.0;
    TERN_TRY(trunk_residual_at_held(search, &then));
    const double trunk = then > own->trunk_residual ? then : own->trunk_residual;
    search->bound = at_least_rounding(search, search->catchup->config.residual * trunk);
    return TERN_OK;
}

// Returns the residual up to which a client downloads nothing: the bound, if its replica is of the newest version;
// otherwise rounding, or none if search->newest. A client that missed a version always gets a download, because small
// differences would add up over versions.
static double keep_of(const struct search *search)
{
    const struct tern_catchup *catchup = search->catchup;
    struct tern_db_replica row;
    if (tern_db_replica_get(catchup->db, search->held, &row) == TERN_OK &&
        row.version == catchup->merge->version) {
        return search->bound;
    }
    return search->newest ? -1.0 : at_least_rounding(search, 0.0);
}

static void ask(const struct search *search, struct tern_plan_question *question)
{
    const struct tern_catchup *catchup = search->catchup;
    const struct tern_abilities *able = &search->holder->able;
    memset(question, 0, sizeof *question);
    question->chain_bytes = trunk_chain_bytes(catchup, search->holder, &search->position);
    question->chain =
        question->chain_bytes > 0 ? catchup->merge->version - search->position.version : 0;
    question->bound = search->bound;
    question->keep = keep_of(search);
    question->downloads_max = able->downloads_max;
    question->starts[TERN_PLAN_HELD] = true;
    question->starts[TERN_PLAN_SEED] =
        able->from_seed && tern_model_is_seeded(&catchup->merge->model) &&
        memcmp(search->held, search->own->book.seed_id, TERN_SHA256_SIZE) != 0;
    for (int i = TERN_PLAN_INT8; i < TERN_PLAN_STARTS; i++) {
        const struct tern_codec *codec = &search->own->snapshots[i];
        question->starts[i] = tern_abilities_decode(able, codec);
        question->start_bytes[i] =
            (uint32_t)tern_download_blob_bound(codec, &catchup->merge->model);
    }
}

static enum tern_result own_search(struct tern_catchup *catchup, const struct tern_holder *holder,
                                   const uint8_t *held, bool newest, uint64_t now,
                                   struct tern_path *path)
{
    struct tern_own_replicas *own = catchup->own;
    struct search search = {
        .catchup = catchup, .own = own, .holder = holder, .held = held, .newest = newest};
    const struct tern_plan_ports ports = {&search, begin, pass};
    struct tern_plan_question question;
    struct tern_plan_choice plan;
    TERN_TRY(trunk_position(catchup, holder, &search.position));
    TERN_TRY(set_bound(&search));
    ask(&search, &question);
    search.chain_bytes = question.chain_bytes;
    enum tern_result result = begin_search(catchup);
    if (result == TERN_OK) {
        result = tern_plan_cheapest(&question, &ports, &plan);
    }
    if (result == TERN_OK) {
        result = commit_path(&search, &plan, now, path);
    }
    end_search(own);
    return result;
}

static enum tern_result store_exact(struct tern_catchup *catchup, struct tern_db_download *row)
{
    struct tern_blob *blob = NULL;
    TERN_TRY(snapshot_of_global(catchup, row, &blob));
    const enum tern_result result = store_download(catchup, row, blob);
    tern_blob_release(blob);
    return result;
}

// Makes the path to the global model: one snapshot, without a search.
static enum tern_result make_exact_path(struct tern_catchup *catchup, uint64_t now,
                                        struct tern_path *path)
{
    struct tern_own_replicas *own = catchup->own;
    const struct tern_merge *merge = catchup->merge;
    struct tern_db_download row;
    char spec[TERN_CODEC_SPEC_MAX];
    memset(path, 0, sizeof *path);
    tern_codec_format(&own->snapshots[TERN_PLAN_FLOAT32], spec);
    enum tern_result found = tern_db_snapshot_find(catchup->db, merge->version, spec, &row);
    if (found == TERN_ERR_NOT_FOUND) {
        found = store_exact(catchup, &row);
    }
    TERN_TRY(found);
    TERN_TRY(tern_replica_add(&own->book, &row, NULL, merge->global, 0.0F, false, now));
    path_add(path, row.sha256, row.size);
    memcpy(path->base, row.to_replica, TERN_SHA256_SIZE);
    path->exists = true;
    path->base_version = merge->version;
    return tern_replica_evict(&own->book, merge->version);
}

// --- Replicas off the trunk: the book of replicas, and known paths

// Limits the cached replicas, however small: each task compares all their ids.
#define SLOTS_MAX 1024u

static const uint8_t unknown_replica[TERN_SHA256_SIZE] = {1}; // stands for every unknown replica
static const char *const snapshot_codecs[TERN_PLAN_STARTS] = {
    [TERN_PLAN_INT8] = "qsgd:levels=127,bucket=256",
    [TERN_PLAN_FLOAT16] = "float16",
    [TERN_PLAN_FLOAT32] = "float32",
};

static void own_free(struct tern_own_replicas *own)
{
    if (own == NULL) {
        return;
    }
    free(own->book.slots);
    free(own->book.blob);
    free(own->slot_memory);
    free(own);
}

static bool take_slots(struct tern_replica_book *book, struct tern_own_replicas *own,
                       uint64_t bytes)
{
    uint64_t count = bytes / ((uint64_t)book->model->count * sizeof(float));
    book->slot_count = count < SLOTS_MAX ? (uint32_t)count : SLOTS_MAX;
    if (book->slot_count == 0) {
        return true;
    }
    book->slots = calloc(book->slot_count, sizeof book->slots[0]);
    own->slot_memory = malloc((size_t)book->slot_count * book->model->count * sizeof(float));
    if (book->slots == NULL || own->slot_memory == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < book->slot_count; i++) {
        book->slots[i].weights = own->slot_memory + (size_t)i * book->model->count;
    }
    return true;
}

static struct tern_own_replicas *own_new(struct tern_catchup *catchup)
{
    const struct tern_catchup_config *config = &catchup->config;
    struct tern_own_replicas *own = calloc(1, sizeof *own);
    if (own == NULL) {
        return NULL;
    }
    struct tern_replica_book *book = &own->book;
    book->db = catchup->db;
    book->model = &catchup->merge->model;
    book->seed = catchup->merge->seed;
    book->keep_versions = config->keep_versions;
    book->bytes_max = config->replica_bytes;
    book->blob_size = catchup->merge->buffers.blob_size;
    book->blob = malloc(book->blob_size);
    book->dropped = trunk_dropped;
    book->ctx = catchup;
    if (book->blob == NULL || !take_slots(book, own, config->replica_cache)) {
        own_free(own);
        return NULL;
    }
    for (int i = TERN_PLAN_INT8; i < TERN_PLAN_STARTS; i++) {
        if (tern_codec_parse(snapshot_codecs[i], &own->snapshots[i], NULL) != TERN_OK) {
            own_free(own);
            return NULL;
        }
    }
    return own;
}

// Stores the weights of a version's replica whole, because no stored downloads make this replica.
static enum tern_result put_root(struct tern_catchup *catchup, uint64_t now)
{
    const struct tern_merge *merge = catchup->merge;
    struct tern_own_replicas *own = catchup->own;
    struct tern_db_replica row = {
        .form = TERN_REPLICA_WHOLE, .trunk = true, .version = merge->version, .used_ms = now};
    memcpy(row.id, merge->replica_id, TERN_SHA256_SIZE);
    row.residual = (float)distance(merge->global, merge->replica, merge->model.count);
    TERN_TRY(tern_db_replica_put(catchup->db, &row));
    TERN_TRY(tern_db_replica_weights_put(catchup->db, row.id, merge->replica, merge->model.count));
    own->book.bytes += merge->model.count * sizeof(float);
    return TERN_OK;
}

// Loads the book. A model without a seed begins with version 0 stored whole.
static enum tern_result load_book(struct tern_catchup *catchup, uint64_t now)
{
    struct tern_db_replica row;
    TERN_TRY(tern_replica_book_load(&catchup->own->book));
    enum tern_result found = tern_db_replica_get(catchup->db, catchup->merge->replica_id, &row);
    return found == TERN_ERR_NOT_FOUND ? put_root(catchup, now) : found;
}

static enum tern_result own_load(struct tern_catchup *catchup, uint64_t now)
{
    struct tern_own_replicas *own = catchup->own;
    own->paths_version = UINT32_MAX;
    for (uint32_t i = 0; i < own->book.slot_count; i++) {
        own->book.slots[i].used = 0;
    }
    TERN_TRY(tern_db_begin(catchup->db));
    return tern_db_conclude(catchup->db, load_book(catchup, now));
}

// Drops the known paths if they lead to an older version.
static void reset_for_version(struct tern_catchup *catchup)
{
    struct tern_own_replicas *own = catchup->own;
    const struct tern_merge *merge = catchup->merge;
    if (own->paths_version == merge->version) {
        return;
    }
    own->next_path = 0;
    memset(own->paths, 0, sizeof own->paths);
    own->exact.exists = false;
    own->paths_version = merge->version;
    own->trunk_residual = distance(merge->global, merge->replica, merge->model.count);
    own->global_norm = -1.0;
}

static enum tern_result own_version(struct tern_catchup *catchup,
                                    const struct tern_db_download *download, uint64_t now)
{
    const struct tern_merge *merge = catchup->merge;
    struct tern_own_replicas *own = catchup->own;
    reset_for_version(catchup);
    TERN_TRY(tern_replica_add(&own->book, download, merge->buffers.blob, merge->replica,
                              (float)own->trunk_residual, true, now));
    return tern_replica_evict(&own->book, merge->version);
}

// Marks the version that became older than keep_versions as a suspect, which may be deleted, then deletes unneeded
// replicas. Earlier versions become suspects when their last child is deleted.
static enum tern_result own_collect(struct tern_catchup *catchup)
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
    return tern_replica_collect(&catchup->own->book, version);
}

static struct known_path *find_path(struct tern_own_replicas *own, const uint8_t *held,
                                    const struct tern_abilities *able)
{
    for (uint32_t i = 0; i < OWN_PATHS; i++) {
        struct known_path *path = &own->paths[i];
        if (path->used && memcmp(path->held, held, TERN_SHA256_SIZE) == 0 &&
            tern_abilities_equal(&path->able, able)) {
            return path;
        }
    }
    return NULL;
}

// Whether all downloads of a path, and its base, are still stored.
static enum tern_result is_whole(struct tern_own_replicas *own, const struct tern_path *path,
                                 bool *whole)
{
    struct tern_db_replica base;
    struct tern_db_download download;
    *whole = true;
    enum tern_result found =
        path->exists ? tern_db_replica_get(own->book.db, path->base, &base) : TERN_OK;
    for (uint32_t i = 0; i < path->count && found == TERN_OK; i++) {
        found = tern_db_download_get(own->book.db, path->sha256[i], &download, NULL, 0);
    }
    *whole = found == TERN_OK;
    return tern_db_may_miss(found);
}

// Sets *path to a known path whose downloads are stored, or NULL.
static enum tern_result known(struct tern_own_replicas *own, const uint8_t *held,
                              const struct tern_abilities *able, struct known_path **path)
{
    bool whole = true;
    *path = find_path(own, held, able);
    if (*path != NULL) {
        TERN_TRY(is_whole(own, &(*path)->path, &whole));
    }
    if (!whole) {
        (*path)->used = false;
        *path = NULL;
    }
    return TERN_OK;
}

// Sets *held to the client's replica. All unknown ids become the same one, so that invented ids cause no searches.
static enum tern_result held_by(const struct tern_own_replicas *own,
                                const struct tern_holder *holder, const uint8_t **held)
{
    struct tern_db_replica row;
    bool none = memcmp(holder->replica, no_replica, TERN_SHA256_SIZE) == 0;
    *held = none ? own->book.seed_id : holder->replica;
    enum tern_result found = tern_db_replica_get(own->book.db, *held, &row);
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
    return searches->count++ < OWN_SEARCHES;
}

static enum tern_result search_path(struct tern_catchup *catchup, const struct tern_holder *holder,
                                    const uint8_t *held, bool newest, uint64_t now,
                                    struct known_path **path)
{
    struct tern_own_replicas *own = catchup->own;
    *path = &own->paths[own->next_path++ % OWN_PATHS];
    memset(*path, 0, sizeof **path);
    catchup->searches++;
    TERN_TRY(own_search(catchup, holder, held, newest, now, &(*path)->path));
    memcpy((*path)->held, held, TERN_SHA256_SIZE);
    (*path)->able = holder->able;
    (*path)->used = true;
    return TERN_OK;
}

static enum tern_result own_path(struct tern_catchup *catchup, const struct tern_holder *holder,
                                 struct tern_searches *searches, bool newest, uint64_t now,
                                 struct tern_path *path)
{
    const uint8_t *held = NULL;
    TERN_TRY(held_by(catchup->own, holder, &held));
    reset_for_version(catchup);
    struct known_path *found = NULL;
    TERN_TRY(known(catchup->own, held, &holder->able, &found));
    if (found == NULL && may_search(catchup, searches)) {
        TERN_TRY(search_path(catchup, holder, held, newest, now, &found));
    }
    if (found != NULL) {
        *path = found->path;
        path->own = true;
    }
    return TERN_OK;
}

static enum tern_result own_exact(struct tern_catchup *catchup, uint64_t now,
                                  struct tern_path *path)
{
    struct tern_own_replicas *own = catchup->own;
    reset_for_version(catchup);
    bool whole = own->exact.exists;
    if (whole) {
        TERN_TRY(is_whole(own, &own->exact, &whole));
    }
    if (!whole) {
        TERN_TRY(make_exact_path(catchup, now, &own->exact));
    }
    *path = own->exact;
    return TERN_OK;
}

static enum tern_result own_is_stranded(struct tern_catchup *catchup,
                                        const struct tern_holder *holder, bool *stranded)
{
    struct tern_own_replicas *own = catchup->own;
    const uint8_t *held = NULL;
    *stranded = false;
    for (int i = TERN_PLAN_INT8; i < TERN_PLAN_STARTS; i++) {
        if (tern_abilities_decode(&holder->able, &own->snapshots[i])) {
            return TERN_OK;
        }
    }
    struct tern_codec codec;
    bool reads = density_for(catchup, &holder->able, &codec) ||
                 uniform_for(&holder->able, 1.0, &codec) ||
                 tern_abilities_decode(&holder->able, trunk_codec(catchup));
    bool from_seed = holder->able.from_seed && tern_model_is_seeded(&catchup->merge->model);
    TERN_TRY(held_by(own, holder, &held));
    *stranded = !reads || (held == unknown_replica && !from_seed);
    return TERN_OK;
}

// The cache of blobs in files has room for this many snapshots of the model.
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
    catchup->own = own_new(catchup);
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
    own_free(catchup->own);
    free(catchup->trunk.deltas);
    free(catchup);
}

enum tern_result tern_catchup_load(struct tern_catchup *catchup, uint64_t now)
{
    TERN_TRY(own_load(catchup, now));
    return trunk_load(catchup);
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
    TERN_TRY(own_version(catchup, &download, now));
    TERN_TRY(trunk_add(catchup, &download));
    return trunk_prune(catchup);
}

enum tern_result tern_catchup_collect(struct tern_catchup *catchup)
{
    if (!catchup->collect_due) {
        return TERN_OK;
    }
    catchup->collect_due = false;
    return own_collect(catchup);
}

// Also drops the known paths, because their downloads may be deleted.
enum tern_result tern_catchup_free_disk(struct tern_catchup *catchup, uint64_t most)
{
    catchup->own->paths_version = UINT32_MAX;
    return tern_replica_free_disk(&catchup->own->book, catchup->merge->version, most);
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

// Only a client that supports no snapshots can be stranded.
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
    return *stranded && !client->evaluator ? own_is_stranded(catchup, &holder, stranded) : TERN_OK;
}

// Whether no path off the trunk takes fewer bytes than the trunk's shared snapshot: with float32 every download has all
// values. Not with frozen tensors, which snapshots contain and deltas leave out.
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

// Whether the client's path is on the trunk. With plan = cheapest, if the client missed no version: its delta exists
// and is shared. With plan = trunk, or if nothing can be cheaper, whenever the trunk has a path for it. The trunk has
// none for a client without snapshots that is too far behind or has a replica off the trunk; it gets a path of its own.
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
                                      struct tern_searches *searches, bool newest, uint64_t now,
                                      struct tern_path *path)
{
    const struct tern_holder holder = holder_of(client);
    struct tern_plan_client held;
    memset(path, 0, sizeof *path);
    TERN_TRY(trunk_position(catchup, &holder, &held));
    return follows_trunk(catchup, &holder, &held)
               ? trunk_path(catchup, &holder, &held, path)
               : own_path(catchup, &holder, searches, newest, now, path);
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
               : own_exact(catchup, now, path);
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
    if (global) { // possibly off the trunk
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
