#include "hosted/other_format.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define NAME_AT 30 // of the first member's name in a ZIP archive
#define TAR_AT 257 // of the word "ustar" in a tar archive

#define ARRAYS(source)                                                                             \
    "not CSV text: a client reads it by data.source = " source                                     \
    ". `init --data` and csv: read CSV only; name the model with --model"
#define SAVE_AS_CSV "not CSV text: save the table as CSV, and name that file"
#define UNPACK "not CSV text: unpack it, and name the CSV file (of compressed files gzip is read)"

struct format {
    const char *magic;
    size_t len;
    bool text; // else the file has control characters, which the header of a CSV file has not
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
    TEXT("<html", "is a web page, not CSV text: look at the address that it was fetched from"),
    TEXT("<!doctype html",
         "is a web page, not CSV text: look at the address that it was fetched from"),
    TEXT("@relation", "is an ARFF file, not CSV text: replace the lines down to @data by one "
                      "line with the columns' names"),
};

// Whether there is a control character that no text has.
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

// By the name of its first member.
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
