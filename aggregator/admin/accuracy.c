#include "admin/accuracy.h"

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
    mean->version = evaluation->version;
    mean->model = evaluation->model;
    mean->num_examples += evaluation->num_examples;
}
