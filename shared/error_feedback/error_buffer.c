#include "error_feedback/error_buffer.h"

#include "codec/kernels/kernels.h"
#include "util/bytes.h"
#include "util/math.h"
#include <float.h>
#include <stdbool.h>
#include <string.h>

// Number of values in a chunk: whole blocks of the storage, small enough for the stack.
#define CHUNK (TERN_SMALL ? TERN_ERROR_BLOCK : 256)

// Unrolled steps of loops that add in order.
enum { UNROLLED = TERN_SMALL ? 1 : 4 };

static uint32_t chunk_count(uint32_t done, uint32_t count)
{
    return count - done < CHUNK ? count - done : CHUNK;
}

static bool is_share(float value)
{
    return value >= 0 && value <= 1;
}

// Reads decay * e for a chunk. A decay of 1 keeps every bit, 0 gives +0.
static void get_decayed(const struct tern_error_buffer *buffer, uint32_t first, float decay,
                        float *values, uint32_t count)
{
    if (decay == 0) {
        memset(values, 0, count * sizeof *values);
        return;
    }
    tern_error_storage_get(buffer->storage, buffer->bytes, first, values, count);
    for (uint32_t i = 0; decay != 1 && i < count; i++) {
        values[i] *= decay;
    }
}

// --- Before encoding

// Returns the bits of the largest magnitude of factor * a + b; NaN and infinity are above all others.
static uint32_t peak_of_sums(const float *a, float factor, const float *b, uint32_t count)
{
    uint32_t peak = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t magnitude = tern_float_bits(factor * a[i] + b[i]) & ~TERN_SIGN_BIT;
        peak = magnitude > peak ? magnitude : peak;
    }
    return peak;
}

enum tern_result tern_error_momentum(float *velocity, float mu, float *change, uint32_t count)
{
    if (peak_of_sums(velocity, mu, change, count) >= TERN_INFINITY_BITS) {
        return TERN_ERR_NON_FINITE;
    }
    for (uint32_t i = 0; i < count; i++) {
        velocity[i] = mu * velocity[i] + change[i];
        change[i] = velocity[i];
    }
    return TERN_OK;
}

enum tern_result tern_error_buffer_add_to(const struct tern_error_buffer *buffer, float decay,
                                          float *work)
{
    float kept[CHUNK];
    uint32_t peak = 0;
    if (!is_share(decay)) {
        return TERN_ERR_ARGUMENT;
    }
    for (uint32_t done = 0; done < buffer->count && peak < TERN_INFINITY_BITS; done += CHUNK) {
        const uint32_t n = chunk_count(done, buffer->count);
        float *sums = work + done;
        get_decayed(buffer, done, decay, kept, n);
        for (uint32_t i = 0; i < n; i++) {
            sums[i] += kept[i];
        }
        peak = tern_kernel_peak(sums, n);
    }
    return peak < TERN_INFINITY_BITS ? TERN_OK : TERN_ERR_NON_FINITE;
}

void tern_error_buffer_load(const struct tern_error_buffer *buffer, float *work)
{
    tern_error_storage_get(buffer->storage, buffer->bytes, 0, work, buffer->count);
}

// --- After encoding

// Returns a chunk of the next buffer before it is rounded: in `mixed`, or a part of next->work.
static const float *next_chunk(const struct tern_error_buffer *buffer,
                               const struct tern_error_next *next, uint32_t first, uint32_t count,
                               float mixed[CHUNK])
{
    const float *work = next->work + first;
    if (next->filter == 1) {
        return work;
    }
    const float rest = 1 - next->filter;
    get_decayed(buffer, first, next->decay, mixed, count);
    for (uint32_t i = 0; i < count; i++) {
        mixed[i] = rest * mixed[i] + next->filter * work[i];
    }
    return mixed;
}

void tern_error_buffer_store(struct tern_error_buffer *buffer, const struct tern_error_next *next)
{
    float mixed[CHUNK];
    for (uint32_t done = 0; done < buffer->count; done += CHUNK) {
        const uint32_t n = chunk_count(done, buffer->count);
        const float *values = next_chunk(buffer, next, done, n, mixed);
        tern_error_storage_put(buffer->storage, values, done, buffer->bytes, n);
    }
}

// --- Facts

struct sums {
    double square;
    uint32_t peak; // bits of the largest magnitude
};

static void add_facts(struct sums *sums, const float *values, uint32_t count)
{
    double square = sums->square;
#pragma GCC unroll UNROLLED
    for (uint32_t i = 0; i < count; i++) {
        const double value = (double)values[i];
        square += value * value;
    }
    sums->square = square;
    const uint32_t peak = tern_kernel_peak(values, count);
    sums->peak = peak > sums->peak ? peak : sums->peak;
}

static float norm_of(double square)
{
    const double norm = tern_sqrt(square);
    return norm < (double)FLT_MAX ? (float)norm : FLT_MAX;
}

static struct tern_error_facts facts_of(const struct sums *sums)
{
    return (struct tern_error_facts){
        .norm = norm_of(sums->square),
        .maximum = tern_bits_float(sums->peak),
    };
}

struct tern_error_facts tern_error_buffer_preview(const struct tern_error_buffer *buffer,
                                                  const struct tern_error_next *next)
{
    struct sums sums = {0};
    float values[CHUNK];
    float stored[CHUNK]; // large enough, because no storage takes more bytes than float32
    for (uint32_t done = 0; done < buffer->count; done += CHUNK) {
        const uint32_t n = chunk_count(done, buffer->count);
        const float *chunk = next_chunk(buffer, next, done, n, values);
        if (TERN_ERROR_STORAGE_OF(buffer->storage) != TERN_ERROR_FLOAT32) { // the storage rounds
            tern_error_storage_put(buffer->storage, chunk, 0, stored, n);
            tern_error_storage_get(buffer->storage, stored, 0, values, n);
            chunk = values;
        }
        add_facts(&sums, chunk, n);
    }
    return facts_of(&sums);
}

struct tern_error_facts tern_error_buffer_facts(const struct tern_error_buffer *buffer)
{
    struct sums sums = {0};
    float values[CHUNK];
    for (uint32_t done = 0; done < buffer->count; done += CHUNK) {
        const uint32_t n = chunk_count(done, buffer->count);
        tern_error_storage_get(buffer->storage, buffer->bytes, done, values, n);
        add_facts(&sums, values, n);
    }
    return facts_of(&sums);
}

// The product of two float32 norms is exact in float64. Two sums in one loop take the time of one, because each waits for its last
// addition.
float tern_error_buffer_limit(const struct tern_error_buffer *buffer, float limit,
                              const float *change)
{
    double kept = 0;
    double added = 0;
    float old[CHUNK];
    for (uint32_t done = 0; done < buffer->count; done += CHUNK) {
        const uint32_t n = chunk_count(done, buffer->count);
        tern_error_storage_get(buffer->storage, buffer->bytes, done, old, n);
        const float *fresh = change + done;
#pragma GCC unroll UNROLLED
        for (uint32_t i = 0; i < n; i++) {
            const double before = (double)old[i];
            const double value = (double)fresh[i];
            kept += before * before;
            added += value * value;
        }
    }
    const double norm = (double)norm_of(kept);
    const double most = (double)limit * (double)norm_of(added);
    return norm > most ? (float)(most / norm) : 1;
}

// --- Giving back

uint32_t tern_error_give_back_work(enum tern_error_storage storage, const struct tern_model *model)
{
    uint32_t largest = 0;
    for (uint32_t i = 0;
         TERN_ERROR_STORAGE_OF(storage) != TERN_ERROR_FLOAT32 && i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        const uint32_t count = tern_segment_is_coded(segment) ? segment->count : 0;
        largest = count > largest ? count : largest;
    }
    return largest;
}

static float limited(float value)
{
    const float least = value < -FLT_MAX ? -FLT_MAX : value;
    return least > FLT_MAX ? FLT_MAX : least;
}

// Adds decoded[0..count) to the values from `first` on, which lie in one block. The whole block is rounded again, unless all
// decoded values are 0.
static void add_to_block(struct tern_error_buffer *buffer, uint32_t first, const float *decoded,
                         uint32_t count)
{
    float values[TERN_ERROR_BLOCK];
    const uint32_t at = first - first % TERN_ERROR_BLOCK;
    const uint32_t left = buffer->count - at;
    const uint32_t n = left < TERN_ERROR_BLOCK ? left : TERN_ERROR_BLOCK;
    if (tern_kernel_peak(decoded, count) == 0) {
        return;
    }
    tern_error_storage_get(buffer->storage, buffer->bytes, at, values, n);
    for (uint32_t i = 0; i < count; i++) {
        values[first - at + i] = limited(values[first - at + i] + decoded[i]);
    }
    tern_error_storage_put(buffer->storage, values, at, buffer->bytes, n);
}

// Adds any number of values; a segment may start and end inside a block.
static void add_range(struct tern_error_buffer *buffer, uint32_t first, const float *decoded,
                      uint32_t count)
{
    for (uint32_t done = 0; done < count;) {
        const uint32_t room = TERN_ERROR_BLOCK - (first + done) % TERN_ERROR_BLOCK;
        const uint32_t n = count - done < room ? count - done : room;
        add_to_block(buffer, first + done, decoded + done, n);
        done += n;
    }
}

static enum tern_result give_back_segments(struct tern_error_buffer *buffer,
                                           const struct tern_model *model, const uint8_t *container,
                                           size_t len, float *work)
{
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        uint64_t payload_len = 0;
        const size_t length_bytes = tern_get_varint(container, len, &payload_len);
        if (tern_segment_is_coded(segment)) {
            TERN_TRY(tern_codec_decode(container + length_bytes, (size_t)payload_len, work,
                                       segment->count));
            add_range(buffer, segment->offset, work, segment->count);
        }
        container += length_bytes + (size_t)payload_len;
        len -= length_bytes + (size_t)payload_len;
    }
    return TERN_OK;
}

enum tern_result tern_error_buffer_give_back(struct tern_error_buffer *buffer,
                                             const struct tern_model *model,
                                             const uint8_t *container, size_t len, float *work)
{
    struct tern_codec_info info;
    if (TERN_ERROR_STORAGE_OF(buffer->storage) == TERN_ERROR_FLOAT32) {
        return tern_container_give_back(model, container, len, buffer->bytes);
    }
    TERN_TRY(tern_container_inspect(model, container, len, &info)); // checks all before any change
    return give_back_segments(buffer, model, container, len, work);
}

void tern_error_buffer_reset(struct tern_error_buffer *buffer)
{
    memset(buffer->bytes, 0, tern_error_storage_bytes(buffer->storage, buffer->count));
}
