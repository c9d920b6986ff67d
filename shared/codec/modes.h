// What codec.c and container.c know of each algorithm: how it encodes, and how the payloads of each
// mode byte are checked and read. table.c finds them. docs/FORMAT.md lists the mode bytes.
// Internal to shared/codec.
#ifndef TERN_MODES_H
#define TERN_MODES_H

#include "codec/codec.h"
#include "codec/signs.h"

// One segment to encode.
struct tern_encode_job {
    const struct tern_codec *codec;
    const struct tern_encode_context *context; // never NULL
    float peak;                                // largest magnitude of values, > 0
    float *values;                             // in: t; out: what is fed back
    size_t count;                              // >= 1
    uint8_t *dst;                              // bound() bytes
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

    // Of ternary modes that take long to read: check(), and hands over all values that are not
    // zero on the way, some of them also before an error is found. NULL: read what was checked.
    TERN_MUST_USE enum tern_result (*each)(const uint8_t *body, size_t len, size_t count,
                                           tern_take_signs *take, void *ctx);

#if !TERN_SMALL
    // Of other ternary modes: hands over all values that are not zero. Takes less time than decoding, and no
    // memory, where these are few. NULL: decode.
    void (*signs)(const uint8_t *body, size_t len, size_t count, tern_take_signs *take, void *ctx);

    // check(), accumulate() and describe() in one pass, for modes that are not ternary and take long to read. acc,
    // info: NULL where they are not wanted, and unspecified on error. NULL: read what was checked.
    TERN_MUST_USE enum tern_result (*add)(const uint8_t *body, size_t len, size_t count,
                                          float weight, float *acc, struct tern_codec_info *info);
#endif
};

#define TERN_CODEC_MODES 2 // of one codec, at most

// A codec: what others see of it, how it encodes, and the modes that only its payloads have. It
// encodes in two steps, so that a container can check all segments before it changes one.
struct tern_codec_row {
    struct tern_codec_entry entry;

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

    // NULL at the end. Those of ternary codecs are their coders'.
    const struct tern_mode *modes[TERN_CODEC_MODES + 1];
};

#define TERN_DECLARE_CODEC(codec, symbol, id)                                                      \
    extern const struct tern_codec_row tern_##codec##_codec;
TERN_CODECS(TERN_DECLARE_CODEC)

// The row of a codec that is built in, or NULL.
const struct tern_codec_row *tern_codec_row(enum tern_codec_id id);

// The mode of that byte, or NULL.
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

// How a payload is read by who wants its values. The mode decides which of the two is called.
struct tern_payload_reader {
    void *ctx;
    tern_take_signs *signs; // the values that are not zero
    // The payload may be decoded by tern_mode_decode() or tern_mode_accumulate(), whose info is the one given. NULL:
    // no more is wanted.
    TERN_MUST_USE enum tern_result (*whole)(void *ctx, const struct tern_mode *mode,
                                            const uint8_t *body, size_t len, size_t count,
                                            struct tern_codec_info *info);
};

// For whole(): accumulate() and decode(), and checks and describes on the way what is not checked yet.
// Errors of check(); acc or dst is unspecified then.
TERN_MUST_USE enum tern_result tern_mode_accumulate(const struct tern_mode *mode,
                                                    const uint8_t *body, size_t len, float weight,
                                                    float *acc, size_t count,
                                                    struct tern_codec_info *info);
TERN_MUST_USE enum tern_result tern_mode_decode(const struct tern_mode *mode, const uint8_t *body,
                                                size_t len, float *dst, size_t count,
                                                struct tern_codec_info *info);

// Checks and reads a payload once. info: filled as by tern_codec_inspect(), or NULL.
// Errors of tern_codec_decode() and of whole(); some values may have been handed over by then.
TERN_MUST_USE enum tern_result tern_payload_read(const uint8_t *src, size_t src_len, size_t count,
                                                 const struct tern_payload_reader *reader,
                                                 struct tern_codec_info *info);

// tern_codec_accumulate(), but on error acc is unspecified.
TERN_MUST_USE enum tern_result tern_payload_add(const uint8_t *src, size_t src_len, float weight,
                                                float *acc, size_t count);

#endif
