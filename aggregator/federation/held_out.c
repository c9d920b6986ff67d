// What clients that train tell, with their updates, of the model they began with: its figures on held-out data of
// their own. And the metrics that evaluators tell.
#include "federation/internal.h"

static enum tern_result put(struct tern_federation *federation, struct tern_db_metric *row,
                            const char *name, float value)
{
    memset(row->name, 0, sizeof row->name);
    strncpy(row->name, name, sizeof row->name - 1);
    row->value = value;
    return tern_db_metric_put(federation->db, row);
}

// Names are keys and columns of what is printed, beside these.
static bool is_plain(const char *name)
{
    static const char *const taken[] = {"client", "clients", "invited", "model", "reported"};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        if (strcmp(name, taken[i]) == 0) {
            return false;
        }
    }
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

static enum tern_result put_metrics(struct tern_federation *federation, struct tern_db_metric *row,
                                    const tern_Evaluation *evaluation)
{
    for (pb_size_t i = 0; i < evaluation->metrics_count; i++) {
        if (is_plain(evaluation->metrics[i].name)) {
            TERN_TRY(
                put(federation, row, evaluation->metrics[i].name, evaluation->metrics[i].value));
        }
    }
    return TERN_OK;
}

enum tern_result tern_evaluation_metrics_take(struct tern_federation *federation,
                                              const struct tern_db_evaluation *found,
                                              const tern_Evaluation *evaluation)
{
    struct tern_db_metric row = {.version = found->version,
                                 .client = found->client,
                                 .of_evaluator = true,
                                 .late = found->late,
                                 .model = found->model,
                                 .num_examples = found->num_examples};
    return put_metrics(federation, &row, evaluation);
}

enum tern_result tern_held_out_take(struct tern_federation *federation, uint64_t client,
                                    const struct tern_member *member,
                                    const tern_Evaluation *evaluation)
{
    bool global = false;
    TERN_TRY(tern_catchup_is_global(federation->catchup, member->base, &global));
    struct tern_db_metric row = {.version = member->base_version,
                                 .client = client,
                                 .model = global ? TERN_EVALUATED_GLOBAL : TERN_EVALUATED_REPLICA,
                                 .num_examples = evaluation->num_examples};
    TERN_TRY(put_metrics(federation, &row, evaluation));
    TERN_TRY(put(federation, &row, "loss", evaluation->loss)); // whatever a metric was called
    return evaluation->no_accuracy ? TERN_OK
                                   : put(federation, &row, "accuracy", evaluation->accuracy);
}
