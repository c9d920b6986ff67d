// Reads the vectors: items are lines "key word word ..."; tests/reference/make_vectors.py says
// which. For tests, single-threaded.
#ifndef TERN_TEST_VECTORS_H
#define TERN_TEST_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define VECTOR_VALUES_MAX 50000
#define VECTOR_LINE_MAX 50000

struct vectors {
    FILE *file;
    char line[VECTOR_LINE_MAX];
    const char *key; // first word of the line
    char *rest;      // what follows it, "" for nothing
    unsigned number; // of the line
};

// Opens a file of the folder TERN_VECTORS; fails the test when there is none.
void vectors_open(struct vectors *v, const char *name);

// Reads the next line that is not blank or a comment; false at the end, which closes the file.
bool vectors_next(struct vectors *v);

// Takes the next word of the line, or fails the test.
char *vectors_word(struct vectors *v);

// Takes the next word as a decimal number.
uint32_t vectors_number(struct vectors *v);

// Reads the rest of the line as ternary symbols, into -1, 0 and 1. Returns how many.
size_t vectors_symbols(struct vectors *v, float values[VECTOR_VALUES_MAX]);

// Reads the rest of the line as bits of float32 values, or as bytes. Returns how many.
size_t vectors_floats(struct vectors *v, float values[VECTOR_VALUES_MAX]);
size_t vectors_bytes(struct vectors *v, uint8_t bytes[VECTOR_LINE_MAX / 2]);

#endif
