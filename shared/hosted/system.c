#include "hosted/system.h"

#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

enum tern_result tern_random_fill(void *dst, size_t len)
{
    uint8_t *at = dst;
    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);
        if (got < 0 && errno != EINTR) {
            return TERN_ERR_IO;
        }
        if (got > 0) {
            at += got;
            len -= (size_t)got;
        }
    }
    return TERN_OK;
}
