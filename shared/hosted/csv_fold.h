// Texts as people see them: without case, with one kind of blank and of dash. For comparing labels, and for reading
// fields that were typed or pasted from other programs. Hosted; reentrant.
#ifndef TERN_CSV_FOLD_H
#define TERN_CSV_FOLD_H

#include <stddef.h>

// Writes text in lower case (Latin, Greek, Cyrillic, Armenian, full width; "ss" for the sharp s), with ' ' for every
// blank, '-' for every dash and minus, ' for every apostrophe, without what people cannot see, and without blanks at
// both ends. Returns the bytes that all of it needs; what size - 1 bytes do not hold is cut between characters.
size_t tern_csv_fold(const char *text, char *folded, size_t size);

// Bytes of the blank or invisible character at the beginning of text, 0: there is none.
size_t tern_csv_blank_len(const char *text);

// Returns len without the blanks and invisible characters at the end of text[0..len).
size_t tern_csv_trimmed_len(const char *text, size_t len);

#endif
