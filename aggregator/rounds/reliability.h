// Which clients take tasks and do not report, and how long a member may have its task before others are
// asked in its place. Who calls: aggregator/federation. Pure; reentrant.
#ifndef TERN_RELIABILITY_H
#define TERN_RELIABILITY_H

#include "rounds/machine.h"

// Of a client: the share of its tasks that it did not report, of which the newest weighs a quarter and each
// before it less; 0 for one that has missed none. What it is after one more.
float tern_unreported_missed(float unreported);
float tern_unreported_reported(float unreported);

// Rounds do not count on a client of that much: it missed two tasks in a row, or nearly every second.
#define TERN_UNRELIABLE 0.4F
bool tern_is_unreliable(float unreported);

// A member that comes for its task again was cut off, lost power, or failed. After so many tries without a report
// others may be asked in its place, and it counts as a task that was missed.
#define TERN_TRIES 3
// tries: with the one that begins. Whether it is the first after so many, or after so many more; whether it is
// any after so many.
bool tern_tries_failed(uint32_t tries);
bool tern_tries_are_over(uint32_t tries);

// How many of them a round of that cohort invites beside those that it counts on, so that they can show
// that they report after all: an eighth, and one at the least.
uint32_t tern_unreliable_places(uint32_t cohort);

// What the open round's reports say of how long one takes.
struct tern_pace {
    uint64_t median_ms;      // from task to report
    bool known;              // half of the quorum have reported, so that the median says something
    uint64_t least_ms;       // that any member has
    uint64_t window_ms;      // of the round, from its opening or its extension to its deadline
    uint64_t window_from_ms; // when that began
};

// scratch: as many as there are members. least_ms: what busy machines and slow links may take.
void tern_pace_of(const struct tern_round_machine *machine, uint64_t least_ms, uint64_t *scratch,
                  struct tern_pace *pace);

// When another should be asked in place of a member that has its task since then: after four times as long as
// the others take, or as itself does (0 = not known), whichever is longer. While the others' time
// is not known, and in any case, at the deadline.
uint64_t tern_overdue_ms(const struct tern_pace *pace, uint64_t tasked_ms, uint64_t own_ms);

// At the end of a round, or of a window that is extended: whether it was within that window that the member
// should have reported. One that had its task for half of the window should have, however little is known.
bool tern_has_missed(const struct tern_pace *pace, uint64_t tasked_ms, uint64_t own_ms,
                     uint64_t now);

#endif
