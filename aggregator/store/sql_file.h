// Files around a database in one file: which may be opened, and how a new one appears whole or not
// at all. Only sql_sqlite.c includes this.
#ifndef TERN_STORE_SQL_FILE_H
#define TERN_STORE_SQL_FILE_H

#include "result.h"

#define TERN_SQL_FILE_ID 0x5465726e // "Tern": SQLite's application_id

// Looks at the first bytes of a file without SQLite, so that a foreign file is never touched.
// TERN_ERR_NOT_FOUND, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_sql_file_check(const char *path, char why[256]);

// Makes an empty file, mode 0600.
// TERN_ERR_CONFLICT  it is there already.
TERN_MUST_USE enum tern_result tern_sql_file_make(const char *path, char why[256]);

// Makes `temporary`, complete and closed, appear as `path` at once and durably.
// TERN_ERR_CONFLICT  `path` is there already. `temporary` is gone either way.
TERN_MUST_USE enum tern_result tern_sql_file_publish(const char *temporary, const char *path,
                                                     char why[256]);

#endif
