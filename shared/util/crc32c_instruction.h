// CRC-32C by an instruction of the processor, for crc32c.c. Reentrant.
#ifndef TERN_CRC32C_INSTRUCTION_H
#define TERN_CRC32C_INSTRUCTION_H

#include <stddef.h>
#include <stdint.h>

// A board's compiler knows its processor; only hosted programs have to ask at run time.
// TERN_CRC32C_PORTABLE  leaves it out, for the test that compares the two.
#if __STDC_HOSTED__ && !defined(TERN_CRC32C_PORTABLE) &&                                           \
    (defined(__x86_64__) ||                                                                        \
     (defined(__aarch64__) && !defined(__AARCH64EB__) && defined(__linux__)))
#define TERN_CRC32C_INSTRUCTION 1

// Adds data[0..len) to the register when this processor has the instruction, else returns false.
_Bool tern_crc32c_instruction(uint32_t *crc, const uint8_t *data, size_t len);
#endif

#endif
