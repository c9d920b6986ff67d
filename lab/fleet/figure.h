// The figure of merit of a model: accuracy of a classifier, R2 of a regression, AUC of an anomaly detector. Pure.
#ifndef TERN_FLEET_FIGURE_H
#define TERN_FLEET_FIGURE_H

#include "ports.h"

// Returns its name in results: "accuracy", "r2" or "auc". NULL: the measurement has none of them.
const char *tern_figure_name(const struct tern_evaluate_result *found);

// Returns its value; NAN: the measurement has none.
double tern_figure_value(const struct tern_evaluate_result *found);

#endif
