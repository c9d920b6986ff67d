// Sums in float64 whose order of additions is fixed, so that they have the same bits everywhere:
// eight lanes, of which lane k takes the values of index k, k + 8, ... in order, and then the lanes
// pairwise (docs/FORMAT.md, section 1). Eight, so that SIMD has work. Pure; reentrant.
#ifndef TERN_LANES_H
#define TERN_LANES_H

#define TERN_SUM_LANES 8

static inline double tern_sum_of_lanes(const double lanes[TERN_SUM_LANES])
{
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
           ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

#endif
