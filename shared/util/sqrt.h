// Square root without libm: shared/ builds freestanding, and the result must have the same bits on
// every board. Pure; reentrant.
#ifndef TERN_SQRT_H
#define TERN_SQRT_H

// The square root of x, correctly rounded (to nearest, ties to even). 0 for x <= 0 and for NaN; x
// itself for infinity.
double tern_sqrt(double x);

#endif
