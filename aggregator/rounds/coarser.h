// Codecs that send less, and what that saves. Who calls: the policies of steps.h. Pure; reentrant.
#ifndef TERN_COARSER_H
#define TERN_COARSER_H

#include "codec/codec.h"
#include <stdbool.h>

// Makes `codec` send about `share` (0..1] of what it sends: density and sparse by p, 3lc by s,
// which it makes no larger than 1.5. False, and nothing changes, for codecs that have no such
// parameter.
bool tern_coarser_share(struct tern_codec *codec, double share);

// Makes `codec` send the share p of the values: sparse keeps its values, 3lc and density become
// density with the same coder. density: whether that may be. False when it may not, and for others.
bool tern_coarser_density(struct tern_codec *codec, double p, bool density);

// Bits that a value takes on average, near enough to compare codecs with: the entropy of ternary
// symbols at a density, which the range coder reaches within some percent, and the density that 3lc
// comes to on gradients (docs/BENCHMARKS.md).
double tern_coarser_bits(const struct tern_codec *codec);

// Densities that budgets are cut to, falling; 0 ends them.
extern const double tern_coarser_rungs[];

#endif
