#include "data/readers.h"
#include <stdlib.h>
#include <string.h>

// Frees an array of a data set, which is const to others; the readers allocated it.
static void release(const void *memory)
{
    void *given;
    memcpy(&given, &memory, sizeof given);
    free(given);
}

void tern_dataset_release(struct tern_dataset *data)
{
    release(data->bytes);
    release(data->values);
    release(data->labels);
    release(data->targets);
    release(data->groups);
    release(data->imputed);
    memset(data, 0, sizeof *data);
}

enum tern_result tern_shard_choose(const struct tern_data_spec *spec,
                                   const struct tern_dataset *data,
                                   struct tern_partition *partition, struct tern_view *kept)
{
    const struct tern_data_part *part = spec->part;
    char why[TERN_PARTITION_WHY_MAX];
    enum tern_result result = tern_partition_make(part->partition, data, partition, why);
    if (result != TERN_OK) {
        return tern_spec_refuse(spec, result, "%s", why);
    }
    *kept = tern_partition_view(partition, data, part->client);
    return TERN_OK;
}

// Copies the rows of kept, `row` bytes each. NULL: no memory.
static void *gather(const struct tern_view *kept, const void *rows, size_t row)
{
    uint8_t *gathered = malloc(kept->count * row);
    for (uint32_t i = 0; gathered != NULL && i < kept->count; i++) {
        memcpy(gathered + i * row, (const uint8_t *)rows + kept->indices[i] * row, row);
    }
    return gathered;
}

enum tern_result tern_shard_keep(const struct tern_data_spec *spec, const struct tern_view *kept,
                                 struct tern_dataset *data)
{
    const size_t n = data->feature_count;
    struct tern_dataset all = *data;
    data->bytes = all.bytes != NULL ? gather(kept, all.bytes, n) : NULL;
    data->values = all.values != NULL ? gather(kept, all.values, n * sizeof *all.values) : NULL;
    data->labels = gather(kept, all.labels, sizeof *all.labels);
    data->targets = all.targets != NULL ? gather(kept, all.targets, sizeof *all.targets) : NULL;
    data->groups = all.groups != NULL ? gather(kept, all.groups, sizeof *all.groups) : NULL;
    data->imputed = all.imputed != NULL ? gather(kept, all.imputed, (n + 7) / 8) : NULL;
    data->count = kept->count;
    const bool kept_all = data->labels != NULL && (data->bytes == NULL) == (all.bytes == NULL) &&
                          (data->values == NULL) == (all.values == NULL) &&
                          (data->targets == NULL) == (all.targets == NULL) &&
                          (data->groups == NULL) == (all.groups == NULL) &&
                          (data->imputed == NULL) == (all.imputed == NULL);
    tern_dataset_release(&all);
    return kept_all ? TERN_OK
                    : tern_spec_refuse(spec, TERN_ERR_NO_MEMORY, "needs memory for %u examples",
                                       kept->count);
}
