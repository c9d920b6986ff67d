// The order in which updates arrive, restarts between them, batches that are taken back and little
// memory leave no trace in the model.
#include "harness.h"

#include "merge/replay.h"
#include <stdio.h>
#include <string.h>

#include "store/run_sql.h"
#include "tests/cases.h"

#define CLIENTS 4

static struct harness harness;

// What happens on the way of a round.
struct course {
    uint64_t order[CLIENTS];
    unsigned restart_after; // updates; 0 = never
    unsigned fail_before;   // the batch of that update is taken back once; 0 = none
    uint64_t memory;
    enum { VECTORS_IN_MEMORY, VECTORS_IN_FILES, VECTORS_WITHOUT_FOLDER } vectors;
};

static void make(const struct course *course)
{
    harness_make(&harness);
    struct tern_federation_config *federation = &harness.config.federation;
    federation->round.cohort = CLIENTS;
    federation->min_clients = CLIENTS;
    federation->codec_up = (struct tern_codec){
        .id = TERN_CODEC_3LC, .sparsity = 1.0F, .clip = 4.0F, .coder = TERN_CODER_RANGE};
    federation->strategy_parameters[TERN_STRATEGY_NORM_BOUND] = 2.0F; // client 1 is beyond
    federation->strategy_memory = course->memory;
    const char *folders[] = {NULL, harness.folder, "/nowhere"};
    federation->vectors.folder = folders[course->vectors];
    harness_start_with(&harness, CLIENTS);
}

static void play(const struct course *course, uint8_t model_sha256[TERN_SHA256_SIZE])
{
    tern_CheckinReply tasks[CLIENTS + 1];
    struct tern_replay_report report;
    struct tern_db_version version;
    char why[256];
    make(course);
    for (uint64_t client = 1; client <= CLIENTS; client++) {
        tasks[client] = checkin(&harness, client, NULL);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        const uint64_t client = course->order[i];
        if (course->fail_before == i + 1) {
            refuse_writes(harness.path, "AFTER INSERT ON updates", "");
            assert_int_equal(put_drawn(&harness, client, &tasks[client].task), 503);
            take_writes(harness.path);
            harness_await_store(&harness);
        }
        assert_int_equal(put_drawn(&harness, client, &tasks[client].task), 200);
        if (course->restart_after == i + 1) {
            harness_restart(&harness);
        }
    }
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(tern_db_version_get(harness.db, 1, &version), TERN_OK);
    memcpy(model_sha256, version.model_sha256, TERN_SHA256_SIZE);
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &report, why), TERN_OK);
    assert_int_equal(report.updates, CLIENTS);
    harness_free(&harness);
}

CASE(test_nothing_on_the_way_changes_the_model)
{
    static const struct course courses[] = {
        {.order = {4, 2, 1, 3}},
        {.order = {3, 4, 2, 1}, .restart_after = 1},
        {.order = {2, 1, 4, 3}, .restart_after = 3},
        {.order = {1, 4, 3, 2}, .fail_before = 1},
        {.order = {4, 3, 2, 1}, .fail_before = 4},
        {.order = {1, 2, 3, 4}, .memory = 1},    // one coordinate after the other
        {.order = {4, 1, 2, 3}, .memory = 6000}, // some coordinates
        {.order = {3, 1, 4, 2}, .vectors = VECTORS_IN_FILES, .restart_after = 2, .fail_before = 4},
        {.order = {2, 4, 3, 1}, .vectors = VECTORS_WITHOUT_FOLDER},
    };
    static const struct course plain = {.order = {1, 2, 3, 4}};
    uint8_t expected[TERN_SHA256_SIZE];
    uint8_t found[TERN_SHA256_SIZE];
    play(&plain, expected);
    for (size_t i = 0; i < sizeof courses / sizeof courses[0]; i++) {
        play(&courses[i], found);
        assert_memory_equal(found, expected, TERN_SHA256_SIZE);
    }
}
