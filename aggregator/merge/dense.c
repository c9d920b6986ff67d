#include "merge/dense.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Adds up all dense segments, of which a layout has one at most.
static void find(struct tern_dense *dense, const struct tern_model *model)
{
    *dense = (struct tern_dense){.model = model, .first = model->coded};
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        if (!tern_segment_is_coded(segment) && !tern_segment_is_skipped(segment)) {
            dense->count += segment->count;
        }
    }
}

enum tern_result tern_dense_keep(struct tern_dense *dense, const struct tern_model *model,
                                 const float *global)
{
    find(dense, model);
    if (dense->count == 0) {
        return TERN_OK;
    }
    dense->before = malloc(dense->count * sizeof *dense->before);
    dense->moves = malloc(dense->count * sizeof *dense->moves);
    if (dense->before == NULL || dense->moves == NULL) {
        tern_dense_free(dense);
        return TERN_ERR_NO_MEMORY;
    }
    memcpy(dense->before, global + dense->first, dense->count * sizeof *dense->before);
    return TERN_OK;
}

void tern_dense_free(struct tern_dense *dense)
{
    free(dense->before);
    free(dense->moves);
    dense->before = NULL;
    dense->moves = NULL;
}

void tern_dense_note(struct tern_dense *dense, const float *acc)
{
    if (dense->count > 0) {
        memcpy(dense->moves, acc + dense->first, dense->count * sizeof *dense->moves);
    }
}

enum tern_result tern_dense_take(const struct tern_dense *dense, float *global)
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
