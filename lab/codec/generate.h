// Generates values for measurements, the same in every run. Pure except for the heap.
#ifndef TERN_GENERATE_H
#define TERN_GENERATE_H

#include <stdbool.h>
#include <stddef.h>

// Generates normally distributed values with mean 0 and variance 1 (Box and Muller 1958).
void generate_normal(float *values, size_t count);

// Generates independent values -1, 0 and 1, of which density * count, rounded, are not 0.
void generate_ternary(float *values, size_t count, double density);

// Generates values -1, 0 and 1 in rows of `width` values with different scales: normal values times exp(sigma *
// normal) of their row, of which the density * count largest magnitudes keep their sign. False: out of memory.
bool generate_rows(float *values, size_t count, size_t width, float sigma, double density);

#endif
