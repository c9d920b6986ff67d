// Codecs turn float32 values into few bytes and back. Who calls: the client for its updates, the
// aggregator for downloads and for applying updates, tern-codec for people. docs/FORMAT.md is the
// normative description of every byte. Pure; the caller owns all memory; reentrant.
//
// A codec is named by a spec string, the same in INI files, tasks, command lines and reports:
// NAME[:KEY=VALUE[,KEY=VALUE]...], e.g. "float32", "3lc:s=1.5", "density:p=0.02,coder=gaps". The
// one list of codecs is list.h; tern_codec_entry_at() walks what is built in.
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

// Whether a codec is built in (build.h), for the compiler to know.
#define TERN_CODEC_BIT(codec, symbol, id) | 1u << (id)
#define TERN_CODEC_BUILT(id) (((0u TERN_CODECS(TERN_CODEC_BIT)) >> (id)&1) != 0)

#define TERN_UNIFORM_ERROR_LEAST 100 // millionths of the squared norm

// A parsed spec string. A field holds a parameter of the codecs named beside it; zero elsewhere.
struct tern_codec {
    enum tern_codec_id id;
    float sparsity;  // 3lc: the multiplier s of section 3.1, 1 <= s < 2
    float clip;      // 3lc: most that the scale is over s times the mean magnitude, 0 = no bound
    float density;   // density, sparse, dgc, scalecom: share of the values that is sent, 0 < p <= 1
    uint32_t least;  // density: values that its share comes to at least, of so many
    uint32_t fit;    // density: 1 = fewer values where that leaves a smaller error
    float momentum;  // dgc: mu, 0 <= mu < 1
    float filter;    // scalecom: beta of the low-pass filter, 0 < beta <= 1
    uint32_t coder;  // ternary codecs: enum tern_coder; sparse ones: enum tern_index_coder;
                     // qsgd: enum tern_qsgd_coder
    uint32_t levels; // qsgd: s, magnitudes besides 0
    uint32_t bucket; // qsgd: d, values that share a scale
    uint32_t norm;   // qsgd: enum tern_qsgd_norm
    uint32_t exponent; // inceptionn: the error bound is 2^-exponent
    uint32_t variant;  // inceptionn: enum tern_inceptionn_variant
    uint32_t warmup;   // dgc: rounds until the density is p
    float error;       // uniform: largest share of the squared norm that a payload leaves
};

// Values of the choices above, in the order of their names. Ternary coders are bits of
// CheckinRequest.coders, and their numbers are never given to another one.
enum tern_coder {
    TERN_CODER_ZERO_RUN, // planar base-3^5 and zero runs, 3LC sections 3.2 and 3.3
    TERN_CODER_PACKED,   // planar base-3^5
    TERN_CODER_GAPS,     // Golomb-Rice
    TERN_CODER_RANGE,    // adaptive binary range coder
    TERN_CODER_AUTO,     // the smallest of all
    TERN_CODER_BALANCED, // zero-run where more than two fifths of the values are sent, else range
};
enum tern_index_coder { TERN_INDEX_AUTO, TERN_INDEX_BITMAP, TERN_INDEX_GAPS };
enum tern_qsgd_coder { TERN_QSGD_DENSE, TERN_QSGD_ELIAS };
enum tern_qsgd_norm { TERN_QSGD_MAX, TERN_QSGD_L2 };
enum tern_inceptionn_variant { TERN_INCEPTIONN_BOUNDED, TERN_INCEPTIONN_LITERAL };

// --- The table (table.c)

// What becomes of what a payload does not carry.
enum tern_feedback {
    TERN_FEEDBACK_NONE,     // nothing is kept: the codec is unbiased or bounded without it
    TERN_FEEDBACK_ERROR,    // the error buffer: e = t - decoded
    TERN_FEEDBACK_MOMENTUM, // dgc: velocity u and error buffer v (error_buffer.h)
    TERN_FEEDBACK_FILTERED, // scalecom: the error buffer moves by beta of the error
};

// What a codec's file says of it.
struct tern_codec_entry {
    enum tern_codec_id id;
    const char *name;
    const char *summary;  // one line
    const char *source;   // paper and section
    const char *good_for; // by docs/BENCHMARKS.md
    const char *not_for;  // likewise, and what to take there
    enum tern_feedback feedback;
    bool random;  // draws from tern_encode_context's stream
    bool ternary; // sends ternary symbols, so that its payloads are read by their coder alone
    bool follows_leader; // encodes at the indices that a round's leader chose
    const struct tern_spec_parameter *parameters; // ends with key NULL
};

// The entry of a codec that is built in, or NULL; all in the order of the list, NULL at the end.
const struct tern_codec_entry *tern_codec_entry(enum tern_codec_id id);
const struct tern_codec_entry *tern_codec_entry_at(size_t index);

// Whether a codec sends ternary symbols; it is built in.
bool tern_codec_is_ternary(const struct tern_codec *codec);

// The coders of ternary symbols that are built in (build.h), bit i for enum tern_coder i.
#define TERN_CODERS_ALL ((1u << TERN_CODER_AUTO) - 1)
#define TERN_CODERS_BALANCED (1u << TERN_CODER_ZERO_RUN | 1u << TERN_CODER_RANGE)
uint32_t tern_codec_coders(void);

// --- Spec strings (table.c; util/spec.h)

// The codecs that are built in.
extern const struct tern_spec_list tern_codec_specs;

// Parses a spec string. On error *codec is unchanged and, when refusal is not NULL, *refusal says
// why; tern_spec_explain() makes a sentence of it.
// TERN_ERR_UNKNOWN   no codec of that name
// TERN_ERR_ARGUMENT  unknown or repeated key, malformed value, or a value outside its range
TERN_MUST_USE enum tern_result tern_codec_parse(const char *spec, struct tern_codec *codec,
                                                struct tern_spec_refusal *refusal);

// What a spec string without parameters names; where its choices are not built in, with the first
// that are.
struct tern_codec tern_codec_preset(const struct tern_codec_entry *entry);

// Writes the canonical spec string ("3lc:s=1.5"; "3lc" for s = 1 is "3lc:s=1").
void tern_codec_format(const struct tern_codec *codec, char spec[TERN_CODEC_SPEC_MAX]);

// --- Encoding (codec.c)

// Runs job(arg, i) for each i < jobs, on any threads, and returns when all are done. A caller with
// threads lends them to the encoder of one large tensor (3LC section 3.3); results do not depend on
// it.
struct tern_parallel {
    void *ctx;
    unsigned workers; // that run at once
    void (*run)(void *ctx, void (*job)(void *arg, unsigned index), void *arg, unsigned jobs);
};

// What encoding depends on beside codec and values. All zero is valid for the codecs that need
// none of it.
struct tern_encode_context {
    // The random stream of stochastic codecs is named (seed, round, client, segment, index).
    uint64_t seed;
    uint32_t round; // also the round of dgc's warm-up, from 1
    uint32_t client;
    uint32_t segment; // of the model; set by tern_container_encode()

    float *velocity; // TERN_FEEDBACK_MOMENTUM: dgc's u, as many values as are encoded

    // scalecom: what the round's leader chose, a payload of mode sparse-indices (and, for
    // tern_container_encode(), a container of them). NULL: the encoder chooses.
    const uint8_t *indices;
    size_t indices_len;

    const struct tern_parallel *parallel; // NULL: this thread
};

// The most bytes that tern_codec_encode() writes for `count` values.
size_t tern_codec_bound(const struct tern_codec *codec, size_t count);

// The most that any codec with any parameters writes.
size_t tern_codec_bound_any(size_t count);

// Encodes `count` values. values: in, the sum t = e + x of error buffer and input (3LC
// section 3.1); out, what is fed back, which is t - decoded, or +0 under TERN_FEEDBACK_NONE. It is
// unchanged on error, and so is context->velocity. dst: dst_size >= tern_codec_bound() bytes.
// *written: bytes used. context: NULL is all zero.
// TERN_ERR_NON_FINITE  a value or the scale is NaN or infinite (dst is then unspecified)
// TERN_ERR_NO_SPACE    dst_size is below the bound
// TERN_ERR_ARGUMENT    the codec needs a velocity and the context has none
// TERN_ERR_CORRUPT     the context's indices are damaged, or more than the codec sends
TERN_MUST_USE enum tern_result tern_codec_encode(const struct tern_codec *codec,
                                                 const struct tern_encode_context *context,
                                                 float *values, size_t count, uint8_t *dst,
                                                 size_t dst_size, size_t *written);

// --- Decoding (codec.c)

// Decodes one payload into dst[0..count). src: src_len bytes, untrusted. The mode byte says how it
// was encoded, so no codec is needed. dst is unchanged on error.
// TERN_ERR_CORRUPT     truncated, a run passes the end, padding is not zero, bytes are left over
// TERN_ERR_NON_FINITE  a scale or value is NaN, infinite, or (scale) negative
// TERN_ERR_UNKNOWN     the mode byte is not one of FORMAT.md
// Never reads past src_len or writes past count.
TERN_MUST_USE enum tern_result tern_codec_decode(const uint8_t *src, size_t src_len, float *dst,
                                                 size_t count);

// acc[i] += weight * decoded[i] for all i, product and sum each rounded to float32 once. Skips runs
// of zeros. Errors as above; acc is unchanged on error. weight is finite.
TERN_MUST_USE enum tern_result tern_codec_accumulate(const uint8_t *src, size_t src_len,
                                                     float weight, float *acc, size_t count);

// What a payload says about itself.
struct tern_codec_info {
    const char *mode;  // name of the mode byte, static string
    bool ternary;      // values are -scale, 0, scale
    float scale;       // ternary, int8, onebit...: the payload's (first) scale; others: 0
    size_t nonzero;    // values that decode to something other than 0
    size_t runs;       // run codes of the run-coded modes
    double sum_square; // of the decoded values, for norm limits
    float maximum;     // largest magnitude decoded
    // Of a container: nonzero in the segments that are never sent (tensor/model.h).
    size_t skipped_nonzero;
};

// Checks a payload as tern_codec_decode() does and describes it, without writing values.
TERN_MUST_USE enum tern_result tern_codec_inspect(const uint8_t *src, size_t src_len, size_t count,
                                                  struct tern_codec_info *info);

#ifdef __cplusplus
}
#endif

#endif
