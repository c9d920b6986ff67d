#include "codec/kernels/paths.h"

#define KERNEL
#define NAME(name) tern_portable_##name
#include "codec/kernels/dense_loops.h"
