// Codecs turn float32 values into few bytes and back. The client encodes its updates, the aggregator decodes them and encodes
// downloads. docs/FORMAT.md specifies every byte. Pure; the caller owns all memory; reentrant.
//
// A spec string names a codec in settings, tasks, command lines and reports: NAME[:KEY=VALUE[,KEY=VALUE]...], for example
// "float32", "3lc:s=1.5" or "density:p=0.02,coder=gaps". list.h has all codecs; tern_codec_entry_at() returns the built-in
// ones.
#ifndef TERN_CODEC_H
#define TERN_CODEC_H

#include "build.h"
#include "codec/list.h"
#include "result.h"
#include "util/spec.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_CODEC_SPEC_MAX 64 // bytes with the terminating NUL

// True if a codec is built in (build.h), as a constant expression.
#define TERN_CODEC_BIT(codec, symbol, id) | 1u << (id)
#define TERN_CODEC_BUILT(id) (((0u TERN_CODECS(TERN_CODEC_BIT)) >> (id)&1) != 0)

#define TERN_UNIFORM_ERROR_LEAST                                                                   \
    100 // smallest `error` of uniform, in millionths of the squared norm

// A parsed spec string. Each field is a parameter of the codecs named beside it; other codecs have 0 there.
struct tern_codec {
    enum tern_codec_id id;
    float sparsity; // 3lc: the multiplier s of section 3.1, 1 <= s < 2
    float clip;     // 3lc: the scale is at most s * clip times the mean magnitude; 0 = no bound
    // density, sparse, dgc, scalecom: fraction of the values that is sent, 0 < p <= 1
    float density;
    uint32_t least;    // density: minimum number of values to send, if there are so many
    uint32_t fit;      // density: 1 = send fewer values if that leaves a smaller error
    float momentum;    // dgc: mu, 0 <= mu < 1
    float filter;      // scalecom: beta of the low-pass filter, 0 < beta <= 1
    uint32_t coder;    // ternary codecs: enum tern_coder; sparse ones: enum tern_index_coder;
                       // qsgd: enum tern_qsgd_coder
    uint32_t levels;   // qsgd: s, number of magnitudes above 0
    uint32_t bucket;   // qsgd: d, number of values that share a scale
    uint32_t norm;     // qsgd: enum tern_qsgd_norm
    uint32_t exponent; // inceptionn: the error bound is 2^-exponent
    uint32_t variant;  // inceptionn: enum tern_inceptionn_variant
    uint32_t warmup;   // dgc: rounds until the density is p
    float error;       // uniform: largest fraction of the squared norm that remains unsent
};

// The choices of the fields above, in the order of their names. Never reuse the number of a ternary
// coder: it is a bit of CheckinRequest.coders.
enum tern_coder {
    TERN_CODER_ZERO_RUN, // planar base-3^5 and zero runs, 3LC sections 3.2 and 3.3
    TERN_CODER_PACKED,   // planar base-3^5
    TERN_CODER_GAPS,     // Golomb-Rice
    TERN_CODER_RANGE,    // adaptive binary range coder
    TERN_CODER_AUTO,     // the one with the fewest bytes
    TERN_CODER_BALANCED, // zero-run if more than two fifths of the values are sent, else range
};
enum tern_index_coder { TERN_INDEX_AUTO, TERN_INDEX_BITMAP, TERN_INDEX_GAPS };
enum tern_qsgd_coder { TERN_QSGD_DENSE, TERN_QSGD_ELIAS };
enum tern_qsgd_norm { TERN_QSGD_MAX, TERN_QSGD_L2 };
enum tern_inceptionn_variant { TERN_INCEPTIONN_BOUNDED, TERN_INCEPTIONN_LITERAL };

// --- The built-in codecs (registry.c)

// How the client keeps the error of an encoding, to add it to its next update.
enum tern_feedback {
    TERN_FEEDBACK_NONE,     // not at all: the codec's error is unbiased or bounded
    TERN_FEEDBACK_ERROR,    // in the error buffer: e = t - decoded
    TERN_FEEDBACK_MOMENTUM, // dgc: in the velocity u and the error buffer v (error_buffer.h)
    TERN_FEEDBACK_FILTERED, // scalecom: in the error buffer, through a low-pass filter
};

struct tern_codec_entry {
    enum tern_codec_id id;
    const char *name;
    const char *summary;  // one line
    const char *source;   // paper and section
    const char *good_for; // according to docs/BENCHMARKS.md
    const char *not_for;  // according to docs/BENCHMARKS.md; names a better codec
    enum tern_feedback feedback;
    bool random;         // uses the random stream of struct tern_encode_context
    bool ternary;        // sends ternary symbols; the mode byte of its payloads names their coder
    bool follows_leader; // encodes the values at the indices that a round's leader chose
    const struct tern_spec_parameter *parameters; // ends with key NULL
};

// Return the entry of a built-in codec, by id or by its position in the list, or NULL.
const struct tern_codec_entry *tern_codec_entry(enum tern_codec_id id);
const struct tern_codec_entry *tern_codec_entry_at(size_t index);

// Returns true if a codec is built in and sends ternary symbols.
bool tern_codec_is_ternary(const struct tern_codec *codec);

// A set of coders of ternary symbols: bit i is enum tern_coder i. tern_codec_coders() returns the
// built-in ones (build.h).
#define TERN_CODERS_ALL ((1u << TERN_CODER_AUTO) - 1)
#define TERN_CODERS_BALANCED (1u << TERN_CODER_ZERO_RUN | 1u << TERN_CODER_RANGE)
uint32_t tern_codec_coders(void);

// --- Spec strings (registry.c; util/spec.h)

// The built-in codecs.
extern const struct tern_spec_list tern_codec_specs;

// Parses a spec string. On error *codec is unchanged, and *refusal, unless NULL, has the reason,
// which tern_spec_explain() turns into a message.
// TERN_ERR_UNKNOWN   no codec of that name
// TERN_ERR_ARGUMENT  unknown or repeated key, malformed value, or a value outside its range
TERN_MUST_USE enum tern_result tern_codec_parse(const char *spec, struct tern_codec *codec,
                                                struct tern_spec_refusal *refusal);

// Returns a codec with its default parameters. A choice whose default is not built in gets the first one that is.
struct tern_codec tern_codec_preset(const struct tern_codec_entry *entry);

// Writes the canonical spec string ("3lc:s=1.5"; "3lc" for s = 1 is "3lc:s=1").
void tern_codec_format(const struct tern_codec *codec, char spec[TERN_CODEC_SPEC_MAX]);

// --- Encoding (codec.c)

// Threads that a caller lends to encode one large tensor (3LC, section 3.3). The result does not depend on them. run() calls
// job(arg, i) for each i < jobs, on any threads, and returns when all calls have returned.
struct tern_parallel {
    void *ctx;
    unsigned workers; // jobs that can run at once
    void (*run)(void *ctx, void (*job)(void *arg, unsigned index), void *arg, unsigned jobs);
};

// Further inputs of encoding. Codecs that use none of them accept zeros.
struct tern_encode_context {
    // Seed of the random numbers of stochastic codecs: (seed, round, client, segment, index).
    uint64_t seed;
    uint32_t round; // from 1; also determines dgc's density during its warm-up
    uint32_t client;
    uint32_t segment; // of the model; set by tern_container_encode()

    float *velocity; // TERN_FEEDBACK_MOMENTUM: dgc's u, one for each value

    // scalecom: the indices that the round's leader chose, as a payload of mode sparse-indices (for tern_container_encode():
    // a container of such payloads). NULL: the encoder chooses.
    const uint8_t *indices;
    size_t indices_len;

    const struct tern_parallel *parallel; // NULL: this thread

#if !TERN_SMALL
    // Replica, one float for each value, to which the encoder adds the decoded values. The result has the same bits as after
    // tern_container_add(); uniform needs no decoding for it. NULL: no replica. tern_container_encode_into() takes none.
    float *replica;
#endif
};

// Returns the size limit of the payload of `count` values, in bytes.
size_t tern_codec_bound(const struct tern_codec *codec, size_t count);

// Returns the largest tern_codec_bound() of all codecs and parameters.
size_t tern_codec_bound_any(size_t count);

// Encodes `count` values. values: before, the sum t of error buffer and change (3LC, section 3.1); after, the residual error
// t - decoded, or +0 under TERN_FEEDBACK_NONE. On error values and context->velocity are unchanged. dst: dst_size >=
// tern_codec_bound() bytes. *written: length of the payload. context: NULL is all zero.
// TERN_ERR_NON_FINITE  a value or the scale is NaN or infinite; dst is then unspecified
// TERN_ERR_NO_SPACE    dst_size is below the bound
// TERN_ERR_ARGUMENT    the codec needs a velocity and the context has none
// TERN_ERR_CORRUPT     the context's indices are damaged, or more than the codec sends
TERN_MUST_USE enum tern_result tern_codec_encode(const struct tern_codec *codec,
                                                 const struct tern_encode_context *context,
                                                 float *values, size_t count, uint8_t *dst,
                                                 size_t dst_size, size_t *written);

// --- Indices of ternary values

// A batch of ternary values that are not 0. Each entry is 2 * index, plus 1 if the value is negative.
#define TERN_INDICES_MAX (TERN_SMALL ? 16 : 128)
#if TERN_SMALL
typedef uint32_t tern_signed_index;
#else
typedef uint64_t tern_signed_index;
#endif

struct tern_indices {
    size_t count;
    tern_signed_index of[TERN_INDICES_MAX]; // ascending
};

// Takes one batch of a payload; all its values have the magnitude `scale`.
typedef void tern_take_signs(void *ctx, float scale, const struct tern_indices *indices);

// --- Decoding (codec.c)

// Decodes one untrusted payload into dst[0..count). Its mode byte determines how. On error dst is unchanged.
// TERN_ERR_CORRUPT     truncated, a run passes the end, padding is not zero, bytes are left over
// TERN_ERR_NON_FINITE  a scale or value is NaN or infinite, or a scale is negative
// TERN_ERR_UNKNOWN     docs/FORMAT.md has no such mode byte
// Never reads past src_len or writes past count.
TERN_MUST_USE enum tern_result tern_codec_decode(const uint8_t *src, size_t src_len, float *dst,
                                                 size_t count);

// Adds weight * decoded[i] to each acc[i]; rounds product and sum to float32. weight: finite. On error acc is unchanged.
// Errors of tern_codec_decode().
TERN_MUST_USE enum tern_result tern_codec_accumulate(const uint8_t *src, size_t src_len,
                                                     float weight, float *acc, size_t count);

// Facts about a payload, or about all payloads of a container.
struct tern_codec_info {
    const char *mode;  // name of the mode byte, a static string
    bool ternary;      // all values are -scale, 0 or scale
    float scale;       // the first scale of the payload; 0 if its mode has none
    size_t nonzero;    // decoded values that are not 0
    size_t runs;       // run codes of zero-run payloads
    double sum_square; // sum of the squares of the decoded values
    float maximum;     // largest decoded magnitude
    // container: decoded values that are not 0 in segments that are never sent (tensor/model.h)
    size_t skipped_nonzero;
};

// Checks a payload like tern_codec_decode() and describes it, without writing values.
TERN_MUST_USE enum tern_result tern_codec_inspect(const uint8_t *src, size_t src_len, size_t count,
                                                  struct tern_codec_info *info);

#ifdef __cplusplus
}
#endif

#endif
