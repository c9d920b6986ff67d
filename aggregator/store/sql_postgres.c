// SQL by PostgreSQL, version 13 or newer: a schema of a database that a URL names (libpq's manual, section
// 34.1.1.2). Where several connections, of several processes, write, they do so one after the other, as with
// SQLite: an advisory lock on the schema keeps them apart until the transaction ends.
//
// A connection that is lost is made anew by what comes next, unless that is within a transaction, which then
// cannot be committed. When it was lost while a commit was on its way, PostgreSQL is asked what became of it.
#include "store/sql_postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

// The number of the schema; for those who look whether others have written, how many commits there were; and a
// random number that the last of them drew, by which its writer knows it.
#define TABLE                                                                                      \
    "CREATE TABLE schema_version (version BIGINT NOT NULL, commits BIGINT NOT NULL,"               \
    " last_commit BIGINT NOT NULL);"                                                               \
    "INSERT INTO schema_version VALUES (0, 0, 0)"

static enum tern_result connect_driven(const char *url, bool hurried, struct postgres **out,
                                       char why[256])
{
    TERN_TRY(tern_postgres_connect(url, hurried, out, why));
    (*out)->base.driver = &tern_postgres_driver;
    return TERN_OK;
}

// --- Transactions

static void end(struct postgres *pg)
{
    pg->is_open = false;
    pg->has_written = false;
    pg->given_up = TERN_OK;
}

static void rollback(struct tern_sql *sql)
{
    struct postgres *pg = postgres_of(sql);
    char error[sizeof sql->error];
    memcpy(error, sql->error, sizeof error);
    if (!tern_postgres_is_lost(pg)) {
        (void)!tern_postgres_settle(pg);
        (void)!tern_postgres_run(pg, "ROLLBACK");
    }
    memcpy(sql->error, error, sizeof error);
    end(pg);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// A connection that was lost long since says so at once; one that is being lost, after seconds, and a new one most often
// takes as long.
#define AT_ONCE_MS 1000

static enum tern_result begin_by(struct postgres *pg, const struct step *steps, size_t count,
                                 int64_t *numbers, int columns)
{
    TERN_TRY(tern_postgres_be_connected(pg));
    const int64_t began_ms = now_ms();
    enum tern_result result = tern_postgres_do(pg, steps, count, numbers, columns);
    const bool was_lost = tern_postgres_is_lost(pg) && now_ms() - began_ms < AT_ONCE_MS;
    if (result != TERN_OK && was_lost) { // since it was used last
        TERN_TRY(tern_postgres_be_connected(pg));
        result = tern_postgres_do(pg, steps, count, numbers, columns);
    }
    pg->is_open = true;
    pg->is_apart = false;
    if (result != TERN_OK) {
        rollback(&pg->base);
    }
    return result;
}

// Each statement sees what is committed by then: nobody else commits once the lock is had.
#define BEGIN "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
static const struct step steps_of_writer[] = {{.text = BEGIN},
                                              {.text = "SELECT pg_advisory_xact_lock(" WRITER ")"},
                                              {.text = "SELECT commits FROM schema_version"}};

static enum tern_result begin(struct tern_sql *sql)
{
    struct postgres *pg = postgres_of(sql);
    return begin_by(pg, steps_of_writer, 3, &pg->commits, 1);
}

// Without the writers' lock.
static enum tern_result begin_apart(struct tern_sql *sql, bool durable)
{
    const struct step steps[] = {{.text = BEGIN}, {.text = "SET LOCAL synchronous_commit = off"}};
    TERN_TRY(begin_by(postgres_of(sql), steps, durable ? 1 : 2, NULL, 0));
    postgres_of(sql)->is_apart = true;
    return TERN_OK;
}

static enum tern_result begin_reading(struct tern_sql *sql)
{
    const struct step steps[] = {{.text = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"},
                                 {.text = "SET LOCAL idle_in_transaction_session_timeout = 0"}};
    return begin_by(postgres_of(sql), steps, 2, NULL, 0);
}

static bool is_open(const struct tern_sql *sql)
{
    return ((const struct postgres *)sql)->is_open;
}

static bool may_commit(const struct tern_sql *sql)
{
    const struct postgres *pg = (const struct postgres *)sql;
    const PGTransactionStatusType status = PQtransactionStatus(pg->connection);
    return pg->is_open && !tern_postgres_is_lost(pg) &&
           (status == PQTRANS_INTRANS || status == PQTRANS_ACTIVE);
}

#define ASK_MS 5000
#define ASK_EVERY_MS 100

enum outcome { OUTCOME_NO_ANSWER, OUTCOME_COMMITTED, OUTCOME_ABORTED, OUTCOME_OVERWRITTEN };

// Whether the last commit is this one's: told by what it wrote, since after a crash PostgreSQL may give the number of a
// lost transaction to another one. With the writers' lock, so that no server is still at it.
static enum outcome ask(struct postgres *pg, int64_t commit)
{
    const struct step steps[] = {
        {.text = BEGIN},
        {.text = "SELECT pg_advisory_xact_lock(" WRITER ")"},
        {.text = "SELECT last_commit, commits FROM schema_version"},
    };
    int64_t found[2] = {0, 0};
    enum tern_result asked = tern_postgres_be_connected(pg);
    if (asked == TERN_OK) {
        asked = tern_postgres_do(pg, steps, 3, found, 2);
    }
    if (!tern_postgres_is_lost(pg)) {
        (void)!tern_postgres_run(pg, "ROLLBACK");
    }
    if (asked != TERN_OK) {
        return OUTCOME_NO_ANSWER;
    }
    if (found[0] == commit) {
        pg->seen = found[1] - 1; // and this one, which commit_written() counts
        pg->own = 0;
        return OUTCOME_COMMITTED;
    }
    return found[1] == pg->commits ? OUTCOME_ABORTED : OUTCOME_OVERWRITTEN;
}

// The connection was lost while the commit was on its way.
static enum tern_result find_outcome(struct postgres *pg, int64_t commit)
{
    const int64_t until_ms = now_ms() + ASK_MS; // to ask may take as long as a connection does
    end(pg);
    enum outcome outcome = ask(pg, commit);
    while (outcome == OUTCOME_NO_ANSWER && now_ms() < until_ms) {
        nanosleep(&(struct timespec){.tv_nsec = ASK_EVERY_MS * 1000000L}, NULL);
        outcome = ask(pg, commit);
    }
    if (outcome == OUTCOME_COMMITTED) {
        return TERN_OK;
    }
    return tern_sql_fail(
        &pg->base, TERN_ERR_IO,
        outcome == OUTCOME_ABORTED
            ? "the connection to PostgreSQL was lost; nothing of this was stored"
            : "the connection to PostgreSQL was lost during a commit, and PostgreSQL does not say "
              "whether this was stored");
}

static enum tern_result commit_written(struct postgres *pg)
{
    char count[112];
    const struct step steps[] = {{.text = count}, {.text = "COMMIT"}};
    int64_t commit = 0;
    if (getrandom(&commit, sizeof commit, 0) != (ssize_t)sizeof commit) {
        return tern_sql_fail(&pg->base, TERN_ERR_IO, "the system has no random bytes");
    }
    snprintf(count, sizeof count,
             "UPDATE schema_version SET commits = commits + 1, last_commit = %lld",
             (long long)commit);
    if (pg->is_checked) { // else an error keeps COMMIT from being done
        TERN_TRY(tern_postgres_settle(pg));
    }
    enum tern_result result = tern_postgres_do(pg, steps, 2, NULL, 0);
    if (result != TERN_OK && tern_postgres_is_lost(pg)) {
        result = find_outcome(pg, commit);
    }
    pg->own += result == TERN_OK ? 1 : 0;
    return result;
}

static enum tern_result commit(struct tern_sql *sql)
{
    struct postgres *pg = postgres_of(sql);
    const bool counts = pg->has_written && !pg->is_apart;
    const enum tern_result result = counts ? commit_written(pg) : tern_postgres_run(pg, "COMMIT");
    if (result == TERN_OK) {
        end(pg);
    }
    return result;
}

// A reading that fails counts as a change: looking once more costs little, missing a revocation much.
static bool changed_by_others(struct tern_sql *sql)
{
    struct postgres *pg = postgres_of(sql);
    int64_t commits = pg->commits;
    bool changed = false;
    if (!sql->in_transaction) {
        changed = tern_postgres_number(pg, "SELECT commits FROM schema_version", NULL, 0,
                                       &commits) != TERN_OK;
    }
    changed = changed || commits != pg->seen + pg->own;
    pg->seen = commits;
    pg->own = 0;
    return changed;
}

// --- Life

static enum tern_result run(struct tern_sql *sql, const char *text)
{
    struct postgres *pg = postgres_of(sql);
    TERN_TRY(tern_postgres_be_connected(pg));
    pg->has_written = pg->has_written || sql->in_transaction;
    return tern_postgres_run(pg, text);
}

static enum tern_result is_there(struct postgres *pg, bool *there)
{
    int64_t number = 0;
    TERN_TRY(tern_postgres_number(
        pg,
        "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('schema_version')"
        " AND attname IN ('version', 'commits', 'last_commit')",
        NULL, 0, &number));
    *there = number == 3;
    return TERN_OK;
}

// Beside tables of another program a federation would meet names of its own.
static enum tern_result refuse_others(struct postgres *pg)
{
    int64_t tables = 0;
    TERN_TRY(tern_postgres_number(
        pg,
        "SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'f')"
        " AND relnamespace = CAST(current_schema() AS regnamespace)",
        NULL, 0, &tables));
    return tables == 0
               ? TERN_OK
               : tern_sql_fail(&pg->base, TERN_ERR_CONFLICT,
                               "the schema holds tables of another program; take a database, or a "
                               "schema, of its own");
}

static enum tern_result fill_new(struct postgres *pg, tern_sql_filler fill, void *ctx)
{
    struct tern_sql *sql = &pg->base;
    const struct step step = {.text = BEGIN};
    bool there = false;
    TERN_TRY(begin_by(pg, &step, 1, NULL, 0));
    TERN_TRY(is_there(pg, &there));
    if (there) {
        return tern_sql_fail(sql, TERN_ERR_CONFLICT, "a federation is there already");
    }
    TERN_TRY(refuse_others(pg));
    sql->in_transaction = true;
    TERN_TRY(run(sql, TABLE)); // of two that do so at once, one waits for the other and fails
    TERN_TRY(fill(sql, ctx));
    return tern_sql_commit(sql);
}

static enum tern_result create(const char *path, tern_sql_filler fill, void *ctx, char why[256])
{
    struct postgres *pg = NULL;
    TERN_TRY(connect_driven(path, false, &pg, why));
    const enum tern_result result = fill_new(pg, fill, ctx);
    snprintf(why, 256, "%.100s: %.150s", path, pg->base.error);
    tern_sql_close(&pg->base);
    return result;
}

static enum tern_result open_again(const char *path, struct tern_sql **out, char why[256])
{
    struct postgres *pg = NULL;
    TERN_TRY(connect_driven(path, false, &pg, why));
    *out = &pg->base;
    return TERN_OK;
}

static enum tern_result open_hurried(const char *path, struct tern_sql **out, char why[256])
{
    struct postgres *pg = NULL;
    TERN_TRY(connect_driven(path, true, &pg, why));
    *out = &pg->base;
    return TERN_OK;
}

static enum tern_result open_checked(const char *path, struct tern_sql **out, char why[256])
{
    struct postgres *pg = NULL;
    bool there = false;
    TERN_TRY(connect_driven(path, false, &pg, why));
    enum tern_result result = is_there(pg, &there);
    if (result != TERN_OK) {
        snprintf(why, 256, "%s", pg->base.error);
    } else if (!there) {
        snprintf(why, 256, "there is no federation in %.150s; `tern-aggregator init` makes one",
                 path);
        result = TERN_ERR_NOT_FOUND;
    }
    if (result != TERN_OK) {
        tern_postgres_close(&pg->base);
        return result;
    }
    *out = &pg->base;
    return TERN_OK;
}

static enum tern_result take(struct tern_sql *sql)
{
    struct postgres *pg = postgres_of(sql);
    pg->own = 0;
    return tern_postgres_number(pg, "SELECT commits FROM schema_version", NULL, 0, &pg->seen);
}

static const char *path_of(const struct tern_sql *sql)
{
    return ((const struct postgres *)sql)->url;
}

// What PostgreSQL itself finds damaged is kept when it says so.
static bool is_damaged(struct tern_sql *sql)
{
    (void)sql;
    return false;
}

static enum tern_result version(struct tern_sql *sql, int64_t *number)
{
    return tern_postgres_number(postgres_of(sql), "SELECT version FROM schema_version", NULL, 0,
                                number);
}

static enum tern_result set_version(struct tern_sql *sql, int number)
{
    char text[80];
    snprintf(text, sizeof text, "UPDATE schema_version SET version = %d", number);
    return run(sql, text);
}

static enum tern_result backup(struct tern_sql *sql, const char *path, char why[256])
{
    (void)sql;
    (void)path;
    snprintf(why, 256,
             "the database is in PostgreSQL (store.url): pg_dump makes copies of it "
             "(docs/OPERATIONS.md, \"PostgreSQL\")");
    return TERN_ERR_STATE;
}

static enum tern_result settle(struct tern_sql *sql)
{
    return tern_sql_fail(sql, TERN_ERR_STATE, "the database is in PostgreSQL, which keeps it");
}

// PostgreSQL checks pages as it reads them, where its cluster has checksums.
static enum tern_result check(struct tern_sql *sql)
{
    return run(sql, "SELECT 1");
}

static void stop_when(struct tern_sql *sql, const atomic_bool *stop)
{
    postgres_of(sql)->stop = stop;
}

// PostgreSQL's own vacuum does that.
static enum tern_result shrink(struct tern_sql *sql, uint64_t bytes, bool *more)
{
    (void)sql;
    (void)bytes;
    *more = false;
    return TERN_OK;
}

static enum tern_result count_bytes(struct tern_sql *sql, uint64_t *bytes)
{
    int64_t number = 0;
    TERN_TRY(tern_postgres_number(
        postgres_of(sql),
        "SELECT CAST(coalesce(sum(pg_total_relation_size(oid)), 0) AS BIGINT) FROM pg_class"
        " WHERE relkind = 'r' AND relnamespace = (SELECT relnamespace FROM pg_class"
        " WHERE oid = CAST('schema_version' AS regclass))",
        NULL, 0, &number));
    *bytes = (uint64_t)number;
    return TERN_OK;
}

static enum tern_result count_free_bytes(struct tern_sql *sql, uint64_t *bytes)
{
    (void)sql;
    *bytes = 0;
    return TERN_OK;
}

static bool has_changed(struct tern_sql *sql)
{
    return postgres_of(sql)->has_changed;
}

static uint64_t last_id(struct tern_sql *sql)
{
    return postgres_of(sql)->last_id;
}

// --- The driver

static void write_trigger(char *text, size_t size, const char *name, const char *event,
                          const char *statement)
{
    snprintf(text, size,
             "CREATE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql AS"
             " $$BEGIN %s; RETURN NULL; END$$;"
             "CREATE TRIGGER %s AFTER %s FOR EACH ROW EXECUTE FUNCTION %s()",
             name, statement, name, event, name);
}

#define OID "CAST(CAST('schema_version' AS regclass) AS BIGINT)"
#define FIRST_NODE NODE("1")
// An advisory lock of 64 bits is listed in two halves; here they are whole.
#define HELD                                                                                       \
    "SELECT pid, CAST(classid AS BIGINT) * 4294967296 + CAST(objid AS BIGINT) AS key FROM "        \
    "pg_locks"                                                                                     \
    " WHERE locktype = 'advisory' AND objsubid = 1 AND granted"                                    \
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
// For how many ms the server has waited for each, where that is known.
#define SESSIONS                                                                                   \
    "SELECT pid, application_name, client_addr, backend_start,"                                    \
    " CASE WHEN state = 'active' AND coalesce(wait_event_type, '') <> 'Client' THEN 0"             \
    " ELSE CAST(greatest(0, floor(extract(epoch FROM clock_timestamp() - state_change) * 1000))"   \
    " AS BIGINT) END AS waited FROM pg_stat_activity"
// Which node's each is.
#define BELONG                                                                                     \
    "SELECT pid, (key - " OID ") / " NODE_SHIFT " - 16 AS node FROM held"                          \
    " WHERE key >= " FIRST_NODE " AND (key - " OID ") % " NODE_SHIFT " = 0"
#define SILENCE                                                                                    \
    "coalesce((SELECT min(s.waited) FROM belong o JOIN sessions s ON s.pid = o.pid"                \
    " WHERE o.node = b.node), 0)"
#define WHO                                                                                        \
    "WITH held AS MATERIALIZED (" HELD "), sessions AS MATERIALIZED (" SESSIONS "),"               \
    " belong AS (" BELONG "), nodes AS (SELECT l.pid, coalesce(b.node, 0) AS node,"                \
    " CASE WHEN l.key = " SERVICE " THEN 1 ELSE 0 END AS leads, " SILENCE " AS silent"             \
    " FROM held l LEFT JOIN belong b ON b.pid = l.pid"                                             \
    " WHERE l.key IN (" SERVICE ", " WAITER ")) "

#define NODES                                                                                      \
    WHO "SELECT coalesce(a.application_name, '') COLLATE \"C\","                                   \
        " coalesce(host(a.client_addr), '') COLLATE \"C\", n.leads,"                               \
        " CASE WHEN EXISTS (SELECT 1 FROM held f WHERE f.pid = n.pid AND f.key = " FOLLOWER ")"    \
        " THEN 1 ELSE 0 END,"                                                                      \
        " CAST(floor(extract(epoch FROM a.backend_start) * 1000) AS BIGINT), n.node, n.silent,"    \
        " coalesce(a.waited, 0)"                                                                   \
        " FROM nodes n JOIN sessions a ON a.pid = n.pid"                                           \
        " ORDER BY n.leads DESC, a.backend_start, a.pid"

// In one statement, so that it is the one that was looked at.
#define END_LEADER                                                                                 \
    WHO "SELECT CAST(coalesce(sum(CASE WHEN pg_terminate_backend(pid) THEN 1 ELSE 0 END), 0)"      \
        " AS BIGINT) FROM nodes WHERE leads = 1 AND node = ? AND silent >= ?"

#define TELL "SELECT pg_notify(" CHANNEL ", ?)"

#define SWEEP(table)                                                                               \
    "DELETE FROM " table " WHERE NOT EXISTS (SELECT 1 FROM (" HELD                                 \
    ") AS l WHERE l.key = " NODE(table ".node") ")"

// Ids are given as SQLite gives them, without gaps: there is one writer. Texts are in the order of their
// bytes. Bodies are compressed, or of no use to a compressor, and are read in pieces.
const struct tern_sql_driver tern_postgres_driver = {
    .dialect = {.types = {[TERN_SQL_ID] = "BIGINT PRIMARY KEY",
                          [TERN_SQL_INTEGER] = "BIGINT NOT NULL",
                          [TERN_SQL_REAL] = "DOUBLE PRECISION NOT NULL",
                          [TERN_SQL_TEXT] = "TEXT COLLATE \"C\" NOT NULL",
                          [TERN_SQL_BLOB] = "BYTEA NOT NULL"},
                .options = {"", ""},
                .large_values = "ALTER TABLE # ALTER COLUMN @ SET STORAGE EXTERNAL",
                .new_id = "(SELECT coalesce(max(id), 0) + 1 FROM #)",
                .trigger = write_trigger,
                .nodes = NODES,
                .end_leader = END_LEADER,
                .tell = TELL,
                .sweep = SWEEP("answers"),
                .sweep_settings = SWEEP("node_settings")},
    .create = create,
    .open = open_checked,
    .open_reading = open_checked,
    .open_again = open_again,
    .open_hurried = open_hurried,
    .take = take,
    .close = tern_postgres_close,
    .path = path_of,
    .hold = tern_postgres_hold,
    .use = tern_postgres_use,
    .is_damaged = is_damaged,
    .version = version,
    .set_version = set_version,
    .backup = backup,
    .settle = settle,
    .check = check,
    .quick_check = check,
    .stop_when = stop_when,
    .shrink = shrink,
    .bytes = count_bytes,
    .free_bytes = count_free_bytes,
    .run = run,
    .follow = tern_postgres_follow,
    .belong = tern_postgres_belong,
    .attend = tern_postgres_attend,
    .await = tern_postgres_await,
    .begin_apart = begin_apart,
    .begin = begin,
    .begin_reading = begin_reading,
    .commit = commit,
    .rollback = rollback,
    .is_open = is_open,
    .may_commit = may_commit,
    .changed_by_others = changed_by_others,
    .prepare = tern_postgres_prepare,
    .is_busy = tern_postgres_is_busy,
    .reset = tern_postgres_reset,
    .finish = tern_postgres_finish,
    .bind_integer = tern_postgres_bind_integer,
    .bind_real = tern_postgres_bind_real,
    .bind_text = tern_postgres_bind_text,
    .bind_blob = tern_postgres_bind_blob,
    .step = tern_postgres_step,
    .post = tern_postgres_post,
    .has_changed = has_changed,
    .last_id = last_id,
    .integer = tern_postgres_integer_at,
    .real = tern_postgres_real_at,
    .text = tern_postgres_text_at,
    .blob = tern_postgres_blob_at,
    .column = tern_postgres_column_at,
    .load = tern_postgres_load,
    .load_row = tern_postgres_load_row,
    .load_end = tern_postgres_load_end,
    .stream = tern_postgres_stream,
    .piece = tern_postgres_piece,
    .put_pieces = tern_postgres_put_pieces,
};
