// What is in a safetensors file.
#ifndef TERN_INSPECT_TENSORS_H
#define TERN_INSPECT_TENSORS_H

#include "hosted/cli.h"

// Lists the tensors of a file. Returns the exit code; a file that is not safetensors is taken for a
// payload, of which the command line says too little.
int tern_inspect_tensors(const struct tern_cli *cli, const char *path);

#endif
