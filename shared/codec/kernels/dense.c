#include "codec/kernels/paths.h"

#define TERN_KERNEL
#define NAME(name) tern_portable_##name
#include "codec/kernels/dense_loops.h"
