// Tracks which clients take tasks without reporting, and decides how long a member may hold its task before another
// client is invited in its place. Called by federation/clients.c and round.c. Pure; reentrant.
#ifndef TERN_RELIABILITY_H
#define TERN_RELIABILITY_H

#include "rounds/machine.h"

// A client's fraction of unreported tasks: the newest task weighs a quarter, each earlier one less. Both functions
// return the fraction after one more task.
float tern_unreported_after_miss(float unreported);
float tern_unreported_after_report(float unreported);

// A client is unreliable from this fraction on: it missed two tasks in a row, or nearly every second one. Rounds do not
// wait for unreliable clients.
#define TERN_UNRELIABLE 0.4F
bool tern_is_unreliable(float unreported);

// A member that fetches its task again was cut off, lost power, or failed. After this many tries without a report the
// task counts as missed, and another client may be invited.
#define TERN_TRIES_MAX 3
// Whether a try counts as a missed task: it is the first after every TERN_TRIES_MAX tries.
bool tern_tries_count_as_missed(uint32_t tries);
// Whether the member has used up its first TERN_TRIES_MAX tries.
bool tern_tries_are_used_up(uint32_t tries);

// Returns how many unreliable clients a round invites in addition, so that they can become reliable again: an eighth of
// the cohort, at least one.
uint32_t tern_unreliable_places(uint32_t cohort);

// How long members take, measured from the open round's reports.
struct tern_pace {
    uint64_t median_ms;      // median time from task to report
    bool known;              // half of the quorum has reported: the median is usable
    uint64_t least_ms;       // the least time that every member gets
    uint64_t window_ms;      // from the round's opening or extension to its deadline
    uint64_t window_from_ms; // when the window began
};

// Measures the pace of the open round. least_ms: time that every member gets, for busy machines and slow links.
// scratch: machine->member_count values.
void tern_pace_measure(const struct tern_round_machine *machine, uint64_t least_ms,
                       uint64_t *scratch, struct tern_pace *pace);

// Returns when to invite another client in place of a member that was tasked at tasked_ms: after four times as long as
// the others take, or as the member itself usually takes (own_ms; 0 = unknown), whichever is longer. At the deadline at
// the latest, and while the others' time is unknown.
uint64_t tern_member_overdue_ms(const struct tern_pace *pace, uint64_t tasked_ms, uint64_t own_ms);

// Called at the end of a round or window: whether the member should have reported within the window. A member that had
// its task for half of the window should have, even if no other time is known.
bool tern_member_has_missed(const struct tern_pace *pace, uint64_t tasked_ms, uint64_t own_ms,
                            uint64_t now);

#endif
