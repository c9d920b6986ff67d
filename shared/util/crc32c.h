// CRC-32C (Castagnoli, reflected 0x82F63B78), for records that a power cut or a worn flash may damage. Pure; reentrant.
#ifndef TERN_UTIL_CRC32C_H
#define TERN_UTIL_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Continues `crc` (0 to start) over data[0..len).
// tern_crc32c(0, "123456789", 9) is 0xE3069283.
uint32_t tern_crc32c(uint32_t crc, const void *data, size_t len);

// --- For crc32c.c alone

// Only hosted programs test at run time whether the processor has the instruction. The test that
// compares instruction and table defines TERN_CRC32C_PORTABLE to build without the instruction.
#if __STDC_HOSTED__ && !defined(TERN_CRC32C_PORTABLE) &&                                           \
    (defined(__x86_64__) ||                                                                        \
     (defined(__aarch64__) && !defined(__AARCH64EB__) && defined(__linux__)))
#define TERN_CRC32C_INSTRUCTION 1

// Adds data[0..len) to the register; false: this processor lacks the instruction, and *crc is unchanged.
bool tern_crc32c_instruction(uint32_t *crc, const uint8_t *data, size_t len);
#endif

#ifdef __cplusplus
}
#endif

#endif
