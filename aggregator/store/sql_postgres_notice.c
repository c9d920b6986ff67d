// What aggregators on one database tell each other: notices, which a connection is sent beside all else.
#include "store/sql_postgres.h"

#include <errno.h>
#include <poll.h>

static bool give(struct postgres *pg, tern_sql_hearer hear, void *ctx)
{
    bool given = false;
    if (pg->may_have_missed) {
        pg->may_have_missed = false;
        hear(ctx, "");
        given = true;
    }
    for (PGnotify *notice; (notice = PQnotifies(pg->connection)) != NULL; PQfreemem(notice)) {
        hear(ctx, notice->extra);
        given = true;
    }
    return given;
}

static enum tern_result take_in(struct postgres *pg)
{
    if (PQconsumeInput(pg->connection) == 1) {
        return TERN_OK;
    }
    pg->lost = true;
    return tern_postgres_failed(pg, NULL);
}

enum tern_result tern_postgres_await(struct tern_sql *sql, int wake, uint32_t ms,
                                     tern_sql_hearer hear, void *ctx)
{
    struct postgres *pg = postgres_of(sql);
    TERN_TRY(tern_postgres_be_connected(pg));
    TERN_TRY(tern_postgres_settle(pg));
    TERN_TRY(take_in(pg));
    if (give(pg, hear, ctx)) {
        return TERN_OK;
    }
    struct pollfd of[] = {{.fd = PQsocket(pg->connection), .events = POLLIN},
                          {.fd = wake, .events = POLLIN}};
    if (poll(of, 2, (int)ms) < 0 && errno != EINTR) {
        return tern_sql_fail(sql, TERN_ERR_IO, "waiting for PostgreSQL failed");
    }
    if (of[0].revents != 0) {
        TERN_TRY(take_in(pg));
    }
    (void)give(pg, hear, ctx);
    return TERN_OK;
}
