// Random bytes for secrets, from the operating system. Reentrant.
#ifndef TERN_RANDOM_H
#define TERN_RANDOM_H

#include "result.h"
#include <stddef.h>

// Fills dst. May wait at boot until the system has entropy. TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_random_fill(void *dst, size_t len);

#endif
