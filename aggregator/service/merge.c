#include "service/merge.h"

#include "util/bytes.h"
#include "wire/wire.h"
#include <stdlib.h>
#include <string.h>

enum tern_result tern_merge_init(struct tern_merge *merge,
                                 const struct tern_db_federation *federation)
{
    memset(merge, 0, sizeof *merge);
    if (tern_model_from_spec(&merge->model, federation->model_spec) != TERN_OK ||
        memcmp(merge->model.hash, federation->model_hash, TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    merge->seed = federation->seed;
    size_t count = merge->model.count;
    struct tern_download_buffers *buffers = &merge->buffers;
    buffers->container_size = tern_container_bound_any(&merge->model);
    buffers->blob_size = buffers->container_size + TERN_WIRE_OVERHEAD;
    merge->global = calloc(count, sizeof(float));
    merge->replica = calloc(count, sizeof(float));
    merge->acc = calloc(count, sizeof(float));
    buffers->container = malloc(buffers->container_size);
    buffers->blob = malloc(buffers->blob_size);
    buffers->scratch = merge->acc;
    if (merge->global == NULL || merge->replica == NULL || merge->acc == NULL ||
        buffers->container == NULL || buffers->blob == NULL) {
        tern_merge_free(merge);
        return TERN_ERR_NO_MEMORY;
    }
    return TERN_OK;
}

void tern_merge_free(struct tern_merge *merge)
{
    free(merge->global);
    free(merge->replica);
    free(merge->acc);
    free(merge->buffers.container);
    free(merge->buffers.blob);
    memset(merge, 0, sizeof *merge);
}

void tern_merge_hash(const float *weights, uint32_t count, uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_sha256 ctx;
    uint8_t bytes[1024];
    tern_sha256_init(&ctx);
    for (uint32_t done = 0; done < count;) {
        size_t len = 0;
        while (done < count && len < sizeof bytes) {
            tern_put_f32(bytes + len, weights[done++]);
            len += 4;
        }
        tern_sha256_update(&ctx, bytes, len);
    }
    tern_sha256_final(&ctx, sha256);
}

void tern_merge_seed(struct tern_merge *merge, uint64_t seed)
{
    const struct tern_model *model = &merge->model;
    merge->version = 0;
    tern_model_init_weights(model, seed, merge->global);
    memcpy(merge->replica, merge->global, model->count * sizeof(float));
    tern_replica_from_seed(model->hash, seed, merge->replica_id);
    tern_merge_hash(merge->global, model->count, merge->model_sha256);
}

enum tern_result tern_merge_load(struct tern_merge *merge, struct tern_db *db)
{
    uint32_t count = merge->model.count;
    uint32_t replica_version = 0;
    TERN_TRY(tern_db_weights_get(db, TERN_WEIGHTS_GLOBAL, &merge->version, merge->global, count));
    TERN_TRY(
        tern_db_weights_get(db, TERN_WEIGHTS_REPLICA, &replica_version, merge->replica, count));
    struct tern_db_version version;
    TERN_TRY(tern_db_version_get(db, merge->version, &version));
    tern_merge_hash(merge->global, count, merge->model_sha256);
    if (replica_version != merge->version ||
        memcmp(merge->model_sha256, version.model_sha256, TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_CORRUPT;
    }
    memcpy(merge->replica_id, version.replica, TERN_SHA256_SIZE);
    return TERN_OK;
}

static enum tern_result read_update(const struct tern_db_update *update,
                                    struct tern_contribution *contribution,
                                    struct tern_span *container)
{
    tern_Update message;
    if (update->body == NULL) {
        return TERN_ERR_NOT_FOUND;
    }
    TERN_TRY(tern_wire_decode_update(update->body, update->body_len, &message, container));
    contribution->num_examples = message.num_examples;
    contribution->local_steps = message.local_steps;
    contribution->loss = message.loss;
    return TERN_OK;
}

static enum tern_result count_update(void *ctx, const struct tern_db_update *update)
{
    struct tern_contribution contribution;
    struct tern_span container;
    TERN_TRY(read_update(update, &contribution, &container));
    return tern_strategy_count(ctx, &contribution);
}

static enum tern_result accumulate_update(void *ctx, const struct tern_db_update *update)
{
    struct tern_strategy_sums *sums = ctx;
    struct tern_contribution contribution;
    struct tern_span container;
    TERN_TRY(read_update(update, &contribution, &container));
    return sums->strategy->accumulate(sums, &contribution, container.data, container.len);
}

enum tern_result tern_merge_count(struct tern_db *db, uint32_t round,
                                  struct tern_strategy_totals *totals)
{
    memset(totals, 0, sizeof *totals);
    return tern_db_update_each(db, round, count_update, totals);
}

enum tern_result tern_merge_round(struct tern_merge *merge, struct tern_db *db,
                                  const struct tern_db_round *round,
                                  struct tern_download_made *made,
                                  struct tern_strategy_report *report)
{
    struct tern_strategy_totals totals;
    TERN_TRY(tern_merge_count(db, round->round, &totals));
    return tern_merge_counted(merge, db, round, &totals, made, report);
}

// Makes the delta. A difference beyond what the codec can hold (float16 ends at 65504) goes as
// float32 this once, because updates that were acknowledged must be merged whatever the model has
// come to. A container says itself what it holds; a client that has not announced float32 is given
// neither this delta nor a snapshot.
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

enum tern_result tern_merge_counted(struct tern_merge *merge, struct tern_db *db,
                                    const struct tern_db_round *round,
                                    const struct tern_strategy_totals *totals,
                                    struct tern_download_made *made,
                                    struct tern_strategy_report *report)
{
    const struct tern_strategy *strategy = tern_strategy_find(round->strategy);
    struct tern_codec codec;
    if (strategy == NULL || tern_codec_parse(round->codec_down, &codec, NULL) != TERN_OK) {
        return TERN_ERR_UNKNOWN;
    }
    struct tern_strategy_sums sums;
    tern_strategy_begin(&sums, strategy, &merge->model, round->server_learning_rate, totals,
                        merge->acc);
    TERN_TRY(tern_db_update_each(db, round->round, accumulate_update, &sums));
    TERN_TRY(strategy->merge(&sums, merge->global));
    strategy->report(&sums, report);

    TERN_TRY(make_delta(merge, &codec, made));
    merge->version++;
    memcpy(merge->replica_id, made->replica, TERN_SHA256_SIZE);
    tern_merge_hash(merge->global, merge->model.count, merge->model_sha256);
    return TERN_OK;
}
