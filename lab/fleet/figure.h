// The figure that a model is judged by: the accuracy of one that tells classes, R2 of one that tells a number, AUC of one
// that finds anomalies. Pure.
#ifndef TERN_FLEET_FIGURE_H
#define TERN_FLEET_FIGURE_H

#include "ports.h"

// Its name in results: "accuracy", "r2" or "auc"; NULL where the measurement has none of them.
const char *tern_figure_name(const struct tern_evaluate_result *found);

// NAN where it has none.
double tern_figure_value(const struct tern_evaluate_result *found);

#endif
