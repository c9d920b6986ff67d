// The verbs of tern-codec; each is in a file of its own.
#ifndef TERN_CODEC_VERBS_H
#define TERN_CODEC_VERBS_H

#include "hosted/cli.h"
#include "live_table.h"

int tern_verb_codecs(struct tern_cli *cli);
int tern_verb_encode(struct tern_cli *cli);
int tern_verb_decode(struct tern_cli *cli);
int tern_verb_inspect(struct tern_cli *cli);
int tern_verb_compare(struct tern_cli *cli);

#endif
