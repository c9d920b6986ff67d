#include "util/utf8.h"
#include <stdint.h>

// Length of the sequence that `lead` starts and the smallest code point it may hold; 0 for a byte
// that starts none.
static size_t sequence_length(uint8_t lead, uint32_t *smallest)
{
    if (lead < 0x80) {
        *smallest = 0;
        return 1;
    }
    if (lead >= 0xC2 && lead <= 0xDF) {
        *smallest = 0x80;
        return 2;
    }
    if (lead >= 0xE0 && lead <= 0xEF) {
        *smallest = 0x800;
        return 3;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        *smallest = 0x10000;
        return 4;
    }
    return 0;
}

static bool is_printable(uint32_t code)
{
    return code >= 0x20 && !(code >= 0x7F && code <= 0x9F) && !(code >= 0xD800 && code <= 0xDFFF) &&
           code <= 0x10FFFF;
}

// Reads one code point of text[0..len); returns its length, 0 when it is malformed.
static size_t read_code(const char *text, size_t len, uint32_t *code)
{
    uint32_t smallest;
    uint8_t lead = (uint8_t)text[0];
    size_t count = sequence_length(lead, &smallest);
    if (count == 0 || count > len) {
        return 0;
    }
    *code = count == 1 ? lead : lead & (0x7Fu >> count);
    for (size_t i = 1; i < count; i++) {
        uint8_t next = (uint8_t)text[i];
        if ((next & 0xC0u) != 0x80u) {
            return 0;
        }
        *code = *code << 6 | (next & 0x3Fu);
    }
    return *code < smallest ? 0 : count;
}

bool tern_utf8_is_text(const char *text, size_t len)
{
    while (len > 0) {
        uint32_t code;
        size_t count = read_code(text, len, &code);
        if (count == 0 || !is_printable(code)) {
            return false;
        }
        text += count;
        len -= count;
    }
    return true;
}
