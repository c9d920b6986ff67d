// The blocks of firmware_port/rtl, simulated by Verilator, as functions. They feed and drain the
// streams as a board's DMA would, and pause at random. For tests, single-threaded.
#ifndef TERN_TEST_BLOCKS_H
#define TERN_TEST_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// From now on the sender has nothing in `sender` of 256 cycles, and the receiver takes nothing in
// `receiver` of them.
void blocks_pause(unsigned sender, unsigned receiver, uint64_t seed);

// What tuser says of a segment.
struct block_facts {
    bool bit[2];     // decoders: corrupt, non-finite; INCEPTIONN's encoder: any, non-finite
    uint64_t cycles; // from the first beat that was offered to the last one taken
};

// Encoders write whole payloads and return their length. Values are only read.
size_t block_inceptionn_encode(bool literal, unsigned bound, const float *values, size_t count,
                               uint8_t *dst, struct block_facts *facts);
size_t block_ternary_encode(bool packed, float scale, uint32_t threshold, const float *values,
                            size_t count, uint8_t *dst, struct block_facts *facts);

// The same segment `times` times without a break; payloads side by side in dst.
size_t block_inceptionn_encode_again(bool literal, unsigned bound, const float *values,
                                     size_t count, unsigned times, uint8_t *dst);
size_t block_ternary_encode_again(bool packed, float scale, uint32_t threshold, const float *values,
                                  size_t count, unsigned times, uint8_t *dst);

// Decoders return how many values came out.
size_t block_inceptionn_decode(const uint8_t *payload, size_t len, float *dst, size_t count,
                               struct block_facts *facts);
size_t block_ternary_decode(const uint8_t *payload, size_t len, float *dst, size_t count,
                            struct block_facts *facts);

#ifdef __cplusplus
}
#endif

#endif
