#include "federation/federation.h"

#include "hosted/system.h"
#include "util/bytes.h"
#include <string.h>

#define SECRET_BYTES 10
#define CHARACTERS 16

// Writes the character at position `place` of the code: groups of four, separated by hyphens.
static void put_character(char text[TERN_JOIN_CODE_TEXT], unsigned place, char character)
{
    char *at = text + place + place / 4;
    if (place > 0 && place % 4 == 0) {
        at[-1] = '-';
    }
    at[0] = character;
    at[1] = '\0';
}

// Writes the secret in Crockford's base32.
static void encode_base32(const uint8_t secret[SECRET_BYTES], char text[TERN_JOIN_CODE_TEXT])
{
    static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
    for (unsigned i = 0; i < CHARACTERS; i++) {
        unsigned bit = i * 5;
        unsigned next = bit / 8 + 1 < SECRET_BYTES ? secret[bit / 8 + 1] : 0;
        unsigned pair = (unsigned)secret[bit / 8] << 8 | next;
        put_character(text, i, alphabet[pair >> (11 - bit % 8) & 31]);
    }
}

// Returns the character of the code's alphabet for a typed character: lower case, 0 for O, and 1 for I and L.
static char canonical_character(char typed)
{
    const char lower = typed >= 'A' && typed <= 'Z' ? (char)(typed + ('a' - 'A')) : typed;
    return lower == 'o' ? '0' : lower == 'i' || lower == 'l' ? '1' : lower;
}

enum tern_result tern_join_code_make(struct tern_db_code *code, char text[TERN_JOIN_CODE_TEXT])
{
    uint8_t secret[SECRET_BYTES];
    TERN_TRY(tern_random_fill(secret, sizeof secret));
    encode_base32(secret, text);
    tern_sha256(text, strlen(text), code->hash);
    return TERN_OK;
}

void tern_join_code_hash(const char *text, uint8_t hash[TERN_SHA256_SIZE])
{
    char spelt[TERN_JOIN_CODE_TEXT] = "";
    unsigned count = 0;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at != '-' && *at != ' ') {
            if (count < CHARACTERS) {
                put_character(spelt, count, canonical_character(*at));
            }
            count++;
        }
    }
    const char *code =
        count == CHARACTERS ? spelt : text; // a text of another length matches no code
    tern_sha256(code, strlen(code), hash);
}

void tern_join_code_id(const uint8_t hash[TERN_SHA256_SIZE], char id[TERN_JOIN_CODE_ID])
{
    tern_hex_encode(hash, (TERN_JOIN_CODE_ID - 1) / 2, id);
}
