// Combines ternary quantizers and coders.
#include "codec/coders/ternary.h"

#include "build.h"
#include "codec/coders/bits.h"
#include "codec/coders/parallel.h"
#include "codec/kernels/offload.h"
#include <stdbool.h>

// A small build contains only the names of its own coders.
#define NAME_OF(symbol, name)                                                                      \
    [TERN_CODER_##symbol] =                                                                        \
        TERN_FOR_PEOPLE || (TERN_CODERS_LEFT_OUT & 1u << TERN_CODER_##symbol) == 0 ? (name) : ""

const char *const tern_coder_names[] = {
    NAME_OF(ZERO_RUN, "zero-run"),
    NAME_OF(PACKED, "packed"),
    NAME_OF(GAPS, "gaps"),
    NAME_OF(RANGE, "range"),
    NAME_OF(AUTO, "auto"),
    NAME_OF(BALANCED, "balanced"),
    NULL,
};

#define ADDRESS_OF(coder, symbol) &tern_##coder##_coder,
static const struct tern_ternary_coder *const coders[] = {TERN_CODERS(ADDRESS_OF)};

enum { CODERS = sizeof coders / sizeof coders[0] };

static bool tries_all(const struct tern_codec *codec)
{
    return codec->coder == TERN_CODER_AUTO;
}

// Whether each tensor gets the coder that suits it.
static bool is_chosen(const struct tern_codec *codec)
{
    return tries_all(codec) || (TERN_BALANCES && codec->coder == TERN_CODER_BALANCED);
}

#define MODE_OF(coder, symbol) [TERN_CODER_##symbol] = TERN_MODE_TERNARY_##symbol,
static const uint8_t modes[] = {TERN_CODERS(MODE_OF)};

// Returns a built-in coder. Parsing refuses spec strings with other coders.
static const struct tern_ternary_coder *coder_named(uint32_t coder)
{
    size_t i = CODERS - 1;
    while (i > 0 && coders[i]->mode != modes[coder]) {
        i--;
    }
    return coders[i];
}

// Returns the coder of a codec for which is_chosen() is false.
static const struct tern_ternary_coder *coder_of(const struct tern_codec *codec)
{
    return coder_named(codec->coder);
}

static size_t coded_bound(const struct tern_codec *codec, size_t count)
{
    if (!is_chosen(codec)) {
        return coder_of(codec)->bound(count);
    }
    size_t most = 0;
    for (size_t i = 0; i < CODERS; i++) {
        size_t bound = coders[i]->bound(count);
        most = bound > most ? bound : most;
    }
    return most;
}

// Returns the bytes of the planes at the end of dst, including alignment.
static size_t planes_room(size_t count)
{
    return 2 * sizeof(uint64_t) * tern_plane_words(count) + sizeof(uint64_t);
}

static size_t bound_with_planes(const struct tern_codec *codec, size_t count)
{
    return TERN_TERNARY_HEAD + coded_bound(codec, count) + planes_room(count);
}

static bool takes_planar(const struct tern_codec *codec)
{
    return !is_chosen(codec) && coder_of(codec)->encode_planar != NULL;
}

size_t tern_ternary_bound(const struct tern_codec *codec, size_t count)
{
    return takes_planar(codec) ? TERN_TERNARY_HEAD + coded_bound(codec, count)
                               : bound_with_planes(codec, count);
}

// Returns the planes, which lie at the end of dst.
static struct tern_planes planes_of(const struct tern_encode_job *job)
{
    size_t words = tern_plane_words(job->count);
    uint8_t *end = job->dst + bound_with_planes(job->codec, job->count);
    uintptr_t misaligned = (uintptr_t)end % sizeof(uint64_t);
    uint64_t *aligned = (uint64_t *)(void *)(end - misaligned);
    return (struct tern_planes){
        .nonzero = aligned - 2 * words, .negative = aligned - words, .count = job->count};
}

static size_t write_head(const struct tern_encode_job *job, enum tern_mode_byte mode, float scale)
{
    job->dst[0] = (uint8_t)mode;
    tern_put_f32(job->dst + 1, scale);
    return TERN_TERNARY_HEAD;
}

// Returns the coder with the fewest bytes, the first of equals, and leaves its bytes in dst. Skips packed bytes, which are never
// fewer than zero runs.
static const struct tern_ternary_coder *encode_smallest(const struct tern_planes *planes,
                                                        uint8_t *dst, size_t *len)
{
    const struct tern_ternary_coder *best = coders[0];
    const struct tern_ternary_coder *last = best;
    *len = best->encode(planes, dst);
    for (size_t i = 1; i < CODERS; i++) {
        if (coders[i]->mode == TERN_MODE_TERNARY_PACKED) {
            continue;
        }
        last = coders[i];
        size_t tried = last->encode(planes, dst);
        if (tried < *len) {
            best = last;
            *len = tried;
        }
    }
    if (best != last) {
        *len = best->encode(planes, dst);
    }
    return best;
}

// The range coder's time is proportional to the values that are not 0, and it saves least if there are many.
static const struct tern_ternary_coder *balanced_coder(const struct tern_planes *planes)
{
    uint64_t sent = 0;
    for (size_t i = 0; i < tern_plane_words(planes->count); i++) {
        sent += tern_bits_count(planes->nonzero[i]);
    }
    return coder_named(5 * sent > 2 * (uint64_t)planes->count ? TERN_CODER_ZERO_RUN
                                                              : TERN_CODER_RANGE);
}

static size_t encode_planes(const struct tern_encode_job *job, float scale,
                            const struct tern_planes *planes)
{
    uint8_t *body = job->dst + TERN_TERNARY_HEAD;
    size_t len = 0;
    const struct tern_ternary_coder *coder = NULL;
    if (tries_all(job->codec)) {
        coder = encode_smallest(planes, body, &len);
    } else {
        coder = is_chosen(job->codec) ? balanced_coder(planes) : coder_of(job->codec);
        len = coder->encode(planes, body);
    }
    return write_head(job, coder->mode, scale) + len;
}

// Encodes on the board's hardware; returns 0 if it declines. The hardware does not change the values, so their residual errors
// are computed from the payload.
static size_t encode_offloaded(const struct tern_encode_job *job, enum tern_mode_byte mode,
                               struct tern_threshold threshold)
{
    size_t len = tern_offload_encode(&(struct tern_offload_job){
        .mode = mode,
        .values = job->values,
        .count = job->count,
        .dst = job->dst,
        .scale = threshold.scale,
        .threshold = threshold.bits,
    });
    if (len > 0) {
        tern_planar_add_runs(job->dst + TERN_TERNARY_HEAD, len - TERN_TERNARY_HEAD,
                             -threshold.scale, tern_planar_target(job->values, job->count));
    }
    return len;
}

size_t tern_ternary_encode(const struct tern_encode_job *job, struct tern_threshold threshold)
{
    // A single value takes fewer bytes as float32 than as scale and symbol.
    if (tries_all(job->codec) && job->count == 1) {
        return tern_float32_codec.encode(job);
    }
    const struct tern_parallel *parallel = tern_parallel_of(job);
    if (!takes_planar(job->codec)) {
        struct tern_planes planes = planes_of(job);
        tern_parallel_split(parallel, job->values, threshold.scale, threshold.bits, planes);
        return encode_planes(job, threshold.scale, &planes);
    }
    const struct tern_ternary_coder *coder = coder_of(job->codec);
    size_t offloaded = encode_offloaded(job, coder->mode, threshold);
    if (offloaded > 0) {
        return offloaded;
    }
    size_t head = write_head(job, coder->mode, threshold.scale);
    uint8_t *packed = job->dst + head;
    tern_parallel_pack(parallel, tern_all_columns(job->values, job->count), threshold.scale,
                       threshold.bits, packed);
    return head + coder->encode_planar(packed, tern_packed_stride(job->count), parallel);
}
