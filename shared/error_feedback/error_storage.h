// How the values of an error buffer are kept: as float32, or rounded to fewer bytes where memory is
// dear (docs/FORMAT.md, section 10). 3LC names compressed buffers as future work; what rounding
// loses is bounded by the storage and not by the codec. Pure; the caller owns the memory;
// reentrant.
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

// Numbers stand in records and are never given to another storage.
enum tern_error_storage {
    TERN_ERROR_FLOAT32 = 0,  // 4 bytes a value; nothing is lost
    TERN_ERROR_BFLOAT16 = 1, // 2 bytes; a value keeps 8 significant bits
    TERN_ERROR_INT8 = 2,     // 1.0625 bytes; a value is off by at most 1/254 of its block's largest
};

// A storage as the compiler may know it: where one is built in (build.h), that one.
#ifdef TERN_ERROR_STORAGE
#define TERN_ERROR_STORAGE_OF(storage) ((void)(storage), TERN_ERROR_STORAGE)
#else
#define TERN_ERROR_STORAGE_OF(storage) (storage)
#endif

#define TERN_ERROR_BLOCK 64 // values that share a scale in TERN_ERROR_INT8

// Bytes of `count` values, as a constant.
#define TERN_ERROR_BYTES(storage, count)                                                           \
    ((storage) == TERN_ERROR_FLOAT32 ? 4 * (size_t)(count)                                         \
     : (storage) == TERN_ERROR_BFLOAT16                                                            \
         ? 2 * (size_t)(count)                                                                     \
         : (size_t)(count) + 4 * (((size_t)(count) + TERN_ERROR_BLOCK - 1) / TERN_ERROR_BLOCK))

// Whether a number is a storage that is built in.
static inline bool tern_error_storage_known(uint32_t storage)
{
    const enum tern_error_storage asked = (enum tern_error_storage)storage;
    return storage <= TERN_ERROR_INT8 && TERN_ERROR_STORAGE_OF(asked) == asked;
}

// TERN_ERR_UNKNOWN; *storage is then unchanged.
TERN_MUST_USE enum tern_result tern_error_storage_from_name(const char *name,
                                                            enum tern_error_storage *storage);

// The most values that `auto` keeps as float32 and as bfloat16: buffers of 4 MiB and of 16.
#define TERN_ERROR_FLOAT32_MOST (UINT32_C(1) << 20)
#define TERN_ERROR_BFLOAT16_MOST (UINT32_C(1) << 23)

// The storage that a setting names, of a buffer of `count` values: a name as above, or "auto", which
// is float32, and above these numbers what takes fewer bytes.
// TERN_ERR_UNKNOWN; *storage is then unchanged.
TERN_MUST_USE enum tern_result tern_error_storage_choose(const char *setting, uint32_t count,
                                                         enum tern_error_storage *storage);

// Bytes of `count` values.
size_t tern_error_storage_bytes(enum tern_error_storage storage, uint32_t count);

// Reads or writes values [first, first + count) of a buffer at `bytes`. first is a multiple of
// TERN_ERROR_BLOCK, and so is count unless the range ends with the buffer: a block of a buffer is
// written as a whole. Values to put are finite.
void tern_error_storage_get(enum tern_error_storage storage, const void *bytes, uint32_t first,
                            float *values, uint32_t count);
void tern_error_storage_put(enum tern_error_storage storage, const float *values, uint32_t first,
                            void *bytes, uint32_t count);

// Whether untrusted bytes hold what tern_error_storage_put() can have written.
// TERN_ERR_CORRUPT  a value or scale is not finite, a scale is negative, or a value is -128
TERN_MUST_USE enum tern_result tern_error_storage_check(enum tern_error_storage storage,
                                                        const void *bytes, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif
