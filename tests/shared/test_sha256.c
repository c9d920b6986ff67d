// SHA-256 as compiled here, which may use instructions of the processor, against the portable code.
#include "tests/cases.h"
#include "util/sha256.h"

void portable_sha256_init(struct tern_sha256 *ctx);
void portable_sha256_update(struct tern_sha256 *ctx, const void *data, size_t len);
void portable_sha256_final(struct tern_sha256 *ctx, uint8_t digest[TERN_SHA256_SIZE]);
void portable_sha256(const void *data, size_t len, uint8_t digest[TERN_SHA256_SIZE]);

// With arguments, so that the struct keeps its name.
#define TERN_SHA256_PORTABLE
#define tern_sha256_init(ctx) portable_sha256_init(ctx)
#define tern_sha256_update(ctx, data, len) portable_sha256_update(ctx, data, len)
#define tern_sha256_final(ctx, digest) portable_sha256_final(ctx, digest)
#define tern_sha256(data, len, digest) portable_sha256(data, len, digest)
#define tern_sha256_constants portable_sha256_constants
#include "../../shared/util/sha256.c"
#undef tern_sha256
#undef tern_sha256_init
#undef tern_sha256_update
#undef tern_sha256_final

static uint8_t data[20000];

static void fill(void)
{
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof data; i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = (uint8_t)(x >> 24);
    }
}

static void expect_equal(size_t offset, size_t len)
{
    uint8_t ours[TERN_SHA256_SIZE];
    uint8_t portable[TERN_SHA256_SIZE];
    tern_sha256(data + offset, len, ours);
    portable_sha256(data + offset, len, portable);
    assert_memory_equal(ours, portable, TERN_SHA256_SIZE);
}

CASE(test_every_length_and_alignment)
{
    fill();
    for (size_t len = 0; len < 300; len++) {
        expect_equal(len % 17, len);
    }
    expect_equal(3, sizeof data - 3);
}

CASE(test_in_pieces)
{
    fill();
    for (size_t piece = 1; piece < 200; piece += 7) {
        struct tern_sha256 ctx;
        uint8_t ours[TERN_SHA256_SIZE];
        uint8_t portable[TERN_SHA256_SIZE];
        tern_sha256_init(&ctx);
        for (size_t at = 0; at < 5000; at += piece) {
            tern_sha256_update(&ctx, data + at, piece < 5000 - at ? piece : 5000 - at);
        }
        tern_sha256_final(&ctx, ours);
        portable_sha256(data, 5000, portable);
        assert_memory_equal(ours, portable, TERN_SHA256_SIZE);
    }
}
