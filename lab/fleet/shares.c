#include "fleet/shares.h"
#include "data/columns.h"
#include "hosted/data_spec.h"
#include "hosted/log.h"
#include "wire/wire.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum tern_result share_out(const struct tern_fleet_settings *settings, uint32_t clients,
                                  struct tern_shares *shares, char why[512])
{
    const struct tern_partition_config config = {.kind = shares->kind,
                                                 .clients = clients,
                                                 .min_examples = 1,
                                                 .alpha = (float)settings->data_alpha,
                                                 .seed = settings->data_seed};
    char partition_why[TERN_PARTITION_WHY_MAX];
    const enum tern_result result =
        tern_partition_make(&config, &shares->data.train, &shares->partition, partition_why);
    if (result != TERN_OK) {
        snprintf(why, 512, "data.partition: %s", partition_why);
        tern_data_close(&shares->data);
    }
    return result;
}

// Returns whether the source is a table or two-dimensional arrays, without scale=. Pictures and generated data have
// suitable scales.
static bool is_raw_table(const char *text, const struct tern_dataset *train)
{
    char why[TERN_DATA_WHY_MAX];
    struct tern_data_spec spec;
    if (train->values == NULL || train->height != 1 || train->channels != 1 ||
        tern_data_spec_parse(&spec, text, why) != TERN_OK) {
        return false;
    }
    const bool reads_numbers = strcmp(spec.kind, "csv") == 0 || strcmp(spec.kind, "npz") == 0 ||
                               strcmp(spec.kind, "npy") == 0;
    return reads_numbers && tern_spec_option(&spec, "scale") == NULL &&
           tern_spec_option(&spec, "mean") == NULL && tern_spec_option(&spec, "std") == NULL;
}

enum tern_result tern_shares_open(const struct tern_fleet_settings *settings, uint32_t clients,
                                  struct tern_shares *shares, char why[512])
{
    char spec[TERN_DATA_SPEC_MAX];
    char data_why[TERN_DATA_WHY_MAX];
    *shares = (struct tern_shares){.mutex = PTHREAD_MUTEX_INITIALIZER};
    if (tern_partition_kind_from_name(settings->data_partition, &shares->kind) != TERN_OK) {
        snprintf(why, 512, "data.partition '%s' is not " TERN_PARTITION_NAMES,
                 settings->data_partition);
        return TERN_ERR_CONFIG;
    }
    tern_data_spec_join(settings->data_source, settings->data_dir, spec);
    const enum tern_result result = tern_dataset_open(spec, NULL, &shares->data, data_why);
    if (result != TERN_OK) {
        snprintf(why, 512, "%s", data_why);
        return result;
    }
    shares->standardises = is_raw_table(spec, &shares->data.train);
    if (shares->data.test.count == 0) {
        snprintf(why, 512,
                 "data.source has no test examples, and a fleet measures every version on them: "
                 "give it a test file or arrays, or a larger test=SHARE");
        tern_data_close(&shares->data);
        return TERN_ERR_CONFIG;
    }
    return share_out(settings, clients, shares, why);
}

struct tern_view tern_shares_of(const struct tern_shares *shares, uint32_t client)
{
    return tern_partition_view(&shares->partition, &shares->data.train, client);
}

enum tern_result tern_shares_flip(struct tern_shares *shares)
{
    const struct tern_dataset *train = &shares->data.train;
    shares->flipped_labels = malloc(train->count * sizeof shares->flipped_labels[0]);
    if (shares->flipped_labels == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < train->count; i++) {
        shares->flipped_labels[i] = (uint16_t)(train->class_count - 1 - train->labels[i]);
    }
    shares->flipped = *train;
    shares->flipped.labels = shares->flipped_labels;
    return TERN_OK;
}

struct tern_view tern_shares_flipped_of(const struct tern_shares *shares, uint32_t client)
{
    struct tern_view own = tern_shares_of(shares, client);
    own.dataset = &shares->flipped;
    return own;
}

void tern_shares_owners(const struct tern_shares *shares, uint32_t *owners)
{
    const struct tern_dataset *train = &shares->data.train;
    for (uint32_t g = 0; g < train->group_count; g++) {
        owners[g] = TERN_NO_CLIENT;
    }
    for (uint32_t c = 0; c < shares->partition.client_count; c++) {
        const struct tern_view own = tern_shares_of(shares, c);
        for (uint32_t i = 0; i < own.count; i++) {
            owners[train->groups[own.indices[i]]] = c;
        }
    }
}

// --- Columns

#define REMEDY "scale=standard in data.source, or statistics.columns = clients"

static enum tern_result refuse_scaled(const struct tern_shares *shares)
{
    if (!shares->data.scaled) {
        return TERN_OK;
    }
    tern_log(TERN_LOG_ERROR, "scaled-twice", "why=%s",
             TERN_LOG_TEXT("the federation scales columns by statistics that its clients share "
                           "(statistics.columns): remove scale=... from data.source"));
    return TERN_ERR_CONFIG;
}

// Turns variances into deviations; a constant column keeps its scale.
static void make_deviations(uint8_t *columns, uint32_t count)
{
    const struct tern_span span = {columns, (size_t)count * TERN_WIRE_COLUMN_BYTES};
    for (uint32_t c = 0; c < count; c++) {
        struct tern_column_pair pair = tern_column_get(span, c);
        pair.spread = pair.spread > 0.0f ? sqrtf(pair.spread) : 1.0f;
        tern_column_put(columns, c, pair);
    }
}

#define OWN_TAG 1 // tag of a scaling that the fleet made itself

static enum tern_result standardise(struct tern_shares *shares)
{
    const uint32_t count = tern_data_columns(&shares->data);
    const struct tern_view all = tern_view_all(&shares->data.train);
    uint8_t *columns = malloc((size_t)count * TERN_WIRE_COLUMN_BYTES);
    uint32_t examples = 0;
    enum tern_result result = TERN_ERR_NO_MEMORY;
    if (columns != NULL) {
        result = tern_columns_measure(&all, columns, &examples);
    }
    if (result == TERN_OK) {
        make_deviations(columns, count);
        result = tern_shares_scale(shares, OWN_TAG, columns);
    }
    free(columns);
    return result;
}

void tern_shares_train(struct tern_shares *shares)
{
    pthread_mutex_lock(&shares->mutex);
    if (!shares->trains && shares->standardises && shares->scaling == 0) {
        const enum tern_result result = standardise(shares);
        shares->standardises = result == TERN_OK;
        if (result != TERN_OK) {
            tern_log(TERN_LOG_WARN, "not-standardised", "why=%s",
                     TERN_LOG_TEXT(tern_result_sentence(result)));
        }
    } else if (!shares->trains) {
        shares->standardises = false;
    }
    shares->trains = true;
    pthread_mutex_unlock(&shares->mutex);
}

static bool describe_columns(const struct tern_shares *shares, char text[TERN_COLUMNS_TEXT_MAX])
{
    if (shares->standardises) {
        snprintf(text, TERN_COLUMNS_TEXT_MAX,
                 "note: %" PRIu32 " columns were standardised by the mean and deviation of the "
                 "%" PRIu32 " training rows, as data.source has no scale=. scale=none in "
                 "data.source switches this off",
                 tern_data_columns(&shares->data), shares->data.train.count);
        return true;
    }
    char found[TERN_COLUMNS_TEXT_MAX];
    const bool large = !shares->data.scaled && shares->scaling == 0 &&
                       tern_columns_are_unscaled(&shares->data.train, REMEDY, found);
    if (large) {
        snprintf(text, TERN_COLUMNS_TEXT_MAX, "warning: %.*s", TERN_COLUMNS_TEXT_MAX - 10, found);
    }
    return large;
}

bool tern_shares_report(struct tern_shares *shares, char text[TERN_COLUMNS_TEXT_MAX])
{
    pthread_mutex_lock(&shares->mutex);
    const bool reports = shares->trains && !shares->warned && describe_columns(shares, text);
    shares->warned = shares->warned || shares->trains;
    pthread_mutex_unlock(&shares->mutex);
    return reports;
}

static enum tern_result measure(void *ctx, uint8_t *columns, uint32_t *num_examples)
{
    struct tern_shares_columns *own = ctx;
    TERN_TRY(refuse_scaled(own->shares));
    pthread_mutex_lock(&own->shares->mutex);
    const enum tern_result result = own->shares->scaling != 0
                                        ? TERN_ERR_STATE
                                        : tern_columns_measure(&own->train, columns, num_examples);
    pthread_mutex_unlock(&own->shares->mutex);
    return result;
}

enum tern_result tern_shares_scale(struct tern_shares *shares, uint32_t tag, const uint8_t *columns)
{
    const uint32_t count = tern_data_columns(&shares->data);
    const size_t len = (size_t)count * TERN_WIRE_COLUMN_BYTES;
    if (shares->scaling != 0) {
        return shares->scaling == tag ? TERN_OK : TERN_ERR_STATE;
    }
    TERN_TRY(refuse_scaled(shares));
    uint8_t *copy = malloc(len);
    const enum tern_result result =
        copy != NULL ? tern_columns_scale(&shares->data, columns, count) : TERN_ERR_NO_MEMORY;
    if (result != TERN_OK) {
        free(copy);
        return result;
    }
    memcpy(copy, columns, len);
    shares->columns = copy;
    shares->scaling = tag;
    return TERN_OK;
}

static enum tern_result scale(void *ctx, uint32_t tag, const uint8_t *columns)
{
    struct tern_shares_columns *own = ctx;
    pthread_mutex_lock(&own->shares->mutex);
    const enum tern_result result = tern_shares_scale(own->shares, tag, columns);
    pthread_mutex_unlock(&own->shares->mutex);
    return result;
}

struct tern_column_port tern_shares_columns_port(struct tern_shares_columns *ctx)
{
    if (!tern_data_has_columns(&ctx->shares->data)) {
        return (struct tern_column_port){0};
    }
    return (struct tern_column_port){.ctx = ctx,
                                     .count = tern_data_columns(&ctx->shares->data),
                                     .measure = measure,
                                     .scale = scale};
}

void tern_shares_close(struct tern_shares *shares)
{
    tern_partition_free(&shares->partition);
    tern_data_close(&shares->data);
    free(shares->columns);
    shares->columns = NULL;
    free(shares->flipped_labels);
    shares->flipped_labels = NULL;
}

enum tern_result tern_trainer_alone(struct tern_builtin_trainer *trainer,
                                    const struct tern_model *model, struct tern_view train,
                                    struct tern_view test, void **arena)
{
    const struct tern_builtin_config config = {
        .model = model, .train = train, .test = test, .max_batch = TERN_TRAINER_BATCH};
    const size_t size =
        tern_builtin_trainer_bound(&config); // 0: tern_builtin_trainer_init() returns the error
    *arena = size > 0 ? malloc(size) : NULL;
    return size > 0 && *arena == NULL ? TERN_ERR_NO_MEMORY
                                      : tern_builtin_trainer_init(trainer, &config, *arena, size);
}
