// From ternary symbols to payloads: any ternary quantizer goes with any ternary coder. A payload is
// the mode byte of the coder, the scale, and what the coder makes of the symbols q = -1, 0, 1; a
// value decodes to scale * q. Internal to shared/codec.
//
// Coders see symbols in one of two forms. Planar base-3^5 bytes come straight from the quantizer's
// kernel. Everything else works on bit planes in index order.
#ifndef TERN_TERNARY_H
#define TERN_TERNARY_H

#include "codec/kernels/kernels.h"
#include "codec/modes.h"
#include <stdbool.h>

#define TERN_TERNARY_SCALE_BYTES 4 // float32, little-endian, before the symbols
#define TERN_TERNARY_HEAD (1 + TERN_TERNARY_SCALE_BYTES)

// --- Quantizers

// What a quantizer decides: q is the sign of a value whose magnitude, as bits, is
// above `bits`, else 0.
struct tern_threshold {
    float scale; // finite, > 0
    uint32_t bits;
};

// bound() and the rest of encode() of the quantizers, with the coder of the job's codec. Leaves
// value - scale * q in the values. At least one q is not 0.
size_t tern_ternary_bound(const struct tern_codec *codec, size_t count);
size_t tern_ternary_encode(const struct tern_encode_job *job, struct tern_threshold threshold);

// The key of spec strings that names the coder.
#define TERN_CODER_PARAMETER(default_coder)                                                        \
    {                                                                                              \
        .key = "coder", .meaning = TERN_HELP("how the ternary symbols become bytes"),              \
        .range = TERN_HELP(                                                                        \
            "zero-run, packed, gaps, range, auto (the smallest) or balanced (range, but zero-run " \
            "where more than two fifths of the values are sent)"),                                 \
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

    // The most bytes for `count` symbols, mode and scale not counted.
    size_t (*bound)(size_t count);

    // Codes the planes; returns the length. dst does not overlap them.
    size_t (*encode)(const struct tern_planes *planes, uint8_t *dst);

    // Codes planar base-3^5 bytes in place, where the coder takes that form; else NULL.
    size_t (*encode_planar)(uint8_t *packed, size_t stride, const struct tern_parallel *parallel);
};

#define TERN_DECLARE_CODER(coder, symbol)                                                          \
    extern const struct tern_ternary_coder tern_##coder##_coder;                                   \
    extern const struct tern_mode tern_ternary_##coder##_mode;
TERN_CODERS(TERN_DECLARE_CODER)

// --- Planar base-3^5 (planar.c)

// Adds scale * q of zero-run-coded bytes, where q is not 0.
void tern_planar_add_runs(const uint8_t *coded, size_t len, float scale,
                          struct tern_ternary_target target);

// Where all bytes of `count` values land.
struct tern_ternary_target tern_planar_target(float *values, size_t count);

// --- Bodies

// Check of the scale that every ternary body opens with.
TERN_MUST_USE enum tern_result tern_ternary_check_scale(const uint8_t *body, size_t len);

// Describes a ternary body: scale, nonzero values and run codes.
void tern_ternary_describe(const uint8_t *body, size_t nonzero, size_t runs,
                           struct tern_codec_info *info);

#endif
