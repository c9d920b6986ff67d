#include "admin/join_code.h"

#include "hosted/random.h"
#include <string.h>

#define SECRET_BYTES 10
#define CHARACTERS 16

// Base32 in Crockford's alphabet, in groups of four.
static void spell(const uint8_t secret[SECRET_BYTES], char text[TERN_JOIN_CODE_TEXT])
{
    static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
    char *at = text;
    for (unsigned i = 0; i < CHARACTERS; i++) {
        unsigned bit = i * 5;
        unsigned next = bit / 8 + 1 < SECRET_BYTES ? secret[bit / 8 + 1] : 0;
        unsigned pair = (unsigned)secret[bit / 8] << 8 | next;
        if (i > 0 && i % 4 == 0) {
            *at++ = '-';
        }
        *at++ = alphabet[pair >> (11 - bit % 8) & 31];
    }
    *at = '\0';
}

enum tern_result tern_join_code_make(struct tern_db_code *code, char text[TERN_JOIN_CODE_TEXT])
{
    uint8_t secret[SECRET_BYTES];
    TERN_TRY(tern_random_fill(secret, sizeof secret));
    spell(secret, text);
    tern_sha256(text, strlen(text), code->hash);
    return TERN_OK;
}
