// Generates images of the digits 0 to 9: bent and tilted strokes of varying thickness and contrast, with stray strokes and
// noise, so that a demonstration or test needs no download. A linear model reaches less than 0.93 accuracy, a small CNN more
// than 0.96. The same seed gives the same bits on every machine. Pure; reentrant.
#ifndef TERN_DIGITS_H
#define TERN_DIGITS_H

#include <stdbool.h>
#include <stdint.h>

// Draws example `index` of the training or test part into image[size * size] (0 = background), and returns its label. The
// result depends on the arguments alone. size: 16 to 64.
uint16_t tern_digits_draw(uint64_t seed, bool test, uint32_t index, uint32_t size, uint8_t *image);

#endif
