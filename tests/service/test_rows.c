// Rows that one token can make: two clients send every kind of request again and again, each time with something new, while
// a federation of honest ones goes on. Every table in the schema has a line here that limits how many rows it may have
// then; a table without one fails. docs/SECURITY.md has the same numbers.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "store/tables.h"
#include "tests/cases.h"
#include <sqlite3.h>

#define ROUNDS 4
#define AGAIN 40 // times in each round
#define CLIENTS 3

// What docs/SECURITY.md promises: the sum of all rows that one client's requests leave.
#define ROWS_ONCE 15u
#define ROWS_PER_ROUND 18u

// Rows of a table that has a column `client`: of each of the two clients that flood. Of others: all.
struct most {
    const char *table;
    uint32_t once;
    uint32_t per_round;
};

static const struct most limits[] = {
    // Rows that describe a client.
    {"clients", CLIENTS, 0},
    {"psk_keys", 1, 0},
    {"ledger", 1, 0},
    {"schedule", 1, 0},
    {"statistics", 1, 0},
    {"client_totals", 1, 0},
    {"tickets", 2, 0}, // of the current epoch and the one before
    // Rows that a client's requests of a round make.
    {"assignments", 0, 1},
    {"updates", 0, 1},
    {"update_bodies", 0, 2}, // of both that train: 1 each
    {"evaluations", 0, 2},
    {"metrics", 0, 6},
    {"meter", 1, 1},
    // Rows that all clients share.
    {"rounds", 0, 1},
    {"versions", 0, 1},
    {"secure_rounds", 0, 1},
    {"secure_sums", 0, 1},
    {"downloads", 2, 2}, // the delta, and one for each that holds another replica
    {"download_bodies", 2, 2},
    {"replicas", 2, 2},
    {"weights", 8, 0},
    {"round_totals", 2, 2}, // outside of any round, too; of who trains and others
    {"purpose_totals", 4 * TERN_PURPOSE_COUNT, 0},
    {"totals", 1, 0},
    {"labels", 1, 0}, // the label best
    // Rows that operators and other aggregators write.
    {"federation", 1, 0},
    {"files", 2, 0},
    {"codes", 1, 0},
    {"ticket_keys", 1, 0},
    {"node_settings", 1, 0},
    {"tokens", 0, 0}, // people make these
    {"audit", 0, 0},
    {"orders", 0, 0},
};

// --- Requests

static uint32_t number; // of the request: ever another

static void send(const char *method, const char *path, uint64_t client, const uint8_t *body,
                 size_t len)
{
    const struct tern_bytes bytes = {.payload = 1, .http = 1, .tls = 1, .wire = 1};
    struct answer answer = call(&harness, method, path, harness.tokens[client], body, len);
    harness.handler.on_metered(harness.handler.ctx, &answer.tag, &bytes, &bytes);
    answer_free(&answer);
}

static void fill_evaluation(tern_Evaluation *evaluation, uint32_t version)
{
    evaluation->version = version;
    evaluation->num_examples = 1 + number % 1000;
    evaluation->metrics_count = 4;
    for (pb_size_t i = 0; i < evaluation->metrics_count; i++) {
        snprintf(evaluation->metrics[i].name, sizeof evaluation->metrics[i].name, "m%u_%u", number,
                 (unsigned)i);
        evaluation->metrics[i].value = (float)number;
    }
}

// With any replica, or one that it was given; says something else of itself each time.
static void check_in(uint64_t client, const uint8_t *replica, uint32_t version)
{
    tern_CheckinRequest request = {.version = version,
                                   .codecs = number % 7 == 0 ? 0 : UINT32_MAX,
                                   .abilities = number,
                                   .metered = number % 2 == 0,
                                   .budget_left = 1000000 + number,
                                   .budgeted = number % 3 == 0,
                                   .has_error = true,
                                   .error = {.generation = number, .sequence = number % 5},
                                   .has_evaluation = true,
                                   .from_seed = number % 2 == 0,
                                   .anchor = number % 9,
                                   .scaling = number};
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    number++;
    request.replica.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(request.replica.bytes, replica, TERN_WIRE_REPLICA_BYTES);
    fill_evaluation(&request.evaluation, version);
    assert_int_equal(tern_wire_encode_checkin_request(&request, body, sizeof body, &len), TERN_OK);
    send("POST", TERN_PATH_CHECKIN, client, body, len);
}

// The body once more, with other figures.
static void update(uint64_t client, uint32_t round, uint32_t sequence, const uint8_t *body,
                   size_t len)
{
    tern_Update message;
    struct tern_span container;
    char path[TERN_PATH_MAX];
    uint8_t *other = malloc(len + TERN_WIRE_OVERHEAD);
    size_t other_len = 0;
    assert_non_null(other);
    number++;
    assert_int_equal(tern_wire_decode_update(body, len, &message, &container), TERN_OK);
    message.train_ms = number;
    message.has_evaluation = true;
    fill_evaluation(&message.evaluation, 0);
    assert_int_equal(
        tern_wire_encode_update(&message, container, other, len + TERN_WIRE_OVERHEAD, &other_len),
        TERN_OK);
    tern_path_update(round, sequence, path);
    send("PUT", path, client, other, other_len);
    send("GET", path, client, NULL, 0);
    free(other);
}

static void fetch_anything(uint64_t client)
{
    uint8_t sha256[TERN_SHA256_SIZE] = {0};
    char path[TERN_PATH_MAX];
    number++;
    memcpy(sha256, &number, sizeof number);
    tern_path_download(sha256, path);
    send("GET", path, client, NULL, 0);
    send("GET", TERN_PATH_STATISTICS, client, NULL, 0);
    send("PUT", TERN_PATH_STATISTICS, client, sha256, sizeof sha256);
}

// --- The flood

struct held {
    uint8_t replicas[ROUNDS + 1][TERN_WIRE_REPLICA_BYTES]; // by version
};

static void flood(uint64_t client, uint32_t round, const struct held *held, const uint8_t *body,
                  size_t len)
{
    for (uint32_t i = 0; i < AGAIN; i++) {
        uint8_t unknown[TERN_WIRE_REPLICA_BYTES] = {0};
        memcpy(unknown, &number, sizeof number);
        check_in(client, unknown, number % 100);
        check_in(client, held->replicas[i % round], i % round);
        if (body != NULL) {
            update(client, i % (ROUNDS + 3), i, body, len);
            update(client, UINT32_MAX - i, i, body, len);
            update(client, round, i, body, len);
        }
        fetch_anything(client);
    }
}

static void one_round(uint64_t hostile, uint64_t honest, uint64_t evaluator, uint32_t round,
                      struct held *held, uint8_t replica[TERN_SHA256_SIZE], float *weights)
{
    uint8_t *body;
    const tern_CheckinReply reply = checkin(&harness, honest, replica);
    assert_true(reply.has_task);
    apply_downloads(&harness, &reply.task, weights, replica, harness.tokens[honest]);
    memcpy(held->replicas[round - 1], reply.task.base.bytes, TERN_WIRE_REPLICA_BYTES);
    const tern_CheckinReply mine = checkin(&harness, hostile, held->replicas[round - 1]);
    assert_true(mine.has_task);
    const size_t len = encode_update(&harness, &mine.task, 1.0F, 10, &body);
    flood(evaluator, round, held, NULL, 0);
    flood(hostile, round, held, body, len);
    free(body);
    (void)do_round(&harness, honest, replica, 0.5F);
    test_advance(1000);
}

// --- What is left of it

static uint64_t ask(sqlite3 *database, const char *text)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(database, text, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const uint64_t count = (uint64_t)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return count;
}

static bool has_client(const struct tern_table *table)
{
    for (uint32_t i = 0; i < table->count; i++) {
        if (strcmp(table->columns[i].name, "client") == 0) {
            return true;
        }
    }
    return false;
}

static const struct most *limit_of(const struct tern_table *table)
{
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        if (strcmp(limits[i].table, table->name) == 0) {
            return &limits[i];
        }
    }
    fail_msg("the table %s has no line here: how many rows of it can one token make?", table->name);
    return NULL;
}

// Tables whose rows a client's requests make: of one client, where all share the table, as if it alone made them.
static const char *const of_clients[] = {
    "clients", "psk_keys",    "ledger",          "schedule",      "statistics",  "client_totals",
    "tickets", "assignments", "updates",         "update_bodies", "evaluations", "metrics",
    "meter",   "downloads",   "download_bodies", "replicas"};

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_the_promised_sum_is_that_of_the_tables)
{
    uint32_t once = 0;
    uint32_t per_round = 0;
    char promise[96];
    static char page[1 << 20];
    for (size_t i = 0; i < sizeof of_clients / sizeof of_clients[0]; i++) {
        const struct most *most = limits;
        while (strcmp(most->table, of_clients[i]) != 0) {
            most++;
        }
        once += most->once == CLIENTS ? 1 : most->once;
        per_round += strcmp(most->table, "update_bodies") == 0 ? 1 : most->per_round;
    }
    assert_int_equal(once, ROWS_ONCE);
    assert_int_equal(per_round, ROWS_PER_ROUND);
    FILE *file = fopen(SECURITY_PAGE, "r");
    assert_non_null(file);
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);
    snprintf(promise, sizeof promise, "at most %u rows in a round and %u once", ROWS_PER_ROUND,
             ROWS_ONCE);
    assert_non_null(strstr(page, promise));
    snprintf(promise, sizeof promise, "1,440 rounds a day %u,%03u rows",
             (1440 * ROWS_PER_ROUND + ROWS_ONCE) / 1000,
             (1440 * ROWS_PER_ROUND + ROWS_ONCE) % 1000);
    assert_non_null(strstr(page, promise));
}

static uint32_t rows_of(sqlite3 *database, const struct tern_table *table, uint64_t client)
{
    char text[160];
    snprintf(text, sizeof text, "SELECT count(*) FROM %s WHERE client = %llu", table->name,
             (unsigned long long)client);
    return has_client(table) ? (uint32_t)ask(database, text) : 0;
}

static void expect_few_rows(sqlite3 *database, const struct tern_table *table,
                            const uint64_t *clients, uint32_t count)
{
    const struct most *most = limit_of(table);
    const uint32_t allowed = most->once + most->per_round * (ROUNDS + 1); // the last is open
    char text[160];
    for (uint32_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, "SELECT count(*) FROM %s", table->name);
        if (has_client(table)) {
            snprintf(text, sizeof text, "SELECT count(*) FROM %s WHERE client = %llu", table->name,
                     (unsigned long long)clients[i]);
        }
        const uint64_t rows = ask(database, text);
        if (rows > allowed) {
            fail_msg("%s: %llu rows of client %llu, %u are allowed", table->name,
                     (unsigned long long)rows, (unsigned long long)clients[i], allowed);
        }
    }
}

TEST(test_every_table_stays_small)
{
    float weights[2000];
    uint8_t replica[TERN_SHA256_SIZE];
    struct held held;
    uint32_t of_one = 0;
    uint32_t of_other = 0;
    sqlite3 *database;
    struct tern_codec *down = &harness.config.federation.downloads.codec;
    assert_int_equal(tern_codec_parse("3lc:s=1", down, NULL), TERN_OK);
    harness_start(&harness);
    const uint64_t hostile[] = {enroll(&harness, false), enroll(&harness, true)};
    const uint64_t honest = enroll(&harness, false);
    memset(&held, 0, sizeof held);
    seed_replica(&harness, replica, weights);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        one_round(hostile[0], honest, hostile[1], round, &held, replica, weights);
    }
    harness_stop(&harness);
    assert_int_equal(sqlite3_open_v2(harness.path, &database, SQLITE_OPEN_READONLY, NULL),
                     SQLITE_OK);
    assert_int_equal(ask(database, "SELECT count(*) FROM versions"), ROUNDS + 1);
    assert_true(ask(database, "SELECT count(*) FROM meter") > 0);
    assert_true(ask(database, "SELECT count(*) FROM metrics") > 0);
    for (size_t i = 0; i < TERN_SCHEMA_TABLES; i++) {
        expect_few_rows(database, tern_schema_tables[i], hostile, 2);
        of_one += rows_of(database, tern_schema_tables[i], hostile[0]);
        of_other += rows_of(database, tern_schema_tables[i], hostile[1]);
    }
    assert_in_range(of_one, 1, ROWS_ONCE + ROWS_PER_ROUND * (ROUNDS + 1));
    assert_in_range(of_other, 1, ROWS_ONCE + ROWS_PER_ROUND * (ROUNDS + 1));
    sqlite3_close(database);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, (char[256]){0}), TERN_OK);
    harness_start(&harness);
}
