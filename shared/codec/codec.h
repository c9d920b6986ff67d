// Codecs turn float32 values into few bytes and back. Who calls: the client for its updates, the
// aggregator for downloads and for applying updates, tern-codec for people. docs/FORMAT.md is the
// normative description of every byte. Pure; the caller owns all memory; reentrant.
//
// A codec is named by a spec string, the same in INI files, tasks, command lines and reports:
//   float32 | float16 | 3lc[:s=1..1.999]     e.g. "3lc:s=1.5"
#ifndef TERN_CODEC_H
#define TERN_CODEC_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>

#define TERN_CODEC_SPEC_MAX 64 // bytes with the terminating NUL

enum tern_codec_id {
    TERN_CODEC_FLOAT32 = 0,
    TERN_CODEC_FLOAT16 = 1,
    TERN_CODEC_3LC = 2,
};

// A parsed spec string.
struct tern_codec {
    enum tern_codec_id id;
    float sparsity; // 3lc: the multiplier s of section 3.1, 1 <= s < 2; others: 1
};

// Parses a spec string. On error *codec is unchanged and, when bad is not NULL, *bad points at the
// part of `spec` that is wrong.
// TERN_ERR_UNKNOWN   no codec of that name (see tern_codec_names())
// TERN_ERR_ARGUMENT  unknown key, malformed value, or a value outside its range
TERN_MUST_USE enum tern_result tern_codec_parse(const char *spec, struct tern_codec *codec,
                                                const char **bad);

// Writes the canonical spec string ("3lc:s=1.5"; "3lc" for s = 1 is "3lc:s=1").
void tern_codec_format(const struct tern_codec *codec, char spec[TERN_CODEC_SPEC_MAX]);

// Every known name with its parameters, for error messages and --help. Static string.
const char *tern_codec_names(void);

// The most bytes that tern_codec_encode() writes for `count` values.
size_t tern_codec_bound(const struct tern_codec *codec, size_t count);

// Encodes `count` values. values: in, the sum t = e + x of error buffer and input (3LC
// section 3.1); out, what the payload does not carry, t - decoded, the new error buffer. It is
// unchanged on error. dst: dst_size >= tern_codec_bound() bytes. *written: bytes used.
// TERN_ERR_NON_FINITE  a value or the scale is NaN or infinite (dst is then unspecified)
// TERN_ERR_NO_SPACE    dst_size is below the bound
TERN_MUST_USE enum tern_result tern_codec_encode(const struct tern_codec *codec, float *values,
                                                 size_t count, uint8_t *dst, size_t dst_size,
                                                 size_t *written);

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
    enum tern_codec_id id;
    const char *mode;  // name of the mode byte, static string
    float scale;       // 3lc: the value of a +1; others: 0
    size_t nonzero;    // values that decode to something other than 0
    size_t runs;       // zero-run bytes
    double sum_square; // of the decoded values, for norm limits
    float maximum;     // largest magnitude decoded
};

// Checks a payload as tern_codec_decode() does and describes it, without writing values.
TERN_MUST_USE enum tern_result tern_codec_inspect(const uint8_t *src, size_t src_len, size_t count,
                                                  struct tern_codec_info *info);

#endif
