// How good a model that tells no classes is on each client's own data: on the test examples of its groups. Called
// by what measures a finished run's model; pure but for the heap; not reentrant.
#ifndef TERN_FLEET_CLIENT_FIGURES_H
#define TERN_FLEET_CLIENT_FIGURES_H

#include "fleet/shares.h"
#include "ports.h"
#include "tensor/model.h"
#include <cjson/cJSON.h>

struct tern_client_figures {
    struct tern_evaluate_result
        *of;          // [clients]; num_examples is 0: the test set has none of the client's
    uint32_t clients; // 0: clients are no natural groups
};

// TERN_ERR_NO_MEMORY, and what the built-in trainer refuses.
TERN_MUST_USE enum tern_result tern_client_figures_make(const struct tern_shares *shares,
                                                        const struct tern_model *model,
                                                        const float *weights,
                                                        struct tern_client_figures *figures);
void tern_client_figures_clear(struct tern_client_figures *figures);

// Of all clients in their order, null where it is not known: the loss where name is NULL, or a metric. The caller's.
cJSON *tern_client_figures_json(const struct tern_client_figures *figures, const char *name);

#endif
