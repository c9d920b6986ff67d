// Which database a path is of, and what each has a way of its own to make and to open.
#include "store/sql_driver.h"

#include <stdio.h>
#include <string.h>

// --- Which database

bool tern_sql_is_url(const char *path)
{
    return strncmp(path, "postgresql://", 13) == 0 || strncmp(path, "postgres://", 11) == 0;
}

static enum tern_result driver_of(const char *path, const struct tern_sql_driver **driver,
                                  char why[256])
{
    *driver = &tern_sqlite_driver;
    if (!tern_sql_is_url(path)) {
        return TERN_OK;
    }
#ifdef TERN_POSTGRESQL
    (void)why;
    *driver = &tern_postgres_driver;
    return TERN_OK;
#else
    snprintf(why, 256,
             "this build has no PostgreSQL; build it where libpq-dev is installed, or name a file");
    return TERN_ERR_CONFIG;
#endif
}

// --- Life

enum tern_result tern_sql_create(const char *path, tern_sql_filler fill, void *ctx, char why[256])
{
    const struct tern_sql_driver *driver;
    TERN_TRY(driver_of(path, &driver, why));
    return driver->create(path, fill, ctx, why);
}

enum tern_result tern_sql_open(const char *path, struct tern_sql **out, char why[256])
{
    const struct tern_sql_driver *driver;
    TERN_TRY(driver_of(path, &driver, why));
    return driver->open(path, out, why);
}

enum tern_result tern_sql_open_reading(const char *path, struct tern_sql **out, char why[256])
{
    const struct tern_sql_driver *driver;
    TERN_TRY(driver_of(path, &driver, why));
    return driver->open_reading(path, out, why);
}

enum tern_result tern_sql_open_again(const char *path, struct tern_sql **out, char why[256])
{
    const struct tern_sql_driver *driver;
    TERN_TRY(driver_of(path, &driver, why));
    return driver->open_again(path, out, why);
}

enum tern_result tern_sql_open_hurried(const char *path, struct tern_sql **out, char why[256])
{
    const struct tern_sql_driver *driver;
    TERN_TRY(driver_of(path, &driver, why));
    return driver->open_hurried(path, out, why);
}
