// The list of all codecs, and the mode bytes of their payloads. A new codec needs a row here, a file in quantizers/ that
// defines its struct tern_codec_row (modes.h) and struct tern_codec_plan (plan.h), and a section in docs/FORMAT.md.
#ifndef TERN_CODEC_LIST_H
#define TERN_CODEC_LIST_H

// X(name, NAME in TERN_CODEC_NAME, id), in the order of lists for people. An id is a bit of CheckinRequest.codecs: never reuse
// it.
#define TERN_ALL_CODECS(X)                                                                         \
    X(float32, FLOAT32, 0)                                                                         \
    X(float16, FLOAT16, 1)                                                                         \
    X(bfloat16, BFLOAT16, 3)                                                                       \
    X(int8, INT8, 4)                                                                               \
    X(onebit, ONEBIT, 7)                                                                           \
    X(qsgd, QSGD, 10)                                                                              \
    X(inceptionn, INCEPTIONN, 11)                                                                  \
    X(uniform, UNIFORM, 13)                                                                        \
    X(3lc, 3LC, 2)                                                                                 \
    X(density, DENSITY, 5)                                                                         \
    X(stochastic_ternary, STOCHASTIC_TERNARY, 6)                                                   \
    X(sparse, SPARSE, 8)                                                                           \
    X(dgc, DGC, 9)                                                                                 \
    X(scalecom, SCALECOM, 12)

#define TERN_CODEC_ID(codec, symbol, id) TERN_CODEC_##symbol = (id),
enum tern_codec_id { TERN_ALL_CODECS(TERN_CODEC_ID) };

// First byte of a payload.
enum tern_mode_byte {
    TERN_MODE_ZERO = 0x00,
    TERN_MODE_FLOAT32 = 0x01,
    TERN_MODE_FLOAT16 = 0x02,
    TERN_MODE_BFLOAT16 = 0x03,
    TERN_MODE_INT8 = 0x04,
    TERN_MODE_TERNARY_ZERO_RUN = 0x10,
    TERN_MODE_TERNARY_PACKED = 0x11,
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
    TERN_MODE_UNIFORM = 0x60,
};

#endif
