#include "federation/published.h"

#include <stdlib.h>
#include <string.h>

void tern_published_init(struct tern_published *published)
{
    memset(published, 0, sizeof *published);
    pthread_mutex_init(&published->lock, NULL);
}

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

// Copies the machine without its members.
static void copy_machine(struct tern_round_machine *copy, const struct tern_round_machine *machine)
{
    struct tern_member *members = copy->members;
    uint32_t capacity = copy->member_capacity;
    *copy = *machine;
    copy->members = members;
    copy->member_capacity = capacity;
}

void tern_published_machine(struct tern_published *published,
                            const struct tern_round_machine *machine)
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

void tern_published_members(struct tern_published *published,
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

struct tern_published_verdict tern_published_check_update(struct tern_published *published,
                                                          uint64_t client, uint32_t round)
{
    struct tern_published_verdict standing = {TERN_OK, false};
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
