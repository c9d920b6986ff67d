#include "federation/roster.h"

#include <stdlib.h>
#include <string.h>

void tern_roster_init(struct tern_roster *roster)
{
    memset(roster, 0, sizeof *roster);
    pthread_mutex_init(&roster->lock, NULL);
}

void tern_roster_free(struct tern_roster *roster)
{
    free(roster->machine.members);
    pthread_mutex_destroy(&roster->lock);
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

void tern_roster_publish(struct tern_roster *roster, const struct tern_round_machine *machine)
{
    struct tern_round_machine *copy = &roster->machine;
    pthread_mutex_lock(&roster->lock);
    roster->known = make_room(copy, machine->member_count);
    if (roster->known) {
        struct tern_member *members = copy->members;
        uint32_t capacity = copy->member_capacity;
        *copy = *machine;
        copy->members = members;
        copy->member_capacity = capacity;
        if (machine->member_count > 0) {
            memcpy(members, machine->members, machine->member_count * sizeof members[0]);
        }
    }
    pthread_mutex_unlock(&roster->lock);
}

struct tern_standing tern_roster_standing(struct tern_roster *roster, uint64_t client,
                                          uint32_t round)
{
    struct tern_standing standing = {TERN_OK, false};
    const struct tern_round_machine *machine = &roster->machine;
    pthread_mutex_lock(&roster->lock);
    if (roster->known) {
        const struct tern_member *member = tern_round_member(machine, client);
        standing.verdict = tern_round_update(machine, client, round);
        if (standing.verdict == TERN_ERR_LATE && machine->open && machine->buffers) {
            standing.verdict = TERN_OK;
        }
        standing.reported =
            round == machine->round && member != NULL && member->state == TERN_MEMBER_REPORTED;
    }
    pthread_mutex_unlock(&roster->lock);
    return standing;
}
