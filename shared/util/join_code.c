#include "util/join_code.h"

#include <string.h>

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

void tern_join_code_write(const uint8_t secret[TERN_JOIN_CODE_BYTES],
                          char text[TERN_JOIN_CODE_TEXT])
{
    static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
    for (unsigned i = 0; i < CHARACTERS; i++) {
        unsigned bit = i * 5;
        unsigned next = bit / 8 + 1 < TERN_JOIN_CODE_BYTES ? secret[bit / 8 + 1] : 0;
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
