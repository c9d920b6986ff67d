// Watches one client's reports of its error buffer, and detects a buffer that is not the one that the client had: a
// generation that no directive ordered, a sequence that went back, two devices under one name. federation/ledger.c
// calls it for each check-in and each accepted update; tests call it with
// whole sequences of reports.
//
// An honest client's reports go forward: the sequence grows with each update that it encodes, and the
// generation changes when the buffer starts from zero, which is saved before anything of it is
// sent. Nothing that can happen to such a client makes it go back: lost answers, late updates
// that it takes back, changes that a budget held back, power cuts between two records.
//
// A check-in may be older than it looks: a connection that was given up can deliver it minutes
// later. So a check-in that goes back only raises a doubt, which the next report confirms or clears. An accepted update is counted once and cannot be old.
//
// Pure; reentrant.
#ifndef TERN_ERROR_WATCH_H
#define TERN_ERROR_WATCH_H

#include <stdbool.h>
#include <stdint.h>

// The numbers are stored.
enum tern_error_finding {
    TERN_FINDING_NONE = 0,
    TERN_FINDING_LOST = 1,     // a new buffer in the place of one that held something
    TERN_FINDING_RESTORED = 2, // an earlier state of the client is back
    TERN_FINDING_CLONED = 3,   // two devices, or two states of one, in turns
};
#define TERN_FINDING_COUNT 4

// "none", "lost", "restored", "cloned"; "unknown" for another number.
const char *tern_error_finding_name(uint32_t finding);
// What it means and what to do, for people; "" for none.
const char *tern_error_finding_sentence(uint32_t finding);

struct tern_error_facts_told {
    uint32_t generation;
    uint32_t sequence; // updates encoded in it
    bool filled;       // its norm is not 0
};

struct tern_error_doubt {
    enum tern_error_finding finding; // NONE = there is no doubt
    uint32_t generation;             // that was reported
};

// All zeros: a client that has reported nothing yet.
struct tern_error_watch {
    bool known; // `last` was reported
    struct tern_error_facts_told last;
    uint32_t previous_generation; // before the present one; 0 = none
    enum tern_error_finding finding;
    uint32_t finding_generation; // the generation at the time of the finding
    struct tern_error_doubt doubt;
};

struct tern_error_told {
    struct tern_error_facts_told facts;
    bool accepted; // by an update that was just accepted; otherwise by a check-in
    bool ordered;  // the last directive that this client was given is to reset the buffer
};

struct tern_error_verdict {
    bool taken; // the facts are the client's now; false: doubted, the watch keeps the former ones
    bool news;  // a finding was made that was not there before
};

struct tern_error_verdict tern_error_watch_take(struct tern_error_watch *watch,
                                                const struct tern_error_told *told);

// The client sent another body for a round whose update was accepted before. Only a device without the
// records of the one that sent the first does that. Returns whether this was not known yet.
bool tern_error_watch_conflict(struct tern_error_watch *watch);

// Whether the client must give up its present buffer because part of it was applied already: it went
// back, or came from another device, and the client has not started anew since.
bool tern_error_watch_must_reset(const struct tern_error_watch *watch);

#endif
