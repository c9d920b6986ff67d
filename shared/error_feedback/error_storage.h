// Stores the values of an error buffer as float32, or rounded to fewer bytes to save memory (docs/FORMAT.md, section 10). The
// rounding error depends on the storage, not on the codec. Pure; the caller owns the memory; reentrant.
#ifndef TERN_ERROR_STORAGE_H
#define TERN_ERROR_STORAGE_H

#include "build.h"
#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Clients' stored records contain these numbers: never reuse one.
enum tern_error_storage {
    TERN_ERROR_FLOAT32 = 0,  // 4 bytes per value, without rounding
    TERN_ERROR_BFLOAT16 = 1, // 2 bytes; 8 significant bits
    TERN_ERROR_INT8 =
        2, // 1.0625 bytes; the error is at most 1/254 of the block's largest magnitude
};

// The storage as a constant expression, if the build has only one (build.h).
#ifdef TERN_ERROR_STORAGE
#define TERN_ERROR_STORAGE_OF(storage) ((void)(storage), TERN_ERROR_STORAGE)
#else
#define TERN_ERROR_STORAGE_OF(storage) (storage)
#endif

#define TERN_ERROR_BLOCK 64 // values that share a scale in TERN_ERROR_INT8

// Bytes of `count` values, as a constant expression.
#define TERN_ERROR_BYTES(storage, count)                                                           \
    ((storage) == TERN_ERROR_FLOAT32 ? 4 * (size_t)(count)                                         \
     : (storage) == TERN_ERROR_BFLOAT16                                                            \
         ? 2 * (size_t)(count)                                                                     \
         : (size_t)(count) + 4 * (((size_t)(count) + TERN_ERROR_BLOCK - 1) / TERN_ERROR_BLOCK))

// Returns true if the number is a built-in storage.
static inline bool tern_error_storage_known(uint32_t storage)
{
    const enum tern_error_storage asked = (enum tern_error_storage)storage;
    return storage <= TERN_ERROR_INT8 && TERN_ERROR_STORAGE_OF(asked) == asked;
}

// TERN_ERR_UNKNOWN; *storage is then unchanged.
TERN_MUST_USE enum tern_result tern_error_storage_from_name(const char *name,
                                                            enum tern_error_storage *storage);

// The most values that `auto` stores as float32 (4 MiB) and as bfloat16 (16 MiB).
#define TERN_ERROR_FLOAT32_MOST (UINT32_C(1) << 20)
#define TERN_ERROR_BFLOAT16_MOST (UINT32_C(1) << 23)

// Sets *storage from a setting: the name of a storage, or "auto", which chooses by the number of values.
// TERN_ERR_UNKNOWN; *storage is then unchanged.
TERN_MUST_USE enum tern_result tern_error_storage_choose(const char *setting, uint32_t count,
                                                         enum tern_error_storage *storage);

// Returns the bytes of `count` values.
size_t tern_error_storage_bytes(enum tern_error_storage storage, uint32_t count);

// Read and write values first..first + count of a buffer at `bytes`. first must be a multiple of TERN_ERROR_BLOCK, and so must
// count unless the range ends with the buffer. Values to write are finite.
void tern_error_storage_get(enum tern_error_storage storage, const void *bytes, uint32_t first,
                            float *values, uint32_t count);
void tern_error_storage_put(enum tern_error_storage storage, const float *values, uint32_t first,
                            void *bytes, uint32_t count);

// Checks whether tern_error_storage_put() can have written these untrusted bytes.
// TERN_ERR_CORRUPT  a value or scale is not finite, a scale is negative, or a value is -128
TERN_MUST_USE enum tern_result tern_error_storage_check(enum tern_error_storage storage,
                                                        const void *bytes, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif
