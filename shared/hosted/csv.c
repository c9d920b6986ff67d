#include "hosted/csv.h"

#include "util/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TERN_CSV_MAX_RECORD (1u << 24) // bytes

// --- Folding

// Folding makes texts that look the same equal: one case, one kind of blank, one kind of dash. Labels are compared, and
// fields pasted from other programs are read in this form.

#define LONGEST 4 // bytes of a UTF-8 character

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

// Reads one character; a malformed byte counts as a character with its value. Returns its length.
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

// Ranges of capital letters; adding `off` gives the small letter. alternate: capital and small letters alternate.
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

static uint32_t fold(uint32_t c)
{
    const uint32_t narrow = c >= 0xFF01 && c <= 0xFF5E ? c - 0xFEE0 : c; // full width to ASCII
    return fold_case(fold_mark(narrow));
}

// Returns the single character for a small letter and a combining mark, which macOS writes as two; 0: there is none.
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
    size_t blanks; // since the last other character
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

// Returns the bytes of the blank or invisible character at the start of text; 0: it starts with another one.
static size_t blank_len(const char *text)
{
    uint32_t c;
    const size_t len = decode(text, &c);
    return is_blank(c) || tern_utf8_is_hidden(c) ? len : 0;
}

// Returns len without the blanks and invisible characters at the end of text[0..len).
static size_t trimmed_len(const char *text, size_t len)
{
    while (len > 0) {
        size_t start = len - 1;
        while (start > 0 && len - start < LONGEST && ((uint8_t)text[start] & 0xC0) == 0x80) {
            start--;
        }
        char last[LONGEST + 1] = "";
        memcpy(last, text + start, len - start);
        if (blank_len(last) != len - start) {
            break;
        }
        len = start;
    }
    return len;
}

// --- Files of other formats

#define NAME_AT 30 // offset of the first member's name in a ZIP archive
#define TAR_AT 257 // offset of the word "ustar" in a tar archive

#define ARRAYS(source)                                                                             \
    "not CSV text: a client reads it by data.source = " source                                     \
    ". `init --data` and csv: read CSV only; give the model with --model"
#define SAVE_AS_CSV "not CSV text: save the table as CSV, and give the new file"
#define UNPACK "not CSV text: unpack it, and give the CSV file (only gzip is read compressed)"

struct format {
    const char *magic;
    size_t len;
    bool text; // false: the file has control characters, which no CSV file has
    const char *what;
};

#define BINARY(magic, what)                                                                        \
    {                                                                                              \
        magic, sizeof(magic) - 1, false, what                                                      \
    }
#define TEXT(magic, what)                                                                          \
    {                                                                                              \
        magic, sizeof(magic) - 1, true, what                                                       \
    }

static const struct format formats[] = {
    BINARY("\x93NUMPY", "holds a NumPy array, " ARRAYS("npy:FOLDER")),
    BINARY("PAR1", "holds a Parquet table, " SAVE_AS_CSV),
    BINARY("ARROW1", "holds an Arrow table, " SAVE_AS_CSV),
    BINARY("\x89HDF\r\n", "is an HDF5 file, " SAVE_AS_CSV),
    BINARY("\xD0\xCF\x11\xE0", "is an Excel workbook, " SAVE_AS_CSV),
    BINARY("SQLite format 3", "is an SQLite database, not CSV text: write a table by "
                              "`sqlite3 -header -csv FILE 'SELECT ...' > NEW.csv`"),
    BINARY("MATLAB ", "is a MATLAB file, " SAVE_AS_CSV),
    BINARY("BZh", "is compressed by bzip2, " UNPACK),
    BINARY("\xFD"
           "7zXZ",
           "is compressed by xz, " UNPACK),
    BINARY("\x28\xB5\x2F\xFD", "is compressed by zstd, " UNPACK),
    BINARY("7z\xBC\xAF", "is a 7z archive, " UNPACK),
    BINARY("\x89PNG", "is a PNG image, not CSV text: images are read as IDX or NumPy arrays "
                      "(data.source = idx: or npz:)"),
    BINARY("\xFF\xD8\xFF", "is a JPEG image, not CSV text: images are read as IDX or NumPy arrays "
                           "(data.source = idx: or npz:)"),
    BINARY("%PDF", "is a PDF document, " SAVE_AS_CSV),
    BINARY("\x7F"
           "ELF",
           "is a program, not CSV text"),
    TEXT("{\"", "is JSON, " SAVE_AS_CSV),
    TEXT("[{", "is JSON, " SAVE_AS_CSV),
    TEXT("<?xml", "is XML, " SAVE_AS_CSV),
    TEXT("<html", "is a web page, not CSV text: check the address that it was fetched from"),
    TEXT("<!doctype html",
         "is a web page, not CSV text: check the address that it was fetched from"),
    TEXT("@relation", "is an ARFF file, not CSV text: replace the lines down to @data by one "
                      "line with the columns' names"),
};

// Whether there is a control character below the tab, which no text has.
static bool is_binary(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] < '\t') {
            return true;
        }
    }
    return false;
}

static bool contains(const uint8_t *bytes, size_t len, const char *word)
{
    const size_t size = strlen(word);
    for (size_t i = 0; i + size <= len; i++) {
        if (memcmp(bytes + i, word, size) == 0) {
            return true;
        }
    }
    return false;
}

// Recognises a ZIP archive by the name of its first member.
static const char *name_zip(const uint8_t *bytes, size_t len)
{
    const uint8_t *name = len > NAME_AT ? bytes + NAME_AT : bytes;
    size_t size = len > NAME_AT ? (size_t)bytes[26] + 256u * bytes[27] : 0;
    size = size < len - (size_t)(name - bytes) ? size : len - (size_t)(name - bytes);
    if (size > 4 && memcmp(name + size - 4, ".npy", 4) == 0) {
        return "holds NumPy arrays, " ARRAYS("npz:FILE");
    }
    return contains(name, size, "[Content_Types].xml") || contains(name, size, "mimetype") ||
                   contains(name, size, "xl/")
               ? "is a spreadsheet, " SAVE_AS_CSV
               : "is a ZIP archive, " UNPACK;
}

// IDX: two zero bytes, a type and the number of dimensions. Pickle: its version follows.
static const char *name_by_numbers(const uint8_t *bytes, size_t len)
{
    if (len >= 4 && bytes[0] == 0 && bytes[1] == 0 && bytes[2] >= 8 && bytes[2] <= 14 &&
        bytes[3] >= 1 && bytes[3] <= 4) {
        return "is an IDX file, " ARRAYS("idx:FOLDER");
    }
    return len >= 3 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5
               ? "is a Python pickle, " SAVE_AS_CSV
               : NULL;
}

const char *tern_other_format(const uint8_t *bytes, size_t len)
{
    const bool binary = is_binary(bytes, len);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const struct format *format = &formats[i];
        const char *text = (const char *)bytes;
        if (len >= format->len &&
            (format->text ? strncasecmp(text, format->magic, format->len) == 0
                          : binary && memcmp(text, format->magic, format->len) == 0)) {
            return format->what;
        }
    }
    if (len >= 4 && memcmp(bytes, "PK\3\4", 4) == 0) {
        return name_zip(bytes, len);
    }
    if (len >= TAR_AT + 5 && memcmp(bytes + TAR_AT, "ustar", 5) == 0) {
        return "is a tar archive, " UNPACK;
    }
    return name_by_numbers(bytes, len);
}

// --- Rows

#define SEPARATED_BY(what)                                                                         \
    what " seem to separate the fields: write commas, and decimals with points"
#define END (-1) // stands for the next byte at the end of the input
#define ZERO_BYTE                                                                                  \
    "a zero byte, which no CSV text has: save the table as CSV (UTF-16 text: iconv -f utf-16le "   \
    "-t utf-8, or utf-16be where the first byte is zero)"

void tern_csv_begin(struct tern_csv *csv, struct tern_input *input, uint32_t max_fields)
{
    memset(csv, 0, sizeof *csv);
    csv->input = input;
    csv->max_fields = max_fields;
    csv->next_line = 1;
}

void tern_csv_end(struct tern_csv *csv)
{
    free(csv->text);
    free(csv->starts);
    csv->text = NULL;
    csv->starts = NULL;
}

const char *tern_csv_field(const struct tern_csv *csv, uint32_t index)
{
    return csv->text + csv->starts[index];
}

static enum tern_result refill(struct tern_csv *csv)
{
    csv->at = 0;
    return tern_input_read(csv->input, csv->buffer, sizeof csv->buffer, &csv->have);
}

// Reads the next byte, or END, and does not advance.
static enum tern_result peek(struct tern_csv *csv, int *byte)
{
    if (csv->at == csv->have) {
        TERN_TRY(refill(csv));
    }
    *byte = csv->at < csv->have ? csv->buffer[csv->at] : END;
    return TERN_OK;
}

// Skips a byte order mark, and refuses other encodings and formats.
static enum tern_result check_beginning(struct tern_csv *csv)
{
    int byte;
    TERN_TRY(peek(csv, &byte));
    if (csv->have >= 3 && memcmp(csv->buffer, "\xEF\xBB\xBF", 3) == 0) {
        csv->at = 3;
    }
    if (csv->have >= 4 && (memcmp(csv->buffer, "\xFF\xFE\0", 4) == 0 ||
                           memcmp(csv->buffer, "\0\0\xFE\xFF", 4) == 0)) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                 "is UTF-32 text; convert it: iconv -f utf-32 -t utf-8 FILE > NEW");
    }
    if (csv->have >= 2 &&
        (memcmp(csv->buffer, "\xFF\xFE", 2) == 0 || memcmp(csv->buffer, "\xFE\xFF", 2) == 0)) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                 "is UTF-16 text; convert it: iconv -f utf-16 -t utf-8 FILE > NEW");
    }
    const char *other = tern_other_format(csv->buffer, csv->have);
    if (other != NULL) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT, "%s", other);
    }
    return TERN_OK;
}

// Grows the text for one more byte.
static enum tern_result make_room(struct tern_csv *csv)
{
    if (csv->text_len == csv->text_room) {
        size_t room = csv->text_room == 0 ? 1024 : csv->text_room * 2;
        if (room > TERN_CSV_MAX_RECORD) {
            return tern_input_refuse(csv->input, TERN_ERR_TOO_LARGE,
                                     "the record of line %llu has more than %u bytes",
                                     (unsigned long long)csv->line, TERN_CSV_MAX_RECORD);
        }
        char *text = realloc(csv->text, room);
        if (text == NULL) {
            return tern_input_refuse(csv->input, TERN_ERR_NO_MEMORY, "no memory for a record");
        }
        csv->text = text;
        csv->text_room = room;
    }
    return TERN_OK;
}

static enum tern_result add_byte(struct tern_csv *csv, int byte)
{
    TERN_TRY(make_room(csv));
    csv->text[csv->text_len++] = (char)byte;
    return TERN_OK;
}

static enum tern_result start_field(struct tern_csv *csv)
{
    if (csv->field_count == csv->max_fields) {
        return tern_input_refuse(csv->input, TERN_ERR_TOO_LARGE,
                                 "line %llu has more than %u fields, the limit",
                                 (unsigned long long)csv->line, csv->max_fields);
    }
    if (csv->field_count == csv->starts_room) {
        uint32_t room = csv->starts_room == 0 ? 64 : csv->starts_room * 2;
        uint32_t *starts = realloc(csv->starts, room * sizeof *starts);
        if (starts == NULL) {
            return tern_input_refuse(csv->input, TERN_ERR_NO_MEMORY, "no memory for a record");
        }
        csv->starts = starts;
        csv->starts_room = room;
    }
    TERN_TRY(make_room(csv)); // so that an empty field has an address
    csv->starts[csv->field_count++] = (uint32_t)csv->text_len;
    return TERN_OK;
}

static enum tern_result refuse_byte(const struct tern_csv *csv, const char *what)
{
    return tern_input_refuse(csv->input, TERN_ERR_CORRUPT, "line %llu, field %u: %s",
                             (unsigned long long)csv->next_line, csv->field_count, what);
}

// Reads up to the closing quote; the opening one was read. Two quotes in the field mean one.
static enum tern_result read_quoted(struct tern_csv *csv)
{
    for (;;) {
        int byte;
        TERN_TRY(peek(csv, &byte));
        if (byte == END) {
            return refuse_byte(csv, "the file ends inside quotes");
        }
        csv->at++;
        if (byte == '"') {
            TERN_TRY(peek(csv, &byte));
            if (byte != '"') {
                return TERN_OK;
            }
            csv->at++;
        }
        if (byte == '\0') {
            return refuse_byte(csv, ZERO_BYTE);
        }
        csv->next_line += byte == (csv->line_end == TERN_CSV_CR ? '\r' : '\n');
        TERN_TRY(add_byte(csv, byte));
    }
}

static bool is_blank_byte(int byte)
{
    return byte == ' ' || byte == '\t';
}

static enum tern_result skip_blanks(struct tern_csv *csv)
{
    for (;;) {
        int byte;
        TERN_TRY(peek(csv, &byte));
        if (!is_blank_byte(byte)) {
            return TERN_OK;
        }
        csv->at++;
    }
}

// Removes Unicode blanks and invisible characters from both ends of the last field.
static void trim_field(struct tern_csv *csv)
{
    char *text = csv->text + csv->starts[csv->field_count - 1];
    size_t len = trimmed_len(text, csv->text_len - csv->starts[csv->field_count - 1]);
    size_t blanks = 0;
    size_t blank = 1;
    while (blanks < len && blank > 0) {
        char first[5] = "";
        memcpy(first, text + blanks, len - blanks < 4 ? len - blanks : 4);
        blank = blank_len(first);
        blanks += blank;
    }
    memmove(text, text + blanks, len - blanks);
    csv->text_len = csv->starts[csv->field_count - 1] + len - blanks;
}

// Finds the last byte of a text between two commas that seems to separate fields. Returns the message about it, or NULL.
static const char *find_separator(const char *text, size_t len)
{
    for (size_t i = len; i > 0; i--) {
        switch (text[i - 1]) {
        case ';':
            return SEPARATED_BY("semicolons");
        case '\t':
            return SEPARATED_BY("tabs");
        case '|':
            return SEPARATED_BY("bars");
        default:
            break;
        }
    }
    return NULL;
}

static enum tern_result read_plain(struct tern_csv *csv)
{
    for (;;) {
        int byte;
        TERN_TRY(peek(csv, &byte));
        if (byte == END || byte == ',' || byte == '\n' || byte == '\r') {
            break;
        }
        if (byte == '"' || byte == '\0') {
            const size_t first = csv->starts[csv->field_count - 1];
            const char *other = find_separator(csv->text + first, csv->text_len - first);
            return refuse_byte(csv, byte == '\0'    ? ZERO_BYTE
                                    : other != NULL ? other
                                                    : "a quote inside a field without quotes");
        }
        csv->at++;
        TERN_TRY(add_byte(csv, byte));
    }
    trim_field(csv);
    return TERN_OK;
}

// Refuses malformed UTF-8 in the last field.
static enum tern_result check_text(const struct tern_csv *csv)
{
    const char *text = csv->text + csv->starts[csv->field_count - 1];
    const size_t len = csv->text_len - csv->starts[csv->field_count - 1];
    const size_t bad = tern_utf8_malformed(text, len);
    return bad == len
               ? TERN_OK
               : tern_input_refuse(
                     csv->input, TERN_ERR_CORRUPT,
                     "line %llu, field %u, byte %zu: 0x%02X is not UTF-8 text; convert the file: "
                     "iconv -f cp1252 -t utf-8 FILE > NEW",
                     (unsigned long long)csv->line, csv->field_count, bad + 1, (uint8_t)text[bad]);
}

// Reads a line end, which starts at the next byte.
static enum tern_result read_line_end(struct tern_csv *csv)
{
    uint32_t returns = 0;
    int byte;
    TERN_TRY(peek(csv, &byte));
    for (; byte == '\r'; returns++) {
        csv->at++;
        TERN_TRY(peek(csv, &byte));
    }
    if (byte == '\n') {
        csv->at++;
    }
    const enum tern_csv_line_end kind = byte == '\n' ? TERN_CSV_LF : TERN_CSV_CR;
    if (csv->line_end == TERN_CSV_LINE_END_UNKNOWN) {
        csv->line_end = kind;
    }
    // CR alone at the end of the file may be a cut CRLF.
    if (csv->line_end != kind && byte != END) {
        return refuse_byte(csv, csv->line_end == TERN_CSV_LF
                                    ? "a carriage return without a line feed follows it; remove it "
                                      "(tr -d '\\r')"
                                    : "earlier lines end with CR alone, this one with LF; write "
                                      "one kind (tr '\\r' '\\n')");
    }
    csv->next_line += kind == TERN_CSV_LF ? 1 : returns;
    return TERN_OK;
}

// Reads the comma or line end behind a field; *last: it was the record's last.
static enum tern_result read_separator(struct tern_csv *csv, bool *last)
{
    int byte;
    TERN_TRY(peek(csv, &byte));
    *last = byte != ',';
    if (byte == END) {
        return TERN_OK;
    }
    if (byte == '\n' || byte == '\r') {
        return read_line_end(csv);
    }
    // The byte before it may be a tab, which was skipped as a blank.
    const size_t from = csv->at > 0 ? csv->at - 1 : 0;
    const char *other = find_separator((const char *)csv->buffer + from, csv->at + 1 - from);
    csv->at++;
    return byte == ',' ? TERN_OK
                       : refuse_byte(csv, other != NULL ? other
                                                        : "neither a comma nor a line end follows "
                                                          "the closing quote");
}

static enum tern_result read_field(struct tern_csv *csv)
{
    int byte;
    TERN_TRY(start_field(csv));
    TERN_TRY(skip_blanks(csv));
    TERN_TRY(peek(csv, &byte));
    if (byte == '"') {
        csv->at++;
        TERN_TRY(read_quoted(csv));
        TERN_TRY(skip_blanks(csv));
    } else {
        TERN_TRY(read_plain(csv));
    }
    TERN_TRY(check_text(csv));
    return add_byte(csv, '\0');
}

static enum tern_result read_record(struct tern_csv *csv)
{
    csv->line = csv->next_line;
    csv->field_count = 0;
    csv->text_len = 0;
    for (bool last = false; !last;) {
        TERN_TRY(read_field(csv));
        TERN_TRY(read_separator(csv, &last));
    }
    return TERN_OK;
}

enum tern_result tern_csv_next(struct tern_csv *csv, bool *more)
{
    if (csv->next_line == 1 && csv->input->offset == 0) {
        TERN_TRY(check_beginning(csv));
    }
    for (csv->empty_lines = 0;; csv->empty_lines++) {
        int byte;
        TERN_TRY(peek(csv, &byte));
        *more = byte != END;
        if (!*more) {
            return TERN_OK;
        }
        TERN_TRY(read_record(csv));
        if (csv->field_count > 1 || csv->text_len > 1) {
            return TERN_OK;
        }
    }
}
