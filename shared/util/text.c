#include "util/text.h"

#include <stdint.h>
#include <string.h>

// Returns the length of the UTF-8 sequence that `lead` starts, and sets the smallest code point
// allowed in it; 0: `lead` starts none.
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

size_t tern_utf8_read(const char *text, size_t len, uint32_t *code)
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

bool tern_utf8_is_hidden(uint32_t code)
{
    static const struct {
        uint32_t first;
        uint32_t last;
    } hidden[] = {
        {0x00AD, 0x00AD},   {0x034F, 0x034F}, {0x061C, 0x061C},   {0x115F, 0x1160},
        {0x17B4, 0x17B5},   {0x180B, 0x180F}, {0x200B, 0x200F},   {0x2028, 0x202E},
        {0x2060, 0x206F},   {0x3164, 0x3164}, {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},
        {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
        {0xE0000, 0xE0FFF},
    };
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        if (code >= hidden[i].first && code <= hidden[i].last) {
            return true;
        }
    }
    return false;
}

void tern_utf8_show(char *text, size_t len)
{
    while (len > 0) {
        uint32_t code;
        const size_t read = tern_utf8_read(text, len, &code);
        const size_t count = read == 0 ? 1 : read;
        for (size_t i = 0;
             i < count && (read == 0 || !is_printable(code) || tern_utf8_is_hidden(code)); i++) {
            text[i] = '?';
        }
        text += count;
        len -= count;
    }
}

size_t tern_utf8_malformed(const char *text, size_t len)
{
    size_t at = 0;
    while (at < len) {
        uint32_t code;
        const size_t count = tern_utf8_read(text + at, len - at, &code);
        if (count == 0 || (code >= 0xD800 && code <= 0xDFFF) || code > 0x10FFFF) {
            return at;
        }
        at += count;
    }
    return len;
}

bool tern_utf8_is_text(const char *text, size_t len)
{
    while (len > 0) {
        uint32_t code;
        size_t count = tern_utf8_read(text, len, &code);
        if (count == 0 || !is_printable(code)) {
            return false;
        }
        text += count;
        len -= count;
    }
    return true;
}

// --- Near names

#define NAME_MAX_BYTES 64

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t tern_edit_distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_BYTES];
    size_t width = strlen(b);
    if (width >= NAME_MAX_BYTES) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= width; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < width; j++) {
            size_t replaced = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = smaller(replaced, smaller(row[j], row[j + 1]) + 1);
        }
    }
    return row[width];
}

size_t tern_near_limit(const char *written)
{
    const size_t len = strlen(written);
    return (len < 4 ? 1 : len < 12 ? 2 : len / 4) + 1;
}

void tern_near_offer(struct tern_near_name *search, const char *name)
{
    const size_t distance = tern_edit_distance(search->written, name);
    if (distance < search->limit) {
        search->limit = distance;
        search->best = name;
    }
}
