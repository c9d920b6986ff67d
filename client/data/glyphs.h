// The strokes of the ten digits in a box of 100 x 100, y downwards: what digits.c draws.
#ifndef TERN_GLYPHS_H
#define TERN_GLYPHS_H

#include <stdint.h>

#define TERN_GLYPH_MAX_SEGMENTS 20

struct tern_glyph {
    uint8_t segment_count;
    uint8_t segments[TERN_GLYPH_MAX_SEGMENTS][4]; // x0, y0, x1, y1
};

// The variant-th way to write a digit; variants repeat.
void tern_glyph_get(unsigned digit, unsigned variant, struct tern_glyph *glyph);

#endif
