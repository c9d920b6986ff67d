#include "merge/exact_mean.h"

#include "hosted/spool.h"
#include <stdlib.h>
#include <string.h>

// --- Life

// Returns the bytes of 8-byte cells for all coordinates.
static uint64_t size_of_cells(const struct tern_exact_mean *mean)
{
    return (uint64_t)(mean->end - mean->first) * sizeof(uint64_t);
}

static void drop_held(struct tern_exact_mean *mean, struct tern_exact_group *group)
{
    mean->used -= group->held_bytes;
    group->held_bytes = 0;
    while (group->held != NULL) {
        struct tern_exact_held *held = group->held;
        group->held = held->next;
        tern_reading_free(held->reading);
        free(held);
    }
}

static void drop_groups(struct tern_exact_mean *mean)
{
    for (uint32_t i = 0; i < mean->group_count; i++) {
        for (unsigned bin = 0; bin < TERN_EXACT_BINS; bin++) {
            mean->used -= mean->groups[i].bins[bin] != NULL ? size_of_cells(mean) : 0;
            free(mean->groups[i].bins[bin]);
        }
        drop_held(mean, &mean->groups[i]);
    }
    mean->group_count = 0;
}

void tern_exact_mean_clear(struct tern_exact_mean *mean)
{
    drop_groups(mean);
    free(mean->groups);
    free(mean->sums);
    free(mean->scratch);
    memset(mean, 0, sizeof *mean);
}

void tern_exact_mean_begin(struct tern_exact_mean *mean, const struct tern_model *model,
                           const struct tern_strategy_rule *rule, uint64_t memory, uint32_t first,
                           uint32_t end)
{
    tern_exact_mean_clear(mean);
    mean->model = model;
    mean->rule = *rule;
    mean->memory = memory;
    mean->first = first;
    mean->end = end;
}

// --- Adding updates

// The update that is being added, and the group to which its values go.
struct addition {
    struct tern_exact_mean *mean;
    struct tern_exact_group *group;
    const struct tern_reading *reading;
    double weight; // usually num_examples; double, because float32 is not exact above 2^24
    enum tern_result result; // the failure of add_signs(), which returns nothing
};

struct tern_exact_key tern_exact_key_of(const struct tern_strategy_rule *rule,
                                        const struct tern_contribution *contribution)
{
    return (struct tern_exact_key){
        .local_steps = tern_strategy_normalises(rule) ? contribution->local_steps : 0,
        .staleness = rule->strategy->age_weight != NULL ? contribution->staleness : 0};
}

int tern_exact_key_compare(const struct tern_exact_key *one, const struct tern_exact_key *other)
{
    if (one->local_steps != other->local_steps) {
        return one->local_steps < other->local_steps ? -1 : 1;
    }
    return (one->staleness > other->staleness) - (one->staleness < other->staleness);
}

// Finds the group of an update, or makes an empty one.
static enum tern_result find_group(struct tern_exact_mean *mean,
                                   const struct tern_contribution *contribution,
                                   struct tern_exact_group **found)
{
    const struct tern_exact_group wanted = {.key = tern_exact_key_of(&mean->rule, contribution)};
    for (uint32_t i = 0; i < mean->group_count; i++) {
        *found = &mean->groups[i];
        if (tern_exact_key_compare(&(*found)->key, &wanted.key) == 0) {
            return TERN_OK;
        }
    }
    struct tern_exact_group *grown =
        realloc(mean->groups, ((size_t)mean->group_count + 1) * sizeof *grown);
    if (grown == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    mean->groups = grown;
    *found = &grown[mean->group_count++];
    **found = wanted;
    return TERN_OK;
}

// Returns zeroed cells of 8 bytes for all coordinates, within the allowed memory. NULL: *result is the error.
static void *make_cells(struct tern_exact_mean *mean, enum tern_result *result)
{
    const size_t count = mean->end - mean->first;
    if (mean->used + size_of_cells(mean) > mean->memory && count > 1) {
        *result = TERN_ERR_NO_SPACE;
        return NULL;
    }
    void *cells = calloc(count, sizeof(uint64_t));
    if (cells == NULL) {
        *result = TERN_ERR_NO_MEMORY;
        return NULL;
    }
    tern_large_pages(cells, count * sizeof(uint64_t));
    mean->used += size_of_cells(mean);
    return cells;
}

static bool has_bin(uint32_t bins, unsigned bin)
{
    return (bins >> bin & 1) != 0;
}

static unsigned lowest_of(uint32_t bins)
{
    return (unsigned)__builtin_ctz(bins);
}

// Whether the bins, at least one, are one bin or two neighbours.
static bool can_share(uint32_t bins)
{
    return bins >> lowest_of(bins) <= 3;
}

// The bin whose cells contain a used bin, and how far the integers of the used bin are shifted to the left there.
struct cell_place {
    unsigned bin;
    unsigned shift;
};

static struct cell_place place_of(const struct tern_exact_group *group, unsigned bin)
{
    const unsigned host = group->separate ? bin : lowest_of(group->used_bins);
    return (struct cell_place){host, (bin - host) * TERN_EXACT_SHIFTS};
}

// Divides a cell of two neighbouring bins, both with their sign: the lower bin keeps the last bits, which are not negative.
static uint64_t low_part(uint64_t cell)
{
    return cell & ((UINT64_C(1) << TERN_EXACT_SHIFTS) - 1);
}

static uint64_t high_part(uint64_t cell)
{
    return (uint64_t)((int64_t)(cell - low_part(cell)) / (INT64_C(1) << TERN_EXACT_SHIFTS));
}

// Gives each used bin its own cells.
static enum tern_result separate_bins(struct tern_exact_mean *mean, struct tern_exact_group *group)
{
    enum tern_result result = TERN_OK;
    const bool two = (group->used_bins & (group->used_bins - 1)) != 0;
    if (two && !group->separate) {
        const unsigned low = lowest_of(group->used_bins);
        uint64_t *lower = group->bins[low];
        uint64_t *upper = make_cells(mean, &result);
        for (uint32_t i = 0; upper != NULL && i < mean->end - mean->first; i++) {
            upper[i] = high_part(lower[i]);
            lower[i] = low_part(lower[i]);
        }
        group->bins[low + 1] = upper;
    }
    group->separate = group->separate || result == TERN_OK;
    return result;
}

// Lets the cells of the lowest used bin also count in units of the bin below.
static void move_cells_down(const struct tern_exact_mean *mean, struct tern_exact_group *group)
{
    const unsigned low = lowest_of(group->used_bins);
    uint64_t *cells = group->bins[low];
    for (uint32_t i = 0; i < mean->end - mean->first; i++) {
        cells[i] <<= TERN_EXACT_SHIFTS;
    }
    group->bins[low - 1] = cells;
    group->bins[low] = NULL;
}

// Makes a bin usable. On error the sums are useless.
static enum tern_result use_bin(struct tern_exact_mean *mean, struct tern_exact_group *group,
                                unsigned bin)
{
    enum tern_result result = TERN_OK;
    const uint32_t bins = group->used_bins | UINT32_C(1) << bin;
    if (!can_share(bins)) {
        TERN_TRY(separate_bins(mean, group));
    }
    if (group->separate || group->used_bins == 0) {
        group->bins[bin] = make_cells(mean, &result);
    } else if (bin < lowest_of(group->used_bins)) {
        move_cells_down(mean, group);
    }
    group->used_bins = bins;
    return result;
}

// Returns the cells of a bin, which are made when first needed. NULL: addition->result is the error.
static uint64_t *cells_of(struct addition *addition, unsigned bin)
{
    struct tern_exact_group *group = addition->group;
    if (bin >= TERN_EXACT_BINS) {
        addition->result = TERN_ERR_NON_FINITE;
    } else if (addition->result == TERN_OK && !has_bin(group->used_bins, bin)) {
        addition->result = use_bin(addition->mean, group, bin);
    }
    return addition->result == TERN_OK ? group->bins[place_of(group, bin).bin] : NULL;
}

// Returns what a value adds. Below 2^24 examples the product is the float32 nearest to the exact product.
static struct tern_exact_term term_of(const struct addition *addition, float value)
{
    return tern_exact_term((float)(addition->weight * (double)value));
}

// Adds the signed values of a segment. Prefetches their cells, because hardware cannot predict indices that are far apart.
static void add_signs(void *ctx, uint32_t segment, float scale, const struct tern_indices *indices)
{
    struct addition *addition = ctx;
    const struct tern_exact_mean *mean = addition->mean;
    const struct tern_exact_term term = term_of(addition, scale);
    uint64_t *cells = addition->result == TERN_OK ? cells_of(addition, term.bin) : NULL;
    if (cells == NULL) {
        return;
    }
    const uint64_t amount = term.amount << place_of(addition->group, term.bin).shift;
    // If the segment begins before the window, `from` wraps, and `at` is at least `count` for indices before the window.
    const size_t from = (size_t)mean->model->segments[segment].offset - mean->first;
    const size_t count = mean->end - mean->first;
    for (size_t i = 0; i < indices->count; i++) {
        size_t at = from + (size_t)(indices->of[i] / 2);
        __builtin_prefetch(&cells[at < count ? at : 0], 1);
    }
    for (size_t i = 0; i < indices->count; i++) {
        size_t at = from + (size_t)(indices->of[i] / 2);
        uint64_t negative = 0 - (uint64_t)(indices->of[i] & 1);
        if (at < count) {
            cells[at] += (amount ^ negative) - negative;
        }
    }
}

#define NUMBERS 256 // values that are added in one pass

static bool has_numbers_of(unsigned bin, const float numbers[], uint32_t count)
{
    const uint32_t from = bin > 0 ? tern_exact_bin_start(bin) : 1; // 0 needs no bin
    const uint32_t end = tern_exact_bin_start(bin + 1);
    bool has = false;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t magnitude = tern_float_bits(numbers[i]) & 0x7fffffff;
        has = has || (magnitude >= from && magnitude < end);
    }
    return has;
}

// Adds those numbers that belong to the bin, shifted to the left; the others add 0.
static void add_to_bin(unsigned bin, const float numbers[], uint32_t count, unsigned shift,
                       uint64_t *cells)
{
    const int32_t from = (int32_t)tern_exact_bin_start(bin);
    const int32_t end = (int32_t)tern_exact_bin_start(bin + 1);
    const double per_unit = 1.0 / tern_exact_bin_unit(bin);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t bits = tern_float_bits(numbers[i]);
        const int32_t magnitude = (int32_t)(bits & 0x7fffffff);
        const uint32_t all = 0 - (uint32_t)(magnitude >= from && magnitude < end);
        cells[i] += tern_exact_amount(tern_bits_float(bits & all), per_unit) << shift;
    }
}

// Finds the bins of the smallest magnitude except 0, and of the largest.
static void find_bins(const float numbers[], uint32_t count, unsigned *first, unsigned *last)
{
    uint32_t least = UINT32_MAX; // magnitude - 1, so that 0 counts as the largest
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t magnitude = tern_float_bits(numbers[i]) & 0x7fffffff;
        least = magnitude - 1 < least ? magnitude - 1 : least;
        most = magnitude > most ? magnitude : most;
    }
    *first = tern_exact_term(tern_bits_float(least + 1)).bin;
    *last = tern_exact_term(tern_bits_float(most)).bin;
}

// numbers[i] is the value at coordinate mean->first + at + i.
static enum tern_result add_numbers(struct addition *addition, uint32_t at, const float numbers[],
                                    uint32_t count)
{
    unsigned first;
    unsigned last;
    find_bins(numbers, count, &first, &last);
    if (last >= TERN_EXACT_BINS) {
        return TERN_ERR_NON_FINITE;
    }
    for (unsigned bin = first; bin <= last; bin++) {
        const struct tern_exact_group *group = addition->group;
        if (has_bin(group->used_bins, bin) || has_numbers_of(bin, numbers, count)) {
            uint64_t *cells = cells_of(addition, bin);
            TERN_TRY(addition->result);
            add_to_bin(bin, numbers, count, place_of(group, bin).shift, cells + at);
        }
    }
    return TERN_OK;
}

static enum tern_result add_values(void *ctx, uint32_t segment, uint32_t first, const float *values,
                                   uint32_t count)
{
    struct addition *addition = ctx;
    const struct tern_exact_mean *mean = addition->mean;
    const uint32_t start = mean->model->segments[segment].offset + first;
    const uint32_t skipped = start < mean->first ? mean->first - start : 0;
    const uint32_t left = mean->end > start ? mean->end - start : 0;
    const uint32_t end = left < count ? left : count;
    for (uint32_t i = skipped; i < end; i += NUMBERS) {
        float numbers[NUMBERS];
        const uint32_t n = end - i < NUMBERS ? end - i : NUMBERS;
        for (uint32_t k = 0; k < n; k++) {
            numbers[k] = (float)(addition->weight * (double)values[i + k]);
        }
        TERN_TRY(add_numbers(addition, start + i - mean->first, numbers, n));
    }
    return TERN_OK;
}

// Whether the segment has coordinates in the window and is not in the reading.
static bool wants(void *ctx, uint32_t segment)
{
    const struct addition *addition = ctx;
    const struct tern_exact_mean *mean = addition->mean;
    const struct tern_segment *place = &mean->model->segments[segment];
    return place->offset < mean->end && place->offset + place->count > mean->first &&
           !tern_reading_keeps(addition->reading, segment);
}

static float *scratch_of(void *ctx, uint32_t count)
{
    struct addition *addition = ctx;
    struct tern_exact_mean *mean = addition->mean;
    if (mean->lent_scratch != NULL) {
        return mean->lent_scratch;
    }
    if (mean->scratch == NULL) {
        uint32_t most = count;
        for (uint32_t i = 0; i < mean->model->segment_count; i++) {
            most = mean->model->segments[i].count > most ? mean->model->segments[i].count : most;
        }
        mean->scratch = malloc((size_t)most * sizeof *mean->scratch);
        tern_large_pages(mean->scratch, (size_t)most * sizeof *mean->scratch);
    }
    return mean->scratch;
}

// Counts an update that will be added to the group's cells.
static enum tern_result count_in_group(struct tern_exact_mean *mean, struct tern_exact_group *group)
{
    return ++group->updates > TERN_EXACT_SHARING_MAX ? separate_bins(mean, group) : TERN_OK;
}

// Adds weight times the update to its group.
static enum tern_result add_weighted(struct tern_exact_mean *mean,
                                     const struct tern_contribution *contribution, double weight,
                                     const uint8_t *container, size_t len,
                                     const struct tern_reading *reading,
                                     struct tern_codec_info *info)
{
    struct addition addition = {.mean = mean, .reading = reading, .weight = weight};
    const struct tern_container_visitor visitor = {.ctx = &addition,
                                                   .wants = wants,
                                                   .signs = add_signs,
                                                   .values = add_values,
                                                   .scratch = scratch_of};
    TERN_TRY(find_group(mean, contribution, &addition.group));
    TERN_TRY(tern_reading_each(reading, &visitor));
    TERN_TRY(tern_container_each(mean->model, container, len, &visitor, info));
    return addition.result;
}

enum tern_result tern_exact_mean_add(struct tern_exact_mean *mean,
                                     const struct tern_contribution *contribution,
                                     const uint8_t *container, size_t len,
                                     const struct tern_reading *reading,
                                     struct tern_codec_info *info)
{
    struct tern_exact_group *group = NULL;
    TERN_TRY(find_group(mean, contribution, &group));
    TERN_TRY(count_in_group(mean, group));
    TERN_TRY(add_weighted(mean, contribution, (double)contribution->num_examples, container, len,
                          reading, info));
    mean->updates++;
    return TERN_OK;
}

// Subtracting an update leaves no trace: cells are integers, and products of both signs are rounded alike.
enum tern_result tern_exact_mean_reweigh(struct tern_exact_mean *mean,
                                         const struct tern_contribution *contribution,
                                         const uint8_t *container, size_t len, double weight)
{
    const double before = (double)contribution->num_examples;
    TERN_TRY(add_weighted(mean, contribution, -before, container, len, NULL, NULL));
    return add_weighted(mean, contribution, weight, container, len, NULL, NULL);
}

// --- Holding updates

static bool leaves_room(const struct tern_exact_mean *mean, uint64_t bytes)
{
    return bytes <= mean->memory && mean->used <= mean->memory - bytes;
}

// Returns the bins that the reading's values go into: bit i for bin i; bit TERN_EXACT_BINS for values that are not finite.
static uint32_t bins_of(const struct tern_exact_mean *mean, const struct tern_reading *reading,
                        double weight)
{
    uint32_t bins = 0;
    for (uint32_t segment = 0; segment < mean->model->segment_count; segment++) {
        if (tern_reading_keeps(reading, segment)) {
            const float scale = tern_reading_scale(reading, segment);
            bins |= UINT32_C(1) << tern_exact_term((float)(weight * (double)scale)).bin;
        }
    }
    return bins;
}

// Returns the additional bytes that the group's sums would take with these bins and those of its held updates.
static uint64_t more_for_sums(const struct tern_exact_mean *mean,
                              const struct tern_exact_group *group, uint32_t bins)
{
    const uint32_t all = bins | group->held_bins | group->used_bins;
    const bool shared = !group->separate && can_share(all);
    uint64_t vectors = 0;
    for (unsigned bin = 0; bin < TERN_EXACT_BINS; bin++) {
        vectors += has_bin(all, bin) && (!shared || bin == lowest_of(all));
        vectors -= group->bins[bin] != NULL;
    }
    return vectors * size_of_cells(mean);
}

// Decoded updates are held, and not yet added, while they take at most 1 / HELD_SHARE of the bytes of the group's sums, since
// both exist for a moment when they are added. Above that share they are held only if there is no memory for sums.
#define HELD_SHARE 2

static bool is_worth_holding(const struct tern_exact_mean *mean,
                             const struct tern_exact_group *group, uint64_t bytes, uint32_t bins)
{
    const uint64_t more = more_for_sums(mean, group, bins);
    return more > 0 && leaves_room(mean, bytes) &&
           (group->held_bytes + bytes <= more / HELD_SHARE || !leaves_room(mean, more));
}

// Adds the group's held updates to its sums. On error the sums are useless.
static enum tern_result add_up_held(struct tern_exact_mean *mean, struct tern_exact_group *group)
{
    struct addition addition = {.mean = mean, .group = group};
    const struct tern_container_visitor visitor = {.ctx = &addition, .signs = add_signs};
    for (const struct tern_exact_held *held = group->held; held != NULL; held = held->next) {
        addition.weight = held->weight;
        TERN_TRY(count_in_group(mean, group));
        // A held reading is whole, so that values() is not called.
        const enum tern_result result = tern_reading_each(held->reading, &visitor);
        addition.result = addition.result == TERN_OK ? result : addition.result;
    }
    drop_held(mean, group);
    return addition.result;
}

static enum tern_result hold(struct tern_exact_mean *mean, struct tern_exact_group *group,
                             const struct tern_exact_held *held)
{
    struct tern_exact_held *kept = malloc(sizeof *kept);
    if (kept == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    *kept = *held;
    kept->next = group->held;
    tern_reading_share(held->reading);
    group->held = kept;
    group->held_bytes += tern_reading_bytes(held->reading);
    mean->used += tern_reading_bytes(held->reading);
    mean->updates++;
    return TERN_OK;
}

enum tern_result tern_exact_mean_hold(struct tern_exact_mean *mean,
                                      const struct tern_contribution *contribution, uint64_t client,
                                      uint32_t round, struct tern_reading *reading)
{
    struct tern_exact_group *group = NULL;
    const struct tern_exact_held held = {.client = client,
                                         .round = round,
                                         .weight = (double)contribution->num_examples,
                                         .reading = reading};
    if (!tern_reading_is_whole(reading)) {
        return TERN_ERR_NO_SPACE;
    }
    const uint32_t bins = bins_of(mean, reading, held.weight);
    if (bins >> TERN_EXACT_BINS != 0) {
        return TERN_ERR_NON_FINITE;
    }
    TERN_TRY(find_group(mean, contribution, &group));
    if (is_worth_holding(mean, group, tern_reading_bytes(reading), bins)) {
        group->held_bins |= bins;
        return hold(mean, group, &held);
    }
    TERN_TRY(add_up_held(mean, group));
    return TERN_ERR_NO_SPACE;
}

enum tern_result tern_exact_mean_arrive(struct tern_exact_mean *mean,
                                        const struct tern_arrival *arrival)
{
    const enum tern_result held = tern_exact_mean_hold(
        mean, &arrival->contribution, arrival->client, arrival->round, arrival->reading);
    return held != TERN_ERR_NO_SPACE
               ? held
               : tern_exact_mean_add(mean, &arrival->contribution, arrival->container.data,
                                     arrival->container.len, arrival->reading, NULL);
}

bool tern_exact_mean_reweigh_held(struct tern_exact_mean *mean, uint64_t client, uint32_t round,
                                  double weight)
{
    for (uint32_t i = 0; i < mean->group_count; i++) {
        for (struct tern_exact_held *held = mean->groups[i].held; held != NULL; held = held->next) {
            if (held->client == client && held->round == round) {
                held->weight = weight;
                return true;
            }
        }
    }
    return false;
}

// --- In order

static int compare_groups(const void *a, const void *b)
{
    const struct tern_exact_group *one = a;
    const struct tern_exact_group *other = b;
    return tern_exact_key_compare(&one->key, &other->key);
}

// Groups are in the order of their first updates, on which the bits must not depend. Also rewinds the held readings.
static void sort_groups(struct tern_exact_mean *mean)
{
    if (mean->group_count > 0) {
        qsort(mean->groups, mean->group_count, sizeof mean->groups[0], compare_groups);
    }
    for (uint32_t i = 0; i < mean->group_count; i++) {
        for (struct tern_exact_held *held = mean->groups[i].held; held != NULL; held = held->next) {
            held->at = 0;
        }
    }
}

#define BLOCK 256 // coordinates that are processed together

// Coordinates of one segment.
struct block {
    uint32_t from;
    uint32_t width; // 1 to BLOCK
    uint32_t segment;
    bool dense;
};

// A group's bins at the coordinates of a block.
struct block_bins {
    uint32_t held; // bit i: cells[i] is set, from held updates
    uint64_t cells[TERN_EXACT_BINS][BLOCK];
    // Cells of the sums plus those of the held updates. NULL: all are 0.
    const uint64_t *all[TERN_EXACT_BINS];
    uint32_t several; // number of bins in `all`
};

static uint64_t *cells_of_block(struct block_bins *bins, unsigned bin)
{
    if ((bins->held >> bin & 1) == 0) {
        memset(bins->cells[bin], 0, sizeof bins->cells[bin]);
        bins->held |= UINT32_C(1) << bin;
    }
    return bins->cells[bin];
}

// Returns the held update's values in the block. Blocks must be asked for in ascending order.
static struct tern_reading_part part_of(const struct tern_exact_mean *mean,
                                        struct tern_exact_held *held, const struct block *block)
{
    const uint32_t first = block->from - mean->model->segments[block->segment].offset;
    return tern_reading_part(held->reading, block->segment, first, first + block->width, &held->at);
}

static void add_held(const struct tern_exact_mean *mean, struct tern_exact_held *held,
                     const struct block *block, struct block_bins *bins)
{
    const struct tern_reading_part part = part_of(mean, held, block);
    if (part.count == 0) {
        return;
    }
    const uint32_t first = block->from - mean->model->segments[block->segment].offset;
    const struct tern_exact_term term = tern_exact_term((float)(held->weight * (double)part.scale));
    uint64_t *cells = cells_of_block(bins, term.bin);
    for (size_t i = 0; i < part.count; i++) {
        const uint64_t negative = 0 - (uint64_t)(part.of[i] & 1);
        cells[part.of[i] / 2 - first] += (term.amount ^ negative) - negative;
    }
}

// Adds the cells of two bins that share them to the held values, each part to its bin.
static void add_shared(const struct tern_exact_group *group, const uint64_t *shared,
                       const struct block *block, struct block_bins *bins)
{
    const unsigned low = lowest_of(group->used_bins);
    uint64_t *lower = cells_of_block(bins, low);
    uint64_t *upper = cells_of_block(bins, low + 1);
    for (uint32_t i = 0; i < block->width; i++) {
        lower[i] += low_part(shared[i]);
        upper[i] += high_part(shared[i]);
    }
}

// Adds the group's sums to the held values. Bins without held values are read in place.
static void add_summed(const struct tern_exact_mean *mean, const struct tern_exact_group *group,
                       const struct block *block, struct block_bins *bins)
{
    const uint32_t held = bins->held;
    bins->several = 0;
    for (unsigned bin = 0; bin < TERN_EXACT_BINS; bin++) {
        const uint64_t *summed =
            group->bins[bin] != NULL ? group->bins[bin] + (block->from - mean->first) : NULL;
        if (summed != NULL && held != 0 && !group->separate && has_bin(group->used_bins, bin + 1)) {
            add_shared(group, summed, block, bins);
            summed = NULL;
        }
        for (uint32_t i = 0; has_bin(held, bin) && summed != NULL && i < block->width; i++) {
            bins->cells[bin][i] += summed[i];
        }
        bins->all[bin] = has_bin(bins->held, bin) ? bins->cells[bin] : summed;
        bins->several += bins->all[bin] != NULL;
    }
}

// Sets each total to the sum of its bins, rounded to a double once. Each bin but the highest of a run of neighbours keeps only
// its last bits, and the rest is carried to the next bin. So all additions but the last are exact, however the sum was
// divided among the bins.
static void add_bins_up(const struct block_bins *bins, uint32_t width, double total[BLOCK])
{
    uint64_t carried[BLOCK] = {0};
    for (unsigned bin = 0; bin < TERN_EXACT_BINS; bin++) {
        const uint64_t *all = bins->all[bin];
        const bool carries = bin + 1 < TERN_EXACT_BINS && bins->all[bin + 1] != NULL;
        for (uint32_t i = 0; all != NULL && i < width; i++) {
            const uint64_t cell = all[i] + carried[i];
            total[i] += tern_exact_bin_value(bin, carries ? low_part(cell) : cell);
            carried[i] = carries ? high_part(cell) : 0;
        }
    }
}

// Like add_bins_up(), for one bin, or two that share cells.
static void read_only_bin(const struct block_bins *bins, uint32_t width, double total[BLOCK])
{
    for (unsigned bin = 0; bin < TERN_EXACT_BINS; bin++) {
        const uint64_t *all = bins->all[bin];
        for (uint32_t i = 0; all != NULL && i < width; i++) {
            total[i] = tern_exact_bin_value(bin, all[i]);
        }
    }
}

// Finds the group's bins at the coordinates of the block, from its sums and held updates.
static void find_bins_of_block(const struct tern_exact_mean *mean,
                               const struct tern_exact_group *group, const struct block *block,
                               struct block_bins *bins)
{
    bins->held = 0;
    for (struct tern_exact_held *held = group->held; held != NULL; held = held->next) {
        add_held(mean, held, block, bins);
    }
    add_summed(mean, group, block, bins);
}

// Like add_group(), for a group of one held update: skips coordinates without a value, where add_group() would add +0.
static void add_only(const struct tern_exact_mean *mean, struct tern_exact_held *held,
                     double factor, const struct block *block, double sums[BLOCK])
{
    const struct tern_reading_part part = part_of(mean, held, block);
    const uint32_t first = block->from - mean->model->segments[block->segment].offset;
    const struct tern_exact_term term = tern_exact_term((float)(held->weight * (double)part.scale));
    const double plus = factor * tern_exact_bin_value(term.bin, term.amount);
    for (size_t i = 0; i < part.count; i++) {
        sums[part.of[i] / 2 - first] += (part.of[i] & 1) != 0 ? -plus : plus;
    }
}

static bool is_only(const struct tern_exact_group *group)
{
    return group->used_bins == 0 && group->held != NULL && group->held->next == NULL;
}

// Adds the group's factor times its sum at each coordinate to sums[0..block->width), in double.
static void add_group(const struct tern_exact_mean *mean, const struct tern_exact_group *group,
                      const struct block *block, double sums[BLOCK])
{
    const double factor = block->dense ? group->dense_factor : group->factor;
    struct block_bins bins;
    if (group->only) {
        add_only(mean, group->held, factor, block, sums);
        return;
    }
    find_bins_of_block(mean, group, block, &bins);
    double total[BLOCK] = {0.0};
    (bins.several > 1 ? add_bins_up : read_only_bin)(&bins, block->width, total);
    for (uint32_t i = 0; i < block->width; i++) {
        sums[i] += factor * total[i];
    }
}

// Sorts the groups and sets their factors.
static void arrange_groups(struct tern_exact_mean *mean, const struct tern_strategy_totals *totals)
{
    sort_groups(mean);
    for (uint32_t i = 0; i < mean->group_count; i++) {
        struct tern_exact_group *group = &mean->groups[i];
        const struct tern_contribution like = {.staleness = group->key.staleness};
        group->dense_factor = tern_strategy_age_weight(totals->rule.strategy, &like);
        group->factor =
            group->dense_factor * tern_strategy_steps_factor(totals, group->key.local_steps);
        group->only = is_only(group);
    }
}

// Adds the groups one after the other, in ascending order, so that the bits are the same whether groups are folded one by
// one or added together.
static void add_groups(const struct tern_exact_mean *mean, const struct block *block,
                       double sums[BLOCK])
{
    for (uint32_t i = 0; i < mean->group_count; i++) {
        add_group(mean, &mean->groups[i], block, sums);
    }
}

// Sets *block to the next block of the window's coordinates; *block is all zero at first. Returns false after the last block.
static bool next_block(const struct tern_exact_mean *mean, uint32_t *segment, struct block *block)
{
    const uint32_t done = block->from + block->width;
    for (; *segment < mean->model->segment_count; (*segment)++) {
        const struct tern_segment *place = &mean->model->segments[*segment];
        const uint32_t past = place->offset + place->count;
        const uint32_t end = past < mean->end ? past : mean->end;
        uint32_t from = place->offset > mean->first ? place->offset : mean->first;
        from = done > from ? done : from;
        if (from < end) {
            *block = (struct block){from, end - from < BLOCK ? end - from : BLOCK, *segment,
                                    !tern_segment_is_coded(place)};
            return true;
        }
    }
    return false;
}

enum tern_result tern_exact_mean_fold(struct tern_exact_mean *mean,
                                      const struct tern_strategy_totals *totals)
{
    enum tern_result result = TERN_OK;
    uint32_t segment = 0;
    struct block block = {0};
    if (mean->sums == NULL) {
        mean->sums = make_cells(mean, &result);
        TERN_TRY(result);
    }
    arrange_groups(mean, totals);
    while (next_block(mean, &segment, &block)) {
        add_groups(mean, &block, &mean->sums[block.from - mean->first]);
    }
    drop_groups(mean);
    return TERN_OK;
}

void tern_exact_mean_take(struct tern_exact_mean *mean, const struct tern_strategy_totals *totals,
                          float *acc)
{
    const double examples = (double)totals->num_examples;
    uint32_t segment = 0;
    struct block block = {0};
    arrange_groups(mean, totals);
    while (next_block(mean, &segment, &block)) {
        double sums[BLOCK] = {0.0};
        float *means = acc + block.from;
        if (mean->sums != NULL) {
            memcpy(sums, &mean->sums[block.from - mean->first], block.width * sizeof sums[0]);
        }
        add_groups(mean, &block, sums);
        for (uint32_t i = 0; i < block.width; i++) {
            means[i] = (float)(sums[i] / examples);
        }
    }
}
