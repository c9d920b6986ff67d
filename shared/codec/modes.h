// What codec.c and container.c know of each algorithm: how it encodes, and how the payloads of each
// mode byte are checked and read. docs/FORMAT.md lists the mode bytes. Internal to shared/codec.
#ifndef TERN_MODES_H
#define TERN_MODES_H

#include "codec/codec.h"

// First byte of a payload.
enum tern_mode_byte {
    TERN_MODE_ZERO = 0x00,
    TERN_MODE_FLOAT32 = 0x01,
    TERN_MODE_FLOAT16 = 0x02,
    TERN_MODE_3LC_PLANAR_RUNS = 0x10,
    TERN_MODE_3LC_PLANAR_PACKED = 0x11,
};

// How a codec encodes. Two steps, so that a container can check all segments before it changes one.
struct tern_encoder {
    // The most bytes that encode() writes.
    size_t (*bound)(size_t count);

    // Whether values of at most this magnitude can be encoded. peak is finite.
    // TERN_ERR_NON_FINITE  the scale overflows
    TERN_MUST_USE enum tern_result (*check)(const struct tern_codec *codec, float peak);

    // Writes the payload of count >= 1 checked values, the largest of magnitude peak > 0, and
    // leaves in values what it does not carry. Returns its length; 0 when all values decode to
    // zero (values are then unchanged, and the payload is mode zero).
    size_t (*encode)(const struct tern_codec *codec, float peak, float *values, size_t count,
                     uint8_t *dst);
};

// How the body of a payload, what follows the mode byte, is read. check() comes first; the others
// take only what it accepted.
struct tern_mode {
    enum tern_mode_byte byte;
    enum tern_codec_id id;
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
extern const struct tern_encoder tern_3lc_encoder;

extern const struct tern_mode tern_float32_mode;
extern const struct tern_mode tern_float16_mode;
extern const struct tern_mode tern_3lc_planar_runs_mode;
extern const struct tern_mode tern_3lc_planar_packed_mode;

// --- The steps of codec.h, apart (codec.c)
// ---------------------------------------------------------------

// The encoder of a codec, or NULL.
const struct tern_encoder *tern_encoder_of(const struct tern_codec *codec);

// Largest magnitude of values that the codec can encode. TERN_ERR_NON_FINITE
TERN_MUST_USE enum tern_result tern_codec_check(const struct tern_codec *codec, const float *values,
                                                size_t count, float *peak);

// Encodes values that tern_codec_check() accepted; returns the payload's length.
size_t tern_codec_emit(const struct tern_codec *codec, float peak, float *values, size_t count,
                       uint8_t *dst);

// Finds the mode of a payload and checks its body. Errors of tern_codec_decode().
TERN_MUST_USE enum tern_result tern_payload_check(const uint8_t *src, size_t src_len, size_t count,
                                                  const struct tern_mode **mode);

// What a checked payload says.
void tern_payload_describe(const struct tern_mode *mode, const uint8_t *src, size_t src_len,
                           size_t count, struct tern_codec_info *info);

#endif
