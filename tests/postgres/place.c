#include "tests/postgres/place.h"

#include <stdio.h>
#include <stdlib.h>
#ifdef TERN_POSTGRESQL
#include <libpq-fe.h>
#endif
#include <unistd.h>

static const char *url(void)
{
    return getenv("TERN_TEST_STORE");
}

bool test_store_is_postgres(void)
{
    return url() != NULL;
}

static void make_schema(const char *name)
{
#ifdef TERN_POSTGRESQL
    char text[96];
    PGconn *connection = PQconnectdb(url());
    snprintf(text, sizeof text, "CREATE SCHEMA %s", name);
    PGresult *result = PQexec(connection, text);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fprintf(stderr, "%s: %s", text, PQerrorMessage(connection));
        exit(1);
    }
    PQclear(result);
    PQfinish(connection);
#else
    fprintf(stderr, "%s: there is no PostgreSQL in this build\n", name);
    exit(1);
#endif
}

void test_store_place(const char *folder, const char *name, char *path, size_t size)
{
    static unsigned made;
    char schema[64];
    if (!test_store_is_postgres()) {
        snprintf(path, size, "%s/%s", folder, name);
        return;
    }
    snprintf(schema, sizeof schema, "t%ld_%u", (long)getpid(), ++made);
    make_schema(schema);
    snprintf(path, size, "%s&options=-csearch_path%%3D%s", url(), schema);
}
