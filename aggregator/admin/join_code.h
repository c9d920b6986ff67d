// Join codes, as the command line and the admin listener make them. Reentrant.
#ifndef TERN_JOIN_CODE_H
#define TERN_JOIN_CODE_H

#include "store/store.h"

#define TERN_JOIN_CODE_TEXT 20 // "7k3m-9xq2-0ahp-w4tz" and the NUL

// Makes a new code: 80 random bits in letters and digits that people do not mistake for each other.
// code->hash is set; the other fields are the caller's.
// TERN_ERR_IO  the system has no random bytes
TERN_MUST_USE enum tern_result tern_join_code_make(struct tern_db_code *code,
                                                   char text[TERN_JOIN_CODE_TEXT]);

#endif
