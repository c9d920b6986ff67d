#include "federation/accuracy.h"

#include "tensor/model.h"
#include <stdio.h>
#include <string.h>

// Those that are late come after the others.
void tern_accuracy_add(struct tern_accuracy *mean, const struct tern_db_evaluation *evaluation)
{
    const double share = (double)evaluation->num_examples;
    const double before = (double)mean->num_examples;
    if (evaluation->late && mean->num_examples > 0) {
        return;
    }
    if (share + before > 0) {
        mean->accuracy =
            (mean->accuracy * before + (double)evaluation->accuracy * share) / (before + share);
        mean->loss = (mean->loss * before + (double)evaluation->loss * share) / (before + share);
    }
    mean->no_accuracy = mean->no_accuracy || evaluation->no_accuracy;
    mean->version = evaluation->version;
    mean->model = evaluation->model;
    mean->num_examples += evaluation->num_examples;
}

static struct tern_figure *figure_of(struct tern_accuracy *mean, const char *name)
{
    for (uint32_t i = 0; i < mean->metric_count; i++) {
        if (strcmp(mean->metrics[i].name, name) == 0) {
            return &mean->metrics[i];
        }
    }
    if (mean->metric_count == TERN_FIGURES_METRICS) {
        return NULL;
    }
    struct tern_figure *figure = &mean->metrics[mean->metric_count++];
    *figure = (struct tern_figure){.value = 0};
    snprintf(figure->name, sizeof figure->name, "%s", name);
    return figure;
}

void tern_accuracy_add_metric(struct tern_accuracy *mean, const struct tern_db_metric *metric)
{
    if (metric->version != mean->version || metric->model != mean->model) {
        return;
    }
    struct tern_figure *figure = figure_of(mean, metric->name);
    if (figure == NULL || (metric->late && figure->num_examples > 0)) {
        return;
    }
    const double before = (double)figure->num_examples;
    const double share = (double)metric->num_examples;
    figure->value = (figure->value * before + (double)metric->value * share) / (before + share);
    figure->num_examples += metric->num_examples;
}

enum tern_result tern_accuracy_newest(struct tern_db *db, struct tern_accuracy *out)
{
    struct tern_db_evaluation evaluation;
    struct tern_db_metric metric;
    memset(out, 0, sizeof *out);
    struct tern_db_rows *rows = tern_db_evaluations_newest(db);
    while (tern_db_next(rows, &evaluation)) {
        if (evaluation.model != out->model) {
            *out = (struct tern_accuracy){.model = evaluation.model};
        }
        tern_accuracy_add(out, &evaluation);
    }
    TERN_TRY(tern_db_end(rows));
    rows = tern_db_evaluation_metrics_newest(db);
    while (tern_db_next(rows, &metric)) {
        tern_accuracy_add_metric(out, &metric);
    }
    return tern_db_end(rows);
}

const char *tern_accuracy_name(const char *model_spec)
{
    static const char *const names[TERN_LOSS_COUNT] = {"accuracy", "r2", "r2", "auc"};
    return names[tern_model_spec_loss(model_spec)];
}

bool tern_accuracy_value(const struct tern_accuracy *accuracy, const char *name, double *value)
{
    *value = accuracy->accuracy;
    for (uint32_t i = 0; i < accuracy->metric_count; i++) {
        if (strcmp(accuracy->metrics[i].name, name) == 0) {
            *value = accuracy->metrics[i].value;
            return true;
        }
    }
    return !accuracy->no_accuracy && strcmp(name, "accuracy") == 0;
}
