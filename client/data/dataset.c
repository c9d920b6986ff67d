#include "data/dataset.h"
#include <string.h>

struct tern_view tern_view_all(const struct tern_dataset *dataset)
{
    return (struct tern_view){.dataset = dataset, .indices = NULL, .count = dataset->count};
}

static void gather_row(const struct tern_dataset *data, uint32_t example, float *row)
{
    size_t n = data->feature_count;
    if (data->values != NULL) {
        memcpy(row, data->values + example * n, n * sizeof *row);
        return;
    }
    const uint8_t *bytes = data->bytes + example * n;
    for (size_t i = 0; i < n; i++) {
        row[i] = (float)bytes[i] * data->scale + data->offset;
    }
}

void tern_view_gather(const struct tern_view *view, const uint32_t *positions, uint32_t first,
                      uint32_t count, float *features, uint16_t *labels)
{
    const struct tern_dataset *data = view->dataset;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t position = positions != NULL ? positions[i] : first + i;
        uint32_t example = view->indices != NULL ? view->indices[position] : position;
        gather_row(data, example, features + (size_t)i * data->feature_count);
        labels[i] = data->labels[example];
    }
}

void tern_view_gather_targets(const struct tern_view *view, const uint32_t *positions,
                              uint32_t first, uint32_t count, float *targets)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t position = positions != NULL ? positions[i] : first + i;
        const uint32_t example = view->indices != NULL ? view->indices[position] : position;
        targets[i] = view->dataset->targets[example];
    }
}
