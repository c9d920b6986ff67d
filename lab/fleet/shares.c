#include "fleet/shares.h"
#include <stdio.h>
#include <stdlib.h>

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

enum tern_result tern_shares_open(const struct tern_fleet_settings *settings, uint32_t clients,
                                  struct tern_shares *shares, char why[512])
{
    char spec[TERN_DATA_SPEC_MAX];
    char data_why[TERN_DATA_WHY_MAX];
    *shares = (struct tern_shares){0};
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

void tern_shares_close(struct tern_shares *shares)
{
    tern_partition_free(&shares->partition);
    tern_data_close(&shares->data);
    free(shares->flipped_labels);
    shares->flipped_labels = NULL;
}
