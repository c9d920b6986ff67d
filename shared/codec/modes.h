// What codec.c and container.c know of each algorithm: how it encodes, and how the payloads of each
// mode byte are checked and read. table.c lists them all. docs/FORMAT.md lists the mode bytes.
// Internal to shared/codec.
#ifndef TERN_MODES_H
#define TERN_MODES_H

#include "codec/codec.h"

// First byte of a payload.
enum tern_mode_byte {
    TERN_MODE_ZERO = 0x00,
    TERN_MODE_FLOAT32 = 0x01,
    TERN_MODE_FLOAT16 = 0x02,
    TERN_MODE_BFLOAT16 = 0x03,
    TERN_MODE_INT8 = 0x04,
    TERN_MODE_TERNARY_ZERO_RUN = 0x10,
    TERN_MODE_TERNARY_PACKED = 0x11,
    TERN_MODE_TERNARY_LONG_RUNS = 0x12,
    TERN_MODE_TERNARY_CONSECUTIVE = 0x13,
    TERN_MODE_TERNARY_GAPS = 0x14,
    TERN_MODE_TERNARY_RANGE = 0x15,
    TERN_MODE_ONEBIT = 0x20,
    TERN_MODE_SPARSE_BITMAP = 0x30,
    TERN_MODE_SPARSE_GAPS = 0x31,
    TERN_MODE_SPARSE_INDICES = 0x32,
    TERN_MODE_SPARSE_SHARED = 0x33,
    TERN_MODE_QSGD_DENSE = 0x40,
    TERN_MODE_QSGD_ELIAS = 0x41,
    TERN_MODE_INCEPTIONN_BOUNDED = 0x50,
    TERN_MODE_INCEPTIONN_LITERAL = 0x51,
};

// One segment to encode.
struct tern_encode_job {
    const struct tern_codec *codec;
    const struct tern_encode_context *context; // never NULL
    float peak;                                // largest magnitude of values, > 0
    float *values;                             // in: t; out: what is fed back
    size_t count;                              // >= 1
    uint8_t *dst;                              // bound() bytes
};

// How a codec encodes. Two steps, so that a container can check all segments before it changes one.
struct tern_encoder {
    // The most bytes that encode() writes, and uses while it works.
    size_t (*bound)(const struct tern_codec *codec, size_t count);

    // Whether values of at most this magnitude can be encoded. peak is finite. NULL: always.
    // TERN_ERR_NON_FINITE  the scale overflows
    TERN_MUST_USE enum tern_result (*check)(const struct tern_codec *codec, float peak);

    // Whether the job's context and values can be encoded, beyond what check() sees. NULL: always.
    // TERN_ERR_CORRUPT  the context's indices are damaged
    TERN_MUST_USE enum tern_result (*check_context)(const struct tern_encode_job *job);

    // Writes the payload and returns its length; 0 when all values decode to zero (values are then
    // unchanged, and the payload is mode zero).
    // Under TERN_FEEDBACK_NONE, tern_codec_emit() sets the values to +0 afterwards, so that
    // encode() may use them to work in.
    size_t (*encode)(const struct tern_encode_job *job);
};

// How the body of a payload, what follows the mode byte, is read. check() comes first; the others
// take only what it accepted.
struct tern_mode {
    enum tern_mode_byte byte;
    bool ternary;
    const char *name;

    // TERN_ERR_CORRUPT, TERN_ERR_NON_FINITE
    TERN_MUST_USE enum tern_result (*check)(const uint8_t *body, size_t len, size_t count);

    void (*decode)(const uint8_t *body, size_t len, float *dst, size_t count);
    void (*accumulate)(const uint8_t *body, size_t len, float weight, float *acc, size_t count);

    // Fills scale, nonzero, runs, sum_square and maximum of an info that is all zero.
    void (*describe)(const uint8_t *body, size_t len, size_t count, struct tern_codec_info *info);
};

extern const struct tern_encoder tern_float32_encoder;
extern const struct tern_encoder tern_float16_encoder;
extern const struct tern_encoder tern_bfloat16_encoder;
extern const struct tern_encoder tern_int8_encoder;
extern const struct tern_encoder tern_onebit_encoder;
extern const struct tern_encoder tern_qsgd_encoder;
extern const struct tern_encoder tern_inceptionn_encoder;
extern const struct tern_encoder tern_3lc_encoder;
extern const struct tern_encoder tern_density_encoder;
extern const struct tern_encoder tern_stochastic_ternary_encoder;
extern const struct tern_encoder tern_sparse_encoder;
extern const struct tern_encoder tern_dgc_encoder;
extern const struct tern_encoder tern_scalecom_encoder;

extern const struct tern_mode tern_float32_mode;
extern const struct tern_mode tern_float16_mode;
extern const struct tern_mode tern_bfloat16_mode;
extern const struct tern_mode tern_int8_mode;
extern const struct tern_mode tern_onebit_mode;
extern const struct tern_mode tern_qsgd_dense_mode;
extern const struct tern_mode tern_qsgd_elias_mode;
extern const struct tern_mode tern_inceptionn_bounded_mode;
extern const struct tern_mode tern_inceptionn_literal_mode;
extern const struct tern_mode tern_ternary_zero_run_mode;
extern const struct tern_mode tern_ternary_packed_mode;
extern const struct tern_mode tern_ternary_long_runs_mode;
extern const struct tern_mode tern_ternary_consecutive_mode;
extern const struct tern_mode tern_ternary_gaps_mode;
extern const struct tern_mode tern_ternary_range_mode;
extern const struct tern_mode tern_sparse_bitmap_mode;
extern const struct tern_mode tern_sparse_gaps_mode;

// The table's columns that are internal (table.c).
const struct tern_encoder *tern_encoder_of(const struct tern_codec *codec);
const struct tern_mode *tern_mode_of(uint8_t byte);

// Adds one decoded value to nonzero, sum_square and maximum.
static inline void tern_describe_value(struct tern_codec_info *info, float value)
{
    float magnitude = value < 0 ? -value : value;
    info->nonzero += value != 0;
    info->sum_square += (double)value * (double)value;
    info->maximum = magnitude > info->maximum ? magnitude : info->maximum;
}

// --- The steps of codec.h, apart (codec.c)

// Whether the context holds what the codec needs. TERN_ERR_UNKNOWN, TERN_ERR_ARGUMENT
TERN_MUST_USE enum tern_result tern_codec_needs(const struct tern_codec *codec,
                                                const struct tern_encode_context *context);

// A context of zeros, for NULL.
extern const struct tern_encode_context tern_no_context;

// Finds the largest magnitude of a job's values, and whether the codec can encode them.
// TERN_ERR_NON_FINITE
TERN_MUST_USE enum tern_result tern_codec_check(const struct tern_encode_job *job, float *peak);

// Encodes values that tern_codec_check() accepted; returns the payload's length.
size_t tern_codec_emit(const struct tern_encode_job *job);

// Finds the mode of a payload and checks its body. Errors of tern_codec_decode().
TERN_MUST_USE enum tern_result tern_payload_check(const uint8_t *src, size_t src_len, size_t count,
                                                  const struct tern_mode **mode);

// What a checked payload says.
void tern_payload_describe(const struct tern_mode *mode, const uint8_t *src, size_t src_len,
                           size_t count, struct tern_codec_info *info);

#endif
