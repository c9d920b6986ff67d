// What the targets of hostile payloads have in common. For fuzz targets, single-threaded.
#ifndef TERN_FUZZ_PAYLOAD_H
#define TERN_FUZZ_PAYLOAD_H

#include "codec/codec.h"
#include <stdlib.h>

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

// Reads an input as: mode (a choice among `modes`), number of values (two bytes), body. The three
// readers must agree about it, change nothing on error, and stay inside what they were given (all
// buffers end where their allocations do).
void check_payload(const uint8_t *modes, size_t mode_count, const uint8_t *data, size_t size);

#endif
