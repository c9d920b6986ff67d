// Tracks which clients take tasks without reporting, and decides how long a member may hold its task before another
// client is invited in its place. Called by federation/clients.c and round.c. Pure; reentrant.
#ifndef TERN_RELIABILITY_H
#define TERN_RELIABILITY_H

#include "rounds/machine.h"

// A client's fraction of unreported tasks, in which the newest task weighs a quarter and each earlier task less. Both
// functions return the fraction after one more task, unreported or reported.
float tern_unreported_after_miss(float unreported);
float tern_unreported_after_report(float unreported);

// A client is unreliable if its fraction of unreported tasks is at least this: it missed two tasks in a row, or nearly
// every second task. Rounds do not wait for unreliable clients.
#define TERN_UNRELIABLE 0.4F
bool tern_is_unreliable(float unreported);

// A member that fetches its task once more was cut off, lost power, or failed. After this many tries without a report
// the task counts as missed, and another client may be invited.
#define TERN_TRIES_MAX 3
// Whether this try counts as a missed task: it is the first after each TERN_TRIES_MAX tries.
bool tern_tries_count_as_missed(uint32_t tries);
// Whether the member has used up its first TERN_TRIES_MAX tries.
bool tern_tries_are_used_up(uint32_t tries);

// Returns how many unreliable clients a round invites in addition to its cohort, so that they can become reliable: an
// eighth of the cohort, at least one.
uint32_t tern_unreliable_invitations(uint32_t cohort);

// How long members take, measured from the open round's reports.
struct tern_pace {
    uint64_t median_ms;      // median time from task to report
    bool known;              // median_ms is usable, since half of the quorum has reported
    uint64_t least_ms;       // the least time from task to report that every member gets
    uint64_t window_ms;      // from the round's opening or extension to its deadline
    uint64_t window_from_ms; // when the window began
};

// Measures the pace of the open round. least_ms: the least time that every member gets, for busy machines and slow
// links. scratch: room for machine->member_count values.
void tern_pace_measure(const struct tern_round_machine *machine, uint64_t least_ms,
                       uint64_t *scratch, struct tern_pace *pace);

// Returns when to invite another client in place of a member that fetched its task at tasked_ms: after four times as
// long as other members take, or as this member usually takes (usual_ms; 0 = unknown), whichever is longer. At the
// deadline, if that is sooner or the other members' time is unknown.
uint64_t tern_member_overdue_ms(const struct tern_pace *pace, uint64_t tasked_ms,
                                uint64_t usual_ms);

// Whether the member should have reported within the window, called at the end of a round or window. A member that had
// its task for half of the window should have reported, even if no member's time is known.
bool tern_member_has_missed(const struct tern_pace *pace, uint64_t tasked_ms, uint64_t usual_ms,
                            uint64_t now);

#endif
