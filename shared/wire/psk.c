#include "wire/psk.h"

#include <string.h>

void tern_psk_from_token(const char *token, uint8_t psk[TERN_PSK_SIZE])
{
    static const char domain[] = "tern psk v1";
    struct tern_sha256 hash;
    tern_sha256_init(&hash);
    tern_sha256_update(&hash, domain, sizeof domain - 1);
    tern_sha256_update(&hash, token, strlen(token));
    tern_sha256_final(&hash, psk);
}
