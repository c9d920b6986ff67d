#include "federation/incoming.h"

#include "codec/sparse_share.h"
#include "federation/state.h"
#include <stdlib.h>
#include <string.h>

void tern_published_free(struct tern_published *published)
{
    free(published->machine.members);
    tern_blob_release(published->indices);
    pthread_mutex_destroy(&published->lock);
}

static bool make_room(struct tern_round_machine *copy, uint32_t count)
{
    if (count <= copy->member_capacity) {
        return true;
    }
    struct tern_member *members = realloc(copy->members, count * sizeof members[0]);
    if (members == NULL) {
        return false;
    }
    copy->members = members;
    copy->member_capacity = count;
    return true;
}

// Copies the round machine without its array of members.
static void copy_machine(struct tern_round_machine *copy, const struct tern_round_machine *machine)
{
    struct tern_member *members = copy->members;
    uint32_t capacity = copy->member_capacity;
    *copy = *machine;
    copy->members = members;
    copy->member_capacity = capacity;
}

static void publish_all(struct tern_published *published, const struct tern_round_machine *machine)
{
    struct tern_round_machine *copy = &published->machine;
    pthread_mutex_lock(&published->lock);
    published->known = make_room(copy, machine->member_count);
    if (published->known) {
        copy_machine(copy, machine);
        if (machine->member_count > 0) {
            memcpy(copy->members, machine->members,
                   machine->member_count * sizeof copy->members[0]);
        }
    }
    pthread_mutex_unlock(&published->lock);
}

// Publishes the same members as before, of which only clients[0..count) changed.
static void publish_members(struct tern_published *published,
                            const struct tern_round_machine *machine, const uint64_t *clients,
                            uint32_t count)
{
    struct tern_round_machine *copy = &published->machine;
    pthread_mutex_lock(&published->lock);
    for (uint32_t i = 0; i < count && published->known; i++) {
        const struct tern_member *member = tern_round_member(machine, clients[i]);
        struct tern_member *known = tern_round_member(copy, clients[i]);
        if (member != NULL && known != NULL) {
            *known = *member;
        }
    }
    if (published->known) {
        copy_machine(copy, machine);
    }
    pthread_mutex_unlock(&published->lock);
}

void tern_published_round(struct tern_federation *federation)
{
    struct unpublished *unpublished = &federation->unpublished;
    if (federation->progressed || unpublished->count > UNPUBLISHED_MAX) {
        publish_all(&federation->published, &federation->machine);
    } else if (unpublished->any) {
        publish_members(&federation->published, &federation->machine, unpublished->clients,
                        unpublished->count);
    }
    unpublished->any = false;
    unpublished->count = 0;
}

struct published_verdict {
    // Result of tern_round_check_update(), but TERN_OK for a late update that may count.
    enum tern_result verdict;
    bool reported; // the client has reported in this round: its update may be a duplicate
};

// Returns whether an update of the client for the round can count.
static struct published_verdict check_published(struct tern_published *published, uint64_t client,
                                                uint32_t round)
{
    struct published_verdict standing = {TERN_OK, false};
    const struct tern_round_machine *machine = &published->machine;
    pthread_mutex_lock(&published->lock);
    if (published->known) {
        const struct tern_member *member = tern_round_member(machine, client);
        standing.verdict = tern_round_check_update(machine, client, round);
        if (standing.verdict == TERN_ERR_LATE && machine->open && machine->takes_late_updates) {
            standing.verdict = TERN_OK;
        }
        standing.reported =
            round == machine->round && member != NULL && member->state == TERN_MEMBER_REPORTED;
    }
    pthread_mutex_unlock(&published->lock);
    return standing;
}

void tern_published_set_indices(struct tern_published *published, uint32_t round,
                                struct tern_blob *indices)
{
    pthread_mutex_lock(&published->lock);
    struct tern_blob *old = published->indices;
    published->indices_round = round;
    published->indices = indices;
    pthread_mutex_unlock(&published->lock);
    tern_blob_release(old);
}

struct tern_blob *tern_published_indices(struct tern_published *published, uint32_t round)
{
    struct tern_blob *indices = NULL;
    pthread_mutex_lock(&published->lock);
    if (published->indices != NULL && published->indices_round == round) {
        indices = tern_blob_share(published->indices);
    }
    pthread_mutex_unlock(&published->lock);
    return indices;
}

// --- Updates without the indices that their round shares

// Encodes the update with `container`, which contains the update's indices.
static enum tern_result rebuild(struct tern_incoming_update *update, struct tern_span container)
{
    size_t size = container.len + TERN_WIRE_OVERHEAD;
    size_t len = 0;
    update->body_with_indices = malloc(size);
    if (update->body_with_indices == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(tern_wire_encode_update(&update->message, container, update->body_with_indices, size,
                                     &len));
    update->body = (struct tern_span){update->body_with_indices, len};
    tern_sha256(update->body_with_indices, len, update->sha256);
    return tern_wire_decode_update(update->body_with_indices, len, &update->message,
                                   &update->container);
}

static enum tern_result join_container(const struct tern_model *model, struct tern_span indices,
                                       struct tern_incoming_update *update)
{
    size_t bound = tern_sparse_join_bound(model, indices.len, update->container.len);
    struct tern_span joined = {NULL, 0};
    uint8_t *container = malloc(bound);
    if (container == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result =
        tern_sparse_join(model, indices.data, indices.len, update->container.data,
                         update->container.len, container, bound, &joined.len);
    joined.data = container;
    if (result == TERN_OK) {
        result = rebuild(update, joined);
    }
    free(container);
    return result;
}

// Completes an update that was sent without indices by the shared indices of its round. Any thread.
// TERN_ERR_STATE  the round shares no indices; TERN_ERR_CORRUPT, TERN_ERR_NO_MEMORY
static enum tern_result add_indices(struct tern_federation *federation,
                                    struct tern_incoming_update *update)
{
    tern_Download message;
    struct tern_span indices;
    struct tern_blob *blob = tern_published_indices(&federation->published, update->round);
    if (blob == NULL) {
        return TERN_ERR_STATE;
    }
    enum tern_result result = tern_wire_decode_download(blob->data, blob->len, &message, &indices);
    if (result == TERN_OK) {
        result = join_container(&federation->merge.model, indices, update);
    }
    tern_blob_release(blob);
    return result;
}

// --- Reading updates, on the thread that received them

static enum tern_result read_values(struct tern_federation *federation,
                                    struct tern_incoming_update *update)
{
    struct tern_codec_info info;
    TERN_TRY(tern_reading_make(&federation->readings, &federation->merge.model,
                               update->container.data, update->container.len, &info,
                               &update->reading));
    update->sum_square = info.sum_square;
    return info.skipped_nonzero == 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

// Parses the body of an update. Decodes its container only if the update may count. A repeated update is compared by
// its hash, so it needs no more than its indices.
static enum tern_result read_body(struct tern_federation *federation,
                                  struct tern_incoming_update *update)
{
    struct published_verdict standing =
        check_published(&federation->published, update->client, update->round);
    update->container_unread = standing.verdict != TERN_OK;
    TERN_TRY(tern_wire_decode_update(update->body.data, update->body.len, &update->message,
                                     &update->container));
    update->payload = (uint32_t)update->container.len;
    if (update->message.shared_indices) {
        bool wanted = !update->container_unread || standing.reported;
        TERN_TRY(wanted ? add_indices(federation, update) : TERN_ERR_STATE);
    }
    return update->container_unread || update->message.masked ? TERN_OK
                                                              : read_values(federation, update);
}

void tern_federation_read_update(struct tern_federation *federation,
                                 struct tern_incoming_update *update)
{
    update->received = (uint32_t)update->body.len;
    tern_sha256(update->body.data, update->body.len, update->sha256);
    update->parsed = read_body(federation, update);
}

void tern_incoming_update_free(struct tern_incoming_update *update)
{
    free(update->body_with_indices);
    tern_reading_free(update->reading);
    update->body_with_indices = NULL;
    update->reading = NULL;
}

bool tern_federation_has_opened(struct tern_federation *federation, uint32_t round)
{
    return check_published(&federation->published, 0, round).verdict != TERN_ERR_UNKNOWN_ROUND;
}

enum tern_result tern_federation_expects_update(struct tern_federation *federation, uint64_t client,
                                                uint32_t round)
{
    const enum tern_result verdict = check_published(&federation->published, client, round).verdict;
    const bool is_for_nothing =
        verdict == TERN_ERR_UNKNOWN_ROUND || verdict == TERN_ERR_NOT_IN_COHORT;
    return is_for_nothing ? verdict : TERN_OK;
}
