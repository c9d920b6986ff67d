// The verbs of tern-ring. Each returns an exit code.
#ifndef TERN_RING_VERBS_H
#define TERN_RING_VERBS_H

#include "hosted/cli.h"

int ring_verb_run(struct tern_cli *cli);
int ring_verb_status(struct tern_cli *cli);
int ring_verb_export(struct tern_cli *cli);

#endif
