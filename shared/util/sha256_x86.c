// Computes SHA-256 with the SHA extensions of x86, about five times as fast as the portable code.
// An aggregator hashes every byte that it receives.
#include "util/sha256.h"

#ifdef TERN_SHA256_X86
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

#define TARGET __attribute__((target("sha,sse4.1")))

// Returns the next four words of the message schedule; w has the last sixteen, w[0] the oldest
// four.
TARGET static inline __m128i next_words(const __m128i w[4])
{
    __m128i sum = _mm_sha256msg1_epu32(w[0], w[1]);
    sum = _mm_add_epi32(sum, _mm_alignr_epi8(w[3], w[2], 4)); // the words 7 positions back
    return _mm_sha256msg2_epu32(sum, w[3]);
}

TARGET static inline __m128i load_words(const uint8_t *data)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)data), big_endian);
}

// One register has the state words a, b, e, f, the other c, d, g, h. Two rounds swap the roles of
// the registers.
TARGET static void compress(__m128i *abef, __m128i *cdgh, const uint8_t block[64])
{
    __m128i w[4];
    __m128i first = *abef;
    __m128i second = *cdgh;
#pragma GCC unroll 16
    for (unsigned i = 0; i < 16; i++) {
        __m128i words = i < 4 ? load_words(block + (size_t)i * 16) : next_words(w);
        if (i < 4) {
            w[i] = words;
        } else {
            w[0] = w[1];
            w[1] = w[2];
            w[2] = w[3];
            w[3] = words;
        }
        const void *constants = tern_sha256_constants + (size_t)i * 4;
        __m128i keyed = _mm_add_epi32(words, _mm_loadu_si128(constants));
        second = _mm_sha256rnds2_epu32(second, first, keyed);
        first = _mm_sha256rnds2_epu32(first, second, _mm_shuffle_epi32(keyed, 0x0e));
    }
    *abef = _mm_add_epi32(*abef, first);
    *cdgh = _mm_add_epi32(*cdgh, second);
}

TARGET static void compress_all(uint32_t h[8], const uint8_t *data, size_t blocks)
{
    __m128i abef = _mm_set_epi32((int)h[0], (int)h[1], (int)h[4], (int)h[5]);
    __m128i cdgh = _mm_set_epi32((int)h[2], (int)h[3], (int)h[6], (int)h[7]);
    for (; blocks > 0; blocks--, data += 64) {
        compress(&abef, &cdgh, data);
    }
    h[0] = (uint32_t)_mm_extract_epi32(abef, 3);
    h[1] = (uint32_t)_mm_extract_epi32(abef, 2);
    h[2] = (uint32_t)_mm_extract_epi32(cdgh, 3);
    h[3] = (uint32_t)_mm_extract_epi32(cdgh, 2);
    h[4] = (uint32_t)_mm_extract_epi32(abef, 1);
    h[5] = (uint32_t)_mm_extract_epi32(abef, 0);
    h[6] = (uint32_t)_mm_extract_epi32(cdgh, 1);
    h[7] = (uint32_t)_mm_extract_epi32(cdgh, 0);
}

enum { UNKNOWN, PRESENT, ABSENT };

static int detect(void)
{
    unsigned a, b, c, d;
    _Bool sse41 = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) != 0;
    _Bool sha = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA) != 0;
    return sse41 && sha ? PRESENT : ABSENT;
}

// Tests the processor only once: under a hypervisor CPUID takes as long as hashing many blocks.
static _Bool is_present(void)
{
    static atomic_int known;
    int present = atomic_load_explicit(&known, memory_order_relaxed);
    if (present == UNKNOWN) {
        present = detect();
        atomic_store_explicit(&known, present, memory_order_relaxed);
    }
    return present == PRESENT;
}

bool tern_sha256_x86(uint32_t h[8], const uint8_t *data, size_t blocks)
{
    if (!is_present()) {
        return 0;
    }
    compress_all(h, data, blocks);
    return 1;
}

#else
typedef int tern_sha256_x86_is_empty; // ISO C does not allow an empty file
#endif
