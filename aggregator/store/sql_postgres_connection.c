// The life of a connection: what it is told first, who holds the database by it, and that it is made anew once it is
// lost.
#include "store/sql_postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LEAST_VERSION 130000 // older ones get no mends any more

// What the store relies on, whatever the server or the role has as its default. That a service's machine or network
// is gone, the server finds within ten seconds, so that another one may serve. A transaction of a process that was stopped
// holds the writers' lock for a minute at the most.
#define SETTINGS                                                                                   \
    "SET client_encoding = 'UTF8'; SET client_min_messages = warning; SET lock_timeout = '5s';"    \
    "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = '60s'; SET jit = off;"   \
    "SET tcp_keepalives_idle = 4; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 2;"  \
    "SET tcp_user_timeout = 8000;"                                                                 \
    "SELECT set_config('synchronous_commit', 'on', false)"                                         \
    " WHERE current_setting('synchronous_commit') = 'off'"

static void say_nothing(void *ctx, const PGresult *result)
{
    (void)ctx;
    (void)result;
}

static enum tern_result refuse_server(struct postgres *pg)
{
    const char *encoding = PQparameterStatus(pg->connection, "server_encoding");
    if (PQserverVersion(pg->connection) < LEAST_VERSION) {
        return tern_sql_fail(&pg->base, TERN_ERR_CONFIG,
                             "PostgreSQL is older than version 13, which Tern needs");
    }
    if (encoding == NULL || strcmp(encoding, "UTF8") != 0) {
        return tern_sql_fail(&pg->base, TERN_ERR_CONFIG,
                             "the database's encoding is not UTF8; make one by createdb -E UTF8 "
                             "-T template0");
    }
    return TERN_OK;
}

static enum tern_result refuse_unwritable(struct postgres *pg)
{
    const struct step ask = {
        .text = "SELECT CAST(CASE WHEN pg_is_in_recovery() THEN 1"
                " WHEN NOT has_table_privilege('schema_version', 'UPDATE') THEN 2 ELSE 0 END"
                " AS BIGINT)"};
    int64_t found = 0;
    TERN_TRY(tern_postgres_do(pg, &ask, 1, &found, 1));
    return found == 0
               ? TERN_OK
               : tern_sql_fail(&pg->base, TERN_ERR_CONFIG,
                               found == 1
                                   ? "PostgreSQL is a replica there, which can only be read; "
                                     "store.url must lead to the primary server"
                                   : "the role may not write the federation's tables; serve as the "
                                     "one that owns them, or let it be granted");
}

static enum tern_result try_hold(struct postgres *pg, bool *taken)
{
    static const struct step ask = {.text = "SELECT CAST(CAST(pg_try_advisory_lock(" SERVICE
                                            ") AS INTEGER) AS BIGINT)"};
    int64_t number = 0;
    TERN_TRY(tern_postgres_do(pg, &ask, 1, &number, 1));
    *taken = number == 1;
    return TERN_OK;
}

static enum tern_result be_listed(struct postgres *pg, bool waits)
{
    if (pg->waits == waits) {
        return TERN_OK;
    }
    pg->waits = waits;
    return tern_postgres_run(pg, waits ? "SELECT pg_advisory_lock_shared(" WAITER ")"
                                       : "SELECT pg_advisory_unlock_shared(" WAITER ")");
}

// Waits as long as a write does: after a kill, the server may not yet know that the other one is gone. It asks again and
// again, since PostgreSQL cannot drop what became dead after a statement began that still waits: waits that follow each
// other for days would make all tables and indexes slow.
#define HOLD_TRIES 20
#define HOLD_PAUSE_MS 250

static enum tern_result take_hold(struct postgres *pg)
{
    bool taken = false;
    TERN_TRY(refuse_unwritable(pg));
    TERN_TRY(try_hold(pg, &taken));
    for (int i = 1; i < HOLD_TRIES && !taken; i++) {
        TERN_TRY(be_listed(pg, true));
        nanosleep(&(struct timespec){.tv_nsec = HOLD_PAUSE_MS * 1000000L}, NULL);
        TERN_TRY(try_hold(pg, &taken));
    }
    return taken
               ? be_listed(pg, false)
               : tern_sql_fail(&pg->base, TERN_ERR_STATE,
                               "another aggregator serves the database, maybe on another machine");
}

// After the connection was lost. What others wrote meanwhile is not in the memory of who held the database: that is
// told once, as a failure, upon which all of it is read again.
static enum tern_result hold_again(struct postgres *pg)
{
    const struct step look = {.text = "SELECT commits FROM schema_version"};
    int64_t commits = 0;
    const enum tern_result held = take_hold(pg);
    pg->base.displaced = held == TERN_ERR_STATE;
    TERN_TRY(held);
    TERN_TRY(tern_postgres_do(pg, &look, 1, &commits, 1));
    if (commits == pg->seen + pg->own) {
        return TERN_OK;
    }
    pg->seen = commits;
    pg->own = 0;
    return tern_sql_fail(&pg->base, TERN_ERR_IO,
                         "others have written while there was no connection to PostgreSQL; what is "
                         "known is read again");
}

static enum tern_result belong_again(struct postgres *pg)
{
    char text[256];
    snprintf(text, sizeof text, "SELECT pg_advisory_lock_shared(" NODE("%lu") ")",
             (unsigned long)pg->node);
    return tern_postgres_run(pg, text);
}

// Answers come and go: a scan of an index passes over what became dead only once, a bitmap of it every time.
static enum tern_result attend_again(struct postgres *pg)
{
    TERN_TRY(tern_postgres_run(pg, "DO $$BEGIN EXECUTE 'LISTEN ' || " CHANNEL "; END$$;"
                                   "SET synchronous_commit = off; SET enable_bitmapscan = off"));
    pg->may_have_missed = true;
    return TERN_OK;
}

// What a new connection is told before anything else.
static enum tern_result introduce(struct postgres *pg)
{
    pg->lost = false;
    pg->waits = false;
    pg->active = NULL;
    pg->queued = 0;
    pg->generation++;
    if (PQstatus(pg->connection) != CONNECTION_OK) {
        return tern_postgres_failed(pg, NULL);
    }
    TERN_TRY(refuse_server(pg));
    TERN_TRY(tern_postgres_run(pg, SETTINGS));
    if (pg->shares) {
        TERN_TRY(tern_postgres_use_again(pg));
    }
    TERN_TRY(pg->node != 0 ? belong_again(pg) : TERN_OK);
    TERN_TRY(pg->attends ? attend_again(pg) : TERN_OK);
    TERN_TRY(pg->follows ? tern_postgres_run(pg, "SELECT pg_advisory_lock_shared(" FOLLOWER ")")
                         : TERN_OK);
    return pg->holds ? hold_again(pg) : TERN_OK;
}

enum tern_result tern_postgres_be_connected(struct postgres *pg)
{
    if (!tern_postgres_is_lost(pg)) {
        return TERN_OK;
    }
    if (pg->is_open) {
        return tern_sql_fail(&pg->base, TERN_ERR_IO,
                             "the connection to PostgreSQL was lost; nothing of this was stored");
    }
    PQreset(pg->connection);
    const enum tern_result result = introduce(pg);
    pg->lost = result != TERN_OK; // without what it must be told it is of no use
    return result;
}

// Where there is a password, everybody sees it who sees the program's arguments or its settings.
static enum tern_result refuse_password(const char *url, char why[256])
{
    char *error = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &error);
    enum tern_result result = TERN_OK;
    if (options == NULL) {
        snprintf(why, 256, "the URL of the database: %.200s", error != NULL ? error : "no memory");
        PQfreemem(error);
        return TERN_ERR_CONFIG;
    }
    for (const PQconninfoOption *option = options; option->keyword != NULL; option++) {
        if (strcmp(option->keyword, "password") == 0 && option->val != NULL) {
            snprintf(why, 256,
                     "the URL of the database holds a password; put that into ~/.pgpass, or a file "
                     "that the URL names by passfile=, and leave it out");
            result = TERN_ERR_CONFIG;
        }
    }
    PQconninfoFree(options);
    return result;
}

#define PROGRAM "tern-aggregator "
#define NAME_BYTES 64 // PostgreSQL keeps no more of it

// By which people and other aggregators know this one: the machine's name.
static void name_program(char name[NAME_BYTES])
{
    const size_t len = (size_t)snprintf(name, NAME_BYTES, PROGRAM);
    if (gethostname(name + len, NAME_BYTES - len) != 0) {
        name[len - 1] = '\0';
    }
    name[NAME_BYTES - 1] = '\0';
}

static PGconn *connect_to(const char *url, bool hurried)
{
    char name[NAME_BYTES];
    name_program(name);
    // The URL may say otherwise, so it comes last. Without these, a network that is cut holds a request for hours;
    // with them, no longer than the server holds the connection (SETTINGS). Who holds the database must not give up
    // before: the server would keep it from its own next connection.
    const char *const keywords[] = {
        "fallback_application_name", "connect_timeout",  "tcp_user_timeout", "keepalives_idle",
        "keepalives_interval",       "keepalives_count", "dbname",           NULL};
    const char *const values[] = {name, "5", "8000", "4", "2", "2", url, NULL};
    const char *const of_hurried[] = {name, "3", "2000", "1", "1", "2", url, NULL};
    PGconn *connection = PQconnectdbParams(keywords, hurried ? of_hurried : values, 1);
    if (connection != NULL) {
        PQsetNoticeReceiver(connection, say_nothing, NULL);
    }
    return connection;
}

void tern_postgres_close(struct tern_sql *sql)
{
    struct postgres *pg = postgres_of(sql);
    if (pg->connection != NULL && !tern_postgres_is_lost(pg)) {
        // Now, and not when the server finds that nobody is there any more.
        (void)!tern_postgres_settle(pg);
        (void)!tern_postgres_run(pg, "ROLLBACK; SELECT pg_advisory_unlock_all()");
    }
    PQfinish(pg->connection);
    free(pg->url);
    free(pg);
}

enum tern_result tern_postgres_connect(const char *url, bool hurried, struct postgres **out,
                                       char why[256])
{
    TERN_TRY(refuse_password(url, why));
    struct postgres *pg = calloc(1, sizeof *pg);
    if (pg == NULL || (pg->url = strdup(url)) == NULL ||
        (pg->connection = connect_to(url, hurried)) == NULL) {
        snprintf(why, 256, "memory could not be had");
        if (pg != NULL) {
            free(pg->url);
        }
        free(pg);
        return TERN_ERR_NO_MEMORY;
    }
    const enum tern_result result = introduce(pg);
    if (result != TERN_OK) {
        snprintf(why, 256, "%s", pg->base.error);
        tern_postgres_close(&pg->base);
        return result;
    }
    *out = pg;
    return TERN_OK;
}

enum tern_result tern_postgres_hold(struct tern_sql *sql)
{
    struct postgres *pg = postgres_of(sql);
    TERN_TRY(tern_postgres_be_connected(pg));
    TERN_TRY(take_hold(pg));
    pg->holds = true;
    return TERN_OK;
}

enum tern_result tern_postgres_follow(struct tern_sql *sql, bool follows)
{
    struct postgres *pg = postgres_of(sql);
    TERN_TRY(tern_postgres_be_connected(pg));
    if (pg->follows == follows) {
        return TERN_OK;
    }
    pg->follows = follows;
    return tern_postgres_run(pg, follows ? "SELECT pg_advisory_lock_shared(" FOLLOWER ")"
                                         : "SELECT pg_advisory_unlock_shared(" FOLLOWER ")");
}

enum tern_result tern_postgres_belong(struct tern_sql *sql, uint32_t node)
{
    struct postgres *pg = postgres_of(sql);
    TERN_TRY(tern_postgres_be_connected(pg));
    pg->node = node;
    return belong_again(pg);
}

enum tern_result tern_postgres_attend(struct tern_sql *sql, uint32_t node)
{
    struct postgres *pg = postgres_of(sql);
    TERN_TRY(tern_postgres_belong(sql, node));
    pg->attends = true;
    return attend_again(pg);
}

// --- Single questions

enum tern_result tern_postgres_number(struct postgres *pg, const char *text, const char *parameter,
                                      int64_t none, int64_t *number)
{
    const Oid type = TEXT_OID;
    TERN_TRY(tern_postgres_be_connected(pg));
    TERN_TRY(tern_postgres_settle(pg));
    PGresult *result = PQexecParams(pg->connection, text, parameter != NULL ? 1 : 0, &type,
                                    &parameter, NULL, NULL, BINARY);
    enum tern_result found = TERN_OK;
    *number = none;
    if (!tern_postgres_worked(result)) {
        found = tern_postgres_failed(pg, result);
    } else if (PQntuples(result) > 0 && !PQgetisnull(result, 0, 0)) {
        *number = tern_postgres_integer(result, 0, 0);
    }
    PQclear(result);
    return found;
}
