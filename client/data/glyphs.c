#include "data/glyphs.h"
#include <stdbool.h>
#include <string.h>

// A way to write a digit: points of two decimal digits each for x and y, joined in order; '/' lifts
// the pen.
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

void tern_glyph_get(unsigned digit, unsigned variant, struct tern_glyph *glyph)
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
