// Codecs with any parameters of the table, for tests that must hold for all of them.
#ifndef TERN_TEST_ANY_CODEC_H
#define TERN_TEST_ANY_CODEC_H

#include "codec/codec.h"

#define ANY_CODEC_SPEC_MAX 160

// A source of decisions: a number below `bound`.
struct any_source {
    uint32_t (*below)(void *arg, uint32_t bound);
    void *arg;
};

// A codec of the row with each parameter at one of its limits, its preset, or in between. spec: the
// string that named it.
struct tern_codec any_codec(const struct tern_codec_entry *entry, const struct any_source *source,
                            char spec[ANY_CODEC_SPEC_MAX]);

// As above by the bits of `corner`: bit i chooses the larger limit of parameter i.
struct tern_codec corner_codec(const struct tern_codec_entry *entry, uint32_t corner,
                               char spec[ANY_CODEC_SPEC_MAX]);

#endif
