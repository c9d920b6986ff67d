#include "data/digits.h"
#include "data/glyphs.h"
#include "data/random.h"
#include "util/math.h"

// An image is drawn backwards: each pixel is taken through the warp to a point of the glyph's box,
// and its ink depends on how near that is to a stroke. Only +, -, *, / and comparisons, so that
// every machine draws the same bits; and one draw of a random number per statement, because C
// leaves the order within an expression to the compiler.

#define GRID 4 // the elastic warp's control points per side
#define STRAYS 2

struct segment {
    float x, y;   // start
    float dx, dy; // to the end
    float length; // squared
    float ink;    // 0 to 1
    float thin;   // squared distance up to which the ink is full
    float wide;   // squared distance from which there is none
};

struct drawing {
    struct segment segments[TERN_GLYPH_MAX_SEGMENTS + STRAYS];
    unsigned glyph_count; // those of the glyph, in its box
    unsigned count;       // the rest are strays, in the image
    float xx, xy, yx, yy; // image to glyph
    float shift_x, shift_y;
    float bend_x[GRID][GRID];
    float bend_y[GRID][GRID];
};

static struct segment make_segment(float x0, float y0, float x1, float y1, float radius, float ink)
{
    float dx = x1 - x0;
    float dy = y1 - y0;
    float inner = radius * 0.6f;
    float outer = radius * 1.5f;
    return (struct segment){.x = x0,
                            .y = y0,
                            .dx = dx,
                            .dy = dy,
                            .length = dx * dx + dy * dy + 1e-6f,
                            .ink = ink,
                            .thin = inner * inner,
                            .wide = outer * outer};
}

static void make_strokes(struct drawing *drawing, struct tern_prng *rng, unsigned digit)
{
    struct tern_glyph glyph;
    tern_glyph_get(digit, tern_prng_u32(rng), &glyph);
    float radius = tern_random_between(rng, 0.035f, 0.085f);
    for (unsigned i = 0; i < glyph.segment_count; i++) {
        const uint8_t *s = glyph.segments[i];
        drawing->segments[i] = make_segment((float)s[0] * 0.01f, (float)s[1] * 0.01f,
                                            (float)s[2] * 0.01f, (float)s[3] * 0.01f, radius, 1.0f);
    }
    drawing->glyph_count = glyph.segment_count;
    drawing->count = glyph.segment_count;
}

// Short strokes at the edge that belong to no digit.
static void make_strays(struct drawing *drawing, struct tern_prng *rng)
{
    unsigned strays = tern_prng_below(rng, STRAYS + 1);
    for (unsigned i = 0; i < strays; i++) {
        float x = tern_random_between(rng, 0.0f, 1.0f);
        float y = tern_prng_below(rng, 2) ? tern_random_between(rng, 0.0f, 0.15f)
                                          : tern_random_between(rng, 0.85f, 1.0f);
        float x1 = x + tern_random_between(rng, -0.25f, 0.25f);
        float y1 = y + tern_random_between(rng, -0.28f, 0.28f);
        float radius = tern_random_between(rng, 0.02f, 0.05f);
        float ink = tern_random_between(rng, 0.3f, 0.8f);
        drawing->segments[drawing->count++] = make_segment(x, y, x1, y1, radius, ink);
    }
}

static void make_warp(struct drawing *drawing, struct tern_prng *rng)
{
    float turn = tern_random_between(rng, -0.04f, 0.04f); // 14 degrees either way
    float slant = tern_random_between(rng, -0.28f, 0.28f);
    float wide = tern_random_between(rng, 1.1f, 1.5f); // glyph units per image unit
    float high = tern_random_between(rng, 1.1f, 1.4f);
    float c = tern_cos_turns(turn);
    float s = tern_sin_turns(turn);
    drawing->xx = wide * (c + slant * s);
    drawing->xy = wide * (slant * c - s);
    drawing->yx = high * s;
    drawing->yy = high * c;
    drawing->shift_x = 0.5f + tern_random_between(rng, -0.085f, 0.085f);
    drawing->shift_y = 0.5f + tern_random_between(rng, -0.085f, 0.085f);
    for (unsigned i = 0; i < GRID * GRID; i++) {
        drawing->bend_x[i / GRID][i % GRID] = tern_random_between(rng, -0.085f, 0.085f);
        drawing->bend_y[i / GRID][i % GRID] = tern_random_between(rng, -0.085f, 0.085f);
    }
}

// Between the four control points around (x, y), each 0 to 1.
static float bend_at(const float bend[GRID][GRID], float x, float y)
{
    float gx = x * (GRID - 1);
    float gy = y * (GRID - 1);
    unsigned i = (unsigned)gy;
    unsigned j = (unsigned)gx;
    float u = gx - (float)j;
    float v = gy - (float)i;
    float top = bend[i][j] + (bend[i][j + 1] - bend[i][j]) * u;
    float low = bend[i + 1][j] + (bend[i + 1][j + 1] - bend[i + 1][j]) * u;
    return top + (low - top) * v;
}

static float clamp(float value)
{
    return value < 0.0f ? 0.0f : value > 1.0f ? 1.0f : value;
}

static float ink_of(const struct segment *s, float x, float y)
{
    float along = clamp(((x - s->x) * s->dx + (y - s->y) * s->dy) / s->length);
    float off_x = x - s->x - along * s->dx;
    float off_y = y - s->y - along * s->dy;
    float distance = off_x * off_x + off_y * off_y;
    return s->ink * clamp((s->wide - distance) / (s->wide - s->thin));
}

static float ink_at(const struct drawing *drawing, float x, float y)
{
    float from_x = x - drawing->shift_x;
    float from_y = y - drawing->shift_y;
    float glyph_x =
        0.5f + drawing->xx * from_x + drawing->xy * from_y + bend_at(drawing->bend_x, x, y);
    float glyph_y =
        0.5f + drawing->yx * from_x + drawing->yy * from_y + bend_at(drawing->bend_y, x, y);
    float most = 0.0f;
    for (unsigned i = 0; i < drawing->count; i++) {
        bool glyph = i < drawing->glyph_count;
        float ink = ink_of(&drawing->segments[i], glyph ? glyph_x : x, glyph ? glyph_y : y);
        most = ink > most ? ink : most;
    }
    return most;
}

// Four uniform draws added: bell-shaped, within -1 and 1.
static float noise(struct tern_prng *rng)
{
    float sum = 0.0f;
    for (int i = 0; i < 4; i++) {
        sum += tern_prng_float(rng);
    }
    return sum * 0.5f - 1.0f;
}

uint16_t tern_digits_draw(uint64_t seed, bool test, uint32_t index, uint32_t size, uint8_t *image)
{
    struct tern_prng rng;
    struct drawing drawing;
    tern_prng_init(&rng, seed, TERN_PRNG_DATA,
                   test ? TERN_DATA_DIGITS_TEST : TERN_DATA_DIGITS_TRAIN, index);
    unsigned digit = tern_prng_below(&rng, 10);
    make_strokes(&drawing, &rng, digit);
    make_strays(&drawing, &rng);
    make_warp(&drawing, &rng);
    float contrast = tern_random_between(&rng, 0.55f, 1.0f);
    float grain = tern_random_between(&rng, 0.05f, 0.35f);
    float pixel = 1.0f / (float)size;
    for (uint32_t row = 0; row < size; row++) {
        float y = ((float)row + 0.5f) * pixel;
        for (uint32_t column = 0; column < size; column++) {
            float x = ((float)column + 0.5f) * pixel;
            float value = contrast * ink_at(&drawing, x, y) + grain * noise(&rng);
            *image++ = (uint8_t)(clamp(value) * 255.0f + 0.5f);
        }
    }
    return (uint16_t)digit;
}
