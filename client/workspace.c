// Divides the caller's memory: the blob holds the update, with working memory to encode it, to send it, and to add it to the
// error buffer again if the aggregator refuses it.
#include "core.h"

#include <string.h>

struct tern_error_buffer tern_client_error_buffer(const struct tern_client *client)
{
    const struct tern_client_workspace *work = &client->work;
    return (struct tern_error_buffer){work->error_storage, work->error_buffer, work->model->coded};
}

void tern_client_stash_local(struct tern_client *client)
{
    uint32_t first = 0;
    const uint32_t count = tern_model_local(client->work.model, &first);
    if (tern_client_has_local(client) && !client->local_is_stashed) {
        memcpy(client->work.local, client->work.weights + first, (size_t)count * sizeof(float));
        client->local_is_stashed = true;
    }
}

void tern_client_unstash_local(struct tern_client *client)
{
    uint32_t first = 0;
    const uint32_t count = tern_model_local(client->work.model, &first);
    if (TERN_MANIFESTS && client->local_is_stashed) {
        memcpy(client->work.weights + first, client->work.local, (size_t)count * sizeof(float));
        client->local_is_stashed = false;
    }
}

// Returns how many bytes after offset `len` of the blob the next address is that is aligned for a float.
static size_t alignment_padding(const struct tern_client *client, size_t len)
{
    const uintptr_t end = (uintptr_t)client->work.blob + len;
    return (sizeof(float) - end % sizeof(float)) % sizeof(float);
}

size_t tern_client_pending_bound(const struct tern_client *client, size_t len)
{
    const struct tern_client_workspace *work = &client->work;
    const uint32_t values = tern_error_give_back_work(work->error_storage, work->model);
    return values == 0 ? len : len + sizeof(float) - 1 + values * sizeof(float);
}

float *tern_client_give_back_work(const struct tern_client *client)
{
    const size_t len = tern_client_update_end(client);
    void *start = client->work.blob + len + alignment_padding(client, len);
    return start;
}

size_t tern_client_update_bound(const struct tern_client *client, const struct tern_codec *codec)
{
    // The container is encoded at the blob's end and then copied after the message, so the blob holds it twice.
    const size_t container = tern_container_bound(codec, client->work.model);
    const size_t encoding = TERN_WIRE_OVERHEAD + 2 * container;
    const size_t giving_back = tern_client_pending_bound(client, TERN_WIRE_OVERHEAD + container);
    return encoding > giving_back ? encoding : giving_back;
}

// The space for the second copy of the container suffices for tern_client_give_back_work(), too.
size_t tern_client_blob_bound(const struct tern_model *model)
{
    return TERN_WIRE_OVERHEAD + 2 * tern_container_bound_any(model);
}

bool tern_client_has_state_for(const struct tern_client *client, const struct tern_codec *codec)
{
    const struct tern_codec_entry *entry = tern_codec_entry(codec->id);
    return entry->feedback != TERN_FEEDBACK_MOMENTUM || client->work.velocity != NULL;
}

// The bounds assume the default parameters of each codec.
uint32_t tern_client_codecs(const struct tern_client *client)
{
    uint32_t mask = 0;
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        const struct tern_codec codec = tern_codec_preset(entry);
        if (tern_client_has_state_for(client, &codec) &&
            tern_client_update_bound(client, &codec) <= client->work.blob_size) {
            mask |= 1u << entry->id;
        }
    }
    return mask;
}

tern_ErrorFacts tern_client_error_facts(const struct tern_client *client)
{
    const struct tern_error_buffer buffer = tern_client_error_buffer(client);
    const struct tern_error_facts facts = tern_error_buffer_facts(&buffer);
    return (tern_ErrorFacts){
        .generation = client->generation,
        .sequence = client->sequence,
        .norm = facts.norm,
        .maximum = facts.maximum,
    };
}
