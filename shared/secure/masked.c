#include "secure/masked.h"
#include "util/bytes.h"
#include "util/math.h"
#include "util/prng.h"
#include <float.h>
#include <string.h>

#define COUNTERS 2u        // examples and loss, in front of the tensors' counters
#define LOSS_UNIT 4096.0   // the loss counter has 1/4096 of a loss
#define TARGET_DENSITY 0.1 // part of the quantised values that are not zero
#define FIRST_STEP                                                                                 \
    0.25 // first scale of a tensor: this, times learning rate, local steps and mean magnitude
#define ZERO_MODEL_MAGNITUDE 0.04 // mean magnitude that a model of zeros counts as having
#define GAIN 0.5                  // part of the way to a proportional scale
#define NOISE_UNIT 1000.0         // noise has thousandths of the noise multiplier
#define MOVE_MAX 2.0              // largest factor between the scales of two rounds
#define ACCEPTED_MOVE 4.0f        // largest factor that a client accepts between two rounds
#define MISSED_ROUNDS_MAX 2u      // rounds by which a client's limit grows: to a factor of 16
#define LATE_MOVE 1024.0f         // largest factor for first scales after round 1

static bool is_sent(const struct tern_tensor *tensor)
{
    return tensor->rule <= TERN_RULE_FUSE;
}

uint32_t tern_masked_tensors(const struct tern_model *model)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        count += is_sent(&model->tensors[i]);
    }
    return count;
}

bool tern_masked_supports(const struct tern_model *model)
{
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        const enum tern_rule rule = model->tensors[i].rule;
        if (rule == TERN_RULE_DENSE || rule == TERN_RULE_LOCAL) {
            return false;
        }
    }
    const uint32_t tensors = tern_masked_tensors(model);
    return tensors > 0 && tensors <= TERN_MASKED_TENSORS_MAX;
}

uint32_t tern_masked_counter_most(const struct tern_model *model, uint32_t share)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        const struct tern_tensor *tensor = &model->tensors[i];
        // One value of each group of `share`; the first and the last group may be of other tensors, too.
        const uint32_t groups = tensor->count / share + 2;
        const uint32_t sent = share > 1 && groups < tensor->count ? groups : tensor->count;
        most = is_sent(tensor) && sent > most ? sent : most;
    }
    return most;
}

uint32_t tern_masked_largest_cohort(const struct tern_model *model, uint32_t share)
{
    return UINT32_MAX / tern_masked_counter_most(model, share);
}

void tern_masked_weights_hash(const struct tern_model *model, const float *weights,
                              uint8_t hash[TERN_SHA256_SIZE])
{
    uint8_t block[256];
    size_t len = 0;
    struct tern_sha256 sha;
    tern_sha256_init(&sha);
    for (uint32_t i = 0; i < model->count; i++) {
        tern_put_f32(block + len, weights[i]);
        len += 4;
        if (len == sizeof block) {
            tern_sha256_update(&sha, block, len);
            len = 0;
        }
    }
    tern_sha256_update(&sha, block, len);
    tern_sha256_final(&sha, hash);
}

struct tern_masked_shape tern_masked_shape_of(const struct tern_model *model,
                                              const struct tern_secure_round *round)
{
    uint32_t sent = model->coded;
    return (struct tern_masked_shape){.tensors = tern_masked_tensors(model),
                                      .values = sent / round->share + (sent % round->share != 0),
                                      .bits = round->bits};
}

static size_t value_words(const struct tern_masked_shape *shape)
{
    return (size_t)(((uint64_t)shape->values * shape->bits + 31) / 32);
}

static size_t counter_words(const struct tern_masked_shape *shape)
{
    return COUNTERS + (size_t)shape->tensors;
}

size_t tern_masked_size(const struct tern_masked_shape *shape)
{
    return 4 * (counter_words(shape) + value_words(shape));
}

// Returns a mask of the used bits of the last word.
static uint32_t last_word_mask(const struct tern_masked_shape *shape)
{
    uint32_t used = (uint32_t)((uint64_t)shape->values * shape->bits % 32);
    return used == 0 ? UINT32_MAX : (UINT32_C(1) << used) - 1;
}

enum tern_result tern_masked_check(const struct tern_masked_shape *shape, const uint8_t *packed,
                                   size_t size)
{
    if (size != tern_masked_size(shape) ||
        (tern_get_le32(packed + size - 4) & ~last_word_mask(shape)) != 0) {
        return TERN_ERR_CORRUPT;
    }
    return TERN_OK;
}

// --- The values that a round sends, in the order of the flat vector

// The sent part of the flat vector is divided into groups of `share` neighbouring values (the last group may be smaller), and one
// value of each group is sent. For group g it is draw g of the round's public stream, scaled to the group's size.
struct sent_walk {
    const struct tern_model *model;
    const struct tern_secure_round *round;
    struct tern_prng draws;
    uint32_t sent;   // values in all groups
    uint32_t group;  // next one
    uint32_t rule;   // of the current tensor
    uint32_t tensor; // its index in the model
    uint32_t end;    // index behind its last value
    uint32_t order;  // its place among the sent tensors
    uint32_t index;  // of the current value in the flat vector
    float scale;     // of the current tensor
};

static void start_walk(struct sent_walk *walk, const struct tern_model *model,
                       const struct tern_secure_round *round)
{
    *walk = (struct sent_walk){.model = model,
                               .round = round,
                               .sent = model->coded,
                               .tensor = UINT32_MAX,
                               .order = UINT32_MAX};
    tern_prng_init(&walk->draws, round->places_seed, TERN_PRNG_PLACES, 0, 0);
}

// Goes on to the next tensor that is sent. The flat vector has all tensors of a rule before those of the next rule.
static void next_tensor(struct sent_walk *walk)
{
    do {
        walk->tensor++;
        if (walk->tensor == walk->model->tensor_count) {
            walk->tensor = 0;
            walk->rule++;
        }
    } while (walk->model->tensors[walk->tensor].rule != walk->rule);
    walk->end += walk->model->tensors[walk->tensor].count;
    walk->order++;
    walk->scale = walk->round->scales == NULL ? 0 : walk->round->scales[walk->order];
}

// Moves to the next value that is sent. False: there is none.
static bool next_sent(struct sent_walk *walk)
{
    uint32_t first = walk->group * walk->round->share;
    if (first >= walk->sent) {
        return false;
    }
    uint32_t size =
        walk->sent - first < walk->round->share ? walk->sent - first : walk->round->share;
    walk->index = first;
    if (walk->round->share > 1) {
        walk->index += (uint32_t)((uint64_t)tern_prng_u32(&walk->draws) * size >> 32);
    }
    walk->group++;
    while (walk->index >= walk->end) {
        next_tensor(walk);
    }
    return true;
}

// Skips the rest of the current tensor, and returns the number of values that were passed. more: the walk has a current value.
static uint32_t skip_tensor(struct sent_walk *walk, bool *more)
{
    const uint32_t tensor = walk->order;
    uint32_t values = 0;
    while (*more && walk->order == tensor) {
        values++;
        *more = next_sent(walk);
    }
    return values;
}

// --- Packing

struct bit_writer {
    uint8_t *dst;
    uint64_t bits;
    uint32_t count; // of bits
};

static void put_value(struct bit_writer *writer, int32_t value, uint32_t bits)
{
    uint64_t field = (uint32_t)value & ((UINT32_C(1) << bits) - 1);
    writer->bits |= field << writer->count;
    writer->count += bits;
    if (writer->count >= 32) {
        tern_store_le32(writer->dst, (uint32_t)writer->bits);
        writer->dst += 4;
        writer->bits >>= 32;
        writer->count -= 32;
    }
}

static void finish_values(struct bit_writer *writer)
{
    if (writer->count > 0) {
        tern_store_le32(writer->dst, (uint32_t)writer->bits);
    }
}

int32_t tern_masked_value(const struct tern_masked_shape *shape, const uint8_t *packed,
                          uint32_t index)
{
    uint64_t bit = (uint64_t)index * shape->bits;
    const uint8_t *word = packed + 4 * (counter_words(shape) + (size_t)(bit / 32));
    uint32_t shift = (uint32_t)(bit % 32);
    uint64_t window = tern_load_le32(word);
    if (shift + shape->bits > 32) {
        window |= (uint64_t)tern_load_le32(word + 4) << 32;
    }
    uint32_t field = (uint32_t)(window >> shift) & ((UINT32_C(1) << shape->bits) - 1);
    uint32_t sign = UINT32_C(1) << (shape->bits - 1);
    return (int32_t)(field ^ sign) - (int32_t)sign;
}

// --- Clients

// Returns the factor of a client's change.
static float weight_of(const struct tern_secure_round *round, uint32_t examples)
{
    if (round->examples_max == 0 || examples >= round->examples_max) {
        return 1;
    }
    return (float)((double)examples / round->examples_max);
}

void tern_masked_weigh(const struct tern_model *model, const struct tern_secure_round *round,
                       uint32_t examples, float *change)
{
    const float weight = weight_of(round, examples);
    uint32_t next = 0;
    struct sent_walk walk;
    start_walk(&walk, model, round);
    while (next_sent(&walk)) {
        memset(change + next, 0, (walk.index - next) * sizeof *change);
        change[walk.index] *= weight;
        next = walk.index + 1;
    }
    memset(change + next, 0, (model->coded - next) * sizeof *change);
}

// Returns the largest value of a counter, so that the sum over the cohort fits 32 bits.
static uint32_t counter_max(const struct tern_secure_round *round)
{
    return UINT32_MAX / round->cohort;
}

static void put_counters(const struct tern_secure_round *round,
                         const struct tern_masked_training *training, uint8_t *packed)
{
    uint32_t examples = training->examples;
    if (round->noise > 0) {
        memset(packed, 0,
               (size_t)4 * COUNTERS); // noise on these sums would have to be as large as they are
        return;
    }
    if (round->examples_max > 0 && examples > round->examples_max) {
        examples = round->examples_max;
    }
    uint32_t most = counter_max(round);
    double loss = training->loss * (double)weight_of(round, training->examples) * LOSS_UNIT + 0.5;
    tern_put_le32(packed, examples < most ? examples : most);
    tern_put_le32(packed + 4, loss < most ? (uint32_t)(loss > 0 ? loss : 0)
                                          : most); // a NaN counts as the largest
}

// Rounds to the nearest whole number, ties to even, from -level to level. Adding 1.5 * 2^23 leaves no fraction in a float32.
static int32_t quantised(float ratio, float level)
{
    const float magic = 12582912.0f;
    float limited = ratio > level ? level : ratio < -level ? -level : ratio;
    volatile float sum =
        limited + magic; // one rounding to float32, on processors with wider registers, too
    return (int32_t)(sum - magic);
}

static bool is_finite(float value)
{
    return value >= -FLT_MAX && value <= FLT_MAX;
}

// Which quantised values stay when the round limits the values that are not zero. A magnitude is the bits of |t / s|, which
// increase with it.
struct magnitude_limit {
    uint32_t above; // values with a larger magnitude stay
    uint32_t ties;  // of the values with this magnitude, so many stay, the first ones
};

static uint32_t magnitude_of(float ratio)
{
    uint32_t bits = 0;
    memcpy(&bits, &ratio, sizeof bits);
    return bits & UINT32_C(0x7fffffff);
}

// Counts the sent values that are not zero once quantised and have a magnitude above a limit.
static uint32_t count_above(const struct tern_model *model, const struct tern_secure_round *round,
                            const float *work, uint32_t above)
{
    uint32_t count = 0;
    struct sent_walk walk;
    start_walk(&walk, model, round);
    while (next_sent(&walk)) {
        const float ratio = work[walk.index] / walk.scale;
        count += magnitude_of(ratio) > above && quantised(ratio, (float)round->level) != 0;
    }
    return count;
}

// Finds the limit that leaves round->places_max values, by bisection over the bits of magnitudes.
static struct magnitude_limit find_limit(const struct tern_model *model,
                                         const struct tern_secure_round *round, const float *work)
{
    const uint32_t most = round->places_max;
    if (most == 0 || count_above(model, round, work, 0) <= most) {
        return (struct magnitude_limit){0, 0};
    }
    uint32_t low = 0;                     // more than `most` values are above
    uint32_t high = UINT32_C(0x7fffffff); // at most `most` values are above
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (count_above(model, round, work, middle) > most) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return (struct magnitude_limit){high, most - count_above(model, round, work, high)};
}

// Returns whether a value stays, and counts it if it has the limit's magnitude.
static bool stays(struct magnitude_limit *limit, float ratio)
{
    const uint32_t magnitude = magnitude_of(ratio);
    if (magnitude != limit->above || limit->above == 0) {
        return magnitude > limit->above;
    }
    if (limit->ties == 0) {
        return false;
    }
    limit->ties--;
    return true;
}

// Returns the part of a tensor's values that the next scales of a round with noise aim at: all places that the noise is for. With
// fewer, the noise would be as large and hide less; with larger scales, it would be larger.
static double places_density(const struct tern_secure_round *round, uint32_t values)
{
    const double places = (double)round->places_max / values;
    return places < 1 ? places : 1;
}

// Turns the counters of a round with noise, which have the values that are not zero before the limit, into bounded ones: the largest
// stands for twice the target density and more.
static void bound_counters(const struct tern_model *model, const struct tern_secure_round *round,
                           uint8_t *packed)
{
    const double most = tern_secure_counter_max(round);
    const double target = places_density(round, tern_masked_shape_of(model, round).values);
    struct sent_walk walk;
    start_walk(&walk, model, round);
    for (bool more = next_sent(&walk); more;) {
        uint8_t *counter = packed + 4 * (COUNTERS + (size_t)walk.order);
        const double density = tern_get_le32(counter) / (double)skip_tensor(&walk, &more);
        const double value = most * (density / (2 * target));
        tern_put_le32(counter, (uint32_t)((value < most ? value : most) + 0.5));
    }
}

enum tern_result tern_masked_quantise(const struct tern_model *model,
                                      const struct tern_secure_round *round,
                                      const struct tern_masked_training *training, float *work,
                                      uint8_t *packed)
{
    const struct tern_masked_shape shape = tern_masked_shape_of(model, round);
    for (uint32_t i = 0; i < model->count; i++) {
        if (!is_finite(work[i])) {
            return TERN_ERR_NON_FINITE;
        }
    }
    put_counters(round, training, packed);
    memset(packed + 4 * COUNTERS, 0, 4 * (size_t)shape.tensors);
    struct bit_writer writer = {.dst = packed + 4 * counter_words(&shape)};
    struct magnitude_limit limit = find_limit(model, round, work);
    struct sent_walk walk;
    start_walk(&walk, model, round);
    while (next_sent(&walk)) {
        const float ratio = work[walk.index] / walk.scale;
        const int32_t nearest = quantised(ratio, (float)round->level);
        const int32_t value = nearest != 0 && stays(&limit, ratio) ? nearest : 0;
        work[walk.index] -= walk.scale * (float)value;
        put_value(&writer, value, round->bits);
        uint8_t *counter = packed + 4 * (COUNTERS + (size_t)walk.order);
        tern_put_le32(counter,
                      tern_get_le32(counter) + ((round->noise > 0 ? nearest : value) != 0));
    }
    finish_values(&writer);
    if (round->noise > 0) {
        bound_counters(model, round, packed);
    }
    return TERN_OK;
}

static float limited(float value)
{
    return value > FLT_MAX ? FLT_MAX : value < -FLT_MAX ? -FLT_MAX : value;
}

void tern_masked_give_back(const struct tern_model *model, const struct tern_secure_round *round,
                           const uint8_t *packed, struct tern_error_buffer *buffer)
{
    const struct tern_masked_shape shape = tern_masked_shape_of(model, round);
    struct sent_walk walk;
    start_walk(&walk, model, round);
    uint32_t order = 0;
    bool more = next_sent(&walk);
    for (uint32_t first = 0; first < buffer->count; first += TERN_ERROR_BLOCK) {
        const uint32_t left = buffer->count - first;
        const uint32_t count = left < TERN_ERROR_BLOCK ? left : TERN_ERROR_BLOCK;
        float values[TERN_ERROR_BLOCK];
        bool changes = false;
        tern_error_storage_get(buffer->storage, buffer->bytes, first, values, count);
        while (more && walk.index < first + count) {
            const int32_t value = tern_masked_value(&shape, packed, order++);
            float *e = &values[walk.index - first];
            *e = limited(*e + walk.scale * (float)value);
            changes = changes || value != 0;
            more = next_sent(&walk);
        }
        if (changes) {
            tern_error_storage_put(buffer->storage, values, first, buffer->bytes, count);
        }
    }
}

// --- Addition modulo 2^b of every field, word by word: the top bit of each field is added apart, so that no carry reaches the next
// field, while the carry within a field passes from one word to the next.

// The position in a packed vector.
struct field_walk {
    uint32_t tops
        [TERN_SECURE_BITS_MAX]; // top bits of the fields in a word whose first bit is bit `i` of its field
    uint32_t bits;
    uint32_t phase;     // i of the current word
    size_t counters;    // words of counters that follow
    size_t words;       // words that follow, counters included
    uint32_t last_mask; // used bits of the last word
    uint32_t carry;
};

static void start_fields(struct field_walk *walk, const struct tern_masked_shape *shape)
{
    *walk = (struct field_walk){.bits = shape->bits,
                                .counters = counter_words(shape),
                                .words = counter_words(shape) + value_words(shape),
                                .last_mask = last_word_mask(shape)};
    for (uint32_t phase = 0; phase < shape->bits; phase++) {
        for (uint32_t top = shape->bits - 1 - phase; top < 32; top += shape->bits) {
            walk->tops[phase] |= UINT32_C(1) << top;
        }
    }
}

// Returns the top bits of the next word's fields.
static uint32_t next_tops(struct field_walk *walk)
{
    walk->words--;
    if (walk->counters > 0) {
        walk->counters--;
        return UINT32_C(1) << 31;
    }
    uint32_t tops = walk->tops[walk->phase];
    walk->phase = (walk->phase + 32) % walk->bits;
    return tops;
}

static void add_words(struct field_walk *walk, uint8_t *sum, const uint8_t *other, size_t words)
{
    for (size_t i = 0; i < words; i++) {
        uint32_t tops = next_tops(walk);
        uint32_t a = tern_load_le32(sum + 4 * i);
        uint32_t b = tern_load_le32(other + 4 * i);
        uint64_t low = (uint64_t)(a & ~tops) + (b & ~tops) + walk->carry;
        walk->carry = (uint32_t)(low >> 32);
        uint32_t word = (uint32_t)low ^ ((a ^ b) & tops);
        tern_store_le32(sum + 4 * i, walk->words == 0 ? word & walk->last_mask : word);
    }
}

static void subtract_words(struct field_walk *walk, uint8_t *sum, const uint8_t *other,
                           size_t words)
{
    for (size_t i = 0; i < words; i++) {
        uint32_t tops = next_tops(walk);
        uint32_t a = tern_load_le32(sum + 4 * i);
        uint32_t b = tern_load_le32(other + 4 * i);
        uint64_t low = (uint64_t)(a | tops) - (b & ~tops) - walk->carry;
        walk->carry = (uint32_t)(low >> 32) & 1;
        uint32_t word = (uint32_t)low ^ ((a ^ ~b) & tops);
        tern_store_le32(sum + 4 * i, walk->words == 0 ? word & walk->last_mask : word);
    }
}

void tern_masked_add(const struct tern_masked_shape *shape, uint8_t *sum, const uint8_t *packed)
{
    struct field_walk walk;
    start_fields(&walk, shape);
    add_words(&walk, sum, packed, walk.words);
}

void tern_masked_subtract(const struct tern_masked_shape *shape, uint8_t *sum,
                          const uint8_t *packed)
{
    struct field_walk walk;
    start_fields(&walk, shape);
    subtract_words(&walk, sum, packed, walk.words);
}

typedef void combine_words(struct field_walk *walk, uint8_t *sum, const uint8_t *other,
                           size_t words);

// Combines a packed vector with the keystream, block by block.
static enum tern_result combine_mask(const struct tern_masked_shape *shape,
                                     const uint8_t key[TERN_SECRET_SIZE], combine_words *combine,
                                     uint8_t *packed)
{
    struct field_walk walk;
    struct tern_keystream stream;
    start_fields(&walk, shape);
    TERN_TRY(tern_keystream_open(&stream, key, NULL));
    enum tern_result result = TERN_OK;
    while (walk.words > 0 && result == TERN_OK) {
        uint8_t block[TERN_KEYSTREAM_BLOCK];
        result = tern_keystream_next(&stream, block, 1);
        if (result == TERN_OK) {
            size_t words = walk.words < sizeof block / 4 ? walk.words : sizeof block / 4;
            combine(&walk, packed, block, words);
            packed += 4 * words;
        }
    }
    tern_keystream_close(&stream);
    return result;
}

enum tern_result tern_masked_add_mask(const struct tern_masked_shape *shape,
                                      const uint8_t key[TERN_SECRET_SIZE], uint8_t *packed)
{
    return combine_mask(shape, key, add_words, packed);
}

enum tern_result tern_masked_remove_mask(const struct tern_masked_shape *shape,
                                         const uint8_t key[TERN_SECRET_SIZE], uint8_t *packed)
{
    return combine_mask(shape, key, subtract_words, packed);
}

// --- Noise

enum tern_result tern_masked_draw_noise(const struct tern_masked_shape *shape,
                                        struct tern_gaussian *gaussian, uint8_t *packed)
{
    struct bit_writer writer = {.dst = packed + 4 * counter_words(shape)};
    int64_t sample = 0;
    memset(packed, 0, tern_masked_size(shape));
    for (uint32_t i = 0; i < shape->tensors; i++) {
        TERN_TRY(tern_gaussian_next(gaussian, &sample));
        tern_put_le32(packed + 4 * (COUNTERS + (size_t)i), (uint32_t)sample);
    }
    for (uint32_t i = 0; i < shape->values; i++) {
        TERN_TRY(tern_gaussian_next(gaussian, &sample));
        put_value(&writer, (int32_t)sample, shape->bits);
    }
    finish_values(&writer);
    return TERN_OK;
}

// --- Sums

struct tern_masked_totals tern_masked_totals_of(const struct tern_secure_round *round,
                                                const uint8_t *sum, uint32_t members)
{
    struct tern_masked_totals totals = {.examples = tern_get_le32(sum), .weight = members};
    if (round->examples_max > 0) {
        totals.weight = (double)totals.examples / round->examples_max;
    }
    if (totals.weight > 0) {
        totals.loss = tern_get_le32(sum + 4) / LOSS_UNIT / totals.weight;
    }
    return totals;
}

// Returns a larger divisor for a sum with noise. The norm of the noise, over all values, is z * sqrt(values) times the largest norm
// of one update. Where that exceeds the cohort, most of the mean is noise, and full steps would drown the model in it.
static double damped(const struct tern_secure_round *round, uint32_t values, double divisor)
{
    const double multiplier = (double)round->noise / NOISE_UNIT;
    return round->noise == 0 ? divisor
                             : tern_sqrt(divisor * divisor + multiplier * multiplier * values);
}

double tern_masked_median(double *values, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const double value = values[i];
        uint32_t at = i;
        for (; at > 0 && values[at - 1] > value; at--) {
            values[at] = values[at - 1];
        }
        values[at] = value;
    }
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

void tern_masked_decode(const struct tern_model *model, const struct tern_secure_round *round,
                        const struct tern_masked_part *parts, uint32_t count, float *change)
{
    const struct tern_masked_shape shape = tern_masked_shape_of(model, round);
    double means[TERN_SECURE_GROUPS_MAX];
    double divisors[TERN_SECURE_GROUPS_MAX];
    struct sent_walk walk;
    start_walk(&walk, model, round);
    memset(change, 0, sizeof *change * model->count);
    for (uint32_t k = 0; k < count; k++) {
        divisors[k] = damped(round, shape.values, parts[k].weight);
    }
    for (uint32_t i = 0; next_sent(&walk); i++) {
        for (uint32_t k = 0; k < count; k++) {
            means[k] =
                (double)walk.scale * tern_masked_value(&shape, parts[k].sum, i) / divisors[k];
        }
        change[walk.index] = (float)tern_masked_median(means, count);
    }
}

// --- Scales

static float limited_scale(double scale)
{
    return (float)(scale < FLT_MIN ? FLT_MIN : scale > FLT_MAX ? FLT_MAX : scale);
}

// Returns the sum of the magnitudes of weights[0..count).
static double sum_of_magnitudes(const float *weights, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += weights[i] < 0 ? -(double)weights[i] : (double)weights[i];
    }
    return sum;
}

// A change is roughly proportional to the learning rate, the steps and the size of the weights. Biases start at 0 and change as
// much as weights do.
void tern_masked_first_scales(const struct tern_model *model, const struct tern_secure_round *round,
                              const float *weights, float *scales)
{
    const double step = FIRST_STEP * (double)round->learning_rate * round->local_steps;
    double whole = sum_of_magnitudes(weights, model->coded) / model->coded;
    whole = whole > 0 ? whole : ZERO_MODEL_MAGNITUDE;
    uint32_t order = 0;
    for (uint32_t rule = TERN_RULE_COMPRESS; rule <= TERN_RULE_FUSE; rule++) {
        for (uint32_t i = 0; i < model->tensor_count; i++) {
            const struct tern_tensor *tensor = &model->tensors[i];
            if (tensor->rule == rule) {
                const double mean =
                    sum_of_magnitudes(weights + tensor->offset, tensor->count) / tensor->count;
                scales[order++] = limited_scale(step * (mean > 0 ? mean : whole));
            }
        }
    }
}

// Returns the factor of a scale. excess: density divided by its target. A scale that is too small makes too many values different
// from zero. gain: the part of the way to a proportional one.
static double scale_factor(double excess, double gain)
{
    double factor = 1 - gain + gain * excess;
    return factor > MOVE_MAX ? MOVE_MAX : factor;
}

// Returns the factor of a scale from its counter in a sum with noise. The excess, of which 1 is the target, has the variance
// noise / target^2. The larger it is, the less the scale follows, as in a Kalman filter; otherwise scales would walk at random.
static double noisy_factor(const struct tern_secure_round *round, int32_t counter, uint32_t members)
{
    const double target = (double)tern_secure_counter_max(round) * members / 2;
    const double square = target * target;
    const double excess = counter / target;
    return scale_factor(excess > 0 ? excess : 0,
                        GAIN * (square / (square + (double)tern_secure_variance(round))));
}

bool tern_masked_sum_is_possible(const struct tern_model *model,
                                 const struct tern_secure_round *round, const uint8_t *sum,
                                 uint32_t members)
{
    const struct tern_masked_shape shape = tern_masked_shape_of(model, round);
    const int64_t most =
        (int64_t)members * round->level + (int64_t)tern_gaussian_bound(tern_secure_variance(round));
    struct sent_walk walk;
    start_walk(&walk, model, round);
    if (round->noise > 0 && (tern_get_le32(sum) != 0 || tern_get_le32(sum + 4) != 0)) {
        return false; // every client sends zeros, on which there is no noise
    }
    if (round->examples_max > 0 && tern_get_le32(sum) > (uint64_t)members * round->examples_max) {
        return false;
    }
    bool more = next_sent(&walk);
    for (uint32_t index = 0; more;) {
        const uint32_t tensor = walk.order;
        uint64_t magnitudes = 0;
        uint64_t values = 0;
        for (; more && walk.order == tensor; index++) {
            const int32_t value = tern_masked_value(&shape, sum, index);
            if (value > most || value < -most) {
                return false;
            }
            magnitudes += (uint64_t)(value < 0 ? -value : value);
            values++;
            more = next_sent(&walk);
        }
        const uint64_t not_zero = tern_get_le32(sum + 4 * (COUNTERS + (size_t)tensor));
        if (round->noise > 0) {
            continue;
        }
        if (not_zero * round->level < magnitudes || not_zero > values * members) {
            return false;
        }
    }
    return true;
}

// Returns the factor of a tensor's scale, by the density in one part. values: the tensor's sent ones.
static double factor_of(const struct tern_secure_round *round, const struct tern_masked_part *part,
                        uint32_t tensor, uint32_t values)
{
    const uint32_t counter = tern_get_le32(part->sum + 4 * (COUNTERS + (size_t)tensor));
    return round->noise > 0
               ? noisy_factor(round, (int32_t)counter, part->members)
               : scale_factor(counter / ((double)values * part->members) / TARGET_DENSITY, GAIN);
}

void tern_masked_next_scales(const struct tern_model *model, const struct tern_secure_round *round,
                             const struct tern_masked_part *parts, uint32_t count, float *next)
{
    double factors[TERN_SECURE_GROUPS_MAX];
    struct sent_walk walk;
    start_walk(&walk, model, round);
    uint32_t tensors = tern_masked_tensors(model);
    memcpy(next, round->scales, sizeof *next * tensors);
    bool more = next_sent(&walk);
    while (more) {
        const uint32_t tensor = walk.order;
        const uint32_t values = skip_tensor(&walk, &more);
        for (uint32_t k = 0; k < count; k++) {
            factors[k] = factor_of(round, &parts[k], tensor, values);
        }
        next[tensor] = limited_scale(round->scales[tensor] * tern_masked_median(factors, count));
    }
}

bool tern_masked_scales_are_near(const struct tern_secure_round *round, const float *before,
                                 uint32_t before_round)
{
    uint32_t missed = round->round > before_round ? round->round - before_round - 1 : 0;
    // The first scales follow from weights that round 1 has changed: biases that were 0 are small numbers then.
    const bool is_late = before_round == 0 && missed > 0;
    missed = missed < MISSED_ROUNDS_MAX ? missed : MISSED_ROUNDS_MAX;
    const float factor = is_late ? LATE_MOVE : ACCEPTED_MOVE * (float)(1u << missed);
    for (uint32_t i = 0; i < round->scale_count; i++) {
        float scale = round->scales[i];
        if (!(scale > 0 && is_finite(scale) && scale / factor <= before[i] &&
              before[i] / factor <= scale)) {
            return false;
        }
    }
    return true;
}
