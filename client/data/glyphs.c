#include "data/glyphs.h"

// A way to write a digit: points joined in order; (0, 0) lifts the pen.
#define MAX_POINTS (TERN_GLYPH_MAX_SEGMENTS + 2)
#define LIFT                                                                                       \
    {                                                                                              \
        0, 0                                                                                       \
    }

struct writing {
    uint8_t digit;
    uint8_t point_count;
    uint8_t points[MAX_POINTS][2];
};

static const struct writing writings[] = {
    {0,
     11,
     {{50, 8},
      {70, 15},
      {80, 35},
      {80, 65},
      {70, 85},
      {50, 92},
      {30, 85},
      {20, 65},
      {20, 35},
      {30, 15},
      {50, 8}}},
    {1, 3, {{35, 25}, {54, 9}, {52, 91}}},
    {1, 6, {{33, 26}, {52, 9}, {52, 90}, LIFT, {32, 90}, {72, 90}}},
    {1, 2, {{52, 8}, {50, 92}}},
    {2,
     9,
     {{24, 28}, {32, 14}, {50, 8}, {68, 14}, {75, 30}, {66, 48}, {45, 66}, {22, 90}, {78, 90}}},
    {2,
     13,
     {{26, 24},
      {40, 10},
      {60, 9},
      {73, 22},
      {70, 42},
      {50, 68},
      {32, 86},
      {24, 80},
      {32, 72},
      {46, 80},
      {60, 90},
      {72, 90},
      {80, 82}}},
    {3,
     11,
     {{25, 16},
      {45, 8},
      {66, 14},
      {72, 30},
      {62, 44},
      {45, 48},
      {64, 53},
      {76, 68},
      {68, 85},
      {46, 92},
      {24, 84}}},
    {3, 8, {{24, 10}, {72, 10}, {46, 42}, {66, 50}, {76, 68}, {68, 85}, {46, 92}, {24, 84}}},
    {4, 6, {{60, 8}, {20, 64}, {80, 64}, LIFT, {62, 36}, {62, 92}}},
    {4, 6, {{28, 10}, {24, 54}, {76, 54}, LIFT, {68, 10}, {66, 92}}},
    {5,
     9,
     {{74, 9}, {32, 9}, {27, 46}, {50, 40}, {70, 48}, {77, 66}, {68, 84}, {46, 92}, {24, 84}}},
    {6,
     12,
     {{68, 10},
      {46, 22},
      {30, 44},
      {24, 66},
      {32, 86},
      {52, 92},
      {70, 84},
      {76, 68},
      {68, 54},
      {50, 50},
      {34, 56},
      {26, 70}}},
    {7, 4, {{22, 10}, {78, 10}, {56, 48}, {42, 92}}},
    {7, 7, {{22, 12}, {76, 10}, {56, 48}, {42, 92}, LIFT, {34, 50}, {70, 50}}},
    {8,
     17,
     {{50, 48},
      {30, 38},
      {26, 24},
      {36, 11},
      {50, 8},
      {64, 11},
      {74, 24},
      {70, 38},
      {50, 48},
      {28, 60},
      {22, 76},
      {34, 89},
      {50, 92},
      {66, 89},
      {78, 76},
      {72, 60},
      {50, 48}}},
    {9,
     11,
     {{74, 32},
      {66, 46},
      {50, 50},
      {32, 44},
      {24, 30},
      {32, 14},
      {50, 8},
      {68, 14},
      {74, 32},
      {72, 60},
      {60, 92}}},
    {9,
     12,
     {{74, 32},
      {66, 46},
      {50, 50},
      {32, 44},
      {24, 30},
      {32, 14},
      {50, 8},
      {68, 14},
      {74, 32},
      {72, 72},
      {58, 90},
      {34, 86}}},
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

static int lifted(const uint8_t point[2])
{
    return point[0] == 0 && point[1] == 0;
}

void tern_glyph_get(unsigned digit, unsigned variant, struct tern_glyph *glyph)
{
    digit %= 10;
    const struct writing *w = find(digit, variant % variants_of(digit));
    glyph->segment_count = 0;
    for (unsigned i = 0; i + 1 < w->point_count; i++) {
        if (lifted(w->points[i]) || lifted(w->points[i + 1])) {
            continue;
        }
        uint8_t *segment = glyph->segments[glyph->segment_count++];
        segment[0] = w->points[i][0];
        segment[1] = w->points[i][1];
        segment[2] = w->points[i + 1][0];
        segment[3] = w->points[i + 1][1];
    }
}
