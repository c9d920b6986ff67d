// The open round's members, between the round machine and their rows in the store.
#include "federation/internal.h"

#include <string.h>

_Static_assert((int)TERN_MEMBER_INVITED == (int)TERN_ASSIGNMENT_INVITED &&
                   (int)TERN_MEMBER_TASKED == (int)TERN_ASSIGNMENT_TASKED &&
                   (int)TERN_MEMBER_REPORTED == (int)TERN_ASSIGNMENT_REPORTED &&
                   (int)TERN_MEMBER_REPLACED == (int)TERN_ASSIGNMENT_REPLACED,
               "states are stored as they are");

static void note_unpublished(struct tern_federation *federation, uint64_t client)
{
    struct unpublished *unpublished = &federation->unpublished;
    if (unpublished->count < UNPUBLISHED_MAX) {
        unpublished->clients[unpublished->count] = client;
    }
    unpublished->count += unpublished->count <= UNPUBLISHED_MAX;
    unpublished->any = true;
}

enum tern_result tern_members_store(struct tern_federation *federation, struct tern_member *member)
{
    const enum tern_db_assignment_state before = (enum tern_db_assignment_state)member->stored;
    struct tern_db_assignment row = {.round = federation->machine.round,
                                     .client = member->client,
                                     .state = (enum tern_db_assignment_state)member->state,
                                     .local_steps = member->local_steps,
                                     .tries = member->tries,
                                     .invited_ms = member->invited_ms,
                                     .tasked_ms = member->tasked_ms,
                                     .reported_ms = member->reported_ms,
                                     .base_version = member->base_version,
                                     .directive = member->directive,
                                     .factor = member->factor,
                                     .decay = member->decay};
    memcpy(row.base, member->base, sizeof row.base);
    memcpy(row.codec, member->codec, sizeof row.codec);
    note_unpublished(federation, member->client);
    TERN_TRY(tern_db_assignment_put(federation->db, &row, member->is_stored ? &before : NULL));
    member->is_stored = true;
    member->stored = member->state;
    return TERN_OK;
}

enum tern_result tern_members_store_all(struct tern_federation *federation)
{
    for (uint32_t i = 0; i < federation->machine.member_count; i++) {
        TERN_TRY(tern_members_store(federation, &federation->machine.members[i]));
    }
    return TERN_OK;
}

static enum tern_result load_member(struct tern_federation *federation,
                                    const struct tern_db_assignment *row)
{
    struct tern_member member = {.client = row->client,
                                 .state = (enum tern_member_state)row->state,
                                 .local_steps = row->local_steps,
                                 .tries = row->tries,
                                 .invited_ms = row->invited_ms,
                                 .tasked_ms = row->tasked_ms,
                                 .reported_ms = row->reported_ms,
                                 .base_version = row->base_version,
                                 .directive = row->directive,
                                 .factor = row->factor,
                                 .decay = row->decay,
                                 .is_stored = true,
                                 .stored = (enum tern_member_state)row->state};
    memcpy(member.base, row->base, sizeof member.base);
    memcpy(member.codec, row->codec, sizeof member.codec);
    return tern_round_restore_member(&federation->machine, &member);
}

enum tern_result tern_members_load(struct tern_federation *federation)
{
    struct tern_db_assignment row;
    struct tern_db_rows *rows = tern_db_assignments(federation->db, federation->machine.round);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, load_member(federation, &row));
    }
    return tern_db_end(rows);
}
