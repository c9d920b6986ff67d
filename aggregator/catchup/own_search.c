// The ports of the search for the cheapest way: passes, which are made to see what they cost. Those
// of the chosen way are stored, the others forgotten.
#include "catchup/internal.h"

#include "wire/wire.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Float32 rounds: a replica that nothing was lost on the way to still differs by this share.
#define ROUNDING 1e-6
#define SNAPSHOTS (TERN_PLAN_STARTS - TERN_PLAN_INT8)

static const uint8_t no_replica[TERN_SHA256_SIZE];

struct search {
    struct tern_catchup *catchup;
    struct tern_own_replicas *own;
    const struct tern_holder *holder;
    const uint8_t *held;
    struct tern_plan_client position; // of what is held, on the trunk
    bool newest;                      // an older version is never near enough
    double bound;
};

double tern_own_residual(const float *a, const float *b, uint32_t count)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        double difference = (double)a[i] - (double)b[i];
        sum += difference * difference;
    }
    return sqrt(sum);
}

static double residual_now(const struct search *search)
{
    const struct tern_merge *merge = search->catchup->merge;
    return tern_own_residual(merge->global, search->own->weights, merge->model.count);
}

// The merge's scratch serves a search, too; what is encoded is not to stay in the merge's memory.
static enum tern_result begin_search(const struct tern_catchup *catchup)
{
    struct tern_own_replicas *own = catchup->own;
    const struct tern_merge *merge = catchup->merge;
    own->made = merge->buffers;
    own->made.blob = malloc(own->made.blob_size);
    own->weights = malloc(merge->model.count * sizeof *own->weights);
    return own->made.blob != NULL && own->weights != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}

// What a search took: of a large model much, which others need meanwhile.
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

// --- Ports of the search

// The draft from this replica by this codec, made before in this search, or NULL.
static struct draft *find_draft(struct tern_own_replicas *own, const uint8_t from[TERN_SHA256_SIZE],
                                const char *codec)
{
    for (uint32_t i = 0; i < own->draft_count; i++) {
        struct draft *draft = &own->drafts[i];
        if (memcmp(draft->row.from_replica, from, TERN_SHA256_SIZE) == 0 &&
            strcmp(draft->row.codec, codec) == 0) {
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
            : tern_container_accumulate(model, container.data, container.len, 1.0F, own->weights);
    tern_blob_rest(draft->blob, 0, draft->blob->len);
    return result;
}

// Keeps a place for what is encoded, whose blob it takes over, and fails with it too. After about a hundred
// passes there is none for another pass, and the search makes no more of them; for snapshots there always is.
static enum tern_result new_draft(struct tern_own_replicas *own, const struct tern_db_download *row,
                                  struct tern_blob *blob, struct draft **draft)
{
    const uint32_t room = OWN_DRAFTS - (row->snapshot ? 0 : SNAPSHOTS);
    if (own->draft_count >= room) {
        tern_blob_release(blob);
        return TERN_ERR_NON_FINITE;
    }
    *draft = &own->drafts[own->draft_count++];
    **draft = (struct draft){.row = *row, .blob = blob};
    return TERN_OK;
}

// A draft whose bytes are all there: goes to where it leads.
static enum tern_result take_draft(const struct search *search, const struct tern_db_download *row,
                                   struct tern_blob *blob)
{
    struct draft *draft;
    TERN_TRY(new_draft(search->own, row, blob, &draft));
    TERN_TRY(apply(search, draft));
    draft->residual = residual_now(search);
    return TERN_OK;
}

// One that the store has already is read instead of made.
static enum tern_result read_draft(const struct search *search, const struct tern_db_download *row)
{
    struct tern_blob *blob = NULL;
    TERN_TRY(tern_catchup_read(search->catchup, row, &blob));
    return take_draft(search, row, blob);
}

// A blob of bytes that are in memory.
static enum tern_result copy_blob(const struct tern_catchup *catchup, const uint8_t *bytes,
                                  size_t len, struct tern_blob **blob)
{
    struct tern_new_blob fresh;
    TERN_TRY(tern_new_blob_begin_anyhow(&fresh, catchup->config.spool_folder, len));
    const struct tern_download_sink sink = tern_new_blob_sink(&fresh);
    enum tern_result result = sink.take(sink.ctx, bytes, len);
    if (result == TERN_OK) {
        result = tern_new_blob_end(&fresh, blob);
    }
    tern_new_blob_drop(&fresh);
    return result;
}

// Takes what was just made.
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
    struct draft *draft;
    memcpy(row.sha256, made->sha256, TERN_SHA256_SIZE);
    memcpy(row.to_replica, made->replica, TERN_SHA256_SIZE);
    tern_codec_format(codec, row.codec);
    if (!snapshot) {
        memcpy(row.from_replica, own->at, TERN_SHA256_SIZE);
    }
    TERN_TRY(copy_blob(search->catchup, own->made.blob, made->len, &blob));
    TERN_TRY(new_draft(own, &row, blob, &draft));
    memcpy(own->at, made->replica, TERN_SHA256_SIZE);
    draft->residual = residual_now(search);
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
        TERN_TRY(tern_snapshot_of_global(search->catchup, &row, &blob));
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

// Finds the codec of a pass: that of the newest version's delta, made finer, or the one that refines. False: there is
// no such pass, as the codec cannot be made that much finer.
static bool codec_of(const struct tern_catchup *catchup, enum tern_plan_pass pass,
                     struct tern_codec *codec)
{
    static const float times[TERN_PLAN_PASSES] = {
        [TERN_PLAN_DOWN_2] = 2.0F, [TERN_PLAN_DOWN_4] = 4.0F, [TERN_PLAN_DOWN_8] = 8.0F};
    *codec = pass == TERN_PLAN_REFINE ? catchup->config.refine : *tern_trunk_codec(catchup);
    if (times[pass] > 0.0F && codec->id == TERN_CODEC_UNIFORM) {
        codec->error /= times[pass];
        return codec->error >= TERN_UNIFORM_ERROR_LEAST / 1e6F;
    }
    if (times[pass] > 0.0F) {
        codec->density *= times[pass];
        return codec->id == TERN_CODEC_DENSITY && codec->density <= 1.0F;
    }
    return true;
}

bool tern_own_pass_reads(const struct tern_catchup *catchup, const struct tern_abilities *able,
                         enum tern_plan_pass pass)
{
    struct tern_codec codec;
    return codec_of(catchup, pass, &codec) && tern_abilities_decode(able, &codec);
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

static enum tern_result pass(void *ctx, enum tern_plan_pass which, uint32_t *bytes,
                             double *residual)
{
    struct search *search = ctx;
    struct tern_own_replicas *own = search->own;
    struct tern_codec codec;
    char spec[TERN_CODEC_SPEC_MAX];
    if (!codec_of(search->catchup, which, &codec)) {
        return TERN_ERR_NON_FINITE;
    }
    tern_codec_format(&codec, spec);
    const struct draft *draft = find_draft(own, own->at, spec);
    if (draft != NULL) {
        TERN_TRY(apply(search, draft));
    } else {
        TERN_TRY(make_pass(search, &codec, spec));
        draft = &own->drafts[own->draft_count - 1];
    }
    *bytes = draft->row.size;
    *residual = draft->residual;
    return TERN_OK;
}

// --- The chosen way

// Stores a draft of the chosen way, if need be, and goes on to the replica that it makes.
static enum tern_result settle(const struct search *search, const struct draft *draft, uint64_t now,
                               struct tern_way *way)
{
    struct tern_own_replicas *own = search->own;
    TERN_TRY(apply(search, draft));
    tern_way_add(way, draft->row.sha256, draft->row.size);
    TERN_TRY(tern_catchup_store(search->catchup, &draft->row, draft->blob));
    return tern_replica_add(&own->book, &draft->row, draft->blob->data, own->weights,
                            (float)draft->residual, false, now);
}

// Goes the chosen passes once more, over drafts that are all there.
static enum tern_result settle_passes(struct search *search, const struct tern_plan_way *plan,
                                      uint64_t now, struct tern_way *way)
{
    struct tern_own_replicas *own = search->own;
    char spec[TERN_CODEC_SPEC_MAX];
    double residual = 0.0;
    TERN_TRY(begin(search, plan->start, &residual));
    if (plan->start >= TERN_PLAN_INT8) {
        tern_codec_format(&own->snapshots[plan->start], spec);
        const struct draft *draft = find_draft(own, no_replica, spec);
        TERN_TRY(draft == NULL ? TERN_ERR_STATE : settle(search, draft, now, way));
    }
    for (uint32_t i = 0; i < plan->passes; i++) {
        enum tern_plan_pass which = i == 0 ? plan->first : TERN_PLAN_REFINE;
        struct tern_codec codec;
        const bool there = codec_of(search->catchup, which, &codec);
        tern_codec_format(&codec, spec);
        const struct draft *draft = there ? find_draft(own, own->at, spec) : NULL;
        TERN_TRY(draft == NULL ? TERN_ERR_STATE : settle(search, draft, now, way));
    }
    memcpy(way->base, own->at, TERN_SHA256_SIZE);
    tern_replica_remember(&own->book, own->at, own->weights);
    return TERN_OK;
}

static enum tern_result settle_way(struct search *search, const struct tern_plan_way *plan,
                                   uint64_t now, struct tern_way *way)
{
    struct tern_own_replicas *own = search->own;
    way->leads = plan->kind != TERN_WAY_NONE;
    if (!way->leads) {
        return TERN_OK;
    }
    if (plan->kind == TERN_WAY_CHAIN) {
        tern_trunk_chain(search->catchup, &search->position, way);
    } else {
        TERN_TRY(settle_passes(search, plan, now, way));
    }
    struct tern_db_replica base;
    TERN_TRY(tern_db_replica_get(search->catchup->db, way->base, &base));
    way->base_version = base.version; // an older one's, where what is held is near enough
    TERN_TRY(tern_db_replica_use(search->catchup->db, search->held, now));
    TERN_TRY(tern_db_replica_use(search->catchup->db, way->base, now));
    return tern_replica_evict(&own->book, search->catchup->merge->version);
}

// --- Asking

// Euclidean, in double, from first to last.
static double norm_of(const float *a, uint32_t count)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (double)a[i] * (double)a[i];
    }
    return sqrt(sum);
}

static double at_least_rounding(const struct search *search, double residual)
{
    const struct tern_merge *merge = search->catchup->merge;
    struct tern_own_replicas *own = search->own;
    if (own->global_norm < 0.0) {
        own->global_norm = norm_of(merge->global, merge->model.count);
    }
    const double rounding = ROUNDING * own->global_norm;
    return residual > rounding ? residual : rounding;
}

// The residual of the trunk at the version that what is held is of; 0 where it is not known any more.
static enum tern_result trunk_residual_then(const struct search *search, double *residual)
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

// How near a way must lead: as the trunk of the newest version is, times what is configured, or of the
// version that the client comes from, where that is farther. When rounds change less and less, as under a
// falling learning rate, what a client missed is large beside what the trunk has still to send, and every
// download would be denser than the one before.
static enum tern_result set_bound(struct search *search)
{
    const struct tern_own_replicas *own = search->own;
    double then = 0.0;
    TERN_TRY(trunk_residual_then(search, &then));
    const double trunk = then > own->trunk_residual ? then : own->trunk_residual;
    search->bound = at_least_rounding(search, search->catchup->config.residual * trunk);
    return TERN_OK;
}

// The residual up to which a client keeps what it holds and downloads nothing: the bound, for a replica
// of the newest version, and otherwise no more than rounding (none, when it must come to the newest).
// A client that missed a version always gets something of it, because small differences that are left
// each time would add up.
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
    question->chain_bytes = tern_trunk_chain_bytes(catchup, search->holder, &search->position);
    question->chain =
        question->chain_bytes > 0 ? catchup->merge->version - search->position.version : 0;
    question->bound = search->bound;
    question->keep = keep_of(search);
    question->downloads_max = able->downloads_max;
    question->passes_max = catchup->config.passes;
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
    for (int i = 0; i < TERN_PLAN_PASSES; i++) {
        // No delta makes version 0, which is only searched for where no seed makes it.
        question->passes[i] = catchup->merge->version > 0 &&
                              tern_own_pass_reads(catchup, able, (enum tern_plan_pass)i);
    }
}

enum tern_result tern_own_search(struct tern_catchup *catchup, const struct tern_holder *holder,
                                 const uint8_t *held, bool newest, uint64_t now,
                                 struct tern_way *way)
{
    struct tern_own_replicas *own = catchup->own;
    struct search search = {
        .catchup = catchup, .own = own, .holder = holder, .held = held, .newest = newest};
    const struct tern_plan_ports ports = {&search, begin, pass};
    struct tern_plan_question question;
    struct tern_plan_way plan;
    TERN_TRY(tern_trunk_position(catchup, holder, &search.position));
    TERN_TRY(set_bound(&search));
    ask(&search, &question);
    enum tern_result result = begin_search(catchup);
    if (result == TERN_OK) {
        result = tern_plan_cheapest(&question, &ports, &plan);
    }
    if (result == TERN_OK) {
        result = settle_way(&search, &plan, now, way);
    }
    end_search(own);
    return result;
}

// --- The global model itself

static enum tern_result store_exact(struct tern_catchup *catchup, struct tern_db_download *row)
{
    struct tern_blob *blob = NULL;
    TERN_TRY(tern_snapshot_of_global(catchup, row, &blob));
    const enum tern_result result = tern_catchup_store(catchup, row, blob);
    tern_blob_release(blob);
    return result;
}

// Nothing is searched for: what leads there is one snapshot, of weights that are at hand.
enum tern_result tern_own_open_exact(struct tern_catchup *catchup, uint64_t now,
                                     struct tern_way *way)
{
    struct tern_own_replicas *own = catchup->own;
    const struct tern_merge *merge = catchup->merge;
    struct tern_db_download row;
    char spec[TERN_CODEC_SPEC_MAX];
    memset(way, 0, sizeof *way);
    tern_codec_format(&own->snapshots[TERN_PLAN_FLOAT32], spec);
    enum tern_result found = tern_db_snapshot_find(catchup->db, merge->version, spec, &row);
    if (found == TERN_ERR_NOT_FOUND) {
        found = store_exact(catchup, &row);
    }
    TERN_TRY(found);
    TERN_TRY(tern_replica_add(&own->book, &row, NULL, merge->global, 0.0F, false, now));
    tern_way_add(way, row.sha256, row.size);
    memcpy(way->base, row.to_replica, TERN_SHA256_SIZE);
    way->leads = true;
    way->base_version = merge->version;
    return tern_replica_evict(&own->book, merge->version);
}
