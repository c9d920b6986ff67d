// The verbs of tern-codec, one file each.
#ifndef TERN_CODEC_VERBS_H
#define TERN_CODEC_VERBS_H

#include "hosted/cli.h"
#include "table.h"

int verb_codecs(struct tern_cli *cli);
int verb_encode(struct tern_cli *cli);
int verb_decode(struct tern_cli *cli);
int verb_inspect(struct tern_cli *cli);
int verb_compare(struct tern_cli *cli);

#endif
