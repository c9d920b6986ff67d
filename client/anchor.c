// Variance reduction (QSVRG: Alistarh et al., NeurIPS 2017, section 3.3). The base y of a task GRADIENT_FULL becomes the
// anchor; the next version is y + d with d = -rate * full gradient at y. A task GRADIENT_REDUCED trains on the same batch at y
// and at its base x; its update is the change at x minus the change at y plus d. work.anchor has y, then d or d minus the
// change at y. The record has y and, once it exists, d.
#include "core.h"

#include <string.h>

static float *anchor_step(const struct tern_client *client)
{
    return client->work.anchor + client->work.model->count;
}

void tern_anchor_clear(struct tern_client *client)
{
    client->anchor_round = 0;
    client->anchor_has_step = false;
}

enum tern_result tern_anchor_restore(struct tern_client *client)
{
    tern_anchor_clear(client);
    if (client->work.anchor == NULL) {
        return TERN_OK;
    }
    const enum tern_result result = tern_record_load_anchor(client);
    const bool is_none =
        result == TERN_ERR_NOT_FOUND || result == TERN_ERR_CORRUPT || result == TERN_ERR_STATE;
    if (is_none) { // the next full gradient sets a new anchor
        tern_anchor_clear(client);
        return TERN_OK;
    }
    return result;
}

enum tern_result tern_anchor_set(struct tern_client *client)
{
    if (client->task.gradient != tern_Gradient_GRADIENT_FULL) {
        return TERN_OK;
    }
    const size_t len = (size_t)client->work.model->count * sizeof(float);
    client->anchor_round = client->task.round;
    client->anchor_version = client->version;
    client->anchor_has_step = false;
    memcpy(client->work.anchor, client->work.weights, len);
    return tern_record_save_anchor(client);
}

enum tern_result tern_anchor_update_step(struct tern_client *client)
{
    if (client->anchor_round == 0 || client->anchor_has_step ||
        client->version != client->anchor_version + 1) {
        return TERN_OK;
    }
    const float *anchor = client->work.anchor;
    float *step = anchor_step(client);
    for (uint32_t i = 0; i < client->work.model->count; i++) {
        step[i] = client->work.weights[i] - anchor[i];
    }
    client->anchor_has_step = true;
    return tern_record_save_anchor(client);
}

bool tern_anchor_is_usable(const struct tern_client *client)
{
    return client->anchor_round != 0 &&
           (client->anchor_has_step || client->version == client->anchor_version);
}

enum tern_result tern_anchor_begin(struct tern_client *client)
{
    TERN_TRY(tern_anchor_update_step(client));
    if (client->anchor_round != client->task.anchor || !client->anchor_has_step) {
        return TERN_ERR_WRONG_REPLICA;
    }
    return tern_record_load_anchor_step(client, anchor_step(client));
}

void tern_anchor_subtract(struct tern_client *client)
{
    const float *anchor = client->work.anchor;
    const float *trained = client->trained;
    const bool given = tern_client_result_is_change(client);
    float *rest = anchor_step(client);
    for (uint32_t i = 0; i < client->work.model->count; i++) {
        rest[i] -= given ? trained[i] : trained[i] - anchor[i];
    }
    client->trained_at_anchor = true;
}

void tern_anchor_add(const struct tern_client *client, float *change, uint32_t count)
{
    const float *rest = anchor_step(client);
    if (client->task.gradient != tern_Gradient_GRADIENT_REDUCED) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        change[i] += rest[i];
    }
}
