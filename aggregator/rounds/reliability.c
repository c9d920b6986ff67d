#include "rounds/reliability.h"

#include <stdlib.h>

#define NEWEST_WEIGHT 0.25F // weight of the newest task in the fraction of unreported tasks
// A round invites one unreliable client for this many clients of its cohort.
#define UNRELIABLE_SHARE 8
// A member is overdue after this multiple of the usual time from task to report.
#define OVERDUE_FACTOR 4

float tern_unreported_after_miss(float unreported)
{
    return unreported + NEWEST_WEIGHT * (1.0F - unreported);
}

float tern_unreported_after_report(float unreported)
{
    const float left = unreported * (1.0F - NEWEST_WEIGHT);
    return left > 0.001F ? left : 0.0F;
}

bool tern_is_unreliable(float unreported)
{
    return unreported >= TERN_UNRELIABLE;
}

bool tern_tries_count_as_missed(uint32_t tries)
{
    return tern_tries_are_used_up(tries) && (tries - 1) % TERN_TRIES_MAX == 0;
}

bool tern_tries_are_used_up(uint32_t tries)
{
    return tries > TERN_TRIES_MAX;
}

uint32_t tern_unreliable_invitations(uint32_t cohort)
{
    return cohort / UNRELIABLE_SHARE + (cohort % UNRELIABLE_SHARE != 0);
}

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

void tern_pace_measure(const struct tern_round_machine *machine, uint64_t least_ms,
                       uint64_t *scratch, struct tern_pace *pace)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        if (member->state == TERN_MEMBER_REPORTED) {
            scratch[count++] = since(member->tasked_ms, member->reported_ms);
        }
    }
    const uint64_t window_ms = machine->policy.deadline_ms;
    const uint64_t from_ms = since(window_ms, machine->deadline_ms);
    *pace = (struct tern_pace){.known = count > 0 && count >= machine->quorum / 2,
                               .least_ms = least_ms,
                               .window_ms = window_ms,
                               .window_from_ms =
                                   from_ms > machine->opened_ms ? from_ms : machine->opened_ms};
    if (count > 0) {
        qsort(scratch, count, sizeof scratch[0], ascending);
        pace->median_ms = scratch[count / 2];
    }
}

static uint64_t patience_ms(const struct tern_pace *pace, uint64_t usual_ms)
{
    const uint64_t usual = pace->median_ms > usual_ms ? pace->median_ms : usual_ms;
    if (!pace->known || usual >= pace->window_ms / OVERDUE_FACTOR) {
        return pace->window_ms;
    }
    const uint64_t patience = OVERDUE_FACTOR * usual;
    const uint64_t most = pace->window_ms;
    return patience > pace->least_ms ? patience : pace->least_ms < most ? pace->least_ms : most;
}

uint64_t tern_member_overdue_ms(const struct tern_pace *pace, uint64_t tasked_ms, uint64_t usual_ms)
{
    return tasked_ms + patience_ms(pace, usual_ms);
}

bool tern_member_has_missed(const struct tern_pace *pace, uint64_t tasked_ms, uint64_t usual_ms,
                            uint64_t now)
{
    const uint64_t patience = patience_ms(pace, usual_ms);
    const uint64_t half = pace->window_ms / 2;
    const uint64_t due_ms = tasked_ms + (patience < half ? patience : half);
    return due_ms <= now && due_ms > pace->window_from_ms;
}
