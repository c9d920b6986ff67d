// Who uses the schema: all programs that know it share a lock of their sessions, which one that changes it has alone. So
// no program writes what another one, of another version, has changed under it, wherever it runs.
#include "store/sql_postgres.h"

#include <stdio.h>
#include <string.h>

// An advisory lock of 64 bits is listed in two halves.
#define OTHERS                                                                                     \
    "SELECT string_agg(DISTINCT CASE a.application_name WHEN '' THEN 'one without a name'"         \
    " ELSE a.application_name END || coalesce(' at ' || host(a.client_addr), ''), ', ')"           \
    " FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid"                                    \
    " WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted"                              \
    " AND a.pid <> pg_backend_pid()"                                                               \
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"           \
    " AND CAST(l.classid AS BIGINT) * 4294967296 + CAST(l.objid AS BIGINT) = " USERS

// Who has the lock otherwise than is wanted; they may have ended since.
static void name_others(struct postgres *pg, char names[128])
{
    PGresult *result = PQexec(pg->connection, OTHERS);
    const bool known =
        tern_postgres_worked(result) && PQntuples(result) == 1 && PQgetlength(result, 0, 0) > 0;
    snprintf(names, 128, "%s", known ? PQgetvalue(result, 0, 0) : "another program");
    PQclear(result);
}

static enum tern_result take(struct postgres *pg, const char *lock, const char *sentence)
{
    char names[128];
    char text[256];
    const enum tern_result result = tern_postgres_run(pg, lock);
    if (result != TERN_ERR_BUSY) {
        return result;
    }
    name_others(pg, names);
    snprintf(text, sizeof text, sentence, names);
    return tern_sql_fail(&pg->base, TERN_ERR_STATE, text);
}

static enum tern_result share(struct postgres *pg)
{
    return take(pg, "SELECT pg_advisory_lock_shared(" USERS ")",
                "%s changes the database's schema for another version of Tern; try again then");
}

static enum tern_result read_version(struct postgres *pg, int64_t *version)
{
    const struct step step = {.text = "SELECT version FROM schema_version"};
    return tern_postgres_do(pg, &step, 1, version, 1);
}

enum tern_result tern_postgres_use(struct tern_sql *sql, enum tern_sql_use use)
{
    struct postgres *pg = postgres_of(sql);
    TERN_TRY(tern_postgres_be_connected(pg));
    if (use == TERN_SQL_ALONE) {
        return take(pg, "SELECT pg_advisory_lock(" USERS ")",
                    "the database is of another version and open by %s: stop them first");
    }
    if (use == TERN_SQL_UNUSED) {
        pg->shares = false;
        return tern_postgres_run(pg, "SELECT pg_advisory_unlock_shared(" USERS ")");
    }
    if (!pg->shares) {
        TERN_TRY(share(pg));
    }
    pg->shares = true;
    TERN_TRY(read_version(pg, &pg->version));
    // What was had alone; that it was not is of no interest.
    return tern_postgres_run(pg, "SELECT pg_advisory_unlock(" USERS ")");
}

enum tern_result tern_postgres_use_again(struct postgres *pg)
{
    int64_t version = 0;
    TERN_TRY(share(pg));
    TERN_TRY(read_version(pg, &version));
    pg->base.displaced = pg->base.displaced || version != pg->version;
    return version == pg->version
               ? TERN_OK
               : tern_sql_fail(&pg->base, TERN_ERR_STATE,
                               "another version of Tern has changed the database's schema "
                               "meanwhile; start this program again, in that version");
}
