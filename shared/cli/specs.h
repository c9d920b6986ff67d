// Codecs as the command line names them: one, a list, or all that the table of codecs has.
#ifndef TERN_SPECS_H
#define TERN_SPECS_H

#include "codec/codec.h"
#include "hosted/cli.h"

struct spec {
    char text[TERN_CODEC_SPEC_MAX]; // in its shortest form
    struct tern_codec codec;
};

struct spec_list {
    struct spec *specs;
    size_t count;
};

// Parses one spec string. On error says why on stderr. TERN_ERR_CONFIG
TERN_MUST_USE enum tern_result tern_spec_argument_parse(const struct tern_cli *cli,
                                                        const char *text, struct tern_codec *codec);

// Parses spec strings with spaces or semicolons between them; NULL is all codecs of the table with
// the variants that a person may want to compare. On error says why on stderr.
// TERN_ERR_CONFIG, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_spec_list_parse(const struct tern_cli *cli, const char *text,
                                                    struct spec_list *list);

// The variants of one codec of the table. TERN_ERR_NO_MEMORY; list is then empty.
TERN_MUST_USE enum tern_result tern_spec_list_variants(const struct tern_codec_entry *entry,
                                                       struct spec_list *list);

void tern_spec_list_free(struct spec_list *list);

#endif
