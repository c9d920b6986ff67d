// Paragraphs of plain text. Hosted: uses stdio; reentrant.
#ifndef TERN_PARAGRAPH_H
#define TERN_PARAGRAPH_H

#include <stdio.h>

#define TERN_PARAGRAPH_COLUMNS 80 // of a terminal

// Writes a text, broken between words, in lines of at most `columns` bytes where its words are that
// short: the first one begins with `first`, all others with `rest`. One newline at the end.
void tern_paragraph_print(const char *text, const char *first, const char *rest, size_t columns,
                          FILE *out);

#endif
