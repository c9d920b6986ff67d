#include "fleet/figure.h"
#include <math.h>
#include <string.h>

static const char *const names[] = {"r2", "auc"};

static const struct tern_metric *metric_of(const struct tern_evaluate_result *found)
{
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        for (uint32_t i = 0; i < found->metric_count; i++) {
            if (strcmp(found->metrics[i].name, names[n]) == 0) {
                return &found->metrics[i];
            }
        }
    }
    return NULL;
}

const char *tern_figure_name(const struct tern_evaluate_result *found)
{
    const struct tern_metric *metric = found->no_accuracy ? metric_of(found) : NULL;
    if (!found->no_accuracy) {
        return "accuracy";
    }
    return metric != NULL ? metric->name : NULL;
}

double tern_figure_value(const struct tern_evaluate_result *found)
{
    const struct tern_metric *metric = found->no_accuracy ? metric_of(found) : NULL;
    if (!found->no_accuracy) {
        return (double)found->accuracy;
    }
    return metric != NULL ? (double)metric->value : NAN;
}
