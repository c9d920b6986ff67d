// Parses the codecs on a command line: one spec string, a list, or all codecs.
#ifndef TERN_SPECS_H
#define TERN_SPECS_H

#include "codec/codec.h"
#include "hosted/cli.h"

struct spec {
    char text[TERN_CODEC_SPEC_MAX]; // canonical spec string
    struct tern_codec codec;
};

struct spec_list {
    struct spec *specs;
    size_t count;
};

// Parses one spec string. On error prints the reason on stderr. TERN_ERR_CONFIG
TERN_MUST_USE enum tern_result tern_spec_argument_parse(const struct tern_cli *cli,
                                                        const char *text, struct tern_codec *codec);

// Parses spec strings separated by spaces or semicolons. NULL: all codecs, each in the variants
// that are worth comparing. On error prints the reason on stderr. TERN_ERR_CONFIG,
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_spec_list_parse(const struct tern_cli *cli, const char *text,
                                                    struct spec_list *list);

// Lists the variants of one codec. TERN_ERR_NO_MEMORY; the list is then empty.
TERN_MUST_USE enum tern_result tern_spec_list_variants(const struct tern_codec_entry *entry,
                                                       struct spec_list *list);

void tern_spec_list_free(struct spec_list *list);

#endif
