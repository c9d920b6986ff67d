// Parameters of every strategy that takes a weighted mean. Only strategies/ includes this.
#ifndef TERN_STRATEGY_MEAN_H
#define TERN_STRATEGY_MEAN_H

#include "strategies/strategy.h"

#define TERN_PARAMETER_BIT(symbol) (UINT32_C(1) << TERN_STRATEGY_##symbol)
#define TERN_MEAN_PARAMETERS                                                                       \
    (TERN_PARAMETER_BIT(NORMALISE) | TERN_PARAMETER_BIT(LOCAL_MOMENTUM) |                          \
     TERN_PARAMETER_BIT(SCALE_MAX) | TERN_PARAMETER_BIT(NORM_BOUND) |                              \
     TERN_PARAMETER_BIT(EXAMPLES_BOUND))

#endif
