#include "data/generated.h"
#include "data/random.h"
#include "util/math.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// --- Glyphs

// The strokes of the ten digits in a box of 100 x 100, y downwards.

#define TERN_GLYPH_MAX_SEGMENTS 20

struct tern_glyph {
    uint8_t segment_count;
    uint8_t segments[TERN_GLYPH_MAX_SEGMENTS][4]; // x0, y0, x1, y1
};

// A shape of a digit: a list of points, each with two decimal digits for x and two for y. Strokes connect successive points,
// except across a '/'.
struct writing {
    unsigned digit;
    const char *points;
};

static const struct writing writings[] = {
    {0, "5008 7015 8035 8065 7085 5092 3085 2065 2035 3015 5008"},
    {1, "3525 5409 5291"},
    {1, "3326 5209 5290 / 3290 7290"},
    {1, "5208 5092"},
    {2, "2428 3214 5008 6814 7530 6648 4566 2290 7890"},
    {2, "2624 4010 6009 7322 7042 5068 3286 2480 3272 4680 6090 7290 8082"},
    {3, "2516 4508 6614 7230 6244 4548 6453 7668 6885 4692 2484"},
    {3, "2410 7210 4642 6650 7668 6885 4692 2484"},
    {4, "6008 2064 8064 / 6236 6292"},
    {4, "2810 2454 7654 / 6810 6692"},
    {5, "7409 3209 2746 5040 7048 7766 6884 4692 2484"},
    {6, "6810 4622 3044 2466 3286 5292 7084 7668 6854 5050 3456 2670"},
    {7, "2210 7810 5648 4292"},
    {7, "2212 7610 5648 4292 / 3450 7050"},
    {8, "5048 3038 2624 3611 5008 6411 7424 7038 5048 2860 2276 3489 5092 6689 7876 7260 5048"},
    {9, "7432 6646 5050 3244 2430 3214 5008 6814 7432 7260 6092"},
    {9, "7432 6646 5050 3244 2430 3214 5008 6814 7432 7272 5890 3486"},
};

#define WRITINGS (sizeof writings / sizeof writings[0])

static unsigned variants_of(unsigned digit)
{
    unsigned count = 0;
    for (unsigned i = 0; i < WRITINGS; i++) {
        count += writings[i].digit == digit;
    }
    return count;
}

static const struct writing *find(unsigned digit, unsigned variant)
{
    const struct writing *w = writings;
    for (; w->digit != digit || variant > 0; w++) {
        variant -= w->digit == digit;
    }
    return w;
}

static uint8_t coordinate(const char *text)
{
    return (uint8_t)((text[0] - '0') * 10 + (text[1] - '0'));
}

// Sets *glyph to shape `variant` of a digit; shapes are numbered modulo their count.
static void get_glyph(unsigned digit, unsigned variant, struct tern_glyph *glyph)
{
    digit %= 10;
    bool down = false;
    uint8_t x = 0;
    uint8_t y = 0;
    glyph->segment_count = 0;
    for (const char *p = find(digit, variant % variants_of(digit))->points; *p != '\0';) {
        if (*p == ' ' || *p == '/') {
            down = down && *p == ' ';
            p++;
            continue;
        }
        uint8_t next_x = coordinate(p);
        uint8_t next_y = coordinate(p + 2);
        if (down) {
            uint8_t segment[4] = {x, y, next_x, next_y};
            memcpy(glyph->segments[glyph->segment_count++], segment, sizeof segment);
        }
        x = next_x;
        y = next_y;
        down = true;
        p += 4;
    }
}

// --- The reader

// Generates digits for the spec "digits:train=6000,test=2000,size=16,seed=1".

enum tern_result tern_read_digits(struct tern_data_spec *spec,
                                  const struct tern_data_limits *limits, struct tern_data *data)
{
    struct tern_generated set = {.train = 6000, .test = 2000, .seed = 1};
    struct tern_generated_part parts[2];
    uint64_t size = 16;
    TERN_TRY(tern_generated_options(spec, limits, NULL, &set));
    TERN_TRY(tern_spec_number(spec, "size", 16, 64, &size));
    TERN_TRY(tern_spec_scaling(spec, data));
    TERN_TRY(tern_spec_done(spec, "train, test, size, seed, mean, std"));
    const uint32_t side = (uint32_t)size;
    const struct tern_dataset shape = {
        .height = side, .width = side, .channels = 1, .class_count = 10};
    TERN_TRY(tern_generated_allocate(spec, limits, &set, &shape, false, data, parts));
    for (unsigned test = 0; test < 2; test++) {
        const struct tern_generated_part *part = &parts[test];
        for (uint32_t i = 0; i < part->count; i++) {
            uint8_t *image = part->bytes + (size_t)i * side * side;
            part->labels[i] = tern_digits_draw(set.seed, test != 0, i, side, image);
        }
    }
    return TERN_OK;
}

// --- Drawing

// An image is drawn backwards: the warp maps each pixel to a point of the glyph's box, and its ink depends on the distance
// to a stroke. For the same bits on every machine: only +, -, *, / and comparisons; and one random draw per statement,
// because C does not define the order within an expression.

#define GRID 4 // the elastic warp's control points per side
#define STRAYS 2

struct segment {
    float x, y;   // start
    float dx, dy; // vector from start to end
    float length; // squared
    float ink;    // 0 to 1
    float thin;   // squared distance up to which the ink is full
    float wide;   // squared distance from which the ink is 0
};

struct drawing {
    struct segment segments[TERN_GLYPH_MAX_SEGMENTS + STRAYS];
    // the first glyph_count segments are the glyph's, in coordinates of the glyph's box
    unsigned glyph_count;
    unsigned count;       // the other segments are stray strokes, in coordinates of the image
    float xx, xy, yx, yy; // maps the image to the glyph
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
    get_glyph(digit, tern_prng_u32(rng), &glyph);
    float radius = tern_random_between(rng, 0.035f, 0.085f);
    for (unsigned i = 0; i < glyph.segment_count; i++) {
        const uint8_t *s = glyph.segments[i];
        drawing->segments[i] = make_segment((float)s[0] * 0.01f, (float)s[1] * 0.01f,
                                            (float)s[2] * 0.01f, (float)s[3] * 0.01f, radius, 1.0f);
    }
    drawing->glyph_count = glyph.segment_count;
    drawing->count = glyph.segment_count;
}

// Adds short strokes near the edge of the image that are no part of the digit.
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

// Interpolates between the four control points around (x, y); x and y are 0 to 1.
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

// Returns the sum of four uniform draws: bell-shaped, within -1 and 1.
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
