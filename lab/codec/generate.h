// Generates values for measurements, the same in every run. Pure except for the heap.
#ifndef TERN_GENERATE_H
#define TERN_GENERATE_H

#include <stdbool.h>
#include <stddef.h>

// Generates normally distributed values with mean 0 and variance 1 (Box and Muller 1958).
void generate_normal(float *values, size_t count);

// Independent -1, 0 and 1: exactly density * count of them, rounded, are not 0.
void generate_ternary(float *values, size_t count, double density);

// -1, 0 and 1 where rows of `width` values differ in scale: normal values times exp(sigma * normal)
// of their row, of which the density * count largest magnitudes keep their sign. False: no memory.
bool generate_rows(float *values, size_t count, size_t width, float sigma, double density);

#endif
