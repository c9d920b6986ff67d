// What the files of codecs are written with: each says what the codec is called, how it encodes and
// which modes its payloads have (tern_NAME_codec), and what a plan reckons with (tern_NAME_plan).
// Internal to shared/codec.
#ifndef TERN_QUANTIZERS_ROW_H
#define TERN_QUANTIZERS_ROW_H

#include "codec/modes.h"
#include "codec/plan.h"

#define TERN_FIELD(name) offsetof(struct tern_codec, name)
#define TERN_MILLION 1000000 // numbers are in millionths
#define TERN_LAST_PARAMETER                                                                        \
    {                                                                                              \
        .key = NULL                                                                                \
    }

// What only people read.
#if TERN_FOR_PEOPLE
#define TERN_HELP(text) text
#else
#define TERN_HELP(text) ""
#endif

extern const struct tern_codec_parameter tern_no_parameters[];

#endif
