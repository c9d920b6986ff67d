// Updates that arrive after their round has closed. Under a strategy that buffers (FedBuff) they
// count in the open round; else they are given back, as `late`. What was answered `late` once stays
// so: the client has put it back into its error buffer, and the same bytes, come again over some
// detour, must not count as well.
#include "service/internal.h"

#include "merge/strategy_rule.h"
#include "service/ledger.h"
#include <string.h>

static enum tern_result takes_late(const struct tern_db_round *row, uint32_t *staleness_max)
{
    struct tern_strategy_rule rule;
    TERN_TRY(tern_rule_read(row, &rule));
    *staleness_max = (uint32_t)rule.parameters[TERN_STRATEGY_STALENESS_MAX];
    return rule.strategy->takes_late ? TERN_OK : TERN_ERR_LATE;
}

// What the update's own round says of it, as a member of that round.
static enum tern_result find_member(struct tern_service *service, const struct tern_db_round *own,
                                    const struct tern_db_assignment *row,
                                    struct tern_member *member)
{
    static const uint8_t none[TERN_SHA256_SIZE];
    struct tern_db_version version;
    *member = (struct tern_member){
        .client = row->client, .local_steps = row->local_steps, .base_version = row->base_version};
    memcpy(member->base, row->base, TERN_SHA256_SIZE);
    if (memcmp(row->base, none, TERN_SHA256_SIZE) == 0) { // of the replica that all shared
        TERN_TRY(tern_db_version_get(service->db, own->base_version, &version));
        memcpy(member->base, version.replica, TERN_SHA256_SIZE);
        member->base_version = own->base_version;
    }
    return TERN_OK;
}

// Whether the update may count in the open round. TERN_ERR_LATE  it may not
static enum tern_result check_late(const struct tern_service *service,
                                   const struct request *request, const struct tern_db_round *own,
                                   const struct tern_db_assignment *assignment)
{
    uint32_t most = 0;
    if (!service->machine.open) {
        return TERN_ERR_LATE;
    }
    TERN_TRY(takes_late(&service->row, &most));
    bool fresh = service->row.base_version >= own->base_version &&
                 service->row.base_version - own->base_version <= most;
    // Without a task there is nothing it could have trained; a time of reporting is that of `late`.
    bool given_back = assignment->reported_ms != 0;
    // Places are kept while their round is open.
    bool whole = !request->u.update.message.shared_places;
    return fresh && whole && !given_back && assignment->local_steps != 0 ? TERN_OK : TERN_ERR_LATE;
}

static enum tern_result count_late(struct tern_service *service, struct request *request,
                                   struct tern_db_assignment *assignment,
                                   const struct tern_member *member, uint64_t now)
{
    TERN_TRY(take_update(service, request, member, service->machine.round, now));
    assignment->state = TERN_ASSIGNMENT_REPORTED;
    assignment->reported_ms = now;
    TERN_TRY(tern_db_assignment_put(service->db, assignment));
    tern_round_buffered(&service->machine, 1);
    service->roster_due = true;
    request->accepted = true;
    return TERN_OK;
}

// Whether it tells how fast its client trains: it had that task, and did some of it. Without the
// places of its round, which are gone, there is nothing else to say against it.
static bool tells_speed(const struct tern_service *service, const struct request *request,
                        const struct tern_db_assignment *assignment)
{
    const tern_Update *message = &request->u.update.message;
    const bool whole = request->parsed == TERN_OK;
    const bool shared = request->parsed == TERN_ERR_STATE && message->shared_places;
    return (whole || shared) && is_of_our_model(service, message) && message->local_steps > 0 &&
           message->local_steps <= assignment->local_steps;
}

// Remembers that it was given back. A device that is always late is too slow for what it is asked,
// which is known from here alone.
static enum tern_result give_back(struct tern_service *service, struct request *request,
                                  struct tern_db_assignment *assignment, enum tern_result why,
                                  uint64_t now)
{
    refuse_update(service, request, why);
    if (assignment->reported_ms != 0) {
        return TERN_OK;
    }
    if (why == TERN_ERR_LATE && tells_speed(service, request, assignment)) {
        take_speed(client_of(service, request->client), &request->u.update.message);
    }
    assignment->reported_ms = now;
    return tern_db_assignment_put(service->db, assignment);
}

enum tern_result handle_late(struct tern_service *service, struct request *request, uint64_t now)
{
    const struct update_request *update = &request->u.update;
    struct tern_db_assignment assignment;
    struct tern_db_round own;
    struct tern_member member;
    uint32_t most = 0;
    enum tern_result found =
        tern_db_assignment_get(service->db, update->round, request->client, &assignment);
    if (found == TERN_OK) {
        found = tern_db_round_get(service->db, update->round, &own);
    }
    if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
        return found;
    }
    const bool buffers = found == TERN_OK && takes_late(&own, &most) == TERN_OK;
    if (found != TERN_OK || (!buffers && !tells_speed(service, request, &assignment))) {
        refuse_update(service, request, TERN_ERR_LATE);
        return TERN_OK;
    }
    if (!buffers) {
        return give_back(service, request, &assignment, TERN_ERR_LATE, now);
    }
    enum tern_result verdict = check_late(service, request, &own, &assignment);
    if (verdict == TERN_OK && update->unread) {
        answer_unavailable(request); // when it was read, no round was open that would take it
        return TERN_OK;
    }
    if (verdict == TERN_OK) {
        TERN_TRY(find_member(service, &own, &assignment, &member));
        verdict = check_update(service, request, &member);
    }
    return verdict == TERN_OK ? count_late(service, request, &assignment, &member, now)
                              : give_back(service, request, &assignment, verdict, now);
}
