// Makes payloads of ternary symbols q = -1, 0, 1: the mode byte of the coder, the scale, and the coded symbols. A value decodes
// to scale * q. Any ternary quantizer combines with any ternary coder. Internal to shared/codec.
//
// Coders get the symbols in one of two forms: planar base-3^5 bytes directly from the quantizing kernel, or bit planes in index
// order.
#ifndef TERN_TERNARY_H
#define TERN_TERNARY_H

#include "codec/kernels/kernels.h"
#include "codec/modes.h"
#include <stdbool.h>

#define TERN_TERNARY_SCALE_BYTES 4 // float32, little-endian, before the symbols
#define TERN_TERNARY_HEAD (1 + TERN_TERNARY_SCALE_BYTES)

// --- Quantizers

// The result of a quantizer: q is the sign of a value if the bits of its magnitude are above `bits`, else 0.
struct tern_threshold {
    float scale; // finite, > 0
    uint32_t bits;
};

// Implement bound() and encode() of the ternary codecs, with the coder in the job's codec. Leave the residual errors,
// value - scale * q, in the values. At least one q must not be 0.
size_t tern_ternary_bound(const struct tern_codec *codec, size_t count);
size_t tern_ternary_encode(const struct tern_encode_job *job, struct tern_threshold threshold);

// The parameter of spec strings that names the coder.
#define TERN_CODER_PARAMETER(default_coder)                                                        \
    {                                                                                              \
        .key = "coder", .meaning = TERN_HELP("encoding of the ternary symbols"),                   \
        .range = TERN_HELP("zero-run, packed, gaps, range, auto (fewest bytes) or balanced "       \
                           "(zero-run if more than "                                               \
                           "two fifths of the values are sent, else range)"),                      \
        .kind = TERN_SPEC_CHOICE, .offset = TERN_FIELD(coder), .most = TERN_CODER_BALANCED,        \
        .preset = (default_coder), .choices = tern_coder_names, .left_out = TERN_CODERS_LEFT_OUT   \
    }
#define TERN_CODER_BIT(coder, symbol) | 1u << TERN_CODER_##symbol
#define TERN_CODERS_BUILT (0u TERN_CODERS(TERN_CODER_BIT))
#define TERN_BALANCES ((TERN_CODERS_BALANCED & ~TERN_CODERS_BUILT) == 0)
#define TERN_CODERS_LEFT_OUT                                                                       \
    ((TERN_CODERS_ALL & ~TERN_CODERS_BUILT) | (TERN_BALANCES ? 0 : 1u << TERN_CODER_BALANCED))
extern const char *const tern_coder_names[]; // NULL at the end

// --- Coders

struct tern_ternary_coder {
    enum tern_mode_byte mode;

    // Returns the size limit for `count` symbols, in bytes, without mode byte and scale.
    size_t (*bound)(size_t count);

    // Encodes the planes, which do not overlap dst; returns the length.
    size_t (*encode)(const struct tern_planes *planes, uint8_t *dst);

    // Encodes planar base-3^5 bytes in place; NULL if the coder works on planes only.
    size_t (*encode_planar)(uint8_t *packed, size_t stride, const struct tern_parallel *parallel);
};

#define TERN_DECLARE_CODER(coder, symbol)                                                          \
    extern const struct tern_ternary_coder tern_##coder##_coder;                                   \
    extern const struct tern_mode tern_ternary_##coder##_mode;
TERN_CODERS(TERN_DECLARE_CODER)

// --- Planar base-3^5 (planar.c)

// Adds scale * q of zero-run-coded bytes to the values whose q is not 0.
void tern_planar_add_runs(const uint8_t *coded, size_t len, float scale,
                          struct tern_ternary_target target);

// Returns the destination of all bytes of `count` values.
struct tern_ternary_target tern_planar_target(float *values, size_t count);

// --- Bodies

// Checks the scale at the start of a ternary body.
TERN_MUST_USE enum tern_result tern_ternary_check_scale(const uint8_t *body, size_t len);

// Sets the facts of a ternary body. nonzero: number of values that are not 0; runs: number of run codes.
void tern_ternary_describe(const uint8_t *body, size_t nonzero, size_t runs,
                           struct tern_codec_info *info);

#endif
