// CRC-32C (Castagnoli, reflected 0x82F63B78) over records that a power cut or
// a worn flash may damage. Pure; reentrant.
#ifndef TERN_CRC32C_H
#define TERN_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Continues `crc` (0 to start) over data[0..len).
// tern_crc32c(0, "123456789", 9) is 0xE3069283.
uint32_t tern_crc32c(uint32_t crc, const void *data, size_t len);

#ifdef __cplusplus
}
#endif

#endif
