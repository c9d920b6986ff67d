// Stories of what a client tells of its error buffer, and what is noticed.
#include "rounds/error_watch.h"
#include "tests/cases.h"

#include <stdio.h>
#include <string.h>

enum { A = 0xa, B = 0xb, C = 0xc };
enum { CHECKIN, UPDATE, CONFLICT };

#define NONE TERN_ANOMALY_NONE
#define LOST TERN_ANOMALY_LOST
#define RESTORED TERN_ANOMALY_RESTORED
#define CLONED TERN_ANOMALY_CLONED

struct step {
    int kind;
    uint32_t generation;
    uint32_t sequence;
    bool filled;
    bool ordered;                    // the client was ordered to reset before it
    enum tern_error_anomaly anomaly; // afterwards
    bool must_reset;
    bool doubted;
};

struct story {
    const char *name;
    struct step steps[10]; // ends with generation 0
};

static const struct story honest[] = {
    {"a new client, and one more round",
     {{CHECKIN, A, 0, false, .anomaly = NONE},
      {UPDATE, A, 1, true, .anomaly = NONE},
      {CHECKIN, A, 1, true, .anomaly = NONE},
      {UPDATE, A, 2, true, .anomaly = NONE}}},
    {"a new client that starts again before it saved anything",
     {{CHECKIN, A, 0, false, .anomaly = NONE},
      {CHECKIN, B, 0, false, .anomaly = NONE},
      {UPDATE, B, 1, true, .anomaly = NONE}}},
    {"a late update is taken back, and its number was never accepted",
     {{UPDATE, A, 1, true, .anomaly = NONE},
      {CHECKIN, A, 2, true, .anomaly = NONE},
      {UPDATE, A, 3, true, .anomaly = NONE}}},
    {"a late update whose check-in was lost, too",
     {{UPDATE, A, 1, true, .anomaly = NONE}, {UPDATE, A, 3, true, .anomaly = NONE}}},
    {"a change that a budget held back, of a new client and of an old one",
     {{CHECKIN, A, 0, true, .anomaly = NONE},
      {CHECKIN, A, 0, true, .anomaly = NONE},
      {UPDATE, A, 1, true, .anomaly = NONE},
      {CHECKIN, A, 1, true, .anomaly = NONE},
      {CHECKIN, A, 1, true, .anomaly = NONE}}},
    {"a reset that was ordered",
     {{UPDATE, A, 5, true, .anomaly = NONE},
      {CHECKIN, A, 5, true, .ordered = true, .anomaly = NONE}, // not done yet
      {UPDATE, B, 1, true, .ordered = true, .anomaly = NONE},
      {CHECKIN, B, 1, true, .ordered = true, .anomaly = NONE},
      {UPDATE, B, 2, true, .anomaly = NONE}}},
    {"a reset that was ordered, and the update was late",
     {{UPDATE, A, 5, true, .anomaly = NONE},
      {CHECKIN, B, 1, true, .ordered = true, .anomaly = NONE},
      {UPDATE, B, 2, true, .anomaly = NONE}}},
    {"a reset that was ordered, and a budget held the change back; then the power was cut, and the "
     "same task came again",
     {{UPDATE, A, 5, true, .anomaly = NONE},
      {CHECKIN, B, 0, true, .ordered = true, .anomaly = NONE},
      {UPDATE, C, 1, true, .ordered = true, .anomaly = NONE}}},
    {"a check-in on a connection that was given up arrives after the update",
     {{UPDATE, A, 4, true, .anomaly = NONE},
      {UPDATE, A, 5, true, .anomaly = NONE},
      {CHECKIN, A, 4, true, .anomaly = NONE, .must_reset = true, .doubted = true},
      {CHECKIN, A, 5, true, .anomaly = NONE},
      {CHECKIN, A, 4, true, .anomaly = NONE, .must_reset = true, .doubted = true},
      {UPDATE, A, 6, true, .anomaly = NONE}}},
    {"one from before a restart without records",
     {{UPDATE, B, 1, true, .anomaly = NONE},
      {CHECKIN, A, 0, false, .anomaly = NONE, .doubted = true},
      {UPDATE, B, 2, true, .anomaly = NONE}}},
};

static const struct story guilty[] = {
    {"a damaged record",
     {{UPDATE, A, 5, true, .anomaly = NONE},
      {CHECKIN, B, 0, false, .anomaly = NONE, .doubted = true},
      {CHECKIN, B, 0, false, .anomaly = LOST},
      {UPDATE, B, 1, true, .anomaly = LOST},
      {UPDATE, B, 2, true, .anomaly = LOST}}},
    {"a damaged record, and the task comes at once",
     {{UPDATE, A, 5, true, .anomaly = NONE},
      {CHECKIN, B, 0, false, .anomaly = NONE, .doubted = true},
      {UPDATE, B, 1, true, .anomaly = LOST}}},
    {"a damaged record of a change that was only held back",
     {{CHECKIN, A, 0, true, .anomaly = NONE}, {UPDATE, B, 1, true, .anomaly = LOST}}},
    {"installed anew right after a reset",
     {{UPDATE, A, 5, true, .anomaly = NONE},
      {UPDATE, B, 1, true, .ordered = true, .anomaly = NONE},
      {CHECKIN, C, 0, false, .ordered = true, .anomaly = NONE, .doubted = true},
      {UPDATE, C, 1, true, .anomaly = LOST}}},
    {"a backup that obeys the reset",
     {{UPDATE, A, 5, true, .anomaly = NONE},
      {CHECKIN, A, 3, true, .anomaly = NONE, .must_reset = true, .doubted = true},
      {UPDATE, B, 1, true, .ordered = true, .anomaly = RESTORED},
      {UPDATE, B, 2, true, .anomaly = RESTORED}}},
    {"a backup that has no task for a while",
     {{UPDATE, A, 5, true, .anomaly = NONE},
      {CHECKIN, A, 3, true, .anomaly = NONE, .must_reset = true, .doubted = true},
      {CHECKIN, A, 3, true, .anomaly = RESTORED, .must_reset = true},
      {UPDATE, A, 4, true, .anomaly = RESTORED, .must_reset = true},
      {CHECKIN, A, 4, true, .anomaly = RESTORED, .must_reset = true},
      {UPDATE, B, 1, true, .ordered = true, .anomaly = RESTORED}}},
    {"a backup of before an ordered reset, and years later another",
     {{UPDATE, A, 5, true, .anomaly = NONE},
      {UPDATE, B, 1, true, .ordered = true, .anomaly = NONE},
      {UPDATE, A, 6, true, .anomaly = RESTORED, .must_reset = true},
      {UPDATE, C, 1, true, .ordered = true, .anomaly = RESTORED},
      {UPDATE, C, 9, true, .anomaly = RESTORED},
      {UPDATE, C, 4, true, .anomaly = RESTORED, .must_reset = true}}},
    {"a backup whose update counts",
     {{UPDATE, A, 5, true, .anomaly = NONE},
      {UPDATE, A, 5, true, .anomaly = RESTORED, .must_reset = true}}},
    {"a clone with the same records",
     {{UPDATE, A, 5, true, .anomaly = NONE},
      {UPDATE, A, 5, true, .anomaly = RESTORED, .must_reset = true},
      {UPDATE, A, 6, true, .anomaly = RESTORED, .must_reset = true},
      {UPDATE, A, 6, true, .anomaly = CLONED, .must_reset = true},
      {UPDATE, A, 7, true, .anomaly = CLONED, .must_reset = true}}},
    {"a clone of which one was reset",
     {{UPDATE, A, 5, true, .anomaly = NONE},
      {UPDATE, A, 5, true, .anomaly = RESTORED, .must_reset = true},
      {UPDATE, B, 1, true, .ordered = true, .anomaly = RESTORED},
      {UPDATE, A, 6, true, .anomaly = CLONED, .must_reset = true},
      {UPDATE, C, 1, true, .ordered = true, .anomaly = CLONED},
      {UPDATE, B, 2, true, .ordered = true, .anomaly = CLONED, .must_reset = true}}},
    {"a clone of the identity alone",
     {{UPDATE, A, 5, true, .anomaly = NONE},
      {CHECKIN, B, 0, false, .anomaly = NONE, .doubted = true},
      {CHECKIN, A, 5, true, .anomaly = NONE},
      {UPDATE, B, 1, true, .anomaly = LOST},
      {CHECKIN, A, 5, true, .anomaly = LOST, .must_reset = true, .doubted = true},
      {UPDATE, A, 6, true, .anomaly = CLONED, .must_reset = true},
      {UPDATE, B, 2, true, .anomaly = CLONED, .must_reset = true}}},
    {"two bodies for one round",
     {{UPDATE, A, 5, true, .anomaly = NONE},
      {CONFLICT, A, 5, true, .anomaly = CLONED, .must_reset = true}}},
};

static void tell(const struct story *stories, size_t count)
{
    for (size_t s = 0; s < count; s++) {
        struct tern_error_watch watch = {0};
        for (const struct step *step = stories[s].steps; step->generation != 0; step++) {
            const enum tern_error_anomaly before = watch.anomaly;
            const struct tern_error_report report = {
                {step->generation, step->sequence, step->filled},
                step->kind == UPDATE,
                step->ordered};
            struct tern_error_verdict verdict = {.applied = true};
            if (step->kind == CONFLICT) {
                verdict.is_new = tern_error_watch_add_conflict(&watch);
            } else {
                verdict = tern_error_watch_add_report(&watch, &report);
            }
            if (watch.anomaly != step->anomaly || verdict.applied == step->doubted ||
                tern_error_watch_must_reset(&watch) != step->must_reset ||
                (watch.anomaly != before && !verdict.is_new)) {
                fail_msg("%s, step %td: anomaly %s, taken %d, reset %d, news %d", stories[s].name,
                         step - stories[s].steps, tern_error_anomaly_name(watch.anomaly),
                         verdict.applied, tern_error_watch_must_reset(&watch), verdict.is_new);
            }
            if (verdict.applied) {
                assert_int_equal(watch.last.generation, step->generation);
                assert_int_equal(watch.last.sequence, step->sequence);
            }
        }
    }
}

CASE(test_honest_clients_are_not_suspected)
{
    tell(honest, sizeof honest / sizeof honest[0]);
}

CASE(test_what_went_wrong_is_found)
{
    tell(guilty, sizeof guilty / sizeof guilty[0]);
}

CASE(test_a_clone_is_news_once)
{
    struct tern_error_watch watch = {.known = true, .last = {A, 5, true}};
    assert_true(tern_error_watch_add_conflict(&watch));
    assert_false(tern_error_watch_add_conflict(&watch));
    const struct tern_error_report back = {{A, 2, true}, true, false};
    assert_false(tern_error_watch_add_report(&watch, &back).is_new);
}

CASE(test_anomalies_are_named)
{
    for (uint32_t i = 1; i < TERN_ANOMALY_COUNT; i++) {
        assert_string_not_equal(tern_error_anomaly_name(i), "unknown");
        assert_true(strlen(tern_error_anomaly_sentence(i)) > 40);
    }
    assert_string_equal(tern_error_anomaly_sentence(TERN_ANOMALY_NONE), "");
    assert_string_equal(tern_error_anomaly_name(TERN_ANOMALY_COUNT), "unknown");
}
