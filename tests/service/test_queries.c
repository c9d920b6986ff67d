// What the service asks of the database at work, round after round, reads rows by an index, and never
// more of them the longer the federation has gone on; bodies do not pass SQLite's sorter, which
// would write them to disk once more. EXPLAIN QUERY PLAN tells, of every statement that ran.
#include "federation/accuracy.h"
#include "harness.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "tests/cases.h"

// --- The statements that ran (the linker puts this in between)

#define STATEMENTS 200

static atomic_bool watching;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // the service's thread and that of merges
static char *texts[STATEMENTS];
static size_t text_count;

int __real_sqlite3_step(sqlite3_stmt *statement);
int __wrap_sqlite3_step(sqlite3_stmt *statement);

static void remember(const char *text)
{
    for (size_t i = 0; i < text_count; i++) {
        if (strcmp(texts[i], text) == 0) {
            return;
        }
    }
    assert_true(text_count < STATEMENTS);
    texts[text_count] = strdup(text);
    assert_non_null(texts[text_count]);
    text_count++;
}

int __wrap_sqlite3_step(sqlite3_stmt *statement)
{
    if (watching) {
        pthread_mutex_lock(&lock);
        remember(sqlite3_sql(statement));
        pthread_mutex_unlock(&lock);
    }
    return __real_sqlite3_step(statement);
}

static void forget(void)
{
    for (size_t i = 0; i < text_count; i++) {
        free(texts[i]);
    }
    text_count = 0;
}

static bool ran(const char *words)
{
    for (size_t i = 0; i < text_count; i++) {
        if (strstr(texts[i], words) != NULL) {
            return true;
        }
    }
    return false;
}

// --- Their plans

// What does not become more as rounds go on.
static const char *const bounded[] = {
    "SCAN CONSTANT ROW",
    "SCAN pragma_page_",
    "SCAN pragma_freelist_count",
    "SCAN totals",         // one row
    "SCAN purpose_totals", // a few for each purpose
    "SCAN federation",     // one row
    "SCAN codes",          // what an operator made
    "SCAN labels",         // likewise
    "SCAN orders",         // one row at most
    "SCAN clients USING COVERING INDEX",
    "SCAN clients USING INDEX clients_revoked",
    "SCAN clients USING INDEX clients_evaluating",
    "SCAN rounds USING INDEX rounds_open", // one row at most
    "SCAN rounds USING COVERING INDEX rounds_open",
    // Replicas are kept within the limit; the oldest comes first, and few are asked for.
    "SCAN replicas USING INDEX replicas_by_use",
    "SCAN replicas USING INDEX replicas_suspect",
    "SCAN replicas USING COVERING INDEX replicas_suspect", // as SQLite from 3.46 on says it
    // The first id that begins with some bytes, a few snapshots, and the parts of one vector.
    "SEARCH replicas USING PRIMARY KEY (id>?)",
    "SEARCH downloads USING INDEX downloads_snapshots (to_version<?)",
    "SEARCH weights USING INDEX sqlite_autoindex_weights_1 (kind=? AND name=? AND part>?)",
    // Late metrics of versions whose metrics were dropped.
    "SEARCH metrics USING PRIMARY KEY (version<?)",
    // Sums of rounds that were pruned since the last flush.
    "SEARCH secure_sums USING INTEGER PRIMARY KEY (rowid<?)",
    // The open round's.
    "SEARCH updates USING INTEGER PRIMARY KEY (rowid>?)",
    "SEARCH assignments USING PRIMARY KEY (round>?)",
    // Reports of the 32 newest versions, and of earlier ones where none of these counts; and their counts.
    "SEARCH evaluations USING PRIMARY KEY (version>? AND version<?)",
    "SCAN counted",
};

static bool is_bounded(const char *step)
{
    for (size_t i = 0; i < sizeof bounded / sizeof bounded[0]; i++) {
        if (strncmp(step, bounded[i], strlen(bounded[i])) == 0) {
            return true;
        }
    }
    return strstr(step, "SCAN ") == NULL && strstr(step, "<?") == NULL &&
           strstr(step, ">?") == NULL;
}

// Whether the column `body` is among what the statement reads.
static bool reads_bodies(const char *text)
{
    for (const char *at = strstr(text, "body"); at != NULL; at = strstr(at + 1, "body")) {
        if (at > text && strchr(" (,", at[-1]) != NULL && strchr(" ),", at[4]) != NULL) {
            return true;
        }
    }
    return false;
}

static unsigned look_at(sqlite3 *database, const char *text)
{
    char explain[8192];
    sqlite3_stmt *plan;
    unsigned found = 0;
    snprintf(explain, sizeof explain, "EXPLAIN QUERY PLAN %s", text);
    assert_int_equal(sqlite3_prepare_v2(database, explain, -1, &plan, NULL), SQLITE_OK);
    while (__real_sqlite3_step(plan) == SQLITE_ROW) {
        const char *step = (const char *)sqlite3_column_text(plan, 3);
        const bool sorts = strstr(step, "USE TEMP B-TREE") != NULL && reads_bodies(text);
        if (sorts || !is_bounded(step)) {
            print_error("%s: %s\n", step, text);
            found++;
        }
    }
    sqlite3_finalize(plan);
    return found;
}

static void expect_good_plans(void)
{
    sqlite3 *database;
    unsigned found = 0;
    assert_int_equal(sqlite3_open_v2(harness.path, &database, SQLITE_OPEN_READONLY, NULL),
                     SQLITE_OK);
    for (size_t i = 0; i < text_count; i++) {
        if (strncmp(texts[i], "PRAGMA", 6) != 0) {
            found += look_at(database, texts[i]);
        }
    }
    sqlite3_close(database);
    assert_int_equal(found, 0);
}

// --- At work

#define COUNT 650 // values of MODEL

struct device {
    uint64_t id;
    uint8_t replica[TERN_SHA256_SIZE];
    float weights[COUNT];
};

static void join(struct device *device)
{
    device->id = enroll(&harness, false);
    seed_replica(&harness, device->replica, device->weights);
}

static void take_part(struct device *device)
{
    tern_CheckinReply reply = checkin(&harness, device->id, device->replica);
    uint8_t *body;
    assert_true(reply.has_task);
    apply_downloads(&harness, &reply.task, device->weights, device->replica,
                    harness.tokens[device->id]);
    size_t len = encode_update(&harness, &reply.task, 0.5F, 10, &body);
    for (int i = 0; i < 2; i++) { // and once more, as after a lost reply
        struct answer answer = put_update(&harness, device->id, reply.task.round, 1, body, len);
        assert_int_equal(answer.status, 200);
        const struct tern_bytes bytes = {len, len, len, len};
        harness.handler.on_metered(harness.handler.ctx, &answer.tag, &bytes, &bytes);
        answer_free(&answer);
    }
    free(body);
}

// Whoever reports first closes a round; all are asked. The downloads may take so few bytes
// that old ones go, and no update of a committed round is kept.
static void configure(void)
{
    struct tern_federation_config *config = &harness.config.federation;
    config->round.cohort = 1;
    config->round.over_selection = 2.0;
    config->min_clients = 3;
    assert_int_equal(tern_codec_parse("density:p=0.1,coder=range", &config->downloads.codec, NULL),
                     TERN_OK);
    config->downloads.plan = TERN_DOWNLOADS_CHEAPEST;
    config->downloads.residual = 1.5;
    config->downloads.replica_bytes = 20000;
    config->limits.history = 1;
}

// Rounds of which the second half is merged from what is stored.
CASE_WITH(test_rounds_read_no_history, setup, teardown)
{
    static struct device often;
    static struct device seldom;
    configure();
    harness_start(&harness);
    join(&often);
    join(&seldom);
    uint64_t slow = enroll(&harness, false);
    tern_CheckinReply late = checkin(&harness, slow, NULL);
    uint8_t *body;
    size_t len = encode_update(&harness, &late.task, 0.5F, 10, &body);
    take_part(&often);
    watching = true;
    for (int i = 0; i < 36; i++) {
        if (i == 12) {
            watching = false;
            harness.config.federation.strategy_memory = 1;
            harness_restart(&harness);
            watching = true;
        }
        take_part(i % 6 == 5 && i / 12 != 1 ? &seldom : &often); // away until its rows are old
        test_advance(1000);
    }
    answer_expect(put_update(&harness, slow, late.task.round, 1, body, len), 410);
    free(body);
    harness_stop(&harness);
    watching = false;
    assert_true(ran("INSERT INTO updates"));
    assert_true(ran("INSERT INTO versions"));
    assert_true(ran("INSERT INTO meter"));
    assert_true(ran("DELETE FROM downloads"));
    assert_true(ran("FROM update_bodies"));
    assert_true(ran("DELETE FROM update_bodies"));
    assert_true(ran("DELETE FROM updates WHERE id IN"));
    assert_true(ran("DELETE FROM updates WHERE round"));
    assert_true(ran("FROM download_bodies"));
    expect_good_plans();
    forget();
}

// What the status page and `status` ask, and `report bytes`.
CASE_WITH(test_reports_read_no_history, setup, teardown)
{
    struct tern_db *db = NULL;
    struct tern_db_counts counts;
    struct tern_db_meter all;
    struct tern_db_meter outside;
    struct tern_accuracy newest;
    struct tern_reported_version pending;
    struct tern_db_client evaluator = {.evaluator = true, .last_seen_ms = 1};
    struct tern_db_evaluation report = {.num_examples = 1};
    char why[256];
    harness_start(&harness);
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &db, why), TERN_OK);
    watching = true;
    assert_int_equal(tern_db_counts(db, 0, &counts), TERN_OK);
    assert_int_equal(tern_db_meter_training(db, &all, &outside), TERN_OK);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(tern_db_client_add(db, &evaluator), TERN_OK);
    report.client = evaluator.id;
    assert_int_equal(tern_db_evaluation_put(db, &report), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_OK);
    assert_int_equal(tern_accuracy_newest(db, &newest, &pending), TERN_OK);
    assert_int_equal(newest.expected, 1);
    struct tern_db_rows *rows = tern_db_meter_sums(db, TERN_METER_BY_PURPOSE);
    assert_false(tern_db_next(rows, &all));
    assert_int_equal(tern_db_end(rows), TERN_OK);
    watching = false;
    tern_db_close(db);
    assert_true(ran("FROM totals"));
    assert_true(ran("FROM evaluations"));
    expect_good_plans();
    forget();
}
