#include "downloads/search.h"

#include "codec/plan.h"
#include "downloads/fit.h"
#include "wire/wire.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Float32 arithmetic rounds: after lossless downloads a replica still differs from the global model by up to this
// fraction of the model's norm.
#define ROUNDING 1e-6

// A ternary pass sends at least this many values of each segment, because the values of small tensors matter most.
#define LEAST_VALUES 64

// The largest share of values, in millionths, that a ternary pass sends to a client that decodes uniform. Above this share
// uniform takes fewer bytes.
#define TERNARY_MOST 250000u

// A pass is skipped if its estimated bytes exceed the chain's by this factor. Estimates are some percent off.
#define CHAIN_MARGIN 1.2

// A codec leaves the residual that it is asked for within some percent, so a search asks for this share of the bound.
#define AIM 0.995
// A pass leaves at most this share of the difference, however small the difference is. Otherwise the same differences
// would stay and add up over versions.
#define MOST_LEFT 0.95

static const uint8_t no_replica[TERN_SHA256_SIZE];

static const char *const snapshot_codecs[TERN_PLAN_STARTS] = {
    [TERN_PLAN_INT8] = "qsgd:levels=127,bucket=256",
    [TERN_PLAN_FLOAT16] = "float16",
    [TERN_PLAN_FLOAT32] = "float32",
};

// The most slots, however small the replicas are: each search compares all their ids.
#define SLOTS_MAX 1024u

static size_t weights_size(const struct tern_search *search)
{
    return search->merge->model.count * sizeof(float);
}

static void count_slots(struct tern_search *search, uint64_t memory_bytes, uint64_t file_bytes)
{
    const uint64_t size = weights_size(search);
    const uint64_t sums = tern_exact_mean_bytes(search->merge->model.count);
    const uint64_t in_memory = memory_bytes > sums ? (memory_bytes - sums) / size : 0;
    const uint64_t in_files = search->spool_folder != NULL ? file_bytes / size : 0;
    const uint64_t all = in_memory + in_files > 0 ? in_memory + in_files : 1;
    search->memory_slots = in_memory < SLOTS_MAX ? (uint32_t)in_memory : SLOTS_MAX;
    search->slot_count = all < SLOTS_MAX ? (uint32_t)all : SLOTS_MAX;
}

enum tern_result tern_search_init(struct tern_search *search, uint64_t memory_bytes,
                                  uint64_t file_bytes)
{
    const struct tern_merge *merge = search->merge;
    for (int i = TERN_PLAN_INT8; i < TERN_PLAN_STARTS; i++) {
        TERN_TRY(tern_codec_parse(snapshot_codecs[i], &search->snapshots[i], NULL));
    }
    search->buffers = merge->buffers;
    search->buffers.blob = NULL;
    search->replicas.db = search->reader;
    search->replicas.model = &merge->model;
    search->replicas.seed = merge->seed;
    search->replicas.blob_size = merge->buffers.blob_size;
    count_slots(search, memory_bytes, file_bytes);
    search->slots = calloc(search->slot_count, sizeof search->slots[0]);
    return search->slots != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}

// --- Slots
//
// A search takes the slot of its client's replica, changes the weights in place, and gives the slot the id of the new replica.
// The old replica's weights are lost: its client does not need them any more. Pages of slots in files are dropped after a
// search, so that they take no memory of the process; the kernel's cache usually still has them for the next search.

static struct tern_replica_slot *find_slot(struct tern_search *search,
                                           const uint8_t id[TERN_SHA256_SIZE])
{
    for (uint32_t i = 0; i < search->slot_count; i++) {
        struct tern_replica_slot *slot = &search->slots[i];
        if (slot->used > 0 && memcmp(slot->id, id, TERN_SHA256_SIZE) == 0) {
            return slot;
        }
    }
    return NULL;
}

// Returns an empty slot, or the slot of the least recently used replica. allocated: only slots that have memory or a file;
// NULL if no slot has.
static struct tern_replica_slot *oldest_slot(struct tern_search *search, bool allocated)
{
    struct tern_replica_slot *oldest = NULL;
    for (uint32_t i = 0; i < search->slot_count; i++) {
        struct tern_replica_slot *slot = &search->slots[i];
        const bool usable = slot->weights != NULL || !allocated;
        oldest = usable && (oldest == NULL || slot->used < oldest->used) ? slot : oldest;
    }
    return oldest;
}

static bool allocate_in_memory(const struct tern_search *search, struct tern_replica_slot *slot)
{
    const size_t size = weights_size(search);
    slot->weights = malloc(size);
    tern_large_pages(slot->weights, size);
    return slot->weights != NULL;
}

static bool allocate(const struct tern_search *search, struct tern_replica_slot *slot)
{
    if (slot->weights != NULL) {
        return true;
    }
    if ((size_t)(slot - search->slots) < search->memory_slots || search->spool_folder == NULL) {
        return allocate_in_memory(search, slot);
    }
    slot->weights = tern_file_memory_new(search->spool_folder, weights_size(search));
    slot->in_file = slot->weights != NULL;
    return slot->in_file;
}

// Takes the slot of the client's replica or, if there is none, another slot, whose weights are undefined.
static enum tern_result take_slot(struct tern_search *search)
{
    struct tern_replica_slot *slot = find_slot(search, search->question.replica);
    memset(search->weights_id, 0, TERN_SHA256_SIZE);
    if (slot != NULL) {
        memcpy(search->weights_id, slot->id, TERN_SHA256_SIZE);
    } else {
        slot = oldest_slot(search, false);
    }
    if (!allocate(search, slot)) { // without disk space one of the other slots, or memory
        struct tern_replica_slot *other = oldest_slot(search, true);
        slot = other != NULL ? other : slot;
    }
    if (slot->weights == NULL && !allocate_in_memory(search, slot)) {
        return TERN_ERR_NO_MEMORY;
    }
    slot->used = 0;
    search->slot = slot;
    search->weights = slot->weights;
    return TERN_OK;
}

// Allocates the memory for one download. A search reads the downloads of its replica into it, and then encodes in it.
static enum tern_result make_blob(struct tern_search *search)
{
    if (search->buffers.blob == NULL) {
        search->buffers.blob = malloc(search->buffers.blob_size);
    }
    search->replicas.blob = search->buffers.blob;
    return search->buffers.blob != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}

static void return_slot(struct tern_search *search)
{
    struct tern_replica_slot *slot = search->slot;
    memcpy(slot->id, search->weights_id, TERN_SHA256_SIZE);
    slot->used =
        memcmp(search->weights_id, no_replica, TERN_SHA256_SIZE) != 0 ? ++search->clock : 0;
    if (slot->in_file) {
        tern_file_memory_drop_pages(slot->weights, weights_size(search));
    }
    search->slot = NULL;
    search->weights = NULL;
}

static void free_slot(const struct tern_search *search, struct tern_replica_slot *slot)
{
    if (slot->in_file) {
        tern_file_memory_free(slot->weights, weights_size(search));
    } else {
        free(slot->weights);
    }
}

// Drops the drafts, and returns the slot.
static void end(struct tern_search *search)
{
    for (uint32_t i = 0; i < search->draft_count; i++) {
        tern_blob_release(search->drafts[i].blob);
    }
    search->draft_count = 0;
    if (search->slot != NULL) {
        return_slot(search);
    }
}

void tern_search_free(struct tern_search *search)
{
    end(search);
    for (uint32_t i = 0; i < search->slot_count && search->slots != NULL; i++) {
        free_slot(search, &search->slots[i]);
    }
    free(search->slots);
    free(search->buffers.blob);
    memset(search, 0, sizeof *search);
}

// --- Drafts: downloads that the search made or read

// Returns the draft of a delta from the replica `from`, or of the snapshot with this codec (from = zeros). NULL: no such draft.
// codec: NULL = any
static struct tern_draft *find_draft(struct tern_search *search,
                                     const uint8_t from[TERN_SHA256_SIZE], const char *codec)
{
    for (uint32_t i = 0; i < search->draft_count; i++) {
        struct tern_draft *draft = &search->drafts[i];
        if (memcmp(draft->row.from_replica, from, TERN_SHA256_SIZE) == 0 &&
            (codec == NULL || strcmp(draft->row.codec, codec) == 0)) {
            return draft;
        }
    }
    return NULL;
}

static double residual_now(const struct tern_search *search)
{
    const struct tern_merge *merge = search->merge;
    return tern_distance(merge->global, search->weights, merge->model.count);
}

// Applies a draft to the search's weights.
static enum tern_result apply(struct tern_search *search, const struct tern_draft *draft)
{
    const struct tern_model *model = &search->merge->model;
    tern_Download message;
    struct tern_span container;
    TERN_TRY(tern_wire_decode_download(draft->blob->data, draft->blob->len, &message, &container));
    memcpy(search->weights_id, draft->row.to_replica, TERN_SHA256_SIZE);
    const enum tern_result result =
        draft->row.snapshot
            ? tern_container_decode(model, container.data, container.len, search->weights)
            : tern_container_add(model, container.data, container.len, 1.0F, search->weights);
    tern_blob_drop_pages(draft->blob, 0, draft->blob->len);
    return result;
}

// Adds a draft, and takes ownership of the blob.
static struct tern_draft *new_draft(struct tern_search *search, const struct tern_db_download *row,
                                    struct tern_blob *blob)
{
    struct tern_draft *draft = &search->drafts[search->draft_count++];
    *draft = (struct tern_draft){.row = *row, .blob = blob};
    return draft;
}

// Adds a draft, and applies its blob to the search's weights.
static enum tern_result take_draft(struct tern_search *search, const struct tern_db_download *row,
                                   struct tern_blob *blob)
{
    struct tern_draft *draft = new_draft(search, row, blob);
    TERN_TRY(apply(search, draft));
    draft->residual = residual_now(search);
    return TERN_OK;
}

// Reads a draft that is in the store, instead of encoding it.
static enum tern_result read_draft(struct tern_search *search, const struct tern_db_download *row)
{
    struct tern_blob *blob = NULL;
    TERN_TRY(tern_download_read(search->reader, search->spool_folder, row, &blob));
    return take_draft(search, row, blob);
}

// Adds a draft of the download that was just encoded, whose values are in the search's weights already.
static enum tern_result keep_draft(struct tern_search *search, const struct tern_codec *codec,
                                   const struct tern_download_made *made, bool snapshot)
{
    const struct tern_merge *merge = search->merge;
    struct tern_db_download row = {.snapshot = snapshot,
                                   .to_version = merge->version,
                                   .size = (uint32_t)made->len,
                                   .payload = (uint32_t)made->payload};
    struct tern_blob *blob = NULL;
    memcpy(row.sha256, made->sha256, TERN_SHA256_SIZE);
    memcpy(row.to_replica, made->replica, TERN_SHA256_SIZE);
    tern_codec_format(codec, row.codec);
    if (!snapshot) {
        memcpy(row.from_replica, search->weights_id, TERN_SHA256_SIZE);
    }
    TERN_TRY(tern_blob_copy(search->spool_folder, search->buffers.blob, made->len, &blob));
    memcpy(search->weights_id, made->replica, TERN_SHA256_SIZE);
    new_draft(search, &row, blob)->residual = residual_now(search);
    return TERN_OK;
}

// --- The starts

static struct tern_encode_context context_of(const struct tern_merge *merge)
{
    return (struct tern_encode_context){.seed = merge->seed, .round = merge->version};
}

static enum tern_result begin_snapshot(struct tern_search *search, enum tern_plan_start start)
{
    const struct tern_merge *merge = search->merge;
    const struct tern_codec *codec = &search->snapshots[start];
    char spec[TERN_CODEC_SPEC_MAX];
    struct tern_db_download row;
    struct tern_download_made made;
    tern_codec_format(codec, spec);
    const struct tern_draft *draft = find_draft(search, no_replica, spec);
    if (draft != NULL) {
        return apply(search, draft);
    }
    enum tern_result found = tern_db_snapshot_find(search->reader, merge->version, spec, &row);
    if (found != TERN_ERR_NOT_FOUND) {
        TERN_TRY(found);
        return read_draft(search, &row);
    }
    if (codec->id == TERN_CODEC_FLOAT32) {
        struct tern_blob *blob = NULL;
        TERN_TRY(
            tern_snapshot_blob(merge, TERN_SNAPSHOT_GLOBAL, search->spool_folder, &row, &blob));
        return take_draft(search, &row, blob);
    }
    const struct tern_encode_context context = context_of(merge);
    TERN_TRY(tern_download_opening(&merge->model, codec, &context, merge->global, search->weights,
                                   &search->buffers, &made));
    return keep_draft(search, codec, &made, true);
}

// Sets the weights to a replica's, unless they are that already.
static enum tern_result begin_replica(struct tern_search *search,
                                      const uint8_t id[TERN_SHA256_SIZE])
{
    if (memcmp(search->weights_id, id, TERN_SHA256_SIZE) == 0) {
        return TERN_OK;
    }
    memset(search->weights_id, 0, TERN_SHA256_SIZE);
    TERN_TRY(tern_replica_weights(&search->replicas, id, search->weights));
    memcpy(search->weights_id, id, TERN_SHA256_SIZE);
    return TERN_OK;
}

static enum tern_result begin(void *ctx, enum tern_plan_start start, double *residual)
{
    struct tern_search *search = ctx;
    uint8_t seed_id[TERN_SHA256_SIZE];
    switch (start) {
    case TERN_PLAN_REPLICA:
        TERN_TRY(begin_replica(search, search->question.replica));
        break;
    case TERN_PLAN_SEED:
        tern_replica_from_seed(search->merge->model.hash, search->merge->seed, seed_id);
        TERN_TRY(begin_replica(search, seed_id));
        break;
    case TERN_PLAN_INT8:
    case TERN_PLAN_FLOAT16:
    case TERN_PLAN_FLOAT32:
    case TERN_PLAN_STARTS:
        TERN_TRY(begin_snapshot(search, start));
        break;
    }
    *residual = residual_now(search);
    return TERN_OK;
}

// --- Passes

// Sets *codec to density with a coder that the client decodes, and returns whether there is one.
static bool density_for(const struct tern_codec *config, const struct tern_abilities *able,
                        struct tern_codec *codec)
{
    *codec = (struct tern_codec){.id = TERN_CODEC_DENSITY,
                                 .least = LEAST_VALUES,
                                 .coder = tern_codec_is_ternary(config) ? config->coder
                                                                        : TERN_CODER_RANGE};
    if (!tern_abilities_decode(able, codec)) {
        codec->coder = TERN_CODER_ZERO_RUN;
    }
    return tern_abilities_decode(able, codec);
}

// Sets *codec to uniform with the error that leaves this share of the squared norm, or with uniform's least error if that
// leaves more. The error refers to the least-squares scale. The scale that is sent keeps the sum of the magnitudes, and
// leaves e / (1 - e) where the least-squares scale leaves e (quantizers/uniform.c). Returns whether the client decodes it.
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

// Sets *codec to the cheapest codec whose pass leaves at most the bound of the difference: density with the smallest share of
// values that suffices, or uniform. If no codec does, *codec is the finest that the client decodes, and further passes
// follow. norm: of the difference. NON_FINITE: the client decodes no codec.
static enum tern_result codec_for(const struct tern_search *search, const float *difference,
                                  double norm, struct tern_codec *codec)
{
    const struct tern_abilities *able = &search->question.able;
    const double bound =
        AIM * (search->bound < MOST_LEFT * norm ? search->bound : MOST_LEFT * norm);
    const double left = bound * bound;
    struct tern_codec ternary;
    struct tern_codec uniform;
    struct tern_fit fit = {0};
    if (density_for(&search->codec, able, &ternary)) {
        TERN_TRY(tern_fit_share(&search->merge->model, difference, left, LEAST_VALUES, &fit));
    }
    const bool reads_uniform = uniform_for(able, left / (norm * norm), &uniform);
    *codec = search->question.trunk_codec;
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
static bool costs_too_much(const struct tern_search *search, const struct tern_codec *codec)
{
    const uint64_t chain_bytes = search->question.chain_bytes;
    const double bytes = tern_codec_bits(codec) * search->merge->model.coded / 8.0;
    return chain_bytes > 0 && bytes > CHAIN_MARGIN * (double)chain_bytes;
}

static enum tern_result make_pass(struct tern_search *search, const struct tern_codec *codec,
                                  const char *spec)
{
    const struct tern_merge *merge = search->merge;
    struct tern_db_download row;
    struct tern_download_made made;
    enum tern_result found =
        tern_db_delta_find(search->reader, search->weights_id, merge->version, spec, &row);
    if (found != TERN_ERR_NOT_FOUND) {
        TERN_TRY(found);
        return read_draft(search, &row);
    }
    const struct tern_encode_context context = context_of(merge);
    TERN_TRY(tern_download_difference(&merge->model, codec, &context, search->weights,
                                      search->weights_id, &search->buffers, &made));
    return keep_draft(search, codec, &made, false);
}

static enum tern_result pass(void *ctx, uint32_t *bytes, double *residual)
{
    struct tern_search *search = ctx;
    const struct tern_merge *merge = search->merge;
    float *difference = search->buffers.scratch;
    struct tern_codec codec;
    char spec[TERN_CODEC_SPEC_MAX];
    // Codecs send dense values exactly, so the bound on what a codec leaves excludes them.
    const double norm = tern_difference(merge->global, search->weights, difference,
                                        merge->model.count, merge->model.coded);
    TERN_TRY(codec_for(search, difference, norm, &codec));
    // Version 0 has no delta. A search for it occurs only for models without a seed.
    if (merge->version == 0 || costs_too_much(search, &codec)) {
        return TERN_ERR_NON_FINITE;
    }
    tern_codec_format(&codec, spec);
    TERN_TRY(make_pass(search, &codec, spec));
    const struct tern_draft *draft = &search->drafts[search->draft_count - 1];
    *bytes = draft->row.size;
    *residual = draft->residual;
    return TERN_OK;
}

// --- Running

bool tern_search_serves(const struct tern_search *search, const struct tern_abilities *able,
                        bool knows_replica, const struct tern_codec *trunk_codec)
{
    struct tern_codec codec;
    bool serves = knows_replica &&
                  (density_for(&search->codec, able, &codec) || uniform_for(able, 1.0, &codec) ||
                   tern_abilities_decode(able, trunk_codec));
    for (int i = TERN_PLAN_INT8; i < TERN_PLAN_STARTS; i++) {
        serves = serves || tern_abilities_decode(able, &search->snapshots[i]);
    }
    return serves;
}

// Sets the bound, and the residual up to which a client downloads nothing: the bound, if its replica is of the newest
// version; otherwise rounding, or none if question.newest_only. A client that missed a version always gets a download, because
// small differences would add up over versions.
static void set_bounds(struct tern_search *search)
{
    const struct tern_search_question *question = &search->question;
    const double rounding = ROUNDING * search->merge->norm;
    search->bound = question->bound > rounding ? question->bound : rounding;
    search->keep_max = question->replica_is_newest ? search->bound
                       : question->newest_only     ? -1.0
                                                   : rounding;
}

static void fill_plan(const struct tern_search *search, struct tern_plan_question *plan)
{
    const struct tern_search_question *question = &search->question;
    const struct tern_merge *merge = search->merge;
    uint8_t seed_id[TERN_SHA256_SIZE];
    tern_replica_from_seed(merge->model.hash, merge->seed, seed_id);
    *plan = (struct tern_plan_question){.chain = question->chain,
                                        .chain_bytes = question->chain_bytes,
                                        .downloads_max = question->able.downloads_max,
                                        .keep_max = search->keep_max,
                                        .bound = search->bound};
    plan->starts[TERN_PLAN_REPLICA] = true;
    plan->starts[TERN_PLAN_SEED] = question->able.from_seed &&
                                   tern_model_is_seeded(&merge->model) &&
                                   memcmp(question->replica, seed_id, TERN_SHA256_SIZE) != 0;
    for (int i = TERN_PLAN_INT8; i < TERN_PLAN_STARTS; i++) {
        const struct tern_codec *codec = &search->snapshots[i];
        plan->starts[i] = tern_abilities_decode(&question->able, codec);
        plan->start_bytes[i] = (uint32_t)tern_download_blob_bound(codec, &merge->model);
    }
}

// Moves the chosen downloads to the front of the drafts, in order, and drops the other drafts. Sets chosen_id.
static enum tern_result keep_chosen(struct tern_search *search)
{
    const struct tern_plan_choice *choice = &search->choice;
    uint32_t kept = 0;
    memcpy(search->chosen_id, search->question.replica, TERN_SHA256_SIZE);
    if (choice->start == TERN_PLAN_SEED) {
        tern_replica_from_seed(search->merge->model.hash, search->merge->seed, search->chosen_id);
    }
    for (; kept < choice->count; kept++) {
        const bool snapshot = kept == 0 && choice->start >= TERN_PLAN_INT8;
        char spec[TERN_CODEC_SPEC_MAX];
        tern_codec_format(&search->snapshots[choice->start], spec);
        struct tern_draft *draft = snapshot ? find_draft(search, no_replica, spec)
                                            : find_draft(search, search->chosen_id, NULL);
        if (draft == NULL) {
            return TERN_ERR_STATE;
        }
        const struct tern_draft chosen = *draft;
        *draft = search->drafts[kept];
        search->drafts[kept] = chosen;
        memcpy(search->chosen_id, chosen.row.to_replica, TERN_SHA256_SIZE);
    }
    while (search->draft_count > kept) {
        tern_blob_release(search->drafts[--search->draft_count].blob);
    }
    return TERN_OK;
}

// Applies the chosen passes to their start, unless the search's weights are their result already.
static enum tern_result apply_chosen(struct tern_search *search)
{
    double residual = 0.0;
    if (search->draft_count == 0 ||
        memcmp(search->weights_id, search->chosen_id, TERN_SHA256_SIZE) == 0) {
        return TERN_OK;
    }
    if (search->choice.start < TERN_PLAN_INT8) {
        TERN_TRY(begin(search, search->choice.start, &residual));
    }
    for (uint32_t i = 0; i < search->draft_count; i++) {
        TERN_TRY(apply(search, &search->drafts[i]));
    }
    return TERN_OK;
}

enum tern_result tern_search_run(struct tern_search *search)
{
    const struct tern_plan_ports ports = {search, begin, pass};
    struct tern_plan_question plan;
    set_bounds(search);
    fill_plan(search, &plan);
    TERN_TRY(take_slot(search));
    TERN_TRY(make_blob(search));
    TERN_TRY(tern_plan_cheapest(&plan, &ports, &search->choice));
    if (search->choice.kind != TERN_CHOICE_PASSES) {
        return TERN_OK;
    }
    TERN_TRY(keep_chosen(search));
    return apply_chosen(search);
}

// Stores up to 1 MiB of the chosen downloads, and of the weights that they make. *more: bytes are missing
static enum tern_result store(const struct tern_search *search,
                              struct tern_download_store *downloads, struct tern_replica_book *book,
                              uint64_t now, struct tern_path *path, bool *more)
{
    for (uint32_t i = 0; i < search->draft_count && !*more; i++) {
        const struct tern_draft *draft = &search->drafts[i];
        const bool last = i + 1 == search->draft_count;
        tern_path_add(path, draft->row.sha256, draft->row.size);
        TERN_TRY(tern_download_store_put(downloads, &draft->row, draft->blob, &book->bytes, more));
        if (!*more) {
            TERN_TRY(tern_replica_add(book, &draft->row, NULL, last ? search->weights : NULL,
                                      (float)draft->residual, false, now, more));
        }
    }
    memcpy(path->base, search->chosen_id, TERN_SHA256_SIZE);
    return TERN_OK;
}

enum tern_result tern_search_store(struct tern_search *search,
                                   struct tern_download_store *downloads,
                                   struct tern_replica_book *book, uint64_t now,
                                   struct tern_path *path, bool *more)
{
    *more = false;
    const enum tern_result result = search->choice.kind == TERN_CHOICE_PASSES
                                        ? store(search, downloads, book, now, path, more)
                                        : TERN_OK;
    if (result != TERN_OK || !*more) {
        end(search);
    }
    return result;
}
