#include "lgc/client.h"

#include "codec/kernels/select.h"
#include "error_feedback/error_buffer.h"
#include <string.h>

enum tern_result tern_lgc_client_take(struct tern_lgc_client *client, uint32_t count,
                                      float momentum, float *work)
{
    const struct tern_error_buffer buffer = {TERN_ERROR_FLOAT32, client->error, count};
    TERN_TRY(tern_error_momentum(client->velocity, momentum, work, count));
    TERN_TRY(tern_error_buffer_add_to(&buffer, 1, work));
    memcpy(client->error, work, count * sizeof *work);
    return TERN_OK;
}

void tern_lgc_client_gather(struct tern_lgc_client *client, const struct tern_lgc_plan *plan,
                            const uint32_t *at)
{
    for (uint32_t i = 0; i < tern_lgc_picks(plan); i++) {
        client->picked[i] = client->error[at[i]];
    }
}

void tern_lgc_innovation(const float *learned, uint32_t count, float share, uint64_t *words,
                         float *innovation)
{
    const struct tern_selection selection =
        tern_kernel_select(learned, count, tern_select_count(share, count));
    tern_kernel_select_mark(learned, count, selection, words);
    for (uint32_t i = 0; i < count; i++) {
        innovation[i] = words[i / 64] >> i % 64 & 1 ? learned[i] : 0;
    }
}

void tern_lgc_client_sent_exact(struct tern_lgc_client *client, const struct tern_lgc_plan *plan)
{
    for (uint32_t i = 0; i < plan->part_count; i++) {
        const struct tern_lgc_part *part = &plan->parts[i];
        if (part->role == TERN_LGC_EXACT) {
            memset(client->error + part->offset, 0, part->count * sizeof *client->error);
        }
    }
}

void tern_lgc_client_sent(struct tern_lgc_client *client, const uint32_t *at, const float *sent,
                          uint32_t count, enum tern_lgc_mask mask)
{
    for (uint32_t i = 0; i < count; i++) {
        client->error[at[i]] -= sent[i];
        if (mask == TERN_LGC_MASK_ALL || sent[i] != 0) {
            client->velocity[at[i]] = 0;
        }
    }
}
