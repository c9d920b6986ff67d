// Which clients report the tasks that they take. Their records are stored as they change: they hold after a
// restart, and go with a transaction that is rolled back.
#include "federation/internal.h"

#include "rounds/selection.h"

static enum tern_result set(struct tern_federation *federation, struct client *client,
                            float unreported)
{
    const bool was = tern_is_unreliable(client->row.unreported);
    const bool is = tern_is_unreliable(unreported);
    client->row.unreported = unreported;
    federation->clients.unreliable += is - was;
    if (is != was) {
        tern_log(TERN_LOG_INFO, is ? "client-unreliable" : "client-reliable",
                 "round=%u client=%llu unreported=%.2f", federation->machine.round,
                 (unsigned long long)client->row.id, (double)unreported);
    }
    return tern_clients_store(federation, client->row.id);
}

enum tern_result tern_reliability_missed(struct tern_federation *federation, uint64_t id)
{
    struct client *client = client_of(federation, id);
    federation->counts.tasks_missed++;
    return set(federation, client, tern_unreported_missed(client->row.unreported));
}

// One that is slow once is given as long for a while.
static uint32_t smoothed(uint32_t before, uint64_t ms)
{
    const uint32_t took = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
    return took >= before ? took : before - (before - took) / 4;
}

enum tern_result tern_reliability_reported(struct tern_federation *federation, uint64_t id,
                                           uint64_t tasked_ms, uint64_t now)
{
    struct client *client = client_of(federation, id);
    client->dirty = true;
    client->row.failed_round = 0;
    client->row.report_ms = smoothed(client->row.report_ms, now > tasked_ms ? now - tasked_ms : 0);
    return client->row.unreported > 0.0F
               ? set(federation, client, tern_unreported_reported(client->row.unreported))
               : TERN_OK;
}

bool tern_reliability_has_failed(const struct tern_federation *federation,
                                 const struct tern_member *member)
{
    const struct client *client = client_of(federation, member->client);
    return member->state == TERN_MEMBER_TASKED && client != NULL &&
           client->row.failed_round == federation->machine.round;
}

static const char *const failure_names[] = {
    [tern_TrainingFailure_FAILURE_TRAINER] = "trainer",
    [tern_TrainingFailure_FAILURE_NOT_FINITE] = "not-finite",
    [tern_TrainingFailure_FAILURE_NO_DATA] = "no-data",
};

// A line of the log for each would let one client fill it.
static void note_failed(struct tern_federation *federation, struct client *client, uint32_t round,
                        tern_TrainingFailure failure)
{
    federation->counts.tasks_failed++;
    client->failed++;
    if (is_power_of_two(client->failed)) {
        tern_log(TERN_LOG_WARN, "training-failed", "round=%u client=%llu failure=%s count=%u",
                 round, (unsigned long long)client->row.id, failure_names[failure], client->failed);
    }
}

enum tern_result tern_reliability_failed(struct tern_federation *federation, uint64_t id,
                                         uint32_t round, tern_TrainingFailure failure)
{
    struct client *client = client_of(federation, id);
    if (client->row.evaluator || round > federation->machine.round ||
        round < client->row.failed_round) {
        return TERN_OK;
    }
    note_failed(federation, client, round, failure);
    return tern_reliability_drop(federation, id, round, failure);
}

enum tern_result tern_reliability_drop(struct tern_federation *federation, uint64_t id,
                                       uint32_t round, tern_TrainingFailure failure)
{
    struct client *client = client_of(federation, id);
    const struct tern_round_machine *machine = &federation->machine;
    const bool again = round == client->row.failed_round; // it was given the task once more
    client->row.failed_round = round;
    client->row.failure = (uint32_t)failure;
    client->dirty = true;
    const struct tern_member *member = machine->open ? tern_round_member(machine, id) : NULL;
    if (member == NULL || !tern_reliability_has_failed(federation, member)) {
        return TERN_OK;
    }
    federation->look_ms = 0; // the round is looked at before the answer
    return again ? TERN_OK : tern_reliability_missed(federation, id);
}

// Tries are stored when they count, so that a check-in that changes nothing writes nothing. A record is not made
// worse while rounds do not count on its client: however long a round lasts, a few reports make up for it.
enum tern_result tern_reliability_tries(struct tern_federation *federation,
                                        struct tern_member *member)
{
    const struct client *client = client_of(federation, member->client);
    member->tries += member->tries < UINT32_MAX;
    if (!tern_tries_failed(member->tries)) {
        return TERN_OK;
    }
    TERN_TRY(tern_members_store(federation, member));
    federation->look_ms = 0;
    if (tern_is_unreliable(client->row.unreported)) {
        return TERN_OK;
    }
    tern_log(TERN_LOG_WARN, "task-fails", "round=%u client=%llu tries=%u why=%s",
             federation->machine.round, (unsigned long long)member->client, member->tries - 1,
             TERN_LOG_TEXT("it comes for the same task again and again and sends no update: its "
                           "log says why"));
    return tern_reliability_missed(federation, member->client);
}

bool tern_reliability_is_given_up(const struct tern_federation *federation,
                                  const struct tern_member *member)
{
    const struct client *client = client_of(federation, member->client);
    return member->state == TERN_MEMBER_TASKED && tern_tries_are_over(member->tries) &&
           tern_is_unreliable(client->row.unreported);
}

void tern_reliability_pace(struct tern_federation *federation, struct tern_pace *pace)
{
    const uint64_t least_ms = tern_selection_newcomer_ms(federation->config.round.come_back_min_ms);
    tern_pace_of(&federation->machine, least_ms, federation->clients.eligible, pace);
}

// What the member takes by its reports so far, or by its training alone where the task is a longer one; 0 = not
// known.
static uint64_t own_ms(const struct tern_federation *federation, const struct tern_member *member)
{
    const double speed = (double)client_of(federation, member->client)->row.steps_per_second;
    const double trains_ms = speed > 0.0 ? (double)member->local_steps * 1000.0 / speed : 0.0;
    const double reports_ms = (double)client_of(federation, member->client)->row.report_ms;
    const double ms = trains_ms > reports_ms ? trains_ms : reports_ms;
    const double most = (double)federation->config.round.deadline_ms;
    return ms < most ? (uint64_t)ms : federation->config.round.deadline_ms;
}

// Nobody is asked in place of an unreliable one: the round does not count on it.
bool tern_reliability_is_overdue(const struct tern_federation *federation,
                                 const struct tern_pace *pace, const struct tern_member *member,
                                 uint64_t now)
{
    const struct client *client = client_of(federation, member->client);
    return member->state == TERN_MEMBER_TASKED && client != NULL &&
           !tern_is_unreliable(client->row.unreported) &&
           (tern_tries_are_over(member->tries) ||
            now >= tern_overdue_ms(pace, member->tasked_ms, own_ms(federation, member)));
}

enum tern_result tern_reliability_round_ends(struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    struct tern_pace pace;
    tern_reliability_pace(federation, &pace);
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        if (member->state == TERN_MEMBER_TASKED && client_of(federation, member->client) != NULL &&
            !tern_tries_are_over(member->tries) &&
            !tern_reliability_has_failed(federation, member) &&
            tern_has_missed(&pace, member->tasked_ms, own_ms(federation, member), now)) {
            TERN_TRY(tern_reliability_missed(federation, member->client));
        }
    }
    return TERN_OK;
}
