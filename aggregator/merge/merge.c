#include "merge/merge.h"

#include "hosted/log.h"
#include "hosted/spool.h"
#include "hosted/terminal.h"
#include "merge/stored_mean.h"
#include "tensor/manifest.h"
#include "wire/wire.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Vectors of the model's size

static size_t size_of(const struct tern_vectors *vectors)
{
    return (size_t)vectors->count * sizeof(float);
}

// Returns the index of the file that has these values, or of a free entry for NULL. TERN_VECTORS_MAX: there is none.
static size_t file_index_of(const struct tern_vectors *vectors, const float *values)
{
    size_t place = 0;
    while (place < TERN_VECTORS_MAX && vectors->files[place] != values) {
        place++;
    }
    return place;
}

static bool is_in_file(const struct tern_vectors *vectors, const float *values)
{
    return values != NULL && file_index_of(vectors, values) < TERN_VECTORS_MAX;
}

static float *new_in_file(struct tern_vectors *vectors)
{
    const size_t place = file_index_of(vectors, NULL);
    float *values =
        place < TERN_VECTORS_MAX ? tern_file_memory_new(vectors->folder, size_of(vectors)) : NULL;
    if (values != NULL) {
        vectors->files[place] = values;
        return values;
    }
    tern_log(TERN_LOG_WARN, "vector-without-file", "bytes=%zu error=%s", size_of(vectors),
             TERN_LOG_TEXT(strerror(errno)));
    return NULL;
}

float *tern_vector_new(struct tern_vectors *vectors)
{
    const uint64_t size = size_of(vectors);
    const bool fits = size <= vectors->memory && vectors->used <= vectors->memory - size;
    float *values = NULL;
    if (vectors->folder != NULL && !fits) {
        values = new_in_file(vectors);
    }
    if (values == NULL) {
        values = calloc(vectors->count, sizeof *values);
        tern_large_pages(values, (size_t)size);
        vectors->used += values != NULL ? size : 0;
    }
    return values;
}

void tern_vector_free(struct tern_vectors *vectors, float *values)
{
    if (is_in_file(vectors, values)) {
        vectors->files[file_index_of(vectors, values)] = NULL;
        tern_file_memory_free(values, size_of(vectors));
        return;
    }
    vectors->used -= values != NULL ? size_of(vectors) : 0;
    free(values);
}

void tern_vector_drop_pages(const struct tern_vectors *vectors, float *values)
{
    if (is_in_file(vectors, values)) {
        tern_file_memory_drop_pages(values, size_of(vectors));
    }
}

// --- The rule in a round's row

static bool uses(const struct tern_strategy *strategy, int parameter)
{
    return (strategy->parameters >> parameter & 1) != 0;
}

static int find_parameter(const char *name, size_t len)
{
    for (int i = 0; i < TERN_STRATEGY_PARAMETERS; i++) {
        const char *known = tern_strategy_parameter_table[i].name;
        if (strlen(known) == len && memcmp(known, name, len) == 0) {
            return i;
        }
    }
    return -1;
}

// Reads "name=value" and the comma behind it. *seen: bit i for parameter i.
static bool read_one(const char **text, struct tern_strategy_rule *rule, uint32_t *seen)
{
    size_t len = strcspn(*text, "=");
    int parameter = find_parameter(*text, len);
    if ((*text)[len] != '=' || parameter < 0) {
        return false;
    }
    const char *number = *text + len + 1;
    char *end;
    float value = strtof(number, &end);
    bool ends = end != number && (*end == ',' || *end == '\0');
    bool fits = tern_strategy_parameter_fits((enum tern_strategy_parameter)parameter, value);
    *text = *end == ',' ? end + 1 : end;
    rule->parameters[parameter] = value;
    *seen |= UINT32_C(1) << parameter;
    return ends && fits;
}

enum tern_result tern_rule_read(const struct tern_db_round *row, struct tern_strategy_rule *rule)
{
    const char *text = row->strategy_parameters;
    uint32_t seen = 0;
    memset(rule, 0, sizeof *rule);
    rule->strategy = tern_strategy_find(row->strategy);
    rule->server_learning_rate = row->server_learning_rate;
    rule->learning_rate = row->learning_rate;
    if (rule->strategy == NULL) {
        return TERN_ERR_UNKNOWN;
    }
    while (text[0] != '\0') {
        if (!read_one(&text, rule, &seen)) {
            return TERN_ERR_UNKNOWN;
        }
    }
    return seen == rule->strategy->parameters ? TERN_OK : TERN_ERR_UNKNOWN;
}

void tern_rule_write(const struct tern_strategy_rule *rule, struct tern_db_round *row)
{
    size_t len = 0;
    memset(row->strategy, 0, sizeof row->strategy);
    strncpy(row->strategy, rule->strategy->name, sizeof row->strategy - 1);
    row->server_learning_rate = rule->server_learning_rate;
    memset(row->strategy_parameters, 0, sizeof row->strategy_parameters);
    for (int i = 0; i < TERN_STRATEGY_PARAMETERS; i++) {
        char number[TERN_FLOAT_TEXT];
        if (!uses(rule->strategy, i)) {
            continue;
        }
        len +=
            (size_t)snprintf(row->strategy_parameters + len, sizeof row->strategy_parameters - len,
                             "%s%s=%s", len > 0 ? "," : "", tern_strategy_parameter_table[i].name,
                             tern_float_text(rule->parameters[i], number));
    }
}

// --- Dense tensors
//
// Dense tensors are statistics, not parameters. Whatever a strategy does with parameters, dense tensors move by the mean of the
// updates, weighted by examples and age, within the bounds on norms and examples. Under a strategy of medians they move by
// medians, so that one client's claims cannot move them at will.

// The dense values before a round; count is 0 for a model without dense tensors.
struct dense {
    const struct tern_model *model;
    uint32_t first;
    uint32_t count;
    float *before;
    float *moves; // the change of each value
};

// Counts the values of the dense segment, of which a layout has at most one.
static void find_dense(struct dense *dense, const struct tern_model *model)
{
    *dense = (struct dense){.model = model, .first = model->coded};
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        if (!tern_segment_is_coded(segment) && !tern_segment_is_skipped(segment)) {
            dense->count += segment->count;
        }
    }
}

static void free_dense(struct dense *dense)
{
    free(dense->before);
    free(dense->moves);
    dense->before = NULL;
    dense->moves = NULL;
}

static enum tern_result save_dense(struct dense *dense, const struct tern_model *model,
                                   const float *global)
{
    find_dense(dense, model);
    if (dense->count == 0) {
        return TERN_OK;
    }
    dense->before = malloc(dense->count * sizeof *dense->before);
    dense->moves = malloc(dense->count * sizeof *dense->moves);
    if (dense->before == NULL || dense->moves == NULL) {
        free_dense(dense);
        return TERN_ERR_NO_MEMORY;
    }
    memcpy(dense->before, global + dense->first, dense->count * sizeof *dense->before);
    return TERN_OK;
}

static void save_dense_moves(struct dense *dense, const float *acc)
{
    if (dense->count > 0) {
        memcpy(dense->moves, acc + dense->first, dense->count * sizeof *dense->moves);
    }
}

static enum tern_result apply_dense_moves(const struct dense *dense, float *global)
{
    for (uint32_t i = 0; i < dense->count; i++) {
        const float value = dense->before[i] + dense->moves[i];
        if (!isfinite(value)) {
            return TERN_ERR_NON_FINITE;
        }
        global[dense->first + i] = value;
    }
    return TERN_OK;
}

// --- States of the strategy and the averaged model

static enum tern_result make_states(struct tern_merge *merge, const struct tern_strategy *strategy)
{
    for (size_t i = 0; i < TERN_STRATEGY_STATES; i++) {
        if (strategy->states[i].name == NULL || merge->states[i] != NULL) {
            continue;
        }
        merge->states[i] = tern_vector_new(&merge->vectors);
        if (merge->states[i] == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
    }
    return TERN_OK;
}

// Resets the states to their initial values if the strategy is new: the states of another strategy are meaningless for it.
static enum tern_result prepare_states(struct tern_merge *merge,
                                       const struct tern_strategy_rule *rule)
{
    if (merge->state_of == rule->strategy) {
        return TERN_OK;
    }
    TERN_TRY(make_states(merge, rule->strategy));
    for (size_t i = 0; i < TERN_STRATEGY_STATES; i++) {
        if (rule->strategy->states[i].name != NULL) {
            tern_strategy_start_state(rule, i, merge->states[i], merge->model.count);
        }
    }
    merge->state_of = rule->strategy;
    return TERN_OK;
}

static enum tern_result make_average(struct tern_merge *merge)
{
    if (merge->average == NULL) {
        merge->average = tern_vector_new(&merge->vectors);
    }
    return merge->average != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}

static enum tern_result update_average(struct tern_merge *merge, uint32_t averaged)
{
    if (averaged > merge->averaged + 1) {
        return TERN_ERR_CORRUPT;
    }
    merge->averaged = averaged;
    if (averaged == 0) {
        return TERN_OK;
    }
    TERN_TRY(make_average(merge));
    if (averaged == 1) { // overwrites an earlier average
        memcpy(merge->average, merge->global, merge->model.count * sizeof(float));
        return TERN_OK;
    }
    for (uint32_t i = 0; i < merge->model.count; i++) {
        merge->average[i] += (merge->global[i] - merge->average[i]) / (float)averaged;
    }
    return TERN_OK;
}

// --- States and the averaged model in the store

struct stored_vector {
    const char *name;
    float *values;
};

#define AVERAGE "average" // stored name of the averaged model, which no state has
#define STORED_MAX (TERN_STRATEGY_STATES + 1)

// Lists the states and the averaged model. Returns their number.
static size_t list_stored(const struct tern_merge *merge, struct stored_vector list[STORED_MAX])
{
    const struct tern_strategy *strategy = merge->state_of;
    size_t count = 0;
    for (size_t i = 0; strategy != NULL && i < TERN_STRATEGY_STATES; i++) {
        if (strategy->states[i].name != NULL) {
            list[count++] = (struct stored_vector){strategy->states[i].name, merge->states[i]};
        }
    }
    if (merge->averaged > 0) {
        list[count++] = (struct stored_vector){AVERAGE, merge->average};
    }
    return count;
}

// Allocates the states and the averaged model that the version's round stored. States of an unknown strategy are ignored.
static enum tern_result make_stored(struct tern_merge *merge, struct tern_db *db,
                                    const struct tern_db_version *version)
{
    struct tern_db_round round;
    merge->state_of = NULL;
    merge->averaged = 0;
    if (version->round == 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_round_get(db, version->round, &round));
    const struct tern_strategy *strategy = tern_strategy_find(round.strategy);
    TERN_TRY(strategy != NULL ? make_states(merge, strategy) : TERN_OK);
    TERN_TRY(round.averaged > 0 ? make_average(merge) : TERN_OK);
    merge->state_of = strategy;
    merge->averaged = round.averaged;
    return TERN_OK;
}

static enum tern_result load_states(struct tern_merge *merge, struct tern_db *db,
                                    const struct tern_db_version *version)
{
    struct stored_vector list[STORED_MAX];
    TERN_TRY(make_stored(merge, db, version));
    size_t count = list_stored(merge, list);
    for (size_t i = 0; i < count; i++) {
        enum tern_result found =
            tern_db_state_get(db, list[i].name, merge->version, list[i].values, merge->model.count);
        if (found != TERN_OK) {
            merge->state_of = NULL;
            merge->averaged = 0;
            return found == TERN_ERR_NOT_FOUND ? TERN_ERR_CORRUPT : found;
        }
    }
    return TERN_OK;
}

static uint32_t state_count(const struct tern_merge *merge)
{
    struct stored_vector list[STORED_MAX];
    return (uint32_t)list_stored(merge, list);
}

static enum tern_result put_state(const struct tern_merge *merge, struct tern_db *db,
                                  uint32_t state, uint32_t part)
{
    struct stored_vector list[STORED_MAX];
    list_stored(merge, list);
    return tern_db_state_put_part(db, list[state].name, merge->version, list[state].values,
                                  merge->model.count, part);
}

enum tern_result tern_merge_check_states(struct tern_merge *merge, struct tern_db *db)
{
    struct stored_vector list[STORED_MAX];
    size_t count = list_stored(merge, list);
    size_t size = merge->model.count * sizeof(float);
    for (size_t i = 0; i < count; i++) {
        enum tern_result found =
            tern_db_state_get(db, list[i].name, merge->version, merge->acc, merge->model.count);
        if (found == TERN_ERR_NOT_FOUND ||
            (found == TERN_OK && memcmp(merge->acc, list[i].values, size) != 0)) {
            return TERN_ERR_CORRUPT;
        }
        TERN_TRY(found);
    }
    return TERN_OK;
}

static void free_states(struct tern_merge *merge)
{
    for (size_t i = 0; i < TERN_STRATEGY_STATES; i++) {
        tern_vector_free(&merge->vectors, merge->states[i]);
    }
    tern_vector_free(&merge->vectors, merge->average);
}

// --- Life

// Allocates the most used vectors first, because the first vectors get memory and later ones files.
static bool make_vectors(struct tern_merge *merge, const struct tern_merge_room *room)
{
    struct tern_vectors *vectors = &merge->vectors;
    vectors->count = merge->model.count;
    vectors->folder = room != NULL ? room->folder : NULL;
    vectors->memory = room != NULL ? room->memory : 0;
    merge->acc = tern_vector_new(vectors);
    merge->global = tern_vector_new(vectors);
    merge->replica = tern_vector_new(vectors);
    return merge->acc != NULL && merge->global != NULL && merge->replica != NULL;
}

enum tern_result tern_merge_init(struct tern_merge *merge,
                                 const struct tern_db_federation *federation,
                                 const struct tern_merge_room *room)
{
    memset(merge, 0, sizeof *merge);
    TERN_TRY(tern_model_build(&merge->model, federation->model_spec, federation->manifest,
                              federation->manifest_len, federation->model_hash));
    merge->seed = federation->seed;
    struct tern_download_buffers *buffers = &merge->buffers;
    buffers->blob_size = tern_container_bound_any(&merge->model) + TERN_WIRE_OVERHEAD;
    buffers->blob = malloc(buffers->blob_size);
    const bool made = make_vectors(merge, room);
    buffers->scratch = merge->acc;
    if (!made || buffers->blob == NULL) {
        tern_merge_free(merge);
        return TERN_ERR_NO_MEMORY;
    }
    return TERN_OK;
}

void tern_merge_free(struct tern_merge *merge)
{
    tern_vector_free(&merge->vectors, merge->global);
    tern_vector_free(&merge->vectors, merge->replica);
    tern_vector_free(&merge->vectors, merge->acc);
    free_states(merge);
    tern_merge_stop(merge);
    tern_update_bounds_clear(&merge->bounds);
    free(merge->buffers.blob);
    memset(merge, 0, sizeof *merge);
}

// Lets the pages of vectors in files leave memory until the next use.
static void drop_file_pages(const struct tern_merge *merge)
{
    tern_vector_drop_pages(&merge->vectors, merge->replica);
    for (size_t i = 0; i < TERN_STRATEGY_STATES; i++) {
        tern_vector_drop_pages(&merge->vectors, merge->states[i]);
    }
    tern_vector_drop_pages(&merge->vectors, merge->average);
}

// Weights are hashed in the byte order of memory.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the hash is of little-endian values");

void tern_merge_hash(const float *weights, uint32_t count, uint8_t sha256[TERN_SHA256_SIZE])
{
    tern_sha256(weights, (size_t)count * sizeof(float), sha256);
}

// Computes the norms of a version that was loaded.
static void compute_norms(struct tern_merge *merge)
{
    merge->norm = tern_distance(merge->global, NULL, merge->model.count);
    merge->residual = tern_distance(merge->global, merge->replica, merge->model.count);
}

void tern_merge_seed(struct tern_merge *merge, uint64_t seed)
{
    const struct tern_model *model = &merge->model;
    merge->version = 0;
    merge->state_of = NULL;
    merge->averaged = 0;
    tern_model_init_weights(model, seed, merge->global);
    memcpy(merge->replica, merge->global, model->count * sizeof(float));
    tern_replica_from_seed(model->hash, seed, merge->replica_id);
    tern_merge_hash(merge->global, model->count, merge->model_sha256);
    compute_norms(merge);
}

enum tern_result tern_merge_first(struct tern_merge *merge, struct tern_db *db)
{
    const struct tern_model *model = &merge->model;
    if (tern_model_is_seeded(model)) {
        tern_merge_seed(merge, merge->seed);
        return TERN_OK;
    }
    TERN_TRY(tern_db_weights_get(db, TERN_WEIGHTS_INITIAL, 0, merge->global, model->count));
    merge->version = 0;
    merge->state_of = NULL;
    merge->averaged = 0;
    memcpy(merge->replica, merge->global, model->count * sizeof(float));
    tern_merge_hash(merge->global, model->count, merge->model_sha256);
    tern_replica_from_weights(model->hash, merge->model_sha256, merge->replica_id);
    compute_norms(merge);
    return TERN_OK;
}

// --- The newest version

static enum tern_result put_part(const struct tern_merge *merge, struct tern_db *db,
                                 uint32_t vector, uint32_t part)
{
    const uint32_t states = state_count(merge);
    const uint32_t count = merge->model.count;
    if (vector < states) {
        return put_state(merge, db, vector, part);
    }
    return vector == states ? tern_db_weights_put_part(db, TERN_WEIGHTS_REPLICA, merge->version,
                                                       merge->replica, count, part)
                            : tern_db_weights_put_part(db, TERN_WEIGHTS_GLOBAL, merge->version,
                                                       merge->global, count, part);
}

// Writes vector after vector, each from its last part to its first, as store.h requires.
enum tern_result tern_merge_checkpoint(struct tern_merge *merge, struct tern_db *db, uint64_t bytes)
{
    const uint32_t parts = tern_db_vector_parts(merge->model.count);
    const uint32_t all = (state_count(merge) + 2) * parts;
    const uint64_t part_bytes = (uint64_t)merge->model.count * sizeof(float) / parts;
    for (uint64_t done = 0; done < bytes && merge->checkpoint_parts < all; done += part_bytes) {
        const uint32_t next = merge->checkpoint_parts;
        TERN_TRY(put_part(merge, db, next / parts, parts - 1 - next % parts));
        merge->checkpoint_parts++;
    }
    if (merge->checkpoint_parts == all) {
        merge->checkpoint = merge->version;
    }
    drop_file_pages(merge);
    return TERN_OK;
}

static enum tern_result load_checkpoint(struct tern_merge *merge, struct tern_db *db,
                                        struct tern_db_version *version)
{
    const uint32_t count = merge->model.count;
    TERN_TRY(tern_db_checkpoint(db, &merge->version));
    TERN_TRY(tern_db_weights_get(db, TERN_WEIGHTS_GLOBAL, merge->version, merge->global, count));
    const enum tern_result replica =
        tern_db_weights_get(db, TERN_WEIGHTS_REPLICA, merge->version, merge->replica, count);
    TERN_TRY(replica == TERN_ERR_NOT_FOUND ? TERN_ERR_CORRUPT : replica);
    TERN_TRY(tern_db_version_get(db, merge->version, version));
    tern_merge_hash(merge->global, count, merge->model_sha256);
    if (memcmp(merge->model_sha256, version->model_sha256, TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_CORRUPT;
    }
    memcpy(merge->replica_id, version->replica, TERN_SHA256_SIZE);
    merge->checkpoint = merge->version;
    merge->checkpoint_parts = 0;
    compute_norms(merge);
    return load_states(merge, db, version);
}

static enum tern_result merge_again(struct tern_merge *merge, struct tern_db *db,
                                    const struct tern_db_round *round)
{
    struct tern_download_made made;
    struct tern_strategy_report report;
    struct tern_db_version version;
    TERN_TRY(tern_merge_round(merge, db, round, &made, &report));
    TERN_TRY(tern_db_version_get(db, merge->version, &version));
    const bool same = memcmp(merge->model_sha256, version.model_sha256, TERN_SHA256_SIZE) == 0 &&
                      memcmp(merge->replica_id, version.replica, TERN_SHA256_SIZE) == 0;
    return same ? TERN_OK : TERN_ERR_CORRUPT;
}

enum tern_result tern_merge_load(struct tern_merge *merge, struct tern_db *db)
{
    struct tern_db_version version;
    struct tern_db_round round;
    tern_merge_stop(merge); // the arrived updates may be of a closed round
    TERN_TRY(load_checkpoint(merge, db, &version));
    for (uint32_t i = version.round + 1;; i++) {
        enum tern_result result = tern_db_round_get(db, i, &round);
        if (result != TERN_OK || round.state == TERN_ROUND_OPEN) {
            return tern_db_may_miss(result);
        }
        if (round.state == TERN_ROUND_ABANDONED) {
            continue;
        }
        result = merge_again(merge, db, &round);
        if (result != TERN_OK) {
            return result == TERN_ERR_NOT_FOUND ? TERN_ERR_CORRUPT : result;
        }
    }
}

// --- A round's updates

struct counting {
    struct tern_strategy_totals *totals; // NULL: the totals are already counted
    struct tern_update_bounds *bounds;
};

static enum tern_result count_update(void *ctx, const struct tern_db_update *update)
{
    const struct counting *counting = ctx;
    struct tern_contribution contribution;
    struct tern_span container;
    TERN_TRY(tern_stored_read(update, &contribution, &container));
    TERN_TRY(tern_update_bounds_add(counting->bounds, update->client, update->round, &contribution,
                                    -1.0));
    return counting->totals != NULL ? tern_strategy_count_update(counting->totals, &contribution)
                                    : TERN_OK;
}

enum tern_result tern_merge_count(struct tern_db *db, const struct tern_db_round *round,
                                  struct tern_strategy_totals *totals,
                                  struct tern_update_bounds *bounds)
{
    struct tern_strategy_rule rule;
    TERN_TRY(tern_rule_read(round, &rule));
    tern_strategy_totals_init(totals, &rule);
    tern_update_bounds_clear(bounds);
    struct counting counting = {totals, bounds};
    return tern_db_update_each(db, round->round, count_update, &counting);
}

// Bounds the claims of the round's updates. The bounds that were noted as updates arrived are incomplete if memory was short
// or the aggregator restarted; then all stored updates are read.
static enum tern_result limit_claims(struct tern_merge *merge, struct tern_db *db,
                                     const struct tern_db_round *round,
                                     struct tern_strategy_totals *totals)
{
    struct counting counting = {NULL, &merge->bounds};
    const bool is_whole = merge->noted && merge->bounds.count == totals->updates;
    merge->noted = false;
    if (!is_whole) {
        tern_merge_stop(merge);
        tern_update_bounds_clear(&merge->bounds);
    }
    if (!is_whole && tern_update_bounds_matter(&totals->rule)) {
        TERN_TRY(tern_db_update_each(db, round->round, count_update, &counting));
    }
    return tern_update_bounds_claims(&merge->bounds, totals);
}

// --- Updates as they arrive

static uint64_t memory_of(const struct tern_merge *merge)
{
    return merge->memory != 0 ? merge->memory : TERN_MERGE_MEMORY;
}

void tern_merge_open(struct tern_merge *merge, const struct tern_strategy_rule *rule)
{
    tern_merge_stop(merge);
    tern_update_bounds_clear(&merge->bounds);
    merge->noted = true;
    merge->arrives = tern_strategy_is_plain_mean(rule->strategy);
    if (merge->arrives) {
        tern_exact_mean_begin(&merge->arrived, &merge->model, rule, memory_of(merge), 0,
                              merge->model.count);
    }
}

void tern_merge_stop(struct tern_merge *merge)
{
    tern_exact_mean_clear(&merge->arrived);
    merge->deferred = 0;
    merge->arrives = false;
}

// An update is added at the close, and not as it arrives, if more values than this would have to be decoded.
#define DEFERRED_ABOVE 262144u

// The most updates that a close adds, so that it does not take long. Further ones are added as they arrive.
#define DEFERRED_MOST 64u

// Whether decoding the update's values takes long. The values in its reading are decoded already.
static bool is_worth_deferring(const struct tern_merge *merge, const struct tern_arrival *arrival)
{
    uint32_t undecoded = 0;
    for (uint32_t i = 0; i < merge->model.segment_count; i++) {
        const struct tern_segment *segment = &merge->model.segments[i];
        undecoded += tern_segment_is_skipped(segment) || tern_reading_keeps(arrival->reading, i)
                         ? 0
                         : segment->count;
    }
    return undecoded > DEFERRED_ABOVE && merge->deferred < DEFERRED_MOST;
}

// Lets the close add the values of the update that was added to the bounds last.
static void defer(struct tern_merge *merge)
{
    merge->bounds.list[merge->bounds.count - 1].deferred = true;
    merge->deferred++;
}

// Adds an update, also a late one, to the bounds. If memory is short, the close of the round computes all bounds.
static void note_arrival(struct tern_merge *merge, const struct tern_arrival *arrival)
{
    if (tern_update_bounds_add(&merge->bounds, arrival->client, arrival->round,
                               &arrival->contribution, arrival->sum_square) != TERN_OK) {
        tern_merge_stop(merge);
    }
}

void tern_merge_arrive(struct tern_merge *merge, const struct tern_arrival *arrival)
{
    note_arrival(merge, arrival);
    if (merge->arrives && is_worth_deferring(merge, arrival)) {
        defer(merge);
    } else if (merge->arrives && tern_exact_mean_arrive(&merge->arrived, arrival) != TERN_OK) {
        tern_merge_stop(merge);
    }
}

struct resuming {
    struct tern_merge *merge;
    struct tern_strategy_totals *totals;
};

static enum tern_result count_and_defer(void *ctx, const struct tern_db_update *update)
{
    const struct resuming *resuming = ctx;
    struct tern_merge *merge = resuming->merge;
    struct tern_arrival arrival = {
        .client = update->client, .round = update->round, .sum_square = -1.0};
    TERN_TRY(tern_stored_read(update, &arrival.contribution, &arrival.container));
    TERN_TRY(tern_strategy_count_update(resuming->totals, &arrival.contribution));
    note_arrival(merge, &arrival);
    if (merge->arrives) {
        defer(merge);
    }
    return TERN_OK;
}

enum tern_result tern_merge_resume(struct tern_merge *merge, struct tern_db *db,
                                   const struct tern_db_round *round,
                                   struct tern_strategy_totals *totals)
{
    struct tern_strategy_rule rule;
    struct resuming resuming = {merge, totals};
    TERN_TRY(tern_rule_read(round, &rule));
    tern_strategy_totals_init(totals, &rule);
    tern_merge_open(merge, &rule);
    return tern_db_update_each(db, round->round, count_and_defer, &resuming);
}

// The deferred update whose stored values are being added.
struct adding {
    struct tern_merge *merge;
    struct tern_update_bound *bound;
};

static enum tern_result add_stored(void *ctx, const struct tern_db_update *update)
{
    const struct adding *adding = ctx;
    struct tern_contribution contribution;
    struct tern_codec_info info;
    struct tern_span container;
    TERN_TRY(tern_stored_read(update, &contribution, &container));
    TERN_TRY(tern_exact_mean_add(&adding->merge->arrived, &contribution, container.data,
                                 container.len, NULL, &info));
    adding->bound->sum_square = info.sum_square;
    return TERN_OK;
}

// Adds the values of deferred updates. After a failure take_mean() reads all updates.
static void add_deferred(struct tern_merge *merge, struct tern_db *db, uint32_t round)
{
    merge->arrived.lent_scratch = merge->acc; // until take_mean() writes the mean there
    for (uint32_t i = 0; merge->deferred > 0 && i < merge->bounds.count; i++) {
        struct adding adding = {merge, &merge->bounds.list[i]};
        if (adding.bound->deferred &&
            tern_db_update_show(db, round, adding.bound->client, add_stored, &adding) != TERN_OK) {
            tern_merge_stop(merge);
        }
    }
}

// --- The mean, and strategies with combine()

static enum tern_result accumulate_update(void *ctx, const struct tern_db_update *update)
{
    struct tern_contribution contribution;
    struct tern_span container;
    TERN_TRY(tern_stored_read(update, &contribution, &container));
    return tern_strategy_accumulate(ctx, container.data, container.len);
}

// Passes the stored updates to the strategy until its passes are complete.
static enum tern_result combine(struct tern_strategy_sums *sums, struct tern_db *db,
                                const struct tern_db_round *round)
{
    uint32_t pass = 0;
    uint32_t first = 0;
    do {
        pass = sums->pass;
        first = sums->first;
        TERN_TRY(tern_db_update_each(db, round->round, accumulate_update, sums));
    } while (!tern_strategy_is_complete(sums) && (sums->pass != pass || sums->first != first));
    return TERN_OK;
}

static enum tern_result take_arrived(struct tern_merge *merge, struct tern_db *db,
                                     const struct tern_db_round *round,
                                     const struct tern_strategy_totals *totals)
{
    TERN_TRY(tern_update_bounds_set(&merge->bounds, totals));
    TERN_TRY(tern_stored_reweigh(&merge->arrived, db, round, &merge->bounds));
    tern_exact_mean_take(&merge->arrived, totals, merge->acc);
    return TERN_OK;
}

// Sets merge->acc to the mean of the round's updates: from the sums in memory if these have all updates, otherwise from the
// stored updates, with the same bits. Frees the sums.
static enum tern_result take_mean(struct tern_merge *merge, struct tern_db *db,
                                  const struct tern_db_round *round,
                                  struct tern_strategy_sums *sums)
{
    const struct tern_strategy_totals *totals = &sums->totals;
    enum tern_result result = TERN_ERR_NO_SPACE;
    if (merge->arrives && merge->arrived.updates == totals->updates) {
        result = take_arrived(merge, db, round, totals);
    }
    tern_merge_stop(merge); // frees memory for reading the stored updates
    if (result == TERN_ERR_NO_SPACE) {
        result = tern_stored_mean(&merge->model, db, round, totals, memory_of(merge),
                                  &merge->bounds, merge->acc);
    }
    TERN_TRY(result);
    return tern_strategy_take_mean(sums);
}

// Allocates memory for as many coordinates of all updates as the limit allows, at least one.
static enum tern_result make_room(const struct tern_merge *merge,
                                  const struct tern_strategy_totals *totals,
                                  struct tern_strategy_memory *memory)
{
    const struct tern_strategy *strategy = totals->rule.strategy;
    const uint32_t updates = totals->updates;
    uint64_t all = (uint64_t)merge->model.count * updates;
    uint64_t room = memory_of(merge) / sizeof(float);
    room = room < all ? room : all;
    room = room > updates ? room : updates;
    if (updates == 0) {
        return TERN_ERR_STATE;
    }
    const uint64_t scratch = strategy->scratch(updates);
    if (room > SIZE_MAX / sizeof(float) || scratch > SIZE_MAX) {
        return TERN_ERR_NO_MEMORY;
    }
    memory->values_room = (size_t)room;
    memory->values = malloc((size_t)room * sizeof(float));
    memory->decoded = malloc((size_t)merge->model.count * sizeof(float));
    memory->scratch = malloc((size_t)scratch);
    bool made = memory->values != NULL && memory->decoded != NULL && memory->scratch != NULL;
    return made ? TERN_OK : TERN_ERR_NO_MEMORY;
}

// Sets merge->acc to the mean of the updates, or to the result of combine().
static enum tern_result merge_updates(struct tern_merge *merge, struct tern_db *db,
                                      const struct tern_db_round *round,
                                      const struct tern_strategy_totals *totals,
                                      struct tern_strategy_sums *sums)
{
    struct tern_strategy_memory memory = {.acc = merge->acc};
    memcpy(memory.states, merge->states, sizeof memory.states);
    if (totals->rule.strategy->combine == NULL) {
        tern_strategy_begin(sums, &merge->model, totals, &memory);
        return take_mean(merge, db, round, sums);
    }
    tern_update_bounds_clear(&merge->bounds);
    enum tern_result result = make_room(merge, totals, &memory);
    if (result == TERN_OK) {
        tern_strategy_begin(sums, &merge->model, totals, &memory);
        result = combine(sums, db, round);
    }
    free(memory.values);
    free(memory.decoded);
    free(memory.scratch);
    return result;
}

// Changes the global model and the states.
static enum tern_result apply_strategy(struct tern_merge *merge, struct tern_db *db,
                                       const struct tern_db_round *round,
                                       const struct tern_strategy_totals *totals,
                                       struct dense *dense, struct tern_strategy_report *report)
{
    struct tern_strategy_sums sums;
    TERN_TRY(prepare_states(merge, &totals->rule));
    TERN_TRY(merge_updates(merge, db, round, totals, &sums));
    save_dense_moves(dense, merge->acc);
    TERN_TRY(tern_strategy_merge(&sums, merge->global));
    TERN_TRY(apply_dense_moves(dense, merge->global));
    tern_strategy_fill_report(&sums, report);
    return TERN_OK;
}

// --- The next version

// Makes the delta. A difference beyond the range of the codec (float16 ends at 65504) is sent as float32, because
// acknowledged updates must be merged whatever the model has become. The container names its codec. A client that has not
// announced float32 gets neither this delta nor a snapshot.
static enum tern_result make_delta(struct tern_merge *merge, const struct tern_codec *codec,
                                   struct tern_download_made *made)
{
    static const struct tern_codec dense = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    const struct tern_encode_context context = {.seed = merge->seed, .round = merge->version + 1};
    enum tern_result result =
        tern_download_delta(&merge->model, codec, &context, merge->global, merge->replica,
                            merge->replica_id, &merge->buffers, made);
    if (result == TERN_ERR_NON_FINITE && codec->id != TERN_CODEC_FLOAT32) {
        result = tern_download_delta(&merge->model, &dense, &context, merge->global, merge->replica,
                                     merge->replica_id, &merge->buffers, made);
    }
    return result;
}

// Changes the global model, the states, the dense tensors and the averaged model.
static enum tern_result apply_round(struct tern_merge *merge, struct tern_db *db,
                                    const struct tern_db_round *round,
                                    const struct tern_strategy_totals *totals,
                                    struct tern_strategy_report *report)
{
    struct dense dense;
    enum tern_result result = save_dense(&dense, &merge->model, merge->global);
    if (result == TERN_OK) {
        result = apply_strategy(merge, db, round, totals, &dense, report);
    }
    free_dense(&dense);
    tern_merge_stop(merge);
    return result != TERN_OK ? result : update_average(merge, round->averaged);
}

// Sets the global model to the pinned weights that the round restores. Weights of an earlier version must have its hash.
static enum tern_result load_pinned(struct tern_merge *merge, struct tern_db *db,
                                    const struct tern_db_round *round)
{
    struct tern_db_version version;
    uint8_t sha256[TERN_SHA256_SIZE];
    TERN_TRY(tern_db_pinned_get(db, round->strategy_parameters, round->restored, merge->global,
                                merge->model.count));
    if (round->strategy_parameters[0] != '\0') {
        return TERN_OK;
    }
    TERN_TRY(tern_db_version_get(db, round->restored, &version));
    tern_merge_hash(merge->global, merge->model.count, sha256);
    return memcmp(sha256, version.model_sha256, sizeof sha256) == 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

// Begins without states and without an averaged model, because both contain the versions that are undone.
static void begin_anew(struct tern_merge *merge, struct tern_merge_next *next)
{
    tern_merge_stop(merge);
    tern_update_bounds_clear(&merge->bounds);
    merge->noted = false;
    merge->state_of = NULL;
    merge->averaged = 0;
    memset(&next->totals, 0, sizeof next->totals);
    memset(&next->report, 0, sizeof next->report);
}

static enum tern_result merge_stored(struct tern_merge *merge, struct tern_db *db,
                                     const struct tern_db_round *round,
                                     const struct tern_strategy_totals *totals,
                                     struct tern_merge_next *next)
{
    next->totals = *totals;
    add_deferred(merge, db, round->round);
    TERN_TRY(limit_claims(merge, db, round, &next->totals));
    return apply_round(merge, db, round, &next->totals, &next->report);
}

// Makes the download, norms and hash of the changed global model. rule: NULL = of a restored round
static enum tern_result make_version(struct tern_merge *merge, const struct tern_db_round *round,
                                     const struct tern_strategy_rule *rule,
                                     struct tern_merge_next *next)
{
    struct tern_codec codec;
    if (tern_codec_parse(round->codec_down, &codec, NULL) != TERN_OK) {
        return TERN_ERR_UNKNOWN;
    }
    drop_file_pages(merge);
    TERN_TRY(make_delta(merge, &codec, &next->made));
    if (rule != NULL && rule->strategy->damp_stale_updates != NULL) {
        rule->strategy->damp_stale_updates(rule, merge->global, merge->replica, merge->model.count,
                                           merge->states);
    }
    next->norm = tern_distance(merge->global, NULL, merge->model.count);
    next->residual = tern_distance(merge->global, merge->replica, merge->model.count);
    drop_file_pages(merge);
    tern_merge_hash(merge->global, merge->model.count, next->model_sha256);
    return TERN_OK;
}

enum tern_result tern_merge_make(struct tern_merge *merge, struct tern_db *db,
                                 const struct tern_db_round *round,
                                 const struct tern_strategy_totals *totals,
                                 struct tern_merge_next *next)
{
    if (round->mode == TERN_ROUND_RESTORED) {
        begin_anew(merge, next);
        TERN_TRY(load_pinned(merge, db, round));
        return make_version(merge, round, NULL, next);
    }
    TERN_TRY(merge_stored(merge, db, round, totals, next));
    return make_version(merge, round, &totals->rule, next);
}

enum tern_result tern_merge_restore(struct tern_merge *merge, const struct tern_db_round *round)
{
    struct tern_merge_next next;
    begin_anew(merge, &next);
    TERN_TRY(make_version(merge, round, NULL, &next));
    tern_merge_adopt(merge, &next);
    return TERN_OK;
}

void tern_merge_adopt(struct tern_merge *merge, const struct tern_merge_next *next)
{
    merge->version++;
    merge->checkpoint_parts = 0;
    memcpy(merge->replica_id, next->made.replica, TERN_SHA256_SIZE);
    memcpy(merge->model_sha256, next->model_sha256, TERN_SHA256_SIZE);
    merge->norm = next->norm;
    merge->residual = next->residual;
}

enum tern_result tern_merge_round(struct tern_merge *merge, struct tern_db *db,
                                  const struct tern_db_round *round,
                                  struct tern_download_made *made,
                                  struct tern_strategy_report *report)
{
    struct tern_strategy_totals totals = {.updates = 0};
    struct tern_merge_next next;
    if (round->mode != TERN_ROUND_RESTORED) {
        TERN_TRY(tern_merge_count(db, round, &totals, &merge->bounds));
        merge->noted = true;
    }
    TERN_TRY(tern_merge_make(merge, db, round, &totals, &next));
    tern_merge_adopt(merge, &next);
    *made = next.made;
    *report = next.report;
    return TERN_OK;
}
