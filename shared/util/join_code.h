// Join codes as people read and type them: 80 random bits in letters and digits that people do not mistake for each other
// (Crockford's base32). The aggregator's and the helper's codes have this form. Pure; reentrant.
#ifndef TERN_UTIL_JOIN_CODE_H
#define TERN_UTIL_JOIN_CODE_H

#include "util/sha256.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_JOIN_CODE_BYTES 10 // random bytes of a code
#define TERN_JOIN_CODE_TEXT 20  // "7k3m-9xq2-0ahp-w4tz" and the NUL

// Writes the code's text in groups of four characters.
void tern_join_code_write(const uint8_t secret[TERN_JOIN_CODE_BYTES],
                          char text[TERN_JOIN_CODE_TEXT]);

// Writes the hash under which a join code is stored. The text may be in either case, with O for 0 and I or L for 1, and with
// hyphens, blanks or nothing between its groups.
void tern_join_code_hash(const char *text, uint8_t hash[TERN_SHA256_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
