#include "hosted/csv_far.h"
#include <math.h>

#define RANGES 100.0 // interquartile ranges from the median
#define MOST 2       // far numbers of a column,
#define MOST_OF                                                                                    \
    200 // and one more for each so many different numbers: more of them are another kind of rows,
#define BEYOND 10.0 // to which those so many times as distant do not belong

// A column's different numbers, ascending, and the end of them that is judged.
struct ends {
    const double *number;
    uint32_t count;
    bool top;
};

// Returns a number by its rank from the end that is not judged.
static double at(const struct ends *ends, uint32_t rank)
{
    return ends->number[ends->top ? rank : ends->count - 1 - rank];
}

// Returns the distance from the median beyond which a number is far. The quartiles are of all numbers but the outermost.
// A skewed column, such as a lognormal one, spreads on its long side by factors, so that distances there are judged by
// their ratios, too: four times, in logarithms, from the lower to the upper quartile.
static double find_limit(const struct ends *ends)
{
    const uint32_t others = ends->count - 1;
    const uint32_t quarter = (others - 1) / 4;
    const uint32_t middle = others / 2;
    const double range = fabs(at(ends, others - 1 - quarter) - at(ends, quarter));
    const uint32_t side = others - 1 - middle;
    double limit = RANGES * range;
    if (side > 0) {
        const double median = at(ends, middle);
        const uint32_t first = (side - 1) / 4;
        const double near = fabs(at(ends, middle + 1 + first) - median);
        const double typical = fabs(at(ends, middle + 1 + side / 2) - median);
        const double distant = fabs(at(ends, others - 1 - first) - median);
        limit = fmax(limit, typical * pow(distant / near, 4.0));
    }
    const uint32_t most = MOST + ends->count / MOST_OF;
    if (others > most) {
        limit = fmax(limit, BEYOND * fabs(at(ends, others - most) - at(ends, middle)));
    }
    return limit;
}

uint32_t tern_csv_count_far(const double *number, uint32_t count, bool top)
{
    const struct ends ends = {.number = number, .count = count, .top = top};
    if (count < 3) {
        return 0;
    }
    const double limit = find_limit(&ends);
    const double median = at(&ends, (count - 1) / 2);
    uint32_t far = 0;
    while (far < count && fabs(at(&ends, count - 1 - far) - median) > limit) {
        far++;
    }
    return far;
}
