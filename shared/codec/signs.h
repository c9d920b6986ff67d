// Ternary values that are not zero, as coders of gaps find them: batches of indices with their
// signs. Who uses it: those coders, and who visits a container (container.h). Plain types.
#ifndef TERN_SIGNS_H
#define TERN_SIGNS_H

#include "build.h"
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_INDICES_MAX (TERN_SMALL ? 16 : 128)

// 2 * index, + 1 if negative.
#if TERN_SMALL
typedef uint32_t tern_signed_index;
#else
typedef uint64_t tern_signed_index;
#endif

struct tern_indices {
    size_t count;
    tern_signed_index of[TERN_INDICES_MAX]; // ascending
};

// Takes one batch of the indices of a payload, all of which have the magnitude `scale`.
typedef void tern_take_signs(void *ctx, float scale, const struct tern_indices *indices);

#ifdef __cplusplus
}
#endif

#endif
