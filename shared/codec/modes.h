// The interface between codec.c, container.c and the codecs: how each codec encodes, and how a payload of each mode byte is
// checked and decoded. registry.c finds them; docs/FORMAT.md lists the mode bytes. Internal to shared/codec.
#ifndef TERN_MODES_H
#define TERN_MODES_H

#include "codec/codec.h"
#include "util/bytes.h"

// One segment to encode.
struct tern_encode_job {
    const struct tern_codec *codec;
    const struct tern_encode_context *context; // never NULL
    float peak;                                // largest magnitude of values, > 0
    float *values; // before: the values to send; after: the residual error
    size_t count;  // >= 1
    uint8_t *dst;  // bound() bytes
};

// Reads payloads of one mode byte. The body is the payload without its mode byte. check() is called first; other functions
// except each() and add() rely on it.
struct tern_mode {
    enum tern_mode_byte byte;
    bool ternary;
    const char *name;

    // TERN_ERR_CORRUPT, TERN_ERR_NON_FINITE
    TERN_MUST_USE enum tern_result (*check)(const uint8_t *body, size_t len, size_t count);

    void (*decode)(const uint8_t *body, size_t len, float *dst, size_t count);
    void (*accumulate)(const uint8_t *body, size_t len, float weight, float *acc, size_t count);

    // Sets scale, nonzero, runs, sum_square and maximum of *info, which is all zero before.
    void (*describe)(const uint8_t *body, size_t len, size_t count, struct tern_codec_info *info);

    // Ternary modes that are slow to read: does check() and passes all values that are not 0 to take() in one pass, some of
    // them before it finds an error. NULL: use check() and another function.
    TERN_MUST_USE enum tern_result (*each)(const uint8_t *body, size_t len, size_t count,
                                           tern_take_signs *take, void *ctx);

#if !TERN_SMALL
    // Other ternary modes: passes all values that are not 0 to take(). Needs no memory, and is faster than decode() if there
    // are few. NULL: use decode().
    void (*signs)(const uint8_t *body, size_t len, size_t count, tern_take_signs *take, void *ctx);

    // Modes that are not ternary and slow to read: check(), accumulate() and describe() in one pass. acc and info may be
    // NULL; on error they are unspecified. NULL: use check() and another function.
    TERN_MUST_USE enum tern_result (*add)(const uint8_t *body, size_t len, size_t count,
                                          float weight, float *acc, struct tern_codec_info *info);
#endif
};

#define TERN_CODEC_MODES 2 // most modes of one codec

// A codec. It checks and encodes in two steps, so that a container can check all segments before it changes any.
struct tern_codec_row {
    struct tern_codec_entry entry;

    // Returns the bytes of dst that encode() needs, including its working space.
    size_t (*bound)(const struct tern_codec *codec, size_t count);

    // Checks whether values up to the magnitude `peak`, which is finite, can be encoded. NULL: all can.
    // TERN_ERR_NON_FINITE  the scale overflows
    TERN_MUST_USE enum tern_result (*check)(const struct tern_codec *codec, float peak);

    // Checks the job's context. NULL: any context is right.
    // TERN_ERR_CORRUPT  the context's indices are damaged
    TERN_MUST_USE enum tern_result (*check_context)(const struct tern_encode_job *job);

    // Writes the payload and returns its length. Returns 0, with unchanged values, if all values would decode to 0; then
    // tern_codec_emit() writes a payload of mode zero. Under TERN_FEEDBACK_NONE encode() may overwrite the values.
    size_t (*encode)(const struct tern_encode_job *job);

#if !TERN_SMALL
    bool adds; // encode() adds the decoded values to the context's replica
#endif

    // Modes of this codec's payloads, NULL at the end. Ternary codecs have none: their coders define the modes.
    const struct tern_mode *modes[TERN_CODEC_MODES + 1];
};

#define TERN_DECLARE_CODEC(codec, symbol, id)                                                      \
    extern const struct tern_codec_row tern_##codec##_codec;
TERN_CODECS(TERN_DECLARE_CODEC)

// Returns the row of a built-in codec, or NULL.
const struct tern_codec_row *tern_codec_row(enum tern_codec_id id);

// Returns the mode with that mode byte, or NULL.
const struct tern_mode *tern_mode_of(uint8_t byte);

// Returns the bytes of a bitmap with one bit for each of `count` values.
static inline size_t tern_bitmap_bytes(size_t count)
{
    return count / 8 + (count % 8 != 0);
}

// Adds one decoded value to nonzero, sum_square and maximum.
static inline void tern_describe_value(struct tern_codec_info *info, float value)
{
    float magnitude = value < 0 ? -value : value;
    info->nonzero += value != 0;
    info->sum_square += (double)value * (double)value;
    info->maximum = magnitude > info->maximum ? magnitude : info->maximum;
}

// --- The steps of encoding and decoding (codec.c)

// Checks whether the context has the buffers that the codec needs. TERN_ERR_UNKNOWN, TERN_ERR_ARGUMENT
TERN_MUST_USE enum tern_result tern_codec_needs(const struct tern_codec *codec,
                                                const struct tern_encode_context *context);

// A context of zeros, for NULL.
extern const struct tern_encode_context tern_no_context;

// Sets *peak to the largest magnitude of a job's values, and checks whether the codec can encode them.
// TERN_ERR_NON_FINITE
TERN_MUST_USE enum tern_result tern_codec_check(const struct tern_encode_job *job, float *peak);

// Encodes values that tern_codec_check() accepted; returns the payload's length.
size_t tern_codec_emit(const struct tern_encode_job *job);

// Sets *mode to the mode of an untrusted payload, and checks its body. Errors of tern_codec_decode().
TERN_MUST_USE enum tern_result tern_payload_check(const uint8_t *src, size_t src_len, size_t count,
                                                  const struct tern_mode **mode);

// Receives the values of a payload. The mode determines which of the two functions is called.
struct tern_payload_reader {
    void *ctx;
    tern_take_signs *signs; // takes batches of ternary values that are not 0; NULL: not wanted
    // Decodes the payload by tern_mode_decode() or tern_mode_accumulate(), which get `info`. NULL: not wanted.
    TERN_MUST_USE enum tern_result (*whole)(void *ctx, const struct tern_mode *mode,
                                            const uint8_t *body, size_t len, size_t count,
                                            struct tern_codec_info *info);
};

// Returns true if the mode has add(): its payloads are slow to read, and are checked while they are read.
bool tern_mode_reads_once(const struct tern_mode *mode);

// accumulate() and decode() for whole(). They also check and describe a payload that is not checked yet. Errors of check();
// acc or dst is unspecified then.
TERN_MUST_USE enum tern_result tern_mode_accumulate(const struct tern_mode *mode,
                                                    const uint8_t *body, size_t len, float weight,
                                                    float *acc, size_t count,
                                                    struct tern_codec_info *info);
TERN_MUST_USE enum tern_result tern_mode_decode(const struct tern_mode *mode, const uint8_t *body,
                                                size_t len, float *dst, size_t count,
                                                struct tern_codec_info *info);

// Checks and reads a payload in one pass where its mode allows. info: as from tern_codec_inspect(), or NULL.
// Errors of tern_codec_decode() and of whole(); the reader may have received values before an error.
TERN_MUST_USE enum tern_result tern_payload_read(const uint8_t *src, size_t src_len, size_t count,
                                                 const struct tern_payload_reader *reader,
                                                 struct tern_codec_info *info);

// Like tern_codec_accumulate(), but faster: on error acc is unspecified.
TERN_MUST_USE enum tern_result tern_payload_add(const uint8_t *src, size_t src_len, float weight,
                                                float *acc, size_t count);

// --- The payloads of a container

// A payload, or the rest of a container that is still to be read.
struct tern_bytes_left {
    const uint8_t *data;
    size_t len;
};

// Reads the length of the payload at `data`. seen: bytes that may be read; left: bytes of the container from here. Returns
// the bytes that the length takes, or 0 if the payload would pass the end.
static inline size_t tern_payload_length(const uint8_t *data, size_t seen, size_t left, size_t *len)
{
    uint64_t length = 0;
    const size_t bytes = tern_get_varint(data, seen, &length);
    // The untrusted length is compared with the rest before it is used.
    if (bytes == 0 || length > left - bytes) {
        return 0;
    }
    *len = (size_t)length;
    return bytes;
}

// Takes the next payload from `rest`. Returns false if its length does not fit.
static inline bool tern_take_payload(struct tern_bytes_left *rest, struct tern_bytes_left *payload)
{
    size_t len = 0;
    const size_t length_bytes = tern_payload_length(rest->data, rest->len, rest->len, &len);
    if (length_bytes == 0) {
        return false;
    }
    *payload = (struct tern_bytes_left){rest->data + length_bytes, len};
    rest->data = payload->data + payload->len;
    rest->len -= length_bytes + payload->len;
    return true;
}

#endif
