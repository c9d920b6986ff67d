#include "rounds/error_watch.h"

const char *tern_error_finding_name(uint32_t finding)
{
    static const char *const names[TERN_FINDING_COUNT] = {"none", "lost", "restored", "cloned"};
    return finding < TERN_FINDING_COUNT ? names[finding] : "unknown";
}

const char *tern_error_finding_sentence(uint32_t finding)
{
    switch (finding) {
    case TERN_FINDING_LOST:
        return "The client started a new error buffer that nobody ordered: it was installed anew, "
               "or its record was damaged. The old buffer's changes are lost. Act only if it "
               "happens again.";
    case TERN_FINDING_RESTORED:
        return "The client went back to an earlier state: a backup was restored, or its storage "
               "returned an old record. Part of that buffer was applied before, so the client "
               "must reset it.";
    case TERN_FINDING_CLONED:
        return "Two devices use this client's identity, or one is restored again and again. "
               "Revoke it, and enrol each device with its own code.";
    default:
        return "";
    }
}

static bool held_something(const struct tern_error_watch *watch)
{
    return watch->last.sequence > 0 || watch->last.filled;
}

// Whether the buffer was reset and has its first update since, or its first change that a budget held back. A newly
// installed client reports an empty buffer instead.
static bool is_after_reset(const struct tern_error_facts_told *facts)
{
    return facts->sequence == 1 || (facts->sequence == 0 && facts->filled);
}

// Returns the finding for a client that went back. The first time it is a restored backup. If it happens again before the
// client could start a new buffer, two devices report in turns.
static enum tern_error_finding went_back(const struct tern_error_watch *watch, uint32_t to)
{
    const bool recent = watch->finding_generation == watch->last.generation ||
                        watch->finding_generation == watch->previous_generation;
    switch (watch->finding) {
    case TERN_FINDING_RESTORED:
        return recent && (watch->finding_generation == to || to != watch->last.generation)
                   ? TERN_FINDING_CLONED
                   : TERN_FINDING_RESTORED;
    case TERN_FINDING_LOST: // not lost: another device has the buffer
        return recent && to == watch->previous_generation ? TERN_FINDING_CLONED
                                                          : TERN_FINDING_RESTORED;
    case TERN_FINDING_NONE:
    case TERN_FINDING_CLONED:
        break;
    }
    return TERN_FINDING_RESTORED;
}

static enum tern_error_finding suspect(const struct tern_error_watch *watch,
                                       const struct tern_error_told *told)
{
    const struct tern_error_facts_told *facts = &told->facts;
    const struct tern_error_facts_told *last = &watch->last;
    if (!watch->known) {
        return TERN_FINDING_NONE;
    }
    if (facts->generation == last->generation) {
        const bool back = facts->sequence < last->sequence ||
                          (told->accepted && facts->sequence == last->sequence);
        return back ? went_back(watch, facts->generation) : TERN_FINDING_NONE;
    }
    if (watch->previous_generation != 0 && facts->generation == watch->previous_generation) {
        return went_back(watch, facts->generation);
    }
    if ((told->ordered && is_after_reset(facts)) || !held_something(watch)) {
        return TERN_FINDING_NONE;
    }
    return TERN_FINDING_LOST;
}

// Returns whether the finding is new. A client found to be cloned keeps that finding.
static bool find(struct tern_error_watch *watch, enum tern_error_finding finding,
                 uint32_t generation)
{
    const bool news = watch->finding != TERN_FINDING_CLONED;
    watch->finding = news ? finding : TERN_FINDING_CLONED;
    watch->finding_generation = generation;
    watch->doubt = (struct tern_error_doubt){TERN_FINDING_NONE, 0};
    return news;
}

static void take_over(struct tern_error_watch *watch, const struct tern_error_facts_told *facts)
{
    if (facts->generation != watch->last.generation && held_something(watch)) {
        watch->previous_generation = watch->last.generation;
    }
    watch->known = true;
    watch->last = *facts;
}

// Called for a report that raises no doubt itself. A report that shows an obeyed reset confirms the doubt: a client that
// had not gone back would have reported in between, to get its task, and so cleared the doubt.
static bool settle_doubt(struct tern_error_watch *watch, const struct tern_error_facts_told *facts)
{
    const struct tern_error_doubt doubt = watch->doubt;
    if (doubt.finding != TERN_FINDING_NONE && facts->generation != watch->last.generation) {
        return find(watch, doubt.finding, doubt.generation);
    }
    watch->doubt = (struct tern_error_doubt){TERN_FINDING_NONE, 0};
    return false;
}

struct tern_error_verdict tern_error_watch_take(struct tern_error_watch *watch,
                                                const struct tern_error_told *told)
{
    struct tern_error_verdict verdict = {.taken = true};
    const enum tern_error_finding finding = suspect(watch, told);
    if (finding == TERN_FINDING_NONE) {
        verdict.news = settle_doubt(watch, &told->facts);
    } else if (!told->accepted && watch->doubt.finding == TERN_FINDING_NONE) {
        watch->doubt = (struct tern_error_doubt){finding, told->facts.generation};
        verdict.taken = false;
        return verdict;
    } else {
        verdict.news = find(watch, finding, told->facts.generation);
    }
    take_over(watch, &told->facts);
    return verdict;
}

bool tern_error_watch_conflict(struct tern_error_watch *watch)
{
    return find(watch, TERN_FINDING_CLONED, watch->last.generation);
}

static bool was_applied(enum tern_error_finding finding)
{
    return finding == TERN_FINDING_RESTORED || finding == TERN_FINDING_CLONED;
}

bool tern_error_watch_must_reset(const struct tern_error_watch *watch)
{
    return was_applied(watch->doubt.finding) ||
           (was_applied(watch->finding) && watch->finding_generation == watch->last.generation);
}
