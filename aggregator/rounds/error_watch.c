#include "rounds/error_watch.h"

const char *tern_error_anomaly_name(uint32_t anomaly)
{
    static const char *const names[TERN_ANOMALY_COUNT] = {"none", "lost", "restored", "cloned"};
    return anomaly < TERN_ANOMALY_COUNT ? names[anomaly] : "unknown";
}

const char *tern_error_anomaly_sentence(uint32_t anomaly)
{
    switch (anomaly) {
    case TERN_ANOMALY_LOST:
        return "The client started a new error buffer without a directive to reset it: it was "
               "reinstalled, or its record was damaged. The old buffer's changes are lost. Act "
               "only if it "
               "happens again.";
    case TERN_ANOMALY_RESTORED:
        return "The client returned to an earlier state: a backup was restored, or its storage "
               "returned an old record. Part of the old error buffer was applied before, so the "
               "client must reset it.";
    case TERN_ANOMALY_CLONED:
        return "Two devices use this client's identity, or one is restored again and again. "
               "Revoke it, and enrol each device with its own code.";
    default:
        return "";
    }
}

static bool had_content(const struct tern_error_watch *watch)
{
    return watch->last.sequence > 0 || watch->last.filled;
}

// Whether the report fits a client that has reset its buffer: the new buffer contains one update, or a first change
// that a byte budget held back. A newly installed client reports an empty buffer instead.
static bool is_after_reset(const struct tern_reported_buffer *facts)
{
    return facts->sequence == 1 || (facts->sequence == 0 && facts->filled);
}

// Returns the anomaly of a client whose report is older than an earlier report. The first time, a backup was restored.
// If it happens again before the client could start a new buffer, two devices with one identity report alternately.
static enum tern_error_anomaly anomaly_of_older_report(const struct tern_error_watch *watch,
                                                       uint32_t to)
{
    const bool recent = watch->anomaly_generation == watch->last.generation ||
                        watch->anomaly_generation == watch->previous_generation;
    switch (watch->anomaly) {
    case TERN_ANOMALY_RESTORED:
        return recent && (watch->anomaly_generation == to || to != watch->last.generation)
                   ? TERN_ANOMALY_CLONED
                   : TERN_ANOMALY_RESTORED;
    case TERN_ANOMALY_LOST: // the buffer was not lost: another device has it
        return recent && to == watch->previous_generation ? TERN_ANOMALY_CLONED
                                                          : TERN_ANOMALY_RESTORED;
    case TERN_ANOMALY_NONE:
    case TERN_ANOMALY_CLONED:
        break;
    }
    return TERN_ANOMALY_RESTORED;
}

static enum tern_error_anomaly suspected_anomaly(const struct tern_error_watch *watch,
                                                 const struct tern_error_report *report)
{
    const struct tern_reported_buffer *facts = &report->facts;
    const struct tern_reported_buffer *last = &watch->last;
    if (!watch->known) {
        return TERN_ANOMALY_NONE;
    }
    if (facts->generation == last->generation) {
        const bool back = facts->sequence < last->sequence ||
                          (report->accepted && facts->sequence == last->sequence);
        return back ? anomaly_of_older_report(watch, facts->generation) : TERN_ANOMALY_NONE;
    }
    if (watch->previous_generation != 0 && facts->generation == watch->previous_generation) {
        return anomaly_of_older_report(watch, facts->generation);
    }
    if ((report->reset_was_ordered && is_after_reset(facts)) || !had_content(watch)) {
        return TERN_ANOMALY_NONE;
    }
    return TERN_ANOMALY_LOST;
}

// Records the anomaly. Returns whether the anomaly is new. A client found to be cloned keeps that anomaly.
static bool record_anomaly(struct tern_error_watch *watch, enum tern_error_anomaly anomaly,
                           uint32_t generation)
{
    const bool news = watch->anomaly != TERN_ANOMALY_CLONED;
    watch->anomaly = news ? anomaly : TERN_ANOMALY_CLONED;
    watch->anomaly_generation = generation;
    watch->suspicion = (struct tern_error_suspicion){TERN_ANOMALY_NONE, 0};
    return news;
}

static void store_facts(struct tern_error_watch *watch, const struct tern_reported_buffer *facts)
{
    if (facts->generation != watch->last.generation && had_content(watch)) {
        watch->previous_generation = watch->last.generation;
    }
    watch->known = true;
    watch->last = *facts;
}

// Settles an earlier suspicion by a report that raises none. A report after a reset confirms the suspicion: a client
// without an anomaly would have reported before the reset, to get its task, and that report would have cleared the
// suspicion.
static bool settle_suspicion(struct tern_error_watch *watch,
                             const struct tern_reported_buffer *facts)
{
    const struct tern_error_suspicion suspicion = watch->suspicion;
    if (suspicion.anomaly != TERN_ANOMALY_NONE && facts->generation != watch->last.generation) {
        return record_anomaly(watch, suspicion.anomaly, suspicion.generation);
    }
    watch->suspicion = (struct tern_error_suspicion){TERN_ANOMALY_NONE, 0};
    return false;
}

struct tern_error_verdict tern_error_watch_add_report(struct tern_error_watch *watch,
                                                      const struct tern_error_report *report)
{
    struct tern_error_verdict verdict = {.applied = true};
    const enum tern_error_anomaly anomaly = suspected_anomaly(watch, report);
    if (anomaly == TERN_ANOMALY_NONE) {
        verdict.is_new = settle_suspicion(watch, &report->facts);
    } else if (!report->accepted && watch->suspicion.anomaly == TERN_ANOMALY_NONE) {
        watch->suspicion = (struct tern_error_suspicion){anomaly, report->facts.generation};
        verdict.applied = false;
        return verdict;
    } else {
        verdict.is_new = record_anomaly(watch, anomaly, report->facts.generation);
    }
    store_facts(watch, &report->facts);
    return verdict;
}

bool tern_error_watch_add_conflict(struct tern_error_watch *watch)
{
    return record_anomaly(watch, TERN_ANOMALY_CLONED, watch->last.generation);
}

static bool was_applied(enum tern_error_anomaly anomaly)
{
    return anomaly == TERN_ANOMALY_RESTORED || anomaly == TERN_ANOMALY_CLONED;
}

bool tern_error_watch_must_reset(const struct tern_error_watch *watch)
{
    return was_applied(watch->suspicion.anomaly) ||
           (was_applied(watch->anomaly) && watch->anomaly_generation == watch->last.generation);
}
