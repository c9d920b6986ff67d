// Files around a database in one file: which may be opened, and how a new one appears whole or not
// at all. Only sql_sqlite.c, sql_sqlite_disk.c and store.c include this.
#ifndef TERN_STORE_SQL_FILE_H
#define TERN_STORE_SQL_FILE_H

#include "result.h"
#include <stdbool.h>

#define TERN_SQL_FILE_RESERVE "-reserve" // beside a database, of nothing but room
#define TERN_SQL_FILE_ID 0x5465726e      // "Tern": SQLite's application_id

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

// *has_log: there is a log beside a database that may hold what the file does not yet; *has_index: and
// SQLite's index of it. An index of few bytes is one that a full disk had no room for.
// TERN_ERR_ARGUMENT  the path is too long
TERN_MUST_USE enum tern_result tern_sql_file_log(const char *path, bool *has_log, bool *has_index,
                                                 char why[256]);

// Copies a database that nobody has open, such as a backup, into a new file, mode 0600.
// TERN_ERR_NOT_FOUND  there is no file `from`; as tern_sql_file_check()
// TERN_ERR_STATE      it has a log beside it: it is in use, or was when it was copied
// TERN_ERR_CONFLICT   `to` is there already
TERN_MUST_USE enum tern_result tern_sql_file_copy(const char *from, const char *to, char why[256]);

// Makes `file`, complete and closed, take the place of the database `path` at once and durably. What
// was there, its log included, gets the names that begin with `kept`. Where a database has no log, a
// kill or a power cut leaves the old one whole or the new one.
// TERN_ERR_CONFLICT  there is something of the name `kept`; nothing has changed
TERN_MUST_USE enum tern_result tern_sql_file_replace(const char *file, const char *path,
                                                     const char *kept, char why[256]);

// Removes a database that is not in use, and what SQLite has beside it.
void tern_sql_file_remove(const char *path);

#endif
