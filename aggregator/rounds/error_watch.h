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

// Faults of a client's error buffer. The numbers are stored in the database.
enum tern_error_anomaly {
    TERN_ANOMALY_NONE = 0,
    TERN_ANOMALY_LOST = 1,     // a new buffer replaced a buffer that was not empty
    TERN_ANOMALY_RESTORED = 2, // the client returned to an earlier state
    TERN_ANOMALY_CLONED = 3,   // two devices, or two states of one device, report alternately
};
#define TERN_ANOMALY_COUNT 4

// Returns "none", "lost", "restored" or "cloned"; "unknown" for another number.
const char *tern_error_anomaly_name(uint32_t anomaly);
// Returns sentences that explain the anomaly and what the operator should do; "" for TERN_ANOMALY_NONE.
const char *tern_error_anomaly_sentence(uint32_t anomaly);

struct tern_reported_buffer {
    uint32_t generation;
    uint32_t sequence; // number of updates encoded since the buffer was last zero
    bool filled;       // the buffer's norm is not 0
};

struct tern_error_suspicion {
    enum tern_error_anomaly anomaly; // the suspected anomaly; TERN_ANOMALY_NONE = no suspicion
    uint32_t generation;             // generation in the suspicious report
};

// The aggregator's facts about one client's buffer. All zeros: the client has not reported yet.
struct tern_error_watch {
    bool known; // `last` holds a report
    struct tern_reported_buffer last;
    uint32_t previous_generation; // generation of the buffer before the last one; 0 = none
    enum tern_error_anomaly anomaly;
    uint32_t anomaly_generation; // generation of the buffer when the anomaly was found
    struct tern_error_suspicion suspicion;
};

struct tern_error_report {
    struct tern_reported_buffer facts;
    bool accepted; // true: reported with an accepted update; false: reported with a check-in
    bool reset_was_ordered; // the client's last directive was to reset the buffer
};

struct tern_error_verdict {
    // True: the watch has the report's facts; false: it suspects an anomaly and keeps the earlier facts.
    bool applied;
    bool is_new; // the report showed a new anomaly
};

struct tern_error_verdict tern_error_watch_add_report(struct tern_error_watch *watch,
                                                      const struct tern_error_report *report);

// Records that the client sent another body for a round whose update was accepted before, as a second device without
// the first device's records does. Returns whether this anomaly is new.
bool tern_error_watch_add_conflict(struct tern_error_watch *watch);

// Whether the client must discard its buffer, because part of its values was applied before: the buffer is an earlier
// state or another device's, and the client has not started a new buffer since.
bool tern_error_watch_must_reset(const struct tern_error_watch *watch);

#endif
