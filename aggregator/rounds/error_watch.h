// Watches one client's reports of its error buffer and detects a foreign buffer: a generation that no directive ordered, a
// sequence that went back, two devices with one identity. federation/ledger.c calls this module for each check-in and each
// accepted update. Pure; reentrant.
//
// An honest client's reports go forward: its sequence grows with each update that it encodes. Its generation changes when
// the buffer starts from zero, which the client saves before it sends anything of the new buffer. No honest client goes
// back after lost answers, late updates that it took back, changes that a budget held back, or power cuts between records.
//
// An abandoned connection can deliver a check-in minutes late. So a check-in that goes back only raises a doubt, which the
// next report confirms or clears. An accepted update is counted once and cannot be old.
#ifndef TERN_ERROR_WATCH_H
#define TERN_ERROR_WATCH_H

#include <stdbool.h>
#include <stdint.h>

// The numbers are stored.
enum tern_error_anomaly {
    TERN_ANOMALY_NONE = 0,
    TERN_ANOMALY_LOST = 1,     // a new buffer replaced one that was not empty
    TERN_ANOMALY_RESTORED = 2, // the client went back to an earlier state
    TERN_ANOMALY_CLONED = 3,   // two devices, or two states of one device, report in turns
};
#define TERN_ANOMALY_COUNT 4

// "none", "lost", "restored", "cloned"; "unknown" for another number.
const char *tern_error_anomaly_name(uint32_t anomaly);
// Explains the anomaly and what the operator does about it; "" for none.
const char *tern_error_anomaly_sentence(uint32_t anomaly);

struct tern_reported_buffer {
    uint32_t generation;
    uint32_t sequence; // updates encoded in this generation
    bool filled;       // the buffer's norm is not 0
};

struct tern_error_suspicion {
    enum tern_error_anomaly anomaly; // NONE = no doubt
    uint32_t generation;             // the reported one
};

// All zeros: the client has not reported yet.
struct tern_error_watch {
    bool known; // `last` holds a report
    struct tern_reported_buffer last;
    uint32_t previous_generation; // 0 = none
    enum tern_error_anomaly anomaly;
    uint32_t anomaly_generation; // the generation at the time of the anomaly
    struct tern_error_suspicion doubt;
};

struct tern_error_report {
    struct tern_reported_buffer facts;
    bool accepted; // reported with an accepted update; false: with a check-in
    bool ordered;  // the client's last directive was to reset the buffer
};

struct tern_error_verdict {
    bool taken; // the watch has the new facts; false: it doubts them and keeps the earlier ones
    bool news;  // the anomaly is new
};

struct tern_error_verdict tern_error_watch_add_report(struct tern_error_watch *watch,
                                                      const struct tern_error_report *report);

// Notes that the client sent another body for a round whose update was accepted before: a second device, without the first
// one's records. Returns whether this anomaly is new.
bool tern_error_watch_add_conflict(struct tern_error_watch *watch);

// Whether the client must discard its buffer because part of it was applied before: the buffer went back or is another
// device's, and the client has not started a new one since.
bool tern_error_watch_must_reset(const struct tern_error_watch *watch);

#endif
