#include "data/readers.h"
#include <stdlib.h>
#include <string.h>

// Frees an array that a reader allocated for a data set, whose pointers are const.
static void release(const void *memory)
{
    void *allocated;
    memcpy(&allocated, &memory, sizeof allocated);
    free(allocated);
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
                                   struct tern_partition *partition, struct tern_view *shard)
{
    const struct tern_data_part *part = spec->part;
    char why[TERN_PARTITION_WHY_MAX];
    enum tern_result result = tern_partition_make(part->partition, data, partition, why);
    if (result != TERN_OK) {
        return tern_spec_refuse(spec, result, "%s", why);
    }
    *shard = tern_partition_view(partition, data, part->client);
    return TERN_OK;
}

// Copies the rows of the shard's examples, `row` bytes each. Returns a malloc'ed array; NULL without memory.
static void *gather(const struct tern_view *shard, const void *rows, size_t row)
{
    uint8_t *gathered = malloc(shard->count * row);
    for (uint32_t i = 0; gathered != NULL && i < shard->count; i++) {
        memcpy(gathered + i * row, (const uint8_t *)rows + shard->indices[i] * row, row);
    }
    return gathered;
}

enum tern_result tern_shard_keep(const struct tern_data_spec *spec, const struct tern_view *shard,
                                 struct tern_dataset *data)
{
    const size_t n = data->feature_count;
    struct tern_dataset all = *data;
    data->bytes = all.bytes != NULL ? gather(shard, all.bytes, n) : NULL;
    data->values = all.values != NULL ? gather(shard, all.values, n * sizeof *all.values) : NULL;
    data->labels = gather(shard, all.labels, sizeof *all.labels);
    data->targets = all.targets != NULL ? gather(shard, all.targets, sizeof *all.targets) : NULL;
    data->groups = all.groups != NULL ? gather(shard, all.groups, sizeof *all.groups) : NULL;
    data->imputed = all.imputed != NULL ? gather(shard, all.imputed, (n + 7) / 8) : NULL;
    data->count = shard->count;
    const bool complete = data->labels != NULL && (data->bytes == NULL) == (all.bytes == NULL) &&
                          (data->values == NULL) == (all.values == NULL) &&
                          (data->targets == NULL) == (all.targets == NULL) &&
                          (data->groups == NULL) == (all.groups == NULL) &&
                          (data->imputed == NULL) == (all.imputed == NULL);
    tern_dataset_release(&all);
    return complete ? TERN_OK
                    : tern_spec_refuse(spec, TERN_ERR_NO_MEMORY, "needs memory for %u examples",
                                       shard->count);
}
