// A generated data set: the digits 0 to 9 drawn as strokes, bent, tilted, of varying thickness and
// contrast, among stray strokes and noise. Made from a seed with the same bits everywhere, so that
// a demonstration or a test needs no download. Built to be harder for a linear model (below 0.93)
// than for a small CNN (above 0.96). Pure; reentrant.
#ifndef TERN_DIGITS_H
#define TERN_DIGITS_H

#include <stdbool.h>
#include <stdint.h>

// Draws example `index` of the training or the test part into image[size * size] (0 = background) and returns its label.
// It depends on its arguments alone. size: 16 to 64.
uint16_t tern_digits_draw(uint64_t seed, bool test, uint32_t index, uint32_t size, uint8_t *image);

#endif
