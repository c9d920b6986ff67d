// Which clients take tasks and do not report, and how long a member may have its task before others are invited in its
// place. federation/clients.c and round.c call it. Pure; reentrant.
#ifndef TERN_RELIABILITY_H
#define TERN_RELIABILITY_H

#include "rounds/machine.h"

// A client's share of unreported tasks, in which the newest task weighs a quarter and each earlier one less; 0 = it missed
// none. Each returns the share after one more task.
float tern_unreported_missed(float unreported);
float tern_unreported_reported(float unreported);

// From this share on rounds do not count on a client: it missed two tasks in a row, or nearly every second.
#define TERN_UNRELIABLE 0.4F
bool tern_is_unreliable(float unreported);

// A member that comes for its task again was cut off, lost power, or failed. After so many tries without a report
// others may be invited in its place, and it counts as a missed task.
#define TERN_TRIES 3
// tries: including the one that begins. Whether it is the first beyond TERN_TRIES, or beyond a further multiple of them;
// whether it is any beyond TERN_TRIES.
bool tern_tries_failed(uint32_t tries);
bool tern_tries_are_over(uint32_t tries);

// How many unreliable clients a round of that cohort invites beside those that it counts on, so that they can show that
// they report again: an eighth, at least one.
uint32_t tern_unreliable_places(uint32_t cohort);

// How long the open round's members take, by its reports.
struct tern_pace {
    uint64_t median_ms;      // from task to report
    bool known;              // half of the quorum have reported, so that the median is usable
    uint64_t least_ms;       // that every member has
    uint64_t window_ms;      // of the round, from its opening or its extension to its deadline
    uint64_t window_from_ms; // when that began
};

// scratch: as many as there are members. least_ms: what busy machines and slow links may take.
void tern_pace_of(const struct tern_round_machine *machine, uint64_t least_ms, uint64_t *scratch,
                  struct tern_pace *pace);

// When to invite another client in place of a member that was tasked at tasked_ms: after four times as long as the others
// take, or as it takes itself (own_ms; 0 = not known), whichever is longer. At the deadline at the latest, and while
// the others' time is not known.
uint64_t tern_overdue_ms(const struct tern_pace *pace, uint64_t tasked_ms, uint64_t own_ms);

// At the end of a round, or of a window that is extended: whether the member should have reported within that window. A
// member that had its task for half of the window should have, even if nothing else is known.
bool tern_has_missed(const struct tern_pace *pace, uint64_t tasked_ms, uint64_t own_ms,
                     uint64_t now);

#endif
