#include "hosted/csv_fold.h"
#include "util/utf8.h"
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LONGEST 4 // bytes of a character

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

// Reads one character; a byte that begins none stands for itself.
static size_t decode(const char *text, uint32_t *character)
{
    const size_t len = tern_utf8_read(text, strnlen(text, LONGEST), character);
    if (len == 0) {
        *character = (uint8_t)text[0];
    }
    return len == 0 ? 1 : len;
}

static size_t encode(uint32_t character, char bytes[LONGEST])
{
    static const uint8_t marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
    const size_t len = character < 0x80      ? 1
                       : character < 0x800   ? 2
                       : character < 0x10000 ? 3
                                             : LONGEST;
    for (size_t i = len; i-- > 1;) {
        bytes[i] = (char)(0x80 | (character & 0x3F));
        character >>= 6;
    }
    bytes[0] = (char)(marks[len == 1 ? 0 : len] | character);
    return len;
}

static bool is_blank(uint32_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

static uint32_t fold_mark(uint32_t c)
{
    if ((c >= 0x2010 && c <= 0x2015) || c == 0x2212 || c == 0xFE58 || c == 0xFE63) {
        return '-';
    }
    if ((c >= 0x2018 && c <= 0x201B) || c == 0x02BC || c == 0x2032 || c == 0xB4) {
        return '\'';
    }
    return is_blank(c) ? ' ' : c;
}

// Ranges of capital letters, each `off` before its small letter. alternate: a small letter follows each capital.
static const struct range {
    uint16_t first;
    uint16_t last;
    uint8_t off;
    uint8_t alternate;
} ranges[] = {
    {'A', 'Z', 32, 0},       {0xC0, 0xD6, 32, 0},     {0xD8, 0xDE, 32, 0},
    {0x0100, 0x012F, 1, 1},  {0x0132, 0x0137, 1, 1},  {0x0139, 0x0148, 1, 1},
    {0x014A, 0x0177, 1, 1},  {0x0179, 0x017E, 1, 1},  {0x0386, 0x0386, 38, 0},
    {0x0388, 0x038A, 37, 0}, {0x038C, 0x038C, 64, 0}, {0x038E, 0x038F, 63, 0},
    {0x0391, 0x03A1, 32, 0}, {0x03A3, 0x03AB, 32, 0}, {0x0400, 0x040F, 80, 0},
    {0x0410, 0x042F, 32, 0}, {0x0460, 0x0481, 1, 1},  {0x048A, 0x04BF, 1, 1},
    {0x04C1, 0x04CE, 1, 1},  {0x04D0, 0x052F, 1, 1},  {0x0531, 0x0556, 48, 0},
    {0x1E00, 0x1E95, 1, 1},  {0x1EA0, 0x1EFF, 1, 1},
};

static uint32_t fold_case(uint32_t c)
{
    static const uint16_t others[][2] = {
        {0x0130, 'i'},  {0x0131, 'i'},    {0x0178, 0xFF},   {0x017F, 's'},
        {0xB5, 0x03BC}, {0x03C2, 0x03C3}, {0x04C0, 0x04CF}, {0x1E9E, 0xDF},
    };
    for (size_t i = 0; i < COUNT(others); i++) {
        if (c == others[i][0]) {
            return others[i][1];
        }
    }
    for (size_t i = 0; i < COUNT(ranges); i++) {
        if (c >= ranges[i].first && c <= ranges[i].last) {
            const bool small = ranges[i].alternate && (c - ranges[i].first) % 2 != 0;
            return small ? c : c + ranges[i].off;
        }
    }
    return c;
}

// Full width forms become ASCII.
static uint32_t fold(uint32_t c)
{
    const uint32_t narrow = c >= 0xFF01 && c <= 0xFF5E ? c - 0xFEE0 : c;
    return fold_case(fold_mark(narrow));
}

// Returns the one character that is the small letter with the mark behind it, as programs of macOS write them; 0: there
// is none.
static uint32_t compose(uint32_t letter, uint32_t mark)
{
    static const struct {
        uint16_t mark;
        const char *letters;
        uint16_t composed[7];
    } marks[] = {
        {0x0300, "aeiou", {0xE0, 0xE8, 0xEC, 0xF2, 0xF9}},
        {0x0301, "aeiouyc", {0xE1, 0xE9, 0xED, 0xF3, 0xFA, 0xFD, 0x0107}},
        {0x0301, "nszl", {0x0144, 0x015B, 0x017A, 0x013A}},
        {0x0302, "aeiou", {0xE2, 0xEA, 0xEE, 0xF4, 0xFB}},
        {0x0303, "ano", {0xE3, 0xF1, 0xF5}},
        {0x0308, "aeiouy", {0xE4, 0xEB, 0xEF, 0xF6, 0xFC, 0xFF}},
        {0x030A, "au", {0xE5, 0x016F}},
        {0x030B, "ou", {0x0151, 0x0171}},
        {0x030C, "cszernd", {0x010D, 0x0161, 0x017E, 0x011B, 0x0159, 0x0148, 0x010F}},
        {0x0327, "cs", {0xE7, 0x015F}},
        {0x0328, "ae", {0x0105, 0x0119}},
    };
    for (size_t i = 0; letter < 0x80 && i < COUNT(marks); i++) {
        const char *found = marks[i].mark == mark ? strchr(marks[i].letters, (char)letter) : NULL;
        if (found != NULL && *found != '\0') {
            return marks[i].composed[found - marks[i].letters];
        }
    }
    return 0;
}

struct output {
    char *text;
    size_t size;
    size_t used; // bytes written
    size_t need;
    size_t blanks; // seen since the last character
};

static void put_bytes(struct output *output, const char *bytes, size_t len)
{
    if (output->need == output->used && output->used + len < output->size) {
        memcpy(output->text + output->used, bytes, len);
        output->used += len;
    }
    output->need += len;
}

static void put(struct output *output, uint32_t c)
{
    char bytes[LONGEST];
    for (; output->need > 0 && output->blanks > 0; output->blanks--) {
        put_bytes(output, " ", 1);
    }
    output->blanks = 0;
    if (c == 0xDF) {
        put_bytes(output, "ss", 2);
    } else {
        put_bytes(output, bytes, encode(c, bytes));
    }
}

size_t tern_csv_fold(const char *text, char *folded, size_t size)
{
    struct output output = {.text = folded, .size = size};
    while (*text != '\0') {
        uint32_t c;
        text += decode(text, &c);
        if (tern_utf8_is_hidden(c)) {
            continue;
        }
        c = fold(c);
        uint32_t mark;
        const size_t len = decode(text, &mark);
        const uint32_t composed = compose(c, mark);
        if (composed != 0) {
            c = composed;
            text += len;
        }
        if (c == ' ') {
            output.blanks++;
        } else {
            put(&output, c);
        }
    }
    folded[output.used] = '\0';
    return output.need;
}

size_t tern_csv_blank_len(const char *text)
{
    uint32_t c;
    const size_t len = decode(text, &c);
    return is_blank(c) || tern_utf8_is_hidden(c) ? len : 0;
}

size_t tern_csv_trimmed_len(const char *text, size_t len)
{
    while (len > 0) {
        size_t start = len - 1;
        while (start > 0 && len - start < LONGEST && ((uint8_t)text[start] & 0xC0) == 0x80) {
            start--;
        }
        char last[LONGEST + 1] = "";
        memcpy(last, text + start, len - start);
        if (tern_csv_blank_len(last) != len - start) {
            break;
        }
        len = start;
    }
    return len;
}
