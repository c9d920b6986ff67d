#include "rivals.h"

#ifdef TERN_BENCH_ZSTD
#include <zstd.h>

static size_t zstd_compress(const uint8_t *src, size_t len, uint8_t *dst, size_t size, int level)
{
    size_t written = ZSTD_compress(dst, size, src, len, level);
    return ZSTD_isError(written) ? 0 : written;
}

static size_t zstd_1(const uint8_t *src, size_t len, uint8_t *dst, size_t size)
{
    return zstd_compress(src, len, dst, size, 1);
}

static size_t zstd_19(const uint8_t *src, size_t len, uint8_t *dst, size_t size)
{
    return zstd_compress(src, len, dst, size, 19);
}

static size_t zstd_expand(const uint8_t *src, size_t len, uint8_t *dst, size_t size)
{
    size_t written = ZSTD_decompress(dst, size, src, len);
    return ZSTD_isError(written) ? 0 : written;
}
#endif

#ifdef TERN_BENCH_LZ4
#include <lz4.h>

static size_t lz4_bound(size_t len)
{
    return (size_t)LZ4_compressBound((int)len);
}

static size_t lz4_compress(const uint8_t *src, size_t len, uint8_t *dst, size_t size)
{
    return (size_t)LZ4_compress_default((const char *)src, (char *)dst, (int)len, (int)size);
}

static size_t lz4_expand(const uint8_t *src, size_t len, uint8_t *dst, size_t size)
{
    int written = LZ4_decompress_safe((const char *)src, (char *)dst, (int)len, (int)size);
    return written < 0 ? 0 : (size_t)written;
}
#endif

const struct rival rivals[] = {
#ifdef TERN_BENCH_ZSTD
    {"zstd -1", ZSTD_compressBound, zstd_1, zstd_expand},
    {"zstd -19", ZSTD_compressBound, zstd_19, zstd_expand},
#endif
#ifdef TERN_BENCH_LZ4
    {"lz4", lz4_bound, lz4_compress, lz4_expand},
#endif
    {.name = NULL},
};
