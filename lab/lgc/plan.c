#include "lgc/plan.h"

#include "codec/kernels/kernels.h"
#include <string.h>

enum { WORD_BITS = 64 };

// Returns the last segment that is compressed on its own, or the number of segments.
static uint32_t last_tensor(const struct tern_model *model)
{
    for (uint32_t i = model->segment_count; i-- > 0;) {
        if (model->segments[i].rule == TERN_RULE_COMPRESS) {
            return i;
        }
    }
    return model->segment_count;
}

static enum tern_lgc_role role_of(const struct tern_model *model, uint32_t segment, uint32_t last)
{
    if (model->segments[segment].rule != TERN_RULE_COMPRESS) {
        return TERN_LGC_EXACT;
    }
    return segment == last ? TERN_LGC_PLAIN : TERN_LGC_LEARNED;
}

enum tern_result tern_lgc_plan_make(const struct tern_model *model, float density,
                                    struct tern_lgc_plan *plan)
{
    if (!(density > 0 && density <= 1)) {
        return TERN_ERR_ARGUMENT;
    }
    const uint32_t last = last_tensor(model);
    struct tern_lgc_plan made = {.count = model->count};
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        if (tern_segment_is_skipped(segment)) {
            continue;
        }
        struct tern_lgc_part *part = &made.parts[made.part_count++];
        *part = (struct tern_lgc_part){role_of(model, i, last), segment->offset, segment->count, 0,
                                       segment->count};
        if (part->role != TERN_LGC_EXACT) {
            part->picks = (uint32_t)tern_select_count(density, part->count);
        }
        uint32_t *sum = part->role == TERN_LGC_EXACT   ? &made.exact
                        : part->role == TERN_LGC_PLAIN ? &made.plain
                                                       : &made.learned;
        part->first = *sum;
        *sum += part->picks;
        made.largest = part->count > made.largest ? part->count : made.largest;
    }
    if (made.learned == 0) {
        return TERN_ERR_ARGUMENT;
    }
    for (uint32_t i = 0; i < made.part_count; i++) {
        made.parts[i].first += made.parts[i].role == TERN_LGC_LEARNED ? made.plain : 0;
    }
    *plan = made;
    return TERN_OK;
}

static size_t words_of(size_t count)
{
    return count / WORD_BITS + (count % WORD_BITS != 0);
}

size_t tern_lgc_pick_words(const struct tern_lgc_plan *plan)
{
    return words_of(plan->largest > plan->learned ? plan->largest : plan->learned);
}

// Marks the first `missing` unmarked values.
static void fill(uint64_t *words, uint32_t missing)
{
    for (uint32_t i = 0; missing > 0; i++) {
        const uint64_t bit = 1ull << i % WORD_BITS;
        missing -= (words[i / WORD_BITS] & bit) == 0;
        words[i / WORD_BITS] |= bit;
    }
}

static void pick_part(const struct tern_lgc_part *part, const float *values, uint64_t *words,
                      uint32_t *at)
{
    const float *own = values + part->offset;
    const struct tern_selection selection = tern_kernel_select(own, part->count, part->picks);
    tern_kernel_select_mark(own, part->count, selection, words);
    fill(words, part->picks - (uint32_t)selection.selected);
    uint32_t *to = at + part->first;
    for (size_t i = 0; i < words_of(part->count); i++) {
        for (uint64_t word = words[i]; word != 0; word &= word - 1) {
            *to++ = part->offset + (uint32_t)(i * WORD_BITS) + (uint32_t)__builtin_ctzll(word);
        }
    }
}

void tern_lgc_pick(const struct tern_lgc_plan *plan, const float *values, uint64_t *words,
                   uint32_t *at)
{
    for (uint32_t i = 0; i < plan->part_count; i++) {
        if (plan->parts[i].role != TERN_LGC_EXACT) {
            pick_part(&plan->parts[i], values, words, at);
        }
    }
}

void tern_lgc_exact_of(const struct tern_lgc_plan *plan, const float *values, float *exact)
{
    for (uint32_t i = 0; i < plan->part_count; i++) {
        const struct tern_lgc_part *part = &plan->parts[i];
        if (part->role == TERN_LGC_EXACT) {
            memcpy(exact + part->first, values + part->offset, part->count * sizeof *values);
        }
    }
}

void tern_lgc_exact_to(const struct tern_lgc_plan *plan, const float *exact, float *values)
{
    for (uint32_t i = 0; i < plan->part_count; i++) {
        const struct tern_lgc_part *part = &plan->parts[i];
        if (part->role == TERN_LGC_EXACT) {
            memcpy(values + part->offset, exact + part->first, part->count * sizeof *values);
        }
    }
}
