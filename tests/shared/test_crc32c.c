// CRC-32C as compiled here, which may use an instruction of the processor, and by the table,
// against the definition: one bit after the other. Plain C without a test library, so that it is
// also built for other processors (test_kernels_neon.sh).
#include "util/crc32c.h"

uint32_t portable_crc32c(uint32_t crc, const void *data, size_t len);

#define TERN_CRC32C_PORTABLE
#define tern_crc32c(crc, data, len) portable_crc32c(crc, data, len)
#include "../../shared/util/crc32c.c"
#undef tern_crc32c

#include <stdio.h>

static int failures;

static void expect(uint32_t found, uint32_t wanted, const char *what, size_t at)
{
    if (found != wanted) {
        fprintf(stderr, "%s %zu: %08x, not %08x\n", what, at, found, wanted);
        failures++;
    }
}

static uint32_t by_bits(uint32_t crc, const uint8_t *data, size_t len)
{
    crc = ~crc;
    for (size_t i = 0; i < len; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
        }
    }
    return ~crc;
}

static uint8_t data[2000];

static void fill(void)
{
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof data; i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = (uint8_t)(x >> 24);
    }
}

static void test_known(void)
{
    const uint8_t zeros[32] = {0};
    expect(tern_crc32c(0, "123456789", 9), 0xe3069283u, "digits", 9);
    expect(tern_crc32c(0, zeros, 32), 0x8a9136aau, "zeros", 32); // RFC 3720, appendix B.4
    expect(tern_crc32c(0, "", 0), 0, "nothing", 0);
}

static void test_every_length_and_alignment(void)
{
    for (size_t len = 0; len < 300; len++) {
        const uint8_t *at = data + len % 17;
        const uint32_t wanted = by_bits(0, at, len);
        expect(tern_crc32c(0, at, len), wanted, "length", len);
        expect(portable_crc32c(0, at, len), wanted, "by the table, length", len);
    }
}

static void test_in_pieces(void)
{
    const uint32_t wanted = by_bits(0, data, sizeof data);
    for (size_t piece = 1; piece < 100; piece += 7) {
        uint32_t ours = 0;
        uint32_t portable = 0;
        for (size_t at = 0; at < sizeof data; at += piece) {
            const size_t len = piece < sizeof data - at ? piece : sizeof data - at;
            ours = tern_crc32c(ours, data + at, len);
            portable = portable_crc32c(portable, data + at, len);
        }
        expect(ours, wanted, "pieces of", piece);
        expect(portable, wanted, "by the table, pieces of", piece);
    }
}

int main(void)
{
    fill();
    test_known();
    test_every_length_and_alignment();
    test_in_pieces();
    printf("%d failures\n", failures);
    return failures != 0;
}
