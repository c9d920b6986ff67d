// The ports of the search for the cheapest way: downloads that are there, and passes that are made
// to see what they cost. Those of the chosen way are stored, the others forgotten.
#include "catchup/internal.h"

#include "wire/wire.h"
#include <math.h>
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
    bool newest; // an older version is never near enough
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

static void forget_drafts(struct tern_own_replicas *own)
{
    for (uint32_t i = 0; i < own->draft_count; i++) {
        tern_blob_release(own->drafts[i].blob);
    }
    own->draft_count = 0;
}

// --- Ports of the search

static enum tern_result edges_of(void *ctx, const uint8_t from[TERN_SHA256_SIZE],
                                 struct tern_plan_edge *edges, uint32_t *count)
{
    const struct search *search = ctx;
    const struct tern_merge *merge = search->catchup->merge;
    struct tern_db_download rows[TERN_PLAN_EDGES];
    uint32_t found = 0;
    TERN_TRY(tern_db_edge_list(search->catchup->db, from, merge->version, merge->replica_id, rows,
                               TERN_PLAN_EDGES, &found));
    *count = 0;
    for (uint32_t i = 0; i < found; i++) {
        struct tern_codec codec;
        struct tern_db_replica to;
        if (tern_codec_parse(rows[i].codec, &codec, NULL) != TERN_OK ||
            !tern_abilities_decode(&search->holder->able, &codec)) {
            continue;
        }
        enum tern_result known = tern_db_replica_get(search->catchup->db, rows[i].to_replica, &to);
        if (known == TERN_ERR_NOT_FOUND) {
            continue;
        }
        TERN_TRY(known);
        struct tern_plan_edge *edge = &edges[(*count)++];
        memcpy(edge->sha256, rows[i].sha256, TERN_SHA256_SIZE);
        memcpy(edge->to, rows[i].to_replica, TERN_SHA256_SIZE);
        edge->bytes = rows[i].size;
        edge->residual = (double)to.residual;
        edge->arrives = memcmp(to.id, merge->replica_id, TERN_SHA256_SIZE) == 0;
    }
    return TERN_OK;
}

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
    return draft->row.snapshot
               ? tern_container_decode(model, container.data, container.len, own->weights)
               : tern_container_accumulate(model, container.data, container.len, 1.0F,
                                           own->weights);
}

// Keeps a place for what is encoded. After about a hundred passes there is none for another pass, and
// the search makes no more of them; for snapshots there always is.
static enum tern_result new_draft(struct tern_own_replicas *own, size_t len, bool snapshot,
                                  struct draft **draft)
{
    const uint32_t room = OWN_DRAFTS - (snapshot ? 0 : SNAPSHOTS);
    if (own->draft_count >= room) {
        return TERN_ERR_NON_FINITE;
    }
    struct tern_blob *blob = tern_blob_new(len);
    if (blob == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    *draft = &own->drafts[own->draft_count++];
    **draft = (struct draft){.blob = blob};
    return TERN_OK;
}

// One that the store has already is read instead of made.
static enum tern_result read_draft(const struct search *search, const struct tern_db_download *row)
{
    struct draft *draft;
    TERN_TRY(new_draft(search->own, row->size, row->snapshot, &draft));
    draft->row = *row;
    TERN_TRY(tern_db_download_get(search->catchup->db, row->sha256, &draft->row, draft->blob->data,
                                  row->size));
    TERN_TRY(apply(search, draft));
    draft->residual = residual_now(search);
    return TERN_OK;
}

// Takes what was just made in the merge's buffers.
static enum tern_result keep_draft(const struct search *search, const struct tern_codec *codec,
                                   const struct tern_download_made *made, bool snapshot)
{
    const struct tern_merge *merge = search->catchup->merge;
    struct tern_own_replicas *own = search->own;
    struct draft *draft;
    TERN_TRY(new_draft(own, made->len, snapshot, &draft));
    memcpy(draft->blob->data, merge->buffers.blob, made->len);
    draft->row = (struct tern_db_download){.snapshot = snapshot,
                                           .to_version = merge->version,
                                           .size = (uint32_t)made->len,
                                           .payload = (uint32_t)made->payload};
    memcpy(draft->row.sha256, made->sha256, TERN_SHA256_SIZE);
    memcpy(draft->row.to_replica, made->replica, TERN_SHA256_SIZE);
    tern_codec_format(codec, draft->row.codec);
    if (!snapshot) {
        memcpy(draft->row.from_replica, own->at, TERN_SHA256_SIZE);
    }
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
    const struct tern_encode_context context = context_of(merge);
    TERN_TRY(tern_download_opening(&merge->model, codec, &context, merge->global, own->weights,
                                   &merge->buffers, &made));
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

// The codec of a pass. False: there is no such pass, as the downloads' codec cannot be made that
// much wider.
static bool codec_of(const struct tern_catchup *catchup, enum tern_plan_pass pass,
                     struct tern_codec *codec)
{
    static const float times[TERN_PLAN_PASSES] = {
        [TERN_PLAN_DOWN_2] = 2.0F, [TERN_PLAN_DOWN_4] = 4.0F, [TERN_PLAN_DOWN_8] = 8.0F};
    *codec = pass == TERN_PLAN_REFINE ? catchup->config.refine : catchup->config.codec;
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
                                 own->at, &merge->buffers, &made));
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
    TERN_TRY(tern_replica_add(&own->book, &draft->row, draft->blob->data, own->weights,
                              (float)draft->residual, false, now));
    tern_blob_cache_put(&search->catchup->cache, draft->row.sha256, draft->blob,
                        draft->row.payload);
    return TERN_OK;
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
        memcpy(way->base, plan->to, TERN_SHA256_SIZE);
        for (uint32_t i = 0; i < plan->count; i++) {
            tern_way_add(way, plan->sha256[i], plan->bytes[i]);
        }
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

// `times` the trunk's residual, or what rounding leaves.
static double bound_of(const struct tern_catchup *catchup, double times)
{
    const struct tern_own_replicas *own = catchup->own;
    double bound = times * own->trunk_residual;
    double rounding = ROUNDING * own->global_norm;
    return bound > rounding ? bound : rounding;
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
    return search->newest ? -1.0 : bound_of(catchup, 0.0);
}

static void ask(const struct search *search, struct tern_plan_question *question)
{
    const struct tern_catchup *catchup = search->catchup;
    const struct tern_abilities *able = &search->holder->able;
    memset(question, 0, sizeof *question);
    memcpy(question->held, search->held, TERN_SHA256_SIZE);
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
    struct search search = {catchup, own,    holder,
                            held,    newest, bound_of(catchup, catchup->config.residual)};
    const struct tern_plan_ports ports = {&search, edges_of, begin, pass};
    struct tern_plan_question question;
    struct tern_plan_way plan;
    ask(&search, &question);
    enum tern_result result = tern_plan_cheapest(&question, &ports, &own->work, &plan);
    if (result == TERN_OK) {
        result = settle_way(&search, &plan, now, way);
    }
    forget_drafts(own);
    return result;
}
